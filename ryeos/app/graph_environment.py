"""The environment of graph runs in a workspace.

See `ryeos.graph.call.GraphEnvironment`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.errors import as_word
from ryeos.app.graph_calls import Search, WorkspaceCalls
from ryeos.graph.call import Lineage, Recordings
from ryeos.graph.hooks import watching_hooks
from ryeos.graph.model import Hook
from ryeos.graph.recording import RunNaming, WorkspaceRecordings
from ryeos.graph.run_ledger import Ledger
from ryeos.graph.run_places import run_place
from ryeos.graph.runner import Calls
from ryeos.items.refs import PROJECT
from ryeos.run.calls import Materials
from ryeos.run.threads.payload import PARENT_VARIABLE
from ryeos.run.workspace import Workspace
from ryeos.trust.config import merge_layers

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
        """The maker of the calls of a run."""
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
