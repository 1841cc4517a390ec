"""What the pages of a node show: values that hold no markup."""

import json
from collections.abc import Iterator, Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum

from sqlalchemy import ColumnElement, or_

from lillux.values import dataclass, field, replace
from rye_services.node.queue.rows import RUNNING
from rye_services.node.worker.jobs import MAX_KEPT_BYTES, RecordedInputs
from rye_services.storage.database import threads
from rye_services.web.drawings import BarChart, Sparkline, Step
from rye_services.web.http import RequestProblem
from rye_services.web.page import HOME, with_query
from rye_services.web.texts import DiffLine, MarkedPart

# --- lists of runs --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs a list is of; what is empty narrows nothing. Dates are days, UTC.

    user    "" is the viewer; managers of the node may ask for another one
    text    a part of the item, the project, the id or the error
    page    from 1 on, each of ``size`` runs
    """

    state: str = ""
    item: str = ""
    project: str = ""
    user: str = ""
    since: str = ""
    until: str = ""
    text: str = ""
    page: int = 1
    size: int = 50

    @property
    def is_narrow(self) -> bool:
        """Whether it leaves any run out."""
        return any(value for name, value in self.query_pairs() if name not in {"page", "size"})

    def link(self, path: str = HOME, **changed: str | int) -> str:
        """The address of a list like this one, but for what is changed."""
        wanted = replace(self, **changed)  # type: ignore[arg-type]
        return with_query(path, wanted.query_pairs())

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """What rows of ``threads`` have to be. Raises RequestProblem for an invalid day."""
        columns = threads.c
        if self.state == WAITING:
            yield columns.state == RUNNING
            yield columns.started_at.is_(None)
        elif self.state:
            yield columns.state == self.state
        if self.item:
            yield columns.item_id == self.item
        if self.project:
            yield columns.project_path == self.project
        if self.since:
            yield columns.created_at >= _day("since", self.since).isoformat()
        if self.until:
            yield columns.created_at < (_day("until", self.until) + timedelta(days=1)).isoformat()
        if self.text:
            searched = (columns.item_id, columns.project_path, columns.thread_id)
            texts = (*searched, columns.error_message)
            yield or_(*(column.icontains(self.text, autoescape=True) for column in texts))

    def query_pairs(self) -> list[tuple[str, str | int]]:
        """What a form or an address says of it, by the names there."""
        return [
            ("q", self.text),
            ("state", self.state),
            ("item", self.item),
            ("project", self.project),
            ("user", self.user),
            ("since", self.since),
            ("until", self.until),
            ("page", self.page if self.page > 1 else ""),
            ("size", self.size if self.size != RunFilter().size else ""),
        ]


WAITING = "waiting"
"""A run that was accepted and has not begun, as pages call it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A run in a list. Times are ISO 8601, UTC; "" where there is none yet."""

    thread_id: str
    user_id: str
    item_id: str
    project_path: str
    state: str
    created_at: str
    started_at: str
    completed_at: str
    conflicts: int
    error: str

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return bool(self.completed_at)

    @property
    def kind(self) -> str:
        """How its state is coloured: good, bad, warn or live."""
        if self.conflicts:
            return "warn"
        return {"completed": "good", "error": "bad"}.get(
            self.state, "warn" if self.is_over else "live"
        )

    @property
    def took(self) -> str:
        """How long it ran: ``1.2 s``; "" before its end."""
        if not self.started_at or not self.completed_at:
            return ""
        return duration(seconds_of(self.completed_at) - seconds_of(self.started_at))

    @property
    def note(self) -> str:
        """How it ended, in words."""
        if self.conflicts:
            return f"{self.conflicts} conflict{'s' * (self.conflicts != 1)}"
        return self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class RunList:
    """One page of a list, and how many runs there are in all."""

    wanted: RunFilter
    rows: tuple[RunRow, ...]
    total: int

    @property
    def pages(self) -> int:
        """How many pages there are."""
        return max(1, -(-self.total // self.wanted.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Activity:
    """How the runs of the last time went, as pictures and in words."""

    success: Sparkline
    success_words: str
    queue: Sparkline
    queue_words: str


def duration(seconds: float) -> str:
    """A time span for people: ``40 ms``, ``1.2 s``, ``3 min 20 s``."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 60:  # noqa: PLR2004 - seconds of a minute
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"


