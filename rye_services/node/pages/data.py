"""Reads what the pages show of one user from the database and the user's store. Writes nothing.

What is asked for is bounded, whatever rows and objects hold. What cannot be read is left out or
says why, since the rest of a page is still true.
"""

import json
from base64 import b64decode
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import PurePosixPath
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Row, String, func, literal_column, or_, select
from sqlalchemy.sql import Select

from lillux.errors import LilluxError
from lillux.store_layout import ObjectKind, is_digest
from lillux.values import replace
from rye_services.node.pages.views import (
    WAITING,
    Absence,
    Activity,
    ChainElement,
    ChangeSummary,
    Difference,
    FileChange,
    Folder,
    History,
    Log,
    Output,
    Parameters,
    Project,
    Provenance,
    RunFilter,
    RunList,
    RunRow,
    ShownConflict,
    ShownRun,
    ShownSnapshot,
    ShownStep,
    ShownThread,
    Side,
    ThreadCall,
    json_text,
    seconds_of,
)
from rye_services.node.queue.rows import RUNNING, cut
from rye_services.node.services import NodeServices
from rye_services.node.webhooks import Binding
from rye_services.node.worker.jobs import RecordedInputs, read_given
from rye_services.storage.database import project_refs, stamp, threads, users
from rye_services.web.drawings import Step, bar_chart, newest_first, sparkline
from rye_services.web.texts import diff_lines, marked_sides
from ryeos.items.refs import Kind
from ryeos.run.receipt_statements import THREAD, digest_of
from ryeos.sync.contents import ContentStore
from ryeos.sync.item_files import item_ref, kind_of
from ryeos.sync.objects import SourceManifest, manifest_of, outputs_bundle_of

if TYPE_CHECKING:
    from ryeos.graph.model import Graph

MOST_RUNS = 200
"""Of one page of a list."""

MOST_PROJECTS = 200
MOST_SNAPSHOTS = 100
MOST_FILES = 500
"""Of a folder, and of what a run changed or left."""

LARGEST_SHOWN_BYTES = 200_000
MOST_SHOWN_CHARACTERS = 2_000_000
"""Of all conflicts, or changed files, of a page together; later ones are too long."""

MOST_WHOLE_CONFLICTS = 20
"""Of a run; of the others only the paths are shown."""

_COMPARING_S = 2.0
_MOST_CONFLICTS = 1_000
_MOST_COMPARED_FILES = 100
_LONGEST_FIELD = 10_000
_LONGEST_RESULT = 100_000
_LARGEST_MANIFESTS = 8_000_000
_MOST_STEPS, _MOST_STAGES, _MOST_NODES = 500, 100, 200
_MOST_LOG_PIECES, _LOG_CHARACTERS = 10_000, 64 * 1024
_LARGEST_TRANSCRIPT = 4_000_000
_NAMED_CHANGES = 3

LISTED = (
    *("thread_id", "user_id", "item_id", "project_path", "state", "created_at", "started_at"),
    *("completed_at", "merge_conflicts", "merge_conflict_count", "error_message"),
)
_FACTS = (
    *("thread_id", "project_path", "execution_mode", "created_at", "started_at", "completed_at"),
    *("system_version", "merge_type", "error_phase", "hook_id", "attempt", "cancelled_by"),
)
_SUCCESS_DAYS, _QUEUE_HOURS, _QUEUE_STEPS, _MOST_IN_QUEUE = 30, 24, 48, 5_000
# What an answer says that is shown elsewhere, or nowhere.
_MOST_CALLS = 500
_NO_MESSAGE = frozenset({"data", "receipt", "status", "metadata", "chain", "item_id", "type"})


class Comparisons:
    """What changed from one manifest to another, for the last ones asked for. Thread-safe."""

    MOST = 4_096

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, str, str], ChangeSummary] = OrderedDict()
        self._lock = Lock()

    def get(self, user_id: str, before: str, after: str) -> ChangeSummary | None:
        """What is known of these two."""
        with self._lock:
            return self._found.get((user_id, before, after))

    def put(self, user_id: str, before: str, after: str, changed: ChangeSummary) -> None:
        """Keep what was found."""
        with self._lock:
            self._found[user_id, before, after] = changed
            if len(self._found) > self.MOST:
                self._found.popitem(last=False)


