"""What ``rye doctor`` checks: Python, program, cache, clock, interpreters, clients, remotes."""

import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lillux.errors import LilluxError
from lillux.files import others_may
from lillux.foreign_text import one_line
from lillux.process import ProcessManager
from lillux.process.model import Command, ProcessRunner, SpawnError
from lillux.values import dataclass, replace
from ryeos.cli.client_settings import (
    ClientSettings,
    Interpreter,
    ServerLaunch,
    SettingsScope,
    is_ours,
    program_of,
    read_settings,
    settings_path,
    stable_executable,
    started_by,
    this_interpreter,
)
from ryeos.cli.findings import FAIL, OK, WARN, Finding, keep_from_others
from ryeos.cli.mcp_clients import machine_of, server_launch
from ryeos.cli.session import Session, program_path
from ryeos.imports.clients import CLIENTS, Client
from ryeos.items.errors import UsageError
from ryeos.items.refs import PROJECT

# --- machine checks -------------------------------------------------------------------------------

OLDEST_PYTHON = (3, 11)
LITTLE_ROOM = 64 * 1024 * 1024
MAX_SKEW_S = 300.0  # file systems of other machines differ by seconds
UTF_8_CODE_PAGE = 65001
_MAX_FILES = 2000


# --- Python ---------------------------------------------------------------------------------------


def python(_: Session) -> Iterator[Finding]:
    """Which Python runs, and whether a client will find it tomorrow."""
    version = ".".join(map(str, sys.version_info[:3]))
    yield from python_findings(sys.version_info[:2], version, this_interpreter())


def python_findings(
    release: tuple[int, ...], version: str, interpreter: Interpreter
) -> Iterator[Finding]:
    """The same, for any interpreter."""
    fix = "" if release >= OLDEST_PYTHON else "run rye with Python 3.11 or newer"
    if not interpreter.executable:
        yield Finding("python", OK, f"{version}, inside another program")
        return
    yield Finding("python", FAIL if fix else OK, f"{version}, {interpreter.executable}", fix)
    if interpreter.is_store_stub:
        message = f"{interpreter.executable}: an alias of the Microsoft Store, not a program"
        fix = "install Python from python.org, and use `py rye.pyz`"
        yield Finding("python", WARN, message, fix)
    stable = stable_executable(interpreter)
    if stable != interpreter.executable and not interpreter.is_virtual:
        message = f"{interpreter.executable} goes with the next upgrade"
        yield Finding("python", OK, f"{message}; clients are given {stable}")


# --- the program and its cache --------------------------------------------------------------------


def program(_: Session) -> Iterator[Finding]:
    """Which file was started."""
    path = program_path()
    yield Finding("program", OK, str(path) if path else "inside another program")


def cache(_: Session) -> Iterator[Finding]:
    """Whether `rye.pyz` can keep files, and has room for them."""
    from ryeos.cli.session import packed_program

    packed = packed_program()
    if packed is None:
        return
    folder = packed.cache()
    if folder is None:
        message = "no folder for it; each start does without"
        yield Finding("cache", WARN, message, "name a folder: RYE_CACHE_DIR=DIR")
    else:
        yield cache_finding(Path(folder))
        yield from kept_findings(Path(path) for path in packed.cache_folders().values())


def kept_findings(folders: Iterable[Path]) -> Iterator[Finding]:
    """What is to be said of folders in the cache, which must be of this user only to be used.

    Where others could write, what is there may be theirs: that is for a person to remove.
    """
    for folder in folders:
        message = f"{folder}: other users can look into it, so each start does without"
        if others_may(folder, 0o022):
            message = f"{folder}: other users can write there, so each start does without"
            yield Finding("cache", WARN, message, f"remove it: rm -r {folder}")
        elif others_may(folder, 0o077):
            yield Finding("cache", WARN, message, f"chmod 700 {folder}", keep_from_others(folder))


