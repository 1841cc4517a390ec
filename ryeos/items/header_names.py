"""Names of fields in other letters: the same to a reader, and to no parser.

A file of its own, as every reader of a file type asks it, and `ryeos.items.declarations` asks them.
"""

import re
import unicodedata

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
