"""Ends an HTTP exchange from outside: at its deadline, or when it is cancelled.

A blocked read cannot be interrupted, but its connection can be shut down: whatever the thread of
the exchange waits for, it then gets an end of file or an error, and asks `Interruption` for why.
"""

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from queue import SimpleQueue
from threading import RLock, Thread, Timer
from time import monotonic

from lillux.cancellation import Cancellation
from lillux.http.errors import ExchangeCancelledError, ExchangeTimeoutError

_SHORTEST_WAIT_S = 0.001

SocketOptions = Iterable[tuple[int, int, int | bytes]]


class LiveSocket:
    """A second handle of a connection's socket, which stays when TLS takes the first one over.

    Connections are used by one exchange after another: only the one that has claimed it last can
    shut it down.
    """

    def __init__(self, connected: socket.socket) -> None:
        self._handle = connected.dup()
        self._user: object = None
        self._is_discarded = False
        # Reentrant, here and below: a signal handler may cancel while its own thread is inside.
        self._lock = RLock()

    def claim(self, user: object) -> None:
        """From now on this connection is in the hands of ``user``."""
        with self._lock:
            self._user = user

    def shut_down(self, user: object) -> None:
        """End both directions, if ``user`` still has it."""
        with self._lock:
            if self._user is user:
                with suppress(OSError):  # it has ended already
                    self._handle.shutdown(socket.SHUT_RDWR)

    def release(self, user: object) -> None:
        """``user`` is done with it."""
        with self._lock:
            if self._user is user:
                self._user = None
                self._close_if_unused()

    def discard(self) -> None:
        """It will not be claimed again: it is closed now, or when its user is done.

        A connection that its server will close is closed as soon as the body begins; the body is
        still read.
        """
        with self._lock:
            self._is_discarded = True
            self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._is_discarded and self._user is None:
            self._handle.close()


class Interruption:
    """Means to end one exchange early. Of one thread, but for `interrupt`."""

    def __init__(self, url: str, timeout_s: float | None) -> None:
        self._url, self._timeout_s = url, timeout_s
        self._deadline = None if timeout_s is None else monotonic() + timeout_s
        self._reason: type[ExchangeCancelledError | ExchangeTimeoutError] | None = None
        self._live: LiveSocket | None = None
        self._wake: Callable[[], None] = _no_callback
        self._lock = RLock()

    @contextmanager
    def watching(self, cancellation: Cancellation | None) -> Iterator[None]:
        """Inside the block the deadline and the cancellation are heard."""
        with ExitStack() as watched:
            if cancellation is not None:
                watched.enter_context(cancellation.waking(self._cancel))
                if cancellation.is_set:
                    self._cancel()
            if self._timeout_s is not None:
                timer = Timer(self._timeout_s, self._expire)
                timer.daemon = True
                timer.start()
                watched.callback(timer.cancel)
            watched.callback(self._let_go)
            yield

    def check(self) -> None:
        """Raises ExchangeCancelledError or ExchangeTimeoutError once it was interrupted."""
        if self._reason is ExchangeCancelledError:
            raise ExchangeCancelledError(self._url)
        # (A socket's own limit may tell before the timer does.)
        if self._reason is ExchangeTimeoutError or self._is_late():
            raise ExchangeTimeoutError(self._url, self._timeout_s or 0)

    def _is_late(self) -> bool:
        return self._deadline is not None and monotonic() >= self._deadline

    @property
    def remaining_s(self) -> float | None:
        """Seconds until the deadline, never 0: sockets take that for something else."""
        if self._deadline is None:
            return None
        return max(self._deadline - monotonic(), _SHORTEST_WAIT_S)

    def follow(self, live: LiveSocket) -> None:
        """From now on the exchange goes over this connection."""
        with self._lock:
            if self._live is not None and self._live is not live:
                self._live.release(self)
            live.claim(self)
            self._live = live
            if self._reason is not None:
                live.shut_down(self)

    def dial(self, host: str, port: int, options: SocketOptions) -> socket.socket:
        """A connection, looked up and made in a thread that can be left behind.

        Neither the look-up of a name nor a connection under way can be ended on every system.
        Raises OSError, and what `check` raises.
        """
        answers: SimpleQueue[socket.socket | OSError | None] = SimpleQueue()
        self._wake = lambda: answers.put(None)
        self.check()
        dialer = _Dialer(answers, self.remaining_s)
        Thread(target=dialer.dial, args=(host, port, options), daemon=True).start()
        answer = answers.get()
        self._wake = _no_callback
        if isinstance(answer, socket.socket) and self._reason is None:
            return answer
        dialer.abandon()
        if isinstance(answer, socket.socket):
            answer.close()
        self.check()
        raise answer if isinstance(answer, OSError) else OSError("no answer came")

    def _cancel(self) -> None:
        self._interrupt(ExchangeCancelledError)

    def _expire(self) -> None:
        self._interrupt(ExchangeTimeoutError)

    def _interrupt(self, reason: type[ExchangeCancelledError | ExchangeTimeoutError]) -> None:
        with self._lock:
            self._reason = self._reason or reason
            live, wake = self._live, self._wake
        wake()
        if live is not None:
            live.shut_down(self)

    def _let_go(self) -> None:
        with self._lock:
            live, self._live = self._live, None
        if live is not None:
            live.release(self)


class _Dialer:
    """Makes one connection, unless it was abandoned: then it closes what it has."""

    def __init__(
        self, answers: "SimpleQueue[socket.socket | OSError | None]", timeout_s: float | None
    ) -> None:
        self._answers, self._timeout_s = answers, timeout_s
        self._is_abandoned = False
        self._lock = RLock()

    def dial(self, host: str, port: int, options: SocketOptions) -> None:
        """Answer with a socket or an OSError."""
        try:
            made: socket.socket | OSError = self._connected(host, port, options)
        except OSError as error:
            made = error
        with self._lock:
            if not self._is_abandoned:
                self._answers.put(made)
                return
        if isinstance(made, socket.socket):
            made.close()

    def abandon(self) -> None:
        """No caller waits for the answer any more."""
        with self._lock:
            self._is_abandoned = True
        while not self._answers.empty():
            left = self._answers.get()
            if isinstance(left, socket.socket):
                left.close()

    def _connected(self, host: str, port: int, options: SocketOptions) -> socket.socket:
        # (As bytes: text would be encoded as an international name, with tables to load for it.)
        found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
        failure = OSError(f"no address for {host}")
        for position, (family, kind, protocol, _, place) in enumerate(found):
            try:
                connecting = socket.socket(family, kind, protocol)
            except OSError as error:  # a family that this machine does not speak
                failure = error
                continue
            try:
                for option in options:
                    connecting.setsockopt(*option)
                if self._timeout_s is not None:  # what is left is shared by those that are left
                    connecting.settimeout(self._timeout_s / (len(found) - position))
                connecting.connect(place)
            except OSError as error:
                connecting.close()
                failure = error
            else:
                return connecting
        raise failure


def _no_callback() -> None:
    pass