def cache_finding(folder: Path) -> Finding:
    """What is to be said of a folder for a cache, which may not be there yet."""
    above = next((path for path in (folder, *folder.parents) if os.path.exists(path)), folder)  # noqa: PTH110 - never raises
    fix = "name another: RYE_CACHE_DIR=DIR"
    if not os.access(above, os.W_OK | os.X_OK):
        return Finding("cache", WARN, f"{folder}: {above} cannot be written to", fix)
    try:
        free = shutil.disk_usage(above).free
    except OSError as error:
        return Finding("cache", WARN, f"{folder}: {error.strerror}", fix)
    message = f"{folder}, {free // 2**20} MiB free"
    return Finding("cache", WARN if free < LITTLE_ROOM else OK, message, fix * (free < LITTLE_ROOM))


def cryptography(_: Session) -> Iterator[Finding]:
    """Whether the compiled library is there."""
    from lillux.signing import NativeCryptoMissingError, generate_keypair

    try:
        generate_keypair()  # the one thing that surely needs the library
    except NativeCryptoMissingError as error:
        message = f"pure Python: verifying works, signing does not ({error.problem})"
        yield Finding("cryptography", WARN, message, error.hint)
    else:
        yield Finding("cryptography", OK, "libsodium")


# --- settings -------------------------------------------------------------------------------------


def settings(session: Session) -> Iterator[Finding]:
    """Variables that weaken Rye, or that mean something else than they seem to."""
    if session.context.dev_mode:
        message = "RYE_DEV_MODE=1: unsigned and tampered items run, with a warning"
        yield Finding("settings", WARN, message, "unset RYE_DEV_MODE")
    if session.context.lock_mode.value != "strict":
        message = f"RYE_LOCK={session.context.lock_mode.value}: changed chains run"
        yield Finding("settings", WARN, message, "unset RYE_LOCK")
    named = relative_user_space(session)
    if named:
        message = f"USER_SPACE={named}: another folder in each working directory"
        yield Finding("settings", WARN, message, "name it by an absolute path")


def relative_user_space(session: Session) -> str:
    """What USER_SPACE says, if another folder in each working directory is meant."""
    named = session.environ.get("USER_SPACE", "")
    return "" if named.startswith("~") or Path(named).is_absolute() else named


# --- the clock ------------------------------------------------------------------------------------


def clock(session: Session) -> Iterator[Finding]:
    """Whether files were written later than now: then the clock is slow, or was fast."""
    spaces = session.context.spaces
    folders = [space.ai for space in (spaces.user, spaces.project) if space]
    newest = max((_newest(folder) for folder in folders), default=(0.0, Path()))
    yield clock_finding(time.time(), *newest)


def clock_finding(now: float, written: float, path: Path) -> Finding:
    """What is to be said of a clock, and of the newest file."""
    ahead = written - now
    if ahead <= MAX_SKEW_S:
        return Finding("clock", OK, "no file is from the future")
    message = f"{path} was written {ahead:.0f} s in the future: the clock is slow, or was fast"
    return Finding("clock", WARN, message, "set the clock; signatures carry its time")


def _newest(folder: Path) -> tuple[float, Path]:
    """The time of the newest file below a folder, among the first some thousand."""
    newest, seen = (0.0, folder), 0
    for above, _, names in os.walk(folder):
        for name in names:
            path = Path(above, name)
            seen += 1
            try:
                newest = max(newest, (path.lstat().st_mtime, path))
            except OSError:
                continue
        if seen > _MAX_FILES:
            break
    return newest


# --- Windows --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Windows:
    """What differs from one Windows to the next. None is unknown."""

    long_paths: bool | None
    code_page: int | None


def windows(session: Session) -> Iterator[Finding]:
    """Whether Windows takes long paths, and what its console shows."""
    if session.context.platform == "win32":
        yield from windows_findings(_this_windows())


