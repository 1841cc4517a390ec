"""Places of a text that bind a name, and names that look like those of fields.

A file of its own, imported late by `ryeos.items.declarations` and the readers of file types.
"""

import re
import unicodedata

from lillux.values import dataclass

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
    """Whether a name is that of the block of rights, or one slip away from it."""
    return is_one_slip(squashed(name), SANDBOX)


def is_one_slip(word: str, wanted: str) -> bool:
    """Whether a word is another one, but for at most one letter or two that changed places."""
    if word == wanted:
        return True
    short, long = sorted((word, wanted), key=len)
    at = next((n for n, one in enumerate(short) if one != long[n]), len(short))
    if len(short) == len(long):
        swapped = long[:at] + long[at + 1 : at + 2] + long[at : at + 1] + long[at + 2 :]
        return short[at + 1 :] == long[at + 1 :] or short == swapped
    return len(short) + 1 == len(long) and short[at:] == long[at + 1 :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A place of a text that gives a name its value, or changes it.

    how             what happens there, behind the name: ``is imported``
    is_read         whether it is what the header's parser reads
    is_inner        whether it is below the top level
    value           as written, where bindings are compared by it
    """

    name: str
    line: int
    how: str
    is_read: bool = False
    is_inner: bool = False
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """A line that seems to declare a field of a header, and that Rye does not read."""

    line: int
    name: str
    field: str
    problem: str

    def __str__(self) -> str:
        name = self.name if self.name.isprintable() else ascii(self.name)[1:-1]
        shown_name = name[:80] if name.isascii() else f"{name[:80]} ({ascii(name[:80])[1:-1]})"
        return f"line {self.line}: {shown_name} {self.problem}"