class PageData:
    """What one user may see."""

    def __init__(self, services: NodeServices, user_id: str, comparisons: Comparisons) -> None:
        self._services, self._user_id = services, user_id
        self._comparisons = comparisons

    @property
    def _store(self) -> ContentStore:
        return self._services.stores.of(self._user_id)

    @property
    def storage(self) -> tuple[int, int]:
        """Bytes stored, and allowed."""
        default = self._services.settings.max_user_storage_bytes
        allowed = func.coalesce(users.c.quota_bytes, default)
        query = select(users.c.stored_bytes, allowed).where(users.c.id == self._user_id)
        with self._services.database.reading() as connection:
            row = connection.execute(query).first()
        return (int(row[0]), int(row[1])) if row else (0, default)

    # --- runs ---

    def runs(self, wanted: RunFilter) -> RunList:
        """One page of the runs that are wanted, the newest first. Raises RequestProblem."""
        columns = threads.c
        found = (*self._of_user(wanted), *wanted.conditions())
        rows = select(*(columns[name] for name in LISTED)).where(*found)
        rows = rows.order_by(columns.created_at.desc(), columns.thread_id.desc())
        page = rows.limit(wanted.size).offset((wanted.page - 1) * wanted.size)
        with self._services.database.reading() as connection:
            shown = tuple(run_row(row) for row in connection.execute(page))
            total = connection.scalar(select(func.count()).select_from(threads).where(*found))
        return RunList(wanted=wanted, rows=shown, total=int(total or 0))

    def states(self, wanted: RunFilter) -> tuple[tuple[str, int], ...]:
        """The states of all runs of the user whose list it is, and how many have each."""
        state = threads.c.state
        counts = select(state, func.count()).where(*self._of_user(wanted)).group_by(state)
        with self._services.database.reading() as connection:
            return tuple(sorted((row[0], row[1]) for row in connection.execute(counts)))

    def _of_user(self, wanted: RunFilter) -> tuple[ColumnElement[bool], ...]:
        columns, name = threads.c, self._services.settings.name
        return columns.user_id == (wanted.user or self._user_id), columns.remote_name == name

    def activity(self) -> Activity:
        """How the runs of the last days went, and how many there were at a time."""
        now = self._services.clock()
        days = [(now - timedelta(days=back)).date().isoformat() for back in range(_SUCCESS_DAYS)]
        by_day = self._ends_by_day(days[-1])
        rates = [_rate(by_day.get(day)) for day in reversed(days)]
        good, ended = (sum(one[place] for one in by_day.values()) for place in (0, 1))
        words = f"{round(100 * good / ended)} % of {ended} runs" if ended else "no run ended"
        at_once, waiting = self._at_once(now)
        queue = self._services.executions.queue_state
        busy = f"{queue.active} of {queue.places} running"
        return Activity(
            success=sparkline(
                f"Share of runs that succeeded, by day: {words}",
                rates,
                1.0,
                ("100 %", f"{_SUCCESS_DAYS} days ago", "today"),
            ),
            success_words=f"{words} in {_SUCCESS_DAYS} days succeeded",
            queue=sparkline(
                f"Your runs at a time, last {_QUEUE_HOURS} hours: at most {max(at_once)}",
                at_once,
                max(*at_once, 1),
                (str(max(*at_once, 1)), f"{_QUEUE_HOURS} hours ago", "now"),
            ),
            queue_words=f"{waiting} waiting, {busy} now",
        )

    def _ends_by_day(self, first: str) -> dict[str, tuple[int, int]]:
        """For each day how many runs succeeded, and how many ended."""
        columns, day = threads.c, literal_column("substr(threads.created_at, 1, 10)", String)
        query = select(day, columns.state, func.count()).where(
            columns.user_id == self._user_id,
            columns.remote_name == self._services.settings.name,
            columns.created_at >= first,
            columns.state != RUNNING,
        )
        found: dict[str, tuple[int, int]] = {}
        with self._services.database.reading() as connection:
            for at, state, count in connection.execute(query.group_by(day, columns.state)):
                good, ended = found.get(at, (0, 0))
                found[at] = (good + count * (state == "completed"), ended + count)
        return found

    def _at_once(self, now: datetime) -> tuple[list[int], int]:
        """How many runs waited or ran in each part of the last hours; how many wait now."""
        columns, first = threads.c, now - timedelta(hours=_QUEUE_HOURS)
        names = (columns.created_at, columns.started_at, columns.completed_at, columns.state)
        query = select(*names).where(
            columns.user_id == self._user_id,
            columns.remote_name == self._services.settings.name,
            or_(columns.created_at >= stamp(first), columns.completed_at.is_(None)),
        )
        counts, waiting = [0] * _QUEUE_STEPS, 0
        begin, width = first.timestamp(), _QUEUE_HOURS * 3600 / _QUEUE_STEPS
        newest = query.order_by(columns.created_at.desc()).limit(_MOST_IN_QUEUE)
        with self._services.database.reading() as connection:
            for row in connection.execute(newest):
                waiting += row.started_at is None and row.completed_at is None
                until = seconds_of(row.completed_at) if row.completed_at else now.timestamp()
                low = max(0, int((seconds_of(row.created_at) - begin) / width))
                high = min(_QUEUE_STEPS - 1, int((until - begin) / width))
                for step in range(low, high + 1):
                    counts[step] += 1
        return counts, waiting

    # --- projects ---

    def projects(self) -> tuple[Project, ...]:
        """The projects with a HEAD, those that moved last first."""
        columns = project_refs.c
        query = self._heads().order_by(columns.head_updated_at.desc()).limit(MOST_PROJECTS)
        with self._services.database.reading() as connection:
            return tuple(_project(row) for row in connection.execute(query))

    def project(self, project_path: str) -> Project | None:
        """A project; None for one that is not there."""
        query = self._heads().where(project_refs.c.project_path == project_path)
        with self._services.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else _project(row)

    def history(self, project: Project) -> History:
        """The snapshots that lead to HEAD, merged ones too, each with what it changed.

        Snapshots that the store does not hold any more are left out.
        """
        found, is_cut = self._ancestors(project.snapshot_hash)
        ordered, left = newest_first(found), _LARGEST_MANIFESTS
        shown = []
        for snapshot in ordered:
            changed, left = self._change_summary(snapshot, left)
            shown.append(replace(snapshot, changed=changed))
        lost = tuple(self._lost(found, project.snapshot_hash))
        return History(project=project, snapshots=tuple(shown), is_cut=is_cut, lost=lost)

    def accepted_loss(self, digest: str) -> str:
        """When an operator accepted that something of the user's is gone; "" where that is not."""
        found = self._services.sync.storage.losses.one(self._user_id, digest)
        return found.accepted_at if found else ""

    def _lost(self, found: Mapping[str, ShownSnapshot], head: str) -> Iterator[tuple[str, str]]:
        """The snapshots that others lead to and that the store has not."""
        named = {head, *(parent for one in found.values() for parent in one.parents)}
        for digest in sorted(named - found.keys()):
            if self._store.size(ObjectKind.OBJECT, digest) is None:
                yield digest, self.accepted_loss(digest)

    def snapshot(self, digest: str) -> ShownSnapshot | None:
        """A snapshot of the user's; None for anything else."""
        return _snapshot(self._store, digest) if is_digest(digest) else None

    def folder(self, snapshot: ShownSnapshot, path: str) -> Folder | None:
        """What is in a folder of a snapshot, ``""`` the topmost one; None where nothing is."""
        manifest = self._manifest(snapshot.manifest_hash)
        if manifest is None:
            return None
        prefix = f"{path}/" if path else ""
        folders: dict[str, int] = {}
        files = []
        for each in manifest.paths():
            if not each.startswith(prefix):
                continue
            name, slash, _ = each[len(prefix) :].partition("/")
            if slash:
                folders[name] = folders.get(name, 0) + 1
            else:
                files.append(name)
        if path and not folders and not files:
            return None
        left_out = max(0, len(folders) - MOST_FILES) + max(0, len(files) - MOST_FILES)
        return Folder(
            path=path,
            folders=tuple(sorted(folders.items())[:MOST_FILES]),
            files=tuple(files[:MOST_FILES]),
            left_out=left_out,
        )

    def paths(self, snapshot: ShownSnapshot) -> list[str]:
        """The files of a snapshot; none where its manifest is gone."""
        manifest = self._manifest(snapshot.manifest_hash)
        return [] if manifest is None else list(manifest.paths())

    def file(self, snapshot: ShownSnapshot, path: str) -> Side | None:
        """A file of a snapshot; None where there is none of this path."""
        manifest = self._manifest(snapshot.manifest_hash)
        digest = None if manifest is None else _digests(manifest).get(path)
        return None if digest is None else self._side(digest, LARGEST_SHOWN_BYTES)

    def difference(self, before: ShownSnapshot | None, after: ShownSnapshot) -> Difference | None:
        """What differs from one snapshot to another, or from nothing; None where one is damaged."""
        old = self._manifest(before.manifest_hash) if before else SourceManifest("project")
        new = self._manifest(after.manifest_hash)
        if old is None or new is None:
            return None
        files, left, until_s = [], MOST_SHOWN_CHARACTERS, monotonic() + _COMPARING_S
        was, now = _digests(old), _digests(new)
        changed = _changed_paths(was, now)
        for number, path in enumerate(changed[:MOST_FILES]):
            room = left if number < _MOST_COMPARED_FILES and monotonic() < until_s else 0
            change, shown = self._file_change(path, was.get(path), now.get(path), room)
            files.append(change)
            left -= shown
        return Difference(
            before=before.digest if before else "",
            after=after.digest,
            files=tuple(files),
            left_out=max(0, len(changed) - MOST_FILES),
        )

    def webhooks(self, project_path: str) -> tuple[Binding, ...]:
        """The webhooks that execute something in a project, revoked ones left out."""
        found = self._services.webhooks.listed(self._user_id)
        return tuple(
            one for one in found if one.project_path == project_path and not one.revoked_at
        )

    def conflicted(self, project_path: str) -> tuple[RunRow, ...]:
        """The newest runs of a project whose changes are not part of it."""
        columns = threads.c
        query = select(*(columns[name] for name in LISTED)).where(
            columns.user_id == self._user_id,
            columns.remote_name == self._services.settings.name,
            columns.project_path == project_path,
            columns.unmerged_snapshot_hash.is_not(None),
        )
        newest = query.order_by(columns.created_at.desc()).limit(20)
        with self._services.database.reading() as connection:
            return tuple(run_row(row) for row in connection.execute(newest))

    # --- one run ---

    def run(self, thread_id: str) -> ShownRun | None:
        """A run and all that is kept of it; None for one that is not this user's."""
        query = select(threads).where(
            threads.c.thread_id == thread_id, threads.c.user_id == self._user_id
        )
        with self._services.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        answer = self._answer(row.result_hash)
        predicate, key_id = _receipt(answer)
        shown, parameters = run_row(row), _parameters(predicate, row.given)
        made = self._own_snapshot(row)
        base = made.parents[0] if made and made.parents else _text(predicate.get("snapshot"))
        before = self.snapshot(base) if made else None
        steps = self._steps(row)
        graph = self._graph(row) if steps else None
        return ShownRun(
            row=shown,
            facts=_facts(row),
            error=cut(row.error_message or "", _LONGEST_FIELD),
            result=cut(json_text(answer["data"]), _LONGEST_RESULT) if "data" in answer else "",
            messages=_messages(answer),
            thread=_thread(answer, predicate),
            warnings=_warnings(row.warnings),
            parameters=parameters,
            provenance=_provenance(predicate, key_id) if predicate else None,
            steps=bar_chart(steps) if steps else None,
            stages=tuple(self._stages(steps, graph)),
            has_picture=graph is not None,
            outputs=self._outputs(row.runtime_outputs_bundle_hash),
            conflicts=self._conflicts(row.merge_conflicts),
            base=base,
            made=made.digest if made else "",
            changes=self.difference(before, made) if made and before else None,
            log=self._log(thread_id),
            is_cancellable=not shown.is_over and not row.cancelled_by,
            is_repeatable=is_repeatable(shown, parameters)
            and not row.hook_id
            and answer.get("type") != THREAD,
        )

    def picture(self, thread_id: str) -> str | None:
        """The graph of a run as SVG, with what became of its nodes; None where that is no graph."""
        query = select(threads).where(
            threads.c.thread_id == thread_id, threads.c.user_id == self._user_id
        )
        with self._services.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        graph = None if row is None else self._graph(row)
        if row is None or graph is None:
            return None
        from ryeos.graph.pictures import NodeState, picture_of
        from ryeos.graph.svg import svg

        ends = {"error": NodeState.ERROR, "failed": NodeState.ERROR}
        steps = self._steps(row)
        states = {one.name: ends.get(one.status, NodeState.COMPLETED) for one in steps}
        return svg(picture_of(graph, states))

    def run_row(self, thread_id: str) -> RunRow | None:
        """A run as lists show it; None for one that is not this user's."""
        columns = threads.c
        query = select(*(columns[name] for name in LISTED)).where(
            columns.thread_id == thread_id, columns.user_id == self._user_id
        )
        with self._services.database.reading() as connection:
            row = connection.execute(query).one_or_none()
        return None if row is None else run_row(row)

    def output(self, thread_id: str, path: str) -> Side | None:
        """A file that a run left; None where there is no such run or file."""
        columns = threads.c
        query = select(columns.runtime_outputs_bundle_hash).where(
            columns.thread_id == thread_id, columns.user_id == self._user_id
        )
        with self._services.database.reading() as connection:
            digest = connection.scalar(query)
        found = self._bundle(digest).get(path)
        return None if found is None else self._side(found, LARGEST_SHOWN_BYTES)

    def _log(self, thread_id: str) -> Log:
        """The end of what a run wrote so far."""
        pieces = self._services.executions.logs.read(thread_id, 0, _MOST_LOG_PIECES)
        shown, left = list[tuple[str, str]](), _LOG_CHARACTERS
        for piece in reversed(pieces):
            if left <= 0:
                break
            shown.append((piece.stream, piece.text[-left:]))
            left -= len(piece.text)
        last = pieces[-1].number if pieces else 0
        return Log(pieces=tuple(reversed(shown)), is_cut=left < 0, last=last)

    def _answer(self, result_hash: str | None) -> Mapping[str, Any]:
        """The answer of a run; nothing where it is not kept."""
        try:
            stored = self._store.get_object(result_hash) if result_hash else {}
        except LilluxError:
            return {}
        answer = stored.get("result") if isinstance(stored, dict) else None
        return answer if isinstance(answer, dict) else {}

    def _own_snapshot(self, row: Row[Any]) -> ShownSnapshot | None:
        """What the run made of the project, before anything was merged with it."""
        if row.unmerged_snapshot_hash:
            return self.snapshot(row.unmerged_snapshot_hash)
        if row.merge_type not in {"fast-forward", "merge"} or not row.snapshot_hash:
            return None
        found = self.snapshot(row.snapshot_hash)
        if found is None or row.merge_type == "fast-forward" or len(found.parents) < 2:  # noqa: PLR2004 - as a merge has
            return found
        return self.snapshot(found.parents[1])

    def _bundle(self, digest: str | None) -> Mapping[str, str]:
        try:
            return outputs_bundle_of(self._store.get_object(digest), digest).files if digest else {}
        except LilluxError:
            return {}

    def _outputs(self, digest: str | None) -> tuple[Output, ...]:
        files = sorted(self._bundle(digest).items())[:MOST_FILES]
        store = self._store
        return tuple(
            Output(path=path, size=store.size(ObjectKind.BLOB, blob) or 0) for path, blob in files
        )

    def _graph(self, row: Row[Any]) -> "Graph | None":
        """The graph that a run walked, of the files that it began with; None for another item."""
        digest = row.project_manifest_hash
        manifest = self._manifest(digest) if digest else None
        paths = [] if manifest is None else manifest.paths()
        path = next(
            (
                one
                for one in paths
                if (kind := kind_of(one)) is Kind.TOOL
                and one.endswith((".yaml", ".yml"))
                and item_ref(kind, one) == row.item_id
            ),
            None,
        )
        if manifest is None or path is None:
            return None
        from ryeos.graph.reading import read_graph
        from ryeos.items.headers import parse_header

        side = self._side(_digests(manifest).get(path), LARGEST_SHOWN_BYTES)
        if not side.is_text:
            return None
        try:
            header = parse_header(PurePosixPath(path).suffix, side.content, path)
            found = read_graph(header, row.item_id.partition(":")[2]).graph
        except LilluxError:
            return None
        return found if found is not None and len(found.nodes) <= _MOST_NODES else None

    def _stages(self, steps: Sequence[Step], graph: "Graph | None") -> Iterator[ShownStep]:
        """The first steps, each with what it gave, as far as there is room."""
        left = _LONGEST_RESULT
        for step in steps[:_MOST_STAGES]:
            node = graph.nodes.get(step.name) if graph else None
            action = getattr(node, "action", None)
            output = cut(self._step_result(step.result), min(_LONGEST_FIELD, left)) if left else ""
            left -= len(output)
            yield ShownStep(
                step=step,
                action="" if action is None else f"{action.item_id} {json_text(action.params)}",
                output=output,
            )

    def _step_result(self, digest: str) -> str:
        if not is_digest(digest):
            return ""
        try:
            return json_text(self._store.get_object(digest)["result"])
        except (LilluxError, LookupError, TypeError):
            return ""

    def _steps(self, row: Row[Any]) -> tuple[Step, ...]:
        """The steps of a graph, by the transcript that it left."""
        found: tuple[Step, ...] = ()
        for path, blob in sorted(self._bundle(row.runtime_outputs_bundle_hash).items()):
            if path.startswith(".ai/state/graphs/") and path.endswith("/transcript.jsonl"):
                graph, steps = self._transcript(blob)
                if steps and (not found or graph == row.item_id.partition(":")[2]):
                    found = steps
        return found

    def _transcript(self, blob: str) -> tuple[str, tuple[Step, ...]]:
        store = self._store
        try:
            if (store.size(ObjectKind.BLOB, blob) or 0) > _LARGEST_TRANSCRIPT:
                return "", ()
            return _steps_in(store.get_blob(blob))
        except LilluxError:
            return "", ()

    def _conflicts(self, record: object) -> tuple[ShownConflict, ...]:
        conflicts, left = list[ShownConflict](), MOST_SHOWN_CHARACTERS
        until_s = monotonic() + _COMPARING_S
        for path, sides in _sides_by_path(record).items():
            is_marked = len(conflicts) < MOST_WHOLE_CONFLICTS and monotonic() < until_s
            conflict = self._conflict(path, sides, left, is_marked=is_marked)
            conflicts.append(conflict)
            left -= sum(
                len(side.content) for side in (conflict.base, conflict.ours, conflict.theirs)
            )
        return tuple(conflicts)

    def _conflict(
        self, path: str, sides: Mapping[str, Any], left: int, *, is_marked: bool
    ) -> ShownConflict:
        """With the texts of its sides, as long as ``left`` more characters may be shown."""
        most = min(LARGEST_SHOWN_BYTES, left)
        base, ours, theirs = (
            self._side(sides.get(one), most) for one in ("base", "ours", "theirs")
        )
        marked = None
        if is_marked and ours.is_text and theirs.is_text:
            marked = marked_sides(ours.content, theirs.content)
        return ShownConflict(
            path=cut(path, _LONGEST_FIELD),
            kind=cut(str(sides.get("type", ""))),
            base=base,
            ours=ours,
            theirs=theirs,
            marked=marked,
        )

    # --- objects ---

    def _heads(self) -> Select[Any]:
        columns = project_refs.c
        return select(project_refs).where(
            columns.user_id == self._user_id, columns.remote_name == self._services.settings.name
        )

    def _ancestors(self, head: str) -> tuple[dict[str, ShownSnapshot], bool]:
        """The snapshots above HEAD, breadth first, so that what is cut off is the oldest."""
        store, found, waiting = self._store, dict[str, ShownSnapshot](), [head]
        while waiting and len(found) < MOST_SNAPSHOTS:
            digest = waiting.pop(0)
            snapshot = _snapshot(store, digest) if digest not in found else None
            if snapshot is not None:
                found[digest] = snapshot
                waiting.extend(snapshot.parents)
        return found, any(digest not in found for digest in waiting)

    def _change_summary(
        self, snapshot: ShownSnapshot, left: int
    ) -> tuple[ChangeSummary | None, int]:
        """What a snapshot changed of its first parent, and how many bytes may still be read."""
        parent = self.snapshot(snapshot.parents[0]) if snapshot.parents else None
        if parent is None:
            return None, left
        before, after = parent.manifest_hash, snapshot.manifest_hash
        known = self._comparisons.get(self._user_id, before, after)
        if known is not None:
            return known, left
        sizes = (self._store.size(ObjectKind.OBJECT, one) or 0 for one in (before, after))
        left -= sum(sizes)
        old, new = (self._manifest(one) if left > 0 else None for one in (before, after))
        if old is None or new is None:
            return None, left
        paths = _changed_paths(_digests(old), _digests(new))
        changed = ChangeSummary(
            len(paths), tuple(cut(path, 200) for path in paths[:_NAMED_CHANGES])
        )
        self._comparisons.put(self._user_id, before, after, changed)
        return changed, left

    def _manifest(self, digest: str) -> SourceManifest | None:
        try:
            return manifest_of(self._store.get_object(digest), digest)
        except LilluxError:
            return None

    def _file_change(
        self, path: str, before: str | None, after: str | None, left: int
    ) -> tuple[FileChange, int]:
        """The change of one file, and how many characters it shows."""
        kind = "added" if before is None else "removed" if after is None else "changed"
        if left <= 0:
            return FileChange(path=path, kind=kind, problem=Absence.NOT_COMPARED.value), 0
        most = min(LARGEST_SHOWN_BYTES, left)
        sides = [self._side(one, most) for one in (before, after)]
        missing = [one.content for one in sides if not one.is_text and one.digest]
        if missing:
            return FileChange(path=path, kind=kind, problem=str(missing[0])), 0
        old, new = (str(one.content) if one.digest else "" for one in sides)
        lines = diff_lines(old, new)
        if lines is None:
            return FileChange(path=path, kind=kind, problem=Absence.TOO_LONG.value), 0
        return FileChange(path=path, kind=kind, lines=lines), sum(len(one.text) for one in lines)

    def _side(self, digest: object, most: int) -> Side:
        if not isinstance(digest, str) or not digest:
            return Side(None, Absence.DELETED)
        store = self._store
        try:
            blob = _blob_of(store, digest)
            if (store.size(ObjectKind.BLOB, blob) or 0) > most:
                return Side(digest, Absence.TOO_LONG)
            data = store.get_blob(blob)
        except LilluxError:
            return Side(digest, Absence.LOST)
        try:
            return Side(digest, data.decode() if b"\0" not in data else Absence.BINARY)
        except UnicodeDecodeError:
            return Side(digest, Absence.BINARY)


