"""The objects that a project and a node exchange, as values, and their validation. Pure.

Formats: ``docs/store.md``. Every reader takes what other programs wrote, and raises CasObjectError
that names the object and the key. Paths in manifests are strings like any other here: whether they
are safe to write is for `ryeos.sync.paths` to say.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

from lillux.fields import is_mapping, is_text
from lillux.shapes import LEFT_OUT, OTHERS, REQUIRED, Form, Wrong, read, write
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


# --- errors ---------------------------------------------------------------------------------------
# Errors of the content that travels between a project and a node.


class CasObjectError(RyeError):
    """An object has another shape than its kind. ``where`` names it, like ``manifest 1f..``."""

    code = "CAS_OBJECT_INVALID"

    def __init__(self, where: str, problem: str) -> None:
        self.where, self.problem = where, problem
        super().__init__(
            f"{where}: {problem}", hint="it was stored wrong; push again from where it was written"
        )


class EntryError(RyeError):
    """An entry of a transfer that is not what it says. ``digest`` is ``unknown`` for none."""

    code = "CAS_ENTRY_INVALID"

    def __init__(self, digest: str, problem: str) -> None:
        self.digest, self.problem = digest, problem
        super().__init__(
            f"entry {digest[:80]}: {problem}", hint="it was changed on its way; send it again"
        )


# --- forms ----------------------------------------------------------------------------------------
# What the fields of objects hold, and the reader of an object of any kind. Pure.

SCHEMA = 2
"""Of every object; another number is another format."""


MakeError = Callable[[str, str, str, str], RyeError]
"""Of an object, a key in it, what was expected there and what was found: what is raised."""

_HEADER = frozenset({"schema", "kind"})
ROOT = "(root)"
"""The key of an object as a whole."""


def object_error(where: str, key: str, expected: str, there: str) -> CasObjectError:
    """An object that travels has a wrong value."""
    at = "" if key == ROOT else f"{key}: "
    return CasObjectError(where, f"{at}expected {expected}, found {there}")


class _Kinded(Protocol):
    """A shape that is the shape of an object."""

    kind: str


_Shape = TypeVar("_Shape", bound=_Kinded)


def require_object(
    value: object, kind: str, where: str, make_error: MakeError = object_error
) -> dict[str, Any]:
    """The object, if it is of that kind and of `SCHEMA`. Raises what ``make_error`` makes."""
    if not isinstance(value, dict):
        raise make_error(where, ROOT, "an object", found(value))
    if value.get("kind") != kind:
        raise make_error(where, "kind", f'"{kind}"', found(value.get("kind")))
    schema = value.get("schema")
    if schema != SCHEMA or not isinstance(schema, int):  # 2.0 is no 2
        raise make_error(where, "schema", str(SCHEMA), found(schema))
    return value


def read_object(
    shape: type[_Shape], value: object, where: str, make_error: MakeError = object_error
) -> _Shape:
    """The value in an object of the ``kind`` of a shape. Raises what ``make_error`` makes."""

    def wrong(key: str, expected: str, value: object) -> RyeError:
        return make_error(where, key, expected, found(value))

    document = require_object(value, shape.kind, where, make_error)
    return read(shape, {key: one for key, one in document.items() if key not in _HEADER}, wrong)


def write_object(value: _Kinded) -> dict[str, Any]:
    """The object of a value."""
    return {"schema": SCHEMA, "kind": value.kind, **write(value)}


def _is_list_of(fits: Callable[[object], object]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _is_texts(value: object) -> bool:
    return value is None or (isinstance(value, dict) and all(map(is_text, value.values())))


def _paths(paths: Mapping[str, Any], key: str, wrong: Wrong) -> Mapping[str, str]:
    """The paths are not judged here."""
    if not are_digests(paths.values()):  # of all at once: they are many
        for path, digest in paths.items():
            if not is_digest(digest):
                raise wrong(f"{key}[{path[:200]!r}]", "a digest", digest)
    return paths


def _copied(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(value)


Digest = Annotated[str, Form("a digest", is_digest)]
DigestOrNone = Annotated[str | None, Form("a digest", is_digest, is_blank_absent=True)]
_OR_BLANK = Form(
    "a digest", is_digest, absent="", is_blank_absent=True, written=lambda value: value or ""
)
DigestOrBlank = Annotated[str, _OR_BLANK]
"""A digest, ``""`` for none."""

DigestWrittenBlank = Annotated[str | None, _OR_BLANK]
"""A digest, or None, which is written as ``""``."""

Digests = Annotated[
    tuple[str, ...],
    Form(
        "a list of digests", _is_list_of(is_digest), make=lambda one, *_: tuple(one), written=list
    ),
]
Paths = Annotated[Mapping[str, str], Form("an object", is_mapping, make=_paths, written=_copied)]
"""Digests by path."""

Text = Annotated[str, Form("a string", is_text, absent="")]
"""A text, ``""`` where it is absent."""

SomeText = Annotated[str, Form("a string", lambda value: isinstance(value, str) and value)]
Texts = Annotated[
    Mapping[str, str] | None,
    Form(
        "an object of strings, or null",
        _is_texts,
        written=lambda value: None if value is None else dict(value),
    ),
]
Size = Annotated[int, Form("a whole number from 0", lambda n: type(n) is int and n >= 0, absent=0)]
Errors = Annotated[
    tuple[Mapping[str, Any], ...],
    Form(
        "a list of objects",
        _is_list_of(is_mapping),
        make=lambda value, *_: tuple(value),
        written=lambda errors: [dict(one) for one in errors],
    ),
    LEFT_OUT,
]
Others = Annotated[Mapping[str, Any], OTHERS]


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

    kind = "item_source"
    item_ref: SomeText
    content_blob_hash: Digest
    signature_info: Texts = None

    def as_object(self) -> dict[str, Any]:
        """An ``item_source``."""
        return {**write_object(self), "integrity": self.content_blob_hash}


def item_source_of(value: object, where: str) -> ItemSource:
    """The item in an ``item_source``. Raises CasObjectError."""
    source = read_object(ItemSource, value, where)
    integrity = require_object(value, ItemSource.kind, where).get("integrity", "")
    if not isinstance(integrity, str):
        raise object_error(where, "integrity", "a string", found(integrity))
    if integrity not in {"", source.content_blob_hash}:
        expected = f"{source.content_blob_hash}, as content_blob_hash"
        raise object_error(where, "integrity", expected, found(integrity))
    return source


_SPACES = " or ".join(MANIFEST_SPACES)


def _space(value: str, key: str, wrong: Wrong) -> str:
    if value not in MANIFEST_SPACES:
        raise wrong(key, _SPACES, value)
    return value


@dataclass(frozen=True, slots=True)
class SourceManifest:
    """The files of a space by path, relative and with ``/``.

    items   item files below ``.ai/``, each with the digest of its item_source
    files   all others, each with the digest of its bytes; a user space has none
    """

    kind = "source_manifest"
    space: Annotated[ManifestSpace, Form("a string", is_text, make=_space, missing=_SPACES)]
    items: Annotated[Paths, REQUIRED] = field(default_factory=dict)
    files: Annotated[Paths, REQUIRED] = field(default_factory=dict)

    def paths(self) -> list[str]:
        """Every path, sorted. One that is item and file stands twice."""
        return sorted([*self.items, *self.files])

    def as_object(self) -> dict[str, Any]:
        """A ``source_manifest``."""
        return write_object(self)


def manifest_of(value: object, where: str) -> SourceManifest:
    """The manifest in a ``source_manifest``. Raises CasObjectError."""
    return read_object(SourceManifest, value, where)


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

    kind = "project_snapshot"
    project_manifest_hash: Digest
    user_manifest_hash: DigestOrNone = None
    parent_hashes: Digests = ()
    source: Text
    source_detail: Text = ""
    timestamp: Text
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def as_object(self) -> dict[str, Any]:
        """A ``project_snapshot``."""
        return write_object(self)


def snapshot_of(value: object, where: str) -> ProjectSnapshot:
    """The snapshot in a ``project_snapshot``. Raises CasObjectError."""
    return read_object(ProjectSnapshot, value, where)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionSnapshot:
    """What became of an execution. Graphs write their own, with more keys, which `unknown` keeps.

    graph_run_id   of a graph its run, of anything else the thread
    graph_id       the item, ``tool:a/b``
    step           completed steps of a graph, else 0
    state_hash     of a graph its last state, else None
    errors         ``message``, ``phase`` and more of each
    """

    kind = "execution_snapshot"
    graph_run_id: Text
    graph_id: Text
    project_manifest_hash: DigestWrittenBlank = None
    user_manifest_hash: DigestWrittenBlank = None
    system_version: Text = ""
    step: Size = 0
    status: Text
    state_hash: DigestWrittenBlank = None
    node_receipts: Digests = ()
    errors: Errors = ()
    unknown: Others = field(default_factory=dict)

    def as_object(self) -> dict[str, Any]:
        """An ``execution_snapshot``. A digest that is not there is ``""``."""
        return write_object(self)


def execution_snapshot_of(
    value: object, where: str, make_error: MakeError = object_error
) -> ExecutionSnapshot:
    """The snapshot in an ``execution_snapshot``, of a graph too. Raises what ``wrong`` makes."""
    return read_object(ExecutionSnapshot, value, where, make_error)


@dataclass(frozen=True, slots=True)
class OutputsBundle:
    """The files that an execution left behind, by path, each with the digest of its bytes."""

    kind = "runtime_outputs_bundle"
    remote_thread_id: Text
    execution_snapshot_hash: DigestOrBlank
    files: Paths

    def as_object(self) -> dict[str, Any]:
        """A ``runtime_outputs_bundle``."""
        return write_object(self)


def outputs_bundle_of(value: object, where: str) -> OutputsBundle:
    """The bundle in a ``runtime_outputs_bundle``. Raises CasObjectError."""
    return read_object(OutputsBundle, value, where)


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
