"""Fenced blocks of Markdown items, and the lines that sign them.

A file of its own: directives and knowledge items both have their header in such a block.
"""

from lillux.values import dataclass

SHORTEST_HIDING_FENCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """A fenced block of a Markdown text, and what stands around it.

    before, after   the text around the block, without blanks at its ends
    inside          the lines of the block
    lines_above     how many lines of the file stand above ``inside``
    """

    before: str
    inside: str
    after: str
    lines_above: int


def find_fence(text: str, language: str) -> Fence | None:
    """The first block that a line of three backticks and the language opens; None without one.

    It ends at the next line of three backticks. A block inside a longer fence, of four or more
    backticks, is an example and not looked at. Signature lines at the top belong to no part.
    """
    lines = text.split("\n")
    opening = _opening_line(lines, f"```{language}")
    if opening is None:
        return None
    closing = _next_line(lines, "```", opening + 1)
    if closing is None:
        return None
    return Fence(
        before="\n".join(lines[count_signature_lines(lines) : opening]).strip(),
        inside="\n".join(lines[opening + 1 : closing]),
        after="\n".join(lines[closing + 1 :]).strip(),
        lines_above=opening + 1,
    )


def count_signature_lines(lines: list[str]) -> int:
    """The number of lines at the top that sign the file: they begin with ``<!-- rye:``."""
    count = 0
    while count < len(lines) and lines[count].startswith("<!-- rye:"):
        count += 1
    return count


def _opening_line(lines: list[str], mark: str) -> int | None:
    hiding = 0
    for number, line in enumerate(lines):
        backticks = len(line) - len(line.lstrip("`"))
        if hiding:
            closes = backticks >= hiding and not line[backticks:].strip()
            hiding = 0 if closes else hiding
        elif backticks >= SHORTEST_HIDING_FENCE:
            hiding = backticks
        elif line.rstrip() == mark:
            return number
    return None


def _next_line(lines: list[str], words: str, start: int) -> int | None:
    for number in range(start, len(lines)):
        if lines[number].rstrip() == words:
            return number
    return None
