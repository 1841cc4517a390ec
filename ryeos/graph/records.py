"""The objects of a run as values, and back. Pure. Formats: ``docs/graph-runs.md``.

Readers take what other programs wrote: keys they do not know are kept, missing ones have a default,
and a wrong type is a RecordError that names the object and the key.
"""

from collections.abc import Mapping
from typing import Any

from lillux.cas.layout import is_digest
from lillux.integrity import compute_integrity
from lillux.values import dataclass, field
from ryeos.graph.run_errors import RecordError

SCHEMA = 2
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
    """A run after a step.

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
    return _Fields(value, "state_snapshot", where).mapping("state")


def result_object(result: object) -> dict[str, Any]:
    """A ``node_result``."""
    return {"schema": SCHEMA, "kind": "node_result", "result": result}


def result_of(value: object, where: str) -> Any:  # noqa: ANN401 - JSON of a tool
    """The result in one. Raises RecordError."""
    return _Fields(value, "node_result", where).required("result")


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
    fields = _Fields(value, "node_receipt", where)
    return Receipt(
        node_input_hash=fields.digest("node_input_hash"),
        node_result_hash=fields.digest("node_result_hash"),
        cache_hit=fields.flag("cache_hit"),
        elapsed_ms=fields.count("elapsed_ms"),
        timestamp=fields.text("timestamp"),
        error=fields.optional_text("error"),
    )


def snapshot_object(snapshot: ExecutionSnapshot) -> dict[str, Any]:
    """An ``execution_snapshot``. ``errors`` is left out when there are none."""
    errors = {"errors": [dict(error) for error in snapshot.errors]} if snapshot.errors else {}
    return {
        **snapshot.unknown,
        "schema": SCHEMA,
        "kind": "execution_snapshot",
        "graph_run_id": snapshot.graph_run_id,
        "graph_id": snapshot.graph_id,
        "project_manifest_hash": snapshot.project_manifest_hash,
        "user_manifest_hash": snapshot.user_manifest_hash,
        "system_version": snapshot.system_version,
        "step": snapshot.step,
        "status": snapshot.status,
        "state_hash": snapshot.state_hash,
        "node_receipts": list(snapshot.node_receipts),
        "current_node": snapshot.current_node,
        "graph_hash": snapshot.graph_hash,
        "previous": snapshot.previous,
        "errors_suppressed": snapshot.errors_suppressed,
        **errors,
    }


def snapshot_of(value: object, where: str) -> ExecutionSnapshot:
    """The snapshot in an ``execution_snapshot``. Raises RecordError."""
    fields = _Fields(value, "execution_snapshot", where)
    return ExecutionSnapshot(
        graph_run_id=fields.text("graph_run_id"),
        graph_id=fields.text("graph_id"),
        step=fields.count("step"),
        status=fields.text("status"),
        state_hash=fields.digest("state_hash"),
        node_receipts=fields.digests("node_receipts"),
        errors=fields.mappings("errors"),
        errors_suppressed=fields.count("errors_suppressed"),
        current_node=fields.optional_text("current_node"),
        graph_hash=fields.text("graph_hash"),
        previous=fields.digest("previous"),
        system_version=fields.text("system_version"),
        project_manifest_hash=fields.text("project_manifest_hash"),
        user_manifest_hash=fields.optional_text("user_manifest_hash") or "",
        unknown=fields.unknown(_SNAPSHOT_KEYS),
    )


_SNAPSHOT_KEYS = frozenset(
    {
        "schema",
        "kind",
        "graph_run_id",
        "graph_id",
        "project_manifest_hash",
        "user_manifest_hash",
        "system_version",
        "step",
        "status",
        "state_hash",
        "node_receipts",
        "current_node",
        "graph_hash",
        "previous",
        "errors_suppressed",
        "errors",
    }
)


class _Fields:
    """The keys of one object, each asked for with its type."""

    def __init__(self, value: object, kind: str, where: str) -> None:
        if not isinstance(value, dict):
            raise RecordError(where, "(root)", "an object", _found(value))
        self._value: dict[str, Any] = value
        self._where = where
        if value.get("kind") != kind:
            raise self._wrong("kind", f'"{kind}"')
        if value.get("schema") != SCHEMA:
            raise self._wrong("schema", str(SCHEMA))

    def required(self, key: str) -> Any:  # noqa: ANN401 - JSON
        if key not in self._value:
            raise RecordError(self._where, key, "a value", "none")
        return self._value[key]

    def mapping(self, key: str) -> dict[str, Any]:
        value = self.required(key)
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return value

    def text(self, key: str) -> str:
        value = self._value.get(key, "")
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def optional_text(self, key: str) -> str | None:
        return None if self._value.get(key) is None else self.text(key)

    def digest(self, key: str) -> str:
        value = self._value.get(key)
        if value is None or value == "":
            return ""
        if not is_digest(value):
            raise self._wrong(key, "a digest")
        return str(value)

    def flag(self, key: str) -> bool:
        value = self._value.get(key, False)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def count(self, key: str) -> int:
        value = self._value.get(key, 0)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise self._wrong(key, "a whole number from 0")
        return value

    def digests(self, key: str) -> tuple[str, ...]:
        value = self._value.get(key, [])
        if not isinstance(value, list) or not all(is_digest(one) for one in value):
            raise self._wrong(key, "a list of digests")
        return tuple(value)

    def mappings(self, key: str) -> tuple[dict[str, Any], ...]:
        value = self._value.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self._wrong(key, "a list of objects")
        return tuple(value)

    def unknown(self, known: frozenset[str]) -> dict[str, Any]:
        return {key: value for key, value in self._value.items() if key not in known}

    def _wrong(self, key: str, expected: str) -> RecordError:
        return RecordError(self._where, key, expected, _found(self._value.get(key)))


def _found(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case str():
            return repr(value[:80])
        case bool() | int() | float():
            return str(value)[:80]
        case _:
            return {"dict": "an object", "list": "a list"}.get(type(value).__name__, "something")
