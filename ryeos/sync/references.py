"""References of an object: the content that it names. Pure.

A transfer takes it along, and a sweep spares it. An object that is not what its kind says names
what can be read of it: its shape is judged by `ryeos.sync.objects`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from lillux.store_layout import ObjectKind, is_digest
from lillux.values import dataclass

_HASH, _HASHES = "_hash", "_hashes"


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """A digest that an object names. ``space`` is None where only its reader knows the kind."""

    digest: str
    space: ObjectKind | None


def references_of(value: object) -> Iterator[ObjectReference]:
    """References of the object, in the order of its keys. Null and ``""`` name nothing.

    Of a kind that is not known: each digest under a key that ends in ``_hash``, and each in a list
    under one that ends in ``_hashes``.
    """
    if not isinstance(value, dict):
        return
    kind = value.get("kind")
    named = _NAMED.get(kind) if isinstance(kind, str) else None
    for digest, space in _unknown_digests(value) if named is None else _digests(value, named):
        if is_digest(digest):
            yield ObjectReference(str(digest), space)


def _digests(
    value: Mapping[str, Any], named: Mapping[str, "_Named"]
) -> Iterator[tuple[object, ObjectKind | None]]:
    for key, (digests, space) in named.items():
        for digest in digests(value.get(key)):
            yield digest, space


def _unknown_digests(value: Mapping[str, Any]) -> Iterator[tuple[object, ObjectKind | None]]:
    for key, child in value.items():
        if key.endswith(_HASHES):
            for digest in _listed(child):
                yield digest, None
        elif key.endswith(_HASH):
            yield child, None


def _alone(value: object) -> Iterable[object]:
    return (value,)


def _listed(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()


def _by_path(value: object) -> Iterable[object]:
    return value.values() if isinstance(value, dict) else ()


def _of_entries(value: object) -> Iterable[object]:
    return (one.get("blob_hash") for one in _by_path(value) if isinstance(one, dict))


_Named = tuple[Callable[[object], Iterable[object]], ObjectKind]
"""What gives the digests under a key, and the space that they are of."""

_ONE, _LIST = (_alone, ObjectKind.OBJECT), (_listed, ObjectKind.OBJECT)
_BLOBS = (_by_path, ObjectKind.BLOB)
_NAMED: Mapping[str, Mapping[str, _Named]] = {
    "project_snapshot": {
        "project_manifest_hash": _ONE,
        "user_manifest_hash": _ONE,
        "parent_hashes": _LIST,
    },
    "source_manifest": {"items": (_by_path, ObjectKind.OBJECT), "files": _BLOBS},
    "item_source": {"content_blob_hash": (_alone, ObjectKind.BLOB)},
    "execution_snapshot": {
        "project_manifest_hash": _ONE,
        "user_manifest_hash": _ONE,
        "state_hash": _ONE,
        "previous": _ONE,
        "node_receipts": _LIST,
    },
    "node_receipt": {"node_input_hash": _ONE, "node_result_hash": _ONE},
    "node_input": {"graph_hash": _ONE, "config_snapshot_hash": _ONE},
    "runtime_outputs_bundle": {"execution_snapshot_hash": _ONE, "files": _BLOBS},
    "artifact_index": {"entries": (_of_entries, ObjectKind.BLOB)},
    # A user's data: a digest in it is text like any other.
    "state_snapshot": {},
    "node_result": {},
    "config_snapshot": {},
}
"""The keys of each kind that name content."""
