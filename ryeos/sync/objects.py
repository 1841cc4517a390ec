"""The objects that a project and a node exchange, as values, and their validation. Pure.

Formats: ``docs/store.md``. Every reader takes what other programs wrote, and raises CasObjectError
that names the object and the key. Paths in manifests are strings like any other here: whether they
are safe to write is for `ryeos.sync.paths` to say.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol

from lillux.fields import ABSENT, Fields, is_mapping, is_text
from lillux.store import Durability, StoredEntry
from lillux.store_files import ObjectKind, ObjectMissingError, are_digests, is_digest
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError

# --- references -----------------------------------------------------------------------------------
# Which content an object names: what a transfer takes along, and a sweep spares. Pure.
#
# An object that is not what its kind says names what can be read of it: its shape is judged below.

_HASH, _HASHES = "_hash", "_hashes"


@dataclass(frozen=True, slots=True)
class ObjectReference:
    """A digest that an object names. ``space`` is None where only its reader knows the kind."""

    digest: str
    space: ObjectKind | None


def references_of(value: object) -> Iterator[ObjectReference]:
    """What the object names, in the order of its keys. Null and ``""`` name nothing.

    Of a kind that is not known: each digest under a key that ends in ``_hash``, and each in a list
    under one that ends in ``_hashes``.
    """
    if not isinstance(value, dict):
        return
    kind = value.get("kind")
    read = _READERS.get(kind) if isinstance(kind, str) else None
    for digest, space in (read or _unknown_digests)(value):
        if is_digest(digest):
            yield ObjectReference(str(digest), space)


_Named = Iterator[tuple[object, ObjectKind | None]]


def _project_snapshot(value: Mapping[str, Any]) -> _Named:
    yield value.get("project_manifest_hash"), ObjectKind.OBJECT
    yield value.get("user_manifest_hash"), ObjectKind.OBJECT
    for digest in _list(value, "parent_hashes"):
        yield digest, ObjectKind.OBJECT


def _source_manifest(value: Mapping[str, Any]) -> _Named:
    for digest in _mapping(value, "items").values():
        yield digest, ObjectKind.OBJECT
    for digest in _mapping(value, "files").values():
        yield digest, ObjectKind.BLOB


def _item_source(value: Mapping[str, Any]) -> _Named:
    yield value.get("content_blob_hash"), ObjectKind.BLOB


def _execution_snapshot(value: Mapping[str, Any]) -> _Named:
    for key in ("project_manifest_hash", "user_manifest_hash", "state_hash", "previous"):
        yield value.get(key), ObjectKind.OBJECT
    for digest in _list(value, "node_receipts"):
        yield digest, ObjectKind.OBJECT


def _node_receipt(value: Mapping[str, Any]) -> _Named:
    yield value.get("node_input_hash"), ObjectKind.OBJECT
    yield value.get("node_result_hash"), ObjectKind.OBJECT


def _node_input(value: Mapping[str, Any]) -> _Named:
    yield value.get("graph_hash"), ObjectKind.OBJECT
    yield value.get("config_snapshot_hash"), ObjectKind.OBJECT


def _outputs_bundle(value: Mapping[str, Any]) -> _Named:
    yield value.get("execution_snapshot_hash"), ObjectKind.OBJECT
    for digest in _mapping(value, "files").values():
        yield digest, ObjectKind.BLOB


def _artifact_index(value: Mapping[str, Any]) -> _Named:
    for entry in _mapping(value, "entries").values():
        if isinstance(entry, dict):
            yield entry.get("blob_hash"), ObjectKind.BLOB


def _no_digests(_: Mapping[str, Any]) -> _Named:
    """A user's data: a digest in it is text like any other."""
    return iter(())


def _unknown_digests(value: Mapping[str, Any]) -> _Named:
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
    "state_snapshot": _no_digests,
    "node_result": _no_digests,
    "config_snapshot": _no_digests,
}


# --- errors ---------------------------------------------------------------------------------------
# Errors of the content that travels between a project and a node.


