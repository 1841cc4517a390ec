"""Forks children from a template: a process that has imported already what they need.

    this process --socket--> template --fork--> child

(1) The template is started for the first child, and imports. (2) For each child it gets a byte with
four descriptors: three pipes and a socket. (3) It forks. The child takes the pipes as its standard
files, closes all others, leads a session of its own, says its number on the socket, and works.
(4) The template says on the socket how the child ended, and reaps it when the other end is closed.

The template never reads what a child is given, so each child begins with the memory that the first
one began with. It ends with the process that started it: then its own socket is at its end.
Linux only: elsewhere, and where anything is in the way, children are started anew.
"""

import gc
import logging
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from threading import Lock
from typing import IO, NoReturn

from lillux.cancellation import Cancellation
from lillux.process import ProcessManager
from lillux.process.children import Child, PosixGroup, spawned_child
from lillux.process.model import Command, Outcome, SpawnError, stdin_of
from lillux.process.pipes import Pump, Sink, Stdin
from lillux.process.pumps import SelectorPump, open_pidfd

TEMPLATE_IMPORTS_S = 30.0
"""How long a template may take until its first child is there."""

_STATUS_S = 10.0  # until the template has said how a child that is gone has ended
_MOST_FAILURES = 3
_ORDER = b"f"
_MAX_NEWS_BYTES = 32
_PIPES = 3
_log = logging.getLogger(__name__)


class ForkServer:
    """Runs commands as children of a template. See `ProcessRunner`; safe in any thread.

    ``words`` and ``env`` start the template, which calls `serve_forks` with the number that is
    added to them. A command says with its arguments only how it is started anew: a forked child
    learns what it has to do from its standard input.
    """

    def __init__(
        self, words: tuple[str, ...], env: dict[str, str], manager: ProcessManager
    ) -> None:
        self._words, self._env, self._manager = words, env, manager
        self._lock = Lock()
        self._template: _Template | None = None
        self._failures = 0

    @property
    def template_pid(self) -> int | None:
        """The number of the template, None while there is none."""
        template = self._template
        return template.pid if template else None

    def run(
        self,
        command: Command,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        """Run the command to its end, with all that `ProcessManager.run` guarantees."""
        return self._manager.supervise(
            lambda: self._child(command),
            stdin=stdin_of(command),
            timeout_s=command.timeout_s,
            max_output_bytes=command.max_output_bytes,
            cancellation=cancellation,
            on_stdout=command.on_stdout,
            on_stderr=on_stderr,
        )

    def close(self) -> None:
        """End the template, and with it what is still there of its children."""
        with self._lock:
            template, self._template = self._template, None
        if template:
            template.retire(ends_children=True)

    def _child(self, command: Command) -> Child:
        if sys.platform != "linux" or self._failures >= _MOST_FAILURES:
            return spawned_child(command)
        template = None
        try:
            template = self._ready()
            child = template.fork()
        except (OSError, EOFError, ValueError) as error:
            # Nothing was done yet: a child gets its orders once it has said its number.
            _log.warning("a process is started anew, as none can be forked: %s", error)
            self._count_failure(template)
            return spawned_child(command)
        self._failures = 0
        return child

    def _ready(self) -> "_Template":
        with self._lock:
            if self._template is None:
                self._template = _Template(self._words, self._env)
            return self._template

    def _count_failure(self, template: "_Template | None") -> None:
        with self._lock:
            self._failures += 1
            if self._template is template:
                self._template = None
        if template:
            template.retire(ends_children=False)


class _Template:
    """A running template, seen from the process that has started it."""

    def __init__(self, words: tuple[str, ...], env: dict[str, str]) -> None:
        self._control, theirs = socket.socketpair()
        self._lock = Lock()
        self._children, self._is_retired = 0, False
        with theirs:
            self._process = subprocess.Popen(
                [*words, str(theirs.fileno())],
                env=env,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=[theirs.fileno()],
            )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def fork(self) -> "ForkedChild":
        """A child. Raises OSError and EOFError where none comes, ValueError for wrong news."""
        with ExitStack() as given, ExitStack() as ours:
            pipes = [os.pipe() for _ in range(_PIPES)]
            (stdin, into), (out, stdout), (err, stderr) = pipes
            for descriptor in (stdin, stdout, stderr):
                given.callback(os.close, descriptor)
            files = [
                ours.enter_context(os.fdopen(into, "wb", buffering=0)),
                ours.enter_context(os.fdopen(out, "rb", buffering=0)),
                ours.enter_context(os.fdopen(err, "rb", buffering=0)),
            ]
            news, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            ours.enter_context(news)
            given.enter_context(theirs)
            with self._lock:
                socket.send_fds(self._control, [_ORDER], [stdin, stdout, stderr, theirs.fileno()])
                self._children += 1
            ours.callback(self._forget_child)
            given.close()
            news.settimeout(TEMPLATE_IMPORTS_S)
            number = news.recv(_MAX_NEWS_BYTES)
            if not number:
                raise EOFError("the template has ended")
            exit_fd = open_pidfd(int(number))
            if exit_fd is None:
                raise OSError("the system has no descriptors of processes")
            ours.callback(os.close, exit_fd)
            return ForkedChild(int(number), files, news, exit_fd, ours.pop_all())

    def retire(self, *, ends_children: bool) -> None:
        """Close it for requests. It ends at once, or when the last of its children has."""
        with self._lock:
            self._is_retired = True
            if not ends_children and self._children:
                return
        self._control.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_STATUS_S)

    def _forget_child(self) -> None:
        with self._lock:
            self._children -= 1
            is_last = self._is_retired and not self._children
        if is_last:
            self.retire(ends_children=True)


