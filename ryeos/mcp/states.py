"""What differs when a list or a resource was changed."""

from collections.abc import Callable, Hashable

from lillux.errors import LilluxError
from ryeos.app import Rye
from ryeos.items import ItemRef, Kind
from ryeos.mcp.events import TaskId, Watched
from ryeos.mcp.offered import LISTED_TIERS
from ryeos.mcp.outputs import output_path
from ryeos.mcp.tasks import thread_of_task
from ryeos.mcp.uris import HelpTopic, Output, parse_uri
from ryeos.search.requests import LOCAL_TIERS
from ryeos.threads.watching import wait_for

_LISTS = {
    "prompts": (Kind.DIRECTIVE, LOCAL_TIERS),
    "resources": (Kind.KNOWLEDGE, LISTED_TIERS),
}


def state_of(rye: Callable[[], Rye], name: Watched) -> Hashable:
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
    """The catalog numbers a file anew whenever it holds something else."""
    kind, tiers = _LISTS[name]
    snapshot = rye.catalog.snapshot((kind,), tiers)
    shown = {d.number for d in snapshot.pool.documents.values() if not d.shadowed_by}
    return frozenset(shown), frozenset(str(one.path) for one in snapshot.skipped)


def _task_state(rye: Rye, task_id: str) -> Hashable:
    now = wait_for(rye.threads, thread_of_task(rye, task_id).thread_id, 0)
    return now.thread_id, now.status, now.updated_at


def _resource_state(rye: Rye, uri: str) -> Hashable:
    match parse_uri(uri):
        case ItemRef() as ref:
            found = rye.resolver.find(ref)
            path = found.location.path if found else None
        case Output(name=output):
            path = output_path(rye.context, output)
        case HelpTopic() | None:
            return None
    if path is None:
        return None
    mark = path.stat()
    return str(path), mark.st_mtime_ns, mark.st_size, mark.st_ino
