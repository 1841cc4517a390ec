"""The transcript of a run: what happened in it, line by line.

It is appended while the run lasts, and read when it is over or goes on: every checkpoint is
verified then, and a line that a kill cut short is left out.

A ``checkpoint`` line holds the SHA-256 of every byte before it, kept while writing, and a
signature that binds that digest to the run. Format: ``docs/graphs.md``.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from lillux.canonical_json import canonical_json
from lillux.digests import rolling_sha256, sha256_hex
from lillux.files import file_system_error, open_file, read_bytes
from lillux.signing import verify_signature
from lillux.values import dataclass
from ryeos.graph.errors import TranscriptError
from ryeos.items.context import Clock
from ryeos.items.errors import RyeError

if TYPE_CHECKING:
    from hashlib import _Hash

    from ryeos.trust.signing_key import SigningKey


CHECKPOINT = "checkpoint"
_PURPOSE = "rye/checkpoint/v1\n"
_APPEND = (
    os.O_WRONLY
    | os.O_APPEND
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)
_FILE_MODE = 0o600

_Made = TypeVar("_Made")

EventRecord = tuple[str, Mapping[str, Any]]
"""The type of an event, and its payload."""


def signed_digest(run_id: str, turn: int, byte_offset: int, digest: str) -> str:
    """The digest that a checkpoint's signature is over: of no file, so it signs nothing else."""
    return sha256_hex(_PURPOSE.encode() + canonical_json([run_id, turn, byte_offset, digest]))


class Transcript:
    """The transcript of one run, open for appending. Thread-safe.

    ``rolling`` is the SHA-256 of what the file holds, ``offset`` its size. Every method raises
    FileSystemError where the file system refuses.
    """

    def __init__(
        self,
        path: Path,
        run_id: str,
        *,
        key: "SigningKey | None",
        clock: "Clock",
        rolling: "_Hash | None" = None,
        offset: int = 0,
        within: Path | None = None,
    ) -> None:
        self._path, self._run_id = path, run_id
        self._key, self._clock = key, clock
        self._rolling = rolling if rolling is not None else rolling_sha256()
        self._offset = offset
        self._lock = Lock()
        flags = _APPEND if rolling is not None else _APPEND | os.O_CREAT | os.O_EXCL
        self._descriptor = _about(
            path, lambda: open_file(path, flags, mode=_FILE_MODE, within=within)
        )

    def append(self, events: Sequence[EventRecord]) -> None:
        """Append events in one write: a kill leaves a whole number of them, or cuts the last.

        Raises CanonicalJsonError for a payload that is no JSON; then nothing is written.
        """
        with self._lock:
            self._append(events)

    def append_signed(self, events: Sequence[EventRecord], turn: int) -> None:
        """Append events with a checkpoint behind them, all in one write."""
        with self._lock:
            self._append(events, turn)

    def checkpoint(self, turn: int) -> None:
        """Append a checkpoint, and have the file on disk when this returns."""
        with self._lock:
            self._append((), turn)
            _about(self._path, lambda: os.fsync(self._descriptor))

    def force(self) -> None:
        """Have on the disk what was appended."""
        with self._lock:
            _about(self._path, lambda: os.fsync(self._descriptor))

    def close(self) -> None:
        """Let go of the file. A second time does nothing."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _append(self, events: Sequence[EventRecord], turn: int | None = None) -> None:
        """``turn`` is that of a checkpoint behind them; None for no checkpoint."""
        now = self._clock().timestamp()
        data = b"".join(self._line(now, kind, payload) for kind, payload in events)
        if turn is not None:
            rolling = self._rolling.copy()
            rolling.update(data)
            data += self._line(now, CHECKPOINT, self._checkpoint(turn, rolling, len(data)))
        try:
            write_whole(self._descriptor, data)
        except OSError as error:  # a full disk: the half line must not stand before the next one
            with suppress(OSError):
                os.ftruncate(self._descriptor, self._offset)
            raise file_system_error(self._path, error) from error
        self._rolling.update(data)
        self._offset += len(data)

    def _line(self, now: float, kind: str, payload: Mapping[str, Any]) -> bytes:
        event = {
            "timestamp": now,
            "thread_id": self._run_id,
            "event_type": kind,
            "payload": dict(payload),
        }
        return canonical_json(event) + b"\n"

    def _checkpoint(self, turn: int, rolling: "_Hash", size: int) -> dict[str, Any]:
        """The signed digest: ``rolling`` is over all bytes before it, ``size`` of them are new."""
        digest, offset = rolling.hexdigest(), self._offset + size
        payload: dict[str, Any] = {
            "turn": turn,
            "byte_offset": offset,
            "hash": digest,
            "sig": None,
            "fp": None,
            "ts": self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if self._key is not None:
            signed = signed_digest(self._run_id, turn, offset, digest)
            payload |= {"sig": self._key.digest_signature(signed), "fp": self._key.fingerprint}
        return payload


def reopen(
    path: Path,
    run_id: str,
    *,
    key: "SigningKey | None",
    clock: "Clock",
    end: int,
    within: Path | None = None,
) -> Transcript:
    """Continue a transcript after its first ``end`` bytes; what follows them is cut off.

    Raises FileSystemError.
    """
    rolling = _about(path, lambda: _cut(path, end, within))
    return Transcript(
        path, run_id, key=key, clock=clock, rolling=rolling, offset=end, within=within
    )


def write_whole(descriptor: int, data: bytes) -> None:
    """Write all of the data: the system may take a part at a time. Raises OSError."""
    done = os.write(descriptor, data)
    while done < len(data):
        done += os.write(descriptor, memoryview(data)[done:])


def _cut(path: Path, end: int, within: Path | None) -> "_Hash":
    """Cut the file off after ``end`` bytes; the SHA-256 of what stays."""
    rolling, left = rolling_sha256(), end
    with open(open_file(path, os.O_RDWR, within=within), "r+b") as file:  # noqa: PTH123 - a descriptor, not a path
        while left and (chunk := file.read(min(left, 1024 * 1024))):
            rolling.update(chunk)
            left -= len(chunk)
        file.truncate(end)
    return rolling


def _about(path: Path, act: Callable[[], _Made]) -> _Made:
    try:
        return act()
    except OSError as error:
        raise file_system_error(path, error) from error


MAX_TRANSCRIPT_BYTES = 1024 * 1024 * 1024

KeyLookup = Callable[[str], "bytes | None"]
"""The public key (PEM) of a fingerprint that counts here, None for one that does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """A line. ``end`` is the offset of the byte after it."""

    timestamp: float
    event_type: str
    payload: dict[str, Any]
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTranscript:
    """The content of a transcript.

    events          of whole lines, checkpoints too
    end             the offset after the last of them
    dropped_bytes   how much follows: a line that was cut short, or what a power loss left
    signed_end      the offset of the last checkpoint that a trusted key signed, 0 if absent
    forced_end      the offset after the last checkpoint, 0 if absent: this much was on disk
    """

    events: tuple[LoggedEvent, ...] = ()
    end: int = 0
    dropped_bytes: int = 0
    signed_end: int = 0
    forced_end: int = 0


