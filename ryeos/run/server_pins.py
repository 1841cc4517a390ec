"""Pins of MCP servers: what a signed server item says of its program, files, tools and package.

In the config of a server item::

    pins:
      tools: {echo: SHA256, add: SHA256}   # of each tool, as the server lists it
      file: "/srv/echo/index.js"           # the local file that is the server
      also: ["/srv/echo/hook.mjs"]         # further ones that its command line names
      files: SHA256                        # of these, and of the code beside and below them
    package: {npm: "name@1.2.3", integrity: "sha512-...", bin: "dist/index.js", list: SHA256}
    package: {pypi: "name==1.2.3", program: "name", list: SHA256}   # or so

(1) before the program starts, its files are compared
(2) before the tool is called, in the same conversation, the whole list is compared: a tool that was
    added, removed, renamed or changed by a byte refuses the call, whichever tool is called
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

from lillux.canonical_json import canonical_json
from lillux.contained_paths import is_inside
from lillux.digests import sha256_hex
from lillux.errors import LilluxError, as_word
from lillux.files import FileTooLargeError, read_bytes
from lillux.values import dataclass
from ryeos.items.errors import RyeError, SpecError
from ryeos.items.line_ends import lf_bytes
from ryeos.items.specs import ToolSpec
from ryeos.run.server_command import NamedFile

PINS = "pins"
MAX_FILES, MAX_FILES_BYTES = 2000, 64 * 1024 * 1024
_CODE = (".py", ".js", ".mjs", ".cjs", ".ts", ".json", ".sh", ".so", ".pyd", ".node", ".wasm")
_SCRIPTS = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")
_RELATIVE_IMPORT = re.compile(
    rb"""(?:from|import|require)\s*\(?\s*["'](\.{1,2}/[^"'\0]{1,500})["']"""
)
_PASSED_OVER = frozenset({"__pycache__", ".git", ".venv", "venv", "node_modules"})
_MAX_SHOWN = 8
_LONGEST_NAME, _LONGEST_LINE, MAX_DIFF_LINES = 80, 300, 200


class ServerChangedError(RyeError):
    """A server is not the one that was approved. ``diff`` is for a person, never for a model."""

    code = "SERVER_CHANGED"

    def __init__(
        self,
        server: str,
        problem: str,
        changed: Sequence["ToolDifference"] = (),
        *,
        diff: Sequence[str] = (),
    ) -> None:
        self.server, self.diff = server, tuple(diff)
        self.facts = {"changed": [one.describe() for one in changed]} if changed else None
        name = as_word(server.rpartition("/")[2])
        super().__init__(
            f"{server}: {problem}",
            hint=f"look at what changed, and approve it: rye mcp refresh {name}",
        )


@dataclass(frozen=True, slots=True)
class ToolDifference:
    """A tool that is not as it was approved: ``added``, ``removed`` or ``changed``."""

    state: str
    tool: str

    def describe(self) -> dict[str, str]:
        """It as JSON. The name is the server's own word: one line, bounded."""
        return {"state": self.state, "tool": shown_name(self.tool)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPins:
    """The pins of a server; ``tools`` is None, ``file`` and ``files`` are ``""`` where unset."""

    tools: Mapping[str, str] | None = None
    file: str = ""
    files: str = ""
    also: tuple[str, ...] = ()

    def described_files(self) -> dict[str, Any]:
        """The keys about files, as the config has them."""
        if not self.files:
            return {}
        also = {"also": list(self.also)} if self.also else {}
        return {"file": self.file, **also, "files": self.files}


def read_pins(config: Mapping[str, Any]) -> ServerPins:
    """The pins of a server's config. Raises SpecError."""
    said = config.get(PINS)
    if said is None:
        return ServerPins()
    if not isinstance(said, Mapping) or set(said) - {"tools", "file", "also", "files"}:
        raise SpecError("config.pins", "expected a mapping with tools, file, also and files")
    tools, file, files = said.get("tools"), said.get("file", ""), said.get("files", "")
    is_list = isinstance(tools, Mapping) and all(isinstance(one, str) for one in tools.values())
    if tools is not None and not is_list:
        raise SpecError("config.pins.tools", "expected a digest for each tool")
    if not isinstance(files, str) or not isinstance(file, str) or bool(file) != bool(files):
        raise SpecError("config.pins", "expected a path as file and a digest as files, or neither")
    also = said.get("also", [])
    if not isinstance(also, list) or not all(isinstance(one, str) for one in also):
        raise SpecError("config.pins.also", "expected a list of paths")
    return ServerPins(tools=tools, file=file, files=files, also=tuple(also))


def tool_pins(tools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The digest of each tool of a list. Of two with one name, both are in the one digest."""
    grouped: dict[str, list[str]] = {}
    for tool in tools:
        grouped.setdefault(str(tool.get("name")), []).append(_digest(tool))
    return {
        name: found[0] if len(found) == 1 else sha256_hex("".join(found).encode())
        for name, found in sorted(grouped.items())
    }


def _digest(tool: Mapping[str, Any]) -> str:
    try:
        return sha256_hex(canonical_json(tool))
    except LilluxError:  # lone surrogates, NaN: JSON that other programs refuse
        return sha256_hex(json.dumps(tool, sort_keys=True).encode())


def tool_differences(
    pinned: Mapping[str, str], tools: Sequence[Mapping[str, Any]]
) -> Iterator[ToolDifference]:
    """The differences of a list from the pinned one."""
    now = tool_pins(tools)
    for name in sorted({*pinned, *now}):
        if name not in pinned:
            yield ToolDifference("added", name)
        elif name not in now:
            yield ToolDifference("removed", name)
        elif pinned[name] != now[name]:
            yield ToolDifference("changed", name)


def required_tools(
    server: str, pins: ServerPins, called: str, approved: Mapping[str, Any]
) -> Callable[[Mapping[str, Any]], LilluxError | None] | None:
    """The check of a call on the list of tools: step (2); None where no tools are pinned.

    ``approved`` is the called tool as its item describes it, for the diff.
    """
    pinned = pins.tools
    if pinned is None:
        return None

    def judge(listed: Mapping[str, Any]) -> LilluxError | None:
        tools = listed["tools"]
        if listed["truncated"]:
            return ServerChangedError(server, f"it lists more than {len(tools)} tools")
        found = tuple(tool_differences(pinned, tools))
        if not found:
            return None
        now = next((tool for tool in tools if tool.get("name") == called), None)
        is_shown = any(one.tool == called and one.state == "changed" for one in found)
        diff = tool_diff(called, approved, now) if is_shown and now else ()
        others = [f"{one.state} {shown_name(one.tool)}" for one in found[:_MAX_SHOWN]]
        more = f" and {len(found) - _MAX_SHOWN} more" if len(found) > _MAX_SHOWN else ""
        problem = f"its tools are not those that you approved: {', '.join(others)}{more}"
        return ServerChangedError(server, problem, found, diff=diff)

    return judge


def shown_name(name: str) -> str:
    """The name of a tool as a message may have it: JSON, so that nothing in it steers."""
    written = json.dumps(name)[1:-1]
    return written if len(written) <= _LONGEST_NAME else f"{written[: _LONGEST_NAME - 1]}…"


def tool_diff(
    name: str, approved: Mapping[str, Any] | None, now: Mapping[str, Any] | None
) -> list[str]:
    """The change in a tool, as lines of a diff of its JSON. No line steers a terminal."""
    before, after = _tool_lines(approved), _tool_lines(now)
    lines = list(
        unified_diff(before, after, f"approved {shown_name(name)}", "now", lineterm="", n=2)
    )
    cut = [line if len(line) <= _LONGEST_LINE else _cut(line) for line in lines]
    more = len(cut) - MAX_DIFF_LINES
    return cut if more <= 0 else [*cut[:MAX_DIFF_LINES], f"... and {more} more lines"]


def _cut(line: str) -> str:
    return f"{line[:_LONGEST_LINE]} ... and {len(line) - _LONGEST_LINE} more characters"


def _tool_lines(tool: Mapping[str, Any] | None) -> list[str]:
    """A tool as lines of ASCII: every other character is an escape."""
    if tool is None:
        return []
    try:
        return json.dumps(tool, indent=2, sort_keys=True, ensure_ascii=True).splitlines()
    except RecursionError:
        return ['"nested too deeply to be shown"']


def approved_tool(spec: ToolSpec) -> dict[str, Any]:
    """A tool as its signed item describes it, in the shape of a server's list."""
    config = spec.config
    listed = config.get("listed")
    named = {"name": config.get("tool_name"), "description": spec.description}
    return {
        **named,
        "inputSchema": spec.config_schema,
        **(listed if isinstance(listed, dict) else {}),
    }


def files_digest(named: Sequence[NamedFile], project: Path | None) -> tuple[str, int]:
    """The digest of a local server and how many files are in it; ``("", 0)`` where none is.

    Raises FileTooLargeError, FileSystemError.
    """
    several = [server_files(one, project) for one in named]
    return _digest_of(named, several), len({path for files in several for path in files})


def server_files(named: NamedFile, project: Path | None) -> dict[Path, bytes]:
    """A file that a command line names, and what goes with it, each read once; none without it.

    Texts have LF, whatever git made of their ends of lines in this clone.
    The file itself, and all code in its folder and below. Where that folder is the project or holds
    it, or has too much in it: the file, its package, and the code there that it imports by a
    statement. Of a module the folder is the one in which Python looks for it.
    Raises FileTooLargeError, FileSystemError.
    """
    file, folder = named.path, named.folder
    if not file.is_file():
        return {}
    files, left = dict[Path, bytes](), MAX_FILES_BYTES
    is_broad = project is not None and is_inside(project, folder)
    found = [] if is_broad else _code_files(folder)
    waiting = sorted({file, *(found or _package_of(file, folder))}, reverse=True)
    while waiting:
        path = waiting.pop()
        if path in files:
            continue
        data = read_bytes(path, left)
        left -= len(data)
        files[path] = lf_bytes(data)
        if len(files) > MAX_FILES:
            raise FileTooLargeError(str(folder), len(files), MAX_FILES)
        if not found:
            waiting += _imported(path, files[path], folder)
    return files


def _package_of(file: Path, folder: Path) -> list[Path]:
    """The code of the package in a folder that a file belongs to."""
    inside = file.relative_to(folder).parts
    return _code_files(folder / inside[0]) if len(inside) > 1 else []


def _digest_of(named: Sequence[NamedFile], several: Sequence[Mapping[Path, bytes]]) -> str:
    """One digest of all files, as they lie around each of those that are named."""
    digests = []
    for one, files in zip(named, several, strict=True):
        lines = (
            f"{Path(os.path.relpath(path, one.path.parent)).as_posix()}\0{sha256_hex(data)}\n"
            for path, data in sorted(files.items())
        )
        text = "".join(lines).encode("utf-8", "surrogateescape")
        digests.append(sha256_hex(text) if files else "")
    return digests[0] if len(digests) == 1 else sha256_hex("\n".join(digests).encode())


def _imported(path: Path, data: bytes, folder: Path) -> Iterator[Path]:
    """The code of the folder that a file imports, with the whole of a package."""
    if path.suffix == ".py":
        from ryeos.trust.start_files import imported_names

        names = imported_names(data)
        for entry in folder.iterdir():
            if entry.name.lower().partition(".")[0] not in names:
                continue
            if entry.is_dir() and entry.name not in _PASSED_OVER:
                yield from _code_files(entry)
            elif entry.is_file() and entry.name.lower().endswith(_CODE):
                yield entry
        return
    for match in _RELATIVE_IMPORT.finditer(data) if path.suffix in _SCRIPTS else ():
        named = Path(os.path.normpath(path.parent / os.fsdecode(match[1])))
        places = (named, *(Path(f"{named}{suffix}") for suffix in (*_SCRIPTS, ".json")))
        places += tuple(named / f"index{suffix}" for suffix in _SCRIPTS)
        yield from (one for one in places if one.is_file() and one.is_relative_to(folder))


def _code_files(folder: Path) -> list[Path]:
    """The code in a folder and below; nothing where there is too much to read at each start."""
    found: list[Path] = []
    for seen, (root, folders, names) in enumerate(os.walk(folder)):
        folders[:] = sorted(name for name in folders if name not in _PASSED_OVER)
        paths = (Path(root, name) for name in names if name.lower().endswith(_CODE))
        found += [path for path in paths if path.is_file()]
        if seen > MAX_FILES or len(found) > MAX_FILES:
            return []
    return found


def require_files(
    server: str, pins: ServerPins, paths: Sequence[Path], named: Sequence[NamedFile], project: Path
) -> Mapping[Path, bytes]:
    """The local files that were approved, to be started: step (1); none where none are pinned.

    ``paths`` are those of the pins, ``named`` what the command line names now. Raises
    ServerChangedError where they are others, FileSystemError.
    """
    if not pins.files:
        return {}
    known = {one.path: one for one in named}
    normal = [Path(os.path.normpath(path)) for path in paths]
    for one in known:
        if one not in normal:
            raise ServerChangedError(server, f"its command names {one}, which you did not approve")
    pinned = [known.get(path) or NamedFile(path=path, folder=path.parent) for path in normal]
    several = [server_files(one, project) for one in pinned]
    files = {path: data for part in several for path, data in part.items()}
    if _digest_of(pinned, several) != pins.files:
        where = ", ".join(map(str, normal))
        what = f"{len(files)} files at {where}" if files else f"nothing at {where}"
        raise ServerChangedError(server, f"its files are not those that you approved: {what}")
    return files