class CasObjectError(RyeError):
    """An object has another shape than its kind. ``where`` names it, like ``manifest 1f..``."""

    code, exit_status = "CAS_OBJECT_INVALID", 7

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(
            f"{where}: {problem}", hint="it was stored wrong; push again from where it was written"
        )


class EntryError(RyeError):
    """An entry of a transfer that is not what it says. ``digest`` is ``unknown`` for none."""

    code, exit_status = "CAS_ENTRY_INVALID", 7

    def __init__(self, digest: str, problem: str) -> None:
        self.digest, self.problem = digest, problem
        super().__init__(
            f"entry {digest[:80]}: {problem}", hint="it was changed on its way; send it again"
        )


# --- fields ---------------------------------------------------------------------------------------
# The keys of one object, each asked for with its type. Pure.

SCHEMA = 2
"""Of every object; another number is another format."""


MakeError = Callable[[str, str, str, str], RyeError]
"""Of an object, a key in it, what was expected there and what was found: what is raised."""

ROOT = "(root)"
"""The key of an object as a whole."""


def object_error(where: str, key: str, expected: str, there: str) -> CasObjectError:
    """An object that travels has a wrong value."""
    at = "" if key == ROOT else f"{key}: "
    return CasObjectError(where, f"{at}expected {expected}, found {there}")


class ObjectFields(Fields):
    """An object of a kind and `SCHEMA`. Raises what ``make_error`` makes."""

    mapping_word = "an object"
    null_is_absent = False

    def __init__(
        self, value: object, kind: str, where: str, make_error: MakeError = object_error
    ) -> None:
        if not isinstance(value, dict):
            raise make_error(where, ROOT, "an object", found(value))
        super().__init__(value, self._refuse)
        self._where, self._make_error = where, make_error
        if value.get("kind") != kind:
            raise self.error("kind", f'"{kind}"')
        if value.get("schema") != SCHEMA or not isinstance(value["schema"], int):  # 2.0 is no 2
            raise self.error("schema", str(SCHEMA))

    def plain_text(self, key: str) -> str:
        """A string, ``""`` if absent."""
        return self.text(key) or ""

    def optional_text(self, key: str) -> str | None:
        """A string; None if absent or null."""
        return None if self.any(key) is None else self.text(key)

    def required(self, key: str) -> Any:  # noqa: ANN401 - JSON
        """Any value, null too."""
        if self.value(key) is ABSENT:
            raise self.error(key, "a value")
        return self.data[key]

    def required_text(self, key: str) -> str:
        """A string that is not empty."""
        value = self.any(key)
        if not isinstance(value, str) or not value:
            raise self.error(key, "a string")
        return value

    def digest(self, key: str) -> str:
        """A digest."""
        value = self.any(key)
        if not is_digest(value):
            raise self.error(key, "a digest")
        return str(value)

    def optional_digest(self, key: str) -> str | None:
        """A digest; ``""`` where it is null, absent or empty."""
        return None if self.any(key) in (None, "") else self.digest(key)

    def digests(self, key: str) -> tuple[str, ...]:
        """A list of digests, empty if absent."""
        return tuple(self.read(key, _is_list_of(is_digest), "a list of digests") or ())

    def paths(self, key: str) -> dict[str, str]:
        """An object from paths to digests. The paths are not judged here."""
        paths: dict[str, str] = self.required_mapping(key, "an object")
        if are_digests(paths.values()):  # of all at once: they are many
            return paths
        for path, digest in paths.items():
            if not is_digest(digest):
                self._refuse(f"{key}[{path[:200]!r}]", "a digest", digest)
        return paths

    def plain_mapping(self, key: str) -> dict[str, Any]:
        """An object, empty if absent."""
        return dict(self.mapping(key) or {})

    def required_mapping(self, key: str, expected: str = "a value") -> dict[str, Any]:
        """An object; ``expected`` is what a message says of one that is not there."""
        if self.value(key) is ABSENT:
            raise self.error(key, expected)
        return self.plain_mapping(key)

    def optional_texts(self, key: str) -> dict[str, str] | None:
        """An object of strings; None if absent or null."""
        value = self.any(key)
        if value is None:
            return None
        if not isinstance(value, dict) or not all(map(is_text, value.values())):
            raise self.error(key, "an object of strings, or null")
        return value

    def mappings(self, key: str) -> tuple[dict[str, Any], ...]:
        """A list of objects, empty if absent."""
        return tuple(self.read(key, _is_list_of(is_mapping), "a list of objects") or ())

    def size(self, key: str) -> int:
        """A whole number from 0, which is also what an absent one is."""
        return self.read(key, lambda n: type(n) is int and n >= 0, "a whole number from 0") or 0

    def unknown(self, known: frozenset[str]) -> Mapping[str, Any]:
        """The keys of other programs."""
        return {key: value for key, value in self.data.items() if key not in known}

    def error(self, key: str, expected: str) -> RyeError:
        """The failure of a key with a wrong value."""
        return self._make_error(self._where, key, expected, found(self.data.get(key)))

    def _refuse(self, key: str, expected: str, value: object) -> None:
        raise self._make_error(self._where, key, expected, found(value))


