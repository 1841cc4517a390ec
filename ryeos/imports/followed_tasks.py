"""Steps of a task, in its own file and in those of the runners that its lines start.

The rule for make, npm, just and mise: a line that starts a runner is followed into the file that
this runner reads, which is pinned; where it is not known what the line starts, the task is refused;
where no such file is there yet, that is said in the place of what it would run.
"""

from collections.abc import Iterator
from pathlib import Path

from lillux.errors import LilluxError
from lillux.values import dataclass, replace
from ryeos.imports.runner_starts import OTHERS, Start, starts_of
from ryeos.imports.shell_commands import OWN, joined_folder
from ryeos.imports.task_files import Part, part_text
from ryeos.imports.task_steps import (
    MAX_STEPS,
    Followed,
    Recipe,
    RunnerFile,
    Script,
    shown_step,
    too_much,
    walk,
)

_MAX_FILES, _MAX_PROBLEMS = 100, 5
_AT_INSTALL_OF_OTHERS = ("preinstall", "install", "postinstall", "prepare")
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_MISE_FILES = ("mise.toml", ".mise.toml", "mise/config.toml", ".config/mise.toml")


@dataclass(frozen=True, slots=True)
class _Opened:
    """A file that is read: its path from the first one's folder, and its name for a person."""

    runner: str
    path: str
    label: str
    folder: str
    file: RunnerFile


class _NotReadError(ValueError):
    """A file that a runner would read, and that is not read here."""


