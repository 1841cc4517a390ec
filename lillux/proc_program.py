"""``lillux-proc`` in Python: runs, starts, ends and looks at processes.

The contract of both forms is ``lillux_native/PROTOCOL.md``.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.errors import FileSystemError, LilluxError
from lillux.helper_programs import (
    DONE,
    HELP_FLAGS,
    CommandLineError,
    Flags,
    HelpRequest,
    answer,
    read_flags,
    refuse,
    show_help,
)

if TYPE_CHECKING:
    from lillux.process.model import CapturedStream


@contextmanager
def interruption() -> Iterator[Cancellation]:
    """Inside the block TERM, INT and HUP set the cancellation; at its end they end this process.

    Those that were ignored stay so. Windows has no such signals: nothing is changed there.
    """
    cancellation = Cancellation()
    came: list[int] = []

    def cancel(number: int, _: FrameType | None) -> None:
        came.append(number)
        cancellation.cancel()

    before = {number: signal.getsignal(number) for number in _termination_signals()}
    taken = {number: kept for number, kept in before.items() if kept is not signal.SIG_IGN}
    try:
        for number in taken:
            signal.signal(number, cancel)
        yield cancellation
    finally:
        for number, kept in taken.items():
            signal.signal(number, kept)
        if came:
            signal.signal(came[-1], signal.SIG_DFL)
            signal.raise_signal(came[-1])


def _termination_signals() -> tuple[signal.Signals, ...]:
    names = ("SIGTERM", "SIGINT", "SIGHUP") if os.name == "posix" else ()
    return tuple(signal.Signals[name] for name in names)


PROC = "lillux-proc"
PROC_USAGE = """\
usage: lillux-proc exec --cmd C [--arg A]... [--cwd D] [--env K=V]... [--timeout SECONDS=300]
                        [--stdin TEXT | --stdin-pipe] [--max-output BYTES=10485760]
       lillux-proc spawn --cmd C [--arg A]... [--cwd D] [--env K=V]... [--log FILE]
                         [--stdin TEXT | --stdin-pipe] [--show-start-token]
       lillux-proc kill --pid N [--grace SECONDS=3] [--start-token T] [--tree]
       lillux-proc status --pid N [--start-token T] [--show-start-token]
"""
NOT_RUN = -1
EXEC_TIMEOUT_S = 300.0
KILL_GRACE_S = 3.0
# For a child when we are to end ourselves: the sender of the signal may use KILL soon.
HASTE_S = 0.5
MAX_OUTPUT_BYTES = 10 * 1024 * 1024

_STARTED_BY = {
    "--cmd": True,
    "--arg": True,
    "--cwd": True,
    "--env": True,
    "--stdin": True,
    "--stdin-pipe": False,
}
_EXEC = {**_STARTED_BY, "--timeout": True, "--max-output": True}
_SPAWN = {**_STARTED_BY, "--log": True, "--show-start-token": False}
_KILL = {"--pid": True, "--grace": True, "--start-token": True, "--tree": False}
_STATUS = {"--pid": True, "--start-token": True, "--show-start-token": False}


def proc_main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Do what the command line says, with the children's environment; the exit status."""
    word = arguments[0] if arguments else "nothing"
    if word in HELP_FLAGS:
        return show_help(PROC_USAGE)
    if word not in _COMMANDS:
        return refuse(PROC, f"expected one of {', '.join(_COMMANDS)}, got {word}", PROC_USAGE)
    known, work = _COMMANDS[word]
    try:
        answer(work(read_flags(arguments[1:], known), environ))
    except HelpRequest:
        return show_help(PROC_USAGE)
    except CommandLineError as error:
        return refuse(PROC, str(error), PROC_USAGE)
    return DONE


