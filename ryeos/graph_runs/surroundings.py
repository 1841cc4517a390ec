"""What runs of graphs need of a workspace. See `ryeos.graph.call.Surroundings`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from lillux.digests import canonical_json, sha256_hex
from ryeos.config import ConfigReader, merge_layers
from ryeos.executor.calls import Materials
from ryeos.graph.call import Lineage, Recordings
from ryeos.graph.hook_reading import watching_hooks
from ryeos.graph.model import Hook
from ryeos.graph.run_place import run_place
from ryeos.graph.runner import Calls
from ryeos.graph_runs.calls import Workspace, WorkspaceCalls
from ryeos.graph_runs.ledger import Ledger
from ryeos.graph_runs.recording import Naming, RecordedWorkspace, WorkspaceRecordings
from ryeos.threads.payload import PARENT_VARIABLE

if TYPE_CHECKING:  # for runs that are told to end
    from ryeos.threads.seal import RunnerSeals

HOOKS_PATH = "agent/hook_conditions.yaml"
# What may decide how a tool behaves beside the tool: a part of the key of kept results.
BEHAVIOUR_PATHS = ("agent/agent.yaml", "agent/resilience.yaml", "agent/coordination.yaml")


class GraphWorkspace(Workspace, RecordedWorkspace, Protocol):
    """The public API, as far as runs need it. See `ryeos.app.Rye`."""

    config: ConfigReader

    @property
    def runner_seals(self) -> "RunnerSeals":
        """What shows that something was written by this user's Rye."""


class WorkspaceSurroundings:
    """See `ryeos.graph.call.Surroundings`."""

    def __init__(self, workspace: GraphWorkspace) -> None:
        self._workspace = workspace

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
        """Those of ``agent/hook_conditions.yaml``."""
        layers = self._workspace.config.layers(HOOKS_PATH)
        entries = merge_layers(layers).get("hooks") if layers else None
        return watching_hooks(entries) if isinstance(entries, list) else ()

    def recordings(self, materials: Materials) -> Recordings:
        """In the ``state`` folder of the project, else of user space."""
        naming = Naming(
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
            extra_env=materials.request.extra_env,
            use_lockfile=materials.request.use_lockfile,
        )

    def _parent_of(self, materials: Materials) -> str:
        """The thread that has started this run, ``""`` for none."""
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