# --- what may be done -----------------------------------------------------------------------------


def is_repeatable(row: RunRow, parameters: Parameters | None) -> bool:
    """Whether the same can be run once more: it is over, and what it was given is known."""
    fetched_or_signed = row.item_id in {"tool:rye/fetch", "tool:rye/sign"}
    given = None if parameters is None else parameters.given
    known = given is not None and given.is_whole
    return row.is_over and known and not fetched_or_signed


# --- reading of rows and objects ------------------------------------------------------------------


def run_row(row: Row[Any]) -> RunRow:
    """A row of ``threads`` with the columns of `LISTED`, as lists show it."""
    is_waiting = row.state == RUNNING and row.started_at is None and not row.completed_at
    return RunRow(
        thread_id=row.thread_id,
        user_id=row.user_id,
        item_id=row.item_id,
        project_path=row.project_path,
        state=WAITING if is_waiting else row.state,
        created_at=row.created_at,
        started_at=row.started_at or "",
        completed_at=row.completed_at or "",
        conflicts=row.merge_conflict_count or len(_sides_by_path(row.merge_conflicts)),
        error=cut(row.error_message or "", 200),
    )


def _project(row: Row[Any]) -> Project:
    return Project(
        project_path=row.project_path,
        snapshot_hash=row.snapshot_hash,
        revision=row.snapshot_revision,
        moved_at=row.head_updated_at,
    )


