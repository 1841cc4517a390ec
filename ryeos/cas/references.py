"""Which content an object names: what a transfer takes along, and a sweep spares. Pure.

An object that is not what its kind says names what can be read of it: to judge its shape is for
`ryeos.cas.objects`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lillux.store_files import Space, is_digest
from lillux.values import dataclass

_HASH, _HASHES = "_hash", "_hashes"


@dataclass(frozen=True, slots=True)
class Reference:
    """A digest that an object names. ``space`` is None where only its reader knows the kind."""

    digest: str
    space: Space | None


def references_of(value: object) -> Iterator[Reference]:
    """What the object names, in the order of its keys. Null and ``""`` name nothing.

    Of a kind that is not known: each digest under a key that ends in ``_hash``, and each in a list
    under one that ends in ``_hashes``.
    """
    if not isinstance(value, dict):
        return
    kind = value.get("kind")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    for digest, space in (read or _unknown)(value):
        if is_digest(digest):
            yield Reference(str(digest), space)


_Named = Iterator[tuple[object, Space | None]]


def _project_snapshot(value: Mapping[str, Any]) -> _Named:
    yield value.get("project_manifest_hash"), Space.OBJECT
    yield value.get("user_manifest_hash"), Space.OBJECT
    for digest in _list(value, "parent_hashes"):
        yield digest, Space.OBJECT


def _source_manifest(value: Mapping[str, Any]) -> _Named:
    for digest in _mapping(value, "items").values():
        yield digest, Space.OBJECT
    for digest in _mapping(value, "files").values():
        yield digest, Space.BLOB


def _item_source(value: Mapping[str, Any]) -> _Named:
    yield value.get("content_blob_hash"), Space.BLOB


def _execution_snapshot(value: Mapping[str, Any]) -> _Named:
    for key in ("project_manifest_hash", "user_manifest_hash", "state_hash", "previous"):
        yield value.get(key), Space.OBJECT
    for digest in _list(value, "node_receipts"):
        yield digest, Space.OBJECT


def _node_receipt(value: Mapping[str, Any]) -> _Named:
    yield value.get("node_input_hash"), Space.OBJECT
    yield value.get("node_result_hash"), Space.OBJECT


def _node_input(value: Mapping[str, Any]) -> _Named:
    yield value.get("graph_hash"), Space.OBJECT
    yield value.get("config_snapshot_hash"), Space.OBJECT


def _outputs_bundle(value: Mapping[str, Any]) -> _Named:
    yield value.get("execution_snapshot_hash"), Space.OBJECT
    for digest in _mapping(value, "files").values():
        yield digest, Space.BLOB


def _artifact_index(value: Mapping[str, Any]) -> _Named:
    for entry in _mapping(value, "entries").values():
        if isinstance(entry, dict):
            yield entry.get("blob_hash"), Space.BLOB


def _nothing(_: Mapping[str, Any]) -> _Named:
    """A user's data: a digest in it is text like any other."""
    return iter(())


def _unknown(value: Mapping[str, Any]) -> _Named:
    for key, child in value.items():
        if key.endswith(_HASHES) and isinstance(child, list):
            for digest in child:
                yield digest, None
        elif key.endswith(_HASH):
            yield child, None


def _mapping(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    child = value.get(key)
    return child if isinstance(child, dict) else {}


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    child = value.get(key)
    return child if isinstance(child, list) else []


_READERS: Mapping[str, Callable[[Mapping[str, Any]], _Named]] = {
    "project_snapshot": _project_snapshot,
    "source_manifest": _source_manifest,
    "item_source": _item_source,
    "execution_snapshot": _execution_snapshot,
    "node_receipt": _node_receipt,
    "node_input": _node_input,
    "runtime_outputs_bundle": _outputs_bundle,
    "artifact_index": _artifact_index,
    "state_snapshot": _nothing,
    "node_result": _nothing,
    "config_snapshot": _nothing,
}
