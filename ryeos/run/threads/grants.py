"""Grants: what the run of a graph may call, recorded for the processes that it starts.

Those know the run by ``RYE_PARENT_THREAD_ID``. The file lies in a project, and a project is data
of other people: so it has a code that only this user can make. Page: ``docs/running.md``.
"""

import json
from collections.abc import Callable
from typing import Any

from lillux.errors import FileSystemError, LilluxError
from lillux.files import read_bytes, write_atomic
from lillux.values import dataclass
from ryeos.items.context import log_warning
from ryeos.run.threads.place import GRANTS, ThreadsPlace
from ryeos.run.threads.seals import RunnerSeals

_MAX_BYTES = 1024 * 1024
_GRANTS_PURPOSE = "rye grants 2"


@dataclass(frozen=True, slots=True)
class Grants:
    """Lists that must each allow a call, and how many further graphs there may be below.

    lists  of the run's starter; they bind it also when it is resumed
    own    the graph's list, as it was; None where it has none
    """

    lists: tuple[tuple[str, ...], ...]
    own: tuple[str, ...] | None = None
    depth: int | None = None


def write_grants(
    place: ThreadsPlace,
    seals: RunnerSeals,
    thread_id: str,
    grants: Grants,
    warn: Callable[[str], None] = log_warning,
) -> None:
    """Record what a run may call. Raises FileSystemError, RyeError `REGISTRY_INVALID`.

    Where this user's code cannot be made, no reader will believe the file: that is a warning.
    """
    lists = [list(one) for one in grants.lists]
    own = None if grants.own is None else list(grants.own)
    try:
        code = seals.code(_GRANTS_PURPOSE, thread_id, lists, own, grants.depth)
    except FileSystemError as error:
        warn(f"graphs that processes of this run start will be refused: {error}")
        code = ""
    document = {"capabilities": lists, "graph": own, "depth": grants.depth, "seal": code}
    place.make_thread_folder(thread_id)
    data = json.dumps(document, ensure_ascii=True).encode() + b"\n"
    write_atomic(place.file(thread_id, GRANTS), data, mode=0o600, within=place.root)


def read_grants(place: ThreadsPlace, seals: RunnerSeals, thread_id: str) -> Grants | None:
    """The grants of this user's run; None where nothing was recorded.

    Raises ValueError with the reason for a file that this user's Rye has not written.
    """
    path = place.file(thread_id, GRANTS)
    try:
        document: Any = json.loads(read_bytes(path, _MAX_BYTES))
        lists, own, depth, code = (
            document[name] for name in ("capabilities", "graph", "depth", "seal")
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RecursionError, LilluxError):
        raise ValueError(f"{path} is not what rye writes") from None
    if not isinstance(code, str) or not seals.is_code(
        code, _GRANTS_PURPOSE, thread_id, lists, own, depth
    ):
        raise ValueError(f"{path} was not written by you")
    own = None if own is None else tuple(own)
    return Grants(tuple(tuple(one) for one in lists), own, depth)


def is_run_of_this_user(place: ThreadsPlace, seals: RunnerSeals, thread_id: str) -> bool:
    """True if the thread is a run of a graph that this user's Rye has begun."""
    try:
        return read_grants(place, seals, thread_id) is not None
    except (ValueError, LilluxError):
        return False
