"""One end of the wire to a warm worker; the other is the runtime's ``function_host.py``.

One end of the wire to a warm worker; the other is the runtime's ``function_host.py``.

A worker is a process of the tool's interpreter. It forks a process for every tool, which imports
the module and forks for every call. Messages are JSON behind four bytes of length, with
descriptors beside them. Page: ``docs/writing-tools.md``. POSIX only.

to worker  {"load": N, "tool", "project_path", "cwd", "env"}, descriptors: channel, standard
           error, place for an error, held files; answer on the channel: ready, threads, exit CODE
to worker  {"end": N}; answer on that channel: exit CODE
to tool    {"cwd", "tmp"?} on its channel, descriptors: parameters, result, standard error, line;
           answer on the line: exit CODE, stale (a module's file changed: load again), error
to call    T or K on the line: its group gets TERM or KILL, as it does when the line is closed

CODE is negative for a signal.
"""

import json
import os
import socket
import struct
import subprocess
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import IO, TYPE_CHECKING, Any

from lillux.attempts import Hearers, OnAttempt
from lillux.process.descendants import marked
from lillux.process.guard import program_ends
from lillux.process.model import Command
from lillux.process.pipes import Pump, Sink, Stdin
from lillux.process.pumps import SelectorPump
from lillux.process.spawn import sealed_file, spawn
from lillux.values import dataclass, field
from ryeos.run.held import AT_START, PYTHON_START
from ryeos.run.model import HeldFiles

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lillux.process.stillness import File, Stoppable
    from lillux.run_folders import WorkerFolder
    from lillux.sandbox import Confinement
    from ryeos.run.held import HeldStart
    from ryeos.run.programs import Program


LENGTH_BYTES = 4
ANSWER_BYTES = 256
END_S = 1.0
_SETTLES_S = 0.5
_CREDENTIALS = struct.Struct("3i")  # process, user, group: struct ucred


class LostError(Exception):
    """The process at the other end is gone; the caller may ask a new one."""


@dataclass(slots=True)
class Pipes:
    """Our pipe ends of a forked process, as `lillux.process.pipes.PipedProcess` has them."""

    stdin: IO[bytes] | None
    stdout: IO[bytes] | None
    stderr: IO[bytes] | None
    pid: int = 0

    def wait(self) -> int:
        """Never called: such a process is watched through its socket."""
        raise NotImplementedError


class FunctionWorker:
    """A started worker. Raises what starting a program does."""

    def __init__(self, function: "Function") -> None:
        environment = function.environment
        files = {function.host: function.host_text, **(environment.files() if environment else {})}
        held = HeldFiles(starter=function.starter, files=files)
        option = environment.option("-c") if environment else "-c"
        self._lock = Lock()
        self._next_number = 0
        self._folder = _worker_folder(function)
        env, confinement = function.env, function.confinement
        self.hearers = Hearers()
        self._rest_lock = Lock()
        self._busy = 0
        self._tools: dict[int, Stoppable] = {}
        self._is_lost = False
        self._stops = _stops(function)
        self._left = ExitStack()
        self._harmless: AbstractSet[File] | None = None  # mapped before any tool runs
        self._wire, theirs = socket.socketpair()
        with theirs, ExitStack() as ours:
            ours.enter_context(self._wire)
            if self._folder:
                from ryeos.run.confinement import placed_confinement

                ours.callback(self._folder.close)
                env = {**env, **self._lasting_folder()}
                confinement = confinement and placed_confinement(confinement, self._folder.path)
            command = Command(
                argv=(function.interpreter, option, PYTHON_START, function.host, "serve"),
                env={name: value for name, value in env.items() if name not in AT_START},
                cwd=Path(function.project_path),
                confinement=confinement,
                on_attempt=self.hearers,
                sealed=held.packed(),
                leaves_nothing=self._stops,
            )
            started = self._left.enter_context(marked(command))
            self._process = spawn(started, control=theirs.fileno())
            ours.pop_all()

    def begin(self, pid: int = 0) -> None:
        """It has one piece of work more, for the tool of this process. Raises LostError."""
        with self._rest_lock:
            if self._is_lost:
                raise LostError
            self._busy += 1
            if pid in self._tools:
                self._tools[pid].go_on()

    def end(self) -> bool:
        """It has one piece of work less; False where it has left something behind that could act.

        After the last work its tools are stopped until the next one: so nothing is written between
        two calls, and each call looks for what was written while it ran.
        """
        with self._rest_lock:
            self._busy -= 1
            if not self._stops or self._busy or self._is_lost:
                return True
            self._is_lost = not self._is_still()
            return not self._is_lost

    def add_tool(self, pid: int) -> None:
        """A process has imported a tool."""
        if self._stops:
            from lillux.process.stillness import Stoppable, shared_files

            with self._rest_lock, suppress(OSError):
                if self._harmless is None:
                    self._harmless = shared_files(self._process.pid)
                self._tools[pid] = Stoppable(pid, self._harmless)

    def _is_still(self) -> bool:
        """True if nothing of it can act, once its tools are stopped."""
        from lillux.process.stillness import children_of

        deadline = monotonic() + _SETTLES_S
        try:
            there = children_of(self._process.pid)
            for pid in self._tools.keys() - there:
                self._tools.pop(pid).close()
            stopped = [one.stop() for one in self._tools.values()]
            if not all(stopped):
                return False
            while not children_of(self._process.pid) <= self._tools.keys():
                if monotonic() > deadline:
                    return False
                sleep(LEAST_S)  # the worker ends what a tool has left
        except OSError:
            return False
        return True

    def _lasting_folder(self) -> dict[str, str]:
        """The variables for what is imported."""
        if self._folder is None:
            return {}
        from lillux.run_folders import VARIABLES

        return dict.fromkeys(VARIABLES, str(self._folder.lasting))

    def call_folder(self) -> "AbstractContextManager[Path | None]":
        """A temporary folder for one call; None where calls have none of their own."""
        return self._folder.call_folder() if self._folder else nullcontext()

    def load(self, message: dict[str, Any], files: bytes) -> "LoadingTool":
        """Fork a process that imports a tool, from these held files. Raises LostError."""
        with self._lock:
            self._next_number += 1
            number = self._next_number
        channel, theirs = socket.socketpair()
        if self._stops:
            channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        with ExitStack() as ours, ExitStack() as given:
            ours.enter_context(channel)
            given.enter_context(theirs)
            stdout, report = _pipe(ours, given)
            stderr, stderr_end = _pipe(ours, given)
            held = sealed_file(files)
            given.callback(os.close, held)
            message = {**message, "env": {**message["env"], **self._lasting_folder()}}
            self._send({"load": number, **message}, [theirs.fileno(), stderr_end, report, held])
            ours.pop_all()
        return LoadingTool(self, number, channel, Pipes(None, _reader(stdout), _reader(stderr)))

    def end_tool(self, number: int, pid: int = 0) -> None:
        """Kill the process that `load` has forked, if there still is one."""
        with self._rest_lock:
            tool = self._tools.pop(pid, None)
        if tool:
            tool.close()
        with suppress(LostError):
            self._send({"end": number}, [])

    def close(self) -> None:
        """End the worker with everything it has forked."""
        self._wire.close()
        program_ends(self._process.pid)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with self._rest_lock:
            self._is_lost = True
            while self._tools:
                self._tools.popitem()[1].close()
        self._left.close()
        if self._folder:
            self._folder.close()

    def _send(self, message: dict[str, Any], descriptors: list[int]) -> None:
        with self._lock:
            send(self._wire, message, descriptors)


