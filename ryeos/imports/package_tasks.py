"""Tasks of ``package.json``: its scripts."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lillux.values import replace
from ryeos.imports.plan import MAX_ITEMS, ImportSource, source_error, source_text
from ryeos.imports.runner_starts import PATTERN
from ryeos.imports.shell_commands import OWN, UNKNOWN
from ryeos.imports.task_files import Part, Task, TaskFile
from ryeos.imports.task_steps import Follower, Follows, Recipe, Script
from ryeos.imports.tool_texts import MAX_FILE

# Scripts that npm has by itself.
_OWN_SCRIPTS = {
    "restart": "npm stop --if-present && npm start",
    "start": "node server.js",
    "env": "env",
}


class PackageFile:
    """A package.json, as npm reads it.

    name    of the package
    spaces  patterns of the folders of its workspaces, None where they are said in another form
    linked  folders of packages that it depends on
    """

    missing = "no script of this file"
    problem = ""
    parts: tuple[Part, ...] = ()
    exported: frozenset[str] = frozenset()

    def __init__(self, text: str, shown: str = "package.json") -> None:
        self.said = require_mapping(_json(text, shown), shown, "an object")
        scripts = require_mapping(self.said.get("scripts") or {}, shown, "scripts: an object")
        self.scripts: dict[str, object] = {str(name): text for name, text in scripts.items()}
        self.name = str(self.said.get("name") or "")
        spaces = self.said.get("workspaces") or []
        spaces = spaces.get("packages", []) if isinstance(spaces, Mapping) else spaces
        is_read = isinstance(spaces, list) and all(
            isinstance(one, str) and not one.startswith("!") for one in spaces
        )
        self.spaces: tuple[str, ...] | None = tuple(spaces) if is_read else None
        self.linked = tuple(_linked(self.said))

    def recipe(self, name: str) -> Recipe | None:
        """Before ``test`` npm runs ``pretest``, which has its own ``prepretest`` by hand alone.

        ``node --run`` runs a script alone.
        """
        if name.startswith("alone\n"):
            found = self.recipe(name.removeprefix("alone\n"))
            return found and replace(found, before=(), after=())
        text = self.scripts.get(name, _OWN_SCRIPTS.get(name))
        if not isinstance(text, str):
            return None
        return Recipe(
            lines=(text,),
            scripts=(Script(text, text.replace(OWN, UNKNOWN)),),
            before=tuple(one for one in (f"pre{name}",) if self._is_script(one)),
            after=tuple(one for one in (f"post{name}",) if self._is_script(one)),
        )

    def _is_script(self, name: str) -> bool:
        return isinstance(self.scripts.get(name), str)

    def started(self, words: Sequence[str]) -> list[str]:
        """The script of a name; those of a pattern, in which ``*`` stops at a colon."""
        found = list[str]()
        for word in words[:1]:
            if word.startswith(PATTERN) and "*" in word:
                pattern = _pattern(word.removeprefix(PATTERN))
                found += [one for one in self.scripts if pattern.fullmatch(one)]
            else:
                found.append(word.removeprefix(PATTERN))
        return found

    def first(self) -> tuple[str, ...]:
        """Nothing: npm starts no program for every script."""
        return ()

    def first_scripts(self) -> tuple[Script, ...]:
        """Nothing: as `first`."""
        return ()

    def variables_of(self, _: Sequence[str]) -> Iterator[str]:
        """Nothing: scripts have no variables of their own."""
        yield from ()

    def changes(self, _: frozenset[str], __: frozenset[str]) -> list[str]:
        """Nothing: no variable chooses a script."""
        return []


def _pattern(text: str) -> re.Pattern[str]:
    pieces = re.split(r"(\*+)", text.replace("/**", "**"))
    kinds = {True: ".*", False: "[^:\n]*"}
    return re.compile(
        "".join(kinds[len(one) > 1] if one.startswith("*") else re.escape(one) for one in pieces)
    )


def _linked(said: Mapping[str, Any]) -> Iterator[str]:
    """The folders of dependencies by ``file:`` and ``link:``."""
    for key in ("dependencies", "devDependencies", "optionalDependencies"):
        listed = said.get(key)
        for value in listed.values() if isinstance(listed, Mapping) else ():
            mark, _, place = str(value).partition(":")
            if mark in {"file", "link"} and place and not place.endswith((".tgz", ".gz")):
                yield place


def read_package(source: ImportSource, follow: Follower) -> TaskFile:
    """The scripts, each with what npm runs before and after it."""
    file = PackageFile(source_text(source.path, MAX_FILE), str(source.path))
    said = file.said
    described = said.get("scripts-info") or said.get("ntl", {}) or {}
    described = described.get("descriptions", described) if isinstance(described, Mapping) else {}
    followed = follow(source.path.parent, "npm", "package.json", file)
    names = [name for name in file.scripts if not _runs_with_another(name, file)]
    tasks = [_npm_task(name, file, followed, described.get(name)) for name in names[:MAX_ITEMS]]
    return TaskFile("npm", tasks, left_out=names[MAX_ITEMS:])


def _npm_task(name: str, file: PackageFile, followed: Follows, about: object) -> Task:
    text = file.scripts[name]
    if not isinstance(text, str):
        return Task(name=name, steps=(), command=("npm",), problem="expected a text")
    found = followed.follow(name)
    return Task(
        name=name,
        steps=found.steps,
        command=("npm", "run", "--silent", "--", name),
        description=about if isinstance(about, str) else f"npm run {name}: {text}",
        takes_words=True,
        parts=found.parts,
        notes=("what it calls in node_modules is not pinned",),
        problem=found.problem,
    )


def _runs_with_another(name: str, file: PackageFile) -> bool:
    return any(
        name.startswith(mark) and isinstance(file.scripts.get(name.removeprefix(mark)), str)
        for mark in ("pre", "post")
    )


def _json(text: str, shown: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise source_error(shown, f"expected JSON: {error}") from None


def require_mapping(value: object, shown: str, expected: str) -> Mapping[str, Any]:
    """The value, a mapping. Raises the error of its source for any other."""
    if not isinstance(value, Mapping):
        raise source_error(shown, f"expected {expected}")
    return value
