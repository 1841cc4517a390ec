"""A file with tasks as it was read: the tasks, and the parts that it is made of.

A file of its own: each reader gives it, and `ryeos.imports.tasks` imports the readers.
"""

import re
from pathlib import Path

from lillux.contained_paths import path_inside
from lillux.errors import LilluxError
from lillux.foreign_text import one_line
from lillux.values import dataclass, field
from ryeos.imports.help_pages import Argument
from ryeos.imports.plan import source_text
from ryeos.imports.tool_texts import MAX_FILE

MAX_LINE = 2000
"""Characters of a line that are read to know what it is."""
MISE_NAME = re.compile(r"\.?mise(?:\.[\w-]+)*\.toml")
"""Files by which mise finds tasks in a folder."""
_MAX_TEXT = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A further file that a runner reads, by its path from the folder of the file with the tasks.

    ``where`` is the line that names it. The runner goes on without one that is optional. A pattern
    stands for its files, which are parts too: no other may appear.
    """

    path: str
    where: str
    is_optional: bool = False
    is_pattern: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a file. ``steps`` are all lines that it runs, ``parts`` what it is made of."""

    name: str
    steps: tuple[str, ...]
    command: tuple[str, ...]
    description: str = ""
    arguments: tuple[Argument, ...] = ()
    takes_words: bool = False
    parts: tuple[Part, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class TaskFile:
    """The findings of a reader in a file.

    ``notes`` are on lines that it did not take, ``left_out`` are tasks beyond `MAX_ITEMS`.
    """

    runner: str
    tasks: list[Task] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def part_text(folder: Path, name: str) -> str | None:
    """The text of a part that lies in the folder of the tasks; None for any other."""
    try:
        if path_inside((folder / name).resolve(), folder.resolve()) is None:
            return None
        return source_text(folder / name, MAX_FILE)
    except (LilluxError, OSError, ValueError):
        return None  # the part itself says why


def plain_line(text: str) -> str:
    """A text on one line of bounded length."""
    return one_line(text, _MAX_TEXT)