class ForkedChild:
    """A child of a template, which alone can reap it. See `lillux.process.children.Child`."""

    def __init__(
        self,
        pid: int,
        files: Sequence[IO[bytes]],
        news: socket.socket,
        exit_fd: int,
        held: ExitStack,
    ) -> None:
        self.pid = pid
        self.stdin: IO[bytes] | None = files[0]
        self.stdout: IO[bytes] | None = files[1]
        self.stderr: IO[bytes] | None = files[2]
        self._news, self._exit_fd, self._held = news, exit_fd, held
        self._group = PosixGroup(pid)

    def wait(self) -> int:
        """Block until it has ended; not how."""
        select.select([self._exit_fd], [], [])
        return 0

    def terminate(self) -> None:
        """Ask its group to end."""
        if self._has_its_number():
            self._group.terminate()

    def kill(self) -> None:
        """End its group."""
        if self._has_its_number():
            self._group.kill()

    def open_pump(self, stdin: Stdin, on_stdout: Sink, on_stderr: Sink) -> Pump:
        """What moves its pipes. Raises SpawnError."""
        try:
            return SelectorPump(
                self, stdin, on_stdout, on_stderr, open_exit_fd=lambda _: os.dup(self._exit_fd)
            )
        except (OSError, RuntimeError) as error:
            raise SpawnError("a forked process", str(error).lower()) from error

    def reap(self, limit_s: float) -> int | None:
        """Its exit code; None too where its template was killed."""
        with self._held:
            self._news.settimeout(_STATUS_S if self._has_exited(limit_s) else 0.0)
            with suppress(OSError, ValueError):
                return int(self._news.recv(_MAX_NEWS_BYTES))
        return None

    def _has_exited(self, limit_s: float) -> bool:
        poll = select.poll()
        poll.register(self._exit_fd, select.POLLIN)
        return bool(poll.poll(limit_s * 1000))

    def _has_its_number(self) -> bool:
        """Whether the number is still its own: it was not reaped, or has not ended."""
        if not self._has_exited(0.0):
            return True
        try:
            return bool(self._news.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True  # the template is there, and has not looked yet
        except OSError:
            return False


# --- template -------------------------------------------------------------------------------------
# What runs in the process that children are forked from. It has one thread.

_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class _ForkedChild:
    """A child that was not reaped yet. ``news`` is None when its end is not reported."""

    def __init__(self, news: socket.socket) -> None:
        self.news: socket.socket | None = news
        self.is_reported = False


def serve_forks(control: int, work: Callable[[int], int]) -> NoReturn:
    """Be a template: fork a child for each order from the socket ``control``, until its end.

    ``work`` is what a child does, with the number of the template; its exit status. Import what it
    needs before this.
    """
    orders = socket.socket(fileno=control)
    for number in _IGNORED:  # it ends with its parent, and its children with it
        signal.signal(number, signal.SIG_IGN)
    bell, ringer = os.pipe()
    os.set_blocking(ringer, False)
    signal.set_wakeup_fd(ringer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    gc.collect()
    gc.freeze()  # so that the children share these pages
    poll = select.poll()
    for descriptor in (control, bell):
        poll.register(descriptor, select.POLLIN)
    children: dict[int, _ForkedChild] = {}
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if bell in ready:
            os.read(bell, 4096)
        if control in ready:
            order, given, _, _ = socket.recv_fds(
                orders, len(_ORDER), _PIPES + 1, socket.MSG_CMSG_CLOEXEC
            )
            if len(given) != _PIPES + 1:
                os._exit(0 if not order else 1)
            pid, news = _fork(given, work)
            children[pid] = _ForkedChild(news)
            poll.register(news, 0)  # its end is reported all the same
        _see_to(children, ready, poll)


def _fork(given: list[int], work: Callable[[int], int]) -> tuple[int, socket.socket]:
    template = os.getpid()
    news = socket.socket(fileno=given[_PIPES])
    pid = os.fork()
    if not pid:
        _become(given, news, lambda: work(template))
    for descriptor in given[:_PIPES]:
        os.close(descriptor)
    return pid, news


def _become(given: list[int], news: socket.socket, work: Callable[[], int]) -> NoReturn:
    """Be the child: nothing of the template is open, nor anything of its other children."""
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in (*_IGNORED, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        for standard, descriptor in enumerate(given[:_PIPES]):
            os.dup2(descriptor, standard)
        news.send(b"%d" % os.getpid())
        os.closerange(_PIPES, os.sysconf("SC_OPEN_MAX"))
        status = work()
    except BaseException:  # noqa: BLE001 - the door of this process
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)  # no object of the template is given up: its number may be another's


def _see_to(children: dict[int, _ForkedChild], ready: set[int], poll: "select.poll") -> None:
    """Report the children that have ended, and reap those whose end is not reported."""
    for pid, child in list(children.items()):
        if child.news is not None and child.news.fileno() in ready:  # closed at its other end
            poll.unregister(child.news)
            child.news.close()
            child.news = None
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if ended is None:
            continue
        if child.news is None:
            os.waitpid(pid, 0)
            del children[pid]
        elif not child.is_reported:
            is_exit = ended.si_code == os.CLD_EXITED
            with suppress(OSError):
                child.news.send(b"%d" % (ended.si_status if is_exit else -ended.si_status))
            child.is_reported = True
