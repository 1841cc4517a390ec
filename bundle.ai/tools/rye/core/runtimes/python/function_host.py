"""Calls the function of a Python tool: once, or for many calls as a warm worker.

With the arguments ``call TOOL PROJECT`` it reads the parameters from standard input, calls the
tool's function and prints its result as JSON. With ``serve`` it is a worker, its standard input a
socket: for every tool it forks a process that imports the tool's module, and that process
forks for every call. So a call costs a fork, no call sees what another one left behind, and no tool
sees another's modules.

The other end of the wire is ``ryeos/run/function_worker.py``. This file is started by ``start.py``,
and takes the tool from what that holds. It runs under the interpreter of the tool, so it keeps to
what Python 3.8 has.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import rye_start  # type: ignore[import-not-found]  # what `start.py` has become

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, ModuleType
    from typing import Any, NoReturn

__version__ = "1.0.0"
__tool_type__ = "library"
__executor_id__ = None
__category__ = "rye/core/runtimes/python"
__description__ = "Calls the function of a Python tool, once or as a warm worker"


MODULE_NAME = "rye_tool"
LENGTH_BYTES = 4
MAX_DESCRIPTORS = 4
READ_BYTES = 1 << 16
MAX_DEPTH = 100
PARAMS_AND_PROJECT = 2
TAKES_ANY_NUMBER, IS_COROUTINE = 0x04, 0x80  # flags of code, as `inspect` names them
SET_CHILD_SUBREAPER = 36  # of prctl
ENDS_ALONE = 1  # SA_NOCLDSTOP, in struct sigaction: a pointer, 128 bytes of signals, these flags
PLACE_OF_FLAGS, ROOM_OF_ACTION = 136, 256


class ToolError(Exception):
    """The tool cannot be called as it is; the text says why."""


def call_once(tool_path: str, project_path: str) -> NoReturn:
    """Import the tool, call its function with what standard input holds, and exit."""
    result = os.dup(1)
    os.dup2(2, 1)
    params = _read_all(0)
    _attach_null(0)

    def run() -> Any:
        return load(tool_path)(json.loads(params or b"{}"), project_path)

    leave(answer(run, result))


def answer(run: Callable[[], Any], result: int) -> int:
    """Write what ``run`` gives to a descriptor, as JSON; the exit status."""
    try:
        text, status = result_text(run()), 0
    except BaseException as error:  # noqa: BLE001 - the door of a process: an answer all the same
        text, status = failure(error)
    _write_all(result, text)
    return status


def failure(error: BaseException) -> tuple[str, int]:
    """``{"success": false, "error", "error_type"}`` and a status; the traceback is printed."""
    if isinstance(error, SystemExit):
        shown = "" if error.code is None else repr(error.code)
        what = f"sys.exit({shown}) was called before there was a result"
        return _error_text(what, "SystemExit"), _status_of(error)
    if isinstance(error, ToolError):
        return _error_text(str(error), "ToolError"), 1
    _print_traceback(error)
    name = type(error).__name__
    return _error_text(f"{name}: {error}", name), 1


def leave(status: int) -> NoReturn:
    """End this process as an interpreter would, without taking it apart."""
    threading = sys.modules.get("threading")
    if threading is not None:
        for thread in threading.enumerate():
            if thread is not threading.current_thread() and not thread.daemon:
                thread.join()
    import atexit

    atexit._run_exitfuncs()  # noqa: SLF001 - no public way runs them and leaves the rest alone
    _flush()
    os._exit(status)


def result_text(value: Any) -> str:
    """A result as JSON; nothing is ``{}``. Raises ToolError for what JSON cannot hold."""
    if value is None:
        return "{}"
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        where = next(_unserialisable(value, "result", 0), "")
        raise ToolError(
            f"the result cannot be written as JSON: {where or error};"
            " give back only objects, lists, text, numbers, true, false and None"
        ) from None


def _plain(value: Any) -> Any:
    """Values of the standard library that have one obvious form in JSON."""
    kind = f"{type(value).__module__}.{type(value).__name__}"
    if hasattr(value, "__fspath__"):
        return os.fspath(value)
    if kind in ("datetime.datetime", "datetime.date", "datetime.time"):
        return value.isoformat()
    if kind in ("uuid.UUID", "decimal.Decimal"):
        return str(value)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _unserialisable(value: Any, where: str, depth: int) -> Iterator[str]:
    """Where a result holds what JSON cannot."""
    if depth > MAX_DEPTH:
        yield f"{where[:80]}... is nested too deep, or contains itself"
    elif isinstance(value, dict):
        for key, entry in value.items():
            if key is not None and not isinstance(key, (str, int, float, bool)):
                yield f"{where} has a key of type {type(key).__name__}"
            yield from _unserialisable(entry, f"{where}[{key!r}]", depth + 1)
    elif isinstance(value, (list, tuple)):
        for index, entry in enumerate(value):
            yield from _unserialisable(entry, f"{where}[{index}]", depth + 1)
    elif isinstance(value, float) and value - value != 0:  # infinite, or not a number
        yield f"{where} is {value}"
    elif value is not None and not isinstance(value, (str, int, float, bool)):
        try:
            _plain(value)
        except TypeError:
            yield f"{where} is of type {type(value).__name__}"


def _status_of(stopped: SystemExit) -> int:
    if stopped.code is None:
        return 0
    return stopped.code & 0xFF if isinstance(stopped.code, int) else 1


def _error_text(error: str, error_type: str) -> str:
    return json.dumps({"success": False, "error": error, "error_type": error_type})


def _print_traceback(error: BaseException) -> None:
    """The traceback as far as the tool's own code goes."""
    import traceback

    trace = shown = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == answer.__code__.co_filename:
            shown = trace.tb_next
        trace = trace.tb_next
    try:
        traceback.print_exception(type(error), error, shown or error.__traceback__)
    except (AttributeError, OSError, ValueError):
        pass  # the tool has closed its standard error