def windows_findings(found: Windows) -> Iterator[Finding]:
    """The same, for any Windows."""
    if found.long_paths:
        yield Finding("windows", OK, "long paths")
    else:
        message = "paths of more than 260 characters are refused"
        key = r"HKLM\SYSTEM\CurrentControlSet\Control\FileSystem"
        fix = f"as administrator: reg add {key} /v LongPathsEnabled /t REG_DWORD /d 1 /f"
        yield Finding("windows", WARN, message, fix)
    if found.code_page == UTF_8_CODE_PAGE:
        yield Finding("windows", OK, "the console shows UTF-8")
    elif found.code_page:
        message = f"code page {found.code_page}: what rye prints is UTF-8, and may look wrong"
        yield Finding("windows", WARN, message, "chcp 65001, or use Windows Terminal")


def _this_windows() -> Windows:
    return Windows(_long_paths(), _code_page())


def _long_paths() -> bool | None:
    try:
        import winreg

        key = r"SYSTEM\CurrentControlSet\Control\FileSystem"
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:  # type: ignore[attr-defined,unused-ignore]
            value = winreg.QueryValueEx(opened, "LongPathsEnabled")[0]  # type: ignore[attr-defined,unused-ignore]
    except (ImportError, OSError):
        return None
    return bool(value)


def _code_page() -> int | None:
    """That of the console; None without one."""
    import ctypes

    kernel = getattr(getattr(ctypes, "windll", None), "kernel32", None)
    return int(kernel.GetConsoleOutputCP()) or None if kernel else None


def agents(session: Session) -> Iterator[Finding]:
    """What an agent's programs may write, and whether this system holds them to it."""
    from lillux.landlock import landlock_version
    from ryeos.cli.chain import agents_may

    yield agents_finding(sys.platform, landlock_version())
    try:
        said = agents_may(session)
    except LilluxError as error:
        yield Finding("agents", WARN, str(error), error.hint or "see: docs/rights.md")
        return
    sockets = f"; they connect to {', '.join(said['sockets'])}" if said["sockets"] else ""
    message = f"they write {', '.join(said['write'])}, and nothing below .ai{sockets}"
    yield Finding("agents", OK, message)


def agents_finding(platform: str, landlock: int) -> Finding:
    """The same, for any system. ``landlock`` is the version of its interface, 0 for none."""
    if platform == "darwin":
        return Finding("agents", OK, "sandbox-exec keeps keys out of reach of what they start")
    if landlock:
        message = f"Landlock {landlock} keeps keys out of reach of what they start"
        return Finding("agents", OK, message)
    message = "what an agent starts can read your key: this system has no Landlock"
    return Finding("agents", WARN, message, "put the key under a passphrase: rye keys protect")


def rights(session: Session) -> Iterator[Finding]:
    """Whether this system enforces declared rights, and whether the user turned that off."""
    from lillux.landlock import landlock_version
    from lillux.process.spawn import bubblewrap
    from lillux.seccomp import can_filter
    from lillux.supervisor import can_supervise
    from ryeos.run.sandbox_policy import policy_of

    level = policy_of(session.rye.config, session.context).level.value
    held = (landlock_version(), can_filter(), can_supervise())
    yield rights_finding(sys.platform, level, *held, bubblewrap=bool(bubblewrap()))


def rights_finding(
    platform: str,
    level: str,
    landlock: int,
    can_filter: bool,  # noqa: FBT001 - facts about a machine
    can_supervise: bool,  # noqa: FBT001
    *,
    bubblewrap: bool,
) -> Finding:
    """The same, for any system."""
    if level == "off":
        message = "items are not held to the rights that they declare: the level is off"
        return Finding("rights", WARN, message, "unset RYE_SANDBOX, and see sandbox/policy.yaml")
    if platform == "darwin":
        return Finding("rights", OK, f"sandbox-exec holds what items declare (level {level})")
    files = f"Landlock {landlock}" if landlock else "bubblewrap" if bubblewrap else ""
    if not files or not can_filter:
        message = "items that declare rights are refused: this system cannot hold them"
        return Finding("rights", WARN, message, "to run them without: RYE_SANDBOX=off")
    if not can_supervise:
        message = f"{files} and seccomp hold files and programs, but no hosts: no pidfd_getfd here"
        return Finding("rights", WARN, message, "in a container: --cap-add SYS_PTRACE")
    return Finding("rights", OK, f"{files} and seccomp hold what items declare (level {level})")


