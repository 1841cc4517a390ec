"""Reading a transcript: every checkpoint verified, a line that a kill cut short left out."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lillux.digests import rolling_sha256
from lillux.files import read_bytes
from lillux.signing import verify_signature
from lillux.values import dataclass, field
from ryeos.graph.run_errors import (
    CheckpointMismatchError,
    CheckpointSignerError,
    TranscriptError,
)
from ryeos.graph.transcript import CHECKPOINT, signed_digest

MAX_TRANSCRIPT_BYTES = 1024 * 1024 * 1024

KeyLookup = Callable[[str], "bytes | None"]
"""The public key (PEM) of a fingerprint that counts here, None for one that does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A line. ``end`` is the offset of the byte after it."""

    timestamp: float
    event_type: str
    payload: dict[str, Any]
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTranscript:
    """What a transcript says.

    events          of whole lines, checkpoints too
    end             the offset after the last of them
    dropped_bytes   how much follows: a line that was cut short, or what a power loss left
    signed_end      the offset of the last checkpoint that a trusted key signed, 0 for none
    forced_end      the offset after the last checkpoint, 0 for none: this much was on disk
    """

    events: tuple[Event, ...] = ()
    end: int = 0
    dropped_bytes: int = 0
    signed_end: int = 0
    forced_end: int = 0
    unsigned_checkpoints: int = field(default=0)


def read_transcript(path: Path, run_id: str, trusted: KeyLookup) -> ReadTranscript:
    """Read and verify a transcript.

    Raises FileNotFoundError as it is, TranscriptError, CheckpointMismatchError,
    CheckpointSignerError, FileTooLargeError, FileSystemError.
    """
    return parse_transcript(read_bytes(path, MAX_TRANSCRIPT_BYTES), str(path), run_id, trusted)


def parse_transcript(data: bytes, where: str, run_id: str, trusted: KeyLookup) -> ReadTranscript:
    """As `read_transcript`, of its bytes."""
    reading = _Reading(where, run_id, trusted)
    for start, line in _whole_lines(data):
        reading.take(start, line)
    return reading.result(len(data))


class _Reading:
    """The state between two lines."""

    def __init__(self, where: str, run_id: str, trusted: KeyLookup) -> None:
        self._where, self._run_id, self._trusted = where, run_id, trusted
        self._rolling = rolling_sha256()
        self._events: list[Event] = []
        self._line = 0
        self._end = self._signed_end = self._forced_end = self._unsigned = 0
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
            unsigned_checkpoints=self._unsigned,
        )

    def _event(self, line: bytes, end: int) -> Event:
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
                return Event(timestamp=timestamp, event_type=event_type, payload=payload, end=end)
        problem = "expected timestamp, thread_id, event_type and payload"
        raise TranscriptError(self._where, self._line, problem)

    def _verify(self, payload: dict[str, Any], start: int) -> None:
        turn, offset, digest = (payload.get(key) for key in ("turn", "byte_offset", "hash"))
        if type(turn) is not int or offset != start or digest != self._rolling.hexdigest():
            raise self._mismatch("the bytes before it were changed")
        signature, fingerprint = payload.get("sig"), payload.get("fp")
        if signature is None and fingerprint is None:
            self._unsigned += 1
            return
        if not isinstance(signature, str) or not isinstance(fingerprint, str):
            raise self._mismatch("expected a signature and a fingerprint")
        public_pem = self._trusted(fingerprint)
        if public_pem is None:
            raise CheckpointSignerError(self._where, self._line, fingerprint[:80])
        signed = signed_digest(self._run_id, turn, start, str(digest))
        if not verify_signature(signed, signature, public_pem):
            raise self._mismatch("the signature is not of its key")
        self._signed_end = start

    def _mismatch(self, problem: str) -> CheckpointMismatchError:
        return CheckpointMismatchError(self._where, self._line, problem)


def _whole_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each line that has its line feed, with its offset."""
    start = 0
    while (end := data.find(b"\n", start) + 1) > 0:
        yield start, data[start:end]
        start = end
