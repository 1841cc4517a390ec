"""The examples of knowledge that is written for agents: files to write, calls to make, answers.

A fenced block is one of these by what stands behind its language:

``a/path.py``  a file of the project, which is the block's text
``person``     commands of ``rye`` that a person types, ``$ `` before each
``call``       a tool of the MCP server and its arguments: ``{"name": ..., "arguments": ...}``
``answer``     keys that the envelope of the call before it has; ``...`` in a text is
               anything
"""

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.documents import prints

_BLOCK = re.compile(
    r"^(?P<fence>`{3,})\w+ (?P<role>[\w.-]*[./][\w./-]+|person|call|answer)\n"
    r"(?P<text>.*?)^(?P=fence)$",
    re.DOTALL | re.MULTILINE,
)
PERSON, CALL, ANSWER = "person", "call", "answer"


@dataclass(frozen=True, slots=True)
class Block:
    """``role`` is `PERSON`, `CALL`, `ANSWER` or the path of a file; ``line`` is where it starts."""

    role: str
    text: str
    line: int

    @property
    def commands(self) -> list[list[str]]:
        """The words after ``rye`` of each command that a person types."""
        lines = (shlex.split(line.removeprefix("$ ")) for line in self.text.splitlines())
        return [words[1:] for words in lines]

    @property
    def value(self) -> Any:  # noqa: ANN401 - JSON
        """The text as JSON."""
        return json.loads(self.text)


def blocks(page: Path) -> list[Block]:
    """The examples of a page, in order."""
    text = page.read_text("utf-8")
    return [
        Block(found["role"], found["text"], text.count("\n", 0, found.start()) + 1)
        for found in _BLOCK.finditer(text)
    ]


def holds(shown: Any, found: Any) -> bool:  # noqa: ANN401 - JSON
    """Whether an answer matches the page."""
    match shown:
        case dict():
            return isinstance(found, dict) and all(
                name in found and holds(value, found[name]) for name, value in shown.items()
            )
        case list():
            return (
                isinstance(found, list)
                and len(found) == len(shown)
                and all(map(holds, shown, found))
            )
        case str():
            return isinstance(found, str) and prints(shown.strip(), found)
        case _:
            return bool(shown == found)
