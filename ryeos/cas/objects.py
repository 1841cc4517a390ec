"""The objects that travel between a project and a node, as values, and back. Pure.

Formats: ``docs/cas.md``. Every reader takes what other programs wrote, and raises CasObjectError
that names the object and the key. Paths in manifests are strings like any other here: whether they
are safe to write is for `ryeos.cas.safe_paths` to say.
"""

from collections.abc import Mapping
from typing import Any, Literal

from lillux.values import dataclass, field
from ryeos.cas.fields import SCHEMA, Fields, Wrong, wrong_object

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
    fields = Fields(value, "item_source", where)
    content = fields.digest("content_blob_hash")
    if fields.text("integrity") not in {"", content}:
        raise fields.wrong("integrity", f"{content}, as content_blob_hash")
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
    fields = Fields(value, "source_manifest", where)
    space = fields.text("space")
    if space not in MANIFEST_SPACES:
        raise fields.wrong("space", " or ".join(MANIFEST_SPACES))
    return SourceManifest(space, fields.paths("items"), fields.paths("files"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectSnapshot:
    """A project at a moment, and what it came from: a commit.

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
    fields = Fields(value, "project_snapshot", where)
    return ProjectSnapshot(
        project_manifest_hash=fields.digest("project_manifest_hash"),
        user_manifest_hash=fields.optional_digest("user_manifest_hash"),
        parent_hashes=fields.digests("parent_hashes"),
        source=fields.text("source"),
        source_detail=fields.text("source_detail"),
        timestamp=fields.text("timestamp"),
        metadata=fields.mapping("metadata"),
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
    value: object, where: str, wrong: Wrong = wrong_object
) -> ExecutionSnapshot:
    """The snapshot in an ``execution_snapshot``, of a graph too. Raises what ``wrong`` makes."""
    fields = Fields(value, "execution_snapshot", where, wrong)
    return ExecutionSnapshot(
        graph_run_id=fields.text("graph_run_id"),
        graph_id=fields.text("graph_id"),
        status=fields.text("status"),
        project_manifest_hash=fields.optional_digest("project_manifest_hash"),
        user_manifest_hash=fields.optional_digest("user_manifest_hash"),
        system_version=fields.text("system_version"),
        step=fields.count("step"),
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
    fields = Fields(value, "runtime_outputs_bundle", where)
    return OutputsBundle(
        fields.text("remote_thread_id"),
        fields.optional_digest("execution_snapshot_hash") or "",
        fields.paths("files"),
    )
