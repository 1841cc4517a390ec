"""Records of threads: a folder for each in user space, with its journal, results and orders.

``~/.ai/state/agent/threads/ID/`` is out of reach of everything that Rye confined. The project's
registry and transcripts are views of it, and decide nothing.

    journal.jsonl   see `ryeos.agent.journal`; the receipt key signs all of it with each write
    results/N       a result of a tool that is longer than a model gets at once
    transcript.md   see `ryeos.agent.transcript`; written when the thread ends
    orders/         what a person wants of a running thread: a stop, a text; one file for each
    apart           a person went on with the thread of a graph, which has not had its result
    lock            held by the process that runs it
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Lock
from typing import Any, Self

from lillux.beneath import LinkOnTheWayError, is_link
from lillux.canonical_json import canonical_json
from lillux.errors import LilluxError
from lillux.file_locks import LockTimeoutError, locked
from lillux.files import make_directory, read_bytes, read_part, remove_file, write_atomic
from ryeos.agent.journal import after, begun
from ryeos.agent.ledger import FOLDER, JournaledCall, Ledger
from ryeos.agent.prices import dollars
from ryeos.agent.thread_state import INTERRUPTED, RUNNING, AgentThread
from ryeos.graph.run_places import valid_run_id
from ryeos.graph.transcript import (
    CHECKPOINT,
    MAX_TRANSCRIPT_BYTES,
    EventRecord,
    LoggedEvent,
    ReadTranscript,
    Transcript,
    parse_transcript,
    reopen,
)
from ryeos.items.context import Clock, log_warning, utc_now
from ryeos.items.errors import RyeError
from ryeos.run.receipt_key import ReceiptKey
from ryeos.trust.signing_key import SigningKey

THREADS, JOURNAL, RESULTS, ORDERS = "threads", "journal.jsonl", "results", "orders"
APART = "apart"
MAX_ORDER_BYTES = 64 * 1024
MAX_RESULT_BYTES = 64 * 1024 * 1024
_PRIVATE = 0o700
_PART_BYTES = 256 * 1024
_NEWEST = 32
"""Journals that are looked at for the newest reservation."""
_WRITTEN_DAYS = 2
"""A journal that was written longer before a day has no call of it, whatever a clock said."""
_END_BYTES = 64 * 1024
_RESERVATION = re.compile(rb'"ledger":"(\d{1,15})-[0-9a-f]{16}"')
_LOCK_S = 1.0
"""A killed process leaves its lock to a program that it was about to start, for a moment."""


class AgentRecords:
    """The threads of a user space, whose ``.ai`` folder this is."""

    def __init__(self, ai: Path, key: ReceiptKey, clock: Clock = utc_now) -> None:
        self.folder = ai / FOLDER / THREADS
        self._key, self._clock = key, clock

    def has(self, thread_id: str) -> bool:
        """True if there is a journal of this id."""
        with suppress(LilluxError):  # ids of tools in the background may have a slash
            return (self.folder_of(thread_id) / JOURNAL).is_file()
        return False

    def ids(self) -> tuple[str, ...]:
        """The ids of all threads, sorted."""
        if not self.folder.is_dir():
            return ()
        return tuple(sorted(one.name for one in self.folder.iterdir() if self.has(one.name)))

    def links(self) -> tuple[Path, ...]:
        """Links among the threads that lead elsewhere, sorted: no thread, and not ours."""
        if not self.folder.is_dir():
            return ()
        return tuple(sorted(one for one in self.folder.iterdir() if _leads_elsewhere(one)))

    def folder_of(self, thread_id: str) -> Path:
        """The folder of a thread, which may not be there. Raises RunIdError, LinkOnTheWayError.

        What a link leads to is no thread: nothing there is read, written or removed.
        """
        folder = self.folder / valid_run_id(thread_id)
        if _leads_elsewhere(folder):
            raise LinkOnTheWayError(folder, str(folder.readlink()), self.folder)
        return folder

    def begin(self, thread_id: str, started: Mapping[str, Any]) -> "Journal":
        """The journal of a new thread, with its first event on the disk."""
        folder = self.folder_of(thread_id)
        with ExitStack() as undo:  # a thread that could not begin leaves nothing behind
            if not os.path.lexists(folder):
                undo.callback(_remove_folder, folder)
            for made in (folder, folder / RESULTS, folder / ORDERS):
                make_directory(made, mode=_PRIVATE)
            held = _lock(folder, thread_id)
            undo.callback(held.__exit__, None, None, None)
            pair = SigningKey(self._key.pair())
            transcript = Transcript(folder / JOURNAL, thread_id, key=pair, clock=self._clock)
            undo.callback(transcript.close)
            journal = Journal(folder, transcript, begun(started), held)
            transcript.append_signed([("thread", started)], 0)
            transcript.force()
            undo.pop_all()
        return journal

    def read(self, thread_id: str) -> AgentThread:
        """The thread as its journal says, also while it runs. Raises as `events`."""
        return _folded(self.events(thread_id), thread_id)

    def read_with_events(self, thread_id: str) -> tuple[AgentThread, tuple[LoggedEvent, ...]]:
        """The thread and its events, of one read of its journal. Raises as `events`."""
        events = self.events(thread_id)
        return _folded(events, thread_id), events

    def events(self, thread_id: str) -> tuple[LoggedEvent, ...]:
        """The events of a journal without its checkpoints.

        Raises RyeError `THREAD_NOT_FOUND` or `INTEGRITY`, TranscriptError.
        """
        return self._read(thread_id)[0]

    def settled_events(self, thread_id: str) -> tuple[LoggedEvent, ...] | None:
        """The `events`; None while a line is being written by the process that runs the thread."""
        try:
            return self.events(thread_id)
        except LilluxError:
            if self.is_running(thread_id):
                return None
            return self.events(thread_id)  # it may have ended in between

    def state_of(self, thread_id: str, thread: AgentThread) -> str:
        """The state of a thread, the one rule of it: without an end it runs, or is interrupted."""
        if thread.ended:
            return thread.ended.state
        return RUNNING if self.is_running(thread_id) else INTERRUPTED

    def _read(self, thread_id: str) -> tuple[tuple[LoggedEvent, ...], int]:
        """The events that are signed, and where they end.

        Each write is signed, so behind the last signature stands at most what a kill cut short,
        which is as if it was not there.
        """
        path = self.folder_of(thread_id) / JOURNAL
        try:
            data = read_bytes(path, MAX_TRANSCRIPT_BYTES)
        except FileNotFoundError:
            raise RyeError(
                f"thread {thread_id}: it has no journal in {self.folder}",
                code="ITEM_NOT_FOUND",
                hint="list the threads there are: rye threads list",
            ) from None
        found = self._verified(path, data, thread_id)
        signed = [
            one.end
            for one in found.events
            if one.event_type == CHECKPOINT and one.payload.get("sig") is not None
        ]
        end = signed[-1] if signed else 0
        whole = data.rfind(b"\n") + 1
        if whole > found.end or end < whole == len(data):
            raise RyeError(
                f"{path}: its last lines are not signed: they are not as Rye wrote them",
                code="INTEGRITY",
                hint="the journal was changed; start a new thread",
                path=str(path),
            )
        events = (one for one in found.events if one.end <= end and one.event_type != CHECKPOINT)
        return tuple(events), end

    def _verified(self, path: Path, data: bytes, thread_id: str) -> ReadTranscript:
        """The events of a journal, or of the first lines of one. Raises as `events`."""
        try:
            return parse_transcript(data, str(path), thread_id, self._trusted)
        except RyeError as error:
            if error.code != "UNTRUSTED_KEY":
                raise
            raise RyeError(
                f"{path}: it is signed by another key than the receipt key of this user",
                code="INTEGRITY",
                hint="it was changed, or comes from another user space; start a new thread",
                path=str(path),
            ) from None

    def beginning(self, thread_id: str) -> LoggedEvent | None:
        """The first event of a journal, of its first two lines alone: the event, its signature.

        None where there is none yet, or none any more. Raises as `events`.
        """
        path = self.folder_of(thread_id) / JOURNAL
        data = _first_lines(path, 2)
        return self._first_event(path, data, thread_id) if data else None

    def beginning_in(self, thread_id: str, project: str | None) -> LoggedEvent | None:
        """The `beginning`; None, too, for a thread of another project, which costs little."""
        path = self.folder_of(thread_id) / JOURNAL
        data = _first_lines(path, 2)
        if canonical_json({"project": project})[1:-1] not in data:
            return None
        event = self._first_event(path, data, thread_id)
        return event if event.payload.get("project") == project else None

    def _first_event(self, path: Path, data: bytes, thread_id: str) -> LoggedEvent:
        match self._verified(path, data, thread_id).events:
            case (LoggedEvent(event_type="thread") as first, LoggedEvent() as second) if (
                second.event_type == CHECKPOINT and second.payload.get("sig") is not None
            ):
                return first
        raise RyeError(
            f"{path}: its beginning is not signed: it is not as Rye wrote it",
            code="INTEGRITY",
            hint="the journal was changed; start a new thread",
            path=str(path),
        )

    def _trusted(self, fingerprint: str) -> bytes | None:
        """Only the receipt key of this user signs journals here."""
        pair = SigningKey(self._key.pair())
        return pair.public_pem if fingerprint == pair.fingerprint else None

    def reopen(self, thread_id: str) -> "Journal":
        """The journal of a thread that no process runs, to go on with it.

        What a kill cut short is left out. Raises as `events`, and RyeError `CONFLICT` for a thread
        that runs.
        """
        folder = self.folder_of(thread_id)
        if not folder.is_dir():
            self._read(thread_id)
        held = _lock(folder, thread_id)
        events, end = self._read(thread_id)
        transcript = reopen(
            folder / JOURNAL,
            thread_id,
            key=SigningKey(self._key.pair()),
            clock=self._clock,
            end=end,
        )
        return Journal(folder, transcript, _folded(events, thread_id), held)

    def changed_at(self, thread_id: str) -> float:
        """When its journal was changed last, in seconds; now for one that is being removed."""
        try:
            return (self.folder_of(thread_id) / JOURNAL).stat().st_mtime
        except FileNotFoundError:
            return self._clock().timestamp()

    def is_running(self, thread_id: str) -> bool:
        """True if a process holds the thread at this moment."""
        try:
            _lock(self.folder_of(thread_id), thread_id, 0.0).__exit__(None, None, None)
        except RyeError:
            return True
        return False

    def remove(self, thread_id: str) -> bool:
        """Remove a thread with all that it left here; False, and nothing, while a process runs it.

        The journal goes first: who waits for the thread then finds none to go on with.
        """
        folder = self.folder_of(thread_id)
        try:
            held = _lock(folder, thread_id, 0.0)
        except RyeError:
            return False
        try:
            with suppress(FileNotFoundError):
                remove_file(folder / JOURNAL)
        finally:
            held.__exit__(None, None, None)
        _remove_folder(folder)
        return True

    def ledger(self, *, daily: int, warn: Callable[[str], None] = log_warning) -> Ledger:
        """The ledger of this user space; where it is lost, or older than journals, these count."""

        def calls(date: str, known: int | None) -> list[JournaledCall]:
            found, unreadable = self.calls_since(date)
            missing = sum(one.amount for one in found if known is None or one.number > known)
            if missing:
                what = "it is not there" if known is None else "it is an older copy"
                warn(
                    f"{ledger.path}: {what}, though threads were paid since: the"
                    f" {dollars(missing)} dollars that their journals say are counted again"
                )
            for thread_id in unreadable:
                warn(f"thread {thread_id}: its journal was changed, its calls count nothing")
            return found

        ai = self.folder.parents[len(Path(FOLDER).parts)]
        ledger = Ledger(
            ai,
            daily=daily,
            key=self._key,
            clock=self._clock,
            newest=self.newest_reservation,
            calls=calls,
        )
        return ledger

    def newest_reservation(self) -> int:
        """The highest number of a reservation that the newest journals seem to name.

        Only their ends are read, and not verified. 0 where there is none. The newest reservation
        is in one of them, unless as many other threads wrote since then.
        """
        from heapq import nlargest

        written = []
        with suppress(FileNotFoundError):
            for folder in os.scandir(self.folder):
                with suppress(OSError):
                    if not folder.is_dir(follow_symlinks=False):
                        continue
                    path = Path(folder.path, JOURNAL)
                    written.append((path.stat().st_mtime_ns, path))
        highest = 0
        for _, path in nlargest(_NEWEST, written):
            with suppress(FileNotFoundError, LilluxError):  # it was removed in between
                highest = max(highest, _newest_in(path))
        return highest

    def calls_since(self, date: str) -> tuple[list[JournaledCall], list[str]]:
        """The calls of all threads that began on a day of UTC or later, as their journals say.

        And the threads whose journals were changed: what they were charged is not known.
        """
        oldest = datetime.fromisoformat(date).replace(tzinfo=UTC) - timedelta(days=_WRITTEN_DAYS)
        found: list[JournaledCall] = []
        unreadable = []
        for thread_id in self.ids():
            path = self.folder_of(thread_id) / JOURNAL
            try:
                if path.stat().st_mtime >= oldest.timestamp():  # else nothing was written since
                    calls = _calls_of(self.events(thread_id))
                    found += [one for one in calls if one.date >= date]
            except FileNotFoundError:  # it was removed in between
                continue
            except (LilluxError, KeyError, TypeError, ValueError):
                unreadable.append(thread_id)
        return found, unreadable

    def result(self, thread_id: str, number: int) -> str:
        """The whole text of a long result. Raises FileNotFoundError."""
        path = self.folder_of(thread_id) / RESULTS / str(number)
        return read_bytes(path, MAX_RESULT_BYTES).decode("utf-8", "replace")

    def copy_results(self, old_id: str, new_id: str) -> None:
        """Have a new thread keep the long results of an older one, under the same numbers."""
        old, new = self.folder_of(old_id) / RESULTS, self.folder_of(new_id) / RESULTS
        make_directory(new.parent, mode=_PRIVATE)
        make_directory(new, mode=_PRIVATE)
        if old.is_dir():
            for one in sorted(old.iterdir()):
                if one.name.isdecimal():
                    write_atomic(new / one.name, read_bytes(one, MAX_RESULT_BYTES), mode=0o600)

    def keep_transcript(self, thread_id: str, text: str) -> None:
        """Keep the page of a thread that has ended, signed. Raises FileSystemError."""
        from ryeos.agent.transcript import FILE, sign

        data = sign(text, SigningKey(self._key.pair()))
        write_atomic(self.folder_of(thread_id) / FILE, data, mode=0o600)

    def transcript(self, thread_id: str) -> str:
        """That page, verified; ``""`` where there is none. Raises RyeError `INTEGRITY`."""
        from ryeos.agent.transcript import FILE, MAX_BYTES, verified

        path = self.folder_of(thread_id) / FILE
        try:
            data = read_bytes(path, MAX_BYTES)
        except FileNotFoundError:
            return ""
        return verified(data, str(path), self._key.pair().public_pem)

    def note_apart(self, thread_id: str) -> None:
        """Note that a person goes on with the thread of a graph, which has not had its result."""
        write_atomic(self.folder_of(thread_id) / APART, b"", mode=0o600)

    def is_apart(self, thread_id: str) -> bool:
        """True if a person went on with it, and its graph has not had its result since."""
        return (self.folder_of(thread_id) / APART).exists()

    def take_back(self, thread_id: str) -> None:
        """Its graph has the result now."""
        (self.folder_of(thread_id) / APART).unlink(missing_ok=True)

    def has_transcript(self, thread_id: str) -> bool:
        """True if the thread has ended and left its page."""
        from ryeos.agent.transcript import FILE

        return (self.folder_of(thread_id) / FILE).is_file()

    def forget_transcript(self, thread_id: str) -> None:
        """Remove it: the thread goes on."""
        from ryeos.agent.transcript import FILE

        (self.folder_of(thread_id) / FILE).unlink(missing_ok=True)

    def order(self, thread_id: str, name: str, text: str = "") -> None:
        """Leave an order for a thread: ``cancel``, ``kill``, or a text for its next request."""
        stamp = f"{self._clock().timestamp():.6f}-{os.urandom(3).hex()}"
        path = self.folder_of(thread_id) / ORDERS / f"{stamp}.{name}"
        write_atomic(path, text.encode("utf-8", "replace")[:MAX_ORDER_BYTES], mode=0o600)


def _newest_in(path: Path) -> int:
    """The highest number of a reservation in a journal. A text in it has its quotes escaped."""
    _, size = read_part(path, 0, 0)
    data, _ = read_part(path, max(size - _END_BYTES, 0), _END_BYTES)
    numbers = _RESERVATION.findall(data)
    if not numbers and size > _END_BYTES:  # a long answer stands behind the last request
        numbers = _RESERVATION.findall(read_bytes(path, MAX_TRANSCRIPT_BYTES))
    return max(map(int, numbers), default=0)


def _calls_of(events: Sequence[LoggedEvent]) -> Iterator[JournaledCall]:
    """The calls of one journal. What a child was charged stands in the child's own."""
    thread: AgentThread | None = None
    began = ""
    for event in events:
        before = thread
        one = (event.event_type, event.payload)
        thread = after(before, one) if before else begun(event.payload)
        if event.event_type == "asked":
            began = _date(event.timestamp)
        if before and event.event_type in _SETTLING:
            spent = thread.purse.used.spend - before.purse.used.spend
            yield JournaledCall(before.ledger_entry, began, spent)
    if thread and thread.asked is not None:
        yield JournaledCall(thread.ledger_entry, began, thread.asked.worst.spend, is_open=True)