def load(tool_path: str) -> Callable[[Any, str], Any]:
    """Import the tool; its function, to be called with parameters and the project's path.

    Raises ToolError when it has no function.
    """
    module = type(sys)(MODULE_NAME)
    module.__file__ = tool_path
    sys.modules[MODULE_NAME] = module
    sys.argv[:] = [tool_path]
    exec(_compiled(rye_start.files[tool_path], tool_path), module.__dict__)  # noqa: S102 - verified
    return function_of(module)


def _compiled(source: bytes, tool_path: str) -> CodeType:
    code: CodeType = compile(source, tool_path, "exec", dont_inherit=True)
    return code


def function_of(module: ModuleType) -> Callable[[Any, str], Any]:
    """``execute``, else ``main``, called as its signature asks for.

    ``execute(params, project_path)``, ``execute(params)``, ``execute(**params)``,
    ``main(**params)``. A coroutine is run to its end. Raises ToolError.
    """
    for name in ("execute", "main"):
        function = getattr(module, name, None)
        if callable(function):
            break
    else:
        raise ToolError(
            f"No execute() in {module.__file__}: expected execute(params, project_path)"
            " or main(**params)"
        )
    places = _positional_places(function) if name == "execute" else 0

    def call(params: Any, project_path: str) -> Any:
        if places >= PARAMS_AND_PROJECT:
            outcome = function(params, project_path)
        elif places == 1:
            outcome = function(params)
        else:
            outcome = function(**_keywords(function, params, project_path))
        return _awaited(outcome) if hasattr(outcome, "__await__") else outcome

    if _is_coroutine_function(function):
        import asyncio  # noqa: F401 - before the fork, so that no call pays for it
    return call


def _positional_places(function: Callable[..., Any]) -> int:
    """How many arguments can be given by position."""
    code = getattr(function, "__code__", None)
    if code is None:
        import inspect

        kinds = [p.kind for p in inspect.signature(function).parameters.values()]
        if inspect.Parameter.VAR_POSITIONAL in kinds:
            return PARAMS_AND_PROJECT
        by_place = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        return sum(kind in by_place for kind in kinds)
    if code.co_flags & TAKES_ANY_NUMBER:
        return PARAMS_AND_PROJECT
    bound = 1 if hasattr(function, "__self__") else 0
    count: int = code.co_argcount - bound
    return count


def _keywords(function: Callable[..., Any], params: Any, project_path: str) -> dict[str, Any]:
    if not isinstance(params, dict):
        raise ToolError(f"expected an object of parameters, got {type(params).__name__}")
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    return {"project_path": project_path, **params} if "project_path" in names else params


