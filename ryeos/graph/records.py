"""The objects of a run as values, and back. Pure. Formats: ``docs/graph-runs.md``.

Readers take what other programs wrote: keys they do not know are kept, missing ones have a default,
and a wrong type is a RecordError that names the object and the key.
"""

from collections.abc import Mapping
from typing import Any

from lillux.digests import compute_integrity
from lillux.values import dataclass, field
from ryeos.cas import objects
from ryeos.cas.fields import SCHEMA, Fields
from ryeos.graph.run_errors import RecordError

RUNNING = "running"
COMPLETED = frozenset({"completed", "completed_with_errors", "success"})
"""Statuses of a run that has nothing left to do; ``success`` is a word of other programs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeInput:
    """What decides the result of a node, and so is the key of its cache entry.

    graph_hash             digest of the graph's ``config``
    config_snapshot_hash   digest of the merged configuration, ``""`` for none
    chain                  integrity of each element of the called chain, from tool to primitive
    remote                 name of the node it is sent to, ``""`` for here
    """

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

    node_input_hash: str
    node_result_hash: str
    cache_hit: bool = False
    elapsed_ms: int = 0
    timestamp: str = ""
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSnapshot:
    """A run after a step: the snapshot of any execution, with where a graph goes on from there.

    step               steps completed
    status             ``running`` until the end
    state_hash         the state_snapshot after the step; the inputs are in the state
    current_node       where the run goes on, None at an end
    graph_hash         of the graph that the run was started with
    node_receipts      the receipts since the snapshot ``previous``
    errors             suppressed failures since then
    previous           the snapshot that holds what came before, ``""`` for none
    errors_suppressed  how many there were in the whole run
    unknown            keys of other programs
    """

    graph_run_id: str
    graph_id: str
    step: int
    status: str
    state_hash: str
    node_receipts: tuple[str, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()
    errors_suppressed: int = 0
    current_node: str | None = None
    graph_hash: str = ""
    previous: str = ""
    system_version: str = ""
    project_manifest_hash: str = ""
    user_manifest_hash: str = ""
    unknown: Mapping[str, Any] = field(default_factory=dict)


def state_object(state: Mapping[str, Any]) -> dict[str, Any]:
    """A ``state_snapshot``."""
    return {"schema": SCHEMA, "kind": "state_snapshot", "state": dict(state)}


def state_of(value: object, where: str) -> dict[str, Any]:
    """The state in one. Raises RecordError."""
    return _fields(value, "state_snapshot", where).required_mapping("state")


def result_object(result: object) -> dict[str, Any]:
    """A ``node_result``."""
    return {"schema": SCHEMA, "kind": "node_result", "result": result}


def result_of(value: object, where: str) -> Any:  # noqa: ANN401 - JSON of a tool
    """The result in one. Raises RecordError."""
    return _fields(value, "node_result", where).required("result")


def node_input_object(given: NodeInput) -> dict[str, Any]:
    """A ``node_input``; made to be hashed, never stored, for it may hold secrets."""
    return {
        "schema": SCHEMA,
        "kind": "node_input",
        "graph_id": given.graph_id,
        "graph_hash": given.graph_hash,
        "node_name": given.node_name,
        "interpolated_action": dict(given.interpolated_action),
        "config_snapshot_hash": given.config_snapshot_hash,
        "chain": list(given.chain),
        "remote": given.remote,
    }


def receipt_object(receipt: Receipt) -> dict[str, Any]:
    """A ``node_receipt``."""
    error = {} if receipt.error is None else {"error": receipt.error}
    return {
        "schema": SCHEMA,
        "kind": "node_receipt",
        "node_input_hash": receipt.node_input_hash,
        "node_result_hash": receipt.node_result_hash,
        "cache_hit": receipt.cache_hit,
        "elapsed_ms": receipt.elapsed_ms,
        "timestamp": receipt.timestamp,
        **error,
    }


def receipt_of(value: object, where: str) -> Receipt:
    """The receipt in a ``node_receipt``. Raises RecordError."""
    fields = _fields(value, "node_receipt", where)
    return Receipt(
        node_input_hash=fields.optional_digest("node_input_hash") or "",
        node_result_hash=fields.optional_digest("node_result_hash") or "",
        cache_hit=fields.flag("cache_hit"),
        elapsed_ms=fields.count("elapsed_ms"),
        timestamp=fields.text("timestamp"),
        error=fields.optional_text("error"),
    )


def snapshot_object(snapshot: ExecutionSnapshot) -> dict[str, Any]:
    """An ``execution_snapshot`` with the keys of a graph. ``errors`` is left out for none."""
    return objects.ExecutionSnapshot(
        graph_run_id=snapshot.graph_run_id,
        graph_id=snapshot.graph_id,
        status=snapshot.status,
        project_manifest_hash=snapshot.project_manifest_hash,
        user_manifest_hash=snapshot.user_manifest_hash,
        system_version=snapshot.system_version,
        step=snapshot.step,
        state_hash=snapshot.state_hash,
        node_receipts=snapshot.node_receipts,
        errors=snapshot.errors,
        unknown={
            **snapshot.unknown,
            "current_node": snapshot.current_node,
            "graph_hash": snapshot.graph_hash,
            "previous": snapshot.previous,
            "errors_suppressed": snapshot.errors_suppressed,
        },
    ).as_object()


def snapshot_of(value: object, where: str) -> ExecutionSnapshot:
    """The snapshot in an ``execution_snapshot``, whoever wrote it. Raises RecordError."""
    shared = objects.execution_snapshot_of(value, where, RecordError)
    fields = _fields(value, "execution_snapshot", where)
    return ExecutionSnapshot(
        graph_run_id=shared.graph_run_id,
        graph_id=shared.graph_id,
        step=shared.step,
        status=shared.status,
        state_hash=shared.state_hash or "",
        node_receipts=shared.node_receipts,
        errors=shared.errors,
        errors_suppressed=fields.count("errors_suppressed"),
        current_node=fields.optional_text("current_node"),
        graph_hash=fields.text("graph_hash"),
        previous=fields.optional_digest("previous") or "",
        system_version=shared.system_version,
        project_manifest_hash=shared.project_manifest_hash or "",
        user_manifest_hash=shared.user_manifest_hash or "",
        unknown={key: one for key, one in shared.unknown.items() if key not in _GRAPH_KEYS},
    )


_GRAPH_KEYS = frozenset({"current_node", "graph_hash", "previous", "errors_suppressed"})


def _fields(value: object, kind: str, where: str) -> Fields:
    return Fields(value, kind, where, RecordError)
