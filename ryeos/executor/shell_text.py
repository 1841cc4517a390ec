"""Values inserted into text that a shell will parse: each arrives as data, wherever it stands.

A value is first inserted as a mark. When the text is whole, it is read as a shell reads it, and
each mark becomes its value in the quoting of its place: bare, between double or single quotes.
Where no quoting is safe (backquotes, arithmetic, here-documents ...) only numbers are filled in;
there a script uses a shell variable. Pure. See ``docs/templates.md``.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from ryeos.errors import SpecError

_SHELL_NAME = re.compile(r"(?:ba|da|z|k|mk|a|ya|rba)?sh[-.\d]*(?:\.exe)?", re.IGNORECASE)
_COMMAND_OPTION = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_OPTION_WITH_ARGUMENT = re.compile(r"[-+][A-Za-z]*[oO]|--rcfile|--init-file")

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_MARK = re.compile("\0([0-9]+)\0")
_TOKEN = re.compile(
    "\0(?P<mark>[0-9]+)\0"
    r"|(?P<dangling>[\\$](?=\0))"
    r"|(?P<escaped>\\.)"
    r"|(?P<comment>(?<![^\s;&|()<>])\#)"
    r"|(?P<sign>\$'|\$\(\(|\$\[|\$\(|\$\{|\(\(|<<<|<<|['\"`()}])"
    r"|(?P<word>\bcase\b)",
    re.DOTALL,
)
_BACKQUOTES_END = re.compile(r"(?:[^\\`]|\\.)*+`", re.DOTALL)
_PLAIN_ANSI_END = re.compile(r"[^\\']*+'")

_GROUP, _COMMAND, _DOUBLE, _BRACES, _ARITHMETIC = "(", "$(", '"', "${", "$(("
# Inside of these no quoting is safe.
_CLOSED = {_BRACES: "${...}", _ARITHMETIC: "arithmetic"}


def script_positions(words: Sequence[str]) -> frozenset[int]:
    """Which of a command's words a shell parses as a script: what follows its ``-c``.

    The shell may be the program, or come later: ``env bash -c ...``. ``-c`` may be one of several
    letters, and options may stand between it and the script.
    """
    positions = set()
    shell = script = has_argument = False
    for index, word in enumerate(words):
        goes_on = word[:1] in {"-", "+"} or has_argument
        if script:
            positions.add(index)
            script = shell = goes_on
        elif _SHELL_NAME.fullmatch(PurePath(word).name):
            shell = True
        else:
            script = shell and _COMMAND_OPTION.fullmatch(word) is not None
            shell = shell and goes_on
        has_argument = _OPTION_WITH_ARGUMENT.fullmatch(word) is not None
    return frozenset(positions)


class ShellText:
    """One text for a shell: ``mark`` while it is filled, ``quoted`` when it is whole.

    ``where`` is the path of the text in its file, for errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._values: list[tuple[str, str]] = []

    def mark(self, value: str, placeholder: str) -> str:
        """What stands for a value until its place is known.

        An empty ``${VARIABLE}`` stays: it may be a variable of the script, or have a default.
        """
        if not value and placeholder.startswith("${"):
            return placeholder
        self._values.append((value, placeholder))
        return f"\0{len(self._values) - 1}\0"

    def quoted(self, text: str) -> str:
        """The text with the values in their places. Raises SpecError where none is safe."""
        marks = [int(index) for index in _MARK.findall(text)]
        is_ours = all(index < len(self._values) for index in marks)
        if not is_ours or text.count("\0") != 2 * len(marks):
            raise SpecError(self._where, "expected text without NUL characters")
        return "".join(_Reader(text, self).read()) if marks else text

    def value(self, index: str) -> str:
        """The value behind a mark."""
        return self._values[int(index)][0]

    def without_quotes(self, index: str, place: str) -> str:
        """What stands where no quoting is safe: a number, or a variable for the shell to expand."""
        value = self.value(index)
        return value if _NUMBER.fullmatch(value) else self.refused(index, place)

    def refused(self, index: str, place: str) -> str:
        """The ``${VARIABLE}`` for the shell to expand; for any other value raises SpecError."""
        placeholder = self._values[int(index)][1]
        if placeholder.startswith("${"):
            return placeholder
        raise SpecError(
            self._where,
            f"{placeholder} cannot be filled in {place}",
            hint=f"first write value={placeholder} on a line of its own, then use $value",
        )


