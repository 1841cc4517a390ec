"""The objects that a project and a node exchange, as values, and their validation. Pure.

Formats: ``docs/store.md``. Every reader takes what other programs wrote, and raises CasObjectError
that names the object and the key. Paths in manifests are strings like any other here: whether they
are safe to write is for `ryeos.sync.paths` to say.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from lillux.fields import is_text
from lillux.shapes import REQUIRED, Form, Wrong
from lillux.store_layout import is_digest
from lillux.values import dataclass, field
from ryeos.sync.object_shapes import (
    CasObjectError,
    Digest,
    DigestOrBlank,
    DigestOrNone,
    Digests,
    DigestWrittenBlank,
    Errors,
    MakeError,
    Others,
    Paths,
    Size,
    SomeText,
    Text,
    Texts,
    found,
    object_error,
    read_object,
    require_object,
    write_object,
)

ManifestSpace = Literal["project", "user"]
MANIFEST_SPACES: tuple[ManifestSpace, ...] = ("project", "user")

PUSH, EXECUTION, MERGE = "push", "execution", "merge"
"""Origin of a project snapshot."""


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
    """Differences of a manifest to another one of its space: digests by path, None for no path."""

    items: Mapping[str, str | None] = field(default_factory=dict)
    files: Mapping[str, str | None] = field(default_factory=dict)

    def __len__(self) -> int:
        """Number of entries that differ."""
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
    """Changes that make ``wanted`` of ``base``."""
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
    """Outcome of an execution. Graphs write their own, with more keys, which `unknown` keeps.

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
