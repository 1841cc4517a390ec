"""Everything that a task runs, in the order in which its runner does it. Pure.

A runner knows recipes by their names. A recipe runs others before its own lines, others after them,
and its lines may call some: a person who is asked about one of them sees them all.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from lillux.values import dataclass

MAX_STEPS, MAX_SHOWN, _MAX_NAMES = 1000, 64 * 1024, 2000
"""Lines, and characters, that a person can be expected to read before one task is signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a runner does for one name.

    before  names that run first
    lines   its own lines
    calls   names that its lines start by the runner's own command
    after   names that run last
    """

    lines: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


def steps_of(name: str, recipes: Mapping[str, Recipe], missing: str) -> tuple[str, ...]:
    """The lines that run for a name, those of others with the name of their recipe before them.

    Each recipe is shown once, where it runs first. ``missing`` is said of a name without a recipe.
    More than `MAX_STEPS` lines are returned where there are more than a person reads.
    """
    found = []
    for owner, line in islice(_in_order(name, recipes, missing), MAX_STEPS + 1):
        plain = " ".join(line.split())
        plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in plain)
        if plain:
            found.append(plain if owner == name else f"{owner}: {plain}")
    return tuple(found)


def too_much(steps: Sequence[str]) -> str:
    """Why these lines are more than a person reads; ``""`` for few enough."""
    if len(steps) > MAX_STEPS:
        return f"it runs more than {MAX_STEPS} lines, more than a person reads"
    size = sum(map(len, steps))
    if size > MAX_SHOWN:
        return f"its lines have {size} characters; expected at most {MAX_SHOWN}"
    return ""


def names_in_order(name: str, recipes: Mapping[str, Recipe]) -> tuple[str, ...]:
    """The names that run for a name, itself among them."""
    owners = (owner for owner, _ in _in_order(name, recipes, "", every=True))
    return tuple(dict.fromkeys(owners))


def _in_order(
    name: str, recipes: Mapping[str, Recipe], missing: str, *, every: bool = False
) -> Iterator[tuple[str, str]]:
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
        if recipe is None or every:
            yield one, missing
        if recipe is not None:
            todo += [(after, False) for after in reversed([*recipe.calls, *recipe.after])]
            todo.append((one, True))
            todo += [(before, False) for before in reversed(recipe.before)]


def called_names(
    lines: Sequence[str], command: re.Pattern[str], known: Mapping[str, object]
) -> tuple[str, ...]:
    """The known names that stand behind a runner's command in these lines."""
    found: dict[str, None] = {}
    for line in lines:
        for start in command.finditer(line):
            rest = re.split(r"[;&|()<>]", line[start.end() : start.end() + 2000], maxsplit=1)[0]
            for word in (word.strip("'\"") for word in rest.split()):
                if "*" in word:
                    found |= dict.fromkeys(one for one in known if fnmatchcase(one, word))
                elif word in known:
                    found[word] = None
    return tuple(found)
