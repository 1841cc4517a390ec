"""The settings files of MCP clients: how our entry is read and written there."""

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.errors import FileSystemError
from lillux.files import create_file, file_system_error, make_directory, read_bytes, write_atomic
from lillux.foreign_text import one_line
from lillux.jsonc import Dialect, TextStructureError, TextSyntaxError, is_blank, parse
from lillux.values import dataclass, field
from ryeos.imports.clients import (
    ENTRY_NAME,
    PROGRAM_NAMES,
    Client,
    Format,
    Machine,
    Shape,
    file_name,
)
from ryeos.items.errors import RyeError, UnsupportedError, UsageError, no_project_error
from ryeos.items.refs import AI_DIRECTORY, Space
from ryeos.items.replaced import keep_replaced_settings

# --- launch ---------------------------------------------------------------------------------------
# What a client starts: an interpreter and a program by absolute paths, and their arguments.
#
# A client has another PATH than a terminal, and its working directory is anywhere.

_CELLAR = re.compile(r"(.*)/Cellar/([^/]+)/[^/]+/(.*)")
_STORE_FOLDER = "/microsoft/windowsapps/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """Which Python runs: its executable, and where it is installed.

    ``base`` is the executable of the installation that a virtual environment was made from; it is
    the same outside of one.
    """

    executable: str
    base: str
    is_virtual: bool

    @property
    def is_store_stub(self) -> bool:
        """Whether it is an alias of the Microsoft Store, which a service cannot always start."""
        return _STORE_FOLDER in self.executable.replace("\\", "/").lower()


def this_interpreter() -> Interpreter:
    """The one that runs this program."""
    return Interpreter(
        executable=sys.executable,
        base=str(getattr(sys, "_base_executable", "") or sys.executable),
        is_virtual=sys.prefix != sys.base_prefix,
    )


def stable_executable(
    interpreter: Interpreter, *, same_file: Callable[[str, str], bool] | None = None
) -> str:
    """The path by which the interpreter is found tomorrow too.

    Not that of a virtual environment, which may be removed: its base. Not that of one release
    in a Homebrew cellar, which the next upgrade removes, but the link to the current one. Any
    other link is kept as it is.
    """
    same = same_file or _is_same_file
    path = interpreter.executable
    if interpreter.is_virtual and Path(interpreter.base).is_file():
        path = interpreter.base
    found = _CELLAR.fullmatch(path)
    if found:
        current = f"{found[1]}/opt/{found[2]}/{found[3]}"
        return current if same(path, current) else path
    return path


def _is_same_file(path: str, other: str) -> bool:
    try:
        return Path(path).samefile(other)
    except OSError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLaunch:
    """A server to start: the whole command line, and the variables that it needs to be given."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    def with_project(self, project: str) -> "ServerLaunch":
        """The same, for a project."""
        return ServerLaunch(argv=(*self.argv, "--project", project), env=self.env)

    def entry(self, client: Client) -> dict[str, Any]:
        """The entry in the client's settings."""
        if client.shape is Shape.JOINED:
            started: dict[str, Any] = {"command": list(self.argv)}
        else:
            started = {"command": self.argv[0], "args": list(self.argv[1:])}
        extra = dict(client.extra)
        first = {"type": extra.pop("type")} if "type" in extra else {}
        env_key = "environment" if client.shape is Shape.JOINED else "env"
        return {**first, **started, **extra, **({env_key: dict(self.env)} if self.env else {})}

    def command_line(self, client: Client) -> tuple[str, ...]:
        """The client's own command that adds the server; empty where it has none."""
        return (*client.adds, *self.argv) if client.adds else ()


def started_by(entry: object) -> tuple[str, ...] | None:
    """The command line of an entry of any client; None where it has none that can be read."""
    if not isinstance(entry, Mapping):
        return None
    command, args = entry.get("command"), entry.get("args", [])
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, list) or not isinstance(args, list):
        return None
    argv = [*words, *args]
    return tuple(argv) if argv and all(isinstance(word, str) for word in argv) else None