def _is_coroutine_function(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & IS_COROUTINE)


def _awaited(outcome: Any) -> Any:
    import asyncio

    async def wait() -> Any:
        return await outcome

    return asyncio.run(wait())


class Tools:
    """The processes that were forked for tools, by number, and the wire to who asks for them.

    Messages: ``{"load": NUMBER, ...}`` with the descriptors of a channel, of standard error, of the
    place for an error, and of the held files; ``{"end": NUMBER}`` kills what was forked under that
    number. A channel gets ``exit N`` when its process ends, N negative for a signal.
    """

    def __init__(self, wire: Any) -> None:
        import signal

        self.wire = wire
        self.bell = _ring_at(signal.SIGCHLD)
        _hear_ends_alone(signal.SIGCHLD)
        _adopt_orphans()
        self.processes: dict[int, tuple[int, Any]] = {}  # by number, each with its channel

    def serve(self) -> NoReturn:
        """Answer until the other end hangs up; then everything ends."""
        import select

        while True:
            sources: list[Any] = [self.wire, self.bell]
            ready, _, _ = select.select(sources, [], [])
            if self.bell in ready:
                os.read(self.bell, READ_BYTES)
                for number, (pid, channel) in list(self.processes.items()):
                    status = _reaped(pid)
                    if status is not None:
                        del self.processes[number]
                        self.end_strays()
                        _tell(channel, b"exit %d" % _code_of(status))
            if self.wire in ready:
                message, descriptors = receive(self.wire)
                if message is None:
                    for pid, _ in self.processes.values():
                        _end_group(pid)
                    _end_children(set())
                    os._exit(0)
                if "load" in message:
                    self.load(message, *descriptors)
                elif message["end"] in self.processes:
                    pid, channel = self.processes.pop(message["end"])
                    status = _end_group(pid)
                    self.end_strays()
                    _tell(channel, b"exit %d" % _code_of(status))

    def end_strays(self) -> None:
        """End what a tool's process left: it is this one's child now."""
        _end_children({pid for pid, _ in self.processes.values()})

    def load(
        self, message: dict[str, Any], channel: int, stderr: int, report: int, held: int
    ) -> None:
        """Fork for a tool; the caller learns by its channel if that cannot be done."""
        import socket

        line = socket.socket(fileno=channel)
        try:
            pid = os.fork()
        except OSError as error:
            _write_all(report, _error_text(f"no fork: {error.strerror}", "OSError"))
            _tell(line, b"exit 1")
        else:
            if pid == 0:
                self.wire.close()
                _forget_bell(self.bell)
                for _, other in self.processes.values():
                    other.close()
                serve_calls(message, line, stderr, report, held)
            self.processes[message["load"]] = pid, line
        for descriptor in (stderr, report, held):
            os.close(descriptor)


def receive(wire: Any) -> tuple[Any, list[int]]:
    """The next message and its descriptors; None when the other end has hung up."""
    import array
    import socket

    room = socket.CMSG_SPACE(MAX_DESCRIPTORS * array.array("i").itemsize)
    length, ancillary, _, _ = wire.recvmsg(LENGTH_BYTES, room)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % descriptors.itemsize])
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003 - its only way
    while length and len(length) < LENGTH_BYTES:
        length += wire.recv(LENGTH_BYTES - len(length))
    if not length:
        return None, []
    text = b""
    while len(text) < int.from_bytes(length, "big"):
        piece = wire.recv(int.from_bytes(length, "big") - len(text))
        if not piece:
            return None, []
        text += piece
    return json.loads(text), list(descriptors)


def serve_calls(
    message: dict[str, Any], wire: Any, stderr: int, report: int, held: int
) -> NoReturn:
    """Import a tool, say ``ready``, then fork for every call until the other end hangs up.

    Says ``threads`` instead when the import has started some: a fork would lose them.
    """
    os.setsid()
    _adopt_orphans()
    _attach(stderr, 1, 2)
    _enter(message, held)
    try:
        function = load(message["tool"])
    except BaseException as error:  # noqa: BLE001 - as in `answer`
        text, status = failure(error)
        _write_all(report, text)
        leave(status or 1)
    _flush()
    os.close(report)
    threading = sys.modules.get("threading")
    wire.sendall(b"threads" if threading and threading.active_count() > 1 else b"ready")
    _attach_null(1, 2)
    import gc

    gc.freeze()
    Calls(wire, function, message["project_path"]).serve()


