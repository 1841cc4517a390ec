"""The calls of a graph run: execute, load, search and sign items. A seam of `ryeos.graph`.

What a call gets of its run: the run's id as its parent, every list of capabilities, one level less.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.values import replace
from ryeos.graph.call import Lineage
from ryeos.graph.capabilities import ALWAYS_ALLOWED, unlisted
from ryeos.graph.commands import Act
from ryeos.items.errors import (
    ItemNotFoundError,
    RyeError,
    UnsupportedError,
    VerbArgumentError,
    error_envelope,
)
from ryeos.items.refs import EXECUTABLE_KINDS, PROJECT, SYSTEM, USER, Kind, Reference
from ryeos.items.rights import Rights
from ryeos.run.model import ExecutionRequest, ThreadRequest
from ryeos.run.threads.payload import PARENT_VARIABLE
from ryeos.run.workspace import Workspace

if TYPE_CHECKING:
    from ryeos.search.search import SearchRequest, SearchResult


AGENT = "rye/agent/threads/thread_directive"
HERE = (None, "", "local")
"""The keys that a node may have for a call that is made by this program."""

_CONTINUED = "continued"
_LOOK_S = 0.5

Search = Callable[["SearchRequest"], "SearchResult"]
"""Finds the items of the workspace. Raises InvalidQueryError, VerbArgumentError."""


class WorkspaceCalls:
    """See `ryeos.graph.runner.Calls`."""

    def __init__(
        self,
        workspace: Workspace,
        run_id: str,
        lineage: Lineage,
        *,
        search: "Search",
        extra_env: Mapping[str, str],
        use_lockfile: bool,
        callers: tuple[Rights, ...],
        known_texts: Mapping[str, str],
        caller_kind: str = "graph",
    ) -> None:
        self._caller_kind = caller_kind
        self._workspace, self._lineage, self._search_items = workspace, lineage, search
        self._callers, self._known_texts = callers, known_texts
        self._run_id = run_id
        self._env = {**extra_env, PARENT_VARIABLE: run_id}
        self._use_lockfile = use_lockfile

    def make(self, act: Act, cancellation: Cancellation) -> Mapping[str, Any]:
        """The envelope of the answer, also of a failure."""
        try:
            return self._answer(act, cancellation)
        except LilluxError as error:
            return error_envelope(error)

    def integrity(self, act: Act) -> str | None:
        """Of a tool that is no graph: what a graph calls is not known beforehand."""
        if act.remote not in HERE:
            return None
        if act.primary != "execute" or act.kind not in {None, Kind.TOOL.value}:
            return None
        try:
            return self._workspace.fingerprint(act.item_id)
        except LilluxError:  # the call itself reports it
            return None

    def _answer(self, act: Act, cancellation: Cancellation) -> Mapping[str, Any]:
        if act.remote not in HERE:
            return self._elsewhere(act, cancellation)
        match act.primary:
            case "execute":
                return self._execute(act, cancellation)
            case "fetch":
                return self._fetch(act) if act.item_id else self._search(act)
            case _:
                return self._sign(act)

    def _elsewhere(self, act: Act, cancellation: Cancellation) -> Mapping[str, Any]:
        """A call that a remote makes. Raises UnsupportedError for all but ``execute``."""
        from ryeos.remote.link import RemoteEnvironment
        from ryeos.remote.run import RemoteOptions
        from ryeos.remote.run_answers import execute_on

        if act.primary != "execute":
            raise UnsupportedError(
                f"remote {act.remote}: only items to execute are sent there, not {act.primary}",
                hint="leave out remote of the node",
            )
        reference = Reference(_kind(act), act.item_id)
        if act.item_id.startswith(ALWAYS_ALLOWED):
            self._require_own(act, reference)
        return execute_on(
            RemoteEnvironment(workspace=self._workspace, cancellation=cancellation),
            act.remote,
            reference,
            ExecutionRequest(
                item_id=reference.id,
                parameters=act.params,
                at_most_s=act.timeout_s,
                use_lockfile=self._use_lockfile,
            ),
            RemoteOptions(
                is_async=act.is_async,
                thread="fork" if act.forks else "",
                agent={} if act.forks else None,
            ),
        ).envelope

    def _execute(self, act: Act, cancellation: Cancellation) -> Mapping[str, Any]:
        reference = self._agent_for(act) or Reference(_kind(act), act.item_id)
        if act.item_id.startswith(ALWAYS_ALLOWED):
            self._require_own(act, reference)
        request = ExecutionRequest(
            item_id=reference.id,
            parameters=self._parameters(act, reference),
            at_most_s=act.timeout_s,
            extra_env=self._env,
            use_lockfile=self._use_lockfile,
            grants=self._lineage.grants,
            depth=self._lineage.depth,
            is_one_of_many=True,
            confined=True,
            callers=self._callers,
            known_texts=self._known_texts,
            caller={"kind": self._caller_kind, "run": self._run_id, "step": act.node},
            wants_receipt=True,
        )
        if act.forks and reference.kind is Kind.DIRECTIVE:
            return self._carried_out(reference, request, cancellation, is_async=act.is_async)
        if act.is_async:
            return self._workspace.start_here(reference, request).envelope
        answer = self._workspace.execute(reference, request, cancellation=cancellation)
        return self._final_answer(answer.envelope, cancellation)

    def _carried_out(
        self,
        reference: Reference,
        request: ExecutionRequest,
        cancellation: Cancellation,
        *,
        is_async: bool,
    ) -> Mapping[str, Any]:
        """The envelope of a thread that carries a directive out, or goes on after a kill."""
        request = replace(request, thread=ThreadRequest(goes_on=True))
        if is_async:
            return self._workspace.start_here(reference, request).envelope
        return self._workspace.execute(reference, request, cancellation=cancellation).envelope

    def _require_own(self, act: Act, reference: Reference) -> None:
        """Only the program's own items need no capability, not those that took their names."""
        resolution, _ = self._workspace.load(reference)
        if resolution.location.space.label in {PROJECT, USER}:
            problem = unlisted(act.primary, act.kind, act.item_id, self._lineage.grants)
            if problem:
                raise RyeError(
                    problem,
                    code="PERMISSION_DENIED",
                    hint="only items of the program itself need no capability",
                )

    def _agent_for(self, act: Act) -> Reference | None:
        """The tool that carries out a directive, where a user has one: else it is rendered.

        That of the bundle runs where a node calls it by its name.
        """
        if act.kind != Kind.DIRECTIVE.value:
            return None
        agent = Reference(Kind.TOOL, AGENT)
        try:
            resolution, _ = self._workspace.load(agent)
        except ItemNotFoundError:
            return None
        return None if resolution.location.space.tier == SYSTEM else agent

    def _parameters(self, act: Act, reference: Reference) -> Mapping[str, Any]:
        if reference.id == AGENT and act.item_id != AGENT:
            return {"directive_id": act.item_id, "inputs": dict(act.params), "async": act.is_async}
        return act.params

    def _final_answer(
        self, envelope: Mapping[str, Any], cancellation: Cancellation
    ) -> Mapping[str, Any]:
        """The answer of the thread that another thread has carried on with, at the end of all."""
        data = envelope.get("data")
        if not isinstance(data, Mapping) or data.get("status") != _CONTINUED:
            return envelope
        successor = data.get("continuation_thread_id")
        if not isinstance(successor, str):
            return envelope
        from ryeos.run.threads.watch import wait_for

        thread = wait_for(self._workspace.threads, successor, 0)
        while not (thread.has_ended or cancellation.is_set):
            thread = wait_for(self._workspace.threads, successor, _LOOK_S)
        answer = thread.answer()
        if not thread.has_ended:
            return {"status": "error", "error": f"{successor}: not waited for", "code": "CANCELLED"}
        return answer if isinstance(answer, dict) else envelope

    def _fetch(self, act: Act) -> Mapping[str, Any]:
        source = act.params.get("source", "")
        resolution, item = self._workspace.load(
            Reference(_kind(act), act.item_id), source=_text("source", source)
        )
        location = resolution.location
        return {
            "status": "success",
            "ref": str(location.ref),
            "item_id": location.ref.id,
            "space": location.space.label,
            "content": item.data.decode("utf-8", "replace"),
        }

    def _search(self, act: Act) -> Mapping[str, Any]:
        from ryeos.search.scope import parse_scope
        from ryeos.search.search import DEFAULT_LIMIT, LOCAL_TIERS, MAX_LIMIT, SearchRequest

        scope = parse_scope(_text("scope", act.params.get("scope", "")))
        source = _text("source", act.params.get("source", ""))
        limit = act.params.get("limit", DEFAULT_LIMIT)
        if not isinstance(limit, int) or not 1 <= limit <= MAX_LIMIT:
            raise VerbArgumentError("limit", f"expected 1 to {MAX_LIMIT}, found {limit!r:.60}")
        kind = scope.kind or (Kind(act.kind) if act.kind else None)
        request = SearchRequest(
            query=_text("query", act.params.get("query", "")),
            kinds=(kind,) if kind else EXECUTABLE_KINDS,
            tiers=frozenset((source,)) if source in LOCAL_TIERS else LOCAL_TIERS,
            prefix=scope.prefix,
            limit=limit,
        )
        found = self._search_items(request)
        hits = [
            {
                "ref": str(hit.document.record.location.ref),
                "item_id": hit.document.record.location.ref.id,
                "score": hit.score,
                "description": hit.document.record.description,
            }
            for hit in found.hits
        ]
        return {"status": "success", "results": hits, "total": found.total}

    def _sign(self, act: Act) -> Mapping[str, Any]:
        from ryeos.trust.sign import Signer
        from ryeos.trust.sign_targets import targets_of_reference

        space = self._workspace.space(_text("source", act.params.get("source", PROJECT)))
        targets = targets_of_reference(Reference(_kind(act), act.item_id), space)
        signer = Signer(self._workspace.signing_key(), self._workspace.verifier)
        (report,) = signer.sign_all(targets, force=act.params.get("force") is True)
        if report.error:
            raise report.error
        return {
            "status": "success",
            "ref": report.target.label,
            "path": str(report.target.path),
            "unchanged": report.unchanged,
        }


def _kind(act: Act) -> Kind:
    return Kind(act.kind) if act.kind else Kind.TOOL


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise VerbArgumentError(name, f"expected text, found {value!r:.60}")
    return value