def is_ours(entry: object, launch: ServerLaunch) -> bool:
    """Whether an entry starts Rye: this very program, or another copy of it, as a server.

    Before the program there is at most an interpreter with flags, such as ``py -3``: no shell that
    runs another command first.
    """
    argv = started_by(entry) or ()
    program = program_of(argv)
    flags = _before_mcp(argv)[1:-1]
    is_plain = all(word.startswith("-") and word not in ("-c", "-m") for word in flags)
    own = file_name(program_of(launch.argv))
    return bool(program) and is_plain and file_name(program) in PROGRAM_NAMES | {own}


def program_of(argv: Sequence[str]) -> str:
    """The file of the program in a command line: what stands before ``mcp``."""
    before = _before_mcp(argv)
    return before[-1] if before else ""


def _before_mcp(argv: Sequence[str]) -> Sequence[str]:
    return argv[: argv.index("mcp")] if "mcp" in argv else ()


# --- choice ---------------------------------------------------------------------------------------


class SettingsScope(StrEnum):
    """Whose settings: those of a user, or those that a project carries."""

    USER = "user"
    PROJECT = "project"


def settings_path(
    client: Client, scope: SettingsScope, machine: Machine, project: Path | None
) -> Path:
    """The settings file.

    Raises UnsupportedError where there is none to write, RyeError `NO_PROJECT`.
    """
    is_project = scope is SettingsScope.PROJECT
    path = _project_path(client, project) if is_project else user_path(client, machine)
    other = path.with_suffix(".jsonc")
    return other if client.takes_jsonc and not path.exists() and other.exists() else path


def _project_path(client: Client, project: Path | None) -> Path:
    if not client.project:
        raise UnsupportedError(
            f"{client.name}: it has no settings in a project",
            hint=f"paste what this prints: rye mcp config {client.name}",
        )
    if project is None:
        raise no_project_error("the home folder and a file system root are no projects")
    return project / client.project


def user_path(client: Client, machine: Machine) -> Path:
    """The settings file of a user. Raises UnsupportedError, UsageError without a home."""
    if client.user is None:
        raise UnsupportedError(
            f"{client.name}: rye does not know where its settings are",
            hint=f"paste what this prints: rye mcp config {client.name}",
        )
    path = client.user(machine)
    if path is None:
        variable = "USERPROFILE" if machine.platform == "win32" else "HOME"
        raise UsageError(
            f"{variable}: expected an absolute path, found none",
            hint=f"set {variable} to your folder",
        )
    return path


def launch_for(
    client: Client,
    launch: ServerLaunch,
    scope: SettingsScope,
    project: Path | None,
    *,
    is_named: bool,
) -> ServerLaunch:
    """The launch with the project, where the client needs one.

    In settings of a project: what the client puts in for the open one, nothing for a client that
    tells by itself, else the path. In settings of a user, which are for all projects: the path if
    the user named it, or if the client has no other place to say it.
    """
    if project is None:
        return launch
    if scope is SettingsScope.PROJECT:
        if client.tells_project:
            return launch
        return launch.with_project(client.project_variable or str(project))
    is_only_place = not client.project and (project / AI_DIRECTORY).is_dir()
    return launch.with_project(str(project)) if is_named or is_only_place else launch


# --- settings -------------------------------------------------------------------------------------
# A client's settings file: reading it, and changing the one entry of this program in it.
#
# What cannot be read as its format is refused, with the line, and left as it is. The file as it was
# before a change is kept in user space: it may hold tokens, which no project should contain.

MAX_SETTINGS_BYTES = 8 * 1024 * 1024
BOM = b"\xef\xbb\xbf"
_DIALECTS = {Format.JSON: Dialect.JSON, Format.JSONC: Dialect.JSONC}


def _settings_error(path: str, problem: str, *, hint: str = "") -> RyeError:
    """A client's settings cannot be read or edited; nothing was changed."""
    return RyeError(
        f"{path}: {problem}",
        code="CONFIG_ERROR",
        hint=hint or "fix the file, or add by hand what `rye mcp config CLIENT` prints",
        path=path,
    )


