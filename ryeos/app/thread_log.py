"""Following a thread: who hears it in this process, its log for others, and the order to end it.

The log lies in the thread's folder of user space: what the model says as it comes, and a line for
each call. It is for people, so what would steer a terminal is an escape in it; the journal decides.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.foreign_text import one_line, without_control_characters
from lillux.values import dataclass, field, replace
from ryeos.agent.messages import Piece
from ryeos.agent.thread_state import ACTIVE
from ryeos.app.progress import EVENT_WORDS
from ryeos.items.errors import RyeError

if TYPE_CHECKING:
    from ryeos.agent.records import AgentRecords, Journal

LOG = "log"
MAX_LOG_BYTES = 16 * 1024 * 1024
KILL = "kill"
_KILL_POLL_S = 0.2
_END_POLL_S = 0.1
_LOG_POLL_S = 0.2
_POLLS_OF_LIFE = 10  # so many polls without news, then it is looked at whether the thread runs
_CHUNK_BYTES = 64 * 1024
_HERE: set[Path] = set()  # the folders of threads that this process carries out


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """The follower of a thread while it runs. ``finish`` ends it after the present turn.

    ``caller`` is who has it run, for its receipt; empty for the one of the workspace.
    """

    piece: Callable[[Piece], None] = lambda _piece: None
    event: Callable[[str, Mapping[str, Any]], None] = lambda _kind, _facts: None
    stop: Cancellation = field(default_factory=Cancellation)
    finish: Cancellation = field(default_factory=Cancellation)
    caller: Mapping[str, Any] = field(default_factory=dict)


def kill(records: "AgentRecords", thread_id: str, grace_s: float) -> bool:
    """Have the process that runs a thread end it at once, and nothing else that it does.

    False where no process runs it. Raises RyeError `TIMEOUT`.
    """
    if not records.has(thread_id) or not records.is_running(thread_id):
        return False
    records.order(thread_id, KILL)
    until, waiting = monotonic() + grace_s, Event()
    while records.is_running(thread_id):
        if monotonic() >= until:
            raise RyeError(
                f"thread {thread_id}: still running {grace_s:g} s after the order to end",
                code="TIMEOUT",
                hint="it ends as soon as its process looks; wait longer with:"
                f" rye threads kill {thread_id} --grace 60",
            )
        waiting.wait(_END_POLL_S)
    return True


def wait_until_over(records: "AgentRecords", thread_id: str, timeout_s: float | None) -> None:
    """Wait until no process runs a thread any more; so long at most, None for no limit."""
    until, waiting = None if timeout_s is None else monotonic() + timeout_s, Event()
    while records.is_running(thread_id) and (until is None or monotonic() < until):
        waiting.wait(
            _KILL_POLL_S if until is None else max(min(_KILL_POLL_S, until - monotonic()), 0)
        )


@contextmanager
def followed(journal: "Journal", following: Following) -> Iterator[Following]:
    """The same, with a log, and with an end at once where a person orders that.

    The order ends this thread alone: whatever else the caller's cancellation would end goes on.
    """
    stop, over = Cancellation(), Event()

    def obey() -> None:
        while not over.wait(_KILL_POLL_S):
            if journal.has_order(KILL):
                stop.cancel()
                return

    _HERE.add(journal.folder)
    with _Log(journal.folder / LOG) as log, following.stop.waking(stop.cancel):
        if following.stop.is_set:
            stop.cancel()
        Thread(target=obey, name="rye-thread-orders", daemon=True).start()

        def piece(one: Piece) -> None:
            if one.kind == "text":
                log.write(without_control_characters(one.text))
            following.piece(one)

        def event(kind: str, facts: Mapping[str, Any]) -> None:
            log.event(kind, facts)
            following.event(kind, facts)

        try:
            yield replace(following, piece=piece, event=event, stop=stop)
        finally:
            over.set()
            _HERE.discard(journal.folder)


def is_followed_here(records: "AgentRecords", thread_id: str) -> bool:
    """True if this very process carries the thread out. No file says so: those can be written."""
    with suppress(LilluxError):  # ids of tools in the background may have a slash
        return records.folder_of(thread_id) in _HERE
    return False


class _Log:
    """A file that grows, up to a bound. What cannot be written is left out: no turn ends by it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = -1
        self._size = 0
        self._is_in_line = False

    def __enter__(self) -> Self:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        with suppress(OSError):
            self._descriptor = os.open(self._path, flags | getattr(os, "O_BINARY", 0), 0o600)
            self._size = os.fstat(self._descriptor).st_size
        return self

    def __exit__(self, *_: object) -> None:
        self._end_line()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def write(self, text: str) -> None:
        """Append a text."""
        data = text.encode("utf-8", "backslashreplace")
        if self._descriptor < 0 or not data or self._size + len(data) > MAX_LOG_BYTES:
            return
        with suppress(OSError):
            self._size += os.write(self._descriptor, data)
            self._is_in_line = not text.endswith("\n")

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Append a line for what happens, where there are words for it."""
        self._end_line()
        words = EVENT_WORDS.get(kind)
        if words is not None:
            self.write(f"[{one_line(words.format(**facts), 200)}]\n")

    def _end_line(self) -> None:
        if self._is_in_line:
            self.write("\n")


def log_of(records: "AgentRecords", thread_id: str, *, follow: bool) -> Iterator[str]:
    """The log of a thread, in pieces; following, until the thread has ended or was killed.

    What would steer a terminal is an escape, also in a log that was written without. Raises as
    `AgentRecords.events` where the journal was changed: the log is no truer than that.
    """
    from codecs import getincrementaldecoder

    records.settled_events(thread_id)
    try:
        file = (records.folder_of(thread_id) / LOG).open("rb")
    except FileNotFoundError:
        return
    decoder = getincrementaldecoder("utf-8")("replace")  # a piece may end within a character
    with file:
        for _ in _looks(records, thread_id, follow=follow):
            while chunk := file.read(_CHUNK_BYTES):
                yield without_control_characters(decoder.decode(chunk))


def events_of(records: "AgentRecords", thread_id: str, *, follow: bool) -> Iterator[dict[str, Any]]:
    """The events of a thread; following, as they come, until it has ended or was killed.

    Raises as `AgentRecords.events`.
    """
    told = 0
    for _ in _looks(records, thread_id, follow=follow):
        events = records.settled_events(thread_id) or ()
        for one in events[told:]:
            if one.event_type != ACTIVE:
                yield {"type": one.event_type, **one.payload}
        told = max(told, len(events))


def _looks(records: "AgentRecords", thread_id: str, *, follow: bool) -> Iterator[None]:
    """When to look for news: at once, with each change of the journal or the log, at the end."""
    folder = records.folder_of(thread_id)
    seen, quiet, waiting = (-1, -1), _POLLS_OF_LIFE, Event()
    while follow:
        sizes = (_size(folder / LOG), _size(folder / "journal.jsonl"))
        quiet = 0 if sizes != seen else quiet + 1
        if sizes != seen:
            seen = sizes
            yield
        # To ask takes the lock of the thread for a moment: so it is asked seldom.
        if quiet in {1, _POLLS_OF_LIFE} and not records.is_running(thread_id):
            break
        quiet %= _POLLS_OF_LIFE
        waiting.wait(_LOG_POLL_S)
    yield


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
