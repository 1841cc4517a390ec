"""The objects of a run: snapshots, receipts, inputs of nodes, and results.

Readers take what other programs wrote: keys they do not know are kept, missing ones have a default,
and a wrong type is a RecordError that names the object and the key.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from lillux.canonical_json import compute_integrity
from lillux.fields import is_mapping
from lillux.shapes import LEFT_OUT, Form
from lillux.values import dataclass, field
from ryeos.graph.errors import RecordError
from ryeos.sync.object_shapes import (
    DigestOrBlank,
    Digests,
    Errors,
    Others,
    Size,
    Text,
    read_object,
    write_object,
)

RUNNING = "running"
COMPLETED = frozenset({"completed", "completed_with_errors", "success"})
"""Statuses of a run that has nothing left to do; ``success`` is a word of other programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInput:
    """The input that decides the result of a node, and so is the key of its cache entry.

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
