"""The records of a run as objects, and the log file they are appended to.

Readers take what other programs wrote: keys they do not know are kept, missing ones have a default,
and a wrong type is a RecordError that names the object and the key.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import (
    suppress,
)
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from lillux.digests import canonical_json, compute_integrity, rolling_sha256, sha256_hex
from lillux.errors import LilluxError, UnsafePathError
from lillux.fields import is_mapping
from lillux.files import (
    create_file,
    file_system_error,
    is_directory,
    is_inside,
    make_directory,
    open_file,
    read_bytes,
    require_plain_path,
    safe_join,
)
from lillux.shapes import LEFT_OUT, Form
from lillux.signing import verify_signature
from lillux.store import Durability, Store
from lillux.values import dataclass, field
from ryeos.graph.problems import (
    RecordError,
    RunIdError,
    RunPlaceError,
    TranscriptError,
)
from ryeos.items.context import Clock, log_warning, utc_now
from ryeos.items.errors import RyeError
from ryeos.items.refs import Space, Spaces
from ryeos.sync.objects import (
    DigestOrBlank,
    Digests,
    Errors,
    Others,
    Size,
    Text,
    read_object,
    write_object,
)

if TYPE_CHECKING:
    from hashlib import _Hash

    from ryeos.trust.keys import SigningKey


# --- records --------------------------------------------------------------------------------------

RUNNING = "running"
COMPLETED = frozenset({"completed", "completed_with_errors", "success"})
"""Statuses of a run that has nothing left to do; ``success`` is a word of other programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInput:
    """What decides the result of a node, and so is the key of its cache entry.

    graph_hash             digest of the graph's ``config``
    config_snapshot_hash   digest of the merged configuration, ``""`` if absent
    chain                  integrity of each element of the called chain, from tool to primitive
    remote                 name of the node it is sent to, ``""`` for here
    """

    kind = "node_input"
    graph_id: str
    graph_hash: str
    node_name: str
    interpolated_action: Mapping[str, Any]
    config_snapshot_hash: str = ""
    chain: tuple[str, ...] = ()
    remote: str = ""

    def digest(self) -> str:
        """The digest of the object. Raises CanonicalJsonError for an action that is no JSON."""
        return compute_integrity(node_input_object(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """That a node was called once: with what, with which result, for how long."""

    kind = "node_receipt"
    node_input_hash: DigestOrBlank
    node_result_hash: DigestOrBlank
    cache_hit: bool = False
    elapsed_ms: Size = 0
    timestamp: str = ""
    error: Annotated[str | None, LEFT_OUT] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSnapshot:
    """A run after a step: the snapshot of any execution, with where a graph continues from there.

    step               steps completed
    status             ``running`` until the end
    state_hash         the state_snapshot after the step; the inputs are in the state
    current_node       where the run continues, None at an end
    graph_hash         of the graph that the run was started with
    node_receipts      the receipts since the snapshot ``previous``
    errors             suppressed failures since then
    previous           the snapshot that holds what came before, ``""`` if absent
    errors_suppressed  how many there were in the whole run
    unknown            keys of other programs
    """

    kind = "execution_snapshot"
    graph_run_id: Text
    graph_id: Text
    project_manifest_hash: DigestOrBlank = ""
    user_manifest_hash: DigestOrBlank = ""
    system_version: str = ""
    step: Size
    status: Text
    state_hash: DigestOrBlank
    node_receipts: Digests = ()
    errors: Errors = ()
    errors_suppressed: Size = 0
    current_node: str | None = None
    graph_hash: str = ""
    previous: DigestOrBlank = ""
    unknown: Others = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """The state of a run between two steps."""

    kind = "state_snapshot"
    state: Annotated[Mapping[str, Any], Form("an object", is_mapping, missing="a value")]


@dataclass(frozen=True, slots=True)
class NodeResult:
    """What a node gave, any JSON."""

    kind = "node_result"
    result: Any


def state_object(state: Mapping[str, Any]) -> dict[str, Any]:
    """A ``state_snapshot``."""
    return write_object(StateSnapshot(dict(state)))


def state_of(value: object, where: str) -> dict[str, Any]:
    """The state in one. Raises RecordError."""
    return dict(read_object(StateSnapshot, value, where, RecordError).state)


def result_object(result: object) -> dict[str, Any]:
    """A ``node_result``."""
    return write_object(NodeResult(result))


def result_of(value: object, where: str) -> Any:  # noqa: ANN401 - JSON of a tool
    """The result in one. Raises RecordError."""
    return read_object(NodeResult, value, where, RecordError).result


def node_input_object(given: NodeInput) -> dict[str, Any]:
    """A ``node_input``; made to be hashed, never stored, for it may hold secrets."""
    return write_object(given)


def receipt_object(receipt: Receipt) -> dict[str, Any]:
    """A ``node_receipt``."""
    return write_object(receipt)


def receipt_of(value: object, where: str) -> Receipt:
    """The receipt in a ``node_receipt``. Raises RecordError."""
    return read_object(Receipt, value, where, RecordError)


def run_snapshot_object(snapshot: RunSnapshot) -> dict[str, Any]:
    """An ``execution_snapshot`` with the keys of a graph. ``errors`` is left out for none."""
    return write_object(snapshot)


def run_snapshot_of(value: object, where: str) -> RunSnapshot:
    """The snapshot in an ``execution_snapshot`` of any writer. Raises RecordError."""
    return read_object(RunSnapshot, value, where, RecordError)


# --- transcript -----------------------------------------------------------------------------------
# What happened in a run, line by line: appended while it runs, never read again until then.
#
# A ``checkpoint`` line holds the SHA-256 of every byte before it, kept while writing, and a
# signature that binds that digest to the run. Format: ``docs/graphs.md``.

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
    """What a checkpoint's signature is over: no digest of any file, so it signs nothing else."""
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
        """What is signed: ``rolling`` is over all bytes before it, ``size`` of them are new."""
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


# --- transcript reading ---------------------------------------------------------------------------
# Reading a transcript: every checkpoint verified, a line that a kill cut short left out.

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
    """What a transcript says.

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
    """As `read_transcript`, of its bytes."""
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


# --- run place ------------------------------------------------------------------------------------
# Where graph runs are kept, as threads are: below the project's ``.ai``, else user space's.

TRANSCRIPT, LOCK, CANCEL = "transcript.jsonl", "run.lock", "cancel"
_PRIVATE = 0o700
_IGNORE = b"# Runs of this machine only.\n*\n"


@dataclass(frozen=True, slots=True)
class RunPlace:
    """The runs and the objects of one space."""

    space: Space

    @property
    def ai(self) -> Path:
        """Its ``.ai`` folder."""
        return self.space.ai

    @property
    def within(self) -> Path:
        """The folder from which runs are written without links: the project, else ``~/.ai``."""
        return self.space.within or self.ai

    @property
    def runs(self) -> Path:
        """The folder of the runs' folders."""
        return self.ai / "state" / "graphs"

    @property
    def objects(self) -> Path:
        """The root of the store."""
        return self.ai / "state" / "objects"

    def store(self) -> Store:
        """The store of the space. Raises RunPlaceError for one that a link leads elsewhere."""
        self._require_own(self.objects)
        return Store(self.objects)

    def run_file(self, run_id: str, name: str) -> Path:
        """A file of a run, which may not be there. Raises RunIdError, RunPlaceError."""
        self._require_own(self.runs)
        folder = self.runs / valid_run_id(run_id)
        if folder.is_symlink():
            raise RunPlaceError(str(folder), "expected a folder, found a link")
        try:
            return safe_join(folder, name)
        except UnsafePathError as error:
            raise RunPlaceError(str(folder / name), error.problem) from None

    def make(self, run_id: str) -> Path:
        """Make the folder of a run. Raises as `run_file`, FileSystemError."""
        folder = self.run_file(run_id, TRANSCRIPT).parent
        self._require_own(self.objects)
        if not is_directory(self.within):  # a user space that is not there yet
            make_directory(self.within)
        make_directory(self.runs, mode=_PRIVATE, within=self.within)
        make_directory(self.objects, within=self.within)
        make_directory(folder, mode=_PRIVATE, within=self.within)
        for kept in (self.runs, self.objects):  # no run belongs into version control
            with suppress(FileExistsError):
                create_file(kept / ".gitignore", _IGNORE, within=self.within)
        return folder

    def _require_own(self, folder: Path) -> None:
        if not is_inside(folder, self.ai) or folder.is_symlink() or folder.parent.is_symlink():
            raise RunPlaceError(str(folder), "expected a folder, found a link")


def run_place(spaces: Spaces) -> RunPlace:
    """Where the runs of these spaces are kept."""
    project = spaces.project
    if project is not None and is_directory(project.ai):
        return RunPlace(project)
    return RunPlace(spaces.user)


# --- run ids --------------------------------------------------------------------------------------
# Ids of graph runs: made from the graph's, used as the name of a folder.

MAX_ID_BYTES = 200
_LONGEST_GRAPH = 160


def run_id_for(graph_id: str, *, epoch_ms: int, chance: bytes) -> str:
    """``<graph id, each / as ->-<milliseconds>-<4 hex digits>``; a long id keeps its end."""
    name = graph_id.replace("/", "-").lstrip(".-")
    last = name.encode()[-_LONGEST_GRAPH:].decode("utf-8", "ignore")
    return f"{last.lstrip('.-') or 'graph'}-{epoch_ms}-{chance[:2].hex()}"


def new_run_id(graph_id: str) -> str:
    """The id of a run that begins now."""
    return run_id_for(graph_id, epoch_ms=time.time_ns() // 1_000_000, chance=os.urandom(2))


def valid_run_id(run_id: str) -> str:
    """The id, if it may be the name of a folder and of a file. Raises RunIdError."""
    try:
        require_plain_path(run_id)
    except UnsafePathError as error:
        raise RunIdError(run_id, error.problem) from None
    if "/" in run_id:
        raise RunIdError(run_id, "expected no '/'")
    if run_id.startswith("."):
        raise RunIdError(run_id, "starts with a dot")
    if len(run_id.encode("utf-8", "surrogateescape")) > MAX_ID_BYTES:
        raise RunIdError(run_id, f"expected at most {MAX_ID_BYTES} bytes")
    return run_id


# --- node cache -----------------------------------------------------------------------------------
# Results of nodes that were called before with the same input. See ``docs/graphs.md``.
#
# A pointer file ``cache/nodes/<digest of the input>.json`` names the result. It is no proof of
# anything, so it may be lost or damaged at any time: that is a miss.

_NODES = "nodes"


@dataclass(frozen=True, slots=True)
class CachedResult:
    """A result, and the digest under which the store has it."""

    result: Any
    node_result_hash: str


class NodeCache:
    """The cache in a store. ``warn`` gets a line for each entry that is damaged. Thread-safe."""

    def __init__(
        self, store: Store, *, clock: Clock = utc_now, warn: Callable[[str], None] = log_warning
    ) -> None:
        self._store, self._clock, self._warn = store, clock, warn

    def get(self, given: NodeInput, *, ttl_s: float | None = None) -> CachedResult | None:
        """The result of that input; None if absent, or older than ``ttl_s``.

        Raises CanonicalJsonError for an input that is no JSON.
        """
        key = given.digest()
        try:
            return self._read(key, ttl_s)
        except LilluxError as error:
            self._warn(f"cached result of node {given.node_name!r} is not used: {error}")
            return None

    def put(self, given: NodeInput, result: object) -> str:
        """Keep a result that is no failure; its digest.

        Raises CanonicalJsonError, FileSystemError, StoreLinkError.
        """
        digest = self._store.put_object(result_object(result), Durability.UNFORCED)
        pointer = {
            "node_result_hash": digest,
            "node_name": given.node_name,
            "cached_at": self._clock().timestamp(),
        }
        self._store.write_cached(_NODES, given.digest(), pointer)
        return digest

    def _read(self, key: str, ttl_s: float | None) -> CachedResult | None:
        pointer = self._store.read_cached(_NODES, key)
        if pointer is None:
            return None
        digest, cached_at = pointer.get("node_result_hash"), pointer.get("cached_at")
        if not isinstance(digest, str) or type(cached_at) not in (int, float):
            raise RyeError(
                f"cache/nodes/{key}.json: expected node_result_hash and cached_at", code="INTEGRITY"
            )
        age_s = self._clock().timestamp() - float(str(cached_at))
        if ttl_s is not None and not 0 <= age_s < ttl_s:
            return None
        return CachedResult(result_of(self._store.get_object(digest), digest), digest)
