"""What the page shows: values that hold no markup, and know no database."""

from collections.abc import Mapping
from enum import StrEnum

from lillux.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """Who looks at the page. ``form_token`` goes into every form of it."""

    user_id: str
    key_name: str
    form_token: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """An execution in a list. Times are ISO 8601, UTC; ``merge_type`` is "" where none is known."""

    thread_id: str
    item_id: str
    project_path: str
    state: str
    created_at: str
    completed_at: str = ""
    conflicts: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project and its HEAD."""

    project_path: str
    snapshot_hash: str
    revision: int
    moved_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot of the history; its first parent is the mainline."""

    digest: str
    parents: tuple[str, ...]
    source: str
    detail: str
    timestamp: str
    thread_id: str = ""


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes in a user's store, and how many there may be."""

    used_bytes: int
    limit_bytes: int


class Absence(StrEnum):
    """Why a side of a conflict has no text."""

    DELETED = "not there"
    BINARY = "not text"
    TOO_LONG = "too long to show"
    LOST = "no longer in the store"


@dataclass(frozen=True, slots=True)
class Side:
    """One version of a file in a conflict: its text, or why there is none."""

    digest: str | None
    content: str | Absence


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """A path that both HEAD ("ours") and the execution ("theirs") changed."""

    path: str
    kind: str
    base: Side
    ours: Side
    theirs: Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """An execution, whole. ``fields`` are what its row says, in order."""

    execution: Execution
    fields: Mapping[str, str]
    conflicts: tuple[Conflict, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The first page."""

    node_name: str
    node_id: str
    version: str
    active: int
    most_active: int
    storage: Storage
    executions: tuple[Execution, ...]
    projects: tuple[Project, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The snapshots of a project, newest first; ``is_cut`` where older ones are not shown."""

    project: Project
    snapshots: tuple[Snapshot, ...]
    is_cut: bool