class FollowedTasks:
    """The recipes of a file, and of those that their lines lead to.

    A name of the first file stands for itself; one of another stands behind its path and a line
    break, which no name has that a line could start.
    """

    def __init__(self, folder: Path, runner: str, name: str, file: RunnerFile) -> None:
        self._root = folder
        self._first = _Opened(runner, name, name, "", file)
        self._opened: dict[tuple[str, str, str], _Opened | None] = {(runner, "", name): self._first}
        self._by_label: dict[str, _Opened] = {}
        self._recipes: dict[str, Recipe] = {}
        self._at_first = tuple(self._lines_at_first())

    def _lines_at_first(self) -> Iterator[str]:
        """The work of the first file's runner for any name, with what that starts."""
        self._owners_at_first: list[str] = []
        before = self._with_starts(_first_recipe(self._first.file), self._first)
        yield from before.lines
        self._recipes["\n"] = replace(before, lines=())
        for number, (owner, line) in enumerate(walk("\n", self, "")):
            if line is None:
                self._owners_at_first.append(owner)
            elif number <= MAX_STEPS * 2:
                yield shown_step(self._shown(owner), line)

    def follow(self, name: str) -> Followed:
        """Everything that runs for a name of the first file."""
        owners, lines = list[str](), list[tuple[str, str]]()
        for owner, line in walk(name, self, self._first.file.missing):
            if line is None:
                owners.append(owner)
            else:
                lines.append((owner, line))
            if len(lines) > MAX_STEPS:
                break
        steps = [
            shown_step("" if owner == name else self._shown(owner), line) for owner, line in lines
        ]
        steps = [*self._at_first, *filter(None, steps)]
        own = [*self._at_first, *(line for owner, line in lines if "\n" not in owner)]
        if not too_much(steps):
            steps += self._variables(own, lines)
        return Followed(
            steps=tuple(steps),
            own=tuple(own),
            names=tuple(owners),
            parts=tuple(self._parts([*self._owners_at_first, *owners])),
            problem=self._problem(name, [*self._owners_at_first, *owners]),
        )

    def _shown(self, key: str) -> str:
        return key.replace("alone\n", "").replace(OWN, "$(CURDIR)")

    def _variables(self, own: list[str], lines: list[tuple[str, str]]) -> Iterator[str]:
        yield from self._first.file.variables_of(own)
        for label, opened in self._by_label.items():
            used = [line for owner, line in lines if owner.startswith(f"{label}\n")]
            for one in opened.file.variables_of(used) if used else ():
                yield f"{label}: {one}"

    def _parts(self, owners: list[str]) -> Iterator[Part]:
        for owner in owners:
            recipe, folder = self.get(owner), self._opened_of(owner)[0].folder
            for part in recipe.parts if recipe else ():
                yield replace(part, path=joined_folder(folder, part.path) or part.path)
        yield from self._first.file.parts
        labels = dict.fromkeys(one.partition("\n")[0] for one in owners if "\n" in one)
        for label in labels:
            opened = self._by_label.get(label)
            if opened is None:
                continue
            yield Part(path=opened.path, where=f"what starts {opened.runner}")
            for part in opened.file.parts:
                path = joined_folder(opened.folder, part.path) or part.path
                yield replace(part, path=path, where=f"{label}, {part.where}")

    def _problem(self, name: str, owners: list[str]) -> str:
        found = dict.fromkeys(filter(None, [self._first.file.problem]))
        for owner in owners:
            recipe = self.get(owner)
            if recipe and recipe.problem:
                shown = self._shown(owner).replace("\n", " ")
                is_own = owner in {name, "\n"}
                found[recipe.problem if is_own else f"{shown}: {recipe.problem}"] = None
            if "\n" in owner:
                label = owner.partition("\n")[0]
                if label in self._by_label and self._by_label[label].file.problem:
                    found[f"{label}: {self._by_label[label].file.problem}"] = None
        return "; ".join(list(found)[:_MAX_PROBLEMS])

    def get(self, key: str, /) -> Recipe | None:
        """The recipe of a name, with those that its lines start among its calls."""
        if key not in self._recipes:
            opened, name = self._opened_of(key)
            if "\n" in key and not name:
                recipe: Recipe | None = _first_recipe(opened.file)
            else:
                recipe = opened.file.recipe(name)
            if recipe is None:
                recipe = Recipe(lines=(opened.file.missing,))
            self._recipes[key] = self._with_starts(recipe, opened)
        return self._recipes[key]

    def _opened_of(self, key: str) -> tuple[_Opened, str]:
        label, mark, name = key.partition("\n")
        if mark and label in self._by_label:
            return self._by_label[label], name
        return self._first, key

    def _key(self, opened: _Opened, name: str) -> str:
        return name if opened is self._first else f"{opened.label}\n{name}"

    def _with_starts(self, recipe: Recipe, opened: _Opened) -> Recipe:
        calls = [self._key(opened, one) for one in recipe.calls]
        said, problems = list[str](), [recipe.problem] if recipe.problem else []
        folder = joined_folder(opened.folder, recipe.folder or ".")
        for script in recipe.scripts:
            for start in starts_of(script.text, None if recipe.folder is None else folder):
                found, problem, missing = self._started(start, opened.file.exported)
                calls += found
                said += [missing] if missing else []
                if problem:
                    problems.append(_refusal(start, script, problem))
        return replace(
            recipe,
            lines=(*recipe.lines, *dict.fromkeys(said)),
            before=tuple(self._key(opened, one) for one in recipe.before),
            calls=tuple(dict.fromkeys(calls)),
            after=tuple(self._key(opened, one) for one in recipe.after),
            problem="; ".join(problems[:_MAX_PROBLEMS]),
        )

    def _started(self, start: Start, exported: frozenset[str]) -> tuple[list[str], str, str]:
        """The names that run, else why they are not known, or that their file is not there."""
        folder = start.folder
        if start.runner in OTHERS:
            return [], "", f"starts {start.runner}: what it runs is not shown"
        if start.problem or folder is None:
            return [], start.problem or "its folder is not known before it runs", ""
        if folder.startswith("..") or not f"{folder}{start.file}".isprintable():
            return [], "it runs what a folder outside of the project says", ""
        try:
            return self._found(start, folder, exported)
        except _NotReadError as error:
            return [], str(error), ""

    def _found(
        self, start: Start, folder: str, exported: frozenset[str]
    ) -> tuple[list[str], str, str]:
        if start.spaces:
            return self._in_spaces(start, folder)
        for opened in self._nearest(start, folder):
            names = _names(start, opened)
            if changed := opened.file.changes(start.given, exported):
                return [], f"{', '.join(changed)} changes which names run", ""
            keys = [self._key(opened, one) for one in names]
            if keys and opened is not self._first:
                keys = [self._key(opened, ""), *keys]
            return [*keys, *self._installed_with(start, opened)], "", ""
        if start.optional or (start.runner == "npm" and not start.names):
            return [], "", ""
        place = f" in {folder}" if folder else ""
        told = start.file or f"file for {start.runner}"
        return [], "", f"starts {start.runner}{place}: no {told} there, what it runs is not shown"

    def _nearest(self, start: Start, folder: str) -> Iterator[_Opened]:
        """The file that says what is started: for mise the nearest that knows the name."""
        found = list(self._files_for(start, folder))
        for opened in found if start.runner == "mise" else ():
            names = _names(start, opened)
            if names and opened.file.recipe(names[0]) is not None:
                yield opened
        yield from found[:1]

    def _files_for(self, start: Start, folder: str) -> Iterator[_Opened]:
        """The files that a runner reads, the nearest first."""
        if start.file:
            opened = self._open_told(start, folder)
            if opened:
                yield opened
            return
        while True:
            name = self._file_in(start.runner, folder)
            opened = self._open(start.runner, folder, name) if name else None
            if opened:
                yield opened
                if start.runner != "mise":
                    return
            if not folder or start.is_fixed:
                return
            folder = folder.rpartition("/")[0]

    def _open_told(self, start: Start, folder: str) -> _Opened | None:
        if start.runner == "make":  # its lines run where it starts
            return self._open("make", folder, start.file)
        path = joined_folder(folder, start.file) or ".."
        above, _, name = path.rpartition("/")
        return self._open(start.runner, above, name)

    def _file_in(self, runner: str, folder: str) -> str:
        """The file that a runner finds in a folder; ``""`` for none."""
        place = self._root / folder
        try:
            there = {one.name for one in place.iterdir()} if place.is_dir() else set[str]()
        except OSError:
            return ""
        if runner == "just":
            names = sorted(one for one in there if one.lower() in {"justfile", ".justfile"})
            return names[-1] if names else ""
        choices = {"make": _MAKEFILES, "npm": ("package.json",), "mise": _MISE_FILES}[runner]
        return next(
            (one for one in choices if one in there or ("/" in one and (place / one).is_file())), ""
        )

    def _open(self, runner: str, folder: str, name: str) -> _Opened | None:
        key = (runner, folder, name)
        if key not in self._opened:
            path = joined_folder(folder, name)
            if path is None or path.startswith("..") or len(self._opened) > _MAX_FILES:
                raise _NotReadError(f"{name}: expected a file in the project")
            if not (self._root / path).is_file():
                self._opened[key] = None
                return None
            text = part_text(self._root, path)
            if text is None:
                raise _NotReadError(f"{path}: cannot be read")
            try:
                file = _read(runner, self._root / folder, name, text)
            except LilluxError as error:
                raise _NotReadError(f"{path}: {error}") from None
            usual = path.rpartition("/")[0] == folder
            label = path if usual else f"{path} in {folder or 'the project'}"
            opened = _Opened(runner, path, label, folder, file)
            self._opened[key] = self._by_label[label] = opened
        return self._opened[key]

    def _in_spaces(self, start: Start, folder: str) -> tuple[list[str], str, str]:
        """The scripts of the workspaces that the arguments of npm name."""
        found = list[str]()
        for root in self._files_for(replace(start, spaces=()), folder):
            known = self._spaces_of(root)
            if known is None:
                return [], "its workspaces are not listed by folders", ""
            for space in start.spaces:
                chosen = _chosen(space, known, root)
                if not chosen:
                    return [], f"no workspace {space}", ""
                for opened in chosen:
                    found += [self._key(opened, one) for one in _names(start, opened)]
            return found, "", ""
        return [], "expected package.json, found none", ""

    def _spaces_of(self, root: _Opened) -> list[_Opened] | None:
        from ryeos.imports.package_tasks import PackageFile

        file = root.file
        if not isinstance(file, PackageFile) or file.spaces is None:
            return None
        found = list[_Opened]()
        for pattern in file.spaces:
            for place in _folders(self._root, joined_folder(root.folder, pattern)):
                opened = self._open("npm", place, "package.json")
                if opened and opened not in found:
                    found.append(opened)
        return found

    def _installed_with(self, start: Start, root: _Opened) -> list[str]:
        """The scripts of workspaces and linked packages, which an installation runs too."""
        from ryeos.imports.package_tasks import PackageFile

        if not (start.optional and "install" in start.names and isinstance(root.file, PackageFile)):
            return []
        places = [joined_folder(root.folder, one) for one in root.file.linked]
        linked = [self._open("npm", one, "package.json") for one in places if one]
        asked = replace(start, names=_AT_INSTALL_OF_OTHERS)
        found = list[str]()
        for opened in [*(self._spaces_of(root) or []), *filter(None, linked)]:
            found += [self._key(opened, one) for one in _names(asked, opened)]
        return found


