"""Recipes of a ``justfile``, with everything that just runs for one.

They are read by ``just --dump`` where it is installed, which evaluates nothing, else by a small
reader. The files that just reads besides are found by the lines that name them.
"""

import re
from collections.abc import Container, Iterator, Sequence
from pathlib import Path

from lillux.values import replace
from ryeos.imports.just_recipes import (
    IMPORT_LINE,
    MODULE_LINE,
    RECIPE_LINE,
    SETTING_LINE,
    ListedRecipe,
    ListedRecipes,
    SmallReader,
    argument_name,
    dumped_recipes,
    take_dumped,
)
from ryeos.imports.plan import MAX_ITEMS, ImportSource, source_text
from ryeos.imports.shell_commands import OWN, UNKNOWN, joined_folder
from ryeos.imports.task_files import MAX_LINE, Part, Task, TaskFile, part_text, plain_line
from ryeos.imports.task_steps import Follower, Follows, Recipe, Script
from ryeos.imports.tool_texts import MAX_FILE

_MAX_PARTS = 100
_SHELL_CALL = re.compile(r"\bshell\s*\(\s*(?:'([^']*)'|\"([^\"]*)\")")


class Justfile:
    """A justfile with its imports and modules, as just reads it."""

    missing = "no recipe of this file"
    problem = ""
    exported: frozenset[str] = frozenset()

    def __init__(self, folder: Path, name: str, text: str) -> None:
        files = _Files(folder)
        files.take(name, text)
        said, problem = dumped_recipes(folder / name)
        self.listed = ListedRecipes(folders=files.folders)
        if said is None:
            self.listed.notes.append(problem)
            for place, prefix, one in files.texts:
                SmallReader(self.listed, prefix, place if place != name else "").read(one)
        else:
            take_dumped(self.listed, said, "")
        self.notes = tuple(files.notes)
        self.parts = tuple(files.parts.values())

    def recipe(self, name: str) -> Recipe | None:
        """The work of just for a recipe."""
        one = self.listed.recipes.get(self.listed.aliases.get(name, name))
        if one is None:
            return None
        prefix = "".join(name.rpartition("::")[:2])
        folder = self._folder(prefix, one.folder)
        scripts = tuple(self._scripts(one, UNKNOWN if prefix or folder else OWN))
        return replace(one.recipe, scripts=scripts, folder=folder)

    def _folder(self, prefix: str, own: str | None) -> str | None:
        above = self.listed.folders.get(prefix, "")
        if own is None or above is None or own.startswith(("/", "~")) or "{{" in own:
            return None
        return f"{above}/{own}" if above and own else above or own

    def _scripts(self, one: ListedRecipe, own: str) -> Iterator[Script]:
        """The lines of a recipe: each on its own, all together for a script."""
        lines = list(one.body)
        if lines and (lines[0].startswith("#!") or "[script" in "".join(one.recipe.lines[:3])):
            lines = ["\n".join(lines)]
        for line in _joined(lines):
            plain = line if "\n" in line else line.lstrip("@-? ")
            yield Script(line, self._filled(plain, own, {one.name for one in one.arguments}))

    def _filled(self, text: str, own: str, arguments: Container[str]) -> str:
        def value(found: re.Match[str]) -> str:
            return own if found[1] == "justfile_directory()" else self._value(found[1], arguments)

        return re.sub(r"\{\{\s*(.*?)\s*\}\}+", value, text)

    def _value(self, inside: str, arguments: Container[str]) -> str:
        """The value of an expression that is a text, or a variable of one."""
        if inside == "just_executable()":
            return "just"
        if inside in self.listed.several or argument_name(inside) in arguments:
            return UNKNOWN
        said = self.listed.variables.get(inside, inside).strip()
        found = re.fullmatch(r"'([^'{}]*)'|\"([^\"\\{}]*)\"", said)
        return (found[1] or found[2] or "") if found else UNKNOWN

    def started(self, words: Sequence[str]) -> list[str]:
        """The recipes of words, each with as many arguments as it takes; the first by itself."""
        found, rest = list[str](), list(words)
        if not rest:
            return [self._default("")]
        while rest:
            name = rest.pop(0)
            if name not in self.listed.recipes and self._is_module(name):
                name = f"{name}::{rest.pop(0)}" if rest else self._default(f"{name}::")
            name = self.listed.aliases.get(name, name)
            found.append(name)
            one = self.listed.recipes.get(name)
            for argument in one.arguments if one else ():
                del rest[: len(rest) if argument.kind == "list" else 1]
        return found

    def _is_module(self, name: str) -> bool:
        return any(one.startswith(f"{name}::") for one in self.listed.recipes)

    def _default(self, prefix: str) -> str:
        names = [
            name
            for name in self.listed.recipes
            if name.startswith(prefix) and "::" not in name.removeprefix(prefix)
        ]
        chosen = [name for name in names if self.listed.recipes[name].is_default]
        return next(iter([*chosen, *names]), prefix or "default")

    def first(self) -> tuple[str, ...]:
        """The shell of the recipes, and what gives variables."""
        return tuple(self.listed.first)

    def first_scripts(self) -> tuple[Script, ...]:
        """The texts that just gives to a shell for its variables."""
        found = list[Script]()
        for name, text in self.listed.variables.items():
            texts = re.findall(r"`([^`]*)`", text)
            texts += [one[0] or one[1] for one in _SHELL_CALL.findall(text)]
            found += [Script(f"{name} := {text}", self._filled(one, OWN, ())) for one in texts]
        return tuple(found)

    def variables_of(self, lines: Sequence[str]) -> Iterator[str]:
        """The assignments that lines use."""
        yield from _variables_of(self.listed, lines)

    def changes(self, given: frozenset[str], _: frozenset[str]) -> list[str]:
        """The variables that lines use, as far as a line may start a recipe by one."""
        used = _named_in([line for one in self.listed.recipes.values() for line in one.body], given)
        return sorted(set(used))