def _exec(flags: Flags, environ: Mapping[str, str]) -> dict[str, Any]:
    from lillux.process import ProcessManager
    from lillux.process.model import Command

    program = flags.required("--cmd")
    timeout_s = flags.seconds("--timeout", EXEC_TIMEOUT_S) or None
    max_bytes = flags.integer("--max-output", MAX_OUTPUT_BYTES)
    if max_bytes < 0:
        raise CommandLineError(f"--max-output: expected bytes, 0 or more, got {max_bytes}")
    stdin = _stdin(flags)
    try:
        command = Command(
            argv=(program, *flags.all("--arg")),
            env=_environment(flags, environ),
            cwd=_cwd(flags),
            stdin=stdin,
            timeout_s=timeout_s,
            max_output_bytes=max_bytes,
        )
        with interruption() as cancellation:
            manager = ProcessManager(haste_s=HASTE_S)
            outcome = manager.run(command, cancellation=cancellation)
    except LilluxError as error:
        return _not_run(error)
    code = NOT_RUN if outcome.exit_code is None or outcome.timed_out else outcome.exit_code
    stderr = _text(outcome.stderr)
    if outcome.timed_out and timeout_s:
        notice = f"Command timed out after {_plain(timeout_s)} seconds"
        stderr = f"{notice}\n{stderr}" if stderr else notice
    optional = {
        "truncated": outcome.stdout.truncated or outcome.stderr.truncated or None,
        "signal": None if outcome.timed_out else outcome.signal,
    }
    return {
        "success": code == 0,
        "stdout": _text(outcome.stdout),
        "stderr": stderr,
        "return_code": code,
        "duration_ms": round(outcome.duration_ms, 3),
        **{name: value for name, value in optional.items() if value is not None},
    }


def _not_run(error: LilluxError) -> dict[str, Any]:
    return {
        "success": False,
        "stdout": "",
        "stderr": f"Failed to spawn: {error}",
        "return_code": NOT_RUN,
        "duration_ms": 0.0,
    }


def _text(captured: "CapturedStream") -> str:
    return captured.data.decode("utf-8", "replace")


def _plain(seconds: float) -> str:
    """A number without zeros behind its point: 300, 0.5."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".")


def _spawn(flags: Flags, environ: Mapping[str, str]) -> dict[str, Any]:
    from lillux.background import start_detached

    program, log, stdin = flags.required("--cmd"), flags.last("--log"), _stdin(flags)
    try:
        started = start_detached(
            (program, *flags.all("--arg")),
            env=_environment(flags, environ),
            cwd=_cwd(flags),
            stdin=stdin,
            log_path=None if log is None else Path(log),
        )
    except FileSystemError as error:
        return {"success": False, "error": f"Failed to open log file: {error}"}
    except LilluxError as error:
        return {"success": False, "error": f"Failed to spawn: {error}"}
    shown = {"start_token": started.start_token} if flags.has("--show-start-token") else {}
    return {"success": True, "pid": started.pid, **shown}


def _kill(flags: Flags, _: Mapping[str, str]) -> dict[str, Any]:
    from lillux.process.ending import end_process

    pid = flags.integer("--pid")
    grace_s = flags.seconds("--grace", KILL_GRACE_S)
    token, is_tree = flags.last("--start-token") or "", flags.has("--tree")
    try:
        method = end_process(pid, grace_s=grace_s, token=token, tree=is_tree)
    except LilluxError as error:
        return {"success": False, "pid": pid, "error": str(error)}
    return {"success": True, "pid": pid, "method": method}


def _status(flags: Flags, _: Mapping[str, str]) -> dict[str, Any]:
    from lillux.process.states import is_alive, start_token

    pid = flags.integer("--pid")
    shown = {"start_token": start_token(pid)} if flags.has("--show-start-token") else {}
    return {"pid": pid, "alive": is_alive(pid, flags.last("--start-token") or ""), **shown}


def _environment(flags: Flags, environ: Mapping[str, str]) -> dict[str, str]:
    """The inherited environment and what is added; an entry that names nothing is passed over."""
    added = (entry.partition("=") for entry in flags.all("--env"))
    return {**environ, **{name: value for name, equals, value in added if name and equals}}


def _cwd(flags: Flags) -> Path | None:
    folder = flags.last("--cwd")
    return None if folder is None else Path(folder)


def _stdin(flags: Flags) -> bytes:
    if flags.has("--stdin-pipe"):
        if flags.has("--stdin"):
            raise CommandLineError("--stdin-pipe: expected no --stdin beside it")
        return sys.stdin.buffer.read()
    return os.fsencode(flags.last("--stdin") or "")


_Work = Callable[[Flags, Mapping[str, str]], dict[str, Any]]
_COMMANDS: dict[str, tuple[dict[str, bool], _Work]] = {
    "exec": (_EXEC, _exec),
    "spawn": (_SPAWN, _spawn),
    "kill": (_KILL, _kill),
    "status": (_STATUS, _status),
}
