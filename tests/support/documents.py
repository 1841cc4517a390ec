"""Examples in documents: blocks of a page that tests run, and their expected output."""

import re
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^(?P<fence>`{3,})(?P<language>\w+) test(?P<needs>(?: [\w.+-]+)*)\n(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
_STATUS = re.compile(r"^\[status (\d+)\]$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A block with the word ``test`` behind its language; ``line`` is where it starts.

    ``needs`` are the programs named behind it: the block is left out where one is missing.
    """

    language: str
    text: str
    line: int
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A command of a console example, what it prints, and its exit status."""

    command: str
    output: str
    status: int


def examples(page: Path) -> list[Example]:
    """The blocks of a page that are to be run, in order."""
    text = page.read_text("utf-8")
    return [
        Example(
            language=block["language"],
            text=block["text"],
            line=text.count("\n", 0, block.start()) + 1,
            needs=tuple(block["needs"].split()),
        )
        for block in _BLOCK.finditer(text)
    ]


def steps(console: str) -> list[Step]:
    """The commands of a console example: ``$ `` starts one, ``> `` continues it.

    What follows is its output, ``[status N]`` in a line of its own its exit status, else 0.
    """
    return [_step(part) for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]]


def _step(part: str) -> Step:
    lines = part.splitlines()
    typed = 1
    while typed < len(lines) and lines[typed].startswith(">"):
        typed += 1
    command = [lines[0], *(line[1:].removeprefix(" ") for line in lines[1:typed])]
    shown = "\n".join(lines[typed:])
    status = _STATUS.search(shown)
    return Step(
        command="\n".join(command),
        output=_STATUS.sub("", shown).strip(),
        status=int(status[1]) if status else 0,
    )


def prints(shown: str, printed: str) -> bool:
    """Whether an output matches the page, where ``...`` stands for any text."""
    pattern = ".*".join(re.escape(part) for part in shown.split("..."))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None
