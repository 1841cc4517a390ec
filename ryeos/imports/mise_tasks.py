"""Tasks of ``mise.toml``."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from lillux.values import replace
from ryeos.imports.package_tasks import require_mapping
from ryeos.imports.plan import MAX_ITEMS, ImportSource, source_error, source_text
from ryeos.imports.shell_commands import UNKNOWN
from ryeos.imports.task_files import MISE_NAME, Part, Task, TaskFile, part_text
from ryeos.imports.task_steps import Follower, Follows, Recipe, Script
from ryeos.imports.tool_texts import MAX_FILE

_MAX_DEPTH = 10
_STARTS = re.compile(r"^(?:hooks|watch_files)\b|\._\.source\b|\.postinstall$|credential_command$")
_EXEC = re.compile(r"exec\(\s*command\s*=\s*(\\?[\"'])(.*?)\1")
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)


class _MiseTaskError(ValueError):
    """A task that says something that is not read."""


class MiseFile:
    """A mise.toml, as mise reads it."""

    missing = "no task of this file: mise looks for it elsewhere"
    problem = ""
    parts: tuple[Part, ...] = ()
    exported: frozenset[str] = frozenset()

    def __init__(self, text: str, shown: str = "mise.toml") -> None:
        try:
            said = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise source_error(shown, f"expected TOML: {error}") from None
        listed = require_mapping(said.get("tasks") or {}, shown, "tasks: a table")
        self.tables: dict[str, Mapping[str, Any]] = {
            str(name): task if isinstance(task, Mapping) else {"run": task}
            for name, task in listed.items()
        }
        self._first = tuple(f"before every task: {one}" for one in _mise_sources(said))
        config = said.get("task_config")
        self._folder = config.get("dir", "") if isinstance(config, Mapping) else ""

    def recipe(self, name: str) -> Recipe | None:
        """The work of mise for a task."""
        table = self.tables.get(name)
        if table is None:
            return None
        try:
            found = _mise_recipe(table, self.tables, table.get("dir", self._folder))
            return replace(
                found,
                before=tuple(map(self._by_alias, found.before)),
                calls=tuple(map(self._by_alias, found.calls)),
                after=tuple(map(self._by_alias, found.after)),
                parts=tuple(replace(part, where=f"tasks.{name}") for part in found.parts),
            )
        except _MiseTaskError as error:
            return Recipe(lines=("what it runs is not read",), problem=str(error))

    def started(self, words: Sequence[str]) -> list[str]:
        """The tasks of names and patterns; ``default`` by itself."""
        names = _all_matching(list(words) or ["default"], self.tables)
        return [self._by_alias(one) for one in names]

    def _by_alias(self, name: str) -> str:
        """The name of the task that an alias stands for."""
        if name in self.tables:
            return name
        for one, table in self.tables.items():
            aliases = table.get("alias", table.get("aliases", ()))
            listed = aliases if isinstance(aliases, list) else [aliases]
            if name in listed:
                return one
        return name

    def first(self) -> tuple[str, ...]:
        """The programs that mise runs for the variables of any task."""
        return self._first

    def first_scripts(self) -> tuple[Script, ...]:
        """The commands of templates."""
        found = [(one, _EXEC.findall(one)) for one in self._first]
        return tuple(Script(line, text) for line, texts in found for _, text in texts)

    def variables_of(self, _: Sequence[str]) -> Iterator[str]:
        """Nothing: variables of mise are those of the environment."""
        yield from ()

    def changes(self, _: frozenset[str], __: frozenset[str]) -> list[str]:
        """Nothing: no variable chooses a task."""
        return []


def read_mise(source: ImportSource, follow: Follower) -> TaskFile:
    """The tasks but hidden ones, each with those that it depends on."""
    file = MiseFile(source_text(source.path, MAX_FILE), str(source.path))
    followed = follow(source.path.parent, "mise", source.path.name, file)
    others = _other_files(source)
    names = [name for name, table in file.tables.items() if table.get("hide") is not True]
    tasks = [_mise_task(name, file, followed, others) for name in names[:MAX_ITEMS]]
    return TaskFile("mise", tasks, left_out=names[MAX_ITEMS:])


def _mise_task(
    name: str, file: MiseFile, followed: Follows, others: Mapping[str, Mapping[str, Any]]
) -> Task:
    found = followed.follow(name)
    about = file.tables[name].get("description")
    return Task(
        name=name,
        steps=found.steps,
        command=("mise", "run", "--quiet", name, "--"),
        description=about if isinstance(about, str) else "",
        takes_words=True,
        parts=found.parts,
        notes=("mise also reads its other files here, in folders above, and of your home",),
        problem="; ".join(filter(None, [found.problem, *_said_again(found.names, others)])),
    )


def _said_again(names: Sequence[str], others: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Tasks that another file of mise says too: which of them runs is not read."""
    for place, tasks in others.items():
        yield from (f"{place} says {one} too" for one in names if one in tasks)