MACHINE_PROBES = (
    ("python", python),
    ("program", program),
    ("cache", cache),
    ("cryptography", cryptography),
    ("settings", settings),
    ("agents", agents),
)


# --- interpreter checks ---------------------------------------------------------------------------
# What ``rye doctor`` finds about the interpreters of runtimes: in a terminal, and in a client.

# What a program that no terminal started has as PATH. On Windows it has the user's.
DESKTOP_PATHS = {
    "darwin": "/usr/bin:/bin:/usr/sbin:/sbin",
    "linux": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}


@dataclass(frozen=True, slots=True)
class _Need:
    """A variable that a runtime wants an interpreter in: the path found, or the names tried."""

    runtime: str
    var: str
    found: str
    names: tuple[str, ...]


def interpreters(session: Session) -> Iterator[Finding]:
    """Whether each runtime of the bundles has its interpreter."""
    for need in _needs(session, session.context.tool_environment()):
        if need.names:
            names = " or ".join(need.names)
            message = f"{need.runtime}: no {names} on the PATH; its tools cannot run"
            fix = f"install {names}, or set {need.var} to its path"
            yield Finding("interpreter", WARN, message, fix)
        else:
            yield Finding("interpreter", OK, f"{need.runtime}: {need.found}")


def desktop_path(session: Session) -> Iterator[Finding]:
    """Which interpreters a client on the desktop loses, since it has another PATH."""
    path = DESKTOP_PATHS.get(session.context.platform)
    machine = machine_of(session)
    clients = [client for client in CLIENTS if client.is_desktop and client.is_there(machine)]
    if path is None or not clients:
        return
    found = {need.var: need.found for need in _needs(session, session.context.tool_environment())}
    there = replace(session.context, process_env={**session.context.process_env, "PATH": path})
    lost = {
        need.var
        for need in _needs(session, there.tool_environment())
        if need.names and found.get(need.var)
    }
    for var in sorted(lost):
        message = f"a client on the desktop does not find {found[var]}: its PATH is {path}"
        fix = f"set {var}={found[var]} in the env of its entry"
        yield Finding("desktop path", WARN, message, fix)
    if not lost:
        yield Finding("desktop path", OK, f"the same interpreters with {path}")


def _needs(session: Session, env: Mapping[str, str]) -> Iterator[_Need]:
    from ryeos.items.refs import Kind
    from ryeos.trust.resolver import locations

    for bundle in session.context.spaces.bundles:
        for location in locations(bundle, Kind.TOOL):
            item = session.rye.verifier.verify_location(location)
            if item.header and item.header.get("tool_type") == "runtime":
                yield from _needs_of(session, location.ref.id, item.header, env)


def _needs_of(
    session: Session, runtime: str, header: Mapping[str, Any], process_env: Mapping[str, str]
) -> Iterator[_Need]:
    from lillux.env_resolver import EnvResolver
    from ryeos.run.environment import ProjectGate

    declared = header.get("env_config") or {}
    resolver = EnvResolver(
        project_path=session.context.project_path,
        user_base=session.context.spaces.user.base,
        process_env=process_env,
        platform=session.context.platform,
        allows=ProjectGate(session.rye.context, PROJECT).allows,
    )
    env = resolver.apply(resolver.base(), declared, {})
    missing = {interpreter.var: interpreter for interpreter in env.missing}
    blocks = (block for block in declared.values() if isinstance(block, dict))
    for var in (block["var"] for block in blocks if "var" in block):
        names = tuple(missing[var].names) if var in missing else ()
        yield _Need(runtime, var, "" if names else env.variables.get(var, ""), names)