def _day(name: str, text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        problem = f"{name}: expected a day like 2026-11-21, found {text[:40]!a}"
        raise RequestProblem(400, problem) from None


def seconds_of(time: str) -> float:
    """A time of a row in seconds since 1970."""
    return datetime.fromisoformat(time).timestamp()


# --- projects -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A project and its HEAD."""

    project_path: str
    snapshot_hash: str
    revision: int
    moved_at: str


@dataclass(frozen=True, slots=True)
class ChangeSummary:
    """How many files differ from the first parent, and the paths of the first ones."""

    count: int
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSnapshot:
    """A snapshot of a history. ``changed`` is None where it was not compared."""

    digest: str
    parents: tuple[str, ...]
    manifest_hash: str
    source: str
    detail: str
    timestamp: str
    thread_id: str = ""
    changed: ChangeSummary | None = None

    @property
    def caption(self) -> str:
        """What made it, in a few words."""
        match self.source:
            case "execution":
                return f"run of {self.detail}" if self.detail else "run"
            case "merge":
                return "merge of a run"
            case source:
                return source or "snapshot"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The snapshots of a project, newest first; ``is_cut`` where older ones are not shown.

    lost  snapshots that are named and cannot be read: digest, and when that was accepted, or ""
    """

    project: Project
    snapshots: tuple[ShownSnapshot, ...]
    is_cut: bool
    lost: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """What is in a folder of a snapshot: folders with the number of files in them, and files."""

    path: str
    folders: tuple[tuple[str, int], ...]
    files: tuple[str, ...]
    left_out: int


class Absence(StrEnum):
    """Why a version of a file has no text."""

    DELETED = "not there"
    BINARY = "not text"
    TOO_LONG = "too long to show"
    LOST = "no longer in the store"
    NOT_COMPARED = "too many changes to compare"


@dataclass(frozen=True, slots=True)
class Side:
    """One version of a file: its text, or why there is none."""

    digest: str | None
    content: str | Absence

    @property
    def is_text(self) -> bool:
        """Whether there is a text."""
        return not isinstance(self.content, Absence)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """A file that differs between two snapshots: its lines, or why they are not shown."""

    path: str
    kind: str
    lines: tuple[DiffLine, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs between two snapshots; ``left_out`` files are not even named."""

    before: str
    after: str
    files: tuple[FileChange, ...]
    left_out: int = 0


# --- one run --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownConflict:
    """A path that both HEAD ("ours") and the run ("theirs") changed; ``marked`` both texts."""

    path: str
    kind: str
    base: Side
    ours: Side
    theirs: Side
    marked: tuple[tuple[MarkedPart, ...], tuple[MarkedPart, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a run was given: what is kept of it, and the digest of all ("" before its end)."""

    sha256: str = ""
    given: RecordedInputs | None = field(default=None, repr=False)

    @property
    def text(self) -> str:
        """The values that are kept, as JSON; "" for none."""
        values = None if self.given is None else self.given.parameters
        return json_text(values) if values else ""

    @property
    def words(self) -> str:
        """Notes on them: what is not kept, and why."""
        if self.given is None:
            return "Their values are not kept."
        if self.given.parameters is None:
            return f"They are larger than {MAX_KEPT_BYTES // 1024} KiB together, and not kept."
        if self.given.left_out:
            names = ", ".join(self.given.left_out)
            return f"Not kept, as they are secret: {names}."
        return "" if self.given.parameters else "None."


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainElement:
    """An item that a run stood on, and the digest of the key that signed it."""

    id: str
    version: str
    space: str
    signer: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Who had what run, with which rights, as the receipt of the node says."""

    caller: tuple[tuple[str, str], ...]
    chain: tuple[ChainElement, ...]
    rights: tuple[tuple[str, str], ...]
    key_id: str
    base: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A file that a run left beside the project."""

    path: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """The end of what the programs of a run wrote: pieces, each with its stream.

    last  the number of the last piece, 0 for none
    """

    pieces: tuple[tuple[str, str], ...]
    is_cut: bool
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadCall:
    """A call of the model, or of a tool by it, as its receipt says; "" if absent."""

    item: str
    status: str
    tokens: str = ""
    cost: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownThread:
    """What a model that carried a directive out gave, did and cost."""

    facts: tuple[tuple[str, str], ...]
    text: str
    outputs: str
    calls: tuple[ThreadCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownStep:
    """A step of a graph: what it calls, as the graph says it, and what that gave; "" if absent."""

    step: Step
    action: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRun:
    """A run, whole. ``facts`` are what its row says, in order; what there is none of is empty.

    base, made   the snapshots before and after it
    """

    row: RunRow
    facts: Mapping[str, str]
    error: str
    result: str
    messages: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    parameters: Parameters | None
    provenance: Provenance | None
    thread: ShownThread | None
    steps: BarChart | None
    stages: tuple[ShownStep, ...]
    has_picture: bool
    outputs: tuple[Output, ...]
    conflicts: tuple[ShownConflict, ...]
    base: str
    made: str
    changes: Difference | None
    log: Log
    is_cancellable: bool
    is_repeatable: bool


def json_text(value: object) -> str:
    """A value as JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)
