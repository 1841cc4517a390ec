r"""The grammar of queries: a text becomes a tree, or an error with a position. Pure.

    query  := or
    or     := and ( ("OR" | "|") and )*
    and    := unary ( ("AND" | "&")? unary )*
    unary  := ("NOT" | "-" | "!")* atom
    atom   := "(" or ")" | field ":" value | phrase | term
    value  := phrase | term | "(" or ")"
    phrase := '"' characters '"'
    term   := characters other than blanks ( ) "

Two words side by side must both occur. ``\"`` and ``\\`` are escapes in a phrase. A term may
hold ``*`` and ``?``. Reference: ``docs/items.md``.
"""

import re
from collections.abc import Callable, Iterator
from fnmatch import translate
from functools import lru_cache
from itertools import pairwise
from unicodedata import normalize

from lillux.text import edit_distance
from lillux.values import dataclass
from ryeos.items.errors import InvalidQueryError

MAX_TERMS = 32
MAX_NESTING = 32
MAX_QUERY_CHARACTERS = 4096

FIELDS = (
    "title", "name", "id", "description", "category", "tags", "content",
)  # fmt: skip
_NAMED_FIELDS = frozenset({*FIELDS, "version", "author"})

_OPERATORS = {
    **dict.fromkeys(("OR", "|"), "or"),
    **dict.fromkeys(("AND", "&"), "and"),
    "NOT": "not",
}
_TOKEN = re.compile(
    r'\s+|(?P<paren>[()])|"(?P<phrase>(?:[^"\\]|\\.)*)"|(?P<word>[^\s()"]+)|(?P<open>")', re.DOTALL
)
_FIELD = re.compile(r"(?P<name>[^\W\d][\w.-]*):(?P<value>.*)", re.DOTALL)
_ESCAPE = re.compile(r'\\(["\\])')