INTERPRETER_PROBES = (("interpreter", interpreters), ("desktop path", desktop_path))


# --- client checks --------------------------------------------------------------------------------
# What ``rye doctor`` finds in the settings of clients: is the entry there, and would it start.

_MAX_SHOWN = 200
# On Windows, to look for such a file is to log in at a machine that the file names.
_NETWORK = ("\\\\", "//")


def clients(session: Session) -> Iterator[Finding]:
    """Every client of this user that is there, and those of the project with settings in it."""
    machine, project = machine_of(session), session.context.project_path
    try:
        launch = server_launch(session)
    except UsageError:
        launch = ServerLaunch(argv=())
    seen: set[Path] = set()
    for client in CLIENTS:
        if client.is_there(machine):
            path = settings_path(client, SettingsScope.USER, machine, None)
            yield from _of_file(client, path, launch, None)
        if client.project and project:
            path = settings_path(client, SettingsScope.PROJECT, machine, project)
            if path not in seen and os.path.lexists(path):
                seen.add(path)
                yield from _of_file(client, path, launch, project)


def _of_file(
    client: Client, path: Path, launch: ServerLaunch, project: Path | None
) -> Iterator[Finding]:
    """What is to be said of a file. A file of a project is not an installation."""
    broken = WARN if project else FAIL
    try:
        settings = read_settings(client, path, project=project)
        entry = settings.entry()
    except LilluxError as error:
        message = f"{client.title}: {one_line(str(error), _MAX_SHOWN)}"
        yield Finding("client", broken, message, "fix the file: the client may ignore all of it")
        return
    install = f"rye mcp install {client.name}" + (" --scope project" if project else "")
    if entry is None:
        if not project:
            yield Finding("client", OK, f"{client.title}: without rye; to add it: {install}")
    elif not is_ours(entry, launch):
        shown = one_line(" ".join(started_by(entry) or ("what cannot be read",)), _MAX_SHOWN)
        message = f"{client.title}: its entry 'rye' starts something else: {shown}"
        yield Finding("client", WARN, message, f"look at {path}")
    else:
        yield from _of_entry(settings, started_by(entry) or (), broken, f"{install} again")


def _of_entry(
    settings: ClientSettings, argv: tuple[str, ...], broken: str, fix: str
) -> Iterator[Finding]:
    """What is to be said of an entry that starts Rye. What it names is only looked at."""
    title, program = settings.client.title, Path(program_of(argv))
    command, project = Path(argv[0]), _project_of(argv)
    interpreter = Interpreter(executable=argv[0], base=argv[0], is_virtual=False)
    shown = one_line(argv[0], _MAX_SHOWN)
    if any(path.startswith(_NETWORK) for path in (argv[0], program_of(argv), project)):
        message = f"{title}: it names a path of the network, which was not looked at"
        yield Finding("client", WARN, message, f"look at {settings.path}")
    elif not command.is_absolute():
        message = f"{title}: it starts {shown!r}, which its PATH may not have"
        yield Finding("client", WARN, message, fix)
    elif not _is_file(command) or not os.access(command, os.X_OK):
        yield Finding("client", broken, f"{title}: no program at {shown}", fix)
    elif interpreter.is_store_stub:
        yield Finding("client", WARN, f"{title}: {shown} is an alias of the Microsoft Store", fix)
    elif not _is_file(program):
        message = f"{title}: no file at {one_line(str(program), _MAX_SHOWN)}"
        yield Finding("client", broken, message, fix)
    elif project and not project.startswith("$") and not Path(project).is_dir():
        message = f"{title}: no folder at {one_line(project, _MAX_SHOWN)}"
        yield Finding("client", broken, message, fix)
    elif _is_another(program):
        message = f"{title}: starts another copy, {one_line(str(program), _MAX_SHOWN)}"
        yield Finding("client", WARN, message, fix)
    else:
        yield Finding("client", OK, f"{title}: starts this program, {settings.path}")