def _stops(function: "Function") -> bool:
    """True if tools are stopped between calls, as what they write has to be found."""
    if not function.is_observed:
        return False
    from lillux.process.stillness import can_stop

    return can_stop()


def _worker_folder(function: "Function") -> "WorkerFolder | None":
    if not function.needs_folder:
        return None
    from lillux.run_folders import WorkerFolder

    return WorkerFolder(function.env)


class LoadingTool:
    """A forked process while it imports a tool. A `lillux.process.children.Child`.

    ``answer`` is what came of the import: ``ready``, ``threads``, or ``exit N``.
    """

    def __init__(
        self, worker: FunctionWorker, number: int, channel: socket.socket, pipes: Pipes
    ) -> None:
        self.answer = ""
        self._pid = 0
        self._worker, self._number, self._channel, self._pipes = worker, number, channel, pipes

    @property
    def is_imported(self) -> bool:
        """True if there is a process now that has imported the tool."""
        return self.answer in {"ready", "threads"}

    def open_pump(self, stdin: Stdin, on_stdout: Sink, on_stderr: Sink) -> Pump:
        """Its output and its answer."""
        return _pump(self._pipes, self._channel, stdin, on_stdout, on_stderr)

    def terminate(self) -> None:
        """End the import."""
        self._worker.end_tool(self._number)

    def kill(self) -> None:
        """End the process, unless it has imported the tool."""
        with suppress(OSError):
            self.answer, self._pid = _signed_answer(self._channel, socket.MSG_DONTWAIT)
        if not self.answer:
            self._worker.end_tool(self._number)

    def reap(self, limit_s: float) -> int | None:
        """0 after an import, else how the process ended; None when it is unknown."""
        if self.is_imported:
            return 0
        with self._channel:
            self.answer = self.answer or _answer(self._channel, limit_s)
        return _exit_code(self.answer)

    def tool(self) -> "LoadedTool":
        """The imported tool."""
        self._worker.add_tool(self._pid)
        return LoadedTool(self._worker, self._number, self._channel, self._pid)


