"""Looking out for changes: looking again every two seconds, while somebody wants to hear of it.

(1) what is wanted now is set by `watch`; the first wish starts the thread, which ends with the last
(2) what is wanted anew is looked at once: what it is now is no change
(3) every two seconds all that is wanted is looked at, and what differs is told, once
"""

from collections.abc import Callable, Hashable
from threading import Condition, Thread

from lillux.errors import LilluxError
from ryeos.app import Rye
from ryeos.items import ItemRef, Kind
from ryeos.mcp.outputs import output_path
from ryeos.mcp.resources import LISTED_TIERS
from ryeos.mcp.session import Watch
from ryeos.mcp.uris import HelpTopic, Output, parse_uri
from ryeos.search.requests import LOCAL_TIERS

LOOK_S = 2.0
_LISTS = {
    "prompts": (Kind.DIRECTIVE, LOCAL_TIERS),
    "resources": (Kind.KNOWLEDGE, LISTED_TIERS),
}


class Watching:
    """Tells of changes of lists (by name) and of single resources (by URI)."""

    def __init__(self, rye: Callable[[], Rye], *, look_s: float = LOOK_S) -> None:
        self._rye, self._look_s = rye, look_s
        self._condition = Condition()
        self._wanted: frozenset[str] = frozenset()
        self._changed: Callable[[str], None] = _nobody
        self._is_running = False

    def watch(self, watch: Watch, changed: Callable[[str], None]) -> None:
        """Look out for this from now on, and for nothing else (1)."""
        with self._condition:
            self._wanted = (watch.lists & _LISTS.keys()) | watch.uris
            self._changed = changed
            self._condition.notify_all()
            if self._wanted and not self._is_running:
                self._is_running = True
                Thread(target=self._look_out, name="rye-watching", daemon=True).start()

    def has_ended(self, timeout_s: float) -> bool:
        """Whether nothing is looked at any more, now or before this time is over."""
        with self._condition:
            return self._condition.wait_for(lambda: not self._is_running, timeout_s)

    def _look_out(self) -> None:
        seen: dict[str, Hashable] = {}
        while True:
            with self._condition:
                wanted, changed = self._wanted, self._changed
                if not wanted:
                    self._is_running = False
                    self._condition.notify_all()
                    return
            found = {name: state_of(self._rye(), name) for name in wanted}
            for name in sorted(found):
                if name in seen and seen[name] != found[name]:  # (3)
                    changed(name)
            seen = found  # (2)
            with self._condition:
                if self._wanted == wanted:
                    self._condition.wait(self._look_s)


def state_of(rye: Rye, name: str) -> Hashable:
    """What differs when a list or a resource was changed; None for what is not there."""
    try:
        return _list_state(rye, name) if name in _LISTS else _resource_state(rye, name)
    except (LilluxError, OSError):
        return None


def _list_state(rye: Rye, name: str) -> Hashable:
    """The catalog numbers a file anew whenever it holds something else."""
    kind, tiers = _LISTS[name]
    snapshot = rye.catalog.snapshot((kind,), tiers)
    shown = {d.number for d in snapshot.pool.documents.values() if not d.shadowed_by}
    return frozenset(shown), frozenset(str(one.path) for one in snapshot.skipped)


def _resource_state(rye: Rye, uri: str) -> Hashable:
    match parse_uri(uri):
        case ItemRef() as ref:
            found = rye.resolver.find(ref)
            path = found.location.path if found else None
        case Output(output):
            path = output_path(rye.context, output)
        case HelpTopic() | None:
            return None
    if path is None:
        return None
    mark = path.stat()
    return str(path), mark.st_mtime_ns, mark.st_size, mark.st_ino


def _nobody(_: str) -> None:
    """Nobody has asked yet."""