def _project_of(argv: tuple[str, ...]) -> str:
    flags = ("--project", "-p", "--project-path")
    return next((argv[i + 1] for i, word in enumerate(argv[:-1]) if word in flags), "")


def _is_file(path: Path) -> bool:
    return os.path.isfile(path)  # noqa: PTH113 - never raises


def _is_another(program: Path) -> bool:
    own = program_path()
    try:
        return own is not None and not own.samefile(program)
    except OSError:
        return True


CLIENT_PROBES = (("client", clients),)


# --- handshake check ------------------------------------------------------------------------------
# Whether this program's own MCP server answers: a child of its own, which gets the requests of a
# legacy and of a modern client.
#
# The child is started as a client starts it, with the command line that `mcp install` writes and no
# more environment than clients hand on.

HANDSHAKE_TIMEOUT_S = 10.0  # the shortest time that a client waits
SLOW_MS = 3000.0
# What the libraries of MCP hand on to a server, of each platform.
HANDED_ON = [
    "HOME",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "USER",
    "APPDATA",
    "HOMEDRIVE",
    "HOMEPATH",
    "LOCALAPPDATA",
    "PATHEXT",
    "PROCESSOR_ARCHITECTURE",
    "SYSTEMDRIVE",
    "SYSTEMROOT",
    "TEMP",
    "USERNAME",
    "USERPROFILE",
]
_CLIENT = {"name": "rye-doctor", "version": "1"}
_MODERN_VERSION, _LEGACY_VERSION = "2026-07-28", "2025-11-25"
_META = {
    "io.modelcontextprotocol/protocolVersion": _MODERN_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": _CLIENT,
}


@dataclass(frozen=True, slots=True)
class ProtocolProbe:
    """The messages of one protocol form that ask for the tools; the last one is ``tools/list``."""

    version: str
    messages: tuple[Mapping[str, Any], ...]

    @property
    def last_id(self) -> object:
        """The id of the request for the tools."""
        return self.messages[-1]["id"]


MODERN = ProtocolProbe(
    _MODERN_VERSION,
    (
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": _META}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": _META}},
    ),
)
LEGACY = ProtocolProbe(
    _LEGACY_VERSION,
    (
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": _LEGACY_VERSION,
                "capabilities": {},
                "clientInfo": _CLIENT,
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    ),
)


def handshake(session: Session) -> Iterator[Finding]:
    """Whether the server of this program answers both protocol forms, and how soon it is done."""
    try:
        launch = server_launch(session)
    except UsageError:
        yield Finding("mcp", OK, "not tried: this program was not started from a file")
        return
    env = {name: session.environ[name] for name in HANDED_ON if name in session.environ}
    for probe in (MODERN, LEGACY):
        yield handshake_finding(probe, launch, env, ProcessManager())


