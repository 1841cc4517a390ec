"""The log of receipts: a line each, which names the one before it by digest."""

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux import dsse
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import file_system_error, make_directory, read_bytes
from lillux.signing import KeyPair, compute_key_digest
from lillux.values import dataclass
from ryeos.items.errors import ItemNotFoundError, RyeError
from ryeos.run.receipt_key import ReceiptKey
from ryeos.run.receipt_statements import (
    HEAD_TYPE,
    MODEL_CALL_TYPE,
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    START_TYPE,
    THREAD_TYPE,
    statement,
)

ENDS = frozenset({PREDICATE_TYPE, THREAD_TYPE, MODEL_CALL_TYPE})
LOG, HEAD, BROKEN, PROGRAMS = "log.jsonl", "head.json", "broken.jsonl", "programs.json"
ID_CHARACTERS = 16
MAX_LINE_BYTES = 4 * 1024 * 1024
_MAX_HEAD_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True)
class Receipt:
    """A line of the log. ``digest`` is that of the line; ``id`` its beginning."""

    number: int
    digest: str
    envelope: Mapping[str, Any]
    statement: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The short id that people type."""
        return self.digest[:ID_CHARACTERS]

    @property
    def predicate(self) -> Mapping[str, Any]:
        """The predicate."""
        found = self.statement.get("predicate")
        return found if isinstance(found, Mapping) else {}

    @property
    def is_start(self) -> bool:
        """True if it says that a run was about to start; another line says how that ended."""
        return self.statement.get("predicateType") == START_TYPE


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in the log, at a line; 0 for the whole log."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class _Head:
    """The state after the last line: number of lines, digest of the last, size of the log."""

    count: int = 0
    digest: str = ""
    size: int = 0


class ReceiptLog:
    """The log in a folder. Processes append to it one after the other."""

    def __init__(self, folder: Path, key: ReceiptKey) -> None:
        self.folder, self.key = folder, key
        self._written: tuple[bytes, _Head] | None = None  # the head as this process wrote it last

    def append(
        self,
        predicate: Mapping[str, Any],
        subject: Sequence[Mapping[str, Any]],
        predicate_type: str = PREDICATE_TYPE,
    ) -> str:
        """Write a receipt; its digest. Nothing half-written stays. Raises LilluxError."""
        make_directory(self.folder, mode=0o700)
        with locked(self.folder.parent / "locks" / "receipts.lock"):
            pair = self.key.pair()  # the first one makes it
            key_id = compute_key_digest(pair.public_pem)
            head = self._settled_head(pair.public_pem)
            placed = {"number": head.count + 1, "previous": head.digest or None, **predicate}
            payload = json.dumps(
                statement(placed, subject, predicate_type), ensure_ascii=True, default=str
            )
            envelope = dsse.signed(PAYLOAD_TYPE, payload.encode(), pair.private_pem, key_id)
            line = json.dumps(envelope, separators=(",", ":")).encode() + b"\n"
            if len(line) > MAX_LINE_BYTES:
                raise RyeError(
                    f"receipt: expected at most {MAX_LINE_BYTES} bytes, got {len(line)}",
                    code="RESOURCE_EXCEEDED",
                    hint="keep digests of the parameters alone: without --receipt full",
                )
            self._write(line, head, pair, key_id)
        return sha256_hex(line)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines as they are, with their numbers from 1. Raises FileSystemError."""
        try:
            with (self.folder / LOG).open("rb") as file:
                yield from enumerate(file, start=1)
        except FileNotFoundError:
            return
        except OSError as error:
            raise file_system_error(self.folder / LOG, error) from error

    def receipts(self) -> Iterator[Receipt]:
        """All readable receipts, the oldest first; `verify` reports the others."""
        for number, line in self.lines():
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                yield _receipt(number, line)

    def runs(self) -> Iterator[Receipt]:
        """The receipts of runs, the oldest first, and the starts of which no end is recorded."""
        starts: dict[str, Receipt] = {}
        for receipt in self.receipts():
            if receipt.is_start:
                starts[receipt.digest] = receipt
                continue
            starts.pop(str(receipt.predicate.get("start", "")), None)
            yield receipt
        yield from starts.values()

    def find(self, receipt_id: str) -> Receipt:
        """The receipt of an id, or of its beginning. Raises ItemNotFoundError, RyeError."""
        found = [one for one in self.receipts() if one.digest.startswith(receipt_id.lower())]
        if not found or not receipt_id:
            raise ItemNotFoundError(f"receipt {receipt_id}", (str(self.folder / LOG),))
        if len(found) > 1:
            raise RyeError(
                f"receipt {receipt_id}: {len(found)} begin so",
                code="AMBIGUOUS_ITEM",
                hint="give more of its id: rye receipts list",
            )
        return found[0]

    def verify(self) -> tuple[int, list[Problem]]:
        """The number of runs in it, and all problems. Raises KeyNotFoundError."""
        public_pem = self.key.public_pem()
        problems: list[Problem] = []
        before, count = "", 0
        for number, line in self.lines():
            count = number
            problem = _problem_of(line, number, before, public_pem)
            if problem:
                problems.append(Problem(number, problem))
            before = sha256_hex(line)
        problems += self._head_problems(count, before, public_pem)
        unreadable = sum(1 for one in problems if one.line)
        return max(sum(1 for _ in self.runs()), unreadable), problems

    def _head_problems(self, count: int, last: str, public_pem: bytes) -> Iterator[Problem]:
        try:
            head = self._head(public_pem)
        except LilluxError as error:
            yield Problem(0, f"{HEAD}: {error}")
            return
        if head is None and count:
            yield Problem(0, f"{HEAD}: expected it beside the log, found none")
        elif head is not None and head.count > count:
            yield Problem(0, f"cut off: expected {head.count} receipts, found {count}")
        elif head is not None and (head.count, head.digest) != (count, last):
            yield Problem(0, f"{HEAD}: it names another line than the last one")

    def _head(self, public_pem: bytes) -> _Head | None:
        """The verified head; None without one. Raises LilluxError."""
        try:
            data = read_bytes(self.folder / HEAD, _MAX_HEAD_BYTES)
        except FileNotFoundError:
            return None
        if self._written and self._written[0] == data:
            return self._written[1]
        try:
            envelope = json.loads(data)
        except ValueError:
            raise RyeError("expected JSON", code="INTEGRITY") from None
        said = dsse.opened(envelope, HEAD_TYPE, public_pem)
        return _Head(int(said["count"]), str(said["sha256"]), int(said["size"]))

    def _settled_head(self, public_pem: bytes) -> _Head:
        """The head, after repair of what a killed process left incomplete."""
        head: _Head | None = None
        with suppress(LilluxError):  # `verify` reports the problem
            head = self._head(public_pem)
        path = self.folder / LOG
        size = path.stat().st_size if path.exists() else 0
        if head is None:
            return self._compute_head()
        if size <= head.size:
            return head
        with path.open("rb+") as file:
            file.seek(head.size)
            for line in file:  # whose head could not be written: the disk was full
                is_whole = line.endswith(b"\n")
                if not is_whole or _problem_of(line, head.count + 1, head.digest, public_pem):
                    break
                head = _Head(head.count + 1, sha256_hex(line), head.size + len(line))
            if head.size < size:
                file.seek(head.size)
                with (self.folder / BROKEN).open("ab") as broken:
                    broken.write(file.read())
                file.truncate(head.size)
        return head

    def _compute_head(self) -> _Head:
        """The head, computed from the log."""
        head = _Head()
        for number, line in self.lines():
            head = _Head(number, sha256_hex(line), head.size + len(line))
        return head

    def _write(self, line: bytes, head: _Head, pair: KeyPair, key_id: str) -> None:
        path = self.folder / LOG
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise file_system_error(path, error) from error
        try:
            size = os.fstat(descriptor).st_size
            try:
                _write_whole(descriptor, line)
            except OSError as error:
                with suppress(OSError):  # the next append moves it aside
                    os.ftruncate(descriptor, size)
                raise file_system_error(path, error) from error
        finally:
            os.close(descriptor)
        now = _Head(head.count + 1, sha256_hex(line), size + len(line))
        said = {"count": now.count, "sha256": now.digest, "size": now.size}
        payload = json.dumps(said).encode()
        text = json.dumps(dsse.signed(HEAD_TYPE, payload, pair.private_pem, key_id)).encode()
        _replace(self.folder / HEAD, text)
        self._written = text, now


