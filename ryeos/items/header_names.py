"""Places of a text that bind a name, and names that look like those of fields.

A file of its own, imported late by `ryeos.items.declarations` and the readers of file types.
"""

import re
import unicodedata
from collections.abc import Iterator

from lillux.foreign_text import printable
from lillux.patterns import pattern
from lillux.values import dataclass
from ryeos.items.rights import KEYS

# Letters that look like those of a field's name; full-width ones are folded by NFKC.
_LOOKALIKES = str.maketrans(
    "ѕЅаАɑαΑԁЬьβВΒоОοΟօхХχΧеЕεΕсСϲіІιΙтТτΤуУυΥрРρΡνΝмМΜкКκΚнНΗјЈгո",
    "sSaAaaAdbbbBBoOoOoxXxXeEeEcCciIiItTtTyYuYpPpPvNmMMkKkKhHHjJrn",
)
SANDBOX = "sandbox"


def skeleton(text: str) -> str:
    """The text with Latin letters for those that look like them, and without what is not seen."""
    if text.isascii():
        return text
    folded = unicodedata.normalize("NFKD", text.translate(_LOOKALIKES))
    return "".join(one for one in folded if unicodedata.category(one) not in {"Cf", "Mn"})


def squashed(name: str) -> str:
    """A name as a reader takes it: small letters, without lines and blanks."""
    return re.sub(r"[\s_-]", "", skeleton(name)).casefold()


def seems_sandbox(name: str) -> bool:
    """True if a name is that of the block of rights, or one slip away from it."""
    return is_one_slip(squashed(name), SANDBOX)


_LETTERS = pattern(r"[\W_]+")


def seems_right(name: str) -> bool:
    """True if a name is that of one right of the block: ``sandbox.write``, ``SANDBOX_WRITE``.

    ``sandbox_env`` is not, as programs have environments called so.
    """
    name = skeleton(name)
    letters = _LETTERS.sub("", name).casefold()
    for right in KEYS:
        if letters.endswith(right) and is_one_slip(letters.removesuffix(right), SANDBOX):
            return right != "env" or re.search(r"[^\w\s-]", name) is not None
    return False


def seems_rights(name: str) -> bool:
    """True if a name is that of the block of rights or of one of them, or one slip away."""
    return seems_sandbox(name) or seems_right(name)


# Signs that look like those behind a field's name, blanks that look like blanks.
_SIGNS_ALIKE = str.maketrans(
    {
        **dict.fromkeys("\uff1a\ufe55\ufe13\u2236\ua789\u02d0\u02d1\u02f8\u0589\u05c3\u16ec", ":"),
        **dict.fromkeys(
            "\u0703\u0704\u1361\u1803\u1809\u205a\u2237\u29f4\u2982\ufe30\u22ee\u0903", ":"
        ),
        **dict.fromkeys("\u2192\u21d2\u21a6\u27f6\u27f9\u279c\u2794\u2b62\u2254\u2a74\u225d", ":"),
        **dict.fromkeys(
            "\uff1d\ufe66\ua78a\u2550\u30a0\u2e40\u1400\u207c\u208c\u2261\u2263\u268c", "="
        ),
        **dict.fromkeys("\uff5b\ufe5b\u2774\u2983", "{"),
        **dict.fromkeys("\uff3b\u27e6\u3010\u3014", "["),
        **dict.fromkeys("\uff08\ufe59", "("),
        **dict.fromkeys("\uff20\ufe6b", "@"),
        **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb\uff02", '"'),
        **dict.fromkeys("\u2018\u2019\uff07", "'"),
        **dict.fromkeys(map(chr, (*range(0x2000, 0x200B), 0x00A0, 0x202F, 0x205F, 0x3000)), " "),
    }
)


def with_plain_signs(text: str) -> str:
    """The text with ASCII signs and blanks for those that look like them, and nothing unseen."""
    if text.isascii():
        return text
    plain = text.translate(_SIGNS_ALIKE)
    return "".join(one for one in plain if unicodedata.category(one) != "Cf")


def is_one_slip(word: str, wanted: str) -> bool:
    """True if a word is another one, but for at most one letter or two that changed places."""
    if word == wanted:
        return True
    short, long = sorted((word, wanted), key=len)
    at = next((n for n, one in enumerate(short) if one != long[n]), len(short))
    if len(short) == len(long):
        swapped = long[:at] + long[at + 1 : at + 2] + long[at : at + 1] + long[at + 2 :]
        return short[at + 1 :] == long[at + 1 :] or short == swapped
    return len(short) + 1 == len(long) and short[at:] == long[at + 1 :]