def handshake_finding(
    probe: ProtocolProbe, launch: ServerLaunch, env: Mapping[str, str], runner: ProcessRunner
) -> Finding:
    """The finding of one probe. The server starts in the root folder, as many clients start it."""
    sent = b"".join(json.dumps(message).encode() + b"\n" for message in probe.messages)
    command = Command(
        argv=launch.argv,
        env={**env, **launch.env},
        cwd=Path(Path(launch.argv[0]).anchor or "/"),
        stdin=sent,
        timeout_s=HANDSHAKE_TIMEOUT_S,
    )
    fix = "try it: rye mcp, and type the line of a request"
    try:
        outcome = runner.run(command)
    except SpawnError as error:
        return Finding("mcp", FAIL, f"{probe.version}: {error}", fix)
    if outcome.timed_out:
        return Finding(
            "mcp", FAIL, f"{probe.version}: it did not end within {HANDSHAKE_TIMEOUT_S:g} s", fix
        )
    problem = _problem(probe, outcome.stdout.data)
    if problem:
        said = one_line(outcome.stderr.data.decode("utf-8", "replace"), 300)
        shown = f"{probe.version}: {problem}" + (f"; it says: {said}" if said else "")
        return Finding("mcp", FAIL, shown, fix)
    message = f"{probe.version}: answers, started and ended in {outcome.duration_ms:.0f} ms"
    slow = outcome.duration_ms > SLOW_MS
    return Finding("mcp", WARN if slow else OK, message, "clients give up after 10 s" * slow)


def _problem(probe: ProtocolProbe, data: bytes) -> str:
    """What is wrong with the output of a server; nothing if it listed its tools."""
    answers: dict[object, Any] = {}
    for line in filter(None, data.split(b"\n")):
        try:
            message = json.loads(line)
        except ValueError:
            return f"expected JSON on standard output, found {line[:60]!r}"
        if isinstance(message, dict) and "id" in message:
            answers[message["id"]] = message
    for request in probe.messages:
        if "id" not in request:
            continue
        answer = answers.get(request["id"])
        if answer is None:
            return f"no answer to {request['method']}"
        if "result" not in answer:
            return f"{request['method']}: {one_line(str(answer.get('error')), 200)}"
    tools = answers[probe.last_id]["result"]
    listed = tools.get("tools") if isinstance(tools, dict) else None
    return "" if isinstance(listed, list) and listed else "it lists no tools"


# --- remote checks --------------------------------------------------------------------------------
# What ``rye doctor`` finds about the remotes of ``remotes/remotes.yaml``: does one answer.

CONFIG_PATH = "remotes/remotes.yaml"
REMOTE_TIMEOUT_S = 3.0
_PORTS = {"http": 80, "https": 443}


def remotes(session: Session) -> Iterator[Finding]:
    """Whether each remote that the user configured takes a connection; nothing is sent.

    Those that only the project names are not asked: looking at a project must not reach out.
    """
    for name, (url, tier) in _configured_urls(session).items():
        shown = f"{one_line(name, 60)}, {one_line(url, 200)}"
        if tier == PROJECT:
            yield Finding("remote", OK, f"{shown}: named by the project, not asked")
        elif session.arguments.offline:
            yield Finding("remote", OK, f"{shown}: not asked, --offline")
        else:
            yield remote_finding(shown, url)


def _configured_urls(session: Session) -> dict[str, tuple[str, str]]:
    """The URL of each remote, and the tier that says it last."""
    found: dict[str, tuple[str, str]] = {}
    for layer in session.rye.network_layers(CONFIG_PATH):
        declared = layer.values.get("remotes")
        for name, remote in (declared if isinstance(declared, Mapping) else {}).items():
            if isinstance(remote, Mapping) and "url" in remote:
                found[str(name)] = (str(remote["url"]), layer.label)
    return found


def remote_finding(shown: str, url: str) -> Finding:
    """What is to be said of one URL."""
    try:
        parts = urlsplit(url)
        address = (parts.hostname or "", parts.port or _PORTS[parts.scheme])
    except (ValueError, KeyError):
        message = f"{shown}: expected a URL that begins with https:// or http://"
        return Finding("remote", WARN, message, f"fix it in {CONFIG_PATH}")
    try:
        socket.create_connection(address, REMOTE_TIMEOUT_S).close()
    except (OSError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        fix = "is it running? behind a proxy this says nothing; --offline does not ask"
        return Finding("remote", WARN, f"{shown}: no connection: {str(problem).lower()}", fix)
    return Finding("remote", OK, f"{shown}: takes connections")


REMOTE_PROBES = (("remote", remotes),)
