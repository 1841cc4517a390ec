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

from lillux.digests import canonical_json, sha256_hex
from lillux.errors import LilluxError, UnsafePathError, as_word
from lillux.files import (
    FileTooLargeError,
    is_inside,
    locked,
    make_directory,
    read_bytes,
    require_plain_path,
    write_atomic,
)
from lillux.interpreter_searches import find_on_path
from lillux.process.model import Command, ProcessRunner
from lillux.values import dataclass
from ryeos.items.errors import RyeError, SpecError
from ryeos.items.line_ends import lf_bytes
from ryeos.items.specs import ToolSpec
from ryeos.run.installed import InstalledTree
from ryeos.run.packages import Block, Installer, PackageList, PackagesError, with_own_caches
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
    """What is pinned; ``tools`` is None, ``file`` and ``files`` are ``""`` where that is not."""

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
    except LilluxError:  # lone surrogates, NaN: JSON that other programs refuse
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


# --- files ----------------------------------------------------------------------------------------


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


# --- packages -------------------------------------------------------------------------------------
# One version with its hashes in the signed item, installed once.
#
# ``list`` is the digest of the whole tree, which lies beside as ``NAME.packages.yaml``: a lock of
# npm, or requirements with hashes. Both ecosystems install from it what has these hashes and
# nothing else, and run no script of a package: npm by ``npm ci --ignore-scripts``, Python as
# `ryeos.run.packages` does. What was installed lies in user space, named by that digest.

NPM, PYPI = "npm", "pypi"
PACKAGE = "package"
_KEYS = frozenset({NPM, PYPI, "program", "integrity", "bin", "list"})
_INSTALL_S = 600.0
_OUTPUT_BYTES = 16 * 1024 * 1024
MAX_PACKAGES = 2000
_LEFT_OUT = ("funding", "license", "dev", "deprecated")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPackage:
    """What a server item says of its package. ``digest`` is ``""`` while it is not pinned.

    ``server`` is the name of the server, for hints.
    """

    ecosystem: str
    spec: str
    program: str = ""
    bin: str = ""
    digest: str = ""
    server: str = "NAME"

    @property
    def name(self) -> str:
        """The package without its version."""
        return self.spec[: self.spec.rfind("@")] if self.spec.rfind("@") > 0 else self.spec


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedPackage:
    """A package in one version: the config that pins it, and the list of all that it needs."""

    config: Mapping[str, str]
    requirements: tuple[str, ...]
    made_for: str = ""


def read_package(config: Mapping[str, Any], server: str) -> ServerPackage | None:
    """The package of a server's config, None for none. Raises SpecError."""
    said = config.get(PACKAGE)
    if said is None:
        return None
    is_texts = isinstance(said, Mapping) and all(isinstance(one, str) for one in said.values())
    ecosystems = [name for name in (NPM, PYPI) if name in said] if is_texts else []
    if len(ecosystems) != 1 or set(said) - _KEYS:
        raise SpecError("config.package", f"expected {NPM} or {PYPI} with a package")
    return ServerPackage(
        ecosystem=ecosystems[0],
        spec=said[ecosystems[0]],
        program=said.get("program", ""),
        bin=said.get("bin", ""),
        digest=said.get("list", ""),
        server=server.rpartition("/")[2],
    )


def newest(package: ServerPackage) -> ServerPackage:
    """What to resolve: a pinned package without its version, any other as it was asked for."""
    from lillux.values import replace

    if not package.digest:
        return package
    name = package.name if package.ecosystem == NPM else package.spec.partition("==")[0]
    return replace(package, spec=name, digest="")


def list_digest(requirements: Sequence[str]) -> str:
    """The digest of a list, as the server item has it."""
    return sha256_hex("\n".join(requirements).encode())