def _other_files(source: ImportSource) -> dict[str, Mapping[str, Any]]:
    """The tasks of the further files of mise that lie beside one."""
    found: dict[str, Mapping[str, Any]] = {}
    for path in sorted(source.path.parent.glob("*mise*.toml")):
        if path.name == source.path.name or not MISE_NAME.fullmatch(path.name):
            continue
        try:
            tasks = tomllib.loads(part_text(path.parent, path.name) or "").get("tasks")
        except (tomllib.TOMLDecodeError, RecursionError):
            tasks = None
        found[path.name] = tasks if isinstance(tasks, Mapping) else {}
    return found


def _mise_recipe(table: Mapping[str, Any], tables: Mapping[str, object], folder: object) -> Recipe:
    """The work of mise for one table. Raises _MiseTaskError."""
    run, file = table.get("run", ""), table.get("file", "")
    if "extends" in table:
        raise _MiseTaskError("extends: what a template says is not read")
    if not isinstance(file, str):
        raise _MiseTaskError("file: expected a text")
    lines, calls, scripts = list[str](), list[str](), list[Script]()
    for key, value in table.items():
        lines += [] if key in {"run", "description"} else _programs(value, key)
    shell = table.get("shell")
    if isinstance(shell, str | list):
        lines.append(
            f"by the shell {shell if isinstance(shell, str) else ' '.join(map(str, shell))}"
        )
    for one in run if isinstance(run, list) else [run]:
        if isinstance(one, str):
            lines += [one] if one else []
            scripts.append(Script(one, _TEMPLATE.sub(UNKNOWN, one)))
            continue
        names = _named_tasks(one)
        lines.append(f"the tasks {', '.join(names)}")
        calls += names
    windows = table.get("run_windows")
    if isinstance(windows, str | list):
        lines += [
            f"on Windows: {one}" for one in ([windows] if isinstance(windows, str) else windows)
        ]
    lines += [f"the file {file}"] if file else []
    return Recipe(
        lines=tuple(lines),
        before=tuple(_matching(table.get("depends"), tables)),
        calls=tuple(_all_matching(calls, tables)),
        after=tuple(_matching(table.get("depends_post"), tables)),
        scripts=tuple(scripts),
        parts=(Part(path=file, where="file"),) if file else (),
        folder=_mise_folder(folder),
    )


def _mise_folder(folder: object) -> str | None:
    """The folder of a task; None for what a template or an absolute path says."""
    if not isinstance(folder, str):
        return None
    plain = re.sub(r"^\{\{\s*(?:config_root|cwd)\s*\}\}/?", "", folder)
    return None if "{{" in plain or plain[:1] in {"/", "~"} else plain


def _named_tasks(entry: object) -> list[str]:
    """The tasks of an entry of ``run``: ``{task = "x"}`` names one, ``{tasks = [...]}`` several."""
    if isinstance(entry, Mapping) and len({"task", "tasks"} & entry.keys()) == 1:
        named = entry.get("tasks", [entry.get("task")])
        if isinstance(named, list) and named and all(isinstance(one, str) for one in named):
            names = [one.split()[0] for one in named if one.split()]
            return _plain_names(names, "run")
    raise _MiseTaskError('run: expected a text, {task = "NAME"}, or a list of them')


def _matching(value: object, tables: Mapping[str, object]) -> Iterator[str]:
    """The tasks that ``depends`` names: texts, with arguments or patterns, lists and tables."""
    listed = value if isinstance(value, list) else [] if value is None else [value]
    names = []
    for one in listed:
        named = one.get("task") if isinstance(one, Mapping) else one
        named = named[0] if isinstance(named, list) and named else named
        if not isinstance(named, str) or not named.split():
            raise _MiseTaskError("depends: expected names of tasks")
        names.append(named.split()[0])
    yield from _all_matching(_plain_names(names, "depends"), tables)


def _plain_names(names: list[str], key: str) -> list[str]:
    """Names of tasks as they are. Raises _MiseTaskError for those that mise computes."""
    for name in names:
        if "{{" in name or "{%" in name or name.startswith("//"):
            raise _MiseTaskError(f"{key}: {name[:60]}: expected the name of a task of this file")
    return names


def _all_matching(names: list[str], tables: Mapping[str, object]) -> Iterator[str]:
    for name in names:
        found = [one for one in tables if fnmatchcase(one, name)] if "*" in name else []
        yield from found or [name]


def _mise_sources(said: Mapping[str, Any]) -> Iterator[str]:
    """Programs that mise starts for any task: for variables, by templates, hooks and tools."""
    for key, value in said.items():
        if key != "tasks":
            yield from _programs(value, key)


def _programs(value: object, path: str, depth: int = 0) -> Iterator[str]:
    """Texts of a table by which mise starts a program, each with its place."""
    if depth > _MAX_DEPTH:
        yield f"{path} = {json.dumps(value, default=str)}"
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _programs(one, f"{path}.{key}", depth + 1)
    elif isinstance(value, list):
        for one in value:
            yield from _programs(one, path, depth + 1)
    elif isinstance(value, str) and ("exec(" in value or _STARTS.search(path)):
        yield f"{path} = {json.dumps(value, ensure_ascii=False)}"
