"""``lillux-proc`` and ``lillux-watch`` in Python: processes and background runs, in JSON."""

import json
import math
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from lillux.cancellation import Cancellation
from lillux.errors import FileSystemError, LilluxError

if TYPE_CHECKING:
    from lillux.process.model import CapturedStream


# --- answers --------------------------------------------------------------------------------------

DONE, USAGE_ERROR = 0, 2


def answer(values: Mapping[str, Any]) -> None:
    """Write one JSON object and a newline to standard output, as UTF-8 whatever the locale."""
    line = json.dumps(values, ensure_ascii=False, separators=(",", ":")) + "\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(line.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def show_help(usage: str) -> int:
    """Write the usage to standard output; the exit status."""
    sys.stdout.write(usage)
    return DONE


def refuse(program: str, problem: str, usage: str) -> int:
    """Write what is wrong with the command line to standard error; the exit status."""
    sys.stderr.write(f"{program}: {problem}\n{usage}")
    return USAGE_ERROR


# --- arguments ------------------------------------------------------------------------------------
# Flags with values, as both forms of the programs read them.
#
# ``--flag VALUE`` or ``--flag=VALUE``, and nothing that is no flag. A value may begin with ``-``,
# which is why this is not argparse: the arguments of another program are values here.

_N = TypeVar("_N", int, float)

HELP_FLAGS = frozenset({"-h", "--help"})


class CommandLineError(Exception):
    """The command line is not one of the program's. The text says why."""


class HelpRequest(Exception):  # noqa: N818 - no error
    """The command line asks for help."""


class Flags:
    """The values of a command line, by flag."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    def has(self, flag: str) -> bool:
        """Whether the flag was given."""
        return flag in self._values

    def all(self, flag: str) -> tuple[str, ...]:
        """Every value of the flag, in order."""
        return tuple(self._values.get(flag, ()))

    def last(self, flag: str) -> str | None:
        """The value that counts: the last one, or None."""
        values = self._values.get(flag)
        return values[-1] if values else None

    def required(self, flag: str) -> str:
        """The value. Raises CommandLineError if there is none."""
        value = self.last(flag)
        if value is None:
            raise CommandLineError(f"{flag}: expected a value, got nothing")
        return value

    def seconds(self, flag: str, default: float) -> float:
        """A number of seconds, 0 or more. Raises CommandLineError for anything else."""
        text = self.last(flag)
        number = default if text is None else _number(text, float)
        if number is None or not 0 <= number < math.inf:
            raise CommandLineError(f"{flag}: expected seconds, 0 or more, got {text}")
        return number

    def integer(self, flag: str, default: int | None = None) -> int:
        """A whole number. Raises CommandLineError for anything else."""
        text = self.required(flag) if default is None else self.last(flag)
        number = default if text is None else _number(text, int)
        if number is None:
            raise CommandLineError(f"{flag}: expected a whole number, got {text}")
        return number


def read_flags(arguments: Sequence[str], known: Mapping[str, bool]) -> Flags:
    """The flags of a command line; ``known`` says of each whether it takes a value.

    Raises CommandLineError, and HelpRequest for ``-h`` where a flag may stand.
    """
    values: dict[str, list[str]] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument in HELP_FLAGS:
            raise HelpRequest
        flag, equals, value = argument.partition("=")
        takes_value = known.get(flag)
        if takes_value is None:
            raise CommandLineError(f"unknown argument {argument}")
        if not takes_value:
            if equals:
                raise CommandLineError(f"{flag}: expected no value, got {value}")
            values[flag] = []
            continue
        if not equals:
            following = next(rest, None)
            if following is None:
                raise CommandLineError(f"{flag}: expected a value, got nothing")
            value = following
        values.setdefault(flag, []).append(value)
    return Flags(values)


def _number(text: str, kind: Callable[[str], _N]) -> _N | None:
    # Python alone allows these in numbers.
    if "_" in text or text != text.strip() or not text.isascii():
        return None
    try:
        return kind(text)
    except ValueError:
        return None


# --- interruption ---------------------------------------------------------------------------------
# Signals that ask a program to end, which ends its child first and then by the same signal.


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


# --- proc -----------------------------------------------------------------------------------------
# ``lillux-proc``: runs, starts, ends and looks at processes, and answers in JSON.
#
# The contract of both forms is ``lillux_native/PROTOCOL.md``.

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


# --- exec -----------------------------------------------------------------------------------------


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


# --- spawn, kill, status --------------------------------------------------------------------------


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
    from lillux.background import end_process

    pid = flags.integer("--pid")
    grace_s = flags.seconds("--grace", KILL_GRACE_S)
    token, is_tree = flags.last("--start-token") or "", flags.has("--tree")
    try:
        method = end_process(pid, grace_s=grace_s, token=token, tree=is_tree)
    except LilluxError as error:
        return {"success": False, "pid": pid, "error": str(error)}
    return {"success": True, "pid": pid, "method": method}


def _status(flags: Flags, _: Mapping[str, str]) -> dict[str, Any]:
    from lillux.background import is_alive, start_token

    pid = flags.integer("--pid")
    shown = {"start_token": start_token(pid)} if flags.has("--show-start-token") else {}
    return {"pid": pid, "alive": is_alive(pid, flags.last("--start-token") or ""), **shown}


# --- what starts a program ------------------------------------------------------------------------


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


# --- watch ----------------------------------------------------------------------------------------
# ``lillux-watch``: waits until a thread has ended, and answers in JSON.
#
# The contract of both forms is ``lillux_native/PROTOCOL.md``.

WATCH = "lillux-watch"
WATCH_USAGE = """\
usage: lillux-watch --db FILE --thread-id ID [--timeout SECONDS=300 | --no-timeout] [--exit-code]
"""
TIMEOUT_S = 300.0
TIMED_OUT = 124

_FLAGS = {
    "--db": True,
    "--thread-id": True,
    "--timeout": True,
    "--no-timeout": False,
    "--exit-code": False,
}


def watch_main(arguments: Sequence[str]) -> int:
    """Wait as the command line says; the exit status."""
    from lillux.watch import TIMEOUT, await_status

    try:
        flags = read_flags(arguments, _FLAGS)
        db, thread_id = flags.required("--db"), flags.required("--thread-id")
        timeout_s = _timeout_s(flags)
    except HelpRequest:
        return show_help(WATCH_USAGE)
    except CommandLineError as error:
        return refuse(WATCH, str(error), WATCH_USAGE)
    status = await_status(Path(db), thread_id, timeout_s)
    answer({"status": status, "thread_id": thread_id})
    return TIMED_OUT if status == TIMEOUT and flags.has("--exit-code") else DONE


def _timeout_s(flags: Flags) -> float | None:
    if not flags.has("--no-timeout"):
        return flags.seconds("--timeout", TIMEOUT_S)
    if flags.has("--timeout"):
        raise CommandLineError("--no-timeout: expected no --timeout beside it")
    return None
