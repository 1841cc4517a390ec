"""One end of the wire to a warm worker; the other is the runtime's ``function_host.py``.

A worker is a process of the tool's interpreter. It forks a process for every tool, which imports
the module and forks for every call. Messages are JSON behind four bytes of length, with
descriptors beside them. Page: ``docs/python-functions.md``. POSIX only.
"""

import json
import os
import socket
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from typing import IO, Any

from lillux.process.children import spawn
from lillux.process.model import Command
from lillux.process.pumps import Pump, SelectorPump, Sink
from lillux.values import dataclass

LENGTH_BYTES = 4
ANSWER_BYTES = 256
END_S = 1.0


class LostError(Exception):
    """The process at the other end is no more; whoever asked may ask a new one."""


@dataclass(slots=True)
class Pipes:
    """Our ends of the pipes of a forked process, in the shape of `lillux.process.pumps.Piped`."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None
    pid: int = 0

    def wait(self) -> int:
        """Never asked: such a process is watched through its socket."""
        raise NotImplementedError


class FunctionWorker:
    """A started worker. Raises what starting a program does."""

    def __init__(self, interpreter: str, host: Path, env: dict[str, str], cwd: Path) -> None:
        command = Command(argv=(interpreter, str(host), "serve"), env=env, cwd=cwd)
        self._lock = Lock()
        self._wire, theirs = socket.socketpair()
        with theirs, ExitStack() as ours:
            ours.enter_context(self._wire)
            self._process = spawn(command, control=theirs.fileno())
            ours.pop_all()
        self._next_number = 0

    def load(self, message: dict[str, Any]) -> "LoadingTool":
        """Fork a process that imports a tool. Raises LostError."""
        with self._lock:
            self._next_number += 1
            number = self._next_number
        channel, theirs = socket.socketpair()
        with ExitStack() as ours, ExitStack() as given:
            ours.enter_context(channel)
            given.enter_context(theirs)
            stdout, report = _pipe(ours, given)
            stderr, told = _pipe(ours, given)
            self._send({"load": number, **message}, [theirs.fileno(), told, report])
            ours.pop_all()
        return LoadingTool(self, number, channel, Pipes(None, _reader(stdout), _reader(stderr)))

    def end_tool(self, number: int) -> None:
        """Kill the process that `load` has forked, if there still is one."""
        with suppress(LostError):
            self._send({"end": number}, [])

    def close(self) -> None:
        """End the worker with everything it has forked."""
        self._wire.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, message: dict[str, Any], descriptors: list[int]) -> None:
        with self._lock:
            send(self._wire, message, descriptors)


class LoadingTool:
    """A forked process while it imports a tool. A `lillux.process.children.Child`.

    ``answer`` is what came of the import: ``ready``, ``threads``, or ``exit N``.
    """

    def __init__(
        self, worker: FunctionWorker, number: int, channel: socket.socket, pipes: Pipes
    ) -> None:
        self.answer = ""
        self._worker, self._number, self._channel, self._pipes = worker, number, channel, pipes

    @property
    def is_imported(self) -> bool:
        """Whether there is a process now that has imported the tool."""
        return self.answer in {"ready", "threads"}

    def open_pump(self, stdin: bytes, on_stdout: Sink, on_stderr: Sink) -> Pump:
        """Its output and its answer."""
        return _pump(self._pipes, self._channel, stdin, on_stdout, on_stderr)

    def terminate(self) -> None:
        """End the import."""
        self._worker.end_tool(self._number)

    def kill(self) -> None:
        """End the process, unless it has imported the tool."""
        with suppress(OSError):
            self.answer = self._channel.recv(ANSWER_BYTES, socket.MSG_DONTWAIT).decode()
        if not self.answer:
            self._worker.end_tool(self._number)

    def reap(self, limit_s: float) -> int | None:
        """0 after an import, else how the process ended; None when nobody says."""
        if self.is_imported:
            return 0
        with self._channel:
            self.answer = self.answer or _answer(self._channel, limit_s)
        return _exit_code(self.answer)

    def tool(self) -> "LoadedTool":
        """The imported tool."""
        return LoadedTool(self._worker, self._number, self._channel)


class LoadedTool:
    """A forked process that has imported a tool, ready to fork for calls."""

    def __init__(self, worker: FunctionWorker, number: int, channel: socket.socket) -> None:
        self._worker, self._number, self._channel = worker, number, channel
        self._lock = Lock()

    def call(self, cwd: Path) -> "RunningCall":
        """Fork a process that makes one call. Raises LostError."""
        line, theirs = socket.socketpair()
        with ExitStack() as ours, ExitStack() as given:
            ours.enter_context(line)
            given.enter_context(theirs)
            params, stdin = _pipe(given, ours)
            stdout, result = _pipe(ours, given)
            stderr, told = _pipe(ours, given)
            with self._lock:
                send(self._channel, {"cwd": str(cwd)}, [params, result, told, theirs.fileno()])
            ours.pop_all()
        pipes = Pipes(open(stdin, "wb", buffering=0), _reader(stdout), _reader(stderr))  # noqa: PTH123, SIM115
        return RunningCall(self, line, pipes)

    def close(self) -> None:
        """End the process with all of its calls."""
        self._channel.close()
        self._worker.end_tool(self._number)


class RunningCall:
    """A forked process that makes one call. A `lillux.process.children.Child`.

    ``answer`` is how it ended: ``exit N``, ``stale`` or ``error REASON`` when it was not begun,
    nothing when its parent was lost.
    """

    def __init__(self, tool: LoadedTool, line: socket.socket, pipes: Pipes) -> None:
        self.answer = ""
        self._tool, self._line, self._pipes = tool, line, pipes

    def open_pump(self, stdin: bytes, on_stdout: Sink, on_stderr: Sink) -> Pump:
        """Its pipes and its line."""
        return _pump(self._pipes, self._line, stdin, on_stdout, on_stderr)

    def terminate(self) -> None:
        """Ask its group to end."""
        self._wish(b"T")

    def kill(self) -> None:
        """End its group."""
        self._wish(b"K")

    def reap(self, limit_s: float) -> int | None:
        """Its exit code, or the negative number of a signal; None when its parent does not say."""
        with self._line:
            self.answer = _answer(self._line, limit_s)
        if not self.answer:
            self._tool.close()  # it is lost, or keeps even its parent from answering
        return _exit_code(self.answer)

    def _wish(self, letter: bytes) -> None:
        with suppress(OSError):  # it has ended, and its line with it
            self._line.send(letter)


def send(wire: socket.socket, message: dict[str, Any], descriptors: list[int]) -> None:
    """Send a message with descriptors. Raises LostError when nobody is there to get it."""
    text = json.dumps(message).encode()
    try:
        socket.send_fds(wire, [len(text).to_bytes(LENGTH_BYTES, "big")], descriptors)
        wire.sendall(text)
    except OSError as error:
        raise LostError(str(error)) from error


def _answer(line: socket.socket, limit_s: float) -> str:
    """What the other end says; nothing when it has hung up, or says nothing in time."""
    line.settimeout(limit_s)
    try:
        return line.recv(ANSWER_BYTES).decode()
    except OSError:
        return ""


def _exit_code(answer: str) -> int | None:
    word, _, code = answer.partition(" ")
    return int(code) if word == "exit" else None


def _pipe(reading: ExitStack, writing: ExitStack) -> tuple[int, int]:
    """A new pipe, each end closed with its stack."""
    read, write = os.pipe()
    reading.callback(os.close, read)
    writing.callback(os.close, write)
    return read, write


def _reader(descriptor: int) -> IO[bytes]:
    return open(descriptor, "rb", buffering=0)


def _pump(
    pipes: Pipes, answers: socket.socket, stdin: bytes, on_stdout: Sink, on_stderr: Sink
) -> Pump:
    return SelectorPump(
        pipes, stdin, on_stdout, on_stderr, open_exit_fd=lambda _: os.dup(answers.fileno())
    )