class LoadedTool:
    """A forked process that has imported a tool, ready to fork for calls."""

    def __init__(
        self, worker: FunctionWorker, number: int, channel: socket.socket, pid: int
    ) -> None:
        self.worker, self.pid = worker, pid
        self._number, self._channel = number, channel
        self._lock = Lock()

    def call_folder(self) -> "AbstractContextManager[Path | None]":
        """See `FunctionWorker.call_folder`."""
        return self.worker.call_folder()

    def heard_by(self, on_attempt: OnAttempt) -> "AbstractContextManager[None]":
        """Within the block, ``on_attempt`` hears what the worker's processes are refused."""
        return self.worker.hearers.heard_by(on_attempt)

    def call(self, cwd: Path, folder: Path | None = None) -> "RunningCall":
        """Fork a process that makes one call, with a temporary folder. Raises LostError."""
        line, theirs = socket.socketpair()
        with ExitStack() as ours, ExitStack() as given:
            ours.enter_context(line)
            given.enter_context(theirs)
            params, stdin = _pipe(given, ours)
            stdout, result = _pipe(ours, given)
            stderr, stderr_end = _pipe(ours, given)
            place = {"cwd": str(cwd), **({"tmp": str(folder)} if folder else {})}
            with self._lock:
                send(self._channel, place, [params, result, stderr_end, theirs.fileno()])
            ours.pop_all()
        pipes = Pipes(open(stdin, "wb", buffering=0), _reader(stdout), _reader(stderr))  # noqa: PTH123, SIM115
        return RunningCall(self, line, pipes)

    def close(self) -> None:
        """End the process with all of its calls."""
        self._channel.close()
        self.worker.end_tool(self._number, self.pid)


class RunningCall:
    """A forked process that makes one call. A `lillux.process.children.Child`.

    ``answer`` is how it ended: ``exit N``, ``stale`` or ``error REASON`` when it was not begun,
    nothing when its parent was lost.
    """

    def __init__(self, tool: LoadedTool, line: socket.socket, pipes: Pipes) -> None:
        self.answer = ""
        self._tool, self._line, self._pipes = tool, line, pipes

    def open_pump(self, stdin: Stdin, on_stdout: Sink, on_stderr: Sink) -> Pump:
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
    """Send a message with descriptors. Raises LostError when the receiver is gone."""
    text = json.dumps(message).encode()
    try:
        socket.send_fds(wire, [len(text).to_bytes(LENGTH_BYTES, "big")], descriptors)
        wire.sendall(text)
    except OSError as error:
        raise LostError(str(error)) from error


def _answer(line: socket.socket, limit_s: float) -> str:
    """The message of the other end; nothing when it has hung up, or says nothing in time."""
    line.settimeout(limit_s)
    try:
        return line.recv(ANSWER_BYTES).decode()
    except OSError:
        return ""


def _signed_answer(line: socket.socket, flags: int) -> tuple[str, int]:
    """The message of the other end, and the process that says it, where the system tells."""
    room = socket.CMSG_SPACE(_CREDENTIALS.size)
    text, ancillary, _, _ = line.recvmsg(ANSWER_BYTES, room, flags)
    for level, _, data in ancillary:
        if level == socket.SOL_SOCKET and len(data) >= _CREDENTIALS.size:
            return text.decode(), int(_CREDENTIALS.unpack_from(data)[0])
    return text.decode(), 0


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
    pipes: Pipes, answers: socket.socket, stdin: Stdin, on_stdout: Sink, on_stderr: Sink
) -> Pump:
    return SelectorPump(
        pipes, stdin, on_stdout, on_stderr, open_exit_fd=lambda _: os.dup(answers.fileno())
    )


LEAST_S = 0.001
# What an interpreter and its libraries read at their start, and never again.
_READ_AT_START = ("PYTHON", "LD_", "DYLD_", "MALLOC_", "LC_", "LANG", "TZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A tool's function, with all that its import depends on.

    starter, host_text  the bytes that a worker runs, ``host`` being the path of the latter
    files               the tool and the verified files around it, packed
    needs_folder        each call has a private temporary folder
    program             the interpreter as it was when it was looked at: another one that stands at
                        its path since is none that a worker of before runs
    is_observed         what it writes is to be found after each call
    rules               the state of the files that its confinement names: a worker of before may
                        not use those that have taken their place since
    """

    interpreter: str
    starter: bytes = field(repr=False)
    host: str
    host_text: bytes = field(repr=False)
    tool_path: str
    files: bytes = field(repr=False)
    project_path: str
    env: Mapping[str, str] = field(repr=False)
    confinement: "Confinement | None" = None
    environment: "HeldStart | None" = None
    needs_folder: bool = False
    program: "Program | None" = None
    is_observed: bool = False
    rules: object = None

    @property
    def worker_key(self) -> tuple[object, ...]:
        """The values that tools must share to share a worker."""
        return self.worker_place, self.rules

    @property
    def worker_place(self) -> tuple[object, ...]:
        """The same but for the files that its confinement names."""
        start = sorted(
            (name, value)
            for name, value in self.env.items()
            if name.startswith(_READ_AT_START) and name not in AT_START
        )
        environment = self.environment and self.environment.environment.digest
        worker = self.starter, self.host, self.host_text, environment
        place = self.interpreter, self.program, worker, self.project_path
        return *place, self.confinement, self.needs_folder, self.is_observed, *start

    @property
    def code_key(self) -> bytes:
        """The code that is run: the tool's bytes and those around it."""
        return self.files

    @property
    def tool_key(self) -> tuple[object, ...]:
        """The values that calls must share to share an import."""
        return self.worker_key, self.tool_path, self.code_key, tuple(sorted(self.env.items()))
