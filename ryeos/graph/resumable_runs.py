"""Runs of graphs that stopped before their end, and can go on."""

from collections.abc import Iterator
from typing import Any

from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos.graph.loaded_runs import key_lookup, load_run
from ryeos.graph.run_objects import COMPLETED
from ryeos.graph.run_places import TRANSCRIPT, RunPlace, run_place
from ryeos.run.threads.registry import ThreadRegistry
from ryeos.run.threads.thread import Status, Thread
from ryeos.run.threads.watch import refreshed
from ryeos.run.workspace import Workspace

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