class _Reader:
    """Reads a text as a shell does, as far as the places of values need it.

    ``places`` are the quotes and brackets that are open. ``lost`` says behind what we cannot tell
    the place any more; from there on no quoting is safe.
    """

    def __init__(self, text: str, values: ShellText) -> None:
        self._text, self._values = text, values
        self._places: list[str] = []
        self._lost = ""
        self._position = 0

    def read(self) -> Iterator[str]:
        while token := _TOKEN.search(self._text, self._position):
            yield self._text[self._position : token.start()]
            self._position = token.end()
            yield self._step(token)
        yield self._text[self._position :]

    @property
    def _place(self) -> str:
        return self._places[-1] if self._places else _GROUP

    @property
    def _is_bare(self) -> bool:
        return self._place in {_GROUP, _COMMAND}

    def _step(self, token: re.Match[str]) -> str:
        text = token.group()
        if token["mark"]:
            return self._value(token["mark"])
        if token["dangling"]:
            return text + self._behind(text)
        if self._lost or token["escaped"]:
            return text
        if token["comment"]:
            return text + self._comment()
        if token["word"]:
            # Its ) would look like the end of the brackets.
            self._lost = "text behind a case in $(...)" if _COMMAND in self._places else ""
            return text
        return text + self._sign(text)

    def _value(self, index: str) -> str:
        closed = next((_CLOSED[place] for place in self._places if place in _CLOSED), "")
        if self._lost or closed:
            return self._values.without_quotes(index, self._lost or closed)
        value = self._values.value(index)
        if self._place == _DOUBLE:
            return re.sub(r'[\\"$`]', r"\\\g<0>", value)
        # A bare number may be part of {1..9}; before < or > it would name a file descriptor.
        is_descriptor = self._text.startswith(("<", ">"), self._position)
        if _NUMBER.fullmatch(value) and not is_descriptor:
            return value
        return _in_single_quotes(value)

    def _behind(self, sign: str) -> str:
        """A value right behind a backslash or dollar, which would change what its quotes mean."""
        mark = _MARK.match(self._text, self._position)
        if mark is None:
            return ""
        self._position = mark.end()
        return self._values.refused(mark[1], f"a place behind {sign}")

    def _comment(self) -> str:
        """To the end of the line, values left out: a line end in one would end the comment."""
        if not self._is_bare:
            self._lost = "text behind # in arithmetic" if self._place == _ARITHMETIC else ""
            return ""
        end = self._text.find("\n", self._position)
        comment = self._text[self._position : end if end >= 0 else len(self._text)]
        self._position += len(comment)
        return _MARK.sub("", comment)

    def _sign(self, sign: str) -> str:
        """Follow a quote or bracket; what was read beyond it."""
        if self._place == _DOUBLE:
            return self._in_double(sign)
        if sign == "'" and self._is_bare:
            return self._single()
        if sign == "`" and self._is_bare:
            return self._backquotes()
        if sign == "$'" and self._is_bare:
            return self._ansi()
        if self._is_bare:
            self._open_or_close(sign)
        elif self._place == _BRACES:
            self._in_braces(sign)
        else:
            self._in_arithmetic(sign)
        return ""

    def _open_or_close(self, sign: str) -> None:
        match sign:
            case '"' | "$(" | "${" | "(":
                self._places.append(sign)
            case "$((" | "((":
                self._places += [_ARITHMETIC, _ARITHMETIC]
            case ")" if self._places:
                self._places.pop()
            case "$[":
                self._lost = "text behind $["
            case "<<":
                self._lost = "text behind the start of a here-document"

    def _in_double(self, sign: str) -> str:
        match sign:
            case '"':
                self._places.pop()
            case "$(" | "${":
                self._places.append(sign)
            case "$((":
                self._places += [_ARITHMETIC, _ARITHMETIC]
            case "$[":
                self._lost = "text behind $["
            case "`":
                return self._backquotes()
        return ""

    def _in_braces(self, sign: str) -> None:
        match sign:
            case "}":
                self._places.pop()
            case "${":
                self._places.append(sign)
            case "(" | ")":
                return
            case _:
                self._lost = "text behind quotes in ${...}"

    def _in_arithmetic(self, sign: str) -> None:
        match sign:
            case "(":
                self._places.append(_ARITHMETIC)
            case "((":
                self._places += [_ARITHMETIC, _ARITHMETIC]
            case ")":
                self._places.pop()
            case "${":
                self._places.append(sign)
            case "}":
                return
            case _:
                self._lost = "text behind quotes in arithmetic"

    def _single(self) -> str:
        end = self._text.find("'", self._position)
        inside = self._text[self._position : end + 1 if end >= 0 else len(self._text)]
        self._position += len(inside)
        return _MARK.sub(self._in_single, inside)

    def _in_single(self, mark: re.Match[str]) -> str:
        return self._values.value(mark[1]).replace("'", "'\\''")

    def _backquotes(self) -> str:
        return self._closed(_BACKQUOTES_END, "backquotes")

    def _ansi(self) -> str:
        return self._closed(_PLAIN_ANSI_END, "$'...'")

    def _closed(self, end: re.Pattern[str], place: str) -> str:
        """Past text that no value can stand in."""
        inside = end.match(self._text, self._position)
        if inside is None:
            self._lost = f"text behind {place}"
            return ""
        self._position = inside.end()
        return _MARK.sub(lambda mark: self._values.without_quotes(mark[1], place), inside.group())


def _in_single_quotes(value: str) -> str:
    return "'" + value.replace("'", "'\"'\"'") + "'"