def read_transcript(path: Path, run_id: str, trusted: KeyLookup) -> ReadTranscript:
    """Read and verify a transcript.

    Raises FileNotFoundError as it is, TranscriptError, RyeError `INTEGRITY`,
    RyeError `UNTRUSTED_KEY`, FileTooLargeError, FileSystemError.
    """
    return parse_transcript(read_bytes(path, MAX_TRANSCRIPT_BYTES), str(path), run_id, trusted)


def parse_transcript(data: bytes, where: str, run_id: str, trusted: KeyLookup) -> ReadTranscript:
    """The transcript in these bytes, read as `read_transcript` does."""
    reading = _TranscriptReader(where, run_id, trusted)
    for start, line in _whole_lines(data):
        reading.take(start, line)
    return reading.result(len(data))


class _TranscriptReader:
    """The state between two lines."""

    def __init__(self, where: str, run_id: str, trusted: KeyLookup) -> None:
        self._where, self._run_id, self._trusted = where, run_id, trusted
        self._rolling = rolling_sha256()
        self._events: list[LoggedEvent] = []
        self._line = 0
        self._end = self._signed_end = self._forced_end = 0
        self._damage: TranscriptError | None = None

    def take(self, start: int, line: bytes) -> None:
        """One line, its line feed included."""
        self._line += 1
        try:
            event = self._event(line, start + len(line))
        except TranscriptError as error:
            self._damage = self._damage or error
            return
        if event.event_type == CHECKPOINT:
            if self._damage is not None:  # no power loss damages what a checkpoint had on disk
                raise self._damage
            self._verify(event.payload, start)
            self._forced_end = event.end
        if self._damage is None:
            self._events.append(event)
            self._end = event.end
        self._rolling.update(line)

    def result(self, size: int) -> ReadTranscript:
        """After the last line."""
        return ReadTranscript(
            events=tuple(self._events),
            end=self._end,
            dropped_bytes=size - self._end,
            signed_end=self._signed_end,
            forced_end=self._forced_end,
        )

    def _event(self, line: bytes, end: int) -> LoggedEvent:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            raise TranscriptError(self._where, self._line, "expected JSON") from None
        match value:
            case {
                "timestamp": int() | float() as timestamp,
                "thread_id": str() as thread_id,
                "event_type": str() as event_type,
                "payload": dict() as payload,
            }:
                if thread_id != self._run_id:
                    problem = f"expected run {self._run_id}, found {thread_id[:200]!r}"
                    raise TranscriptError(self._where, self._line, problem)
                return LoggedEvent(
                    timestamp=timestamp, event_type=event_type, payload=payload, end=end
                )
        problem = "expected timestamp, thread_id, event_type and payload"
        raise TranscriptError(self._where, self._line, problem)

    def _verify(self, payload: dict[str, Any], start: int) -> None:
        turn, offset, digest = (payload.get(key) for key in ("turn", "byte_offset", "hash"))
        if type(turn) is not int or offset != start or digest != self._rolling.hexdigest():
            raise self._mismatch("the bytes before it were changed")
        signature, fingerprint = payload.get("sig"), payload.get("fp")
        if signature is None and fingerprint is None:
            return
        if not isinstance(signature, str) or not isinstance(fingerprint, str):
            raise self._mismatch("expected a signature and a fingerprint")
        public_pem = self._trusted(fingerprint)
        if public_pem is None:
            raise RyeError(
                f"{self._where}, line {self._line}: checkpoint by the key {fingerprint[:80]},"
                " which is not trusted",
                code="UNTRUSTED_KEY",
                hint=f"if you know whose key it is: rye keys trust {fingerprint[:80]}",
                path=self._where,
            )
        signed = signed_digest(self._run_id, turn, start, str(digest))
        if not verify_signature(signed, signature, public_pem):
            raise self._mismatch("the signature is not of its key")
        self._signed_end = start

    def _mismatch(self, problem: str) -> RyeError:
        return RyeError(
            f"{self._where}, line {self._line}: checkpoint does not match: {problem}",
            code="INTEGRITY",
            hint="the record of this run was changed; start a new run",
            path=self._where,
        )


def _whole_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line that has its line feed, with its offset."""
    start = 0
    while (end := data.find(b"\n", start) + 1) > 0:
        yield start, data[start:end]
        start = end
