"""The one failure of this package: a header that cannot be read."""

from lillux.errors import LilluxError

_SHOWN_CHARACTERS = 60


class MetadataError(LilluxError):
    """A file's header cannot be read, so nothing is known about the item.

    parser    which format was expected: ``python``, ``yaml``, ``directive`` ...
    problem   what was expected and what was found
    line      where, counted from 1 in the text that was handed in; None when no line is to blame
    place     what the message starts with; ``<parser> header`` unless the caller knows better
    """

    code, exit_status = "PARSING_ERROR", 6

    def __init__(
        self,
        parser: str,
        problem: str,
        line: int | None = None,
        *,
        place: str = "",
        hint: str = "",
    ) -> None:
        self.parser, self.problem, self.line = parser, problem, line
        self.place = place or f"{parser} header"
        at = "" if line is None else f", line {line}"
        mend = "mend the file, then sign it again: rye sign PATH"
        super().__init__(f"{self.place}{at}: {problem}", hint=hint or mend)


def shown(text: str) -> str:
    """Text of the file as a message may show it: quoted, on one line, no longer than a glance."""
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
    return repr(cut)


def line_of(text: str, position: int) -> int:
    """The line, counted from 1, that a position of the text lies on."""
    return text.count("\n", 0, position) + 1
