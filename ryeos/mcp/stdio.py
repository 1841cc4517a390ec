"""A server on two pipes: one thread reads, others carry out calls, everything ends with the pipe.

`ryeos.mcp.serve` has answered what came first, and hands over.

(1) the reader hands bytes to the session; what the session answers by itself is written at once,
    and so is what takes no time, so that nothing of it waits behind work
(2) each other call is carried out by one of a few threads, programs by others than the rest; a
    cancelled one ends and is not answered
(3) it ends when the pipe does, by a signal, when the client is gone, and when the process that
    has started it is gone: calls are cancelled, last words said, and after ``END_S`` it is over.
    What was asked before the pipe ended may still be answered for ``LAST_CALLS_S``
(4) a client that takes no answers is waited for, and read from no further: what it leaves unread is
    all that is kept. Whether it has gone is seen by a thread that neither reads nor writes: then
    a call that has waited for ``STUCK_S`` waits no longer
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from threading import Condition, Lock, RLock, Thread
from threading import Event as Flag

from lillux.jsonrpc import INTERNAL_ERROR, Id
from ryeos.mcp.protocol import McpSession
from ryeos.mcp.revisions import (
    Begin,
    Cancel,
    McpCall,
    Pace,
    RpcError,
    Send,
    SessionEvent,
    TaskId,
    Watch,
    WatchedName,
)
from ryeos.mcp.wire import MESSAGE, Log, SignalWatch, Wire, leave, quiet, report_failure

# Threads that carry out calls: each takes one call at a time, in the order of arrival.

Work = Callable[[], None]


class WorkerPool:
    """Carries out work on a bounded number of threads; further work waits its turn.

    A thread is started when there is work and all others are busy.
    """

    def __init__(self, name: str, max_threads: int) -> None:
        self._name, self._max_threads = name, max_threads
        self._waiting: deque[Work] = deque()
        self._news = Condition(Lock())
        self._threads = self._free = self._unfinished = 0

    @property
    def is_idle(self) -> bool:
        """True if all work is done."""
        return not self._unfinished

    def put(self, work: Work) -> None:
        """Do it on one of the threads. ``work`` raises nothing."""
        with self._news:
            self._waiting.append(work)
            self._unfinished += 1
            if self._free < len(self._waiting) and self._threads < self._max_threads:
                self._threads += 1
                Thread(target=self._serve, name=f"rye-{self._name}", daemon=True).start()
            else:
                self._news.notify()

    def _serve(self) -> None:
        while True:
            with self._news:
                self._free += 1
                while not self._waiting:
                    self._news.wait()
                self._free -= 1
                work = self._waiting.popleft()
            work()
            with self._news:
                self._unfinished -= 1


TYPE_CHECKING = False  # importing `typing` would slow the start
if TYPE_CHECKING:  # the first answers need none
    from typing import Any, NoReturn, Protocol

    from lillux.cancellation import Cancellation
else:
    Protocol = object

LONG_THREADS, SHORT_THREADS = 16, 4
END_S = 1.5
LAST_CALLS_S = 0.3
LAST_WORDS_S = 0.2
STUCK_S = 0.3
# How long the reader waits for a thread that computes: answers to `ping` take several such waits.
SWITCH_S = 0.001
# Collecting garbage stops every thread: a little each time, a full collection almost never.
GARBAGE_THRESHOLDS = (10_000, 5, 100)

Progress = Callable[[float, float | None, str], None]


class Features(Protocol):
    """The offers of a server. Every method may be called from many threads at once."""

    def pace(self, call: McpCall) -> Pace:
        """The time that a call may take."""

    def answer(
        self, call: McpCall, cancellation: Cancellation, progress: Progress
    ) -> dict[str, Any]:
        """Carry out a call. Raises RpcError."""

    def watch(self, watch: Watch, changed: Callable[[WatchedName], None]) -> None:
        """Look out for changes from now on, instead of those asked for before.

        ``changed`` gets ``tools``, ``prompts``, ``resources``, the URI of a resource, or a task.
        """

    def task(self, task_id: str) -> dict[str, Any] | None:
        """The state of a task; None where that is unknown."""

    def began(self) -> None:
        """Called after the first answer: prepare for further requests."""

    def close(self) -> None:
        """No further request will come."""


class McpServer:
    """Serves one client. The process ends when that is over.

    parent  the process that has started this one
    log     gets a level and a line for what happens
    """

    def __init__(
        self, session: McpSession, features: Features, wire: Wire, *, parent: int, log: Log = quiet
    ) -> None:
        self._session, self._features, self._wire, self._log = session, features, wire, log
        self._session_lock = RLock()
        self._running: dict[Id, Cancellation] = {}
        self._worker_pools = {
            Pace.LONG: WorkerPool("program", LONG_THREADS),
            Pace.SHORT: WorkerPool("call", SHORT_THREADS),
        }
        self._parent = parent
        self._is_over = Flag()
        self._ending = Lock()

    def run(self, first: Iterable[SessionEvent], signals: SignalWatch) -> NoReturn:
        """Carry out the first events, serve until the client is gone, and end the process."""
        signals.end = lambda: self._end("a signal")
        sys.setswitchinterval(SWITCH_S)
        gc.set_threshold(*GARBAGE_THRESHOLDS)
        why = "standard input ended"
        try:
            for watch in (self._watch_parent, self._watch_input):
                Thread(target=watch, daemon=True).start()
            with self._session_lock:
                self._carry_out(first)
            Thread(target=self._features.began, daemon=True).start()
            self._read()
            self._await_calls(LAST_CALLS_S)
        except OSError as error:
            why = str(error)
        self._end(why)

    def _read(self) -> None:
        while chunk := self._wire.read():
            with self._session_lock:
                events = self._session.receive(chunk)
                self._carry_out(events)
        with self._session_lock:
            self._carry_out(self._session.end_of_input())

    def _carry_out(self, events: Iterable[SessionEvent]) -> None:
        for event in events:
            match event:
                case Send(message):
                    self._wire.send(message)
                case Begin(call):
                    self._begin(call)
                case Cancel(call_id):
                    cancellation = self._running.pop(call_id, None)
                    if cancellation:
                        self._log("info", f"{call_id!r} cancelled")
                        cancellation.cancel()
                case Watch():
                    self._features.watch(event, self._notify_change)

    def _begin(self, call: McpCall) -> None:
        from lillux.cancellation import Cancellation

        cancellation = Cancellation()
        self._running[call.id] = cancellation
        pace = self._features.pace(call)
        if pace is Pace.AT_ONCE:
            self._serve(call, cancellation)
        else:
            self._worker_pools[pace].put(lambda: self._serve(call, cancellation))

    def _serve(self, call: McpCall, cancellation: Cancellation) -> None:
        if cancellation.is_set:
            return
        started = time.perf_counter()

        def progress(done: float, total: float | None, message: str) -> None:
            def events() -> Iterable[SessionEvent]:
                if self._running.get(call.id) is not cancellation:
                    return ()
                return self._session.progress(call.id, done, total, message)

            self._tell(events)

        try:
            result = self._features.answer(call, cancellation, progress)
        except RpcError as failure:
            error = failure
            self._finish(call, cancellation, lambda: self._session.fail(call.id, error))
        except Exception as failure:  # noqa: BLE001 - a door: one call must not end the server
            unexpected = internal_error(failure, self._log)
            self._finish(call, cancellation, lambda: self._session.fail(call.id, unexpected))
        except SystemExit as gone:  # the program's own file was written over, see `zipboot.parts`
            why = gone.code if isinstance(gone.code, str) else "rye: its program file is damaged"
            replaced = RpcError(INTERNAL_ERROR, why)
            self._finish(call, cancellation, lambda: self._session.fail(call.id, replaced))
        else:
            self._finish(call, cancellation, lambda: self._session.succeed(call.id, result))
        self._log(
            "info", f"{call.id!r} {call.method}: {(time.perf_counter() - started) * 1000:.0f} ms"
        )

    def _finish(
        self,
        call: McpCall,
        cancellation: Cancellation,
        answer: Callable[[], Iterable[SessionEvent]],
    ) -> None:
        """Send the result of a call, unless another call with its id has taken its place."""

        def events() -> Iterable[SessionEvent]:
            if self._running.get(call.id) is not cancellation:
                return ()
            del self._running[call.id]
            return answer()

        self._tell(events)

    def _tell(self, events: Callable[[], Iterable[SessionEvent]]) -> None:
        with self._session_lock:
            if self._is_over.is_set():
                return
            try:
                self._carry_out(events())
            except OSError:  # the client reads no more; the reader will notice
                os.kill(os.getpid(), signal.SIGTERM)

    def _notify_change(self, what: WatchedName) -> None:
        lists = {"tools", "prompts", "resources"}
        if isinstance(what, TaskId):
            self._task_changed(what.id)
        elif what in lists:
            self._tell(lambda: self._session.list_changed(what))
        else:
            self._tell(lambda: self._session.resource_updated(what))

    def _task_changed(self, task_id: str) -> None:
        task = self._features.task(task_id)
        if task is not None:
            self._tell(lambda: self._session.task_changed(task_id, task))

    def _watch_parent(self) -> None:
        from lillux.process.parent import await_end_of_parent

        await_end_of_parent(self._parent)
        self._end("the process that has started this one is gone")

    def _watch_input(self) -> None:  # (4)
        self._wire.await_hang_up()
        while self._wire.waits_s < STUCK_S:
            time.sleep(_STUCK_POLL_S)
        self._end("standard input ended, and the output has no reader")

    def _await_calls(self, patience_s: float) -> None:
        """Wait until running calls have ended, at most ``patience_s``."""
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if all(pool.is_idle for pool in self._worker_pools.values()):
                return
            time.sleep(_POLL_S)

    def _end(self, why: str) -> NoReturn:
        """Cancel every call, send the last messages, then end this process."""
        if not self._ending.acquire(blocking=False):
            while True:  # another thread ends it all
                time.sleep(END_S)
        Thread(target=_exit_after, args=(END_S,), daemon=True).start()
        for cancellation in tuple(self._running.values()):
            cancellation.cancel()
        # The holder of the lock may be writing to a client that reads no more.
        if self._session_lock.acquire(timeout=LAST_WORDS_S):
            with suppress(OSError):  # they have no reader
                self._carry_out(self._session.close())
            self._is_over.set()
            self._session_lock.release()
        self._log("info", f"ends: {why}")
        self._features.close()
        self._await_calls(END_S)
        leave()


def _exit_after(seconds: float) -> None:
    time.sleep(seconds)
    leave()


_POLL_S = 0.005
_STUCK_POLL_S = 0.05


def internal_error(error: BaseException, log: Log = quiet) -> RpcError:
    """The error for a client about a failure of ours; the traceback goes to standard error."""
    return RpcError(INTERNAL_ERROR, MESSAGE, {"error_ref": report_failure(error, log)})
