"""Commands, outcomes and the errors of processes, as values."""

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from lillux.cancellation import Cancellation
from lillux.errors import ConfigurationError, LilluxError
from lillux.values import dataclass, field

if TYPE_CHECKING:
    from lillux.attempts import OnAttempt
    from lillux.process.pipes import LaterInput, Stdin
    from lillux.sandbox import Confinement

MIB = 1024 * 1024


class SpawnError(LilluxError):
    """A program was not started. ``reason`` is what the system had against it."""

    code, exit_status = "EXECUTION_FAILED", 6

    def __init__(self, program: str, reason: str, *, hint: str = "") -> None:
        self.program, self.reason = program, reason
        super().__init__(f"program {program!r}: {reason}", hint=hint)


class ProgramNotFoundError(SpawnError):
    """There is no such program. ``searched`` are the directories looked into, none for a path."""

    code = "INTERPRETER_NOT_FOUND"

    def __init__(self, program: str, reason: str, *, searched: tuple[str, ...] = ()) -> None:
        self.searched = searched
        super().__init__(
            program, reason, hint="install it, or correct its name or the PATH it is looked up on"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One program to run to its end.

    argv              the program and its arguments. A name without a separator is looked up on
                      ``env["PATH"]``; anything else is taken as it is, relative to ``cwd``.
    env               the whole environment of the child; nothing is inherited.
    cwd               where it runs; None is where this process is.
    stdin             what it can read; never the standard input of this process.
    stdin_rest        what it can read after that, where it is not known yet.
    timeout_s         seconds until it is ended; None for no limit.
    max_output_bytes  kept of each output stream: its first half and its last half.
    leaves_nothing    whatever it leaves behind ends with it, also what moved to a session of its
                      own (Linux): such processes are known by a mark in their environment
    confinement       what the child may not do; None for all that this process may.
    on_attempt        hears what a supervised child tries, see `lillux.supervisor`; from a thread.
    on_stdout         hears the standard output piece by piece while it is written, as ``on_stderr``
                      of `ProcessRunner.run` does.
    sealed            bytes that the child can read and that cannot change: `SEALED_PATH` in the
                      first words of ``argv`` stands for the path that they are read from.
    has_private_words  other users of the machine see neither the arguments of a shell nor its text

    Raises ConfigurationError for values that no system could run.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)
    cwd: Path | None = None
    stdin: bytes = field(default=b"", repr=False)
    stdin_rest: "LaterInput | None" = field(default=None, repr=False)
    timeout_s: float | None = None
    max_output_bytes: int = 10 * MIB
    leaves_nothing: bool = False
    confinement: "Confinement | None" = None
    on_attempt: "OnAttempt | None" = field(default=None, repr=False)
    on_stdout: Callable[[bytes], None] | None = field(default=None, repr=False)
    sealed: bytes | None = field(default=None, repr=False)
    has_private_words: bool = False

    def __post_init__(self) -> None:
        if not self.argv or not self.argv[0]:
            raise ConfigurationError("argv[0]", "expected a program, got nothing")
        for position, argument in enumerate(self.argv):
            _require_passable(f"argv[{position}]", argument)
        for name, value in self.env.items():
            if not name or "=" in name:
                raise ConfigurationError("env", f"expected a name without '=', got {name!r}")
            _require_passable("env", name)
            _require_passable(f"env.{name}", value)
        if self.cwd is not None:
            _require_passable("cwd", str(self.cwd))
        if self.timeout_s is not None and not 0 < self.timeout_s < math.inf:
            raise ConfigurationError(
                "timeout_s", f"expected seconds above 0, or none for no limit, got {self.timeout_s}"
            )
        if self.max_output_bytes < 0:
            raise ConfigurationError(
                "max_output_bytes", f"expected 0 or more, got {self.max_output_bytes}"
            )


def stdin_of(command: Command) -> "Stdin":
    """All that a command can read, as pumps take it."""
    rest = command.stdin_rest
    return command.stdin if rest is None else rest.after(command.stdin)


SEALED_PATH = "/dev/fd/rye-sealed-source"
"""Stands for the file without a name that holds the ``sealed`` bytes of a command."""


def can_seal(platform: str) -> bool:
    """True if the system has files without a name that cannot be changed any more."""
    return platform == "linux" and hasattr(os, "memfd_create")


def _require_passable(where: str, text: str) -> None:
    if "\0" in text:
        raise ConfigurationError(where, "expected text without NUL characters")
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise ConfigurationError(
            where, f"expected text this system can encode, found {error.object[error.start]!r}"
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturedStream:
    """One output stream of a child.

    ``data`` of a truncated stream is its first half, a marker line, and its last half.
    """

    data: bytes
    total_bytes: int
    left_out_bytes: int = 0

    @property
    def truncated(self) -> bool:
        """True if more was written than was kept."""
        return self.left_out_bytes > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Outcome of a command that was started.

    Either ``exit_code`` or ``signal`` (a number, see `signal_name`) is set. Both are None in two
    cases only: it was cancelled before it began, or not even KILL could end it (a program that
    took the rights of another user). ``timed_out`` and ``cancelled`` say that it was ended by us,
    whatever code it then ended with.
    """

    exit_code: int | None
    signal: int | None
    stdout: CapturedStream
    stderr: CapturedStream
    timed_out: bool = False
    cancelled: bool = False
    duration_ms: float = 0.0


class ProcessRunner(Protocol):
    """The seam through which programs are run."""

    def run(
        self,
        command: Command,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        """Run the command to its end and say what came of it; safe to call from many threads.

        A cancellation ends it at once, and prevents it when it came before. ``on_stderr`` gets the
        standard error piece by piece while it is written, all of it, in the calling thread; what
        it raises ends the command.

        Raises ProgramNotFoundError, SpawnError, and ConfigurationError for a missing ``cwd``.
        """
        ...


def signal_name(number: int) -> str:
    """The name of a signal, ``SIGTERM``; ``signal 35`` where the system has no name for it."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class BoundedCapture:
    """Keeps the first and the last half of ``max_bytes`` of what it is fed.

    A stream of at most ``max_bytes`` is kept whole.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_tail = max_bytes // 2
        self._max_head = max_bytes - self._max_tail
        self._head, self._tail = bytearray(), bytearray()
        self._total_bytes = 0

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes of the stream."""
        self._total_bytes += len(chunk)
        room = self._max_head - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail += chunk
            del self._tail[: max(0, len(self._tail) - self._max_tail)]

    def captured(self) -> CapturedStream:
        """Text that was kept so far, with a marker line where something was left out."""
        left_out = self._total_bytes - len(self._head) - len(self._tail)
        marker = b"\n... [%d bytes left out] ...\n" % left_out if left_out else b""
        return CapturedStream(
            data=bytes(self._head) + marker + bytes(self._tail),
            total_bytes=self._total_bytes,
            left_out_bytes=left_out,
        )
