"""Places of a JavaScript file that bind a name."""

import re
from bisect import bisect_right
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ryeos.items.header_values import MetadataError, line_of
from ryeos.items.javascript import DECLARES, READ_NAME, declared_constants, doc_comment_tag
from ryeos.items.javascript_texts import (
    LEVELS,
    enclosing,
    executing_names,
    is_executed,
    with_joined_texts,
)
from ryeos.items.javascript_tokens import (
    END,
    KEYWORDS_BEFORE_A_VALUE,
    LINE_END,
    MARK,
    NAME,
    REGEX,
    REGEX_LITERAL,
    STRING,
    TEMPLATE,
    JavaScriptTokens,
    Token,
)

if TYPE_CHECKING:
    from ryeos.items.header_names import Binding, Unread


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

    read = {at for at, constant in declared_constants(JavaScriptTokens(text), text) if constant}
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
    """Names bound by texts that are given to ``eval`` and its like."""
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
        yield from (one[1] for one in _ASSIGNS.finditer(code) if READ_NAME.fullmatch(one[1]))
        return
    for one in found:
        if isinstance(one, Binding) and not one.is_use and READ_NAME.fullmatch(one.name):
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
    """The change to the name at a place, in words; ``""`` where it is only read."""
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
    """True if a part of a value is assigned or removed here, or a method called that does so."""
    before = _text_at(tokens, at - 1)
    end, last = _end_of_members(tokens, at)
    is_called = last in _CHANGES and _text_at(tokens, end) == "("
    is_deleted = end > at + 1 and "delete" in {before, _text_at(tokens, at - 2)}
    is_given = before == "(" and _text_at(tokens, at - 2) in _CHANGES_OF_OBJECTS
    return is_called or is_deleted or is_given or (end > at + 1 and _is_assigned(tokens, end))


def _is_assigned(tokens: Sequence[Token], at: int) -> bool:
    """True if ``=`` stands here, also as the end of ``+=`` and its like."""
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
    """The change to the name that a text holds: ``exports["NAME"] =``."""
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
    """True if a place belongs to ``export {...}`` or ``export * as``."""
    above = reversed(tokens[max(at - _LONGEST_LIST, 0) : at])
    ends = (one.text for one in above if one.text in {";", "export", "import", "="})
    return next(ends, "") == "export"


_BEFORE_A_PARAMETER = frozenset({"(", ",", "{", "[", ":"})


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
    for _ in range(LEVELS):  # a parameter may be a pattern of names
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
    """True if a name is no value here, one of whose keys is read, or one that is exported."""
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
    """True if an object is what a file exports: ``export default {``, ``module.exports = {``."""
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
        for at, constant in declared_constants(JavaScriptTokens(text), text)
        for name in constant
    }
    constants = frozenset(lines)
    if inside:
        above = line_of(text, first)
        for number, line in enumerate(inside.split("\n"), above):
            if (tag := doc_comment_tag(line)) and tag[0] not in constants:
                lines[tag[0]] = number
    fix = "write {field} once, as a constant at the top level"
    for position, line in _lines_of_comments(tokens, text):
        is_first = first <= position <= last if inside else False
        number = line_of(text, position)
        tag = doc_comment_tag(line.removeprefix("/*").removesuffix("*/")) if is_first else None
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
    """True if a token begins what is no constant and no import."""
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
    """True if an assignment seems to declare rights, by its name and how its value begins."""
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
    """True if a slash begins an expression for this reader alone, or for others, and it matters.

    It matters if the expression has quotes or the marks of comments in it.
    """
    token = tokens[at]
    if token.text[:1] != "/" or token.kind not in {MARK, REGEX} or at == 0:
        return False
    before = tokens[at - 1]
    is_key = _text_at(tokens, at - 2) in {".", "?."}
    is_name = before.kind == NAME and (
        before.text in _MAYBE_NAMES or (is_key and before.text in KEYWORDS_BEFORE_A_VALUE)
    )
    if not is_name and before.text not in _MAYBE_BEFORE_A_VALUE:
        return False
    matched = REGEX_LITERAL.match(text, token.start, token.start + _LONG)
    if matched is None:
        ends = LINE_END.search(text, token.start, token.start + _LONG)
        return ends is None and len(text) - token.start > _LONG
    inside = matched[0][1:]
    return bool(_SHIFTS & set(inside)) or "/*" in inside or "//" in inside


def _hidden_at(text: str, position: int, name: str, problem: str) -> "Unread":
    from ryeos.items.header_names import Unread

    return Unread(line=line_of(text, position), name=name, field="sandbox", problem=problem)
