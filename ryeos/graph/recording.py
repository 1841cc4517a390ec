"""Records a run: its steps, its row among the threads, and its page at the end.

See `ryeos.graph.call.Recording`. Formats: ``docs/graphs.md``.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lillux.errors import LilluxError
from lillux.files import (
    is_inside,
    make_directory,
    remove_file,
    safe_join,
    write_atomic,
)
from lillux.foreign_text import one_line, printable
from lillux.values import dataclass
from ryeos import __version__
from ryeos.graph.call import Lineage, SavedRun
from ryeos.graph.commands import Act, CallResult, Enter, NodeDone, Position, WalkOutcome
from ryeos.graph.model import Graph, Options
from ryeos.graph.problems import (
    GraphInvalidError,
    RunPlaceError,
    not_resumable_error,
)
from ryeos.graph.reading import read_graph
from ryeos.graph.run_log import (
    COMPLETED,
    TRANSCRIPT,
    KeyLookup,
    NodeCache,
    NodeInput,
    Receipt,
    RunPlace,
    new_run_id,
    run_place,
    valid_run_id,
)
from ryeos.graph.run_store import (
    LoadedRun,
    RunIdentity,
    RunRecords,
    StepRecord,
    key_lookup,
    load_run,
)
from ryeos.graph.runner import ResultCache
from ryeos.items.context import log_warning
from ryeos.items.errors import NoSigningKeyError, RyeError
from ryeos.items.headers import parse_header
from ryeos.items.refs import ItemRef, Kind, valid_id
from ryeos.run.calls import MappedResult
from ryeos.run.thread_control import end_rest, refreshed
from ryeos.run.thread_registry import ThreadRegistry, write_document
from ryeos.run.threads import (
    CANCEL,
    INLINE,
    LOCAL,
    Grants,
    RunnerSeals,
    Status,
    Thread,
    ThreadNotFoundError,
    read_grants,
    write_grants,
)
from ryeos.run.workspace import Workspace
from ryeos.trust.keys import SigningKey
from ryeos.trust.sign import ReadItem, Signer, SignTarget

# --- page -----------------------------------------------------------------------------------------
# The page of a run, for people and for search: a knowledge item.
#
# Names and errors come from foreign graphs and tools: none of them can end the fence, a row of the
# table or the comment that holds the signature.

_MARKS = {"completed": "✅", "error": "❌", "running": "🔄", "waiting": "⏳"}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$:@-])")
_LONGEST_TEXT, _MOST_ROWS = 300, 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSummary:
    """A node of the graph: ``completed``, ``error``, ``running`` or ``waiting``."""

    name: str
    status: str = "waiting"
    runs: int = 0
    elapsed_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """A completed step."""

    step: int
    node: str
    status: str
    elapsed_s: float = 0.0
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """What the page shows. Times are seconds since 1970."""

    graph_id: str
    run_id: str
    version: str
    status: str
    started: float
    updated: float
    nodes: tuple[NodeSummary, ...]
    history: tuple[HistoryStep, ...]
    state_hash: str = ""
    transcript: str = ""


def render_page(page: RunPage) -> str:
    """The text of the knowledge item ``state/graphs/<graph id>/<run id>``, unsigned."""
    name, source = page.run_id, plain_words(page.transcript or "its transcript")
    header = {
        "name": name,
        "title": f"Run {name}",
        "entry_type": "graph_run",
        "category": f"state/graphs/{page.graph_id}",
        "version": page.version,
        "graph_id": page.graph_id,
        "graph_run_id": page.run_id,
        "status": page.status,
        "steps": len(page.history),
        "started": _utc_text(page.started),
        "updated": _utc_text(page.updated),
        "state_hash": page.state_hash,
    }
    parts = [
        "```yaml",
        *(f"{key}: {yaml_scalar(value)}" for key, value in header.items()),
        "```",
        "",
        f"# {plain_words(page.graph_id)}",
        "",
        f"{_mark(page.status)} {plain_words(page.status)}, {len(page.history)} steps",
        "",
        "| | node | runs | seconds |",
        "|---|---|---|---|",
        *(_node_row(node) for node in page.nodes[:_MOST_ROWS]),
        *_more(len(page.nodes), "nodes"),
        "",
        "## History",
        "",
        *(_history_line(step) for step in page.history[-_MOST_ROWS:]),
        *_more(len(page.history), "earlier steps"),
        "",
        "---",
        "",
        f"Run {plain_words(page.run_id)}, rendered from {source}.",
        "",
    ]
    return "\n".join(parts)


def history_of(events: Sequence[tuple[float, str, Mapping[str, object]]]) -> list[HistoryStep]:
    """The completed steps in a transcript's events (time, type, payload)."""
    return [
        HistoryStep(
            step=_number(payload.get("step")),
            node=str(payload.get("node", "")),
            status=str(payload.get("status", "")),
            elapsed_s=_seconds(payload.get("elapsed_s")),
            error=None if payload.get("error") is None else str(payload["error"]),
        )
        for _, event_type, payload in events
        if event_type == "step_completed"
    ]


