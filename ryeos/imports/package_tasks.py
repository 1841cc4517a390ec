"""Tasks that a document lists by name: scripts of ``package.json``, tasks of ``mise.toml``."""

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ryeos.imports.plan import MAX_ITEMS, ImportSource, source_error, source_text
from ryeos.imports.task_files import Part, Task, TaskFile
from ryeos.imports.task_steps import Recipe, called_names, names_in_order, steps_of
from ryeos.imports.tool_texts import MAX_FILE

# --- npm ------------------------------------------------------------------------------------------

_NPM_RUN = re.compile(
    r"(?<![\w./-])(?:(?:npm|pnpm|yarn|bun)(?:\s+(?:run-script|run|--[\w-]+|-[a-z]))*"
    r"|npm-run-all2?|run-[sp])\s+"
)
_MISSING_NPM = "no script of this file"


def read_package(source: ImportSource) -> TaskFile:
    """The scripts, each with what npm runs before and after it."""
    said = _mapping(_json(source), source, "an object")
    scripts = _mapping(said.get("scripts") or {}, source, "scripts: an object")
    described = said.get("scripts-info") or said.get("ntl", {}) or {}
    described = described.get("descriptions", described) if isinstance(described, Mapping) else {}
    texts = {str(name): text for name, text in scripts.items() if isinstance(text, str)}
    recipes = {name: _npm_recipe(name, texts) for name in texts}
    names = [str(name) for name in scripts if not _runs_with_another(str(name), texts)]
    tasks = [
        _npm_task(name, scripts[name], recipes, described.get(name)) for name in names[:MAX_ITEMS]
    ]
    return TaskFile("npm", tasks, left_out=names[MAX_ITEMS:])


def _npm_recipe(name: str, texts: Mapping[str, str]) -> Recipe:
    """Before ``test`` npm runs ``pretest``, which has a ``prepretest`` of its own by hand alone."""
    lines = (texts[name],)
    return Recipe(
        lines=lines,
        before=tuple(one for one in (f"pre{name}",) if one in texts),
        calls=called_names(lines, _NPM_RUN, texts),
        after=tuple(one for one in (f"post{name}",) if one in texts),
    )


def _npm_task(name: str, text: object, recipes: Mapping[str, Recipe], about: object) -> Task:
    if not isinstance(text, str):
        return Task(name=name, steps=(), command=("npm",), problem="expected a text")
    return Task(
        name=name,
        steps=steps_of(name, recipes, _MISSING_NPM),
        command=("npm", "run", "--silent", "--", name),
        description=about if isinstance(about, str) else f"npm run {name}: {text}",
        takes_words=True,
        notes=("what it calls in node_modules is not pinned",),
    )


def _runs_with_another(name: str, texts: Mapping[str, str]) -> bool:
    return any(
        name.startswith(mark) and name.removeprefix(mark) in texts for mark in ("pre", "post")
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

_MISE_RUN = re.compile(r"(?<![\w./-])mise\s+(?:run|r|tasks\s+run)\s+")
_MISSING_MISE = "no task of this file: mise looks for it elsewhere"


class _MiseTaskError(ValueError):
    """A task that says something that is not read."""


def read_mise(source: ImportSource) -> TaskFile:
    """The tasks but hidden ones, each with those that it depends on."""
    try:
        said = tomllib.loads(source_text(source.path, MAX_FILE))
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise source_error(str(source.path), f"expected TOML: {error}") from None
    listed = _mapping(said.get("tasks") or {}, source, "tasks: a table")
    tables = {
        str(name): task if isinstance(task, Mapping) else {"run": task}
        for name, task in listed.items()
    }
    recipes: dict[str, Recipe] = {}
    problems: dict[str, str] = {}
    for name, table in tables.items():
        try:
            recipes[name] = _mise_recipe(table, tables)
        except _MiseTaskError as error:
            problems[name] = str(error)
            recipes[name] = Recipe(lines=("what it runs is not read",))
    first = tuple(f"before every task: {one}" for one in _mise_sources(said))
    names = [name for name, table in tables.items() if table.get("hide") is not True]
    tasks = [_mise_task(name, tables, recipes, problems, first) for name in names[:MAX_ITEMS]]
    return TaskFile("mise", tasks, left_out=names[MAX_ITEMS:])


def _mise_task(
    name: str,
    tables: Mapping[str, Mapping[str, Any]],
    recipes: Mapping[str, Recipe],
    problems: Mapping[str, str],
    first: tuple[str, ...],
) -> Task:
    owners = names_in_order(name, recipes)
    files = [tables[one].get("file") for one in owners if one in tables]
    about = tables[name].get("description")
    broken = [
        f"{one}: {problems[one]}" if one != name else problems[one]
        for one in owners
        if one in problems
    ]
    return Task(
        name=name,
        steps=(*first, *steps_of(name, recipes, _MISSING_MISE)),
        command=("mise", "run", "--quiet", name, "--"),
        description=about if isinstance(about, str) else "",
        takes_words=True,
        parts=tuple(
            Part(path=file, where=f"tasks.{name}") for file in files if isinstance(file, str)
        ),
        notes=("mise also reads its settings of folders above, and of your home",),
        problem="; ".join(broken),
    )


def _mise_recipe(table: Mapping[str, Any], tables: Mapping[str, object]) -> Recipe:
    """What mise does for one table. Raises _MiseTaskError."""
    run, file = table.get("run", ""), table.get("file", "")
    if not isinstance(file, str):
        raise _MiseTaskError("file: expected a text")
    lines, calls = list[str](), list[str]()
    shell = table.get("shell")
    if isinstance(shell, str | list):
        lines.append(
            f"by the shell {shell if isinstance(shell, str) else ' '.join(map(str, shell))}"
        )
    for one in run if isinstance(run, list) else [run]:
        if isinstance(one, str):
            lines += [one] if one else []
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
        calls=(*_all_matching(calls, tables), *called_names(lines, _MISE_RUN, tables)),
        after=tuple(_matching(table.get("depends_post"), tables)),
    )


def _named_tasks(entry: object) -> list[str]:
    """The tasks of an entry of ``run``: ``{task = "x"}`` names one, ``{tasks = [...]}`` several."""
    if isinstance(entry, Mapping) and len({"task", "tasks"} & entry.keys()) == 1:
        named = entry.get("tasks", [entry.get("task")])
        if isinstance(named, list) and named and all(isinstance(one, str) for one in named):
            return [one.split()[0] for one in named if one.split()]
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
    yield from _all_matching(names, tables)


def _all_matching(names: list[str], tables: Mapping[str, object]) -> Iterator[str]:
    for name in names:
        found = [one for one in tables if fnmatchcase(one, name)] if "*" in name else []
        yield from found or [name]


def _mise_sources(said: Mapping[str, Any]) -> Iterator[str]:
    """Programs that mise starts for the variables of any task."""
    env = said.get("env")
    for one in env if isinstance(env, list) else [env]:
        special = one.get("_") if isinstance(one, Mapping) else None
        if isinstance(special, Mapping) and special.get("source"):
            yield f"env._.source = {json.dumps(special['source'], default=str)}"
        for name, value in one.items() if isinstance(one, Mapping) else ():
            if isinstance(value, str) and "exec(" in value:
                yield f"env.{name} = {value}"