def _joined(lines: Sequence[str]) -> Iterator[str]:
    """The lines, those that a backslash ends joined with the next."""
    above = ""
    for line in lines:
        whole = f"{above}{line}"
        above = ""
        if whole.endswith("\\"):
            above = whole[:-1]
        else:
            yield whole
    if above:
        yield above


def read_justfile(source: ImportSource, follow: Follower) -> TaskFile:
    """The recipes but private ones, each with those that it depends on."""
    name = source.path.name
    file = Justfile(source.path.parent, name, source_text(source.path, MAX_FILE))
    listed = file.listed
    public = [one for one, said in listed.recipes.items() if not said.is_private]
    followed = follow(source.path.parent, "just", name, file)
    tasks = [_task(one, file, followed, name) for one in public[:MAX_ITEMS]]
    return TaskFile("just", tasks, listed.notes, public[MAX_ITEMS:])


def _task(name: str, file: Justfile, followed: Follows, file_name: str) -> Task:
    found = followed.follow(name)
    one = file.listed.recipes[name]
    return Task(
        name=name,
        steps=found.steps,
        command=("just", "--justfile", file_name, name),
        description=one.about,
        arguments=one.arguments,
        parts=found.parts,
        notes=file.notes,
        problem=found.problem,
    )


def _variables_of(listed: ListedRecipes, lines: Sequence[str]) -> Iterator[str]:
    """The assignments that lines use, and those by which a program runs for any recipe."""
    todo = [
        name
        for name, text in listed.variables.items()
        if "`" in text or re.search(r"\bshell\s*\(", text)
    ]
    todo += _named_in(lines, listed.variables)
    seen: set[str] = set()
    while todo:
        name = todo.pop(0)
        if name not in seen:
            seen.add(name)
            yield f"where {name} := {' '.join(listed.variables[name].split())}"
            todo += _named_in([f"{{{{{listed.variables[name]}}}}}"], listed.variables)


