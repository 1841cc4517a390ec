"""The quick search for words of a text that may be declarations: most texts end here.

See `ryeos.items.declarations`.
"""

from collections.abc import Mapping
from typing import Any

from lillux.patterns import pattern
from ryeos.items.declared_names import (
    DATA_SUFFIXES,
    FIELDS,
    PLAIN_CONSTANTS,
    doubtful_keys,
    fields_of,
)
from ryeos.items.header_names import has_sandbox_words, sandbox_words, seems_sandbox, skeleton
from ryeos.items.inner_keys import inner_blocks, inner_names
from ryeos.items.refs import Kind

_DUNDERS = tuple(sorted(name for name in FIELDS if name.startswith("__")))
_SPELT = tuple(
    sorted({name.lower() for name in FIELDS if "_" in name.strip("_") and name[0] != "_"})
)
_MAIN = pattern(r"__name__ *[=!]=|[(\[] *__name__ *[)\]]")
_BY_TEXT = pattern(r"\b(?:globals|locals|vars|exec|eval|__dict__|\w*attr(?:__)?)\b|__builtins__")
_LINE_ENDS = pattern("\r(?!\n)|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def may_have_unread(kind: Kind, suffix: str, text: str, header: Mapping[str, Any]) -> bool:
    """True if a text has words that `unread_declarations` must look at: a quick search."""
    from ryeos.items.comment_fields import may_have_fields

    if kind is Kind.TOOL and next(inner_blocks(suffix, header), None):
        return True
    if kind is Kind.TOOL and next(inner_names(suffix, header), None):
        return True
    if kind is Kind.KNOWLEDGE or suffix in DATA_SUFFIXES:
        fields = fields_of(kind)
        is_doubtful = (
            (kind is Kind.TOOL and "#" in text)
            or "<<" in text
            or "\n---" in text
            or text.startswith("---\n---")
        )
        return is_doubtful or next(doubtful_keys(header, fields), None) is not None
    if suffix == ".py" and text.isascii():
        return (
            _BY_TEXT.search(text) is not None
            or any(isinstance(header[name], (dict, list)) for name in header if name in FIELDS)
            or _has_further_words(text, header)
            or may_have_fields(text)
        )
    if suffix == ".sh" and text.isascii() and not _LINE_ENDS.search(text):
        return next(sandbox_words(text), None) is not None or may_have_fields(text)
    return True


def _has_further_words(text: str, header: Mapping[str, Any]) -> bool:
    """True if a name of the header is there more often than the parser has read it.

    Counts of fixed texts, which take a hundredth of what parsing the file takes.
    """
    lowered = text.lower()
    letters = lowered.replace("_", "")
    blocks = "SANDBOX" in header or ("sandbox" in header and "sandbox" in text)
    found = max(letters.count("sand"), letters.count("box")) + letters.count("sanbdox")
    if found > blocks:
        return True
    read = [name for name in header if name in FIELDS and name in text]
    if text.count("__") > 2 * sum(name.startswith("__") for name in read):
        for name in _DUNDERS:
            if lowered.count(name[:-2]) > (name in read) and not _is_main(name, text):
                return True
    for word in PLAIN_CONSTANTS:
        if text.count(word) > sum(word in name for name in read):
            return True
    names = "\n".join(name.lower() for name in read if not name.islower() or name[:1] == "_")
    return any(lowered.count(word) > names.count(word) for word in _SPELT)


def _is_main(name: str, text: str) -> bool:
    """True if ``__name__`` is there only to be compared."""
    return name == "__name__" and text.count(name) == len(_MAIN.findall(text))


def may_have_unread_rights(text: str, *, has_rights: bool) -> bool:
    """True if `unread_rights` must look at a text: the search of each run, in one pass or two."""
    lowered = text.lower()
    if not text.isascii():
        lowered = skeleton(lowered)
    if not has_sandbox_words(lowered):
        return False
    return sum(map(seems_sandbox, sandbox_words(lowered))) > (1 if has_rights else 0)
