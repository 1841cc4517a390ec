"""Words: texts cut into words, and words into the parts they are found by. Pure.

An identifier is letters and digits, joined by ``_ - / . :``. It is one word with several forms:
the whole, its runs of letters and digits, and the parts of a run (``stateGraph`` is ``state``,
``graph``; ``sha256`` is ``sha``, ``256``). Chinese, Japanese and Korean, which put no blanks
between words, are cut into pairs of characters. Texts are compared in NFKC, case folded.
"""

import re
from functools import lru_cache
from itertools import pairwise
from unicodedata import normalize

from lillux.values import dataclass

# Words of English that narrow no search, those of questions among them.
# fmt: off
STOP_WORDS = frozenset(
    (
        "a", "an", "and", "are", "as", "at", "be", "by", "can", "could", "do", "does", "for",
        "from", "had", "has", "have", "how", "i", "in", "is", "it", "its", "me", "my", "of", "on",
        "or", "our", "should", "that", "the", "their", "there", "these", "they", "this", "to",
        "was", "we", "were", "what", "when", "where", "which", "who", "why", "will", "with",
        "would", "you", "your",
    )
)
# fmt: on

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\U00020000-\U0003ffff"
_IDENTIFIER = re.compile(r"[^\W_]+(?:[_\-/.:]+[^\W_]+)*[+#]*")
_RUN = re.compile(r"[^\W_]+")
# The same for ASCII, in half the time: a class of ranges is a table, one of Unicode is a call.
_ASCII_IDENTIFIER = re.compile(r"[A-Za-z0-9]+(?:[_\-/.:]+[A-Za-z0-9]+)*[+#]*")
_ASCII_RUN = re.compile(r"[A-Za-z0-9]+")
_CJK_RUN = re.compile(f"[{_CJK}]+")
_PART = re.compile(f"[{_CJK}]+|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")


@dataclass(frozen=True, slots=True)
class Word:
    """An identifier as it can be found, everything case folded.

    runs   the runs of letters and digits
    parts  for each run its parts, in order; a run that has none but itself is its own part
    forms  the whole, the runs and the parts, each once
    sequence  the parts of all runs, one position each
    """

    whole: str
    runs: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    forms: frozenset[str]
    sequence: tuple[str, ...]


def normalized(text: str) -> str:
    """The text in NFKC, its case kept."""
    return text if text.isascii() else normalize("NFKC", text)


def folded(text: str) -> str:
    """The text as it is compared."""
    return normalized(text).casefold()


def identifiers(text: str) -> list[str]:
    """The identifiers of a text in NFKC, as they are written."""
    return (_ASCII_IDENTIFIER if text.isascii() else _IDENTIFIER).findall(text)


def is_cjk(text: str) -> bool:
    """True if a text is of characters that are no words without blanks."""
    return _CJK_RUN.fullmatch(text) is not None


def count_runs(text: str) -> int:
    """Number of runs of letters and digits in a text in NFKC."""
    if text.isalnum():
        return 1
    return len((_ASCII_RUN if text.isascii() else _RUN).findall(text))


@lru_cache(maxsize=65536)
def cached_word(identifier: str) -> Word:
    """The same as `word_of`, for texts that are read again and again."""
    return word_of(identifier)


def word_of(identifier: str) -> Word:
    """The forms of an identifier."""
    whole = identifier.casefold()
    if (
        identifier.isascii()
        and whole.isalpha()
        and (whole == identifier or identifier[1:].islower())
    ):
        return Word(whole, (whole,), ((whole,),), frozenset((whole,)), (whole,))
    written = _RUN.findall(identifier)
    runs = tuple(run.casefold() for run in written)
    parts = tuple(_parts(run) for run in written)
    in_order = tuple(part for several in parts for part in several)
    return Word(whole, runs, parts, frozenset((whole, *runs, *in_order)), in_order)


def sequence(text: str) -> list[str]:
    """The parts of a text in NFKC, in order: what phrases and windows count."""
    return [part for name in identifiers(text) for part in cached_word(name).sequence]


def _parts(run: str) -> tuple[str, ...]:
    pieces: list[str] = []
    for piece in _pieces(run):
        if len(piece) > 1 and is_cjk(piece):
            pieces.extend(first + second for first, second in pairwise(piece))
        else:
            pieces.append(piece.casefold())
    return tuple(pieces) or (run.casefold(),)


def _pieces(run: str) -> list[str]:
    if run.isascii():
        return _PART.findall(run)
    pieces: list[str] = []
    start = 0
    for place in range(1, len(run)):
        if _is_border(run, place):
            pieces.append(run[start:place])
            start = place
    return [*pieces, run[start:]]


def _is_border(run: str, place: int) -> bool:
    """True if a part ends before this place: another script, a digit, or an upper-case letter."""
    before, after = run[place - 1], run[place]
    if is_cjk(before) != is_cjk(after) or before.isdigit() != after.isdigit():
        return True
    if not after.isupper():
        return False
    return before.islower() or (before.isupper() and run[place + 1 : place + 2].islower())
