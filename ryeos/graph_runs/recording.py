"""Writing a run down: its steps, its place among the threads, and at its end a page for people.

See `ryeos.graph.call.Recording`. Formats: ``docs/graph-runs.md``.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Protocol, Self

from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos import __version__
from ryeos.context import Context
from ryeos.errors import NoSigningKeyError
from ryeos.executor.results import MappedResult
from ryeos.graph.beginning import SavedRun
from ryeos.graph.call import Lineage
from ryeos.graph.commands import Act, Acted, Enter, Left, Outcome
from ryeos.graph.errors import RunNotResumableError
from ryeos.graph.model import Graph
from ryeos.graph.node_cache import NodeCache
from ryeos.graph.options import Options
from ryeos.graph.page import RunPage, history_of, node_states
from ryeos.graph.page_file import write_page
from ryeos.graph.progress import Position
from ryeos.graph.records import NodeInput, Receipt
from ryeos.graph.run_ids import new_run_id
from ryeos.graph.run_place import RunPlace, run_place
from ryeos.graph.run_reading import LoadedRun, load_run
from ryeos.graph.run_store import RunIdentity, RunRecords, StepRecord
from ryeos.graph.runner import Keeping
from ryeos.graph.transcript_reading import KeyLookup
from ryeos.graph_runs.kept_results import KeptResults
from ryeos.graph_runs.ledger import Ledger
from ryeos.sign import Signer
from ryeos.signing_key import SigningKey
from ryeos.trust import TrustStore
from ryeos.verify import Verifier

_STEP = "-step"


class RecordedWorkspace(Protocol):
    """The public API, as far as records need it. See `ryeos.app.Rye`."""

    context: Context
    trust: TrustStore
    verifier: Verifier
    warn: Callable[[str], None]

    def signing_key(self) -> SigningKey:
        """The user's private key at work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
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
        workspace: RecordedWorkspace,
        ledger: Ledger,
        naming: Naming,
        behaviour: Callable[[], str],
    ) -> None:
        self._workspace, self._ledger, self._naming = workspace, ledger, naming
        self._behaviour = behaviour

    def load(self, run_id: str) -> SavedRun:
        """An earlier run. Raises ResumeStateNotFoundError and what else reading it raises."""
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
        """Begin to write a run down, or go on with it. Raises what keeps it from that."""
        goes_on = options.resume and not options.node
        run_id = options.run_id if goes_on else self._new_id(graph, options)
        with ExitStack() as undone:
            if goes_on:  # first: whoever has the records of a run has the run
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
                return  # an item that nobody signed would only be in the way
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


def key_lookup(workspace: RecordedWorkspace, place: RunPlace) -> KeyLookup:
    """The public keys that count in the space of the runs."""

    def public_pem(fingerprint: str) -> bytes | None:
        key = workspace.trust.get_key(fingerprint, place.space.label)
        return key.public_pem if key else None

    return public_pem


class WorkspaceRecording:
    """See `ryeos.graph.call.Recording`.

    teller  tells the threads how the run has ended; None where its runner does
    page    writes the page of the run; None for none
    """

    def __init__(
        self,
        records: RunRecords,
        teller: Ledger | None,
        ledger: Ledger,
        identity: _Identity,
        *,
        known_errors: int,
        keeping: Keeping | None = None,
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

    def is_ending_asked(self) -> bool:
        """Whether somebody wants the run ended."""
        return self._ledger.is_ending_asked(self.run_id)

    def entered(self, step: Enter) -> None:
        """A node is being worked on."""
        self._records.event("step_started", {"step": step.step, "node": step.node})

    def left(self, step: Left, elapsed_s: float) -> None:
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
            )
        )

    def end(self, outcome: Outcome, result: MappedResult) -> None:
        """Write down how the run has ended."""
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
            self._teller.end(self.run_id, "error", _told(error))

    def _receipt(self, act: Act, acted: Acted) -> Receipt:
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


def page_of(graph: Graph, run: LoadedRun) -> RunPage:
    """The page of a run, from what was written down of it."""
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
    """The envelope, as `ryeos.app` makes one of a result."""
    answer: dict[str, Any] = {
        "status": "success" if result.success else "error",
        "type": "tool",
        "item_id": identity.graph_id,
        "data": result.data,
    }
    return answer if result.success else answer | {"error": result.error, "code": result.code}


def _told(error: BaseException) -> Mapping[str, Any]:
    """The answer of a run that did not come to its end."""
    return {"status": "error", "error": str(error) or type(error).__name__}


def _thread_of(acted: Acted) -> str | None:
    thread_id = acted.result.get("thread_id")
    return thread_id if isinstance(thread_id, str) else None


def _still_at(position: Position) -> Callable[[LoadedRun], None]:
    """Refuses a run that somebody has gone on with since the position was read.

    It was read before the run was held: what was done in between would be done again.
    """

    def check(run: LoadedRun) -> None:
        if (run.step, run.current_node) != (position.step, position.node):
            raise RunNotResumableError(
                run.snapshot.graph_run_id,
                "another process has gone on with it meanwhile",
                hint="see how it is now: rye threads list --all",
            )

    return check
