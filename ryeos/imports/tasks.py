"""Tasks of ``package.json``, ``justfile``, ``Makefile`` and ``mise.toml``, read as tools.

A tool says it in some lines for a runtime of the bundle, which starts the task's own runner
while the file with the tasks, and each file that it names as a part, is as it was signed, and none
has appeared that was not there. The person sees everything that the runner will run, in order.
Nothing is run here, but ``just``, which prints what it reads; ``just`` evaluates nothing for that.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.contained_paths import path_inside, safe_join
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import read_bytes
from ryeos.imports.help_pages import HelpPage
from ryeos.imports.plan import ImportPlan, ImportSource, ProposedItem, plain_name, shown_path
from ryeos.imports.task_files import MISE_NAME, Part, Task, TaskFile, plain_line
from ryeos.imports.task_steps import Follower, too_much
from ryeos.imports.tool_texts import MAX_FILE, NAME_OF_TASK, distinct, schema_of
from ryeos.items.headers import parse_header
from ryeos.items.line_ends import lf_bytes, pinned_bytes
from ryeos.items.refs import ItemRef, Kind
from ryeos.items.task_items import RUNTIME, TaskArgument, TaskItem
from ryeos.trust.skill_files import FurtherFile

_RIGHTS = {
    "read": ["{project}"],
    "write": ["{project}", "{tmp}"],
    "network": "none",
    "programs": "any",
    "env": [],
}
# The names by which a runner finds its file, for those that take no other one.
_READ_NAMES = {
    "npm": ("package.json", re.compile(r"package\.json")),
    "mise": ("mise.toml", MISE_NAME),
}


def read_tasks(source: ImportSource) -> ImportPlan:
    """A tool for each task of a file. Raises RyeError `IMPORT_UNREADABLE`."""
    said = _said_by(source)
    items = tuple(_item(task, said.runner, source) for task in said.tasks)
    origin = shown_path(source.path, source.project)
    none = [] if items else [f"{origin}: no tasks in it"]
    notes = tuple([f"{origin}: {one}" for one in said.notes] + none)
    return ImportPlan(items, notes, len(said.left_out))


def _said_by(source: ImportSource) -> TaskFile:
    """The tasks of a file, followed into the files that their lines start."""
    from ryeos.imports.followed_tasks import FollowedTasks

    return _reader_of(source.path)(source, FollowedTasks)


def _reader_of(path: Path) -> Callable[[ImportSource, Follower], TaskFile]:
    name = path.name.lower()
    if name.endswith(".json"):
        from ryeos.imports.package_tasks import read_package

        return read_package
    if name.endswith(("justfile", ".just")):
        from ryeos.imports.justfiles import read_justfile

        return read_justfile
    if name.endswith(".toml"):
        from ryeos.imports.mise_tasks import read_mise

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
    problems.append(_problem_of_name(runner, source.path.name))
    held = _Held(source.path.parent, base)
    for part in (Part(path=source.path.name, where="the file"), *task.parts):
        held.add(part)
    problems = [one for one in (*problems, *held.problems) if one]
    page = HelpPage(task.arguments, has_commands=task.takes_words)
    rows = [
        TaskArgument(one.name, one.flag, one.kind, one.default) for one in distinct(page.arguments)
    ]
    said = TaskItem(
        runs=task.steps,
        command=task.command,
        files=tuple(held.files),
        absent=tuple(held.absent),
        arguments=tuple(rows),
    )
    count = len(held.files)
    return ProposedItem(
        name=task.name,
        ref=ref,
        suffix=".py",
        data=b"" if problems else _text(ref, description, said, page).encode(),
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


def _problem_of_name(runner: str, name: str) -> str:
    """The obstacle to a runner that reads this file: then others would run than are shown."""
    read_name = _READ_NAMES.get(runner)
    if read_name is None or read_name[1].fullmatch(name):
        return ""
    return f"{runner} reads {read_name[0]} alone, and would not run what {name} says: rename it"


def _text(ref: ItemRef, description: str, said: TaskItem, page: HelpPage) -> str:
    """The text of the tool: a line for each thing that it says, and one for each line that runs."""
    config = said.as_config()
    runs = [f"        {one!a}," for one in config.pop("runs")]
    lines = [
        '__version__ = "1.0.0"',
        '__tool_type__ = "task"',
        f'__executor_id__ = "{RUNTIME}"',
        f"__category__ = {ref.category!a}",
        f"__tool_description__ = {description!a}",
        f"CONFIG_SCHEMA = {schema_of(page)!a}",
        f"SANDBOX = {dict(_RIGHTS)!a}",
        "CONFIG = {",
        *(('    "runs": [', *runs, "    ],") if runs else ('    "runs": [],',)),
        *(f"    {key!a}: {value!a}," for key, value in config.items()),
        "}",
    ]
    return "\n".join(lines) + "\n"


def further_files(said: TaskItem, base: Path) -> list[FurtherFile]:
    """The files that a task reads, for a person who is about to sign it.

    What it says that it runs is read anew from them: one that says something else is named.
    """
    listed: list[FurtherFile] = []
    for place, digest in said.files:
        try:
            same = pinned_bytes(read_bytes(safe_join(base, place), MAX_FILE), digest)
        except (OSError, LilluxError) as error:
            listed.append(FurtherFile(place, problem=f"cannot be read: {error}"))
            continue
        problem = "" if same is not None else "is not what this tool runs; import it again"
        listed.append(FurtherFile(place, same or b"", problem))
    if not any(one.problem for one in listed):
        listed += [FurtherFile("runs", problem=problem) for problem in _untrue(said, base)]
    return listed


def _untrue(said: TaskItem, base: Path) -> Iterator[str]:
    source = ImportSource(path=base / said.files[0][0], project=base, base=base)
    try:
        tasks = _said_by(source).tasks
    except LilluxError as error:
        yield f"its file is not read: {error}"
        return
    found = [task.steps for task in tasks if task.command == said.command]
    if not found:
        yield "expected the name of a task of its file in the command; import it again"
    elif said.runs not in found:
        yield "is not what the task of its file runs; import it again"


def is_of_same_task(before: bytes, proposed: bytes) -> bool:
    """True if two tools run the same task by the same files; the first may be an earlier Python."""
    try:
        said = TaskItem.from_config(_config_of(proposed))
        if earlier := _earlier(before):
            return earlier == (said.files, said.command, said.absent)
        return TaskItem.from_config(_config_of(before)) == said
    except LilluxError:
        return False


_Said = tuple[tuple[tuple[str, str], ...], tuple[str, ...], tuple[str, ...]]


def _earlier(data: bytes) -> _Said | None:
    from ryeos.items.pinned_files import literal_of, pinned_files

    text = data.decode("utf-8", "replace")
    if "COMMAND = [" not in text:
        return None
    files = pinned_files(text).files
    lists = [literal_of(text, name) or [] for name in ("COMMAND", "ABSENT")]
    if not files or not lists[0] or not all(isinstance(one, list) for one in lists):
        return None
    return files, tuple(lists[0]), tuple(lists[1])


def _config_of(data: bytes) -> Mapping[str, Any]:
    config = parse_header(".py", data.decode("utf-8", "replace"), "a tool").get("CONFIG")
    return config if isinstance(config, Mapping) else {}


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
        if part.is_pattern:
            self._add_pattern(part, shown)
            return
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

    def _add_pattern(self, part: Part, shown: str) -> None:
        """Hold that no more files of a pattern appear; those that are there are parts too."""
        above, _, name = part.path.rpartition("/")
        place = path_inside((self._folder / above).resolve(), self._base)
        if place is None or set("$*?[\\~") & set(above) or set("\\~$") & set(name):
            self.problems.append(f"{shown}: a part that cannot be pinned")
            return
        held = f"{place}/{name}" if place not in {"", "."} else name
        if held not in self.absent:
            self.absent.append(held)