@dataclass(frozen=True, slots=True)
class Term:
    """A word to find, as written; ``*`` and ``?`` in it stand for other characters."""

    text: str


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that must follow one another."""

    text: str


@dataclass(frozen=True, slots=True)
class InField:
    """A part of a query that is looked for in one field only; ``written`` is all of it."""

    name: str
    part: "QueryNode"
    written: str = ""


@dataclass(frozen=True, slots=True)
class NotQuery:
    """What must not match."""

    part: "QueryNode"


@dataclass(frozen=True, slots=True)
class And:
    """Parts that must all match; without any, everything does."""

    parts: tuple["QueryNode", ...] = ()


@dataclass(frozen=True, slots=True)
class Or:
    """Parts of which one must match."""

    parts: tuple["QueryNode", ...]


QueryNode = Term | Phrase | InField | NotQuery | And | Or
EVERYTHING = And()


@dataclass(frozen=True, slots=True)
class Query:
    """A parsed query. ``is_plain``: words side by side, without operator, field or quote."""

    text: str
    node: QueryNode
    is_plain: bool = True

    @property
    def terms(self) -> tuple[Term, ...]:
        """The words of a plain query."""
        parts = self.node.parts if isinstance(self.node, And) else (self.node,)
        return tuple(part for part in parts if isinstance(part, Term))


@dataclass(frozen=True, slots=True)
class _Token:
    """``kind`` is or, and, not, (, ), phrase, term, field or end."""

    kind: str
    position: int
    text: str = ""
    written: str = ""


def parse_query(text: str) -> Query:
    """The query that a text is. Raises InvalidQueryError."""
    if len(text) > MAX_QUERY_CHARACTERS:
        raise InvalidQueryError(
            f"expected at most {MAX_QUERY_CHARACTERS} characters, found {len(text)}",
            MAX_QUERY_CHARACTERS,
        )
    tokens = list(_tokens(text))
    _validate_count(tokens)
    is_plain = all(token.kind in {"term", "end"} for token in tokens)
    parser = _Parser(tokens)
    node = EVERYTHING if len(tokens) == 1 else parser.alternatives(0)
    parser.expect_end()
    return Query(text.strip(), _without_empty_words(node, is_plain=is_plain), is_plain)


def _validate_count(tokens: list[_Token]) -> None:
    leaves = [token for token in tokens if token.kind in {"term", "phrase"}]
    if len(leaves) > MAX_TERMS:
        raise InvalidQueryError(
            f"expected at most {MAX_TERMS} words, found {len(leaves)}", leaves[MAX_TERMS].position
        )


# --- tokens ---------------------------------------------------------------------------------------


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        position = match.start()
        if match["paren"]:
            yield _Token(match["paren"], position)
        elif match["open"]:
            raise InvalidQueryError("expected a closing quote, found none", position)
        elif match["phrase"] is not None:
            yield _Token("phrase", position, _ESCAPE.sub(r"\1", match["phrase"]))
        elif match["word"]:
            yield from _word_tokens(match["word"], position)
    yield _Token("end", len(text))


def _word_tokens(word: str, position: int) -> Iterator[_Token]:
    while word[:1] in {"-", "!"}:
        yield _Token("not", position, word[0])
        word, position = word[1:], position + 1
    if not word:
        return
    field = _FIELD.fullmatch(word)
    if word in _OPERATORS:
        yield _Token(_OPERATORS[word], position, word)
    elif field:
        yield _Token("field", position, field["name"].lower(), word)
        if field["value"]:
            yield _Token("term", position + field.start("value"), field["value"])
    else:
        yield _Token("term", position, word)


# --- the tree -------------------------------------------------------------------------------------


class _Parser:
    """Reads tokens from the left; each method takes one rule of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._place = 0

    def expect_end(self) -> None:
        token = self._next
        if token.kind == ")":
            raise InvalidQueryError("expected an opening parenthesis for ')'", token.position)

    def alternatives(self, depth: int) -> QueryNode:
        parts = [self._all(depth)]
        while self._next.kind == "or":
            self._place += 1
            parts.append(self._all(depth))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _all(self, depth: int) -> QueryNode:
        parts = [self._unary(depth)]
        while self._next.kind not in {"or", ")", "end"}:
            if self._next.kind == "and":
                self._place += 1
            parts.append(self._unary(depth))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _unary(self, depth: int) -> QueryNode:
        negated = False
        while self._next.kind == "not":
            self._place += 1
            negated = not negated
        atom = self._atom(depth)
        return NotQuery(atom) if negated else atom

    def _atom(self, depth: int) -> QueryNode:
        token = self._take()
        if token.kind == "field":
            return self._field(token, depth)
        return self._value(token, depth)

    def _field(self, token: _Token, depth: int) -> QueryNode:
        if self._is_term_of(token):
            return InField(token.text, Term(self._take().text), token.written)
        is_adjacent = self._next.position == token.position + len(token.written)
        if token.text not in _NAMED_FIELDS and not is_adjacent:
            raise InvalidQueryError(
                f"expected a value for the field {token.text[:60]!r}, found none", token.position
            )
        following = self._take()
        if following.kind not in {"term", "phrase", "("}:
            raise InvalidQueryError(
                f"expected a value for the field {token.text[:60]!r}, found none", token.position
            )
        return InField(token.text, self._value(following, depth))

    def _is_term_of(self, field: _Token) -> bool:
        """Whether the value stands in the same run of characters as the field's name."""
        following = self._next
        return following.kind == "term" and following.position < field.position + len(field.written)

    def _value(self, token: _Token, depth: int) -> QueryNode:
        match token.kind:
            case "term":
                return Term(token.text)
            case "phrase":
                return Phrase(token.text)
            case "(":
                return self._group(token, depth)
            case ")":
                raise InvalidQueryError(
                    "expected a word before ')', or no parenthesis", token.position
                )
        raise self._no_operand(token)

    def _group(self, opening: _Token, depth: int) -> QueryNode:
        if depth == MAX_NESTING:
            raise InvalidQueryError(
                f"expected at most {MAX_NESTING} parentheses in each other, found more",
                opening.position,
            )
        node = self.alternatives(depth + 1)
        if self._take().kind != ")":
            raise InvalidQueryError("expected a closing parenthesis, found none", opening.position)
        return node

    def _no_operand(self, token: _Token) -> InvalidQueryError:
        """The failure at an operator, or at the end behind one."""
        before = self._tokens[self._place - 2] if self._place > 1 else token
        operator = token if token.kind in {"or", "and"} else before
        if operator.kind == "(":
            return InvalidQueryError(
                "expected a closing parenthesis, found none", operator.position
            )
        side = "before" if operator is token else "behind"
        return InvalidQueryError(
            f"expected a word {side} the operator {operator.text!r}, found none", operator.position
        )

    @property
    def _next(self) -> _Token:
        return self._tokens[min(self._place, len(self._tokens) - 1)]

    def _take(self) -> _Token:
        token = self._next
        self._place += 1
        return token


# --- words that say nothing -----------------------------------------------------------------------


def _without_empty_words(node: QueryNode, *, is_plain: bool) -> QueryNode:
    """Leave out what cannot narrow a search, as long as a word remains.

    A lone ``*`` matches everything; ``not`` and signs without a letter are no words. In a plain
    query stop words go too.
    """
    match node:
        case Term("*"):
            return EVERYTHING
        case And(parts):
            kept = [part for part in parts if not _is_empty(part, is_plain=is_plain)]
            everything = all(part == Term("*") for part in parts)
            chosen = () if everything else tuple(kept) or parts
            return chosen[0] if len(chosen) == 1 else And(chosen)
    return node


def _is_empty(part: QueryNode, *, is_plain: bool) -> bool:
    if not isinstance(part, Term):
        return False
    word = part.text.lower()
    if part.text == "*" or word == "not" or (is_plain and word in STOP_WORDS):
        return True
    return not identifiers(normalized(word))


