"""Detached start of a process, which continues when this one ends."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lillux.files import file_system_error, open_file
from lillux.process.model import Command
from lillux.process.states import start_token
from lillux.values import dataclass

# CREATE_NEW_PROCESS_GROUP | DETACHED_PROCESS; `subprocess` has the names on Windows only.
_WINDOWS_DETACHMENT = 0x0000_0200 | 0x0000_0008
_LOG_MODE = 0o600


@dataclass(frozen=True, slots=True)
class StartedProcess:
    """A process that was started. ``start_token`` tells it from a later one with its number."""

    pid: int
    start_token: str


def start_detached(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdin: bytes = b"",
    log_path: Path | None = None,
    log_within: Path | None = None,
    platform: str = sys.platform,
) -> StartedProcess:
    """Start a program that continues when this process ends, in a session of its own.

    argv, env, cwd  as of `lillux.process.model.Command`
    stdin           what it can read, however long; it need not be running to be handed it
    log_path        both its outputs are appended there, to a file for this user only; without one
                    they go nowhere
    log_within      the folder from which the log is reached without links, if any

    Raises ProgramNotFoundError, SpawnError, ConfigurationError for a missing ``cwd``, and
    FileSystemError when the log cannot be opened.
    """
    from lillux.process.spawn import find_program, spawn_error

    command = Command(argv=tuple(argv), env=env, cwd=cwd)
    path = find_program(command, platform=platform)
    on_windows = platform == "win32"
    with _input(stdin) as input_file, _log(log_path, log_within) as log_file:
        try:
            process = subprocess.Popen(
                command.argv,
                executable=path,
                env=command.env,
                cwd=command.cwd,
                stdin=input_file,
                stdout=log_file,
                stderr=log_file,
                start_new_session=not on_windows,
                creationflags=_WINDOWS_DETACHMENT if on_windows else 0,
            )
        except OSError as error:
            raise spawn_error(command, path, error) from error
    # Until it is reaped its number is its own, whatever became of it by now.
    started = StartedProcess(process.pid, start_token(process.pid, platform=platform))
    _reap_when_ended(process)
    return started


@contextmanager
def _input(data: bytes) -> Iterator[int]:
    """A descriptor to read the data from: a file without a name, as a pipe would need a writer."""
    if not data:
        yield subprocess.DEVNULL
        return
    from tempfile import TemporaryFile

    with TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


@contextmanager
def _log(path: Path | None, within: Path | None) -> Iterator[int]:
    if path is None:
        yield subprocess.DEVNULL
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    try:
        descriptor = open_file(path, flags, mode=_LOG_MODE, within=within)
    except OSError as error:
        raise file_system_error(path, error) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _reap_when_ended(process: "subprocess.Popen[bytes]") -> None:
    """Leave no zombie behind for as long as we live ourselves; then the system sees to it."""
    from threading import Thread

    Thread(target=process.wait, name="lillux-background", daemon=True).start()