@dataclass(frozen=True, slots=True)
class ServerInstaller:
    """Resolves and installs packages of servers. ``env`` is that of this process, never a .env."""

    runner: ProcessRunner
    env: Mapping[str, str]
    platform: str

    def resolve(self, package: ServerPackage, python: str, folder: Path) -> ResolvedPackage:
        """The newest version that fits, with hashes; ``folder`` is an empty one to work in.

        Raises PackagesError.
        """
        if package.ecosystem == PYPI:
            return self._resolve_python(package, python, folder)
        return self._resolve_npm(package, folder)

    def program(
        self,
        package: ServerPackage,
        listed: Callable[[], PackageList],
        interpreter: str,
        place: Path,
        *,
        make: bool,
    ) -> tuple[tuple[str, ...], Path]:
        """The words that start a pinned server, and the folder that it is installed in.

        ``listed`` gives the list; it is asked where nothing is installed yet. With ``make``
        that is done then. Raises PackagesError, SpecError, FileSystemError, and IntegrityError
        where a file of it was changed.
        """
        if not package.digest:
            raise PackagesError(
                f"{package.ecosystem} {package.spec}: its version is not pinned yet",
                hint=f"to find the version, and approve it: rye mcp refresh {package.server}",
            )
        if package.ecosystem == PYPI:
            return self._python_program(package, listed, interpreter, place, make=make)
        folder = place / f"npm-{package.digest[:32]}"
        started = folder / "node_modules" / package.name / _plain(package.bin)
        tree = InstalledTree(folder)
        if make and not tree.is_made:
            self._install_npm(_require_pinned(package, listed()).requirements, folder)
        elif tree.is_made:
            tree.require_unchanged()
        return (interpreter, str(started)), folder

    # ------------------------------------------------------------------ npm

    def _resolve_npm(self, package: ServerPackage, folder: Path) -> ResolvedPackage:
        version = package.spec[len(package.name) + 1 :] or "latest"
        _write_json(
            folder / "package.json", {"private": True, "dependencies": {package.name: version}}
        )
        self._npm("install", "--package-lock-only", folder=folder, what="resolve")
        try:
            lock = json.loads((folder / "package-lock.json").read_text("utf-8"))
            entries: dict[str, dict[str, Any]] = lock["packages"]
            own = entries[f"node_modules/{package.name}"]
            bins = own["bin"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PackagesError(
                f"npm {package.spec}: it has no program to start: {error}"
            ) from None
        if len(entries) > MAX_PACKAGES:
            raise PackagesError(f"npm {package.spec}: expected at most {MAX_PACKAGES} packages")
        for path, entry in entries.items():
            is_pinned = str(entry.get("resolved", "")).startswith(("https://", "http://"))
            is_pinned = is_pinned and bool(entry.get("integrity"))
            if path and not is_pinned and not entry.get("inBundle"):
                raise PackagesError(
                    f"npm {package.spec}: {path[:80]} does not come from an index with a hash"
                )
        wanted = package.program or package.name.rpartition("/")[2]
        program = bins.get(wanted) or (next(iter(bins.values())) if len(bins) == 1 else "")
        requirements = _lock_lines(entries)
        return ResolvedPackage(
            config={
                NPM: f"{package.name}@{own['version']}",
                "integrity": own["integrity"],
                "bin": _plain(program),
                "list": list_digest(requirements),
                **({"program": package.program} if package.program else {}),
            },
            requirements=requirements,
        )

    def _install_npm(self, requirements: Sequence[str], folder: Path) -> None:
        tree = InstalledTree(folder)
        make_directory(folder.parent, mode=0o700)
        with locked(folder.with_suffix(".lock"), timeout_s=_INSTALL_S):
            if tree.is_made:
                tree.require_unchanged()
                return
            tree.remove()  # of a process that was ended in the middle
            make_directory(folder, mode=0o700)
            entries = dict(_lock_entry(line) for line in requirements)
            needed = entries.get("", {}).get("dependencies", {})
            _write_json(folder / "package.json", {"private": True, "dependencies": needed})
            lock = {"lockfileVersion": 3, "requires": True, "packages": entries}
            _write_json(folder / "package-lock.json", lock)
            self._npm("ci", folder=folder, what="install")
            tree.seal()

    def _npm(self, *words: str, folder: Path, what: str) -> None:
        npm = find_on_path("npm", self.env.get("PATH", ""), platform=self.platform)
        if not npm:
            raise PackagesError("npm: not on the PATH", hint="install Node.js, or use another way")
        env = with_own_caches(self.env, folder if what == "resolve" else folder.parent)
        flags = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
        outcome = self.runner.run(
            Command(
                argv=(npm, *words, *flags, "--loglevel=error"),
                env={**env, "npm_config_ignore_scripts": "true"},
                cwd=folder,
                timeout_s=_INSTALL_S,
                max_output_bytes=_OUTPUT_BYTES,
            )
        )
        if outcome.exit_code == 0:
            return
        said = (outcome.stderr.data or outcome.stdout.data).decode("utf-8", "replace")
        lines = [re.sub(r"^npm (ERR!|error)\s*", "", line).strip() for line in said.splitlines()]
        raise PackagesError(
            f"npm: cannot {what} it: {' '.join(filter(None, lines))[:400] or 'it gave no reason'}",
            hint="it needs an index that answers, and that has this package with this hash",
        )

    # ------------------------------------------------------------------ Python

    def _resolve_python(self, package: ServerPackage, python: str, folder: Path) -> ResolvedPackage:
        block = Block((package.spec,), "", "")
        requirements = self._python.resolve(block, python, folder)
        name = re.split(r"[\[=<>~!;@ ]", package.spec)[0]
        wanted = re.sub(r"[-_.]+", "-", name).lower()
        for line in requirements:
            found, _, version = line.partition(" ")[0].partition("==")
            if re.sub(r"[-_.]+", "-", found).lower() == wanted:
                config = {PYPI: f"{found}=={version}", "program": package.program or found}
                config["list"] = list_digest(requirements)
                made_for = self._python.platform_of(python, folder)
                return ResolvedPackage(config=config, requirements=requirements, made_for=made_for)
        raise PackagesError(f"pypi {package.spec}: the resolver did not name it")

    def _python_program(
        self,
        package: ServerPackage,
        listed: Callable[[], PackageList],
        python: str,
        place: Path,
        *,
        make: bool,
    ) -> tuple[tuple[str, ...], Path]:
        _plain(package.program)
        marked = place / f"pypi-{package.digest[:32]}-{sha256_hex(os.fsencode(python))[:8]}"
        known = _text(marked)
        tree = InstalledTree(Path(known).parent.parent) if known else None
        if tree and tree.is_made and tree.folder.parent == place:
            tree.require_unchanged()
        elif make:
            checked = _require_pinned(package, listed())
            known = self._python.python_with(checked, python, place, make=True)
            write_atomic(marked, known.encode("utf-8", "surrogateescape"))
        program = Path(known or place / "python")
        if self.platform == "win32":
            return (str(program.with_name(f"{package.program}.exe")),), program.parent.parent
        return (str(program), str(program.with_name(package.program))), program.parent.parent

    @property
    def _python(self) -> Installer:
        return Installer(self.runner, self.env, self.platform)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "surrogateescape")
    except OSError:
        return ""


