"""Changes of tasks, lists and resources, while a client wants to learn of them.

(1) what is wanted now is set by `watch`; the first wish starts the thread, the last ends it
(2) what is wanted anew is looked at at once: what it is now is no change, for a task it is sent,
    which may have ended before a client could ask for news of it
(3) every two seconds all that is wanted is looked at, and what differs is reported, once
"""

import threading
from collections.abc import Callable, Hashable

from lillux.errors import LilluxError
from ryeos.app.workspace import Rye
from ryeos.items.refs import ItemRef, Kind
from ryeos.mcp.listing import LISTED_TIERS
from ryeos.mcp.outputs import output_path
from ryeos.mcp.revisions import TaskId, Watch, WatchedName
from ryeos.mcp.tasks import thread_of_task
from ryeos.mcp.uris import HelpTopic, ProposalName, StoredOutput, parse_uri
from ryeos.run.threads.watch import wait_for
from ryeos.search.search import LOCAL_TIERS

LOOK_S = 2.0
LISTS = frozenset({"prompts", "resources"})


class ChangeWatcher:
    """Reports changes of lists (by name), of single resources (by URI) and of tasks.

    ``state_of`` gives what differs when one of them was changed; it may take its time.
    """

    def __init__(
        self, state_of: Callable[[WatchedName], Hashable], *, look_s: float = LOOK_S
    ) -> None:
        self._state_of, self._look_s = state_of, look_s
        self._condition = threading.Condition()
        self._wanted: frozenset[WatchedName] = frozenset()
        self._looked_at: frozenset[WatchedName] = frozenset()
        self._changed: Callable[[WatchedName], None] = _ignore_change
        self._is_running = False

    def watch(self, watch: Watch, changed: Callable[[WatchedName], None]) -> None:
        """Look out for this from now on, and for nothing else (1)."""
        with self._condition:
            self._wanted = (watch.lists & LISTS) | watch.uris | watch.tasks
            self._changed = changed
            self._condition.notify_all()
            if self._wanted and not self._is_running:
                self._is_running = True
                threading.Thread(target=self._look_out, name="rye-watching", daemon=True).start()

    def await_look(self, timeout_s: float) -> None:
        """Return when all that is wanted has been looked at once (2), or this time is over.

        What is read after that and changes later is reported.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._wanted <= self._looked_at, timeout_s)

    def has_ended(self, timeout_s: float) -> bool:
        """True if nothing is looked at any more, now or before this time is over."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._is_running, timeout_s)

    def _look_out(self) -> None:
        seen: dict[WatchedName, Hashable] = {}
        while True:
            with self._condition:
                wanted, changed = self._wanted, self._changed
                if not wanted:
                    self._is_running, self._looked_at = False, wanted
                    self._condition.notify_all()
                    return
            found = {name: self._state_of(name) for name in wanted}
            for name in sorted(found, key=str):
                before = seen.get(name) if isinstance(name, TaskId) else seen.get(name, found[name])
                if before != found[name]:  # (3)
                    changed(name)
            seen = found  # (2)
            with self._condition:
                self._looked_at = wanted
                self._condition.notify_all()
                if self._wanted == wanted:
                    self._condition.wait(self._look_s)


def _ignore_change(_: WatchedName) -> None:
    """Begin without subscribers."""


_LISTS = {
    "prompts": (Kind.DIRECTIVE, LOCAL_TIERS),
    "resources": (Kind.KNOWLEDGE, LISTED_TIERS),
}


def state_of(rye: Callable[[], Rye], name: WatchedName) -> Hashable:
    """The state of a list, by its name, of a resource, by its URI, or of a task.

    None for what is not there.

    Raises nothing: what cannot be looked at is not there.
    """
    try:
        if isinstance(name, TaskId):
            return _task_state(rye(), name.id)
        return _list_state(rye(), name) if name in _LISTS else _resource_state(rye(), name)
    except (LilluxError, OSError):
        return None


def _list_state(rye: Rye, name: str) -> Hashable:
    kind, tiers = _LISTS[name]
    return rye.catalog.states((kind,), tiers)


def _task_state(rye: Rye, task_id: str) -> Hashable:
    now = wait_for(rye.threads, thread_of_task(rye, task_id).thread_id, 0)
    return now.thread_id, now.status, now.updated_at


def _resource_state(rye: Rye, uri: str) -> Hashable:
    match parse_uri(uri):
        case ItemRef() as ref:
            found = rye.resolver.find(ref)
            path = found.location.path if found else None
        case StoredOutput(name=output):
            path = output_path(rye.context, output)
        case ProposalName(id=proposal_id):
            from ryeos.app.proposals import Proposals

            return Proposals(rye.context.spaces.user).state(proposal_id)
        case HelpTopic() | None:
            return None
    if path is None:
        return None
    mark = path.stat()
    return str(path), mark.st_mtime_ns, mark.st_size, mark.st_ino
