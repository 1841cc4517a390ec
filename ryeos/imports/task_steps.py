"""Everything that a task runs, in the order in which its runner does it. Pure.

A runner knows recipes by their names. A recipe runs others before its own lines, others after them,
and its lines may start some: a person who is asked about one of them sees them all.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from lillux.foreign_text import one_line
from lillux.values import dataclass
from ryeos.imports.task_files import Part

MAX_STEPS, MAX_SHOWN, _MAX_NAMES = 1000, 64 * 1024, 2000
"""Lines, and characters, that a person can be expected to read before one task is signed."""


@dataclass(frozen=True, slots=True)
class Script:
    """A text that a shell gets at once: as a person sees it, and with the values that are known."""

    shown: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """The work of a runner for one name.

    before   names that run first
    lines    its own lines
    calls    names that its lines start by the runner's own command
    after    names that run last
    scripts  its lines as a shell gets them
    folder   where they run, from the folder of the file; None for one that is not known
    parts    files that it runs
    problem  why what it runs cannot be shown
    """

    lines: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    scripts: tuple[Script, ...] = ()
    folder: str | None = ""
    parts: tuple[Part, ...] = ()
    problem: str = ""


class Recipes(Protocol):
    """Recipes by their names."""

    def get(self, name: str, /) -> Recipe | None:
        """The recipe of a name; None for none."""
        ...


class RunnerFile(Protocol):
    """A file with tasks, as its runner reads it.

    missing  what is said of a name without a recipe
    parts    the further files that the runner reads with it
    problem  why no task of it can be shown
    """

    missing: str
    problem: str

    @property
    def parts(self) -> tuple[Part, ...]:
        """The further files, by their paths from the folder that the runner starts in."""
        ...

    @property
    def exported(self) -> frozenset[str]:
        """The variables that it gives to what its lines start."""
        ...

    def recipe(self, name: str) -> Recipe | None:
        """The work of the runner for a name."""
        ...

    def started(self, words: Sequence[str]) -> list[str]:
        """The names that run for the words behind the runner's command; all by itself for none."""
        ...

    def first(self) -> tuple[str, ...]:
        """The lines that run whatever name is asked for."""
        ...

    def first_scripts(self) -> tuple[Script, ...]:
        """Those of these texts that a shell gets."""
        ...

    def variables_of(self, lines: Sequence[str]) -> Iterator[str]:
        """The variables that lines use, each on a line."""
        ...

    def changes(self, given: frozenset[str], exported: frozenset[str]) -> list[str]:
        """The variables that change which names run, of those given, and of the environment."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """Everything that a task runs, with the files that say so, and why it cannot be shown.

    ``own`` are the lines of the first file.
    """

    steps: tuple[str, ...]
    own: tuple[str, ...]
    names: tuple[str, ...]
    parts: tuple[Part, ...]
    problem: str


class Follows(Protocol):
    """A file whose lines are followed into others."""

    def follow(self, name: str) -> Followed:
        """Everything that runs for a name of the file."""
        ...


Follower = Callable[[Path, str, str, RunnerFile], Follows]
"""Follows the lines of a file in a folder, by its runner and its name."""


def walk(name: str, recipes: Recipes, missing: str) -> Iterator[tuple[str, str | None]]:
    """Each name that runs for a name with None where it is met first, and with each of its lines.

    It ends in more than `MAX_STEPS` lines where there are more names than a person reads.
    """
    seen: set[str] = set()
    todo: list[tuple[str, bool]] = [(name, False)]  # a stack: chains may be long
    while todo:
        one, is_due = todo.pop()
        recipe = recipes.get(one)
        if is_due and recipe:
            yield from ((one, line) for line in recipe.lines)
            continue
        if one in seen:
            continue
        seen.add(one)
        if len(seen) > _MAX_NAMES:
            yield from [(one, "and more")] * (MAX_STEPS + 1)
            return
        yield one, None
        if recipe is None:
            yield one, missing
        else:
            todo += [(after, False) for after in reversed([*recipe.calls, *recipe.after])]
            todo.append((one, True))
            todo += [(before, False) for before in reversed(recipe.before)]


def shown_step(owner: str, line: str) -> str:
    """A line for a person, with the name that it belongs to; ``""`` for a blank one."""
    plain = _plain(line)
    return f"{_plain(owner)}: {plain}" if plain and owner else plain


def _plain(text: str) -> str:
    return one_line(text)


def too_much(steps: Sequence[str]) -> str:
    """Why these lines are more than a person reads; ``""`` for few enough."""
    if len(steps) > MAX_STEPS:
        return f"it runs more than {MAX_STEPS} lines, more than a person reads"
    size = sum(map(len, steps))
    if size > MAX_SHOWN:
        return f"its lines have {size} characters; expected at most {MAX_SHOWN}"
    return ""