def _require_pinned(package: ServerPackage, listed: PackageList) -> PackageList:
    """The list, if it is the one that the signed item names. Raises PackagesError."""
    if list_digest(listed.requirements) != package.digest:
        raise PackagesError(
            f"{package.ecosystem} {package.spec}: its list of packages is another one",
            hint=f"to find it anew, and approve it: rye mcp refresh {package.server}",
        )
    return listed


def _plain(relative: str) -> str:
    """A path inside of a package. Raises PackagesError for one that leads out."""
    path = relative.removeprefix("./")
    try:
        require_plain_path(path)
    except UnsafePathError as error:
        raise PackagesError(f"its program {relative[:80]!r}: {error}") from None
    return path


def _lock_lines(entries: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """A lock as lines: a path and what npm says of it, less what installing does not need."""
    return tuple(
        f"{path} {canonical_json(_without(entry)).decode()}"
        for path, entry in sorted(entries.items())
    )


def _without(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in _LEFT_OUT}


def _lock_entry(line: str) -> tuple[str, dict[str, Any]]:
    path, _, said = line.partition(" {")
    try:
        return path, json.loads("{" + said)
    except ValueError as error:
        raise PackagesError(f"its list of packages cannot be read: {error}") from None


def _write_json(path: Path, value: object) -> None:
    write_atomic(path, json.dumps(value).encode())


def server_list_text(server_id: str, found: ResolvedPackage) -> str:
    """The text of a list, to be signed beside its server."""
    lines = "".join(f"    - {json.dumps(line)}\n" for line in found.requirements)
    package = next(iter(found.config.values()))
    about = f"The packages of {package}, written by rye mcp refresh"
    platform = f"  made_for: {json.dumps(found.made_for)}\n" if found.made_for else ""
    return (
        'version: "1.0.0"\n'
        "tool_type: library\n"
        "executor_id: null\n"
        f"category: {json.dumps(server_id.rpartition('/')[0])}\n"
        f"description: {json.dumps(about)}\n"
        f"config:\n{platform}"
        f"  requirements:\n{lines}"
    )