class Calls:
    """The calls of one tool that run at this time: their processes and their lines.

    A line is a socket to the caller. It brings ``T`` and ``K``, to end the call's group
    gently or at once, as hanging up does; it takes how the call ended: ``exit N``, N negative for a
    signal, or ``stale`` when it was not begun because a module's file has changed since the import.
    """

    def __init__(self, wire: Any, function: Callable[[Any, str], Any], project_path: str) -> None:
        import signal

        self.wire = wire
        self.function = function
        self.project_path = project_path
        self.modules = dict(_module_files())
        self.bell = _ring_at(signal.SIGCHLD)
        self.helpers = set(_children())  # which the import has started, for all calls
        self.lines: dict[int, Any] = {}  # by process; None for one that has hung up

    def serve(self) -> NoReturn:
        """Answer until the other end hangs up; then everything ends."""
        import select

        while True:
            lines = [(pid, line) for pid, line in self.lines.items() if line]
            sources: list[Any] = [self.wire, self.bell, *(line for _, line in lines)]
            ready, _, _ = select.select(sources, [], [])
            for pid, line in lines:
                if line in ready:
                    self.heed(pid, line)
            if self.bell in ready:
                os.read(self.bell, READ_BYTES)
                self.reap()
            if self.wire in ready:
                message, descriptors = receive(self.wire)
                if message is None:
                    for pid in self.lines:
                        _end_group(pid)
                    _end_children(set())
                    os._exit(0)
                self.begin(message, *descriptors)

    def begin(self, place: Any, params: int, result: int, stderr: int, line: int) -> None:
        """Fork for a call."""
        import socket

        caller = socket.socket(fileno=line)
        if self.modules != dict(_module_files()):
            _tell(caller, b"stale")
        else:
            try:
                pid = os.fork()
            except OSError as error:
                _tell(caller, b"error " + (error.strerror or "no fork").encode())
            else:
                if pid == 0:
                    caller.close()
                    self.forget()
                    _attach(stderr, 1, 2)
                    _use_temporary_folder(place.get("tmp"))
                    call_forked(self.function, self.project_path, place["cwd"], params, result)
                self.lines[pid] = caller
        for descriptor in (params, result, stderr):
            os.close(descriptor)

    def forget(self) -> None:
        """Let go, in a forked process, of what belongs to the one that forked."""
        os.setsid()
        _forget_bell(self.bell)
        self.wire.close()
        for line in filter(None, self.lines.values()):
            line.close()

    def heed(self, pid: int, line: Any) -> None:
        """End a call's group as its line says."""
        import signal

        wish = line.recv(1)
        _signal_group(pid, signal.SIGTERM if wish == b"T" else signal.SIGKILL)
        if not wish:
            line.close()
            self.lines[pid] = None

    def reap(self) -> None:
        """Tell the lines of what has ended.

        What calls left in sessions of their own is this process's child by now. It ends with the
        last call that runs, as nothing tells whose it is.
        """
        ended = []
        for pid, line in list(self.lines.items()):
            status = _reaped(pid)
            if status is not None:
                ended.append((line, status))
                del self.lines[pid]
        if ended and not self.lines:
            _end_children(self.helpers)
        for line, status in ended:
            if line:
                _tell(line, b"exit %d" % _code_of(status))


def call_forked(
    function: Callable[[Any, str], Any], project_path: str, cwd: str, params: int, result: int
) -> NoReturn:
    """Make one call in this process, and end it."""

    def run() -> Any:
        os.chdir(cwd)
        return function(json.loads(_read_all(params) or b"{}"), project_path)

    leave(answer(run, result))


def _use_temporary_folder(folder: str | None) -> None:
    """Make temporary files there from now on."""
    if folder is None:
        return
    for name in ("TMPDIR", "TMP", "TEMP"):
        os.environ[name] = folder
    tempfile = sys.modules.get("tempfile")
    if tempfile is not None:
        setattr(tempfile, "tempdir", None)  # noqa: B010 - what it chose before


def _enter(message: dict[str, Any], held: int) -> None:
    """Take over the surroundings of a tool: environment, modules, working directory."""
    os.environ.clear()
    os.environ.update(message["env"])
    with open(held, "rb") as file:  # a descriptor; its position is where the engine left it
        rye_start.hold(file.read())
    rye_start.begin()
    os.chdir(message["cwd"])


