"""Where threads are kept: a folder for each in user space, with its journal, results and orders.

``~/.ai/state/agent/threads/ID/`` is out of reach of everything that Rye confined. The project's
registry and transcripts are views of it, and decide nothing.

    journal.jsonl   see `ryeos.agent.journal`; checkpoints are signed by the receipt key
    results/N       a result of a tool that is longer than a model gets at once
    orders/         what a person wants of a running thread: a stop, a text; one file for each
    lock            held by the process that runs it
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Lock
from typing import Any, Self

from lillux.files import LockTimeoutError, locked, make_directory, read_bytes, write_atomic
from ryeos.agent.journal import AgentThread, after, begun
from ryeos.agent.ledger import FOLDER
from ryeos.graph.run_log import (
    CHECKPOINT,
    EventRecord,
    LoggedEvent,
    Transcript,
    read_transcript,
    reopen,
    valid_run_id,
)
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError
from ryeos.run.receipt_key import ReceiptKey
from ryeos.trust.keys import SigningKey

THREADS, JOURNAL, RESULTS, ORDERS = "threads", "journal.jsonl", "results", "orders"
MAX_ORDER_BYTES = 64 * 1024
MAX_RESULT_BYTES = 64 * 1024 * 1024
_PRIVATE = 0o700
_LOCK_S = 0.0


class AgentRecords:
    """The threads of a user space, whose ``.ai`` folder this is."""

    def __init__(self, ai: Path, key: ReceiptKey, clock: Clock = utc_now) -> None:
        self.folder = ai / FOLDER / THREADS
        self._key, self._clock = key, clock

    def has(self, thread_id: str) -> bool:
        """Whether there is a journal of this id."""
        return (self.folder_of(thread_id) / JOURNAL).is_file()

    def ids(self) -> tuple[str, ...]:
        """The ids of all threads, sorted."""
        if not self.folder.is_dir():
            return ()
        return tuple(sorted(one.name for one in self.folder.iterdir() if self.has(one.name)))

    def folder_of(self, thread_id: str) -> Path:
        """The folder of a thread, which may not be there. Raises RunIdError."""
        return self.folder / valid_run_id(thread_id)

    def begin(self, thread_id: str, started: Mapping[str, Any]) -> "Journal":
        """The journal of a new thread, with its first event on the disk."""
        folder = self.folder_of(thread_id)
        for made in (folder, folder / RESULTS, folder / ORDERS):
            make_directory(made, mode=_PRIVATE)
        held = _lock(folder, thread_id)
        pair = SigningKey(self._key.pair())
        transcript = Transcript(folder / JOURNAL, thread_id, key=pair, clock=self._clock)
        journal = Journal(folder, transcript, begun(started), held)
        transcript.append([("thread", started)])
        transcript.checkpoint(0)
        return journal

    def read(self, thread_id: str) -> AgentThread:
        """The thread as its journal says, also while it runs. Raises as `events`."""
        return _folded(self.events(thread_id), thread_id)

    def events(self, thread_id: str) -> tuple[LoggedEvent, ...]:
        """The events of a journal without its checkpoints.

        Raises RyeError `THREAD_NOT_FOUND` or `INTEGRITY`, TranscriptError.
        """
        return tuple(one for one in self._read(thread_id).events if one.event_type != CHECKPOINT)

    def _read(self, thread_id: str) -> Any:  # noqa: ANN401 - ReadTranscript
        path = self.folder_of(thread_id) / JOURNAL
        try:
            return read_transcript(path, thread_id, self._trusted)
        except FileNotFoundError:
            raise RyeError(
                f"thread {thread_id}: it has no journal in {self.folder}",
                code="ITEM_NOT_FOUND",
                hint="list the threads there are: rye threads list",
            ) from None

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
        found = self._read(thread_id)
        events = [one for one in found.events if one.event_type != CHECKPOINT]
        transcript = reopen(
            folder / JOURNAL,
            thread_id,
            key=SigningKey(self._key.pair()),
            clock=self._clock,
            end=found.end,
        )
        return Journal(folder, transcript, _folded(events, thread_id), held)

    def is_running(self, thread_id: str) -> bool:
        """Whether a process holds the thread at this moment."""
        try:
            _lock(self.folder_of(thread_id), thread_id).__exit__(None, None, None)
        except RyeError:
            return True
        return False

    def result(self, thread_id: str, number: int) -> str:
        """The whole text of a long result. Raises FileNotFoundError."""
        path = self.folder_of(thread_id) / RESULTS / str(number)
        return read_bytes(path, MAX_RESULT_BYTES).decode("utf-8", "replace")

    # ---------------------------------------------------------------- orders of a person

    def order(self, thread_id: str, name: str, text: str = "") -> None:
        """Leave an order for a thread: ``cancel``, ``kill``, or a text for its next request."""
        stamp = f"{self._clock().timestamp():.6f}-{os.urandom(3).hex()}"
        path = self.folder_of(thread_id) / ORDERS / f"{stamp}.{name}"
        write_atomic(path, text.encode("utf-8", "replace")[:MAX_ORDER_BYTES], mode=0o600)


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
        """Append events; the thread after them. Forced: they are on the disk then.

        An event that the thread does not allow is not written. Raises FileSystemError, RyeError for
        a limit.
        """
        with self._writing:
            thread = self.thread
            for event in events:
                thread = after(thread, event)
            self._transcript.append(events)
            if force:
                self._transcript.force()
            self.thread = thread
        return thread

    def seal(self) -> None:
        """Sign all that was written so far, and have it on the disk."""
        self._transcript.checkpoint(self.thread.calls)

    def keep_result(self, text: str) -> int:
        """Keep the whole text of a long result; its number."""
        folder = self.folder / RESULTS
        with self._writing:
            number = 1 + max(
                (int(one.name) for one in folder.iterdir() if one.name.isdecimal()), default=0
            )
            write_atomic(folder / str(number), text.encode("utf-8", "replace"), mode=0o600)
        return number

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


def _lock(folder: Path, thread_id: str) -> AbstractContextManager[None]:
    held = locked(folder / "lock", timeout_s=_LOCK_S)
    try:
        held.__enter__()
    except LockTimeoutError:
        raise RyeError(
            f"thread {thread_id}: another process runs it",
            code="CONFLICT",
            hint="wait until it ends, or cancel it",
        ) from None
    return held
