"""Values in text that a shell will parse: none is ever written where the shell reads code.

A value is assigned to a shell variable in front of the script, quoted whole, and its place in the
script becomes a reference to that variable. What a variable holds is never read as code, so a
place that is taken for another one costs at most the look of a value. How the reference is
written depends on the quotes that are open there. Numbers mean nothing but themselves and stand
as they are. Pure. See ``docs/writing-tools.md``.
"""

import re
from collections.abc import Callable, Iterator, Sequence

from lillux.patterns import pattern
from ryeos.items.errors import SpecError

_NUMBER = pattern(r"-?[0-9]+(?:\.[0-9]+)?")
_TOKEN = pattern(
    "\0(?P<mark>[0-9]+)\0"
    r"|(?P<escaped>\\[^\0])"
    r"|(?P<comment>(?<![^\s;&|()])\#[^\n\0]*)"
    r"|(?P<here><<-?[ \t]*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)(?P<rest>[^\n]*)\n)"
    r"|(?P<sign>\$?\(\(|\$?\(|['\"`)])",
    re.DOTALL,
)
_MARK = pattern("\0(?P<mark>[0-9]+)\0")
# Syntax that computes with what variables hold.
_EVALUATES = pattern(r"\(\(|\$\[|\[\[|\w\[|\s-v\s|\b(?:let|declare|typeset)\b")

_BARE, _SINGLE, _DOUBLE, _BACKQUOTES, _ARITHMETIC = "(", "'", '"', "`", "(("
_HERE, _QUOTED_HERE, _BACKSLASH = "<<", "<<'", "\\"


class ShellText:
    """One script: `mark` while it is filled, `finished` when it is whole.

    ``where`` is the path of the script in its file, for errors.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._marked: list[tuple[str, str]] = []

    def mark(self, value: str, placeholder: str) -> str:
        """The mark that stands for a value until its place is known.

        An empty ``${VARIABLE}`` stays: it may be a variable of the script, or have a default.
        """
        if not value and placeholder.startswith("${"):
            return placeholder
        self._marked.append((value, placeholder))
        return f"\0{len(self._marked) - 1}\0"

    def finished(self, text: str) -> str:
        """The script with its assignments in front and references in place of the marks.

        Raises SpecError for a NUL, and where not even a reference is safe.
        """
        body = "".join(_References(text, self._reference_text).read())
        if "\0" in body or any("\0" in value for value, _ in self._marked):
            raise SpecError(self._where, "expected text without NUL characters")
        used = [index for index in range(len(self._marked)) if _variable(index) in body]
        if _EVALUATES.search(body):
            self._refuse_code([self._marked[index] for index in used])
        if not used:
            return body
        from shlex import quote

        assigned = " ".join(f"{_variable(i)}={quote(self._marked[i][0])}" for i in used)
        return f"{assigned}\n{body}"

    def _reference_text(self, index: int, place: str, follows: str) -> str:
        """The form of a value in a place, ``follows`` being the character behind it."""
        if index >= len(self._marked):
            raise SpecError(self._where, "expected text without NUL characters")
        value, placeholder = self._marked[index]
        if _NUMBER.fullmatch(value) and follows not in {"<", ">"}:
            return value
        if place not in _REFUSED:
            return _REFERENCES.get(place, _WORD).format(f"${{{_variable(index)}}}")
        if placeholder.startswith("${"):
            return placeholder
        raise SpecError(
            self._where,
            f"{placeholder} cannot be filled in {_REFUSED[place]}",
            hint=f"first write value={placeholder} on a line of its own, then use $value",
        )

    def _refuse_code(self, used: Sequence[tuple[str, str]]) -> None:
        """Refuse code in values where a shell computes: it would run ``a[$(...)]``."""
        for value, placeholder in used:
            if "[" in value and ("$(" in value or "`" in value or "${" in value):
                raise SpecError(
                    self._where,
                    f"the value of {placeholder} would be code where this script computes",
                    hint="let the tool's schema ask for a number or a pattern",
                )


_WORD = '"{}"'
_REFERENCES = {_SINGLE: "'\"{}\"'", _DOUBLE: "{}", _HERE: "{}"}
_REFUSED = {
    _ARITHMETIC: "arithmetic",
    _QUOTED_HERE: "a quoted here-document",
    _BACKSLASH: "a place behind \\",
}


def _variable(index: int) -> str:
    return f"__rye_{index}_"


class _References:
    """Reads a script as far as the places of values need it, and writes references there.

    ``places`` are the quotes and brackets that are open.
    """

    def __init__(self, text: str, written: Callable[[int, str, str], str]) -> None:
        self._text = text
        self._reference_text = written
        self._places: list[str] = []

    def read(self) -> Iterator[str]:
        position = 0
        while token := _TOKEN.search(self._text, position):
            yield self._text[position : token.start()]
            position = token.end()
            if token["here"] and self._place in {_BARE, _BACKQUOTES}:
                yield token.group()
                body, position = self._here_document(token)
                yield body
            else:
                yield self._step(token)
        yield self._text[position:]

    @property
    def _place(self) -> str:
        return self._places[-1] if self._places else _BARE

    def _step(self, token: re.Match[str]) -> str:
        text = token.group()
        if token["mark"]:
            place = _ARITHMETIC if _ARITHMETIC in self._places else self._place
            return self._reference(token, _BACKSLASH if self._is_escaped(token) else place)
        if token["sign"]:
            self._open_or_close(text)
        elif self._place == _SINGLE and token["escaped"] == "\\'":
            self._places.pop()  # between single quotes a backslash is itself
        return text

    def _reference(self, mark: re.Match[str], place: str) -> str:
        follows = self._text[mark.end() : mark.end() + 1]
        return self._reference_text(int(mark["mark"]), place, follows)

    def _is_escaped(self, mark: re.Match[str]) -> bool:
        before = self._text[: mark.start()]
        backslashes = len(before) - len(before.rstrip("\\"))
        return self._place != _SINGLE and backslashes % 2 == 1

    def _open_or_close(self, sign: str) -> None:
        """Follow a sign, as far as it means anything where it stands."""
        place = self._place
        if place == _SINGLE and sign != _SINGLE:
            return
        if place == _DOUBLE and sign in {_SINGLE, "(", "((", ")"}:
            return
        if sign == place and sign in {_SINGLE, _DOUBLE, _BACKQUOTES}:
            self._places.pop()
        elif sign == ")":
            del self._places[-1:]
        elif sign.endswith("(("):
            self._places += [_ARITHMETIC, _ARITHMETIC]
        else:
            self._places.append(sign[-1])

    def _here_document(self, token: re.Match[str]) -> tuple[str, int]:
        """The document's text with its references, and the position behind it."""
        line = re.compile(rf"^\t*{re.escape(token['end'])}$", re.MULTILINE)
        found = line.search(self._text, token.end())
        stop = found.start() if found else len(self._text)
        place = _QUOTED_HERE if token["quote"] else _HERE
        text = self._text[token.end() : stop]
        return _MARK.sub(
            lambda mark: self._reference_text(int(mark["mark"]), place, ""), text
        ), stop
