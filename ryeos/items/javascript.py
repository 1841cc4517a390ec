"""Headers of JavaScript and TypeScript files: constants, or the tags of a JSDoc comment."""

import re
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ryeos.items.header_values import (
    MAX_DEPTH,
    TAGS,
    MetadataError,
    PlainValue,
    UnreadableValueError,
    line_of,
    plain_value,
    require_parsable_text,
    shown,
)

if TYPE_CHECKING:
    from ryeos.items.header_names import Binding, Unread

# --- javascript tokens ----------------------------------------------------------------------------
# The tokens of JavaScript and TypeScript, as far as finding and reading constants needs them.
#
# No grammar: brackets are counted, comments skipped, and strings, templates and regular expressions
# taken whole, so that a constant is never found inside one of them. Every character is looked at
# once, whatever the text.

NAME, NUMBER, STRING, TEMPLATE, REGEX, MARK, END = (
    "name", "number", "string", "template", "regex", "mark", "end",
)  # fmt: skip


class Token(NamedTuple):
    """A token: its kind, its text with quotes, where it starts, how deep in brackets it stands.

    A template with ``${`` is several tokens: parts that stop at ``${`` have the kind MARK, the
    last part has the kind TEMPLATE and starts with ``}``.
    """

    kind: str
    text: str
    start: int
    depth: int
    on_new_line: bool


