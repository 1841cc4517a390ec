"""Stores a run while it runs: after each step, all that a resume needs.

A step is one write to the transcript, which holds the snapshot and, if it is small, the state: a
kill leaves the run as it was after its last whole step. Now and then comes a checkpoint, which
makes the run safe from a loss of power too and gives it to readers of the store:

(1) the objects of the steps since the last one, state and snapshots forced to the disk
(2) a signed line of the transcript, which is forced to the disk
(3) the ref

Formats, and what a loss of power costs: ``docs/graphs.md``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from lillux.canonical_json import canonical_json, compute_integrity
from lillux.digests import sha256_hex
from lillux.file_locks import LockTimeoutError, locked
from lillux.files import file_system_error, read_part
from lillux.store import Durability, Store
from lillux.values import dataclass, replace
from ryeos.graph.errors import RunIdError
from ryeos.graph.loaded_runs import STATE_CHECKPOINT, STEP_COMPLETED, LoadedRun, load_run
from ryeos.graph.run_objects import (
    COMPLETED,
    RUNNING,
    Receipt,
    RunSnapshot,
    receipt_object,
    result_object,
    run_snapshot_object,
    state_object,
)
from ryeos.graph.run_places import LOCK, TRANSCRIPT, RunPlace, valid_run_id
from ryeos.graph.transcript import EventRecord, KeyLookup, Transcript, reopen
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError

if TYPE_CHECKING:
    from ryeos.trust.signing_key import SigningKey


BLOCK = 16
"""Receipts and errors that snapshots repeat before they continue in a new block."""

INLINE_BYTES = 16 * 1024
"""A larger state is an object of its own at once, and not a part of the transcript."""

MAX_STATE_BYTES = 64 * 1024 * 1024
"""Of a whole state, as JSON."""

_LATER = Durability.UNFORCED


@dataclass(frozen=True, slots=True)
class CheckpointPace:
    """A checkpoint is made with the step that ends ``steps`` or ``seconds`` after the last one."""

    steps: int = 200
    seconds: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunIdentity:
    """The identity of a run and its graph. ``graph_hash`` is the digest of the graph's config."""

    run_id: str
    graph_id: str
    graph_hash: str
    system_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """The record of a completed step.

    step         counts from 1; the run's steps so far
    node         its name
    next_node    where the run continues: after a failure that ends the run the node itself
    state        after the step, inputs included; JSON
    status       ``completed``, ``error``, ...
    receipts     one for each call: none for a gate, one for an action, many for a foreach
    suppressed   failures that the graph continues after, ``{"message", "phase", "node", ...}``
    log          the end of what the tools of its calls printed
    """

    step: int
    node: str
    next_node: str | None
    state: Mapping[str, Any]
    status: str = "completed"
    elapsed_s: float = 0.0
    action_id: str = ""
    thread_id: str | None = None
    error: str | None = None
    receipts: tuple[Receipt, ...] = ()
    suppressed: tuple[Mapping[str, Any], ...] = ()
    log: str = ""