def _first_recipe(file: RunnerFile) -> Recipe:
    return Recipe(lines=file.first(), scripts=file.first_scripts())


def _refusal(start: Start, script: Script, problem: str) -> str:
    shown = " ".join(script.shown.split())[:120]
    return f"{shown}: starts {start.runner}: {problem}"


def _names(start: Start, opened: _Opened) -> list[str]:
    names = list(start.names)
    if start.optional:
        return [one for one in names if opened.file.recipe(one) is not None]
    if start.runner == "npm" and start.spaces and names:
        return [one for one in names if opened.file.recipe(one) is not None]
    found = opened.file.started(names)
    return [f"alone\n{one}" for one in found] if start.alone else found


def _chosen(space: str, known: list[_Opened], root: _Opened) -> list[_Opened]:
    """The workspaces of a name, of a folder or below one; all for ``*``."""
    if space == "*":
        return known
    if space == ".":
        return [root]
    place = joined_folder(root.folder, space)
    return [
        one
        for one in known
        if one.folder == place
        or (place and one.folder.startswith(f"{place}/"))
        or getattr(one.file, "name", "") == space
    ]


def _folders(root: Path, pattern: str | None) -> list[str]:
    """The folders of a pattern, from the first file's folder."""
    if not pattern or pattern.startswith(".."):
        return []
    if "*" not in pattern:
        return [pattern]
    try:
        found = sorted(one.relative_to(root).as_posix() for one in root.glob(pattern))
    except (OSError, ValueError, NotImplementedError):
        return []
    return [one for one in found if "node_modules" not in one.split("/")][:_MAX_FILES]


def _read(runner: str, folder: Path, name: str, text: str) -> RunnerFile:
    if runner == "make":
        from ryeos.imports.makefiles import Makefile

        return Makefile(folder, name, text)
    if runner == "just":
        from ryeos.imports.justfiles import Justfile

        return Justfile(folder, name, text)
    from ryeos.imports.mise_tasks import MiseFile
    from ryeos.imports.package_tasks import PackageFile

    return PackageFile(text) if runner == "npm" else MiseFile(text)