# No possessive quantifiers: CPython before 3.11.5 gets some of them wrong.
_BLANK = re.compile(r"[\s\ufeff]*")
_PLAIN = re.compile(
    r"""
    (?P<name>   [^\W\d][\w$]* | \$[\w$]* )
  | (?P<number> (?: 0[xXoObB][0-9a-fA-F_]+
                  | (?: [0-9][0-9_]* (?:\.[0-9_]*)? | \.[0-9][0-9_]* ) (?:[eE][+-]?[0-9_]+)?
                ) [\w$]* )
  | (?P<string> " [^"\\\n\r]* (?:\\.[^"\\\n\r]*)* " | ' [^'\\\n\r]* (?:\\.[^'\\\n\r]*)* ' )
  | (?P<mark>   " [^"\\\n\r]* (?:\\.[^"\\\n\r]*)*     # never closed
              | ' [^'\\\n\r]* (?:\\.[^'\\\n\r]*)*
              | => | ={2,3} | !={1,2} | <= | >= | \+\+ | -- | \?\.(?![0-9]) | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(
    r"/(?:[^/\\\[\n\r\u2028\u2029]|\\[^\n\r\u2028\u2029]"
    r"|\[(?:[^\]\\\n\r\u2028\u2029]|\\[^\n\r\u2028\u2029])*\])+/\w*"
)
# ECMA-262, 12.3: what ends a line, and with it a comment.
_LINE_END = re.compile("[\n\r\u2028\u2029]")
_TEMPLATE_PART = re.compile(r"[^`\\$]*(?:(?:\\.|\$(?!\{))[^`\\$]*)*(`|\$\{)?", re.DOTALL)
_FOREIGN_LINES = re.compile("(?:(?:#!|# rye:)[^\n\r\u2028\u2029]*\n?)*")

_CLOSED_BY = {"(": ")", "[": "]", "{": "}", "${": "}", "`": "`", "/*": "*/"}
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_ENDS_A_VALUE = frozenset({")", "]", "++", "--"})
_KEYWORDS_BEFORE_A_VALUE = frozenset(
    {"return", "typeof", "case", "in", "of", "delete", "void", "throw", "new", "else", "do"}
    | {"await", "yield", "instanceof"}
)
_BEFORE_CODE = frozenset({'"use strict"', "'use strict'", ";"})


class JavaScriptTokens:
    """The tokens of a text, one at a time.

    current       the token to look at; of kind END behind the last one
    doc_comment   the inside of the first ``/** */`` above the code; ``""`` when there is none
    """

    def __init__(self, text: str) -> None:
        self._text = text
        foreign = _FOREIGN_LINES.match(text)
        self._position = foreign.end() if foreign else 0
        self._open: list[tuple[str, int]] = []
        self._no_regex_before = 0
        self._above_code = True
        self.doc_comment = ""
        self.current = Token(MARK, "", 0, 0, on_new_line=True)
        self.advance()

    def advance(self) -> Token:
        """Step to the next token and return the one that was current.

        Raises MetadataError for a comment, template or bracket that the text never closes.
        """
        passed = self.current
        end_of_passed = self._position
        start = self._skip(end_of_passed)
        depth = len(self._open)
        kind = self._take(start, passed)
        text = self._text[start : self._position]
        on_new_line = bool(_LINE_END.search(self._text, end_of_passed, start))
        self.current = Token(kind, text, start, depth, on_new_line)
        self._above_code = self._above_code and text in _BEFORE_CODE
        return passed

    def _skip(self, position: int) -> int:
        """Where the next token starts, behind blanks and comments."""
        while True:
            blank = _BLANK.match(self._text, position)
            start = blank.end() if blank else position
            if self._text.startswith("//", start):
                newline = _LINE_END.search(self._text, start)
                position = newline.start() if newline else len(self._text)
            elif self._text.startswith("/*", start):
                position = self._skip_block_comment(start)
            else:
                return start

    def _skip_block_comment(self, start: int) -> int:
        closed = self._text.find("*/", start + len("/*"))
        if closed < 0:
            raise self._unclosed("/*", start)
        inside = self._text[start + len("/*") : closed]
        if self._above_code and not self.doc_comment and inside.startswith("*"):
            self.doc_comment = inside
        return closed + len("*/")

    def _take(self, start: int, before: Token) -> str:
        """Move the position behind the token that starts here; its kind."""
        first = self._text[start : start + 1]
        if first == "":
            if self._open:
                raise self._unclosed(*self._open[-1])
            self._position = start
            return END
        if first == "`":
            return self._take_template_part(start + 1, start)
        if first == "/" and _regex_may_follow(before) and self._take_regex(start):
            return REGEX
        if first == "}" and self._open and self._open[-1][0] == "${":
            _, opened = self._open.pop()
            return self._take_template_part(start + 1, opened)
        self._count_bracket(first, start)
        matched = _PLAIN.match(self._text, start)
        self._position = matched.end() if matched else start + 1
        return (matched and matched.lastgroup) or MARK

    def _take_template_part(self, position: int, opened: int) -> str:
        part = _TEMPLATE_PART.match(self._text, position)
        if part is None or part[1] is None:
            raise self._unclosed("`", opened)
        self._position = part.end()
        if part[1] == "`":
            return TEMPLATE
        self._open.append(("${", opened))
        return MARK

    def _take_regex(self, start: int) -> bool:
        if start < self._no_regex_before:
            return False
        matched = _REGEX.match(self._text, start)
        if matched is None:
            # A division after all, and so is the rest of the line: trying again at each of its
            # slashes could take quadratic time.
            newline = self._text.find("\n", start)
            self._no_regex_before = newline if newline >= 0 else len(self._text)
            return False
        self._position = matched.end()
        return True

    def _count_bracket(self, mark: str, start: int) -> None:
        if mark in _OPENING:
            self._open.append((mark, start))
        elif mark in _CLOSING and self._open and self._open[-1][0] != "${":
            self._open.pop()

    def _unclosed(self, opening: str, start: int) -> MetadataError:
        problem = f"expected {_CLOSED_BY[opening]} to close {opening}, found the end of the file"
        return MetadataError("javascript", problem, line_of(self._text, start))


def _regex_may_follow(before: Token) -> bool:
    """Whether a slash begins a regular expression here; after a value it divides."""
    match before.kind:
        case "name":
            return before.text in _KEYWORDS_BEFORE_A_VALUE
        case "mark":
            return before.text not in _ENDS_A_VALUE
        case _:
            return False


# --- javascript -----------------------------------------------------------------------------------

DECLARES = frozenset({"const", "let", "var"})
_READ_NAME = re.compile(r"__\w+__|[A-Z][A-Z0-9_]*")
# Skipping this one would run the tool with unvalidated parameters.
_NEVER_SKIPPED = "CONFIG_SCHEMA"


def parse_javascript(text: str) -> dict[str, Any]:
    """The constants that a JavaScript or TypeScript file declares at its top level.

    Read are ``const``, ``let`` and ``var``, exported or not and with or without a type, of names
    like ``__version__`` and ``CONFIG_SCHEMA`` whose value is a literal; the rest is skipped. Tags
    of the first ``/** */`` comment above the code (``@version 1.0.0``) fill in what no constant
    says. Examples: docs/items.md.

    Raises MetadataError for a ``CONFIG_SCHEMA`` that is no literal, and for a comment, template or
    bracket that is never closed.
    """
    require_parsable_text("javascript", text)
    header: dict[str, Any] = {}
    tokens = JavaScriptTokens(text)
    for _, constant in _declared_constants(tokens, text):
        header.update(constant)
    return _doc_comment_tags(tokens.doc_comment) | header


def _declared_constants(
    tokens: JavaScriptTokens, text: str
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The constants at the top level that are read, each with its position."""
    while tokens.current.kind != END:
        token = tokens.advance()
        if token.depth == 0 and token.kind == NAME and token.text in DECLARES:
            yield tokens.current.start, _declared_constant(tokens, text)


def _doc_comment_tags(comment: str) -> dict[str, Any]:
    return dict(filter(None, map(_doc_comment_tag, comment.split("\n"))))


def _doc_comment_tag(line: str) -> tuple[str, str] | None:
    """The tag that a line of the comment declares, under the name of its constant."""
    tag, *rest = line.strip().lstrip("*").split(maxsplit=1) or [""]
    if rest and tag.startswith("@") and tag[1:] in TAGS:
        return TAGS[tag[1:]], rest[0]
    return None


def _declared_constant(tokens: JavaScriptTokens, text: str) -> dict[str, Any]:
    """The constant declared here, by name; nothing when its name or value is of another kind."""
    token = tokens.current
    name = token.text
    if token.kind != NAME or not _READ_NAME.fullmatch(name):
        return {}
    tokens.advance()
    try:
        _skip_to_value(tokens)
        value = read_literal(tokens)
        _require_end(tokens)
    except UnreadableValueError as error:
        is_twice = isinstance(error, RepeatedKeyError)
        if name != _NEVER_SKIPPED and not (is_twice and is_field(name)):
            return {}
        hint = f"write {name} as one literal, without calls, variables or spreads"
        raise MetadataError(
            "javascript",
            f"{name}: {error.problem}",
            line_of(text, token.start if error.position is None else error.position),
            hint="remove one, the last would count" if is_twice else hint,
        ) from error
    return {name: value}


def is_field(name: str) -> bool:
    """Whether a name is one that a header's field may have."""
    from ryeos.items.specs import SPELLINGS

    return any(name in spellings for spellings in SPELLINGS.values())


def _skip_to_value(tokens: JavaScriptTokens) -> None:
    """Step over a TypeScript annotation and the equals sign."""
    if tokens.current.text == ":":
        while tokens.current.kind != END and (
            tokens.current.depth > 0 or tokens.current.text not in {"=", ";"}
        ):
            tokens.advance()
    if tokens.current.text != "=":
        raise UnreadableValueError(
            f"expected = and a literal, found {shown(tokens.current.text)}", tokens.current.start
        )
    tokens.advance()


def _require_end(tokens: JavaScriptTokens) -> None:
    """Refuse a literal that is only the beginning of an expression, like ``"a" + b``."""
    token = tokens.current
    if token.kind == END or token.text in {";", ","} or token.text == "satisfies":
        return
    if token.on_new_line and token.kind != "mark":
        return
    raise UnreadableValueError(
        f"expected one literal, found {shown(token.text)} after it", token.start
    )


# --- javascript bindings --------------------------------------------------------------------------

_MARKS_BEFORE_EQUALS = frozenset("+-*/%&|^?<>")
_CHANGES = frozenset(
    {"push", "pop", "shift", "unshift", "splice", "fill", "sort", "reverse", "set", "add"}
    | {"delete", "clear", "copyWithin"}
)
_TOGETHER = "is assigned together with other names"
_CHANGES_OF_OBJECTS = frozenset(
    {"assign", "defineProperty", "defineProperties", "setPrototypeOf", "set", "deleteProperty"}
)
# A line that would declare rights if it were no text: see `_texts`.
_LINE_DECLARES = re.compile(
    r"[ \t]*(?P<word>(?:export[ \t]+)?(?:const|let|var)[ \t]+)?"
    r"(?:(?:module[ \t]*\.[ \t]*)?exports[ \t]*\.)?"
    r"[ \t]*(?P<name>\w+)[ \t]*(?::[^=\n]*)?(?P<sign>=(?![=>]))?[ \t]*(?P<value>.?)"
)
_ASSIGNS = re.compile(r"(\w+)[\"'`]?\]?\s*(?::[^=\n]{0,80})?=(?![=>])\s*(.?)")


def javascript_bindings(text: str, *, depth: int = 0) -> "Iterator[Binding | Unread]":
    """The names that a file assigns, imports or changes, and what no reader should meet.

    A name behind ``as const`` and ``satisfies`` is read as any other. ``depth``: how many texts,
    each executed by the one around it, the text is inside of. Raises MetadataError.
    """
    from ryeos.items.header_names import Binding

    read = {at for at, constant in _declared_constants(JavaScriptTokens(text), text) if constant}
    tokens = _all_tokens(text)
    yield from _hidden(tokens, text)
    tokens = with_joined_texts(tokens)
    around = enclosing(tokens)
    declared = _parameters(tokens, around) | _names_in_patterns(tokens)
    uses = _uses_of_rights(tokens, around)
    exported = set(_exported_keys(tokens))
    for at, token in enumerate(tokens):
        if token.kind == STRING:
            how = _how_as_text(tokens, at)
            name = token.text[1:-1]
        elif token.kind == NAME:
            how = "" if token.start in read else declared.get(at) or _how(tokens, at)
            name = token.text
        else:
            continue
        is_key = at in exported
        how = "is a key of what the file exports" if is_key else how
        if how or token.start in read or at in uses:
            yield Binding(
                name=name,
                line=line_of(text, token.start),
                how=how or "is handed on",
                is_read=token.start in read,
                is_inner=not is_key and (token.depth > 0 or how.startswith(_INNER)),
                is_use=not how and token.start not in read,
            )
    yield from _executed(tokens, around, text, depth)


_INNER = ("is a key", "is a parameter")
_MAX_EXECUTED = 3


def _executed(
    tokens: Sequence[Token], around: Sequence[int], text: str, depth: int
) -> "Iterator[Binding]":
    """What texts bind that are given to ``eval`` and its like."""
    from ryeos.items.header_names import Binding

    names = executing_names(tokens)
    for at, token in enumerate(tokens):
        if (
            token.kind == STRING
            and len(token.text) > len(_SHORT)
            and is_executed(tokens, at, around, names)
        ):
            for name in _bound_by(token.text[1:-1], depth + 1):
                line = line_of(text, token.start)
                yield Binding(name=name, line=line, how="is assigned through a text")


def _bound_by(code: str, depth: int) -> Iterator[str]:
    """The constants that a text binds when it is executed."""
    from ryeos.items.header_names import Binding

    try:
        found = list(javascript_bindings(code, depth=depth)) if depth <= _MAX_EXECUTED else None
    except MetadataError:
        found = None
    if found is None:
        yield from (one[1] for one in _ASSIGNS.finditer(code) if _READ_NAME.fullmatch(one[1]))
        return
    for one in found:
        if isinstance(one, Binding) and not one.is_use and _READ_NAME.fullmatch(one.name):
            yield one.name


def _all_tokens(text: str) -> list[Token]:
    tokens = JavaScriptTokens(text)
    found = []
    while tokens.current.kind != END:
        found.append(tokens.advance())
    return [*found, tokens.current]


def _text_at(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""


def _how(tokens: Sequence[Token], at: int) -> str:
    """What happens to the name at a place; ``""`` where it is only read."""
    before, after = _text_at(tokens, at - 1), _text_at(tokens, at + 1)
    if before in DECLARES:
        is_top = tokens[at].depth == 0
        return "is not one literal" if is_top else "is declared below the top level"
    is_generator = before == "*" and _text_at(tokens, at - 2) == "function"
    if before in {"function", "class", "enum", "namespace"} or is_generator:
        return "is defined"
    if before in {"++", "--"} or after in {"++", "--"} or _is_assigned(tokens, at + 1):
        return "is assigned"
    if after == ":" and before in {"{", ","} and tokens[at].depth:
        is_same = _text_at(tokens, at + 2) == tokens[at].text
        return "" if is_same else "is a key of an object"
    return "is changed after it was assigned" if _is_changed(tokens, at) else ""


def _is_changed(tokens: Sequence[Token], at: int) -> bool:
    """Whether a part of a value is assigned or removed here, or a method called that does so."""
    before = _text_at(tokens, at - 1)
    end, last = _end_of_members(tokens, at)
    is_called = last in _CHANGES and _text_at(tokens, end) == "("
    is_deleted = end > at + 1 and "delete" in {before, _text_at(tokens, at - 2)}
    is_given = before == "(" and _text_at(tokens, at - 2) in _CHANGES_OF_OBJECTS
    return is_called or is_deleted or is_given or (end > at + 1 and _is_assigned(tokens, end))


def _is_assigned(tokens: Sequence[Token], at: int) -> bool:
    """Whether ``=`` stands here, also as the end of ``+=`` and its like."""
    start = at
    while _text_at(tokens, at) in _MARKS_BEFORE_EQUALS and at - start < len("??="):
        if _text_at(tokens, at + 1) == "" or tokens[at + 1].start != tokens[at].start + 1:
            return False
        at += 1
    return _text_at(tokens, at) == "="


def _end_of_members(tokens: Sequence[Token], at: int) -> tuple[int, str]:
    """The place behind ``.x`` and ``["x"]`` of a name, and the last name of these."""
    at, last = at + 1, ""
    while True:
        if _text_at(tokens, at) in {".", "?."}:
            last, at = _text_at(tokens, at + 1), at + 2
        elif _text_at(tokens, at) == "[":
            depth = tokens[at].depth
            at += 1
            while at < len(tokens) and not (
                tokens[at].text == "]" and tokens[at].depth <= depth + 1
            ):
                at += 1
            at += 1
        else:
            return at, last


def _how_as_text(tokens: Sequence[Token], at: int) -> str:
    """What happens to the name that a text holds: ``exports["NAME"] =``."""
    before, after = _text_at(tokens, at - 1), _text_at(tokens, at + 1)
    is_index = before == "[" and after == "]"
    is_deleted = is_index and "delete" in {one.text for one in tokens[max(at - 3, 0) : at]}
    if is_deleted or (is_index and _is_assigned(tokens, at + 2)):
        return "is assigned through a text"
    is_key = before in {"{", ","} and after == ":" and tokens[at].depth
    if is_key or (is_index and _text_at(tokens, at + 2) == ":"):
        return "is a key of an object"
    if before == "as" and _is_export(tokens, at):
        return "is exported from elsewhere"
    nearby = {token.text for token in tokens[max(at - _NEARBY, 0) : at]}
    is_pair = before == "[" and after == "," and nearby & {"assign", "fromEntries"}
    is_given = before == "," and nearby & _CHANGES_OF_OBJECTS
    return "is assigned through a text" if is_pair or is_given else ""


_NEARBY = 12
_LONGEST_LIST = 200
_HEADS = frozenset({"if", "while", "for", "switch", "with"})


def _is_export(tokens: Sequence[Token], at: int) -> bool:
    """Whether a place belongs to ``export {...}`` or ``export * as``."""
    above = reversed(tokens[max(at - _LONGEST_LIST, 0) : at])
    ends = (one.text for one in above if one.text in {";", "export", "import", "="})
    return next(ends, "") == "export"


_BEFORE_A_PARAMETER = frozenset({"(", ",", "{", "[", ":"})
_LEVELS = 4


def enclosing(tokens: Sequence[Token]) -> list[int]:
    """For each token the place of the bracket around it, -1 without one."""
    found, opened = list[int](), [-1]
    for at, token in enumerate(tokens):
        del opened[token.depth + 1 :]
        found.append(opened[-1])
        if token.text in _OPENING or token.text.endswith("${"):
            opened.append(at)
    return found


def _parameters(tokens: Sequence[Token], around: Sequence[int]) -> dict[int, str]:
    """The places of the parameters of functions, and of what ``catch`` binds."""
    lists = set[int]()
    for at in range(2, len(tokens)):
        if tokens[at].text in {"=>", "{"} and tokens[at - 1].text == ")":
            opening = around[at - 1]
            if _text_at(tokens, opening - 1) not in _HEADS:
                lists.add(opening)
    return {
        at: "is a parameter"
        for at, token in enumerate(tokens)
        if token.kind == NAME and _is_parameter(tokens, at, around, lists)
    }


def _is_parameter(
    tokens: Sequence[Token], at: int, around: Sequence[int], lists: Container[int]
) -> bool:
    if _text_at(tokens, at + 1) == "=>":
        return True
    if _text_at(tokens, at - 1) not in _BEFORE_A_PARAMETER or _text_at(tokens, at + 1) == ":":
        return False
    opening = around[at]
    for _ in range(_LEVELS):  # a parameter may be a pattern of names
        if opening < 0 or tokens[opening].text == "(":
            break
        opening = around[opening]
    return opening in lists


_COMPARES = frozenset({"==", "===", "!=", "!==", "in"})
_READERS = frozenset({"keys", "values", "entries", "freeze", "isFrozen"})


def _uses_of_rights(tokens: Sequence[Token], around: Sequence[int]) -> set[int]:
    """The places that hand on the object of rights as a whole, instead of reading a key of it."""
    from ryeos.items.specs import SPELLINGS

    names = SPELLINGS["sandbox"]
    return {
        at
        for at, token in enumerate(tokens)
        if token.kind == NAME
        and token.text in names
        and not _is_read_of_key(tokens, at, around[at])
    }


def _is_read_of_key(tokens: Sequence[Token], at: int, opening: int) -> bool:
    """Whether a name is no value here, one of whose keys is read, or one that is exported."""
    before, after = _text_at(tokens, at - 1), _text_at(tokens, at + 1)
    if before in {".", "?.", "typeof"} or after in {".", "?.", "[", ":"}:
        return True
    if {before, after} & _COMPARES:
        return True
    if before == "(" and _text_at(tokens, at - 2) in _READERS:
        return True
    if before not in {"{", ",", ":"} or opening < 0 or tokens[opening].text != "{":
        return False
    return _text_at(tokens, opening - 1) == "export" or _is_exports(tokens, opening)


def _is_exports(tokens: Sequence[Token], opening: int) -> bool:
    """Whether an object is what a file exports: ``export default {``, ``module.exports = {``."""
    before = opening - 1
    while before > 0 and (tokens[before].kind == NAME or tokens[before].text in {".", "("}):
        if tokens[before].text == "default":
            return _text_at(tokens, before - 1) == "export"
        before -= 1
    if _text_at(tokens, before) != "=" or before != opening - 1:
        return False
    assigned = [one.text.strip("\"'") for one in tokens[max(before - 3, 0) : before]]
    return assigned[-1:] in (["exports"], ["export"]) or assigned in (
        ["exports", ".", "default"],
        ["[", "exports", "]"],
    )


def _exported_keys(tokens: Sequence[Token]) -> Iterator[int]:
    """The places of the keys of what a file exports, but of those with the value of that name."""
    for opening, token in enumerate(tokens):
        if token.text != "{" or token.depth > 1 or not _is_exports(tokens, opening):
            continue
        for at in range(opening + 1, _closing(tokens, opening)):
            one = tokens[at]
            around = _text_at(tokens, at - 1), _text_at(tokens, at + 1)
            is_computed = around == ("[", "]") and one.kind == STRING
            start, end = at - is_computed, at + is_computed
            is_key = one.depth == token.depth + 1 + is_computed and one.kind in {NAME, STRING}
            is_named = _text_at(tokens, start - 1) in {"{", ",", "get", "async", "*"}
            is_same = _text_at(tokens, end + 2) == one.text
            if is_key and is_named and _text_at(tokens, end + 1) in {":", "("} and not is_same:
                yield at


def _names_in_patterns(tokens: Sequence[Token]) -> dict[int, str]:
    """The places of names that imports, exports and destructuring bind."""
    found: dict[int, str] = {}
    for at, token in enumerate(tokens):
        after = _text_at(tokens, at + 1)
        if token.text == "import" and token.kind == NAME and after not in {"(", "."}:
            end = at + 1
            while end < len(tokens) - 1 and tokens[end].kind != STRING and tokens[end].text != ";":
                end += 1
            found |= _bound(tokens, at + 1, end, "is imported")
        elif token.text == "export" and after == "{":
            found |= _exported(tokens, at + 1)
        elif token.text == "export" and after == "*" and _text_at(tokens, at + 2) == "as":
            found |= _bound(tokens, at + 3, at + 4, "is exported from elsewhere")
        elif token.text in DECLARES and token.kind == NAME and after in {"{", "["}:
            end = _closing(tokens, at + 1)
            found |= _bound(tokens, at + 1, end, _TOGETHER)
        elif token.text in {"}", "]"} and after == "=":
            found |= _assigned_together(tokens, at)
    return found


def _exported(tokens: Sequence[Token], opening: int) -> dict[int, str]:
    """The names that ``export {...}`` gives to something else, or takes from another file."""
    end = _closing(tokens, opening)
    is_other = _text_at(tokens, end + 1) == "from"
    named = _bound(tokens, opening, end, "is exported from elsewhere")
    return {at: how for at, how in named.items() if is_other or _text_at(tokens, at - 1) == "as"}


def _assigned_together(tokens: Sequence[Token], closing: int) -> dict[int, str]:
    """The names in the brackets that close here, unless these are an index."""
    start = closing
    while start and not (
        tokens[start].text in {"{", "["} and tokens[start].depth == tokens[closing].depth - 1
    ):
        start -= 1
    is_pattern = _text_at(tokens, start - 1) in {"(", ";", "", "}", ","}
    return _bound(tokens, start, closing, _TOGETHER) if is_pattern else {}


def _bound(tokens: Sequence[Token], start: int, end: int, how: str) -> dict[int, str]:
    """The names between two places that are no keys and are not renamed."""
    return {
        at: how
        for at in range(start, end)
        if tokens[at].kind == NAME and _text_at(tokens, at + 1) not in {":", "as"}
    }


def _closing(tokens: Sequence[Token], at: int) -> int:
    """The place of the bracket that closes the one at a place."""
    depth = tokens[at].depth
    end = at + 1
    while end < len(tokens) - 1 and not (
        tokens[end].text in {"}", "]"} and tokens[end].depth <= depth + 1
    ):
        end += 1
    return end


def _hidden(tokens: Sequence[Token], text: str) -> "Iterator[Unread]":
    """Comments that seem to declare rights, and characters that end lines or names elsewhere."""
    starts = [token.start for token in tokens]

    def is_in_text(position: int) -> bool:
        at = bisect_right(starts, position) - 1
        return at >= 0 and position < tokens[at].start + len(tokens[at].text)

    yield from _comments(tokens, text)
    yield from _texts(tokens, text)
    for end in re.finditer("\r(?!\n)|[\u2028\u2029]", text):
        if not is_in_text(end.start()):
            problem = "is the end of a line for JavaScript alone; save the file with LF line ends"
            yield _hidden_at(text, end.start(), ascii(end[0])[1:-1], problem)
    for at, token in enumerate(tokens):
        if token.text == "\\" and token.kind == MARK:
            problem = "is a part of a name; write the name without escapes"
            yield _hidden_at(text, token.start, "\\", problem)
        is_open = text.startswith("<!--", token.start)
        is_end = token.on_new_line and text.startswith("-->", token.start)
        if token.kind == MARK and (is_open or (is_end and at)):
            problem = "begins a comment for some readers of JavaScript; write // instead"
            yield _hidden_at(text, token.start, "<!--" if is_open else "-->", problem)


def _comments(tokens: Sequence[Token], text: str) -> "Iterator[Unread]":
    """Lines of comments that seem to declare rights: all that stands between tokens is one."""
    from ryeos.items.header_names import declared_in_comment

    for position, line in _lines_of_comments(tokens, text):
        name = declared_in_comment(line) or _declared_by_line(
            line.lstrip(" \t/*#!"), is_comment=True
        )
        if name:
            problem = "is a comment; Rye does not read it; write const SANDBOX = {...}"
            yield _hidden_at(text, position, name, problem)


def unread_comments(text: str, header: Mapping[str, Any]) -> "Iterator[Unread]":
    """Comments that seem to declare fields: tags that another value goes before, and other forms.

    ``header`` is what is read of the text. Raises MetadataError.
    """
    from ryeos.items.comment_fields import misspelt_prose, unread_lines
    from ryeos.items.header_names import Unread
    from ryeos.items.specs import SPELLINGS, header_field

    fields = {name: field for field, names in SPELLINGS.items() for name in names}
    tokens = _all_tokens(text)
    end = next((one.start for one in tokens if _ends_header(one)), len(text))
    inside = JavaScriptTokens(text).doc_comment
    first = text.find(f"/*{inside}*/") if inside else -1
    last = first + len(inside)
    lines = {
        name: line_of(text, at)
        for at, constant in _declared_constants(JavaScriptTokens(text), text)
        for name in constant
    }
    constants = frozenset(lines)
    if inside:
        above = line_of(text, first)
        for number, line in enumerate(inside.split("\n"), above):
            if (tag := _doc_comment_tag(line)) and tag[0] not in constants:
                lines[tag[0]] = number
    fix = "write {field} once, as a constant at the top level"
    for position, line in _lines_of_comments(tokens, text):
        is_first = first <= position <= last if inside else False
        number = line_of(text, position)
        tag = _doc_comment_tag(line.removeprefix("/*").removesuffix("*/")) if is_first else None
        if tag and header_field(header, fields.get(tag[0], tag[0])) != tag[1]:
            name = tag[0].strip("_")
            counts = f"; line {lines[tag[0]]} counts" if tag[0] in lines else ""
            problem = f"is declared a second time with another value{counts}; remove one"
            yield Unread(line=number, name=name, field=name, problem=problem)
        elif not tag:
            yield from unread_lines([(number, line)], header, is_header=position < end, fix=fix)
            found = misspelt_prose(line) if is_first and "@" in line else None
            if found:
                problem = f"is not read; write @{found.field}, or remove it"
                yield Unread(line=number, name=found.name, field=found.field, problem=problem)


_ENDS_HEADER = frozenset(
    {"function", "class", "async", "if", "for", "while", "do", "try", "switch", "interface"}
)


def _ends_header(token: Token) -> bool:
    """Whether a token begins what is no constant and no import."""
    return token.kind == END or (token.depth == 0 and token.text in _ENDS_HEADER)


def _lines_of_comments(tokens: Sequence[Token], text: str) -> Iterator[tuple[int, str]]:
    """The lines of all that stands between tokens, each with its position."""
    end = 0
    for token in tokens:
        if token.start - end > len("//"):
            position = end
            for line in text[end : token.start].split("\n"):
                yield position, line
                position += len(line) + 1
        end = token.start + len(token.text)


def _texts(tokens: Sequence[Token], text: str) -> "Iterator[Unread]":
    """Lines of strings, templates and regular expressions that would declare rights outside.

    Those that begin a line count always, as this reader has no grammar to say for certain where
    such a text ends; all others in a file with a slash that may divide or begin an expression.
    """
    from ryeos.items.header_names import sandbox_words

    if next(sandbox_words(text), None) is None:
        return
    is_doubtful = any(_is_doubtful(tokens, at, text) for at in range(len(tokens)))
    end = 0
    for token in tokens:
        if is_doubtful and token.start - end > len("//"):
            yield from _texts_in(text, end, token.start, is_code=True, is_doubtful=True)
        end = token.start + len(token.text)
        if token.kind in {STRING, TEMPLATE, REGEX, MARK} and len(token.text) > len(_SHORT):
            yield from _texts_in(text, token.start, end, is_code=False, is_doubtful=is_doubtful)


def _texts_in(
    text: str, start: int, end: int, *, is_code: bool, is_doubtful: bool
) -> "Iterator[Unread]":
    from ryeos.items.header_names import declared_in_comment

    problem = "is in a text, and seems to declare rights; write the text to a file of its own"
    for number, line in enumerate(text[start:end].split("\n")):
        name = ""
        if number and not is_code:
            is_comment = line.lstrip().startswith(("//", "/*", "*"))
            name = declared_in_comment(line) if is_comment else _declared_by_line(line)
        if not name and is_doubtful:
            assigned = ((one[1], one[2]) for one in _ASSIGNS.finditer(line))
            name = next((name for name, value in assigned if _is_declared(name, value)), "")
        if name:
            yield _hidden_at(text, start, name, f"{problem}, or put another word before it")
        start += len(line) + 1


_SHORT = "sandbx"


def _is_declared(name: str, value: str) -> bool:
    """Whether an assignment seems to declare rights, by its name and how its value begins."""
    from ryeos.items.header_names import seems_sandbox

    is_constant = name.upper() == name or name.startswith("__")
    return (is_constant or value in {"{", "["}) and seems_sandbox(name)


def _declared_by_line(line: str, *, is_comment: bool = False) -> str:
    """The name of rights that a line would declare as code, or ``""``.

    ``is_comment``: it may be prose, so that a name with a sign is no declaration yet.
    """
    from ryeos.items.header_names import seems_sandbox

    found = _LINE_DECLARES.match(line)
    if not found or not seems_sandbox(found["name"]):
        return ""
    is_value = found["sign"] and not is_comment and _is_declared(found["name"], found["value"])
    return found["name"] if found["word"] or is_value else ""


_MAYBE_BEFORE_A_VALUE = frozenset({")", "}", "++", "--", "!", ">"})
_MAYBE_NAMES = frozenset(
    {"of", "in", "await", "yield", "let", "default", "extends", "as", "satisfies", "from", "async"}
)
_LONG = 2000
_SHIFTS = frozenset("\"'`")


def _is_doubtful(tokens: Sequence[Token], at: int, text: str) -> bool:
    """Whether a slash begins an expression for this reader alone, or for others, and it matters.

    It matters if the expression has quotes or the marks of comments in it.
    """
    token = tokens[at]
    if token.text[:1] != "/" or token.kind not in {MARK, REGEX} or at == 0:
        return False
    before = tokens[at - 1]
    is_key = _text_at(tokens, at - 2) in {".", "?."}
    is_name = before.kind == NAME and (
        before.text in _MAYBE_NAMES or (is_key and before.text in _KEYWORDS_BEFORE_A_VALUE)
    )
    if not is_name and before.text not in _MAYBE_BEFORE_A_VALUE:
        return False
    matched = _REGEX.match(text, token.start, token.start + _LONG)
    if matched is None:
        ends = _LINE_END.search(text, token.start, token.start + _LONG)
        return ends is None and len(text) - token.start > _LONG
    inside = matched[0][1:]
    return bool(_SHIFTS & set(inside)) or "/*" in inside or "//" in inside


def _hidden_at(text: str, position: int, name: str, problem: str) -> "Unread":
    from ryeos.items.header_names import Unread

    return Unread(line=line_of(text, position), name=name, field="sandbox", problem=problem)


# --- javascript texts -----------------------------------------------------------------------------
# Texts of a file that are constant, though written in parts, and code in texts.
#
# ``globalThis["SAND" + "BOX"] = {}`` and ``eval("var SANDBOX = {}")`` bind a name as a declaration
# does. Nothing is executed: parts are joined as far as the tokens alone decide it.

_MAX_CHARACTERS = 20_000  # of what is joined
_ROUNDS = 3  # constants that are made of constants
_METHODS: Mapping[str, Callable[[str], str]] = {
    "toUpperCase": str.upper,
    "toLowerCase": str.lower,
    "trim": str.strip,
    "toString": str,
    "valueOf": str,
}
_BEFORE_A_GROUP = frozenset({"return", "typeof", "case", "in", "of", "void", "throw", "yield"})
_BEHIND_A_USE = frozenset({"]", ",", ")", "}", "+"})


def with_joined_texts(tokens: Sequence[Token]) -> list[Token]:
    """The tokens with one string for each text in parts: sums, templates, ``concat``, ``join``.

    A variable that is declared as such a text counts as the text where it is only read.
    """
    constants: dict[str, str] = {}
    joined = list(tokens)
    for _ in range(_ROUNDS):
        joined = _joined(tokens, constants)
        before = len(constants)
        for at, token in enumerate(joined[:-3]):
            name, sign, value = joined[at + 1 : at + 4]
            if token.text in DECLARES and sign.text == "=" and value.kind == STRING:
                constants.setdefault(name.text, value.text[1:-1])
        if len(constants) == before:
            break
    return joined


def _joined(tokens: Sequence[Token], constants: Mapping[str, str]) -> list[Token]:
    found: list[Token] = []
    for at, token in enumerate(tokens):
        found.append(_as_string(tokens, at, token, constants))
        while _reduce(found):
            continue
    return found


def _as_string(
    tokens: Sequence[Token], at: int, token: Token, constants: Mapping[str, str]
) -> Token:
    """The token, as a string of plain characters where it is a text or a constant one's name."""
    if token.kind == STRING or (token.kind == TEMPLATE and token.text[0] == "`"):
        return _string(token, _characters(token))
    if token.kind == NAME and token.text in constants and not is_field(token.text):
        before = tokens[at - 1].text if at else ""
        after, next_after = (one.text for one in (*tokens[at + 1 : at + 3], *[tokens[-1]] * 2)[:2])
        is_use = after in _BEHIND_A_USE and not (after == "+" and next_after == "=")
        if is_use and before not in {".", "?."}:
            return _string(token, constants[token.text])
    return token


def _string(token: Token, said: str) -> Token:
    return token._replace(kind=STRING, text=f'"{said}"')


def _sum(one: Token, other: Token) -> str:
    return f"{one.text[1:-1]}{other.text[1:-1]}"[:_MAX_CHARACTERS]


def _characters(token: Token) -> str:
    try:
        return text_of(token)
    except UnreadableValueError:
        return token.text[1:-1]


def _reduce(found: list[Token]) -> bool:
    """Join the last tokens if they are one text; whether they were."""
    match found:
        case [*_, Token(kind="string") as one, Token(text="+"), Token(kind="string") as other]:
            found[-3:] = [_string(one, _sum(one, other))]
            return True
        case [*_, Token(kind="mark") as one, Token(kind="string") as said, Token() as end] if (
            one.text.endswith("${") and end.text.startswith("}") and one.text[0] in "`}"
        ):
            return _reduce_template(found, one, said, end)
        case [*_, Token(text=")")]:
            return _reduce_group(found) or _reduce_method(found)
        case _:
            return False


def _reduce_template(found: list[Token], one: Token, said: Token, end: Token) -> bool:
    whole = one.text[:-2] + said.text[1:-1] + end.text[1:]
    if end.kind == TEMPLATE and one.text[0] == "`":
        found[-3:] = [_string(one, whole[1:-1])]
    elif end.kind in {TEMPLATE, MARK} and (end.kind == TEMPLATE or whole.endswith("${")):
        found[-3:] = [one._replace(kind=end.kind, text=whole)]
    else:
        return False
    return True


def _reduce_group(found: list[Token]) -> bool:
    """``("a")``, where it is no call."""
    match found:
        case [*_, Token(text="("), Token(kind="string") as said, Token(text=")")]:
            before = found[-4] if len(found) > len("(a)") else None
            is_call = before is not None and (
                (before.kind in {NAME, STRING} and before.text not in _BEFORE_A_GROUP)
                or before.text in {")", "]", "?.", "}"}
            )
            if not is_call:
                found[-3:] = [said]
            return not is_call
        case _:
            return False


def _reduce_method(found: list[Token]) -> bool:
    """``"a".concat("b")``, ``"a".toUpperCase()``, ``["a", "b"].join("")``."""
    match found:
        case [
            *_, Token(kind="string") as one, Token(text="." | "?."), Token(text="concat"),
            Token(text="("), Token(kind="string") as other, Token(text=")"),
        ]:  # fmt: skip
            found[-6:] = [_string(one, _sum(one, other))]
        case [
            *_, Token(kind="string") as one, Token(text="." | "?."), Token(text=method),
            Token(text="("), Token(text=")"),
        ] if method in _METHODS:  # fmt: skip
            found[-5:] = [_string(one, _METHODS[method](one.text[1:-1]))]
        case [
            *_, Token(text="]"), Token(text="." | "?."), Token(text="join"),
            Token(text="("), Token(kind="string") as between, Token(text=")"),
        ]:  # fmt: skip
            return _reduce_list(found, len(found) - len("]._()_"), between.text[1:-1])
        case [
            *_, Token(text="]"), Token(text="." | "?."), Token(text="join"),
            Token(text="("), Token(text=")"),
        ]:  # fmt: skip
            return _reduce_list(found, len(found) - len("]._()"), ",")
        case _:
            return False
    return True


def _reduce_list(found: list[Token], closing: int, between: str) -> bool:
    """The strings of an array that ends at a place, joined."""
    at, parts = closing - 1, list[str]()
    while at > 0 and found[at].kind == STRING:
        parts.append(found[at].text[1:-1])
        at -= 1
        if found[at].text != ",":
            break
        at -= 1
    if at < 0 or found[at].text != "[":
        return False
    found[at:] = [_string(found[at], between.join(reversed(parts)))]
    return True


# --- javascript code in texts ---------------------------------------------------------------------

_EXECUTES = frozenset(
    {"eval", "Function", "AsyncFunction", "GeneratorFunction", "constructor", "execScript"}
    | {"runInThisContext", "runInNewContext", "runInContext", "compileFunction", "Script"}
    | {"setTimeout", "setInterval", "setImmediate"}
)
_CALLEE = 8  # tokens before the bracket of a call: ``(0, globalThis.eval)(``


def executing_names(tokens: Sequence[Token]) -> frozenset[str]:
    """The functions that take code as a text, with other names that the file gives them."""
    found = set(_EXECUTES)
    for at, token in enumerate(tokens[:-2]):
        if token.kind != NAME or token.text not in _EXECUTES:
            continue
        after = tokens[at + 1].text
        if after in {"as", ":"} and tokens[at + 2].kind == NAME:
            found.add(tokens[at + 2].text)
        start = at
        while start >= len("a.") and tokens[start - 1].text in {".", "?."} and at - start < _CALLEE:
            start -= len("a.")
        if after not in {"(", "."} and start >= len("e=") and tokens[start - 1].text == "=":
            found.add(tokens[start - 2].text)
    return frozenset(found)


def is_executed(
    tokens: Sequence[Token], at: int, around: Sequence[int], names: frozenset[str]
) -> bool:
    """Whether the string at a place is given to a call that executes it.

    ``around`` is what `enclosing` says of the tokens.
    """
    if at and tokens[at - 1].text in names:  # a template behind its tag
        return True
    for _ in range(_LEVELS):
        at = around[at]
        if at < 0:
            return False
        called = {*_callee(tokens, at), *(one.text for one in tokens[at + 1 : at + 2])}
        if tokens[at].text == "(" and not names.isdisjoint(called):
            return True
    return False


def _callee(tokens: Sequence[Token], opening: int) -> Iterator[str]:
    """The names and strings of what is called by the bracket at a place."""
    for token in reversed(tokens[max(opening - _CALLEE, 0) : opening]):
        if token.text in {";", "{", "}", "=", "=>"} or token.kind == END:
            return
        if token.kind in {NAME, STRING}:
            yield token.text.strip("\"'`")


# --- javascript values ----------------------------------------------------------------------------
# JavaScript literals as values: what a header may hold, read off the tokens without evaluating.

_WORDS: dict[str, PlainValue] = {"null": None, "true": True, "false": False}
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\d+)|(.))", re.DOTALL
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_OTHER_BASE = re.compile(r"-?0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(
    r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*(?:[eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)"
    r"|\.[0-9]+(?:[eE][+-]?[0-9]+)?)"
)
_MAX_NUMBER_CHARACTERS = 300


class RepeatedKeyError(UnreadableValueError):
    """An object has a key twice: for JavaScript the last counts, for a reader perhaps the first."""


def read_literal(tokens: JavaScriptTokens) -> PlainValue:
    """The value of the literal that begins at the current token; steps behind it.

    A literal is a string, a template without ``${``, a number, ``true``, ``false``, ``null``, or
    an array or object of literals; comments, bare keys, single quotes and trailing commas are
    JavaScript's. TypeScript's ``as const`` is skipped.

    Raises UnreadableValueError for everything else, RepeatedKeyError for a key given twice, and
    MetadataError for a text without end.
    """
    return plain_value(_value(tokens, 0))


def _value(tokens: JavaScriptTokens, depth: int) -> PlainValue:
    token = tokens.advance()
    value: PlainValue
    match token:
        case Token(kind="string" | "template"):
            value = text_of(token)
        case Token(kind="number"):
            value = _number(token, token.text)
        case Token(kind="name", text="null" | "true" | "false" as word):
            value = _WORDS[word]
        case Token(text="-") if tokens.current.kind == NUMBER:
            value = _number(token, "-" + tokens.advance().text)
        case Token(text="[" | "{") if depth >= MAX_DEPTH:
            raise UnreadableValueError(
                f"expected at most {MAX_DEPTH} levels of nesting, found more", token.start
            )
        case Token(text="["):
            value = _array(tokens, depth)
        case Token(text="{"):
            value = _object(tokens, depth)
        case _:
            raise _unreadable_error("a literal", token)
    _skip_as_const(tokens)
    return value


def _array(tokens: JavaScriptTokens, depth: int) -> list[PlainValue]:
    values: list[PlainValue] = []
    while tokens.current.text != "]":
        values.append(_value(tokens, depth + 1))
        if tokens.current.text == ",":
            tokens.advance()
        elif tokens.current.text != "]":
            raise _unreadable_error("a comma or ]", tokens.current)
    tokens.advance()
    return values


def _object(tokens: JavaScriptTokens, depth: int) -> dict[str, PlainValue]:
    entries: dict[str, PlainValue] = {}
    while tokens.current.text != "}":
        token = tokens.advance()
        key = _key(token)
        colon = tokens.advance()
        if colon.text != ":":
            raise _unreadable_error(f"a colon after the key {shown(key)}", colon)
        if key in entries:
            problem = f"expected each key once, found {shown(key)} twice"
            raise RepeatedKeyError(problem, token.start)
        entries[key] = _value(tokens, depth + 1)
        if tokens.current.text == ",":
            tokens.advance()
        elif tokens.current.text != "}":
            raise _unreadable_error("a comma or }", tokens.current)
    tokens.advance()
    return entries


def _key(token: Token) -> str:
    match token.kind:
        case "name":
            return token.text
        case "string":
            return text_of(token)
        case "number" if token.text.isdecimal():
            return token.text
        case _:
            raise _unreadable_error("a key", token)


def _skip_as_const(tokens: JavaScriptTokens) -> None:
    if tokens.current.kind == NAME and tokens.current.text == "as":
        word = tokens.advance()
        if tokens.current.text != "const":
            raise _unreadable_error("as const", word)
        tokens.advance()


def text_of(token: Token) -> str:
    """The characters that a string or a template means. Raises UnreadableValueError."""
    inside = token.text[1:-1]
    if "\\" not in inside:
        return inside
    try:
        text = _ESCAPE.sub(_unescaped, inside)
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except ValueError as error:
        raise _unreadable_error("escapes of Unicode characters", token) from error


def _unescaped(escape: re.Match[str]) -> str:
    braced, four, two, digits, other = escape.groups()
    if code_point := braced or four or two:
        return chr(int(code_point, 16))
    if digits == "0":
        return "\0"
    if digits or other in {"u", "x"}:
        raise ValueError(escape[0])
    return _ESCAPED.get(other, other)


def _number(token: Token, text: str) -> int | float:
    digits = text.replace("_", "")
    if len(text) <= _MAX_NUMBER_CHARACTERS:
        if _OTHER_BASE.fullmatch(digits):
            return int(digits, 0)
        if _INTEGER.fullmatch(digits):
            return int(digits)
        if _FLOAT.fullmatch(digits):
            return float(digits)
    raise _unreadable_error(f"a number of at most {_MAX_NUMBER_CHARACTERS} digits", token)


def _unreadable_error(expected: str, token: Token) -> UnreadableValueError:
    found = shown(token.text) if token.text else "the end of the file"
    return UnreadableValueError(f"expected {expected}, found {found}", token.start)
