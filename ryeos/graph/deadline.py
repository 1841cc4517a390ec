"""What ends a run from outside: its caller, its time, and a file that somebody puts there."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from threading import Event, Thread
from types import TracebackType
from typing import Self

from lillux.process.cancellation import Cancellation

LOOK_S = 0.5


class RunEnd:
    """The end of a run. As a context it watches; ``cancellation`` ends whatever the run does.

    caller      ends the run when it is set
    timeout_s   how long the run may take; None for no limit
    is_asked    tells whether somebody wants it ended; looked at every half second
    """

    def __init__(
        self,
        caller: Cancellation | None,
        timeout_s: float | None,
        is_asked: Callable[[], bool] = lambda: False,
    ) -> None:
        self.cancellation = Cancellation()
        self.has_timed_out = False
        self._caller, self._timeout_s, self._is_asked = caller, timeout_s, is_asked
        self._over = Event()
        self._stack = ExitStack()

    @property
    def goes_on(self) -> bool:
        """Whether another step may be taken."""
        return not self.cancellation.is_set

    def pause(self, seconds: float) -> bool:
        """Wait, unless the run is ended meanwhile; whether it goes on."""
        woken = Event()
        with self.cancellation.waking(woken.set):
            if self.goes_on and seconds > 0:
                woken.wait(seconds)
        return self.goes_on

    def __enter__(self) -> Self:
        if self._caller:
            self._stack.enter_context(self._caller.waking(self.cancellation.cancel))
            if self._caller.is_set:
                self.cancellation.cancel()
        Thread(target=self._watch, name="rye-graph-end", daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._stack.close()

    def _watch(self) -> None:
        ends_at = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while not self._over.wait(self._next_look(ends_at)):
            if ends_at is not None and time.monotonic() >= ends_at:
                self.has_timed_out = True
            elif not self._is_asked():
                continue
            self.cancellation.cancel()
            return

    def _next_look(self, ends_at: float | None) -> float:
        if ends_at is None:
            return LOOK_S
        return max(0.0, min(LOOK_S, ends_at - time.monotonic()))
