"""Records a run: its steps, its row among the threads, and its page at the end.

See `ryeos.graph.call.Recording`. Formats: ``docs/graphs.md``.
"""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from types import TracebackType
from typing import Any, Self

from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos import __version__
from ryeos.graph.call import Lineage
from ryeos.graph.commands import Act, CallResult, Enter, NodeDone, WalkOutcome
from ryeos.graph.errors import not_resumable_error
from ryeos.graph.loaded_runs import LoadedRun, key_lookup, load_run
from ryeos.graph.model import Graph
from ryeos.graph.node_cache import NodeCache
from ryeos.graph.options import Options
from ryeos.graph.progress import Position
from ryeos.graph.run_ledger import Ledger
from ryeos.graph.run_objects import NodeInput, Receipt
from ryeos.graph.run_pages import page_of, write_page
from ryeos.graph.run_places import RunPlace, new_run_id, run_place
from ryeos.graph.run_start import SavedRun
from ryeos.graph.run_store import RunIdentity, RunRecords, StepRecord
from ryeos.graph.runner import ResultCache
from ryeos.graph.transcript import KeyLookup
from ryeos.items.errors import NoSigningKeyError
from ryeos.run.outcomes import MappedResult
from ryeos.run.workspace import Workspace
from ryeos.trust.sign import Signer
from ryeos.trust.signing_key import SigningKey

_STEP = "-step"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNaming:
    """The naming of a run: the id that its starter has chosen, and who that is.

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
        """The function that writes the page of a run."""

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
        """True if a user wants the run ended."""
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


def _answer(identity: _Identity, result: MappedResult) -> Mapping[str, Any]:
    """The envelope, as `ryeos.app.workspace` makes one of a result."""
    answer: dict[str, Any] = {
        "status": "success" if result.success else "error",
        "type": "tool",
        "item_id": identity.graph_id,
        "data": result.data,
    }
    return answer if result.success else answer | {"error": result.error, "code": result.code}


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
