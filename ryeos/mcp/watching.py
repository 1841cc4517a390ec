"""Looking out for changes: looking again every two seconds, while somebody wants to hear of it.

(1) what is wanted now is set by `watch`; the first wish starts the thread, which ends with the last
(2) what is wanted anew is looked at at once: what it is now is no change, but of a task it is told,
    which may have ended before anybody could ask for news of it
(3) every two seconds all that is wanted is looked at, and what differs is told, once
"""

from collections.abc import Callable, Hashable
from threading import Condition, Thread

from ryeos.mcp.events import TaskId, Watch, Watched

LOOK_S = 2.0
LISTS = frozenset({"prompts", "resources"})


class Watching:
    """Tells of changes of lists (by name), of single resources (by URI) and of tasks.

    ``state_of`` gives what differs when one of them was changed; it may take its time.
    """

    def __init__(self, state_of: Callable[[Watched], Hashable], *, look_s: float = LOOK_S) -> None:
        self._state_of, self._look_s = state_of, look_s
        self._condition = Condition()
        self._wanted: frozenset[Watched] = frozenset()
        self._looked_at: frozenset[Watched] = frozenset()
        self._changed: Callable[[Watched], None] = _nobody
        self._is_running = False

    def watch(self, watch: Watch, changed: Callable[[Watched], None]) -> None:
        """Look out for this from now on, and for nothing else (1)."""
        with self._condition:
            self._wanted = (watch.lists & LISTS) | watch.uris | watch.tasks
            self._changed = changed
            self._condition.notify_all()
            if self._wanted and not self._is_running:
                self._is_running = True
                Thread(target=self._look_out, name="rye-watching", daemon=True).start()

    def await_look(self, timeout_s: float) -> None:
        """Return when all that is wanted has been looked at once (2), or this time is over.

        What is read after that and changes later is told.
        """
        with self._condition:
            self._condition.wait_for(lambda: self._wanted <= self._looked_at, timeout_s)

    def has_ended(self, timeout_s: float) -> bool:
        """Whether nothing is looked at any more, now or before this time is over."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._is_running, timeout_s)

    def _look_out(self) -> None:
        seen: dict[Watched, Hashable] = {}
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


def _nobody(_: Watched) -> None:
    """Nobody has asked yet."""