def _is_list_of(fits: Callable[[object], object]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def found(value: object) -> str:
    """A value in the words of a message, cut short."""
    match value:
        case None:
            return "nothing"
        case str():
            return repr(value[:80])
        case bool() | int() | float():
            return repr(value)[:80]
        case _:
            return {"dict": "an object", "list": "a list"}.get(type(value).__name__, "something")


# --- objects --------------------------------------------------------------------------------------

ManifestSpace = Literal["project", "user"]
MANIFEST_SPACES: tuple[ManifestSpace, ...] = ("project", "user")

PUSH, EXECUTION, MERGE = "push", "execution", "merge"
"""Where a project snapshot comes from."""


@dataclass(frozen=True, slots=True)
class ItemSource:
    """One item file: the bytes of it, what it is called, and the fields of its signature line.

    ``signature_info`` is None for one that is not signed. Nothing says that the signature holds.
    """

    item_ref: str
    content_blob_hash: str
    signature_info: Mapping[str, str] | None = None

    def as_object(self) -> dict[str, Any]:
        """An ``item_source``."""
        signature = None if self.signature_info is None else dict(self.signature_info)
        return {
            "schema": SCHEMA,
            "kind": "item_source",
            "item_ref": self.item_ref,
            "content_blob_hash": self.content_blob_hash,
            "integrity": self.content_blob_hash,
            "signature_info": signature,
        }


def item_source_of(value: object, where: str) -> ItemSource:
    """The item in an ``item_source``. Raises CasObjectError."""
    fields = ObjectFields(value, "item_source", where)
    content = fields.digest("content_blob_hash")
    if fields.plain_text("integrity") not in {"", content}:
        raise fields.error("integrity", f"{content}, as content_blob_hash")
    return ItemSource(
        fields.required_text("item_ref"), content, fields.optional_texts("signature_info")
    )


@dataclass(frozen=True, slots=True)
class SourceManifest:
    """The files of a space by path, relative and with ``/``.

    items   item files below ``.ai/``, each with the digest of its item_source
    files   all others, each with the digest of its bytes; a user space has none
    """

    space: ManifestSpace
    items: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def paths(self) -> list[str]:
        """Every path, sorted. One that is item and file stands twice."""
        return sorted([*self.items, *self.files])

    def as_object(self) -> dict[str, Any]:
        """A ``source_manifest``."""
        return {
            "schema": SCHEMA,
            "kind": "source_manifest",
            "space": self.space,
            "items": dict(self.items),
            "files": dict(self.files),
        }


def manifest_of(value: object, where: str) -> SourceManifest:
    """The manifest in a ``source_manifest``. Raises CasObjectError."""
    fields = ObjectFields(value, "source_manifest", where)
    space = fields.plain_text("space")
    if space not in MANIFEST_SPACES:
        raise fields.error("space", " or ".join(MANIFEST_SPACES))
    return SourceManifest(space, fields.paths("items"), fields.paths("files"))


@dataclass(frozen=True, slots=True)
class ManifestChanges:
    """How a manifest differs from another one of its space: digests by path, None for no path."""

    items: Mapping[str, str | None] = field(default_factory=dict)
    files: Mapping[str, str | None] = field(default_factory=dict)

    def __len__(self) -> int:
        """How many entries differ."""
        return len(self.items) + len(self.files)

    def applied_to(self, base: SourceManifest) -> SourceManifest:
        """The manifest with these changes. Raises CasObjectError for what is no digest."""
        for digest in (*self.items.values(), *self.files.values()):
            if digest is not None and not is_digest(digest):
                raise CasObjectError("changes", f"expected a digest, found {found(digest)}")
        return SourceManifest(
            base.space, _with(base.items, self.items), _with(base.files, self.files)
        )


def changes_between(base: SourceManifest, wanted: SourceManifest) -> ManifestChanges:
    """What makes ``wanted`` of ``base``."""
    return ManifestChanges(
        _changed_digests(base.items, wanted.items), _changed_digests(base.files, wanted.files)
    )


def _with(base: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    made = {**base, **changes}
    return {path: digest for path, digest in made.items() if digest is not None}


def _changed_digests(base: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    paths = {path for path, digest in wanted.items() if base.get(path) != digest}
    return {path: wanted.get(path) for path in sorted(paths | (base.keys() - wanted.keys()))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSnapshot:
    """A project at a time, and what it came from: a commit.

    parent_hashes   none for the first, two for a merge; the first is the mainline
    source          ``push``, ``execution`` or ``merge``; ``source_detail`` an item reference
    timestamp       UTC with microseconds, ``2026-01-01T00:00:00.000000+00:00``
    """

    project_manifest_hash: str
    source: str
    timestamp: str
    user_manifest_hash: str | None = None
    parent_hashes: tuple[str, ...] = ()
    source_detail: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def as_object(self) -> dict[str, Any]:
        """A ``project_snapshot``."""
        return {
            "schema": SCHEMA,
            "kind": "project_snapshot",
            "project_manifest_hash": self.project_manifest_hash,
            "user_manifest_hash": self.user_manifest_hash,
            "parent_hashes": list(self.parent_hashes),
            "source": self.source,
            "source_detail": self.source_detail,
            "timestamp": self.timestamp,
            "metadata": dict(self.metadata),
        }


def snapshot_of(value: object, where: str) -> ProjectSnapshot:
    """The snapshot in a ``project_snapshot``. Raises CasObjectError."""
    fields = ObjectFields(value, "project_snapshot", where)
    return ProjectSnapshot(
        project_manifest_hash=fields.digest("project_manifest_hash"),
        user_manifest_hash=fields.optional_digest("user_manifest_hash"),
        parent_hashes=fields.digests("parent_hashes"),
        source=fields.plain_text("source"),
        source_detail=fields.plain_text("source_detail"),
        timestamp=fields.plain_text("timestamp"),
        metadata=fields.plain_mapping("metadata"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSnapshot:
    """What became of an execution. Graphs write their own, with more keys, which `unknown` keeps.

    graph_run_id   of a graph its run, of anything else the thread
    graph_id       the item, ``tool:a/b``
    step           completed steps of a graph, else 0
    state_hash     of a graph its last state, else None
    errors         ``message``, ``phase`` and more of each
    """

    graph_run_id: str
    graph_id: str
    status: str
    project_manifest_hash: str | None = None
    user_manifest_hash: str | None = None
    system_version: str = ""
    step: int = 0
    state_hash: str | None = None
    node_receipts: tuple[str, ...] = ()
    errors: tuple[Mapping[str, Any], ...] = ()
    unknown: Mapping[str, Any] = field(default_factory=dict)

    def as_object(self) -> dict[str, Any]:
        """An ``execution_snapshot``. A digest that is not there is ``""``."""
        errors = {"errors": [dict(error) for error in self.errors]} if self.errors else {}
        return {
            **self.unknown,
            "schema": SCHEMA,
            "kind": "execution_snapshot",
            "graph_run_id": self.graph_run_id,
            "graph_id": self.graph_id,
            "project_manifest_hash": self.project_manifest_hash or "",
            "user_manifest_hash": self.user_manifest_hash or "",
            "system_version": self.system_version,
            "step": self.step,
            "status": self.status,
            "state_hash": self.state_hash or "",
            "node_receipts": list(self.node_receipts),
            **errors,
        }


def execution_snapshot_of(
    value: object, where: str, make_error: MakeError = object_error
) -> ExecutionSnapshot:
    """The snapshot in an ``execution_snapshot``, of a graph too. Raises what ``wrong`` makes."""
    fields = ObjectFields(value, "execution_snapshot", where, make_error)
    return ExecutionSnapshot(
        graph_run_id=fields.plain_text("graph_run_id"),
        graph_id=fields.plain_text("graph_id"),
        status=fields.plain_text("status"),
        project_manifest_hash=fields.optional_digest("project_manifest_hash"),
        user_manifest_hash=fields.optional_digest("user_manifest_hash"),
        system_version=fields.plain_text("system_version"),
        step=fields.size("step"),
        state_hash=fields.optional_digest("state_hash"),
        node_receipts=fields.digests("node_receipts"),
        errors=fields.mappings("errors"),
        unknown=fields.unknown(_EXECUTION_KEYS),
    )


_EXECUTION_KEYS = frozenset(
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
        "errors",
    }
)


@dataclass(frozen=True, slots=True)
class OutputsBundle:
    """The files that an execution left behind, by path, each with the digest of its bytes."""

    remote_thread_id: str
    execution_snapshot_hash: str
    files: Mapping[str, str]

    def as_object(self) -> dict[str, Any]:
        """A ``runtime_outputs_bundle``."""
        return {
            "schema": SCHEMA,
            "kind": "runtime_outputs_bundle",
            "remote_thread_id": self.remote_thread_id,
            "execution_snapshot_hash": self.execution_snapshot_hash,
            "files": dict(self.files),
        }


def outputs_bundle_of(value: object, where: str) -> OutputsBundle:
    """The bundle in a ``runtime_outputs_bundle``. Raises CasObjectError."""
    fields = ObjectFields(value, "runtime_outputs_bundle", where)
    return OutputsBundle(
        fields.plain_text("remote_thread_id"),
        fields.optional_digest("execution_snapshot_hash") or "",
        fields.paths("files"),
    )


# --- contents -------------------------------------------------------------------------------------
# Where blobs and objects come from: a store, a tree on the disk, or several of them.


class ReadContents(Protocol):
    """Blobs and objects by digest, as they are: a tree on the disk is one."""

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest. Raises ObjectMissingError."""
        ...

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """The value of a digest. Raises ObjectMissingError."""
        ...

    def has_blob(self, digest: str) -> bool:
        """Whether there is such a blob; a text that is no digest names nothing."""
        ...

    def has_object(self, digest: str) -> bool:
        """Whether there is such an object; a text that is no digest names nothing."""
        ...


class Contents(ReadContents, Protocol):
    """Contents that more can be put into: a `lillux.store.Store` is one."""

    def put_blob(self, data: bytes) -> str:
        """Keep bytes. Their digest."""
        ...

    def put_object(self, value: object) -> str:
        """Keep a JSON value. Its digest."""
        ...


class ContentStore(Contents, Protocol):
    """A store of a server: a folder (`lillux.store.Store`), or object storage of many servers.

    Each method does what that of `lillux.store.Store` does, where its errors are; what is not in a
    folder raises ObjectStorageAwayError as well.
    """

    @property
    def folder(self) -> Path | None:
        """Where its files are; None of a store that is no folder of this machine."""
        ...

    def put_blob(self, data: bytes, durability: Durability = Durability.NOW) -> str:
        """Store bytes. Their digest."""
        ...

    def put_object(self, value: object, durability: Durability = Durability.NOW) -> str:
        """Store a JSON value. Its digest."""
        ...

    def keep(
        self, space: ObjectKind, digest: str, data: bytes, durability: Durability = Durability.NOW
    ) -> None:
        """Store bytes whose digest is known."""
        ...

    def keep_all(
        self,
        contents: Iterable[tuple[ObjectKind, str, bytes]],
        durability: Durability = Durability.NOW,
    ) -> None:
        """Store many at once."""
        ...

    def get_bytes(self, space: ObjectKind, digest: str) -> bytes:
        """The bytes of a digest, hashed again."""
        ...

    def size(self, space: ObjectKind, digest: str) -> int | None:
        """How many bytes it has; None when it is not there, or is no digest."""
        ...

    def sizes(self, space: ObjectKind, digests: Iterable[str]) -> dict[str, int]:
        """How many bytes each has, of those that are there."""
        ...

    def touch(self, space: ObjectKind, digest: str) -> bool:
        """Make it as young as one stored now. False when it is not there, or is no digest."""
        ...

    def touch_all(self, space: ObjectKind, digests: Iterable[str]) -> set[str]:
        """Those that are there, each touched."""
        ...

    def remove_all_older(
        self, space: ObjectKind, digests: Iterable[str], before_s: float
    ) -> set[str]:
        """Remove those that were not written or touched since a time; those that were removed."""
        ...

    def set_aside(self, space: ObjectKind, digest: str) -> bool:
        """Move a damaged one aside, where a sound one can take its place; whether it was."""
        ...

    def leftovers(self, before_s: float) -> int:
        """How many files of killed writers are left from before a time."""
        ...

    def remove_leftovers(self, before_s: float) -> None:
        """Remove the files that killed writers left before a time (since the epoch)."""
        ...

    def stored(self, space: ObjectKind) -> Iterator[StoredEntry]:
        """All there is of a kind."""
        ...

    def write_ref(self, name: str, value: object, durability: Durability = Durability.NOW) -> None:
        """Replace a ref."""
        ...

    def refs(self, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
        """Every ref whose name starts like that, by name, with its value."""
        ...

    def remove_ref(self, name: str) -> None:
        """Remove the ref."""
        ...

    def sync(self) -> None:
        """Make safe what was written with `Durability.AT_SYNC`."""
        ...


class LayeredContents:
    """Several contents as one: read from the first that has it, written to the very first."""

    def __init__(self, first: Contents, *others: ReadContents) -> None:
        self._first = first
        self._all: tuple[ReadContents, ...] = (first, *others)

    def get_blob(self, digest: str) -> bytes:
        """The bytes of a digest. Raises ObjectMissingError of the last one."""
        for contents in self._all[:-1]:
            try:
                return contents.get_blob(digest)
            except ObjectMissingError:
                continue
        return self._all[-1].get_blob(digest)

    def get_object(self, digest: str) -> Any:  # noqa: ANN401 - any JSON
        """The value of a digest. Raises ObjectMissingError of the last one."""
        for contents in self._all[:-1]:
            try:
                return contents.get_object(digest)
            except ObjectMissingError:
                continue
        return self._all[-1].get_object(digest)

    def has_blob(self, digest: str) -> bool:
        """Whether any has such a blob."""
        return any(contents.has_blob(digest) for contents in self._all)

    def has_object(self, digest: str) -> bool:
        """Whether any has such an object."""
        return any(contents.has_object(digest) for contents in self._all)

    def put_blob(self, data: bytes) -> str:
        """Keep bytes in the first. Their digest."""
        return self._first.put_blob(data)

    def put_object(self, value: object) -> str:
        """Keep a JSON value in the first. Its digest."""
        return self._first.put_object(value)