def _facts(row: Row[Any]) -> dict[str, str]:
    values = row._mapping  # noqa: SLF001 - the public name of a row's columns
    return {
        name.replace("_", " "): cut(str(values[name]), _LONGEST_FIELD)
        for name in _FACTS
        if values[name]
    }


def _rate(ends: tuple[int, int] | None) -> float | None:
    return None if ends is None or not ends[1] else ends[0] / ends[1]


def _sides_by_path(record: object) -> dict[str, Mapping[str, Any]]:
    """Path to sides; a record may instead say that all retries were used up."""
    if not isinstance(record, dict):
        return {}
    sides = {path: each for path, each in record.items() if isinstance(each, dict)}
    return dict(sorted(sides.items())[:_MOST_CONFLICTS])


def _snapshot(store: ContentStore, digest: str) -> ShownSnapshot | None:
    try:
        value = store.get_object(digest)
    except LilluxError:
        return None
    if not isinstance(value, dict) or value.get("kind") != "project_snapshot":
        return None
    metadata = value.get("metadata")
    thread_id = metadata.get("thread_id", "") if isinstance(metadata, dict) else ""
    parents = value.get("parent_hashes")
    return ShownSnapshot(
        digest=digest,
        parents=tuple(one for one in parents if is_digest(one))
        if isinstance(parents, list)
        else (),
        manifest_hash=_text(value.get("project_manifest_hash")),
        source=_text(value.get("source")),
        detail=_text(value.get("source_detail")),
        timestamp=_text(value.get("timestamp")),
        thread_id=_text(thread_id),
    )


