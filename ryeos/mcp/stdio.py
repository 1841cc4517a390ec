"""A server on two pipes: one thread reads, others carry out calls, everything ends with the pipe.

(1) the reader hands bytes to the session; what the session answers by itself is written at once,
    so that nothing waits behind work
(2) each call is carried out by one of a few threads; a cancelled one is told so and not answered
(3) it ends when the pipe does, by a signal, when nobody reads any more, and when the process that
    has started it is gone: calls are cancelled, last words said, and after ``END_S`` it is over
"""

import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from threading import Event as Flag
from threading import Lock, RLock, Thread
from typing import Any, Protocol

from lillux.jsonrpc import INTERNAL_ERROR, Id, Message, as_json
from lillux.process.cancellation import Cancellation
from ryeos.mcp.eras import RpcError
from ryeos.mcp.session import Begin, Call, Cancel, Event, Send, Session, Watch
from ryeos.mcp.wire import Wire

MAX_THREADS = 16
END_S = 1.5
WATCHDOG_S = 5.0
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

Progress = Callable[[float, float | None, str], None]


class Features(Protocol):
    """What a server offers. Every method may be called from many threads at once."""

    def answer(self, call: Call, cancellation: Cancellation, progress: Progress) -> dict[str, Any]:
        """Carry out a call. Raises RpcError."""
        ...

    def watch(self, watch: Watch, changed: Callable[[str], None]) -> None:
        """Look out for changes from now on, instead of those asked for before.

        ``changed`` gets ``tools``, ``prompts``, ``resources``, or the URI of a resource.
        """
        ...

    def began(self) -> None:
        """The first answer is out: time to make ready for what will be asked for."""
        ...

    def close(self) -> None:
        """Nothing more will be asked for."""
        ...


class _Stop(Exception):  # noqa: N818 - no error: what a signal turns into
    """It is time to end."""


class StdioServer:
    """Serves one client. The process ends when that is over."""

    def __init__(self, session: Session, features: Features, wire: Wire) -> None:
        self._session, self._features, self._wire = session, features, wire
        self._session_lock = RLock()
        self._running: dict[Id, Cancellation] = {}
        self._work: SimpleQueue[tuple[Call, Cancellation]] = SimpleQueue()
        self._threads: list[Thread] = []
        self._idle = 0
        self._idle_lock = Lock()
        self._has_begun = False
        self._is_over = Flag()

    def run(self) -> None:
        """Serve until the client is gone, and end the process. In the main thread only."""
        for number in _ENDING_SIGNALS:
            signal.signal(number, _stop)
        Thread(target=self._watch_parent, args=(os.getppid(),), daemon=True).start()
        with suppress(_Stop, OSError):
            self._read()
        self._end()

    def _read(self) -> None:
        while chunk := self._wire.read():
            with self._session_lock:
                events = self._session.receive(chunk)
                self._carry_out(events)

    def _carry_out(self, events: Iterable[Event]) -> None:
        for event in events:
            match event:
                case Send(message):
                    self._write(message)
                case Begin(call):
                    self._begin(call)
                case Cancel(call_id):
                    cancellation = self._running.pop(call_id, None)
                    if cancellation:
                        cancellation.cancel()
                case Watch():
                    self._features.watch(event, self._changed)

    def _write(self, message: Message) -> None:
        self._wire.write(line_of(message))
        if not self._has_begun:
            self._has_begun = True
            Thread(target=self._features.began, daemon=True).start()

    # ------------------------------------------------------------------ calls

    def _begin(self, call: Call) -> None:
        cancellation = Cancellation()
        self._running[call.id] = cancellation
        with self._idle_lock:
            needs_thread = self._idle == 0 and len(self._threads) < MAX_THREADS
            self._idle -= 0 if needs_thread else 1
        self._work.put((call, cancellation))
        if needs_thread:
            thread = Thread(target=self._serve_calls, name="rye-call", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve_calls(self) -> None:
        while True:
            call, cancellation = self._work.get()
            if not cancellation.is_set:
                self._serve(call, cancellation)
            with self._idle_lock:
                self._idle += 1

    def _serve(self, call: Call, cancellation: Cancellation) -> None:
        def progress(done: float, total: float | None, message: str) -> None:
            self._tell(lambda: self._session.progress(call.id, done, total, message))

        try:
            result = self._features.answer(call, cancellation, progress)
        except RpcError as failure:
            error = failure
            self._finish(call, cancellation, lambda: self._session.fail(call.id, error))
        except Exception as failure:  # noqa: BLE001 - a door: one call must not end the server
            unexpected = internal_error(failure)
            self._finish(call, cancellation, lambda: self._session.fail(call.id, unexpected))
        else:
            self._finish(call, cancellation, lambda: self._session.succeed(call.id, result))

    def _finish(
        self, call: Call, cancellation: Cancellation, answer: Callable[[], Iterable[Event]]
    ) -> None:
        """Say what came of a call, unless another of its id has taken its place."""

        def events() -> Iterable[Event]:
            if self._running.get(call.id) is not cancellation:
                return ()
            del self._running[call.id]
            return answer()

        self._tell(events)

    def _tell(self, events: Callable[[], Iterable[Event]]) -> None:
        with self._session_lock:
            if self._is_over.is_set():
                return
            try:
                self._carry_out(events())
            except OSError:  # nobody reads any more; the reader will notice
                os.kill(os.getpid(), signal.SIGTERM)

    def _changed(self, what: str) -> None:
        lists = {"tools", "prompts", "resources"}
        if what in lists:
            self._tell(lambda: self._session.list_changed(what))
        else:
            self._tell(lambda: self._session.resource_updated(what))

    # ------------------------------------------------------------------ the end

    def _watch_parent(self, parent: int) -> None:
        while not self._is_over.wait(WATCHDOG_S):
            if os.getppid() != parent:
                self._end()

    def _end(self) -> None:
        """End every call and say the last words, then end this process; at most once."""
        with self._session_lock:
            if self._is_over.is_set():
                return
            running = tuple(self._running.values())
            with suppress(OSError):  # nobody hears them
                self._carry_out(self._session.close())
            self._is_over.set()
        deadline = time.monotonic() + END_S
        for cancellation in running:
            cancellation.cancel()
        self._features.close()
        while self._idle < len(self._threads) and time.monotonic() < deadline:
            time.sleep(0.01)
        sys.stderr.flush()
        os._exit(0)


_ENDING_SIGNALS = [
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
]


def _stop(_number: int, _frame: object) -> None:
    for number in _ENDING_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # once is enough
    raise _Stop


def line_of(message: Message) -> bytes:
    """A message as one line of UTF-8; half characters, which no encoding has, are replaced."""
    text = json.dumps(as_json(message), ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text).encode() + b"\n"


def internal_error(error: BaseException) -> RpcError:
    """What a client is told of a failure of ours; the traceback goes to standard error."""
    import traceback
    import uuid

    reference = uuid.uuid4().hex[:12]
    sys.stderr.write(
        f"rye: internal error {reference}\n{''.join(traceback.format_exception(error))}"
    )
    return RpcError(INTERNAL_ERROR, "internal error", {"error_ref": reference})