# --- words ----------------------------------------------------------------------------------------
# What a word is: how texts are cut into words, and words into the parts they are found by. Pure.
#
# An identifier is letters and digits, joined by ``_ - / . :``. It is one word with several forms:
# the whole, its runs of letters and digits, and the parts of a run (``stateGraph`` is ``state``,
# ``graph``; ``sha256`` is ``sha``, ``256``). Chinese, Japanese and Korean, which put no blanks
# between words, are cut into pairs of characters. Texts are compared in NFKC, case folded.

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
    """Whether a text is of characters that are no words without blanks."""
    return _CJK_RUN.fullmatch(text) is not None


def count_runs(text: str) -> int:
    """How many runs of letters and digits a text in NFKC has."""
    if text.isalnum():
        return 1
    return len((_ASCII_RUN if text.isascii() else _RUN).findall(text))


@lru_cache(maxsize=65536)
def cached_word(identifier: str) -> Word:
    """As `word_of`, for texts that are read again and again."""
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
    """Whether a part ends before this place: another script, a digit, or an upper-case letter."""
    before, after = run[place - 1], run[place]
    if is_cjk(before) != is_cjk(after) or before.isdigit() != after.isdigit():
        return True
    if not after.isupper():
        return False
    return before.islower() or (before.isupper() and run[place + 1 : place + 2].islower())


# --- grades ---------------------------------------------------------------------------------------
# How well a term fits a word. Pure.
#
# 1.0   it is the word, one of its runs or parts, or fits it as a wildcard
# 0.6   the word, a run or a part begins with it (ASCII: from 3 characters)
# 0.4   fuzzy: few slips lie between it and the word, a run or a part
# 0.3   it stands inside the word (ASCII: from 4 characters)

GRADES = (1.0, 0.6, 0.4, 0.3)
EXACT, START, CLOSE, INSIDE = range(len(GRADES))
_SHORTEST_START, _SHORTEST_INSIDE = 3, 4
_WILD = re.compile(r"[*?]+")

# How often a word has a term, by grade.
Counts = tuple[int, int, int, int]
NONE: Counts = (0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Pattern:
    """A term made ready. ``pieces``: every word that fits has one of them in its whole."""

    pieces: tuple[str, ...]
    counts: Callable[[Word], Counts]
    fits: Callable[[str], bool] | None = None


def pattern_of(term: str, max_distance: int = 0) -> Pattern:
    """The pattern for a term as it was written."""
    text = folded(term)
    if _WILD.search(text):
        return _wildcard(text)
    starts = len(text) >= _SHORTEST_START or not text.isascii()
    inside = len(text) >= _SHORTEST_INSIDE or not text.isascii()
    distance = max_distance if len(text) > max_distance else 0
    pieces = (text,) if not distance else (text, *_halves(text, distance))

    def counts(word: Word) -> Counts:
        if text in word.whole:
            return _plain_counts(text, word, starts=starts, inside=inside)
        return (0, 0, _close_runs(text, word, distance), 0) if distance else NONE

    return Pattern(pieces, counts)


def _wildcard(text: str) -> Pattern:
    matches = re.compile(translate(text.replace("[", "[[]"))).match

    def fits(form: str) -> bool:
        return matches(form) is not None

    def counts(word: Word) -> Counts:
        if fits(word.whole):
            return (1, 0, 0, 0)
        runs = zip(word.runs, word.parts, strict=True)
        found = sum(1 for run, parts in runs if fits(run) or any(map(fits, parts)))
        return (found, 0, 0, 0)

    return Pattern((max(_WILD.split(text), key=len),), counts, fits)


def _plain_counts(text: str, word: Word, *, starts: bool, inside: bool) -> Counts:
    if text == word.whole:
        return (1, 0, 0, 0)
    exact = start = within = 0
    for run, parts in zip(word.runs, word.parts, strict=True):
        if run == text or text in parts:
            exact += parts.count(text) or 1
        elif text in run:
            begins = starts and (run.startswith(text) or any(p.startswith(text) for p in parts))
            start += begins
            within += inside and not begins
    if not any(text in run for run in word.runs):  # it goes over a border
        start = int(starts and word.whole.startswith(text))
        within = int(inside and not start)
    return (exact, start, 0, within)


def _close_runs(text: str, word: Word, distance: int) -> int:
    def close(form: str) -> bool:
        found = edit_distance(text, form, distance, swap_cost=2)
        # Two slips, and another first letter, is another word.
        return found < 2 or (found == 2 and distance == 2 and form[0] == text[0])  # noqa: PLR2004

    if close(word.whole):
        return 1
    runs = zip(word.runs, word.parts, strict=True)
    return sum(1 for run, parts in runs if close(run) or any(map(close, parts)))


def _halves(text: str, distance: int) -> tuple[str, ...]:
    """Pieces of which one is whole in any word at most ``distance`` slips away."""
    size, rest = divmod(len(text), distance + 1)
    cuts = [n * size + min(n, rest) for n in range(distance + 2)]
    return tuple(text[a:b] for a, b in pairwise(cuts))
