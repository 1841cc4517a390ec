"""Headers in the comments at the top of a file, whatever the language: tags, or a YAML block.

A line counts if it begins with the language's mark for a comment to the end of the line; the
first line that is neither such a comment nor blank ends the header. Page: ``docs/items.md``.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from lillux.patterns import pattern
from ryeos.items.header_values import (
    TAGS,
    MetadataError,
    UnreadableValueError,
    plain_value,
    require_parsable_text,
    shown,
    unquoted,
)
from ryeos.items.json_documents import object_of_unique_keys

_TAG = pattern(r"[ \t]*@(\w+)[ \t]+(.+)")
_FIELD = pattern(r"[ \t]*(\w+):[ \t]+(.+)")
_DUNDER = pattern(r"[ \t]*(__\w+__)[ \t]*=[ \t]*(.+)")
_SCHEMA = pattern(
    r"[ \t]*(?:@config_schema[ \t]|(?:config_schema|input_schema|CONFIG_SCHEMA)[ \t]*[:=])(.*)"
)
_SANDBOX = pattern(r"[ \t]*(?:@sandbox[ \t]|(?:sandbox|SANDBOX)[ \t]*[:=])(.*)")
_FENCE = "---"


def parse_tags(text: str, mark: str) -> dict[str, Any]:
    """Fields that the comments set, under the names that Python files use; values are strings.

    ``version: 1.0.0`` and ``@version 1.0.0`` for the known words
    (`ryeos.items.header_values.TAGS`), ``__version__ = "1.0.0"`` for any name. Later in this list
    wins over earlier, and the last of a kind over those before it. ``config_schema: {...}`` and
    ``sandbox: {...}`` are JSON, which may continue in the comments below it.

    Raises MetadataError, also for one of these that cannot be read: without it nothing is checked.
    """
    require_parsable_text("comments", text)
    fields: dict[str, Any] = {}
    tags: dict[str, Any] = {}
    dunders: dict[str, Any] = {}
    blocks: dict[str, Any] = {}
    comments = list(_comments(text, mark))
    for index, (number, line) in enumerate(comments):
        below = [more for _, more in comments[index + 1 :]]
        if found := _SCHEMA.fullmatch(line):
            blocks["config_schema"] = _object_in([found[1], *below], number, "config_schema")
        elif found := _SANDBOX.fullmatch(line):
            blocks["sandbox"] = _object_in([found[1], *below], number, "sandbox")
        elif (field := _FIELD.fullmatch(line)) and field[1] in TAGS:
            fields[TAGS[field[1]]] = unquoted(field[2])
        elif (tag := _TAG.fullmatch(line)) and tag[1] in TAGS:
            tags[TAGS[tag[1]]] = unquoted(tag[2])
        elif dunder := _DUNDER.fullmatch(line):
            dunders[dunder[1]] = unquoted(dunder[2])
    return fields | tags | dunders | blocks


def read_tag(comment: str) -> tuple[str, str] | None:
    """The field that `parse_tags` reads in a comment behind its mark, and the value as written."""
    if found := _SCHEMA.fullmatch(comment):
        return "config_schema", found[1].strip()
    if found := _SANDBOX.fullmatch(comment):
        return "sandbox", found[1].strip()
    if (found := _FIELD.fullmatch(comment) or _TAG.fullmatch(comment)) and found[1] in TAGS:
        return TAGS[found[1]].strip("_"), unquoted(found[2])
    found = _DUNDER.fullmatch(comment)
    return (found[1].strip("_"), unquoted(found[2])) if found else None


def read_block(comment: str) -> str:
    """The text of a comment behind the name of an object that may go on below it, ``""`` else."""
    found = _SCHEMA.fullmatch(comment) or _SANDBOX.fullmatch(comment)
    return found[1] if found else ""


def _object_in(lines: Sequence[str], number: int, name: str) -> dict[str, Any]:
    """The JSON object that these lines begin with. Raises MetadataError, at line ``number``."""
    import json

    decoder = json.JSONDecoder(object_pairs_hook=object_of_unique_keys)
    text = "\n".join(lines).lstrip()
    try:
        value, end = decoder.raw_decode(text)
        value = plain_value(value)
        if not isinstance(value, dict):
            problem = "expected an object"
        elif behind := text[end:].partition("\n")[0].strip():
            problem = f"expected nothing behind the object, found {shown(behind)}"
        else:
            return value
    except json.JSONDecodeError as error:
        problem, number = f"expected JSON: {error.msg}", number + error.lineno - 1
    except UnreadableValueError as error:
        problem = error.problem
    except (ValueError, RecursionError) as error:
        problem = f"expected JSON: {error}"
    raise MetadataError("comments", f"{name}: {problem}", number)


def parse_block(text: str, mark: str) -> dict[str, Any]:
    """The YAML mapping between the first two comments that say ``---``; nothing without the first.

    Raises MetadataError.
    """
    from ryeos.items.yaml import parse_yaml

    require_parsable_text("comments", text)
    begun = 0
    lines: list[str] = []
    for number, line in _comments(text, mark):
        if line.strip() == _FENCE:
            if begun:
                # Blank lines above, so that messages count as editors do.
                return parse_yaml("\n" * begun + "\n".join(lines), "comments header")
            begun = number
        elif begun:
            lines += [""] * (number - begun - len(lines) - 1)
            lines.append(line.removeprefix(" "))
    if begun:
        problem = f"expected another comment {_FENCE} below, found none"
        raise MetadataError("comments", problem, begun)
    return {}


def without_first_lines(text: str, prefix: str, *, shebang: bool) -> str:
    """The text with a blank line for its signature, and with ``shebang`` for such a line."""
    lines = text.split("\n", 2)
    at = 1 if shebang and lines[0].startswith("#!/") else 0
    if at:
        lines[0] = ""
    if at < len(lines) and lines[at].startswith(f"{prefix} rye:signed:"):
        lines[at] = ""
    return "\n".join(lines)


def _comments(text: str, mark: str) -> Iterator[tuple[int, str]]:
    """The lines of the header behind their marks, each with its number, counted from 1."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(mark):
            yield number, line[len(mark) :]
        elif line.strip(" \t\r"):  # a form feed is no blank for a shell
            return
