"""Tasks of ``package.json``, ``justfile``, ``Makefile`` and ``mise.toml``, read as tools.

A tool runs the task by its own runner, without a shell, after the file with the tasks, and each
file that it names as a part, is as it was signed. Nothing is run here, but ``just``, which prints
what it reads; ``just`` evaluates nothing for that.
"""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import path_inside, read_bytes
from lillux.values import dataclass
from ryeos.imports.help_pages import Argument, HelpPage
from ryeos.imports.plan import (
    ImportPlan,
    ImportSource,
    ProposedItem,
    plain_name,
    shown_path,
    source_error,
    source_text,
)
from ryeos.imports.tool_texts import MAX_FILE, ToolParts, tool_text
from ryeos.items.refs import ItemRef, Kind

MAX_TASKS, MAX_LINE = 200, 2000
_NAME = re.compile(r"\w[\w:./-]{0,99}")
_MAX_TEXT = 300
_RIGHTS = {
    "read": ["{project}"],
    "write": ["{project}", "{tmp}"],
    "network": "none",
    "programs": "any",
    "env": [],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A task of a file. ``text`` is what it runs, ``parts`` further files that it is made of."""

    name: str
    text: str
    command: tuple[str, ...]
    description: str = ""
    arguments: tuple[Argument, ...] = ()
    takes_words: bool = False
    parts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""


def read_tasks(source: ImportSource) -> ImportPlan:
    """A tool for each task of a file. Raises RyeError `IMPORT_UNREADABLE`."""
    name, notes = source.path.name.lower(), list[str]()
    if name == "package.json":
        runner, tasks = "npm", list(_of_npm(source))
    elif name.endswith("justfile"):
        runner = "just"
        tasks, notes = _of_just(source)
    elif name.endswith(".toml"):
        runner, tasks = "mise", list(_of_mise(source))
    else:
        runner = "make"
        tasks, notes = _of_make(source)
    items = tuple(_item(task, runner, source) for task in tasks[:MAX_TASKS])
    origin = shown_path(source.path, source.project)
    left = [f"{origin}: {len(tasks) - MAX_TASKS} more tasks are left out"] * (
        len(tasks) > MAX_TASKS
    )
    none = [] if items else [f"{origin}: no tasks in it"]
    return ImportPlan(items, tuple([f"{origin}: {one}" for one in notes] + left + none))


def _item(task: Task, runner: str, source: ImportSource) -> ProposedItem:
    base = source.base or source.project or source.path.parent
    ref = ItemRef(Kind.TOOL, f"tasks/{runner}/{plain_name(task.name)}")
    description = _plain(task.description) or f"Runs {' '.join(task.command)}"
    problems, files = [task.problem] if task.problem else [], list[tuple[str, str]]()
    if not _NAME.fullmatch(task.name):
        problems.append("its name has more than letters, digits and :./-_")
    inside = path_inside(source.path.resolve().parent, base.resolve())
    if inside not in ("", "."):
        problems.append(f"expected the file in {base}, where its runner looks for it")
    for part in (source.path.name, *task.parts):
        try:
            place = path_inside((source.path.parent / part).resolve(), base.resolve())
            if place is None or "$" in part or "*" in part:
                problems.append(f"{part[:80]}: a part that cannot be pinned")
                continue
            files.append((place, sha256_hex(read_bytes(base / place, MAX_FILE))))
        except (LilluxError, OSError) as error:
            problems.append(f"{part[:80]}: {error}")
    parts = ToolParts(
        description=description, rights=_RIGHTS, files=tuple(files), command=task.command
    )
    page = HelpPage(task.arguments, has_commands=task.takes_words)
    return ProposedItem(
        name=task.name,
        ref=ref,
        suffix=".py",
        data=b"" if problems else tool_text(ref, parts, page).encode(),
        origin=f"{shown_path(source.path, source.project)}: {_plain(task.name)}",
        shown=_plain(task.text),
        held=f"{len(files)} files" if len(files) > 1 else f"1 file, {source.path.name}",
        notes=("rights: no network, writes the project; edit SANDBOX to widen them", *task.notes),
        problems=tuple(problems),
    )


def _plain(text: str) -> str:
    plain = " ".join(text.split())[:_MAX_TEXT]
    return "".join(letter for letter in plain if letter.isprintable())


def _lines(text: str) -> list[str]:
    """The lines of a text, what is beyond any use cut off."""
    return [line[:MAX_LINE].rstrip("\r") for line in text.split("\n")]


# --- npm ------------------------------------------------------------------------------------------


def _of_npm(source: ImportSource) -> Iterator[Task]:
    said = _mapping(_json(source), source, "an object")
    scripts = _mapping(said.get("scripts") or {}, source, "scripts: an object")
    described = said.get("scripts-info") or said.get("ntl", {}) or {}
    described = described.get("descriptions", described) if isinstance(described, Mapping) else {}
    for name, text in scripts.items():
        if not isinstance(text, str):
            yield Task(name=name, text="", command=("npm",), problem="expected a text")
            continue
        if (
            name.startswith(("pre", "post"))
            and name.removeprefix("pre").removeprefix("post") in scripts
        ):
            continue  # npm runs it with the other
        about = described.get(name)
        yield Task(
            name=name,
            text=text,
            command=("npm", "run", "--silent", "--", name),
            description=about if isinstance(about, str) else f"npm run {name}: {text}",
            takes_words=True,
            notes=("what it calls in node_modules is not pinned",),
        )


def _json(source: ImportSource) -> object:
    try:
        return json.loads(source_text(source.path, MAX_FILE))
    except (ValueError, RecursionError) as error:
        raise source_error(str(source.path), f"expected JSON: {error}") from None


def _mapping(value: object, source: ImportSource, expected: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise source_error(str(source.path), f"expected {expected}")
    return value


# --- mise -----------------------------------------------------------------------------------------


def _of_mise(source: ImportSource) -> Iterator[Task]:
    try:
        said = tomllib.loads(source_text(source.path, MAX_FILE))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise source_error(str(source.path), f"expected TOML: {error}") from None
    tasks = _mapping(said.get("tasks") or {}, source, "tasks: a table")
    for name, task in tasks.items():
        table = task if isinstance(task, Mapping) else {"run": task}
        if table.get("hide") is True:
            continue
        run, file = table.get("run", ""), table.get("file", "")
        lines = run if isinstance(run, list) else [run]
        is_text = all(isinstance(line, str) for line in lines) and isinstance(file, str)
        about = table.get("description")
        yield Task(
            name=name,
            text="; ".join(map(str, lines)) or str(file),
            command=("mise", "run", "--quiet", name, "--"),
            description=about if isinstance(about, str) else "",
            takes_words=True,
            parts=(file,) if is_text and file else (),
            notes=("mise also reads its settings of folders above, and of your home",),
            problem="" if is_text else "run: expected a text or a list of texts",
        )


# --- make -----------------------------------------------------------------------------------------

_TARGET = re.compile(
    r"^([A-Za-z0-9][\w.-]*(?:\s+[A-Za-z0-9][\w.-]*)*)\s*::?(?!=)([^#\n]*)(?:##\s*(.*))?$"
)
_INCLUDE = re.compile(r"^\s*[-s]?include\s+(.+?)\s*(?:#.*)?$")
_MAKE_VARIABLE = re.compile(r"^([A-Z][A-Z0-9_]*)\s*\?=\s*([^#\n]*)")


def _of_make(source: ImportSource) -> tuple[list[Task], list[str]]:
    """Targets whose names are plain words; ``NAME ?= value`` are what a caller may set."""
    lines = _lines(re.sub(r"\\\n[ \t]*", " ", source_text(source.path, MAX_FILE)))
    parts = [word for line in lines if (found := _INCLUDE.match(line)) for word in found[1].split()]
    variables = [found for line in lines if (found := _MAKE_VARIABLE.match(line))]
    given = tuple(
        Argument(
            name=found[1].lower(),
            flag=found[1],
            kind="assign",
            description=f"{found[1]}; by itself {_plain(found[2]) or 'empty'}",
        )
        for found in variables
    )
    phony = {
        word
        for line in lines
        if line.startswith(".PHONY")
        for word in line.partition(":")[2].split()
    }
    tasks: dict[str, Task] = {}
    left: list[str] = []
    for number, line in enumerate(lines):
        if line[:1] in {"\t", "#", ".", " ", ""}:
            continue
        target = _TARGET.match(line)
        if target is None:
            if ":" in line and "=" not in line:
                left.append(f"not understood, and left out: {_plain(line)[:60]}")
            continue
        recipe = [row[1:].strip() for row in _recipe(lines, number)]
        above = lines[number - 1] if number and lines[number - 1].startswith("#") else ""
        for name in target[1].split():
            if name in tasks or (phony and name not in phony):
                continue
            tasks[name] = Task(
                name=name,
                text="; ".join(recipe) or f"needs {target[2].strip()}",
                command=("make", "--no-print-directory", "-f", source.path.name, name),
                description=target[3] or above.lstrip("# "),
                arguments=given,
                parts=tuple(parts),
            )
    return list(tasks.values()), left


def _recipe(lines: list[str], at: int) -> Iterator[str]:
    for line in lines[at + 1 :]:
        if not line.startswith("\t"):
            return
        yield line


# --- just -----------------------------------------------------------------------------------------

_RECIPE = re.compile(
    r"^@?([A-Za-z_][\w-]*)((?:\s+[+*$]*[A-Za-z_][\w-]*(?:=(?:'[^']*'|\"[^\"]*\"|\S+))?)*)\s*:(?!=)([^#]*)$"
)
_PARAMETER = re.compile(r"([+*]?)\$?([A-Za-z_][\w-]*)(=(?:'([^']*)'|\"([^\"]*)\"|(\S+)))?")
_PART = re.compile(r"^\s*(?:import|mod)\??\s+(.+?)\s*$")
_ATTRIBUTE = re.compile(r"^\[(.+)\]\s*$")
_SETTING = re.compile(r"^(?:set|export|alias|unexport)\s|^[A-Za-z_][\w-]*\s*:=")


def _of_just(source: ImportSource) -> tuple[list[Task], list[str]]:
    """The recipes by ``just --dump`` where it is installed, else by a small reader.

    The reader names what it does not understand.
    """
    text = source_text(source.path, MAX_FILE)
    parts = [
        found[1].split(" ")[-1].strip("'\"")
        for line in _lines(text)
        if (found := _PART.match(line))
    ]
    dumped = _dump(source.path)
    if dumped is not None:
        return [
            _dumped(name, one, source, parts) for name, one in dumped.items() if _public(one)
        ], []
    return _small_reader(text, source, parts)


def _dump(path: Path) -> Mapping[str, Any] | None:
    """What ``just`` prints of a file; None where it is not installed, or refuses the file."""
    import shutil

    from lillux.process import ProcessManager
    from lillux.process.model import Command

    program = shutil.which("just")
    if program is None:
        return None
    words = (program, "--dump", "--dump-format", "json", "--justfile", str(path.absolute()))
    outcome = ProcessManager().run(
        Command(argv=words, env={"PATH": ""}, cwd=path.absolute().parent, timeout_s=10.0)
    )
    try:
        found = json.loads(outcome.stdout.data).get("recipes")
    except (ValueError, AttributeError, RecursionError):
        return None
    return found if isinstance(found, Mapping) else None


def _public(recipe: object) -> bool:
    return isinstance(recipe, Mapping) and not recipe.get("private")


def _dumped(name: str, recipe: Mapping[str, Any], source: ImportSource, parts: list[str]) -> Task:
    given = []
    for one in recipe.get("parameters") or ():
        repeats = one.get("kind") in {"plus", "star"}
        required = one.get("default") is None and one.get("kind") != "star"
        kind = "list" if repeats else "value"
        given.append(Argument(name=_word(one["name"]), kind=kind, required=required))
    body = [
        "".join(piece if isinstance(piece, str) else "{{...}}" for piece in line)
        for line in recipe.get("body") or ()
        if isinstance(line, list)
    ]
    return Task(
        name=name,
        text="; ".join(body),
        command=("just", "--justfile", source.path.name, name),
        description=recipe.get("doc") or "",
        arguments=tuple(given),
        parts=tuple(parts),
    )


def _small_reader(
    text: str, source: ImportSource, parts: list[str]
) -> tuple[list[Task], list[str]]:
    tasks: list[Task] = []
    left = ["just is not installed: read by a small reader"]
    doc, marks = "", ""
    lines = _lines(text)
    for number, line in enumerate(lines):
        if not line.strip() or line[:1] in {" ", "\t"}:
            doc, marks = ("", "") if not line.strip() else (doc, marks)
            continue
        if line.startswith("#"):
            doc = "" if line.startswith("#!") else line.lstrip("# ")
            continue
        if mark := _ATTRIBUTE.match(line):
            marks += f",{mark[1]}"
            continue
        recipe = _RECIPE.match(line.partition(" #")[0].rstrip())
        if recipe and not _SETTING.match(line):
            if not recipe[1].startswith("_") and "private" not in marks:
                body = [row.strip() for row in _indented(lines, number)]
                tasks.append(
                    Task(
                        name=recipe[1],
                        text="; ".join(body) or f"needs {recipe[3].strip()}",
                        command=("just", "--justfile", source.path.name, recipe[1]),
                        description=_doc_of(marks) or doc,
                        arguments=tuple(map(_parameter, _PARAMETER.findall(recipe[2]))),
                        parts=tuple(parts),
                    )
                )
        elif not _SETTING.match(line) and not _PART.match(line):
            left.append(f"not understood, and left out: {_plain(line)[:60]}")
        doc, marks = "", ""
    return tasks, left


def _indented(lines: list[str], at: int) -> Iterator[str]:
    for line in lines[at + 1 :]:
        if line[:1] not in {" ", "\t"}:
            return
        yield line


def _doc_of(marks: str) -> str:
    found = re.search(r"doc\((?:'([^']*)'|\"([^\"]*)\")\)", marks)
    return (found[1] or found[2] or "") if found else ""


def _parameter(found: tuple[str, ...]) -> Argument:
    repeats, name, default, *texts = found
    shown = next((text for text in texts if text), "")
    return Argument(
        name=_word(name),
        kind="list" if repeats else "value",
        required=not default and repeats != "*",
        description=f"by itself {_plain(shown)}" if shown else "",
    )


def _word(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "value"