class EntryChange(StrEnum):
    """What became of an entry."""

    ADDED = "added"
    UPDATED = "updated"
    REMOVED = "removed"
    ALREADY = "there already"
    ABSENT = "not there"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """A settings file as it was read. ``data`` is None if absent.

    ``target`` is the file itself, all links followed where they are its user's own: in a project
    (``within``) there are none.
    """

    client: Client
    path: Path
    target: Path
    data: bytes | None
    within: Path | None = None

    @property
    def text(self) -> str:
        """Its text, without a byte order mark. Raises RyeError `CONFIG_ERROR`."""
        data = (self.data or b"").removeprefix(BOM)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            problem = f"line {line}: expected UTF-8, found the byte 0x{data[error.start]:02x}"
            raise _settings_error(str(self.path), problem) from None

    def entry(self) -> object:
        """The entry of this program, or None. Raises RyeError `CONFIG_ERROR`."""
        found: object = self._values()
        for name in (*self.client.container, ENTRY_NAME):
            if not isinstance(found, Mapping):
                problem = f"expected an object that holds {name!r}, found something else"
                raise _settings_error(str(self.path), problem)
            found = found.get(name)
            if found is None:
                return None
        return found

    def _values(self) -> Any:  # noqa: ANN401 - what the file holds
        if not self.text.strip():
            return {}
        try:
            if self.client.format is Format.TOML:
                from lillux.toml_edits import parse_toml

                return parse_toml(self.text)
            dialect = _DIALECTS[self.client.format]
            return {} if is_blank(self.text, dialect) else parse(self.text, dialect).value
        except TextSyntaxError as error:
            raise _settings_error(str(self.path), str(error)) from error


def read_settings(client: Client, path: Path, *, project: Path | None = None) -> ClientSettings:
    """A client's settings. Those of a ``project`` lie in it, and are reached without links.

    Raises LinkOnTheWayError, RyeError `CONFIG_ERROR`, FileTooLargeError, FileSystemError.
    """
    target = path if project else Path(os.path.realpath(path))
    try:
        data: bytes | None = read_bytes(target, MAX_SETTINGS_BYTES, within=project)
    except FileNotFoundError:
        data = None
        if path.is_symlink():
            problem = f"a link to {target}, which is not there"
            raise _settings_error(str(path), problem, hint="remove the link") from None
    return ClientSettings(client=client, path=path, target=target, data=data, within=project)


def with_entry(
    settings: ClientSettings, launch: ServerLaunch, *, force: bool = False
) -> tuple[EntryChange, str]:
    """The text with an entry that starts ``launch``; what else stands in our entry stays.

    Raises RyeError `CONFLICT` or `CONFIG_ERROR`.
    """
    wanted = launch.entry(settings.client)
    present = settings.entry()
    if present is None:
        return EntryChange.ADDED, _with_values(settings, wanted)
    if not is_ours(present, launch):
        _require_force(settings, present, force=force)
        return EntryChange.UPDATED, _with_values(settings, wanted, text=_without_entry(settings))
    text = settings.text
    if isinstance(present, Mapping) and all(
        name in present and present[name] == value
        for name, value in _entry_values(present, wanted).items()
    ):
        return EntryChange.ALREADY, text
    return EntryChange.UPDATED, _with_values(settings, _entry_values(present, wanted))


def without_entry(
    settings: ClientSettings, launch: ServerLaunch, *, force: bool = False
) -> tuple[EntryChange, str]:
    """The text without the entry. Raises RyeError `CONFLICT` or `CONFIG_ERROR`."""
    present = settings.entry()
    if present is None:
        return EntryChange.ABSENT, settings.text
    if not is_ours(present, launch):
        _require_force(settings, present, force=force)
    return EntryChange.REMOVED, _without_entry(settings)


def without_servers(settings: ClientSettings, text: str, names: Sequence[str]) -> str:
    """A text of these settings without the entries of other servers.

    Raises RyeError `CONFIG_ERROR`.
    """
    client = settings.client
    try:
        for name in names:
            path = (*client.container, name)
            if client.format is Format.TOML:
                from lillux.toml_edits import remove_table

                text = remove_table(text, path)
            else:
                from lillux.json_edits import remove_member

                text = remove_member(text, path, _DIALECTS[client.format])
    except (TextSyntaxError, TextStructureError) as error:
        raise _settings_error(str(settings.path), str(error)) from error
    return text


