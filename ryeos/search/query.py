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
from collections.abc import Iterator

from lillux.values import dataclass
from ryeos.items.errors import InvalidQueryError
from ryeos.search.words import STOP_WORDS, identifiers, normalized

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
    """Query that must not match."""

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
        """True if the value stands in the same run of characters as the field's name."""
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
