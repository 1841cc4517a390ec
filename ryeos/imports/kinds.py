"""The table of what can be imported: a row for each kind, with the files that it is in.

A new kind is a row and a module beside this one. Its reader takes an `ImportSource` and gives an
`ImportPlan`; it is imported when a file of its kind is read, so that no other import pays for it.
"""

from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from lillux.errors import LilluxError, as_word
from lillux.files import read_bytes
from lillux.values import dataclass
from ryeos.imports.plan import MAX_SOURCE_BYTES, ImportPlan, ImportSource
from ryeos.items.errors import UsageError

Reader = Callable[[ImportSource], ImportPlan]

SKILL_FOLDERS = (".claude", ".agents", ".codex", ".cursor", ".gemini", ".github", ".opencode")
"""Folders of clients' skills, below a project's folder and below the home of a user."""
MAX_FOUND = 2000
"""Files of one kind that are looked at in a folder; more are an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportKind:
    """The kinds of files that can be imported.

    name   what ``--from`` calls it
    title  what it is, for help and the table
    files  patterns of paths below a project's folder, as `Path.glob` reads them; the last part is
           also how a file that is named alone is known
    read   the reader
    mark   what a file must contain to be of this kind where it was not named, ``b""`` for nothing
    is_document  its content says by itself which kind it is of
    """

    name: str
    title: str
    files: tuple[str, ...]
    read: Reader
    mark: bytes = b""
    is_document: bool = False

    def fits(self, path: Path) -> bool:
        """True if a file is of this kind, by its name and the folders that it is in."""
        for pattern in self.files:
            wanted = pattern.removeprefix("**/").split("/")
            parts = path.parts[-len(wanted) :]
            if len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted)):
                return True
        return False

    def found_in(self, folder: Path) -> Iterator[Path]:
        """The files of this kind in a folder, in the order of the patterns.

        Raises UsageError for more than `MAX_FOUND`.
        """
        for pattern in self.files:
            found = sorted(path for path in folder.glob(pattern) if path.is_file())
            if len(found) > MAX_FOUND:
                raise UsageError(
                    f"{folder / pattern}: expected at most {MAX_FOUND} files, found {len(found)}",
                    hint="import a folder with fewer of them, or name the files one by one",
                )
            yield from (path for path in found if not self.mark or _has(path, self.mark))


def _has(path: Path, mark: bytes) -> bool:
    """True if a file that is not large contains a mark."""
    try:
        return mark in read_bytes(path, MAX_SOURCE_BYTES)
    except (OSError, LilluxError):
        return False


def _servers(source: ImportSource) -> ImportPlan:
    from ryeos.imports.servers import read_servers

    return read_servers(source)


def _skills(source: ImportSource) -> ImportPlan:
    from ryeos.imports.skills import read_skill_folder

    return read_skill_folder(source)


def _scripts(source: ImportSource) -> ImportPlan:
    from ryeos.imports.python_scripts import read_script

    return read_script(source)


def _tasks(source: ImportSource) -> ImportPlan:
    from ryeos.imports.tasks import read_tasks

    return read_tasks(source)


def _openapi(source: ImportSource) -> ImportPlan:
    from ryeos.imports.openapi import read_openapi

    return read_openapi(source)


KINDS: tuple[ImportKind, ...] = (
    ImportKind(
        name="mcp",
        title="MCP servers in the settings of a client",
        files=(
            ".mcp.json",
            "mcp.json",
            ".cursor/mcp.json",
            ".vscode/mcp.json",
            ".codex/config.toml",
            ".gemini/settings.json",
            ".zed/settings.json",
            ".agents/mcp_config.json",
            "claude_desktop_config.json",
            "mcp_config.json",
            "mcp-config.json",
            ".claude-plugin/plugin.json",
            "gemini-extension.json",
            ".claude.json",
            "opencode.json",
            "opencode.jsonc",
        ),
        read=_servers,
        is_document=True,
    ),
    ImportKind(
        name="skill",
        title="skills, folders with a SKILL.md",
        files=(
            *(f"{folder}/skills/*/SKILL.md" for folder in SKILL_FOLDERS),
            "skills/*/SKILL.md",
            "SKILL.md",
        ),
        read=_skills,
    ),
    ImportKind(
        name="script",
        title="Python scripts with a PEP 723 block",
        files=("*.py", "bin/*.py", "scripts/*.py", "tools/*.py"),
        read=_scripts,
        mark=b"# /// script",
    ),
    ImportKind(
        name="task",
        title="tasks of package.json, justfile, Makefile, mise.toml",
        files=(
            "package.json",
            *("justfile", "Justfile", ".justfile"),
            *("Makefile", "makefile", "GNUmakefile"),
            *("mise.toml", ".mise.toml"),
        ),
        read=_tasks,
    ),
    ImportKind(
        name="openapi",
        title="OpenAPI documents",
        files=tuple(
            f"{folder}openapi.{suffix}"
            for folder in ("", "api/", "docs/")
            for suffix in ("json", "yaml", "yml")
        ),
        read=_openapi,
        is_document=True,
    ),
)
NAMES: tuple[str, ...] = tuple(kind.name for kind in KINDS)


def find_kind(name: str) -> ImportKind:
    """The kind of a name. Raises UsageError with the closest one."""
    typed = name.lower().replace("_", "-")
    for kind in KINDS:
        if kind.name == typed:
            return kind
    from difflib import get_close_matches

    from ryeos.imports.clients import NAMES as CLIENT_NAMES

    close = get_close_matches(typed, (*NAMES, *CLIENT_NAMES), 1, 0.5)
    known = f"known are {', '.join(NAMES)}, and clients: rye mcp list-clients"
    hint = f"did you mean {close[0]}?" if close else known
    raise UsageError(f"--from {name[:60]!r}: no such kind", hint=hint)


def sources_at(path: Path) -> list[tuple[ImportKind, Path]]:
    """The plan for a file or a folder. Raises UsageError where nothing can be imported.

    A file is of the kind that its content says, where that says one; else of that of its name.
    """
    if path.is_dir():
        found = [(kind, file) for kind in KINDS for file in kind.found_in(path)]
        if not found:
            raise UsageError(
                f"{path}: nothing here that can be imported",
                hint=f"looked for: {', '.join(kind.title for kind in KINDS)}; or name a file",
            )
        return [(_by_content(kind, file), file) for kind, file in found]
    if not path.is_file():
        raise UsageError(
            f"{path}: expected a file or a folder, found none", hint=_similar_names(path)
        )
    kinds = [kind for kind in KINDS if kind.fits(path.absolute())]
    if kinds:
        return [(_by_content(kind, path), path) for kind in kinds]
    from ryeos.imports.contents import content_of

    content = content_of(path)
    if not content.kind:
        expected = "; ".join(kind.title for kind in KINDS)
        raise UsageError(
            f"{path}: expected {expected}; found {content.words}",
            hint=f"say what it is: rye import {as_word(path.name)} --from {'|'.join(NAMES)}",
        )
    return [(find_kind(content.kind), path)]


def _by_content(named: ImportKind, path: Path) -> ImportKind:
    """The kind of a file that its name says to be of another one, as far as a document tells."""
    if not named.is_document:
        return named
    from ryeos.imports.contents import content_of

    kind = content_of(path).kind
    return find_kind(kind) if kind else named


def _similar_names(path: Path) -> str:
    from difflib import get_close_matches

    try:
        names = [entry.name for entry in path.absolute().parent.iterdir()]
    except OSError:
        return "name a file or a folder that is there"
    close = get_close_matches(path.name, names, 1, 0.6)
    return f"did you mean {path.with_name(close[0])}?" if close else "name one that is there"