def write_settings(settings: ClientSettings, text: str, *, mode: int, user: Space) -> Path | None:
    """Write the text over the file, and keep what it held in user space; the path of that copy.

    None where there was no file. A new file gets ``mode``.
    Raises FileChangedError if the file was written meanwhile, FileSystemError with what to do.
    """
    had_mark = (settings.data or b"").startswith(BOM)
    try:
        data = (BOM if had_mark else b"") + text.encode("utf-8")
    except UnicodeEncodeError:
        problem = "a path that is no UTF-8 cannot be written into it"
        raise _settings_error(str(settings.path), problem) from None
    backup = None
    if settings.data is not None:
        backup = keep_replaced_settings(user, settings.target, settings.data)
    try:
        _write(settings, data, mode)
    except FileSystemError as error:
        raise _unwritable(settings, error) from None
    return backup


def _write(settings: ClientSettings, data: bytes, mode: int) -> None:
    within = settings.within
    make_directory(settings.target.parent, within=within)
    if settings.data is None:
        try:
            create_file(settings.target, data, mode=mode, within=within)
        except FileExistsError as error:
            raise file_system_error(settings.target, error) from error
    else:
        write_atomic(settings.target, data, expected=settings.data, within=within)


def _unwritable(settings: ClientSettings, error: FileSystemError) -> FileSystemError:
    """The error of settings that could not be written, with the other ways to the same."""
    client, path = settings.client, settings.path
    near = "" if error.path == str(settings.target) else f" ({error.path})"
    hint = (
        f"let yourself write {path.parent}, or paste what this prints: rye mcp config {client.name}"
    )
    if client.project and settings.within is None:
        hint += f"; for one project: rye mcp install {client.name} --scope project"
    problem = f"cannot be written: {error.problem}{near}; nothing was changed"
    return FileSystemError(str(path), problem, hint=hint)


def _entry_values(present: object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What must be in our entry: what to start always, the rest unless the user chose otherwise."""
    chosen = present if isinstance(present, Mapping) else {}
    own = {name: value for name, value in wanted.items() if name in ("command", "args")}
    for name, value in wanted.items():
        if name in ("env", "environment") and isinstance(chosen.get(name), Mapping):
            own[name] = {**chosen[name], **value}
        elif name not in own and name not in chosen:
            own[name] = value
    return own


def _require_force(settings: ClientSettings, present: object, *, force: bool) -> None:
    if not force:
        words = started_by(present)
        plain = one_line(" ".join(words), 200) if words else "what cannot be read"
        raise RyeError(
            f"{settings.path!s}: its entry {ENTRY_NAME!r} starts something else: {plain}",
            code="CONFLICT",
            hint="look at it; --force replaces or removes it",
            path=str(settings.path),
        )


def _with_values(
    settings: ClientSettings, values: Mapping[str, Any], *, text: str | None = None
) -> str:
    """The text with these values in our entry."""
    edited = settings.text if text is None else text
    path = (*settings.client.container, ENTRY_NAME)
    try:
        if settings.client.format is Format.TOML:
            from lillux.toml_edits import set_table

            return set_table(edited, path, values)
        from lillux.json_edits import set_member

        dialect = _DIALECTS[settings.client.format]
        if settings.entry() is None or text is not None:
            return set_member(edited, path, dict(values), dialect)
        for name, value in values.items():
            edited = set_member(edited, (*path, name), value, dialect)
    except (TextSyntaxError, TextStructureError) as error:
        raise _settings_error(str(settings.path), str(error)) from error
    return edited


def _without_entry(settings: ClientSettings) -> str:
    """The text without our entry."""
    path = (*settings.client.container, ENTRY_NAME)
    try:
        if settings.client.format is Format.TOML:
            from lillux.toml_edits import remove_table

            return remove_table(settings.text, path)
        from lillux.json_edits import remove_member

        return remove_member(settings.text, path, _DIALECTS[settings.client.format])
    except (TextSyntaxError, TextStructureError) as error:
        raise _settings_error(str(settings.path), str(error)) from error