def node_states(
    names: Sequence[str], history: Sequence[HistoryStep], current: str | None = None
) -> tuple[NodeSummary, ...]:
    """The nodes of a graph with what became of them; ``current`` is running."""
    runs: dict[str, list[HistoryStep]] = {}
    for step in history:
        runs.setdefault(step.node, []).append(step)
    return tuple(_state(name, runs.get(name, []), running=name == current) for name in names)


def _state(name: str, steps: list[HistoryStep], *, running: bool) -> NodeSummary:
    status = "running" if running else "waiting"
    if steps and not running:
        status = "error" if steps[-1].error else "completed"
    elapsed_s = sum(step.elapsed_s for step in steps)
    return NodeSummary(name=name, status=status, runs=len(steps), elapsed_s=elapsed_s)


def _node_row(node: NodeSummary) -> str:
    return (
        f"| {_mark(node.status)} | {plain_words(node.name)} | {node.runs} | {node.elapsed_s:.2f} |"
    )


def _history_line(step: HistoryStep) -> str:
    mark = _mark("error" if step.error else "completed")
    error = f": {plain_words(step.error)}" if step.error else ""
    return f"{step.step}. {mark} {plain_words(step.node)}, {step.elapsed_s:.2f} s{error}"


def _more(count: int, what: str) -> list[str]:
    left = count - _MOST_ROWS
    return ["", f"and {left} more {what}"] if left > 0 else []


def _mark(status: str) -> str:
    if status in _MARKS:
        return _MARKS[status]
    return "✅" if status.startswith(("completed", "success")) else "❌"


def yaml_scalar(value: object) -> str:
    """A scalar as JSON, which YAML reads as the same; no back-tick, which could end the fence."""
    text = json.dumps(value, ensure_ascii=False)
    return printable(text, 0).replace("`", "\\u0060")


def plain_words(text: str) -> str:
    """Foreign text as plain words of one line."""
    return _MARKDOWN.sub(r"\\\1", one_line(text, _LONGEST_TEXT))


