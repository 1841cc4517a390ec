"""A client's settings file: reading it, and changing the one entry of this program in it.

What cannot be read as its format is refused, with the line, and left as it is. The file as it was
before the first change stays beside it as ``NAME.bak``.
"""

import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.files import (
    create_file,
    file_system_error,
    is_inside,
    make_directory,
    read_bytes,
    write_atomic,
)
from lillux.json_edits import Dialect, TextStructureError, TextSyntaxError, parse
from lillux.values import dataclass
from ryeos.clients.launch import Launch, is_ours, started_by
from ryeos.clients.table import ENTRY_NAME, Client, Format
from ryeos.errors import RyeError

MAX_SETTINGS_BYTES = 8 * 1024 * 1024
BOM = b"\xef\xbb\xbf"
_DIALECTS = {Format.JSON: Dialect.JSON, Format.JSONC: Dialect.JSONC}


class ClientSettingsError(RyeError):
    """A client's settings cannot be read or edited; nothing was changed. ``path`` is the file."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, path: str, problem: str, *, hint: str = "") -> None:
        self.path, self.problem = path, problem
        default = "mend the file, or add by hand what `rye mcp config CLIENT` prints"
        super().__init__(f"{path}: {problem}", hint=hint or default)


class ForeignEntryError(RyeError):
    """The client's settings have an entry of that name which starts another program."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, path: str, started: str) -> None:
        self.path, self.started = path, started
        super().__init__(
            f"{path}: its entry {ENTRY_NAME!r} starts something else: {started}",
            hint="look at it; --force replaces or removes it",
        )


class SettingsOutsideError(RyeError):
    """The settings file of a project leads out of the project through a link."""

    code, exit_status = "INVALID_REF", 2

    def __init__(self, path: str, target: str) -> None:
        self.path, self.target = path, target
        super().__init__(
            f"{path}: leads outside the project through a link, to {target}",
            hint="remove the link; nothing was changed",
        )