def _module_files() -> Iterator[tuple[str, tuple[int, int]]]:
    """The files of all imported modules but those of the standard library, and their state."""
    own = os.path.dirname(os.__file__) + os.sep
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and (not path.startswith(own) or "-packages" in path):
            try:
                status = os.stat(path)
            except OSError:
                continue  # in an archive, or gone: which a later look then shows
            yield path, (status.st_mtime_ns, status.st_size)


def _ring_at(number: int) -> int:
    """A descriptor that can be read from whenever the signal has come."""
    import signal

    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(number, lambda *_: None)
    return read


def _forget_bell(bell: int) -> None:
    """Undo `_ring_at` in a forked process."""
    import signal

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.close(signal.set_wakeup_fd(-1))
    os.close(bell)


def _reaped(pid: int) -> int | None:
    """The wait status of a child that has ended, what is left of its group killed; else None."""
    import signal

    if hasattr(os, "waitid"):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return None
        return _end_group(pid)  # until it is reaped, the group's number is its own
    ended, status = os.waitpid(pid, os.WNOHANG)
    if not ended:
        return None
    try:
        os.killpg(pid, signal.SIGKILL)
    except OSError:
        pass  # nothing is left of it
    return status


def _adopt_orphans() -> None:
    """Become the parent of what descends from this process and loses its own. Linux only."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _hear_ends_alone(number: int) -> None:
    """Have this signal of children for their end, not each time that one is stopped. Linux only.

    The engine stops a tool between two calls, see ``functions.py``.
    """
    if sys.platform == "linux":
        import ctypes

        action = ctypes.create_string_buffer(ROOM_OF_ACTION)
        sigaction = ctypes.CDLL(None).sigaction
        if sigaction(number, None, action) == 0:
            flags = ctypes.c_int.from_buffer(action, PLACE_OF_FLAGS)
            flags.value |= ENDS_ALONE
            sigaction(number, action, None)


def _children() -> list[int]:
    """The children of this process; none where the system does not tell."""
    try:
        with open(f"/proc/self/task/{os.getpid()}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except OSError:
        return []


def _end_children(kept: set[int]) -> None:
    """Kill and reap all children but these, and what becomes a child by that."""
    import signal

    while True:
        pids = [pid for pid in _children() if pid not in kept]
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except OSError:
                kept = kept | {pid}  # another user's: nothing can be done about it


def _code_of(status: int) -> int:
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def _end_group(pid: int) -> int:
    """Kill a child's group and reap the child; its wait status."""
    import signal

    _signal_group(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _signal_group(pid: int, number: int) -> None:
    """Signal the group of a child that is not reaped yet."""
    try:
        os.killpg(pid, number)
    except ProcessLookupError:  # it has been forked and does not lead a group yet
        os.kill(pid, number)
    except PermissionError:
        pass  # a zombie on macOS, or one that took another user's rights


def _tell(line: Any, text: bytes) -> None:
    """Say a last word."""
    try:
        line.sendall(text)
    except OSError:
        pass  # no caller waits for it any more
    line.close()


def _attach(descriptor: int, *places: int) -> None:
    """Put a descriptor in the place of others, and close it."""
    for place in places:
        os.dup2(descriptor, place)
    os.close(descriptor)


def _attach_null(*places: int) -> None:
    _attach(os.open(os.devnull, os.O_RDWR), *places)


def _read_all(descriptor: int) -> bytes:
    pieces: list[bytes] = []
    while True:
        piece = os.read(descriptor, READ_BYTES)
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)


def _write_all(descriptor: int, text: str) -> None:
    unsent = memoryview(text.encode("utf-8", "backslashreplace"))
    while unsent:
        unsent = unsent[os.write(descriptor, unsent) :]


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass  # closed by the tool, or it has no reader any more


def main(arguments: list[str]) -> NoReturn:
    """Do what the command line asks for."""
    # A process that `multiprocessing` spawns would read the file of this name and run it.
    del sys.modules["__main__"].__file__
    if arguments[0] == "serve":
        import socket

        wire = socket.socket(fileno=os.dup(0))
        _attach_null(0)
        Tools(wire).serve()
    call_once(*arguments[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
