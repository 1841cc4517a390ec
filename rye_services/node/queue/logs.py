"""What programs of an execution write, kept in pieces while they run: ``/threads/ID/log``.

The server masks secrets in what a worker reports (`rye_services.node.worker.jobs`), bounds the
whole, and writes pieces into ``thread_logs``, where every server of the database reads them.
"""

import logging
from collections.abc import Callable, Iterator
from threading import Lock
from typing import Any

from sqlalchemy import insert, select, update
from sqlalchemy.exc import SQLAlchemyError

from lillux.shapes import write
from lillux.values import dataclass
from rye_services.node.queue.rows import FIRST_ATTEMPT
from rye_services.node.worker.jobs import STDERR, STDOUT, read_report
from rye_services.storage.database import Database, stamp, storable, thread_logs, threads
from ryeos.remote.requests import LOG_CUT

MAX_LOG_BYTES = 1024 * 1024
"""Of one execution: a row is outside of every quota."""

_PIECE_CHARACTERS = 16 * 1024
_LONGEST_LINE = 64 * 1024
_TOO_LONG = "[a part of a line of more than 64 KiB was left out]"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A part of a log, in the order in which it was written. ``at`` is ISO 8601, UTC."""

    number: int
    stream: str
    text: str
    at: str

    def as_answer(self) -> dict[str, Any]:
        """The piece as JSON has it."""
        return write(self)


class RunLog:
    """The log of one execution: takes what its worker reports, piece by piece. Thread-safe.

    ``mask`` takes secrets out of a text; ``on_fact`` gets each fact that is reported, with its
    text. What is not in the form of a report is the worker's own standard error, which is for the
    log of the node.
    """

    def __init__(
        self,
        database: Database,
        thread_id: str,
        mask: Callable[[str], str],
        on_fact: Callable[[str, str], None],
    ) -> None:
        self._database, self._thread_id = database, thread_id
        self._mask, self._on_fact = mask, on_fact
        self._line, self._number, self._bytes = b"", 0, 0
        self._pending: list[tuple[str, str]] = []
        self._open = {STDOUT: "", STDERR: ""}
        self._lock = Lock()

    def hear(self, chunk: bytes) -> None:
        """Take what the worker wrote."""
        with self._lock:
            *lines, self._line = (self._line + chunk).split(b"\n")
            self._line = self._line[:_LONGEST_LINE]
            for line in lines:
                self._take(line)

    def write(self, *, is_over: bool = False) -> None:
        """Write what is new into the database; half a line stays until its end comes."""
        with self._lock:
            for stream, rest in self._open.items():
                if rest and is_over:
                    self._pending.append((stream, rest))
                    self._open[stream] = ""
            pieces, self._pending = list(_join_neighbours(self._pending)), []
            if pieces:
                self._insert(pieces)

    def _take(self, line: bytes) -> None:
        piece = read_report(line)
        if piece is None:
            return
        stream, text = piece
        if stream not in self._open:
            self._on_fact(stream, text)
            return
        # A secret may lie across two pieces, and never across two lines: whole lines are masked.
        whole, newline, rest = (self._open[stream] + text).rpartition("\n")
        if newline:
            self._pending.append((stream, whole + newline))
        self._open[stream] = rest if len(rest) <= _LONGEST_LINE else _TOO_LONG

    def _insert(self, pieces: list[tuple[str, str]]) -> None:
        rows = []
        with self._database.writing() as connection:
            now = stamp(self._database.now(connection))
            for stream, text in pieces:
                if self._bytes >= MAX_LOG_BYTES:
                    break
                masked = storable(self._mask(text))
                left = MAX_LOG_BYTES - self._bytes
                kept = masked if len(masked) <= left else masked[:left] + LOG_CUT
                self._bytes += len(kept)
                self._number += 1
                rows.append(
                    {
                        "thread_id": self._thread_id,
                        "number": self._number,
                        "stream": stream,
                        "text": kept,
                        "written_at": now,
                    }
                )
            if not rows:
                return
            connection.execute(insert(thread_logs), rows)
            size = update(threads).where(threads.c.thread_id == self._thread_id)
            connection.execute(size.values(log_bytes=self._bytes))


class RunLogs:
    """The logs of the executions that this server runs. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open: dict[str, RunLog] = {}
        self._lock = Lock()

    def open(
        self,
        thread_id: str,
        attempt: int,
        mask: Callable[[str], str],
        on_fact: Callable[[str, str], None],
    ) -> RunLog:
        """The log of an execution that begins; a former attempt's goes."""
        if attempt > FIRST_ATTEMPT:
            former = thread_logs.delete().where(thread_logs.c.thread_id == thread_id)
            with self._database.writing() as connection:
                connection.execute(former)
        log = RunLog(self._database, thread_id, mask, on_fact)
        with self._lock:
            self._open[thread_id] = log
        return log

    def close(self, thread_id: str) -> None:
        """Write the rest of a log."""
        with self._lock:
            log = self._open.pop(thread_id, None)
        if log is not None:
            _write(thread_id, log, is_over=True)

    def write(self) -> None:
        """Write what is new of every log."""
        with self._lock:
            logs = dict(self._open)
        for thread_id, log in logs.items():
            _write(thread_id, log, is_over=False)

    def read(self, thread_id: str, after: int, limit: int) -> list[LogPiece]:
        """Pieces of an execution behind a number, in order."""
        columns = thread_logs.c
        query = (
            select(columns.number, columns.stream, columns.text, columns.written_at)
            .where(columns.thread_id == thread_id, columns.number > after)
            .order_by(columns.number)
            .limit(limit)
        )
        with self._database.reading() as connection:
            return [LogPiece(*row) for row in connection.execute(query)]


def _write(thread_id: str, log: RunLog, *, is_over: bool) -> None:
    try:
        log.write(is_over=is_over)
    except SQLAlchemyError as error:  # an execution does not fail for its log
        _log.warning("%s: a part of its log was lost: %s", thread_id, error)


def _join_neighbours(pieces: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Neighbours of one stream as one piece, none of them much too long."""
    texts: list[str] = []
    stream, size = "", 0
    for one, text in pieces:
        if texts and (one != stream or size > _PIECE_CHARACTERS):
            yield stream, "".join(texts)
            texts, size = [], 0
        stream = one
        texts.append(text)
        size += len(text)
    if texts:
        yield stream, "".join(texts)