class Change(StrEnum):
    """What became of an entry."""

    ADDED = "added"
    UPDATED = "updated"
    REMOVED = "removed"
    ALREADY = "there already"
    ABSENT = "not there"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A settings file as it was read. ``data`` is None where there is none.

    ``target`` is the file itself, all links followed.
    """

    client: Client
    path: Path
    target: Path
    data: bytes | None

    @property
    def text(self) -> str:
        """Its text, without a byte order mark. Raises ClientSettingsError."""
        data = (self.data or b"").removeprefix(BOM)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data[: error.start].count(b"\n") + 1
            problem = f"line {line}: expected UTF-8, found the byte 0x{data[error.start]:02x}"
            raise ClientSettingsError(str(self.path), problem) from None

    def entry(self) -> object:
        """The entry of this program, None if there is none. Raises ClientSettingsError."""
        found: object = self._values()
        for name in (*self.client.container, ENTRY_NAME):
            if not isinstance(found, Mapping):
                problem = f"expected an object that holds {name!r}, found something else"
                raise ClientSettingsError(str(self.path), problem)
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
            return parse(self.text, _DIALECTS[self.client.format]).value
        except TextSyntaxError as error:
            raise ClientSettingsError(str(self.path), str(error)) from error


def read_settings(client: Client, path: Path, *, project: Path | None = None) -> Settings:
    """A client's settings. Those of a ``project`` must lie in it, all links followed.

    Raises SettingsOutsideError, ClientSettingsError, FileTooLargeError, FileSystemError.
    """
    target = Path(os.path.realpath(path))
    if project and not is_inside(path, project):
        raise SettingsOutsideError(str(path), str(target))
    try:
        data: bytes | None = read_bytes(target, MAX_SETTINGS_BYTES)
    except FileNotFoundError:
        data = None
        if path.is_symlink():
            problem = f"a link to {target}, which is not there"
            raise ClientSettingsError(str(path), problem, hint="remove the link") from None
    return Settings(client=client, path=path, target=target, data=data)


def with_entry(settings: Settings, launch: Launch, *, force: bool = False) -> tuple[Change, str]:
    """The text with an entry that starts ``launch``; what else stands in our entry stays.

    Raises ForeignEntryError, ClientSettingsError.
    """
    wanted = launch.entry(settings.client)
    present = settings.entry()
    if present is None:
        return Change.ADDED, _edited(settings, wanted)
    if not is_ours(present, launch):
        _require_force(settings, present, force=force)
        return Change.UPDATED, _edited(settings, wanted, text=_emptied(settings))
    text = settings.text
    if isinstance(present, Mapping) and all(
        name in present and present[name] == value for name, value in _own(present, wanted).items()
    ):
        return Change.ALREADY, text
    return Change.UPDATED, _edited(settings, _own(present, wanted))


def without_entry(settings: Settings, launch: Launch, *, force: bool = False) -> tuple[Change, str]:
    """The text without the entry. Raises ForeignEntryError, ClientSettingsError."""
    present = settings.entry()
    if present is None:
        return Change.ABSENT, settings.text
    if not is_ours(present, launch):
        _require_force(settings, present, force=force)
    return Change.REMOVED, _emptied(settings)


def write_settings(settings: Settings, text: str, *, mode: int) -> Path | None:
    """Write the text over the file, and keep the first one beside it; the path of that copy.

    None where there was no file, or where a copy is kept already. A new file gets ``mode``.
    Raises FileChangedError if somebody wrote the file meanwhile, FileSystemError.
    """
    had_mark = (settings.data or b"").startswith(BOM)
    try:
        data = (BOM if had_mark else b"") + text.encode("utf-8")
    except UnicodeEncodeError:
        problem = "a path that is no UTF-8 cannot be written into it"
        raise ClientSettingsError(str(settings.path), problem) from None
    make_directory(settings.target.parent)
    backup = _back_up(settings)
    if settings.data is None:
        try:
            create_file(settings.target, data, mode=mode)
        except FileExistsError as error:
            raise file_system_error(settings.target, error) from error
    else:
        write_atomic(settings.target, data, expected=settings.data)
    return backup


def _back_up(settings: Settings) -> Path | None:
    if settings.data is None:
        return None
    path = settings.target.with_name(f"{settings.target.name}.bak")
    try:
        mode = settings.target.stat().st_mode & 0o777
        create_file(path, settings.data, mode=mode)  # it may hold keys of other servers
    except FileExistsError:
        return None
    except OSError as error:
        raise file_system_error(path, error) from error
    return path


def _own(present: object, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What must be in our entry: what to start always, the rest where nobody chose otherwise."""
    chosen = present if isinstance(present, Mapping) else {}
    own = {name: value for name, value in wanted.items() if name in ("command", "args")}
    for name, value in wanted.items():
        if name in ("env", "environment") and isinstance(chosen.get(name), Mapping):
            own[name] = {**chosen[name], **value}
        elif name not in own and name not in chosen:
            own[name] = value
    return own


def _require_force(settings: Settings, present: object, *, force: bool) -> None:
    if not force:
        words = started_by(present)
        shown = " ".join(words)[:200] if words else "what cannot be read"
        plain = "".join(c if c.isprintable() else "?" for c in shown)
        raise ForeignEntryError(str(settings.path), plain)


def _edited(settings: Settings, values: Mapping[str, Any], *, text: str | None = None) -> str:
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
        raise ClientSettingsError(str(settings.path), str(error)) from error
    return edited


def _emptied(settings: Settings) -> str:
    """The text without our entry."""
    path = (*settings.client.container, ENTRY_NAME)
    try:
        if settings.client.format is Format.TOML:
            from lillux.toml_edits import remove_table

            return remove_table(settings.text, path)
        from lillux.json_edits import remove_member

        return remove_member(settings.text, path, _DIALECTS[settings.client.format])
    except (TextSyntaxError, TextStructureError) as error:
        raise ClientSettingsError(str(settings.path), str(error)) from error
