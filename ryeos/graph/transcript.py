"""What happened in a run, line by line: appended while it runs, never read again until then.

A ``checkpoint`` line holds the SHA-256 of every byte before it, kept while writing, and a signature
that binds that digest to the run. Format: ``docs/graph-runs.md``.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

from lillux.digests import canonical_json, rolling_sha256, sha256_hex
from lillux.files import file_system_error

if TYPE_CHECKING:
    from hashlib import _Hash

    from ryeos.moments import Clock
    from ryeos.signing_key import SigningKey

CHECKPOINT = "checkpoint"
_PURPOSE = "rye graph transcript checkpoint 1"
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
    """What a checkpoint's signature is over: no digest of any file, so it signs nothing else."""
    return sha256_hex(canonical_json([_PURPOSE, run_id, turn, byte_offset, digest]))


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
    ) -> None:
        self._path, self._run_id = path, run_id
        self._key, self._clock = key, clock
        self._rolling = rolling if rolling is not None else rolling_sha256()
        self._offset = offset
        self._lock = Lock()
        flags = _APPEND if rolling is not None else _APPEND | os.O_CREAT | os.O_EXCL
        self._descriptor = _about(path, lambda: os.open(path, flags, _FILE_MODE))

    def append(self, events: Sequence[EventRecord]) -> None:
        """Append events in one write: a kill leaves a whole number of them, or cuts the last.

        Raises CanonicalJsonError for a payload that is no JSON; then nothing is written.
        """
        with self._lock:
            self._append(events)

    def checkpoint(self, turn: int) -> None:
        """Append a checkpoint, and have the file on disk when this returns."""
        with self._lock:
            self._append([(CHECKPOINT, self._checkpoint(turn))])
            _about(self._path, lambda: os.fsync(self._descriptor))

    def close(self) -> None:
        """Let go of the file. A second time does nothing."""
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def _append(self, events: Sequence[EventRecord]) -> None:
        now = self._clock().timestamp()
        data = b"".join(self._line(now, kind, payload) for kind, payload in events)
        try:
            _write(self._descriptor, data)
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

    def _checkpoint(self, turn: int) -> dict[str, Any]:
        digest = self._rolling.hexdigest()
        payload: dict[str, Any] = {
            "turn": turn,
            "byte_offset": self._offset,
            "hash": digest,
            "sig": None,
            "fp": None,
            "ts": self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if self._key is not None:
            signed = signed_digest(self._run_id, turn, self._offset, digest)
            payload |= {"sig": self._key.digest_signature(signed), "fp": self._key.fingerprint}
        return payload


def reopen(
    path: Path, run_id: str, *, key: "SigningKey | None", clock: "Clock", end: int
) -> Transcript:
    """Go on with a transcript after its first ``end`` bytes; what follows them is cut off.

    Raises FileSystemError.
    """
    rolling = _about(path, lambda: _cut(path, end))
    return Transcript(path, run_id, key=key, clock=clock, rolling=rolling, offset=end)


def _write(descriptor: int, data: bytes) -> None:
    done = os.write(descriptor, data)
    while done < len(data):
        done += os.write(descriptor, memoryview(data)[done:])


def _cut(path: Path, end: int) -> "_Hash":
    """Cut the file off after ``end`` bytes; the SHA-256 of what stays."""
    rolling, left = rolling_sha256(), end
    flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    with open(descriptor, "r+b") as file:  # noqa: PTH123 - a descriptor, not a path
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
