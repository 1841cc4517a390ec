"""Tasks of ``package.json``, ``justfile``, ``Makefile`` and ``mise.toml``, read as tools.

A tool runs the task by its own runner, without a shell, after the file with the tasks, and each
file that it names as a part, is as it was signed, and none has appeared that was not there. The
person sees everything that the runner will run for it, in order. Nothing is run here, but ``just``,
which prints what it reads; ``just`` evaluates nothing for that.
"""

from collections.abc import Callable
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import path_inside, read_bytes
from ryeos.imports.help_pages import HelpPage
from ryeos.imports.plan import (
    ImportPlan,
    ImportSource,
    ProposedItem,
    plain_name,
    shown_path,
)
from ryeos.imports.task_files import Part, Task, TaskFile, plain_line
from ryeos.imports.task_steps import too_much
from ryeos.imports.tool_texts import MAX_FILE, NAME_OF_TASK, ToolParts, tool_text
from ryeos.items.line_ends import lf_bytes
from ryeos.items.refs import ItemRef, Kind

_RIGHTS = {
    "read": ["{project}"],
    "write": ["{project}", "{tmp}"],
    "network": "none",
    "programs": "any",
    "env": [],
}


def read_tasks(source: ImportSource) -> ImportPlan:
    """A tool for each task of a file. Raises RyeError `IMPORT_UNREADABLE`."""
    said = _reader_of(source.path)(source)
    items = tuple(_item(task, said.runner, source) for task in said.tasks)
    origin = shown_path(source.path, source.project)
    none = [] if items else [f"{origin}: no tasks in it"]
    notes = tuple([f"{origin}: {one}" for one in said.notes] + none)
    return ImportPlan(items, notes, len(said.left_out))


def _reader_of(path: Path) -> Callable[[ImportSource], TaskFile]:
    name = path.name.lower()
    if name == "package.json":
        from ryeos.imports.package_tasks import read_package

        return read_package
    if name.endswith(("justfile", ".just")):
        from ryeos.imports.justfiles import read_justfile

        return read_justfile
    if name.endswith(".toml"):
        from ryeos.imports.package_tasks import read_mise

        return read_mise
    from ryeos.imports.makefiles import read_makefile

    return read_makefile


def _item(task: Task, runner: str, source: ImportSource) -> ProposedItem:
    base = (source.base or source.project or source.path.parent).resolve()
    ref = ItemRef(Kind.TOOL, f"tasks/{runner}/{plain_name(task.name)}")
    description = plain_line(task.description) or f"Runs {' '.join(task.command)}"
    problems = [task.problem, too_much(task.steps)]
    if not NAME_OF_TASK.fullmatch(task.name):
        problems.append("its name has more than letters, digits and :./-_")
    inside = path_inside(source.path.resolve().parent, base)
    if inside not in ("", "."):
        problems.append(f"expected the file in {base}, where its runner looks for it")
    held = _Held(source.path.parent, base)
    for part in (Part(path=source.path.name, where="the file"), *task.parts):
        held.add(part)
    problems = [one for one in (*problems, *held.problems) if one]
    parts = ToolParts(
        description=description,
        rights=_RIGHTS,
        files=tuple(held.files),
        absent=tuple(held.absent),
        command=task.command,
    )
    page = HelpPage(task.arguments, has_commands=task.takes_words)
    count = len(held.files)
    return ProposedItem(
        name=task.name,
        ref=ref,
        suffix=".py",
        data=b"" if problems else tool_text(ref, parts, page).encode(),
        origin=f"{shown_path(source.path, source.project)}: {plain_line(task.name)}",
        shown="; ".join(task.steps) or "runs nothing",
        steps=task.steps,
        held=f"{count} files" if count > 1 else f"1 file, {source.path.name}",
        notes=(
            "rights: no network, writes the project; edit SANDBOX to widen them",
            *held.notes,
            *task.notes,
        ),
        problems=tuple(problems),
    )


class _Held:
    """The files of a task with their digests, those that must stay away, and what is wrong."""

    def __init__(self, folder: Path, base: Path) -> None:
        self._folder, self._base = folder, base
        self.files: list[tuple[str, str]] = []
        self.absent: list[str] = []
        self.notes: list[str] = []
        self.problems: list[str] = []

    def add(self, part: Part) -> None:
        """Pin a part as it is: its bytes, or that it is not there."""
        shown = f"{part.where}: {plain_line(part.path)[:80]}"
        try:
            place = path_inside((self._folder / part.path).resolve(), self._base)
            if place is None or set("$*?[\\") & set(part.path) or part.path.startswith("~"):
                self.problems.append(f"{shown}: a part that cannot be pinned")
                return
            data = read_bytes(self._base / place, MAX_FILE)
        except FileNotFoundError:
            if not part.is_optional or place is None:
                self.problems.append(f"{shown}: expected a file, found none")
            elif place not in self.absent:
                self.absent.append(place)
                if not any(one.startswith(f"{part.where}: ") for one in self.notes):
                    self.notes.append(f"{shown}: not there; the tool stops once it is")
            return
        except (LilluxError, OSError, ValueError) as error:
            self.problems.append(f"{shown}: {error}")
            return
        if place not in dict(self.files):
            self.files.append((place, sha256_hex(lf_bytes(data))))