_SETTLING = frozenset({"answered", "unanswered", "shortened"})


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


class Journal:
    """The journal of one thread, open for writing by this process alone.

    ``thread`` is what its events make of it.
    """

    def __init__(
        self,
        folder: Path,
        transcript: Transcript,
        thread: AgentThread,
        held: AbstractContextManager[None],
    ) -> None:
        self.folder, self.thread = folder, thread
        self._transcript, self._held = transcript, held
        self._writing = Lock()  # children write, too

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file and of the thread."""
        self._transcript.close()
        self._held.__exit__(None, None, None)

    def write(self, *events: EventRecord, force: bool = False) -> AgentThread:
        """Append events, signed; the thread after them. Forced: they are on the disk then.

        An event that the thread does not allow is not written. Raises FileSystemError, RyeError for
        a limit.
        """
        with self._writing:
            thread = self.thread
            for event in events:
                thread = after(thread, event)
            self._transcript.append_signed(events, thread.calls)
            if force:
                self._transcript.force()
            self.thread = thread
        return thread

    def keep_result(self, text: str) -> int:
        """Keep the whole text of a long result; its number."""
        folder = self.folder / RESULTS
        with self._writing:
            number = 1 + max(
                (int(one.name) for one in folder.iterdir() if one.name.isdecimal()), default=0
            )
            write_atomic(folder / str(number), text.encode("utf-8", "replace"), mode=0o600)
        return number

    def has_order(self, name: str) -> bool:
        """True if an order of this name waits. It stays; the loop says why none can be read."""
        with suppress(OSError):
            return any(path.suffix == f".{name}" for path in (self.folder / ORDERS).iterdir())
        return False

    def orders(self, *names: str) -> Iterator[tuple[str, str]]:
        """Take the waiting orders of these names, the oldest first: name and text."""
        with suppress(FileNotFoundError):
            for path in sorted((self.folder / ORDERS).iterdir()):
                name = path.suffix[1:]
                if name in names:
                    text = read_bytes(path, MAX_ORDER_BYTES).decode("utf-8", "replace")
                    path.unlink(missing_ok=True)
                    yield name, text


def _folded(events: Any, thread_id: str) -> AgentThread:  # noqa: ANN401 - a sequence of events
    thread: AgentThread | None = None
    for event in events:
        try:
            if event.event_type == "thread":
                thread = begun(event.payload)
            elif thread is not None:
                thread = after(thread, (event.event_type, event.payload))
        except (KeyError, TypeError, ValueError) as error:
            raise RyeError(
                f"thread {thread_id}: its journal has an event {event.event_type!r:.40} that does"
                f" not follow from those before: {json.dumps(str(error))[:80]}",
                code="INTEGRITY",
                hint="the journal was changed; start a new thread",
            ) from None
    if thread is None:
        raise RyeError(f"thread {thread_id}: its journal has no beginning", code="INTEGRITY")
    return thread


def _first_lines(path: Path, count: int) -> bytes:
    """So many lines of a file, and no more of it; empty where it has fewer."""
    data = b""
    while data.count(b"\n") < count:
        try:
            part, _ = read_part(path, len(data), _PART_BYTES)
        except FileNotFoundError:
            return b""
        data += part
        if not part or len(data) > MAX_TRANSCRIPT_BYTES:
            return b""
    return b"".join(line + b"\n" for line in data.split(b"\n", count)[:count])


def _leads_elsewhere(path: Path) -> bool:
    """True if a link or a junction is there."""
    try:
        return is_link(path.lstat())
    except OSError:
        return False


def _remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as that is possible; never through a link."""
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)


def _lock(folder: Path, thread_id: str, timeout_s: float = _LOCK_S) -> AbstractContextManager[None]:
    held = locked(folder / "lock", timeout_s=timeout_s)
    try:
        held.__enter__()
    except LockTimeoutError:
        raise RyeError(
            f"thread {thread_id}: another process runs it",
            code="CONFLICT",
            hint="wait until it ends, or cancel it",
        ) from None
    return held