def _utc_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _seconds(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# --- page file ------------------------------------------------------------------------------------
# The page of a run as a file: written whole, signed with the user's key where there is one.


def page_path(place: RunPlace, graph_id: str, run_id: str) -> Path:
    """Where the page is. Raises InvalidRefError, RunIdError, RunPlaceError."""
    folder = place.space.directory(Kind.KNOWLEDGE)
    if not is_inside(folder, place.ai):
        raise RunPlaceError(str(folder), "expected a folder, found a link")
    return safe_join(folder, f"{_item_id(graph_id, run_id)}.md")


def write_page(place: RunPlace, page: RunPage, signer: Signer | None) -> Path:
    """Write the page, and sign it. Raises as `page_path`, FileSystemError, and as `Signer.sign`."""
    path = page_path(place, page.graph_id, page.run_id)
    make_directory(path.parent, within=place.space.within)
    data = render_page(page).encode("utf-8", "backslashreplace")
    write_atomic(path, data, within=place.space.within)
    if signer is not None:
        ref = ItemRef(Kind.KNOWLEDGE, _item_id(page.graph_id, page.run_id))
        target = SignTarget(path=path, kind=Kind.KNOWLEDGE, space=place.space, ref=ref)
        signer.sign(ReadItem(target, data), force=True)
    return path


def _item_id(graph_id: str, run_id: str) -> str:
    valid_id(graph_id)
    return f"state/graphs/{graph_id}/{valid_run_id(run_id)}"


# --- ledger ---------------------------------------------------------------------------------------
# Runs of graphs among the threads: who works on one, how it ended, what it may call.
#
# A run that ``rye run --async`` has started is a thread already, and its runner records its end;
# any other is entered here, with the process that it runs in.

_STATUSES = {
    "completed": Status.COMPLETED,
    "stepped": Status.COMPLETED,
    "completed_with_errors": Status.COMPLETED_WITH_ERRORS,
    "cancelled": Status.CANCELLED,
}


_MAX_ANCESTORS = 100
# Runs that this process works on: the registry knows the process, and not which of its calls.
_active: set[str] = set()


class Ledger:
    """The threads of a workspace, as runs of graphs see them."""

    def __init__(
        self,
        registry: ThreadRegistry,
        seals: RunnerSeals,
        runs: RunPlace,
        warn: Callable[[str], None] = log_warning,
    ) -> None:
        self._registry, self._seals, self._runs, self._warn = registry, seals, runs, warn

    def lineage_of(self, thread_id: str) -> Lineage:
        """What a run may do that this thread has started. Raises RyeError `PERMISSION_DENIED`.

        A thread that is no run of a graph hands on what it has from its own parent; one that a
        person has started hands on no limits.
        """
        for _ in range(_MAX_ANCESTORS):
            try:
                thread = self._registry.get(thread_id)
                grants = read_grants(self._registry.place, self._seals, thread_id)
            except ThreadNotFoundError:
                raise _parent_unknown(thread_id, "which is no thread of this project") from None
            except (LilluxError, ValueError) as error:
                raise _parent_unknown(thread_id, f"but {error}") from None
            if grants is not None:
                depth = None if grants.depth is None else grants.depth - 1
                own = () if grants.own is None else (grants.own,)
                return Lineage(grants=(*grants.lists, *own), depth=depth)
            if (self._runs.runs / thread_id).exists():  # the run of a graph, which had some
                raise _parent_unknown(thread_id, "but the list of what it may call is missing")
            if not thread.parent_id:
                return Lineage()
            thread_id = thread.parent_id
        raise _parent_unknown(thread_id, "which has too many threads above it")

    def given_to(self, run_id: str) -> Lineage:
        """What the caller allows a run, the graph's own list aside.

        Raises RyeError `PERMISSION_DENIED`.
        """
        try:
            grants = read_grants(self._registry.place, self._seals, run_id)
        except (LilluxError, ValueError) as error:
            raise _grants_lost(run_id, str(error)) from None
        if grants is None:
            raise _grants_lost(run_id, "the list of what it may call is missing")
        return Lineage(grants=grants.lists, depth=grants.depth)

    def parent_of(self, thread_id: str) -> str:
        """The thread that has started this one, ``""`` if absent or unknown."""
        try:
            return self._registry.get(thread_id).parent_id or ""
        except ThreadNotFoundError:
            return ""

    def is_alive(self, run_id: str) -> bool:
        """Whether a process works on the run."""
        try:
            thread = refreshed(self._registry, self._registry.get(run_id))
        except ThreadNotFoundError:
            return False
        is_own = thread.pid == os.getpid()
        return thread.status == Status.RUNNING and (not is_own or run_id in _active)

    def begin(self, run_id: str, graph_id: str, parent_id: str, lineage: Lineage) -> bool:
        """Enter a run as one of this process; False where its runner sees to that.

        Raises RyeError `CONFLICT` where another process was quicker, and as `ThreadRegistry`.
        """
        from lillux.background import start_token

        pid = os.getpid()
        token = start_token(pid)
        is_ours = self._enter(run_id, graph_id, parent_id, pid, token)
        grants = Grants(lineage.grants, lineage.own, lineage.depth)
        try:
            write_grants(self._registry.place, self._seals, run_id, grants, self._warn)
        except LilluxError as error:
            if is_ours:
                self._registry.finish(run_id, Status.ERROR, error=str(error))
            raise
        _active.add(run_id)
        return is_ours

    def _enter(self, run_id: str, graph_id: str, parent_id: str, pid: int, token: str) -> bool:
        try:
            known = self._registry.get(run_id)
        except ThreadNotFoundError:
            self._registry.register(_new_thread(run_id, graph_id, parent_id))
            self._registry.mark_running(run_id, pid, token)
            return True
        if known.status == Status.RUNNING and known.pid == pid and run_id not in _active:
            return False
        if not self._registry.reopen(run_id, pid, token):
            raise not_resumable_error(run_id, f"it is {known.status}, or another process has it")
        with suppress(FileNotFoundError):  # that ended it last time
            place = self._registry.place
            remove_file(place.file(run_id, CANCEL), within=place.root)
        end_rest(self._registry, known, self._seals)  # what it did last is about to be done again
        return True

    def is_end_requested(self, run_id: str) -> bool:
        """Whether a user has asked for the end of a run, see `ryeos.run.thread_control`."""
        return self._registry.place.file(run_id, CANCEL).exists()

    def leave(self, run_id: str) -> None:
        """Record that this process does not work on the run any more."""
        _active.discard(run_id)

    def end(self, run_id: str, status: str, answer: Mapping[str, object]) -> None:
        """Record how a run of this process has ended. Raises as `ThreadRegistry`."""
        error = answer.get("error")
        self._registry.finish(
            run_id,
            _STATUSES.get(status, Status.ERROR),
            result=json.dumps(answer, ensure_ascii=True, default=str),
            error=str(error) if error else None,
        )
        write_document(self._registry, run_id)


def _new_thread(run_id: str, graph_id: str, parent_id: str) -> Thread:
    return Thread(
        thread_id=run_id,
        directive=graph_id,
        parent_id=parent_id or None,
        tool_id=graph_id,
        item_id=f"tool:{graph_id}",
        kind="tool",
        target=LOCAL,
        thread_mode=INLINE,
        chain_root_id=run_id,
    )


# --- recording ------------------------------------------------------------------------------------

_STEP = "-step"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNaming:
    """Which run this is to be: the id that its starter has chosen, and who that is.

    is_inner  it is a call of another graph, whose page says enough
    """

    chosen_id: str = ""
    parent_id: str = ""
    is_inner: bool = False


class WorkspaceRecordings:
    """See `ryeos.graph.call.Recordings`. ``behaviour`` digests what else may decide a result."""

    def __init__(
        self,
        workspace: Workspace,
        ledger: Ledger,
        naming: RunNaming,
        behaviour: Callable[[], str],
    ) -> None:
        self._workspace, self._ledger, self._naming = workspace, ledger, naming
        self._behaviour = behaviour

    def load(self, run_id: str) -> SavedRun:
        """An earlier run. Raises RyeError `RUN_NOT_FOUND` and what else reading it raises."""
        loaded = load_run(self._place(), run_id, self._trusted)
        for warning in loaded.warnings:
            self._workspace.warn(warning)
        return SavedRun(
            run_id=run_id,
            status=loaded.status,
            state=loaded.state,
            node=loaded.current_node,
            step=loaded.step,
            errors=loaded.errors,
            graph_id=loaded.snapshot.graph_id,
            graph_hash=loaded.graph_hash,
            is_alive=self._ledger.is_alive(run_id),
        )

    def begin(
        self,
        graph: Graph,
        graph_hash: str,
        position: Position,
        options: Options,
        lineage: Lineage,
    ) -> "WorkspaceRecording":
        """Begin the record of a run, or resume it. Raises what keeps it from that."""
        goes_on = options.resume and not options.node
        run_id = options.run_id if goes_on else self._new_id(graph, options)
        with ExitStack() as undone:
            if goes_on:  # first: the records of a run are the run
                records, _ = RunRecords.resume(
                    self._place(),
                    run_id,
                    trusted=self._trusted,
                    allow=_still_at(position),
                    key=self._key(),
                )
            else:
                identity = RunIdentity(
                    run_id=run_id,
                    graph_id=graph.graph_id,
                    graph_hash=graph_hash,
                    system_version=__version__,
                )
                records = RunRecords.create(
                    self._place(),
                    identity,
                    state=position.state,
                    current_node=position.node,
                    key=self._key(),
                )
            undone.callback(records.close)
            is_ours = self._ledger.begin(run_id, graph.graph_id, self._naming.parent_id, lineage)
            undone.pop_all()
        cache = NodeCache(records.store, warn=self._workspace.warn)
        return WorkspaceRecording(
            records,
            self._ledger if is_ours else None,
            self._ledger,
            _Identity(graph.graph_id, graph_hash),
            known_errors=len(position.errors),
            keeping=KeptResults(cache, graph.graph_id, graph_hash, self._behaviour),
            page=None if self._naming.is_inner else self._page_of(graph),
        )

    def _page_of(self, graph: Graph) -> Callable[[str], None]:
        """What writes the page of a run."""

        def write(run_id: str) -> None:
            place = self._place()
            key = self._key()
            if key is None and not self._workspace.context.pages_are_signed_later:
                return  # an unsigned item would only be in the way
            try:
                page = page_of(graph, load_run(place, run_id, self._trusted))
                signer = Signer(key, self._workspace.verifier) if key else None
                write_page(place, page, signer)
            except LilluxError as error:
                self._workspace.warn(f"{run_id}: its page was not written: {error}")

        return write

    def _new_id(self, graph: Graph, options: Options) -> str:
        chosen = "" if options.resume else options.run_id or self._naming.chosen_id
        made = chosen or new_run_id(graph.graph_id)
        return made + _STEP if options.node else made

    def _place(self) -> RunPlace:
        return run_place(self._workspace.context.spaces)

    def _key(self) -> SigningKey | None:
        try:
            return self._workspace.signing_key()
        except NoSigningKeyError:
            return None

    @property
    def _trusted(self) -> KeyLookup:
        return key_lookup(self._workspace, self._place())


@dataclass(frozen=True, slots=True)
class _Identity:
    graph_id: str
    graph_hash: str


class WorkspaceRecording:
    """See `ryeos.graph.call.Recording`.

    teller  tells the threads how the run has ended; None where its runner does
    page    writes the page of the run, or None
    """

    def __init__(
        self,
        records: RunRecords,
        teller: Ledger | None,
        ledger: Ledger,
        identity: _Identity,
        *,
        known_errors: int,
        keeping: ResultCache | None = None,
        page: Callable[[str], None] | None = None,
    ) -> None:
        self._records, self._teller, self._ledger = records, teller, ledger
        self._identity, self._known_errors = identity, known_errors
        self._began = time.monotonic()
        self._has_ended = False
        self._write_page = page
        self.keeping = keeping

    @property
    def run_id(self) -> str:
        """Of this run."""
        return self._records.run_id

    def is_end_requested(self) -> bool:
        """Whether a user wants the run ended."""
        return self._ledger.is_end_requested(self.run_id)

    def node_entered(self, step: Enter) -> None:
        """A node is being worked on."""
        self._records.event("step_started", {"step": step.step, "node": step.node})

    def node_done(self, step: NodeDone, elapsed_s: float) -> None:
        """A node is done with."""
        new_errors = step.errors[self._known_errors :]
        self._known_errors = len(step.errors)
        only = step.calls[0] if len(step.calls) == 1 else None
        self._records.step(
            StepRecord(
                step=step.step,
                node=step.node,
                next_node=step.next_node,
                state=step.state,
                status="completed" if step.error is None else "error",
                elapsed_s=elapsed_s,
                action_id=only[0].reference if only else "",
                thread_id=_thread_of(only[1]) if only else None,
                error=step.error,
                receipts=tuple(self._receipt(act, acted) for act, acted in step.calls),
                suppressed=tuple(new_errors),
                log=log_of(step.calls),
            )
        )

    def end(self, outcome: WalkOutcome, result: MappedResult) -> None:
        """Record how the run has ended."""
        self._records.finish(
            outcome.status,
            state=outcome.state,
            current_node=outcome.next_node,
            elapsed_s=time.monotonic() - self._began,
            error=outcome.error,
        )
        self._has_ended = True
        if self._write_page:
            self._write_page(self.run_id)
        if self._teller:
            self._teller.end(self.run_id, outcome.status, _answer(self._identity, result))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._records.close()
        self._ledger.leave(self.run_id)
        if error is not None and self._teller and not self._has_ended:
            self._teller.end(self.run_id, "error", _error_answer(error))

    def _receipt(self, act: Act, acted: CallResult) -> Receipt:
        given = NodeInput(
            graph_id=self._identity.graph_id,
            graph_hash=self._identity.graph_hash,
            node_name=act.node,
            interpolated_action=act.described(),
            remote=act.remote or "",
        )
        return Receipt(
            node_input_hash=given.digest(),
            node_result_hash=self._records.put_result(acted.result),
            cache_hit=acted.cache_hit,
            elapsed_ms=round(acted.elapsed_s * 1000),
            error=str(acted.result.get("error")) if acted.has_failed else None,
        )


MAX_LOG_CHARACTERS = 4000
"""Of what the tools of a step printed: less than the answer of a call holds."""

_LOG_CUT = "[the beginning is left out]"
_LINE_END = re.compile("[\r\n]")


def log_of(calls: Sequence[tuple[Act, CallResult]]) -> str:
    """The end of what the tools of a step printed; that of several calls, each with its number.

    It is cut between lines: half a secret would not be found by who masks secrets.
    """
    texts = [(act, acted.log.strip("\n")) for act, acted in calls if acted.log.strip()]
    if len(calls) == 1:
        parts = [text for _, text in texts]
    else:
        parts = [f"call {_place(act)}:\n{text}" for act, text in texts]
    text = "\n".join(parts).encode("utf-8", "replace").decode()
    if len(text) <= MAX_LOG_CHARACTERS:
        return text
    _, *rest = _LINE_END.split(text[-MAX_LOG_CHARACTERS:], maxsplit=1)
    return "\n".join([_LOG_CUT, *rest])


def _place(act: Act) -> str:
    return act.item_id if act.index is None else str(act.index + 1)


def page_of(graph: Graph, run: LoadedRun) -> RunPage:
    """The page of a run, from its record."""
    events = [(event.timestamp, event.event_type, event.payload) for event in run.events]
    history = tuple(history_of(events))
    going_on = run.current_node if run.status == "running" else None
    return RunPage(
        graph_id=graph.graph_id,
        run_id=run.snapshot.graph_run_id,
        version=__version__,
        status=run.status,
        started=events[0][0] if events else 0.0,
        updated=events[-1][0] if events else 0.0,
        nodes=node_states(list(graph.nodes), history, going_on),
        history=history,
        state_hash=run.snapshot.state_hash,
    )


def _answer(identity: _Identity, result: MappedResult) -> Mapping[str, Any]:
    """The envelope, as `ryeos.app.workspace` makes one of a result."""
    answer: dict[str, Any] = {
        "status": "success" if result.success else "error",
        "type": "tool",
        "item_id": identity.graph_id,
        "data": result.data,
    }
    return answer if result.success else answer | {"error": result.error, "code": result.code}


def _parent_unknown(parent_id: str, problem: str) -> RyeError:
    """The error of a thread that a run is said to be started by, and that is not known here."""
    return RyeError(
        f"Permission denied: RYE_PARENT_THREAD_ID names {parent_id[:200]!r}, {problem}",
        code="PERMISSION_DENIED",
        hint="what a run starts may do no more than the run; unset the variable to start over",
    )


def _grants_lost(run_id: str, problem: str) -> RyeError:
    """The error of a run without a whole record of what it may call."""
    return RyeError(
        f"Permission denied: cannot resume {run_id}: {problem}",
        code="PERMISSION_DENIED",
        hint="run the graph again for a new run",
    )


def _error_answer(error: BaseException) -> Mapping[str, Any]:
    """The answer of a run that did not come to its end."""
    return {"status": "error", "error": str(error) or type(error).__name__}


def _thread_of(acted: CallResult) -> str | None:
    thread_id = acted.result.get("thread_id")
    return thread_id if isinstance(thread_id, str) else None


def _still_at(position: Position) -> Callable[[LoadedRun], None]:
    """Refuses a run that another process has resumed since the position was read.

    It was read before the run was held: what was done in between would be done again.
    """

    def check(run: LoadedRun) -> None:
        if (run.step, run.current_node) != (position.step, position.node):
            raise not_resumable_error(
                run.snapshot.graph_run_id,
                "another process has gone on with it meanwhile",
                hint="see how it is now: rye threads list --all",
            )

    return check


# --- resumable runs -------------------------------------------------------------------------------

_LOOKED_AT = 200
"""Of the latest threads: an older run is resumed by its id."""
_STOPPED = frozenset({Status.ERROR, Status.CANCELLED, Status.KILLED})


@dataclass(frozen=True, slots=True)
class ResumableRun:
    """A run of a graph that stopped before its end. ``node`` is where it would continue."""

    thread: Thread
    node: str

    def describe(self) -> dict[str, Any]:
        """The run as JSON."""
        return {
            "run_id": self.thread.thread_id,
            "graph": self.thread.item_id or self.thread.directive,
            "status": str(self.thread.status),
            "node": self.node,
            "stopped_at": self.thread.completed_at or self.thread.updated_at,
        }


def resumable_runs(workspace: Workspace, registry: ThreadRegistry) -> "Iterator[ResumableRun]":
    """The runs of graphs here that stopped and can go on, the latest first.

    Runs that another run started are left out: they go on with that one.
    """
    place = run_place(workspace.context.spaces)
    trusted = key_lookup(workspace, place)
    for one in registry.threads(limit=_LOOKED_AT):
        if one.parent_id:
            continue
        thread = refreshed(registry, one)
        try:
            if thread.status not in _STOPPED or not _has_transcript(place, thread.thread_id):
                continue
            run = load_run(place, thread.thread_id, trusted)
        except LilluxError:  # what is damaged is not resumed; asked for by its id it says why
            continue
        if run.status not in COMPLETED and run.current_node:
            yield ResumableRun(thread, run.current_node)


def _has_transcript(place: RunPlace, run_id: str) -> bool:
    return place.run_file(run_id, TRANSCRIPT).is_file()


# --- kept results ---------------------------------------------------------------------------------
# Results of calls that are used again. See `ryeos.graph.runner.ResultCache`.


class KeptResults:
    """The kept results of one graph. ``behaviour`` digests what else may decide a result."""

    def __init__(
        self, cache: NodeCache, graph_id: str, graph_hash: str, behaviour: Callable[[], str]
    ) -> None:
        self._cache, self._graph_id, self._graph_hash = cache, graph_id, graph_hash
        self._make_behaviour = behaviour

    def find(self, act: Act, integrity: str) -> Mapping[str, Any] | None:
        """The kept result of the same call, None without one."""
        found = self._cache.get(self._input(act, integrity), ttl_s=act.cache_ttl_s)
        return found.result if found and isinstance(found.result, dict) else None

    def keep(self, act: Act, integrity: str, result: Mapping[str, Any]) -> None:
        """Keep a result that is no error. Raises FileSystemError and similar."""
        self._cache.put(self._input(act, integrity), result)

    @cached_property
    def _behaviour(self) -> str:
        return self._make_behaviour()

    def _input(self, act: Act, integrity: str) -> NodeInput:
        return NodeInput(
            graph_id=self._graph_id,
            graph_hash=self._graph_hash,
            node_name=act.node,
            interpolated_action=act.described(),
            config_snapshot_hash=self._behaviour,
            chain=(integrity,),
        )


# --- pages ----------------------------------------------------------------------------------------
# The page of a run that was walked elsewhere, made here from its record.


def write_run_page(workspace: Workspace, graph_id: str, run_id: str) -> Path | None:
    """Write and sign the page of a run, if the item is a graph; None for any other item.

    Raises GraphInvalidError, NoSigningKeyError, and as `load_run` and `write_page`.
    """
    from ryeos.run.primitives import is_graph

    chain = workspace.executor.build_chain(graph_id)
    tool = chain.tool
    if not is_graph(chain) or tool.item is None:
        return None
    target = tool.item.target
    header = parse_header(target.suffix, tool.item.text, str(target.path))
    reading = read_graph(header, tool.item_id)
    if reading.graph is None:
        raise GraphInvalidError(tool.item_id, reading.errors)
    place = run_place(workspace.context.spaces)
    run = load_run(place, run_id, key_lookup(workspace, place))
    signer = Signer(workspace.signing_key(), workspace.verifier)
    return write_page(place, page_of(reading.graph, run), signer)