# One slip of ``sandbox`` leaves one of these whole; see `is_one_slip`.
_CORES = pattern(r"(?i)s_*a_*n_*b_*d_*o_*x|s_*a_*n_*d(?:[ -]?b_*o_*x)?|b_*o_*x")
_LONGEST = 40
_SIGNS = pattern(r"(?:={1,3}>?|:=?|->)\s*[\"'`(]*[{\[](?!\s*(?:\.\.\.|\u2026))")
_NAMED = re.compile(r"(\w+(?:[ ./-]\w+)?)(?:\s*:\s*([\w.]+))?[\s\"'`)\]*>]*\Z")
_FIRST = pattern(r"[^\w@]*(@?)(\w+(?:[./:-]\w+)*)[\"'`)\]*]*[ \t\u00a0]*([:=]?)[ \t\u00a0]*(.*)")
_VALUE = pattern(
    r"(?i)[^\w\s]*|[({\[].*|[\"'`]*(?:any|none|null|nothing|true|false|undefined)\b\W*"
)


def sandbox_words(text: str) -> Iterator[str]:
    """The words of a text that seem to name the block of rights, or one of them.

    Looks around the letters that such a word has, so that a long text takes one pass.
    """
    text = skeleton(text) if not text.isascii() else text
    last = -1
    for core in _CORES.finditer(text):
        start, end = core.span()
        if start < last:
            continue
        while start and core.start() - start < _LONGEST and _is_letter(text[start - 1]):
            start -= 1
        while end < len(text) and end - core.end() < _LONGEST and _is_letter(text[end]):
            end += 1
        last = end
        if seems_rights(text[start:end]):
            yield text[start:end]


def _is_letter(one: str) -> bool:
    return one.isalnum() or one == "_"


def declared_in_comment(comment: str, *, is_header: bool = False) -> str:
    """The name with which a line of a comment seems to declare rights, ``""`` where it does not.

    That is a name like ``sandbox`` with a sign and a bracket, wherever it stands; or as the first
    word with what looks like a value. ``is_header``: among comments that declare fields, where
    nothing behind the sign is prose.
    """
    if next(sandbox_words(comment), None) is None:
        return ""
    comment = with_plain_signs(comment)
    for sign in _SIGNS.finditer(comment):
        named = _NAMED.search(comment, max(sign.start() - _LONGEST, 0), sign.start())
        if named:
            for name in (named[1], re.split("[ ./-]", named[1])[-1], named[2]):
                if name and seems_rights(name):
                    return name
    found = _FIRST.match(comment.rstrip("\r"))
    if not found or not seems_rights(found[2]):
        return ""
    tag, name, sign_behind, value = found.groups()
    if value.startswith(("{", "[")) and not value.startswith(("{...", "{\u2026")):
        return name
    is_exact = squashed(name) == SANDBOX or seems_right(name)
    is_value = is_header or bool(tag) or bool(_VALUE.fullmatch(value))
    return name if is_exact and (sign_behind or tag) and is_value else ""


def has_sandbox_words(lowered: str) -> bool:
    """True if `sandbox_words` may find any in a text of small ASCII letters: a quick search."""
    if "_" in lowered:
        lowered = lowered.replace("_", "")
    return "sand" in lowered or "box" in lowered or "sanbdox" in lowered


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A place of a text that gives a name its value, or changes it.

    how             what happens there, behind the name: ``is imported``
    is_read         whether it is what the header's parser reads
    is_inner        whether it is below the top level
    is_use          whether nothing is bound, and the value as a whole is handed on
    value           as written, where bindings are compared by it
    """

    name: str
    line: int
    how: str
    is_read: bool = False
    is_inner: bool = False
    is_use: bool = False
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A line that seems to declare a field of a header, and that Rye does not read."""

    line: int
    name: str
    field: str
    problem: str

    def __str__(self) -> str:
        name = printable(self.name, 80)
        shown_name = name if name.isascii() else f"{name} ({ascii(name)[1:-1]})"
        return f"line {self.line}: {shown_name} {self.problem}"
