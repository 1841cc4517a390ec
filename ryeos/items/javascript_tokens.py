"""The tokens of JavaScript and TypeScript, as far as finding and reading constants needs them.

No grammar: brackets are counted, comments skipped, and strings, templates and regular expressions
taken whole, so that a constant is never found inside one of them. Every character is looked at
once, whatever the text.
"""

import re
from typing import NamedTuple

from ryeos.items.header_values import MetadataError, line_of

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
REGEX_LITERAL = re.compile(
    r"/(?:[^/\\\[\n\r\u2028\u2029]|\\[^\n\r\u2028\u2029]"
    r"|\[(?:[^\]\\\n\r\u2028\u2029]|\\[^\n\r\u2028\u2029])*\])+/\w*"
)
# ECMA-262, 12.3: what ends a line, and with it a comment.
LINE_END = re.compile("[\n\r\u2028\u2029]")
_TEMPLATE_PART = re.compile(r"[^`\\$]*(?:(?:\\.|\$(?!\{))[^`\\$]*)*(`|\$\{)?", re.DOTALL)
_FOREIGN_LINES = re.compile("(?:(?:#!|# rye:)[^\n\r\u2028\u2029]*\n?)*")

_CLOSED_BY = {"(": ")", "[": "]", "{": "}", "${": "}", "`": "`", "/*": "*/"}
OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_ENDS_A_VALUE = frozenset({")", "]", "++", "--"})
KEYWORDS_BEFORE_A_VALUE = frozenset(
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
        on_new_line = bool(LINE_END.search(self._text, end_of_passed, start))
        self.current = Token(kind, text, start, depth, on_new_line)
        self._above_code = self._above_code and text in _BEFORE_CODE
        return passed

    def _skip(self, position: int) -> int:
        """The start of the next token, behind blanks and comments."""
        while True:
            blank = _BLANK.match(self._text, position)
            start = blank.end() if blank else position
            if self._text.startswith("//", start):
                newline = LINE_END.search(self._text, start)
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
        matched = REGEX_LITERAL.match(self._text, start)
        if matched is None:
            # A division after all, and so is the rest of the line: trying again at each of its
            # slashes could take quadratic time.
            newline = self._text.find("\n", start)
            self._no_regex_before = newline if newline >= 0 else len(self._text)
            return False
        self._position = matched.end()
        return True

    def _count_bracket(self, mark: str, start: int) -> None:
        if mark in OPENING:
            self._open.append((mark, start))
        elif mark in _CLOSING and self._open and self._open[-1][0] != "${":
            self._open.pop()

    def _unclosed(self, opening: str, start: int) -> MetadataError:
        problem = f"expected {_CLOSED_BY[opening]} to close {opening}, found the end of the file"
        return MetadataError("javascript", problem, line_of(self._text, start))


def _regex_may_follow(before: Token) -> bool:
    """True if a slash begins a regular expression here; after a value it divides."""
    match before.kind:
        case "name":
            return before.text in KEYWORDS_BEFORE_A_VALUE
        case "mark":
            return before.text not in _ENDS_A_VALUE
        case _:
            return False