def _blob_of(store: ContentStore, digest: str) -> str:
    """The blob of an item, or the digest itself: a file is its blob."""
    if not store.has_object(digest):
        return digest
    value = store.get_object(digest)
    is_item = isinstance(value, dict) and value.get("kind") == "item_source"
    return str(value["content_blob_hash"]) if is_item else digest


def _digests(manifest: SourceManifest) -> dict[str, str]:
    return {**manifest.files, **manifest.items}


def _changed_paths(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Paths that were added, changed or removed, sorted."""
    differing = {path for path, digest in after.items() if before.get(path) != digest}
    return sorted(differing | (before.keys() - after.keys()))


def _receipt(answer: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The predicate of a run's receipt and the id of its key; nothing where there is none."""
    try:
        envelope = answer["receipt"]["envelope"]
        predicate = json.loads(b64decode(envelope["payload"]))["predicate"]
        key_id = str(envelope["signatures"][0]["keyid"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}, ""
    return (predicate, key_id) if isinstance(predicate, dict) else ({}, "")


def _parameters(predicate: Mapping[str, Any], kept: object) -> Parameters | None:
    """What a run was given, as its row says, or of one of before that as its receipt says.

    The digest of no parameters at all is known.
    """
    said = predicate.get("parameters")
    said = said if isinstance(said, dict) else {}
    sha256, given = _text(said.get("sha256")), read_given(kept)
    if given is not None:
        return Parameters(sha256=sha256, given=given)
    values = {} if sha256 == digest_of({}) else said.get("values")
    if isinstance(values, dict):
        return Parameters(sha256=sha256, given=RecordedInputs(parameters=values))
    return Parameters(sha256=sha256) if sha256 else None


def _provenance(predicate: Mapping[str, Any], key_id: str) -> Provenance:
    caller, chain, rights = (predicate.get(name) for name in ("caller", "chain", "rights"))
    return Provenance(
        caller=tuple(_pairs(caller)),
        chain=tuple(_element(one) for one in chain[:100] if isinstance(one, dict))
        if isinstance(chain, list)
        else (),
        rights=tuple(_pairs(rights)),
        key_id=cut(key_id, 100),
        base=_text(predicate.get("snapshot")),
    )


def _element(value: Mapping[str, Any]) -> ChainElement:
    names = ("id", "version", "space", "signer", "sha256")
    return ChainElement(**{name: _text(value.get(name)) for name in names})


def _pairs(value: object) -> Iterator[tuple[str, str]]:
    """The entries of a mapping as texts, lists with commas."""
    if isinstance(value, dict):
        for name, one in list(value.items())[:100]:
            said = ", ".join(map(str, one)) if isinstance(one, list) else _text(one)
            if said:
                yield cut(str(name), 100), cut(said, _LONGEST_FIELD)


def _messages(answer: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """What an answer says beside its data: output, hints, warnings."""
    left_out = _NO_MESSAGE | (_OF_THREADS if answer.get("type") == THREAD else frozenset())
    return tuple(_pairs({name: answer[name] for name in answer if name not in left_out}))


_OF_THREADS = frozenset({"text", "outputs", "usage", "state", "thread_id"})
_USAGE = (
    ("Turns", "turns"),
    ("Tokens", "tokens"),
    ("Calls of tools", "tool_calls"),
    ("Children", "spawns"),
    ("Seconds", "duration_s"),
    ("Dollars", "spend"),
)


def _thread(answer: Mapping[str, Any], predicate: Mapping[str, Any]) -> ShownThread | None:
    """What a thread of a model gave, did and cost; None for any other run."""
    if answer.get("type") != THREAD:
        return None
    usage, outputs = answer.get("usage"), answer.get("outputs")
    usage = usage if isinstance(usage, dict) else {}
    facts = [("State", _text(answer.get("state")))]
    facts += [(words, _text(usage.get(name))) for words, name in _USAGE if usage.get(name)]
    steps = predicate.get("steps")
    return ShownThread(
        facts=tuple(facts),
        text=cut(str(answer.get("text") or ""), _LONGEST_RESULT),
        outputs=cut(json_text(outputs), _LONGEST_RESULT) if outputs else "",
        calls=tuple(
            _thread_call(one)
            for one in (steps if isinstance(steps, list) else [])[:_MOST_CALLS]
            if isinstance(one, dict)
        ),
    )


def _thread_call(said: Mapping[str, Any]) -> ThreadCall:
    """A step of a receipt: a call of the model has its usage and its cost."""
    usage, cost = said.get("usage"), said.get("cost")
    counts = usage if isinstance(usage, dict) else {}
    read, written = (_text(counts.get(name)) for name in ("input_tokens", "output_tokens"))
    return ThreadCall(
        item=_text(said.get("item")),
        status=_text(said.get("error") or said.get("status")),
        tokens=f"{read or 0} in, {written or 0} out" if counts else "",
        cost=_text(cost.get("dollars")) if isinstance(cost, dict) else "",
    )


def _warnings(value: object) -> tuple[str, ...]:
    return tuple(_text(one) for one in value[:100]) if isinstance(value, list) else ()


def _text(value: object) -> str:
    if value is None or value == "":
        return ""
    return cut(value if isinstance(value, str) else json_text(value))


def _log_text(value: object) -> str:
    """The log of a step: its end, as the last lines tell most."""
    return value[-_LONGEST_FIELD:] if isinstance(value, str) else ""


def _steps_in(data: bytes) -> tuple[str, tuple[Step, ...]]:
    """The graph of a transcript, and its steps; invalid lines are passed over."""
    graph, found = "", []
    for line in data.splitlines():
        try:
            event = json.loads(line)
            kind, payload, ended_s = event["event_type"], event["payload"], event["timestamp"]
            if kind == "graph_started":
                graph = str(payload["graph_id"])
            if kind == "step_completed":
                found.append((float(ended_s), float(payload["elapsed_s"]), payload))
        except (ValueError, LookupError, TypeError, RecursionError):
            continue
    begin_s = min((ended_s - took_s for ended_s, took_s, _ in found), default=0.0)
    steps = (
        Step(
            name=_text(payload.get("node")),
            status=_text(payload.get("status")),
            start_s=max(0.0, ended_s - took_s - begin_s),
            took_s=max(0.0, took_s),
            note=_text(payload.get("error")),
            result=_text(payload.get("node_result_hash")),
            log=_log_text(payload.get("log")),
        )
        for ended_s, took_s, payload in found[:_MOST_STEPS]
    )
    return graph, tuple(steps)