class RunRecords:
    """The records of one run, which no other process records at the same time.

    For one thread, but for `event` and `put_result`, which are for any.

    Every method raises FileSystemError, CanonicalJsonError for values that are no JSON,
    StoreLinkError. Made by `create` and `resume`; `close` lets go of the run.
    """

    def __init__(
        self,
        store: Store,
        transcript: Transcript,
        last: RunSnapshot,
        *,
        held: ExitStack,
        pace: CheckpointPace = CheckpointPace(),  # noqa: B008 - a frozen value
        clock: Clock = utc_now,
        timer: Callable[[], float] = monotonic,
    ) -> None:
        self.store = store
        self._transcript, self._last, self._held = transcript, last, held
        self._pace, self._clock, self._timer = pace, clock, timer
        self._last_hash = ""
        self._resume_objects: dict[str, dict[str, Any]] = {}  # those that resuming needs
        self._receipts: list[dict[str, Any]] = []
        self._steps_since, self._checkpoint_at = 0, timer()

    @classmethod
    def create(
        cls,
        place: RunPlace,
        identity: RunIdentity,
        *,
        state: Mapping[str, Any],
        current_node: str,
        key: "SigningKey | None" = None,
        pace: CheckpointPace = CheckpointPace(),  # noqa: B008 - a frozen value
        clock: Clock = utc_now,
        timer: Callable[[], float] = monotonic,
    ) -> "RunRecords":
        """Begin a run; when this returns, it can be resumed from ``current_node``.

        Raises RunIdError, RunPlaceError, RyeError `CONFLICT`.
        """
        run_id = identity.run_id
        place.make(run_id)
        store = place.store()
        with ExitStack() as stack:
            _hold(stack, place, run_id)
            path = place.run_file(run_id, TRANSCRIPT)
            if path.exists() or path.is_symlink():
                raise RyeError(
                    f"run {run_id} exists already",
                    code="CONFLICT",
                    hint="resume it, or take another run id",
                )
            transcript = Transcript(path, run_id, key=key, clock=clock, within=place.within)
            stack.callback(transcript.close)
            first = RunSnapshot(
                graph_run_id=run_id,
                graph_id=identity.graph_id,
                graph_hash=identity.graph_hash,
                system_version=identity.system_version,
                step=0,
                status=RUNNING,
                state_hash="",
                current_node=current_node,
            )
            held = stack.pop_all()
        records = cls(store, transcript, first, held=held, pace=pace, clock=clock, timer=timer)
        started = {"graph_id": identity.graph_id, "graph_hash": identity.graph_hash}
        records._record(first, state, [("graph_started", started)])
        records.checkpoint()
        return records

    @classmethod
    def resume(
        cls,
        place: RunPlace,
        run_id: str,
        *,
        trusted: KeyLookup,
        allow: Callable[[LoadedRun], None],
        key: "SigningKey | None" = None,
        pace: CheckpointPace = CheckpointPace(),  # noqa: B008 - a frozen value
        clock: Clock = utc_now,
        timer: Callable[[], float] = monotonic,
    ) -> "tuple[RunRecords, LoadedRun]":
        """Resume a run. ``allow`` gets what was loaded and raises to refuse it.

        Nothing is written before that.
        Raises as `load_run`, RyeError `CONFLICT`, and what ``allow`` raises.
        """
        if not place.run_file(run_id, TRANSCRIPT).exists():
            allow(load_run(place, run_id, trusted))
            place.make(run_id)
        with ExitStack() as stack:
            _hold(stack, place, run_id)
            loaded = load_run(place, run_id, trusted)
            allow(loaded)
            path = place.run_file(run_id, TRANSCRIPT)
            if path.exists():
                transcript = reopen(
                    path, run_id, key=key, clock=clock, end=loaded.end, within=place.within
                )
            else:
                transcript = Transcript(path, run_id, key=key, clock=clock, within=place.within)
            stack.callback(transcript.close)
            held = stack.pop_all()
        last = replace(loaded.snapshot, status=RUNNING)
        store = place.store()
        records = cls(store, transcript, last, held=held, pace=pace, clock=clock, timer=timer)
        resumed = {"step": last.step, "current_node": last.current_node}
        for value in loaded.unstored:
            store.put_object(value, _LATER)
        records._record(last, loaded.state, [("graph_resumed", resumed)])
        records.checkpoint()
        return records, loaded

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._last.graph_run_id

    def event(self, event_type: str, payload: Mapping[str, Any]) -> None:
        """Append an event, like ``step_started``. Thread-safe."""
        self._transcript.append([(event_type, payload)])

    def put_result(self, result: object) -> str:
        """Store a node's result; its digest, for a receipt and for the cache. Thread-safe."""
        return self.store.put_object(result_object(result), _LATER)

    def step(self, done: StepRecord) -> None:
        """Record a completed step; a checkpoint too when it is time for one."""
        last = self._block()
        receipts = [self._receipt(receipt) for receipt in done.receipts]
        digests = [compute_integrity(receipt) for receipt in receipts]
        snapshot = replace(
            last,
            step=done.step,
            current_node=done.next_node,
            node_receipts=(*last.node_receipts, *digests),
            errors=(*last.errors, *done.suppressed),
            errors_suppressed=last.errors_suppressed + len(done.suppressed),
        )
        self._record(snapshot, done.state, [(STEP_COMPLETED, _completed_event(done))], receipts)
        self._steps_since += 1
        late = self._timer() - self._checkpoint_at >= self._pace.seconds
        if late or self._steps_since >= self._pace.steps:
            self.checkpoint()

    def finish(
        self,
        status: str,
        *,
        state: Mapping[str, Any],
        current_node: str | None = None,
        elapsed_s: float = 0.0,
        error: str | None = None,
    ) -> None:
        """Record the end: ``completed``, ``completed_with_errors``, ``cancelled``, or a failure.

        ``current_node`` is where a resume would continue, None for a run that is complete. The run
        is on disk when this returns, and nothing more can be recorded.
        """
        ended = {"status": status, "steps": self._last.step, "elapsed_s": elapsed_s}
        if status in COMPLETED:
            event: EventRecord = ("graph_completed", ended)
        elif status == "cancelled":
            event = ("graph_cancelled", {**ended, "node": current_node})
        else:
            event = ("graph_error", {**ended, "error": error or status, "node": current_node})
        snapshot = replace(self._last, status=status, current_node=current_node)
        self._record(snapshot, state, [event])
        self.checkpoint()
        self._write_ref(Durability.NOW)
        self.close()

    def checkpoint(self) -> None:
        """Make the run as it is now safe from a loss of power, and sign it."""
        for receipt in self._receipts:  # (1)
            self.store.put_object(receipt, _LATER)
        for value in self._resume_objects.values():
            self.store.put_object(value, _LATER)
        self.store.sync_objects([*self._resume_objects, self._last.state_hash])
        self._transcript.checkpoint(self._last.step)  # (2)
        self._write_ref(_LATER)  # (3)
        self._resume_objects, self._receipts = {}, []
        self._steps_since, self._checkpoint_at = 0, self._timer()

    def close(self) -> None:
        """Let go of the run, whose records stay as they are; a second time does nothing."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _block(self) -> RunSnapshot:
        """The last snapshot, or an empty one of a new block that continues it."""
        last = self._last
        if len(last.node_receipts) + len(last.errors) < BLOCK:
            return last
        return replace(last, node_receipts=(), errors=(), previous=self._last_hash)

    def _receipt(self, receipt: Receipt) -> dict[str, Any]:
        if not receipt.timestamp:
            receipt = replace(receipt, timestamp=self._clock().isoformat())
        return receipt_object(receipt)

    def _record(
        self,
        snapshot: RunSnapshot,
        state: Mapping[str, Any],
        events: list[EventRecord],
        receipts: Sequence[dict[str, Any]] = (),
    ) -> None:
        data = canonical_json(stored := state_object(state))
        if len(data) > MAX_STATE_BYTES:
            raise RyeError(
                f"{self.run_id}: its state has {len(data)} bytes, expected at most"
                f" {MAX_STATE_BYTES}",
                code="RESOURCE_EXCEEDED",
                hint="let the tools write what is large to files, and keep the paths in the state",
            )
        state_hash = sha256_hex(data)
        snapshot = replace(snapshot, state_hash=state_hash)
        value = run_snapshot_object(snapshot)
        digest = compute_integrity(value)
        reached: dict[str, Any] = {
            "step": snapshot.step,
            "current_node": snapshot.current_node,
            "state_hash": state_hash,
            "snapshot_hash": digest,
            "snapshot": value,
            "receipts": list(receipts),
        }
        if len(data) <= INLINE_BYTES:
            reached["state"] = stored
        elif state_hash != self._last.state_hash or not self.store.has_object(state_hash):
            self.store.put_object(stored, _LATER)
        self._transcript.append([*events, (STATE_CHECKPOINT, reached)])
        if self._last_hash != snapshot.previous:  # the end of a block is kept
            self._resume_objects.pop(self._last_hash, None)
        self._resume_objects.pop(self._last.state_hash, None)
        self._resume_objects |= {state_hash: stored, digest: value}
        self._receipts += receipts
        self._last, self._last_hash = snapshot, digest

    def _write_ref(self, durability: Durability) -> None:
        self.store.write_ref(f"graphs/{self.run_id}", {"hash": self._last_hash}, durability)


def _completed_event(done: StepRecord) -> dict[str, Any]:
    only = done.receipts[0] if len(done.receipts) == 1 else None
    log = {"log": done.log} if done.log else {}
    return {
        "step": done.step,
        "node": done.node,
        "action_id": done.action_id,
        "status": done.status,
        "elapsed_s": done.elapsed_s,
        "next_node": done.next_node,
        "thread_id": done.thread_id,
        "error": done.error,
        "cache_hit": only.cache_hit if only else False,
        "node_input_hash": only.node_input_hash if only else "",
        "node_result_hash": only.node_result_hash if only else "",
        **log,
    }


def _hold(stack: ExitStack, place: RunPlace, run_id: str) -> None:
    """Keep other processes from recording this run, until the stack is closed."""
    path = place.run_file(run_id, LOCK)
    try:
        stack.enter_context(locked(path, timeout_s=0, within=place.within))
    except LockTimeoutError:
        raise RyeError(
            f"run {run_id} is still running", code="CONFLICT", hint="wait for its end, or cancel it"
        ) from None
    except OSError as error:
        raise file_system_error(path, error) from error


# States that runs would resume from and no ref names yet: a sweep of the store keeps them.

_TAIL_BYTES = 4 * 1024 * 1024
_STATE = re.compile(rb'"state_hash":"([0-9a-f]{64})"')


def roots_of_runs(place: RunPlace) -> Iterator[str]:
    """Of every run the digest of the last state in its transcript.

    A ref is written with a checkpoint only, so the steps since then are named by the transcript
    alone. Whether it is genuine does not matter here: a wrong digest spares too much, never too
    little. Raises RunPlaceError, FileSystemError.
    """
    for run_id in _run_ids(place):
        path = place.run_file(run_id, TRANSCRIPT)
        try:
            size = path.lstat().st_size
            tail, _ = read_part(path, max(size - _TAIL_BYTES, 0), _TAIL_BYTES)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise file_system_error(path, error) from error
        states = _STATE.findall(tail)
        if states:
            yield states[-1].decode("ascii")


def _run_ids(place: RunPlace) -> Iterator[str]:
    try:
        names = sorted(path.name for path in place.runs.iterdir())
    except FileNotFoundError:
        return
    except OSError as error:
        raise file_system_error(place.runs, error) from error
    for name in names:
        try:
            yield valid_run_id(name)
        except RunIdError:  # not a run, like the .gitignore
            continue
