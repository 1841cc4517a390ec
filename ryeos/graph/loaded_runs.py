"""A run as it was recorded: its transcript, and its last whole state.

The transcript is verified.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from lillux.canonical_json import compute_integrity
from lillux.store import Store
from lillux.store_errors import ObjectChangedError, ObjectMissingError, RefUnreadableError
from lillux.store_layout import is_digest
from lillux.values import dataclass, field
from ryeos.graph.errors import RecordError
from ryeos.graph.run_objects import Receipt, RunSnapshot, receipt_of, run_snapshot_of, state_of
from ryeos.graph.run_places import TRANSCRIPT, RunPlace
from ryeos.graph.transcript import KeyLookup, LoggedEvent, ReadTranscript, read_transcript
from ryeos.items.errors import RyeError
from ryeos.run.workspace import Workspace

STATE_CHECKPOINT, STEP_COMPLETED = "state_checkpoint", "step_completed"
_OF_A_STEP = frozenset({STATE_CHECKPOINT, STEP_COMPLETED})
_LOST = (ObjectMissingError, ObjectChangedError)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedRun:
    """Everything that resuming needs.

    snapshot        the run after its last whole step
    snapshot_hash   its digest
    state           the state then, inputs included
    errors          every suppressed failure of the run
    events          the transcript up to that step
    end             how many bytes of the transcript they take
    unsigned_steps  steps that no signed checkpoint covers: the last few after a kill, or all
    unstored        objects that stand in the transcript and may not be in the store yet
    lost_steps      recorded steps whose objects a loss of power took; they will run again
    warnings        sentences for the user
    """

    snapshot: RunSnapshot
    snapshot_hash: str
    state: Mapping[str, Any]
    errors: tuple[Mapping[str, Any], ...]
    events: tuple[LoggedEvent, ...] = field(repr=False)
    end: int
    unsigned_steps: int
    unstored: tuple[dict[str, Any], ...] = field(repr=False)
    lost_steps: int
    warnings: tuple[str, ...]

    @property
    def step(self) -> int:
        """The number of steps that are done."""
        return self.snapshot.step

    @property
    def status(self) -> str:
        """``running`` for a run that had no end, also one that was killed."""
        return self.snapshot.status

    @property
    def current_node(self) -> str | None:
        """The position to continue at."""
        return self.snapshot.current_node

    @property
    def graph_hash(self) -> str:
        """Of the graph that the run was started with."""
        return self.snapshot.graph_hash


def load_run(place: RunPlace, run_id: str, trusted: KeyLookup) -> LoadedRun:
    """Read what was recorded of a run; nothing is written.

    (1) the transcript, its checkpoints verified
    (2) the last step in it whose snapshot and state are whole. Back to the last checkpoint a
        missing one is a loss of power; before that it is damage. Small ones stand in the
        transcript itself
    (3) without a transcript that names one: the ref
    (4) the suppressed failures of all blocks

    Raises RunIdError, RunPlaceError, RyeError `RUN_NOT_FOUND`, TranscriptError,
    RyeError `INTEGRITY` or `UNTRUSTED_KEY`, RecordError, ObjectMissingError,
    ObjectChangedError, FileSystemError.
    """
    store = place.store()
    path = place.run_file(run_id, TRANSCRIPT)
    try:
        transcript = read_transcript(path, run_id, trusted)  # (1)
    except FileNotFoundError:
        transcript = ReadTranscript()
    objects = _Objects(store, transcript.events)
    found = _from_transcript(objects, run_id, transcript)  # (2)
    found = found or _from_ref(store, objects, run_id, transcript.end)  # (3)
    if found is None:
        raise RyeError(
            f"Cannot resume: state not found: {run_id} (searched: {path!s})",
            code="RUN_NOT_FOUND",
            hint="check the run id and the project; runs are kept where they were started",
        )
    digest, snapshot, state, end = found
    events = tuple(event for event in transcript.events if event.end <= end)
    errors, missing = _all_errors(objects, snapshot)  # (4)
    unsigned = _steps_after(events, transcript.signed_end) if events else snapshot.step
    lost = max(_last_step(transcript.events) - snapshot.step, 0)
    return LoadedRun(
        snapshot=snapshot,
        snapshot_hash=digest,
        state=state,
        errors=errors,
        events=events,
        end=end,
        unsigned_steps=unsigned,
        unstored=objects.since(transcript.forced_end, end),
        lost_steps=lost,
        warnings=(
            *missing,
            *_warnings(run_id, transcript, unsigned, lost),
            *_behind_its_ref(store, objects, snapshot),
        ),
    )


def receipts_of(store: Store, run: LoadedRun) -> Iterator[Receipt]:
    """The receipts of a run, the newest block first; one that is lost is left out."""
    objects = _Objects(store, run.events)
    for snapshot in _blocks(objects, run.snapshot):
        for digest in snapshot.node_receipts:
            try:
                yield receipt_of(objects.get(digest), f"node_receipt {digest}")
            except _LOST:
                continue


class _Objects:
    """The objects of a run: those in its transcript, by their digest, and those in the store."""

    def __init__(self, store: Store, events: tuple[LoggedEvent, ...]) -> None:
        self._store = store
        self._inline: dict[str, tuple[int, dict[str, Any]]] = {}
        for event in events:
            if event.event_type == STATE_CHECKPOINT:
                self._take(event)

    def get(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """An object, hashed again wherever it comes from. Raises as `Store.get_object`."""
        known = self._inline.get(digest)
        if known is not None and compute_integrity(known[1]) == digest:
            return known[1]
        return self._store.get_object(digest)

    def since(self, start: int, end: int) -> tuple[dict[str, Any], ...]:
        """The bytes of events after ``start`` and up to ``end``."""
        return tuple(value for at, value in self._inline.values() if start < at <= end)

    def _take(self, event: LoggedEvent) -> None:
        payload = event.payload
        receipts = payload.get("receipts")
        named = [
            (payload.get("state_hash"), payload.get("state")),
            (payload.get("snapshot_hash"), payload.get("snapshot")),
        ]
        if isinstance(receipts, list):
            named += [(compute_integrity(receipt), receipt) for receipt in receipts]
        for digest, value in named:
            if is_digest(digest) and isinstance(value, dict):
                self._inline[str(digest)] = event.end, value


_FoundRun = tuple[str, RunSnapshot, dict[str, Any], int]


def _from_transcript(
    objects: _Objects, run_id: str, transcript: ReadTranscript
) -> _FoundRun | None:
    for event in reversed(transcript.events):
        digest = event.payload.get("snapshot_hash")
        if event.event_type != STATE_CHECKPOINT or not is_digest(digest):
            continue
        try:
            snapshot, state = _whole(objects, run_id, str(digest))
        except _LOST:
            if event.end <= transcript.forced_end:
                raise
            continue
        return str(digest), snapshot, state, max(_end_after(transcript, event))
    return None


def _end_after(transcript: ReadTranscript, used: LoggedEvent) -> tuple[int, int]:
    """The position to go on writing at: after the step used, or its checkpoint, or after all."""
    later = [
        event
        for event in transcript.events
        if event.end > used.end and event.event_type in _OF_A_STEP
    ]
    return (used.end if later else transcript.end), transcript.forced_end


def _from_ref(store: Store, objects: _Objects, run_id: str, end: int) -> _FoundRun | None:
    try:
        ref = store.read_ref(f"graphs/{run_id}")
    except RefUnreadableError:
        return None
    digest = ref.get("hash") if ref else None
    if not is_digest(digest):
        return None
    return str(digest), *_whole(objects, run_id, str(digest)), end


def _behind_its_ref(store: Store, objects: _Objects, used: RunSnapshot) -> Iterator[str]:
    """The ref is written after the checkpoint that it is of: it is never further than that."""
    try:
        found = _from_ref(store, objects, used.graph_run_id, 0)
    except (*_LOST, RecordError):
        return
    if found is not None and found[1].step > used.step:
        yield (
            f"the transcript of run {used.graph_run_id} ends with step {used.step},"
            f" and step {found[1].step} was recorded: it may have been cut"
        )


def _whole(objects: _Objects, run_id: str, digest: str) -> tuple[RunSnapshot, dict[str, Any]]:
    snapshot = run_snapshot_of(objects.get(digest), f"execution_snapshot {digest}")
    if snapshot.graph_run_id != run_id:
        found = repr(snapshot.graph_run_id[:200])
        raise RecordError(f"execution_snapshot {digest}", "graph_run_id", repr(run_id), found)
    state_hash = snapshot.state_hash
    return snapshot, state_of(objects.get(state_hash), f"state_snapshot {state_hash}")


def _blocks(objects: _Objects, last: RunSnapshot) -> Iterator[RunSnapshot]:
    """The last snapshot and those it continues. Raises as `Store.get_object`, RecordError."""
    yield last
    while last.previous:
        where = f"execution_snapshot {last.previous}"
        before = run_snapshot_of(objects.get(last.previous), where)
        yield before
        last = before


def _all_errors(
    objects: _Objects, last: RunSnapshot
) -> tuple[tuple[Mapping[str, Any], ...], list[str]]:
    """The suppressed failures, the oldest first, and a warning when some are lost."""
    blocks, warnings = [], []
    try:
        for snapshot in _blocks(objects, last):
            blocks.append(snapshot.errors)  # noqa: PERF401 - what came before a loss is kept
    except _LOST as error:
        warnings.append(f"earlier suppressed errors of the run are lost: {error}")
    return tuple(error for block in reversed(blocks) for error in block), warnings


def _last_step(events: tuple[LoggedEvent, ...]) -> int:
    steps = [event.payload.get("step") for event in events if event.event_type == STATE_CHECKPOINT]
    return max((step for step in steps if isinstance(step, int)), default=0)


def _steps_after(events: tuple[LoggedEvent, ...], signed_end: int) -> int:
    return sum(event.event_type == STEP_COMPLETED and event.end > signed_end for event in events)


def _warnings(run_id: str, read: ReadTranscript, unsigned: int, lost: int) -> Iterator[str]:
    if not read.events:
        yield f"run {run_id} has no transcript: nothing shows that its state is what it was"
    elif not read.signed_end:
        yield f"run {run_id} was recorded without a signing key: nothing shows who wrote it"
    elif unsigned:
        yield f"the last {unsigned} steps of run {run_id} were not yet signed when it ended"
    if read.dropped_bytes:
        dropped = f"{read.dropped_bytes} bytes are left out"
        yield f"the transcript of run {run_id} was cut short: {dropped}"
    if lost:
        yield f"{lost} steps of run {run_id} were lost with the power and run again"


def key_lookup(workspace: Workspace, place: RunPlace) -> KeyLookup:
    """The public keys that count in the space of the runs."""

    def public_pem(fingerprint: str) -> bytes | None:
        key = workspace.trust.get_key(fingerprint, place.space.label)
        return key.public_pem if key else None

    return public_pem
