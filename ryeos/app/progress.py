"""Progress, cancellation and questions of one call."""

import json
from collections.abc import Callable, Mapping
from math import isfinite
from threading import Event, Lock, Thread, Timer
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from lillux.cancellation import Cancellation
from lillux.foreign_text import one_line
from lillux.values import dataclass, field

if TYPE_CHECKING:
    from ryeos.graph.runner import StepEvent

HEARTBEAT_S = 5.0
LEAST_APART_S = 0.1
MAX_MESSAGE_CHARACTERS = 120
PROGRESS_MARK = b"::rye-progress "
_MAX_LINE_BYTES = 8192
_BEGUN = 0.001
EVENT_WORDS: Mapping[str, str] = {
    "called": "calls {name} ({item})",
    "waiting": "waits {seconds} s: {reason}",
    "lowered": "{problem}",
    "unanswered": "no answer ({code}): {error}",
    "other_model": "asked {asked}, {answered} answered",
}
"""Events of a thread of a model, in words for those who follow it."""

Progress = Callable[[float, float | None, str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """The context that one call gets from the face that made it.

    progress        tells how far it is: done, of how much (None if unknown), in words
    wants_progress  whether a client listens to that
    extra_env       variables for the processes that it starts
    known_texts     digests of texts that its caller knows, by item
    """

    cancellation: Cancellation
    progress: Progress
    wants_progress: bool = False
    extra_env: Mapping[str, str] = field(default_factory=dict)
    known_texts: Mapping[str, str] = field(default_factory=dict)


class ToolProgress:
    """Reports progress of a process from its standard error, and that it still runs.

    A line ``::rye-progress {"progress": 3, "total": 10, "message": "..."}`` is passed on, at most
    ten a second and only forwards, the last one in any case. Until there is one, every five seconds
    tell the time and the last line. Use as a context; feed it as ``on_stderr``.
    """

    def __init__(self, tell: Progress) -> None:
        self._tell = tell
        self._lock = Lock()
        self._begun = bytearray()
        self._last_line = ""
        self._last_progress = -1.0
        self._reported_at = 0.0
        self._unreported: tuple[float, float | None, str] | None = None
        self._later: Timer | None = None
        self._reports = False
        self._turns = self._parts = 0
        self._text = ""
        self._started = monotonic()
        self._is_over = Event()

    def __enter__(self) -> Self:
        Thread(target=self._beat, name="rye-heartbeat", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        if self._later:
            self._later.cancel()
        self._tell_unreported()

    def feed(self, chunk: bytes) -> None:
        """The next bytes of standard error."""
        *lines, rest = (bytes(self._begun) + chunk).split(b"\n")
        self._begun[:] = rest[-_MAX_LINE_BYTES:]
        for line in lines:
            if line.startswith(PROGRESS_MARK):
                self._report(line.removeprefix(PROGRESS_MARK))
            elif line.strip():
                self._last_line = line.decode("utf-8", "replace").strip()

    def step(self, event: "StepEvent") -> None:
        """Report a step of a graph: a whole number once it is done, a fraction before that."""
        self._reports = True
        words = f"{event.node}: {event.what}"
        if event.what == "progress":
            words = f"{event.node}: {event.done}" + (f" of {event.total}" if event.total else "")
        self._say(event.step - 1 + _share(event), None, words)

    def piece(self, kind: str, text: str) -> None:
        """Report a part of a model's answer in a thread: the last line of what it says."""
        if kind == "text" and text:
            self._text = (self._text + text)[-_MAX_LINE_BYTES:]
            lines = self._text.split("\n")
            self._of_thread(lines[-1] or lines[-2 if len(lines) > 1 else -1])

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Report what happens in a thread: a whole number for each turn that is answered."""
        if kind == "answered":
            self._turns, self._parts, self._text = int(facts["turn"]), 0, ""
            self._reports = True
            self._say(float(self._turns), None, f"turn {self._turns} is answered")
        elif kind in EVENT_WORDS:
            self._of_thread(EVENT_WORDS[kind].format(**facts))

    def _of_thread(self, words: str) -> None:
        self._reports = True
        self._parts += 1
        self._say(self._turns + self._parts / (self._parts + 1), None, words)

    def _report(self, text: bytes) -> None:
        try:
            report = json.loads(text)
        except (ValueError, RecursionError):
            return
        if not isinstance(report, dict) or not _is_number(report.get("progress")):
            return
        total = report.get("total") if _is_number(report.get("total")) else None
        message = report.get("message")
        self._reports = True
        self._say(float(report["progress"]), total, message if isinstance(message, str) else "")

    def _say(self, done: float, total: float | None, message: str) -> None:
        with self._lock:
            if done <= self._last_progress:
                return
            self._last_progress = done
            words = one_line(message)[:MAX_MESSAGE_CHARACTERS]
            if monotonic() - self._reported_at < LEAST_APART_S and done != total:
                self._unreported = done, total, words
                if self._later is None:
                    self._later = Timer(LEAST_APART_S, self._tell_unreported)
                    self._later.daemon = True
                    self._later.start()
                return
            self._reported_at, self._unreported = monotonic(), None
            self._tell(done, total, words)

    def _tell_unreported(self) -> None:
        """Pass on what came too soon: nothing may follow it for a while."""
        with self._lock:
            held, self._unreported, self._later = self._unreported, None, None
            if held:
                self._reported_at = monotonic()
                self._tell(*held)

    def _beat(self) -> None:
        while not self._is_over.wait(HEARTBEAT_S):
            if not self._reports:
                self._say(round(monotonic() - self._started, 1), None, self._last_line)


def _share(event: "StepEvent") -> float:
    """The part of its step that is done, from 0 to 1; without a total, one more unit is left."""
    if event.what == "finished":
        return 1.0
    return (event.done + _BEGUN) / (max(event.total, event.done) + 1)


class StepProgress:
    """Reports work that is done in steps: at most ten reports a second, and always the last one."""

    def __init__(self, tell: Progress, *, clock: Callable[[], float] = monotonic) -> None:
        self._tell, self._clock = tell, clock
        self._reported_at: float | None = None

    def step(self, done: int, total: int, message: str) -> None:
        """Report that ``done`` of ``total`` steps are done; ``message`` names the last one."""
        now = self._clock()
        too_soon = self._reported_at is not None and now - self._reported_at < LEAST_APART_S
        if too_soon and done < total:
            return
        self._reported_at = now
        self._tell(done, total, message[:MAX_MESSAGE_CHARACTERS])


def _is_number(value: Any) -> bool:  # noqa: ANN401 - JSON
    """True if it is a number that can be sent: JSON has no other than finite ones."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    try:
        return isfinite(value)
    except OverflowError:  # an integer beyond all floats
        return False
