"""The calls of a graph run: execute, load, search and sign items. A seam of `ryeos.graph`.

What a call gets of its run: the run's id as its parent, every list of capabilities, one level less.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.digests import canonical_json, sha256_hex
from lillux.errors import LilluxError, as_word
from lillux.values import replace
from ryeos.graph.call import Lineage, Recordings
from ryeos.graph.commands import Act
from ryeos.graph.model import ALWAYS_ALLOWED, Hook, unlisted
from ryeos.graph.nodes import watching_hooks
from ryeos.graph.recording import Ledger, RunNaming, WorkspaceRecordings
from ryeos.graph.run_log import run_place
from ryeos.graph.runner import Calls
from ryeos.items.errors import (
    ItemNotFoundError,
    RyeError,
    UnsupportedError,
    VerbArgumentError,
    error_envelope,
)
from ryeos.items.refs import EXECUTABLE_KINDS, PROJECT, SYSTEM, USER, Kind, Reference
from ryeos.items.rights import Rights
from ryeos.run.calls import Materials
from ryeos.run.model import ExecutionRequest, ThreadRequest
from ryeos.run.threads import PARENT_VARIABLE
from ryeos.run.workspace import Workspace
from ryeos.trust.config import merge_layers

if TYPE_CHECKING:
    from ryeos.search.search import SearchRequest, SearchResult


# --- calls ----------------------------------------------------------------------------------------

AGENT = "rye/agent/threads/thread_directive"
HERE = (None, "", "local")
"""What a node may say for a call that is made by this program."""

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
        from ryeos.remote.run import RemoteOptions, execute_on

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

    # ------------------------------------------------------------------ execute

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
        from ryeos.run.thread_control import wait_for

        thread = wait_for(self._workspace.threads, successor, 0)
        while not (thread.has_ended or cancellation.is_set):
            thread = wait_for(self._workspace.threads, successor, _LOOK_S)
        answer = thread.answer()
        if not thread.has_ended:
            return {"status": "error", "error": f"{successor}: not waited for", "code": "CANCELLED"}
        return answer if isinstance(answer, dict) else envelope

    # ------------------------------------------------------------------ fetch, sign

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
        from ryeos.search.search import (
            DEFAULT_LIMIT,
            LOCAL_TIERS,
            MAX_LIMIT,
            SearchRequest,
            parse_scope,
        )

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
        from ryeos.trust.sign import Signer, targets_of_reference

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


# --- environment ----------------------------------------------------------------------------------
# What runs of graphs need of a workspace. See `ryeos.graph.call.GraphEnvironment`.

HOOKS_PATH = "agent/hook_conditions.yaml"
# What may decide how a tool behaves beside the tool: a part of the key of kept results.
BEHAVIOUR_PATHS = ("agent/agent.yaml", "agent/resilience.yaml", "agent/coordination.yaml")


class WorkspaceEnvironment:
    """See `ryeos.graph.call.GraphEnvironment`."""

    def __init__(self, workspace: Workspace, search: "Search") -> None:
        self._workspace, self._search = workspace, search

    def lineage(self, materials: Materials) -> Lineage:
        """Of the graph that calls this one, else of the thread that has started this process."""
        request = materials.request
        if request.grants:
            return Lineage(grants=request.grants, depth=request.depth)
        parent_id = self._parent_of(materials)
        if not parent_id:
            return Lineage(depth=request.depth)
        return self._ledger().lineage_of(parent_id)

    def given_to(self, run_id: str) -> Lineage:
        """Of an earlier run: what its starter left it."""
        return self._ledger().given_to(run_id)

    def hooks(self) -> Sequence[Hook]:
        """Those of ``agent/hook_conditions.yaml``.

        They decide what is run, and with which parameters: those of a project need a signature.
        """
        found = self._workspace.config.layers(HOOKS_PATH)
        layers = [layer for layer in found if layer.is_signed or layer.label != PROJECT]
        for layer in found:
            if layer not in layers:
                command = f"rye sign {as_word(layer.path)}"
                self._workspace.warn(f"hooks are not called, as they are not signed: {command}")
        entries = merge_layers(layers).get("hooks") if layers else None
        return watching_hooks(entries) if isinstance(entries, list) else ()

    def recordings(self, materials: Materials) -> Recordings:
        """In the ``state`` folder of the project, else of user space."""
        naming = RunNaming(
            chosen_id=materials.request.run_id,
            parent_id=self._parent_of(materials),
            is_inner=bool(materials.request.grants),
        )
        return WorkspaceRecordings(self._workspace, self._ledger(), naming, self._behaviour)

    def calls(self, run_id: str, lineage: Lineage, materials: Materials) -> Calls:
        """What makes the calls of a run."""
        return WorkspaceCalls(
            self._workspace,
            run_id,
            lineage,
            search=self._search,
            extra_env=materials.request.extra_env,
            use_lockfile=materials.request.use_lockfile,
            callers=tuple(filter(None, [materials.rights.rights])),
            known_texts=materials.request.known_texts,
        )

    def _parent_of(self, materials: Materials) -> str:
        """The thread that has started this run, ``""`` if absent."""
        request, env = materials.request, self._workspace.context.process_env
        parent_id = request.extra_env.get(PARENT_VARIABLE) or env.get(PARENT_VARIABLE, "")
        if parent_id and parent_id == request.run_id:  # its own runner
            return self._ledger().parent_of(parent_id)
        return parent_id

    def _ledger(self) -> Ledger:
        workspace = self._workspace
        place = run_place(workspace.context.spaces)
        return Ledger(workspace.threads, workspace.runner_seals, place, workspace.warn)

    def _behaviour(self) -> str:
        read: Mapping[str, Any] = {
            path: merge_layers(layers)
            for path in (*BEHAVIOUR_PATHS, HOOKS_PATH)
            if (layers := self._workspace.config.layers(path))
        }
        return sha256_hex(canonical_json(dict(read)))