def _write_whole(descriptor: int, data: bytes) -> None:
    """Write all bytes. Raises OSError, also if a full disk took only a part."""
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _replace(path: Path, text: bytes) -> None:
    """Replace a file atomically, without fsync(), which takes 5 ms."""
    aside = path.with_suffix(".tmp")
    try:
        aside.write_bytes(text)
        aside.replace(path)
    except OSError as error:
        raise file_system_error(path, error) from error


def _receipt(number: int, line: bytes) -> Receipt:
    """A line, not verified. Raises ValueError, TypeError, KeyError."""
    from base64 import b64decode

    envelope = json.loads(line)
    said = json.loads(b64decode(envelope["payload"], validate=True))
    if not isinstance(said, dict):
        raise TypeError(said)
    return Receipt(number, sha256_hex(line), envelope, said)


def _problem_of(line: bytes, number: int, before: str, public_pem: bytes) -> str:
    """The problem of a line, ``""`` if it is valid."""
    try:
        said = dsse.opened(json.loads(line), PAYLOAD_TYPE, public_pem)
    except (ValueError, RecursionError):
        return "expected JSON"
    except LilluxError as error:
        return str(error)
    predicate = said.get("predicate") if isinstance(said, dict) else None
    if not isinstance(predicate, dict):
        return "expected a statement of a run"
    if predicate.get("number") != number:
        return f"expected number {number}, found {predicate.get('number')}: one is missing or moved"
    if (predicate.get("previous") or "") != before:
        return "it names another receipt as the one before"
    return ""