def _named_in(lines: Sequence[str], variables: Container[str]) -> list[str]:
    inside = (text for line in lines for text in re.findall(r"\{\{(.+?)\}\}+", line))
    return [word for text in inside for word in re.findall(r"[\w-]+", text) if word in variables]


_SEEMS_PART = re.compile(r"(?:import|mod)\??\s+(?!:=)[^\s:]")


class _Files:
    """The files that just reads for a justfile: imports and modules, and theirs.

    Only a line at the left margin names one: what is indented belongs to a recipe.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.parts: dict[str, Part] = {}
        self.texts: list[tuple[str, str, str]] = []
        self.notes: list[str] = []
        self.folders: dict[str, str | None] = {}

    def read(self, name: str, prefix: str = "") -> None:
        """Take a file, and those that it names. ``prefix`` is the module that it belongs to."""
        text = part_text(self._folder, name)
        if text is not None:
            self.take(name, text, prefix)

    def take(self, name: str, text: str, prefix: str = "") -> None:
        """Take the text of a file."""
        self.texts.append((name, prefix, text))
        is_first = len(self.texts) == 1
        above = f"{name.rpartition('/')[0]}/" if "/" in name else ""
        self.folders.setdefault(prefix, above.rstrip("/"))
        for number, line in enumerate((one.rstrip("\r") for one in text.split("\n")), 1):
            where = f"line {number}" if is_first else f"{name}, line {number}"
            if found := IMPORT_LINE.fullmatch(line):
                self._add(f"{above}{found[2][1:-1]}", where, prefix, is_optional=bool(found[1]))
            elif found := MODULE_LINE.fullmatch(line):
                self._module(found, above, where, prefix)
            elif _SEEMS_PART.match(line) and not RECIPE_LINE.fullmatch(line[:MAX_LINE]):
                shown = f"{plain_line(line)[:60]}*"  # in a form that is not read: never pinned
                self.parts[shown] = Part(path=shown, where=where)
            elif found := SETTING_LINE.match(line):
                self._setting(found[1], found[2] or "true", where, prefix)

    def _module(self, found: re.Match[str], above: str, where: str, prefix: str) -> None:
        own = f"{prefix}{found[2]}::"
        if found[3]:
            path = f"{above}{found[3][1:-1]}"
            choices = [path, *(f"{path}/{name}" for name in ("mod.just", "justfile", ".justfile"))]
        else:
            path = f"{above}{found[2]}"
            choices = [f"{path}.just"]
            choices += [f"{path}/{name}" for name in ("mod.just", "justfile", ".justfile")]
        there = [one for one in choices if (self._folder / one).is_file()]
        if there:
            self._add(there[0], where, own, is_optional=False)
            return
        for one in choices if found[1] else choices[:1]:
            self._add(one, where, own, is_optional=bool(found[1]))

    def _add(self, path: str, where: str, prefix: str, *, is_optional: bool) -> None:
        if path in self.parts or len(self.parts) >= _MAX_PARTS:
            return
        self.parts[path] = Part(path=path, where=where, is_optional=is_optional)
        self.read(path, prefix)

    def _setting(self, name: str, value: str, where: str, prefix: str) -> None:
        if name == "working-directory":
            plain = re.fullmatch(r"'([^']*)'|\"([^\"\\]*)\"", value.strip())
            place = (plain[1] or plain[2] or "") if plain else "/"
            above = self.folders.get(prefix) or "."
            self.folders[prefix] = joined_folder(above, place)
        if name.startswith("dotenv") and value != "false":
            self.notes.append(f"{where}: set {name}: what it reads is not pinned")
        if name == "fallback" and value != "false":
            self.notes.append(f"{where}: set fallback: just also looks in folders above")
