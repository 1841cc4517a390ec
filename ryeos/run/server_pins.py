"""Pins of MCP servers: what a signed server item says of its program, its files and its tools.

In the config of a server item::

    pins:
      tools: {echo: SHA256, add: SHA256}   # of each tool, as the server lists it
      file: "/srv/echo/index.js"           # the local file that is the server
      files: SHA256                        # of it, and of the code beside and below it
    package: {npm: "name@1.2.3", lock: SHA256, ...}   # see `ryeos.run.server_packages`

(1) before the program starts, its files are compared
(2) before the tool is called, in the same conversation, the whole list is compared: a tool that was
    added, removed, renamed or changed by a byte refuses the call, whichever tool is called
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from pathlib import Path
from typing import Any

from lillux.digests import canonical_json, sha256_hex
from lillux.errors import LilluxError, as_word
from lillux.files import is_inside, read_bytes
from lillux.values import dataclass
from ryeos.items.errors import RyeError, SpecError
from ryeos.items.specs import ToolSpec

PINS = "pins"
MAX_FILES, MAX_FILES_BYTES = 2000, 64 * 1024 * 1024
_CODE = (".py", ".js", ".mjs", ".cjs", ".ts", ".json", ".sh", ".so", ".pyd", ".node", ".wasm")
_PASSED_OVER = frozenset({"__pycache__", ".git", ".venv", "venv", "node_modules"})
_MAX_SHOWN = 8
_LONGEST_NAME, _LONGEST_LINE, MAX_DIFF_LINES = 80, 300, 200


class ServerChangedError(RyeError):
    """A server is not the one that was approved. ``diff`` is for a person, never for a model."""

    code, exit_status = "SERVER_CHANGED", 4

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
    """What is pinned; ``tools`` is None, ``file`` and ``files`` are ``""`` where that is not."""

    tools: Mapping[str, str] | None = None
    file: str = ""
    files: str = ""


def read_pins(config: Mapping[str, Any]) -> ServerPins:
    """The pins of a server's config. Raises SpecError."""
    said = config.get(PINS)
    if said is None:
        return ServerPins()
    if not isinstance(said, Mapping) or set(said) - {"tools", "file", "files"}:
        raise SpecError("config.pins", "expected a mapping with tools, file and files")
    tools, file, files = said.get("tools"), said.get("file", ""), said.get("files", "")
    is_list = isinstance(tools, Mapping) and all(isinstance(one, str) for one in tools.values())
    if tools is not None and not is_list:
        raise SpecError("config.pins.tools", "expected a digest for each tool")
    if not isinstance(files, str) or not isinstance(file, str) or bool(file) != bool(files):
        raise SpecError("config.pins", "expected a path as file and a digest as files, or neither")
    return ServerPins(tools=tools, file=file, files=files)


# --- tools ----------------------------------------------------------------------------------------


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
    except LilluxError:  # halves of characters, numbers that are none: JSON that others refuse
        return sha256_hex(json.dumps(tool, sort_keys=True).encode())


def tool_differences(
    pinned: Mapping[str, str], tools: Sequence[Mapping[str, Any]]
) -> Iterator[ToolDifference]:
    """How a list differs from the pinned one."""
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
    """What a call requires of the list of tools: step (2); None where no tools are pinned.

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
    """What changed in a tool, as lines of a diff of its JSON. No line steers a terminal."""
    before, after = _written(approved), _written(now)
    lines = list(
        unified_diff(before, after, f"approved {shown_name(name)}", "now", lineterm="", n=2)
    )
    cut = [line if len(line) <= _LONGEST_LINE else _cut(line) for line in lines]
    more = len(cut) - MAX_DIFF_LINES
    return cut if more <= 0 else [*cut[:MAX_DIFF_LINES], f"... and {more} more lines"]


def _cut(line: str) -> str:
    return f"{line[:_LONGEST_LINE]} ... and {len(line) - _LONGEST_LINE} more characters"


def _written(tool: Mapping[str, Any] | None) -> list[str]:
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


# --- files ----------------------------------------------------------------------------------------


def files_digest(file: Path, project: Path | None) -> tuple[str, int]:
    """The digest of a local server and how many files are in it; ``("", 0)`` where none is.

    The file itself, and all code in its folder and below; the file alone where that folder is the
    project or holds it, or has too much in it. Raises FileTooLargeError, FileSystemError.
    """
    if not file.is_file():
        return "", 0
    folder = file.parent
    is_broad = project is not None and is_inside(project, folder)
    found = [] if is_broad else _code_files(folder)
    paths = sorted({file, *found})
    parts, left = [], MAX_FILES_BYTES
    for path in paths:
        data = read_bytes(path, left)
        left -= len(data)
        parts.append(f"{path.relative_to(folder).as_posix()}\0{sha256_hex(data)}\n")
    return sha256_hex("".join(parts).encode("utf-8", "surrogateescape")), len(paths)


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


def require_files(server: str, pins: ServerPins, file: Path, project: Path) -> None:
    """Refuse local files that are not those that were approved: step (1).

    Raises ServerChangedError, FileSystemError.
    """
    if not pins.files:
        return
    found, count = files_digest(file, project)
    if found != pins.files:
        what = f"{count} files at {file}" if count else f"nothing at {file}"
        raise ServerChangedError(server, f"its files are not those that you approved: {what}")
