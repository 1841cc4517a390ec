"""The ledger of runs: which threads are runs of graphs, and how they are.

Runs of graphs among the threads: who works on one, how it ended, what it may call.

A run that ``rye run --async`` has started is a thread already, and its runner records its end;
any other is entered here, with the process that it runs in.
"""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from lillux.errors import LilluxError
from lillux.files import remove_file
from ryeos.graph.call import Lineage
from ryeos.graph.errors import not_resumable_error
from ryeos.graph.run_places import RunPlace
from ryeos.items.context import log_warning
from ryeos.items.errors import RyeError
from ryeos.run.threads.end import end_rest
from ryeos.run.threads.errors import ThreadNotFoundError
from ryeos.run.threads.grants import Grants, read_grants, write_grants
from ryeos.run.threads.payload import INLINE, LOCAL
from ryeos.run.threads.place import CANCEL
from ryeos.run.threads.registry import ThreadRegistry, write_document
from ryeos.run.threads.seals import RunnerSeals
from ryeos.run.threads.thread import Status, Thread
from ryeos.run.threads.watch import refreshed

_STATUSES = {
    "completed": Status.COMPLETED,
    "stepped": Status.COMPLETED,
    "completed_with_errors": Status.COMPLETED_WITH_ERRORS,
    "cancelled": Status.CANCELLED,
}

_MAX_ANCESTORS = 100
# Runs that this process works on: the registry knows the process, and not which of its calls.
_active: set[str] = set()


class Ledger:
    """The threads of a workspace, as runs of graphs see them."""

    def __init__(
        self,
        registry: ThreadRegistry,
        seals: RunnerSeals,
        runs: RunPlace,
        warn: Callable[[str], None] = log_warning,
    ) -> None:
        self._registry, self._seals, self._runs, self._warn = registry, seals, runs, warn

    def lineage_of(self, thread_id: str) -> Lineage:
        """The lineage of a run that this thread has started. Raises RyeError `PERMISSION_DENIED`.

        A thread that is no run of a graph hands on what it has from its own parent; one that a
        person has started hands on no limits.
        """
        for _ in range(_MAX_ANCESTORS):
            try:
                thread = self._registry.get(thread_id)
                grants = read_grants(self._registry.place, self._seals, thread_id)
            except ThreadNotFoundError:
                raise _parent_unknown(thread_id, "which is no thread of this project") from None
            except (LilluxError, ValueError) as error:
                raise _parent_unknown(thread_id, f"but {error}") from None
            if grants is not None:
                depth = None if grants.depth is None else grants.depth - 1
                own = () if grants.own is None else (grants.own,)
                return Lineage(grants=(*grants.lists, *own), depth=depth)
            if (self._runs.runs / thread_id).exists():  # the run of a graph, which had some
                raise _parent_unknown(thread_id, "but the list of what it may call is missing")
            if not thread.parent_id:
                return Lineage()
            thread_id = thread.parent_id
        raise _parent_unknown(thread_id, "which has too many threads above it")

    def given_to(self, run_id: str) -> Lineage:
        """The caller's lists for a run, the graph's own list aside.

        Raises RyeError `PERMISSION_DENIED`.
        """
        try:
            grants = read_grants(self._registry.place, self._seals, run_id)
        except (LilluxError, ValueError) as error:
            raise _grants_lost(run_id, str(error)) from None
        if grants is None:
            raise _grants_lost(run_id, "the list of what it may call is missing")
        return Lineage(grants=grants.lists, depth=grants.depth)

    def parent_of(self, thread_id: str) -> str:
        """The thread that has started this one, ``""`` if absent or unknown."""
        try:
            return self._registry.get(thread_id).parent_id or ""
        except ThreadNotFoundError:
            return ""

    def is_alive(self, run_id: str) -> bool:
        """True if a process works on the run."""
        try:
            thread = refreshed(self._registry, self._registry.get(run_id))
        except ThreadNotFoundError:
            return False
        is_own = thread.pid == os.getpid()
        return thread.status == Status.RUNNING and (not is_own or run_id in _active)

    def begin(self, run_id: str, graph_id: str, parent_id: str, lineage: Lineage) -> bool:
        """Enter a run as one of this process; False where its runner sees to that.

        Raises RyeError `CONFLICT` where another process was quicker, and as `ThreadRegistry`.
        """
        from lillux.process.states import start_token

        pid = os.getpid()
        token = start_token(pid)
        is_ours = self._enter(run_id, graph_id, parent_id, pid, token)
        grants = Grants(lineage.grants, lineage.own, lineage.depth)
        try:
            write_grants(self._registry.place, self._seals, run_id, grants, self._warn)
        except LilluxError as error:
            if is_ours:
                self._registry.finish(run_id, Status.ERROR, error=str(error))
            raise
        _active.add(run_id)
        return is_ours

    def _enter(self, run_id: str, graph_id: str, parent_id: str, pid: int, token: str) -> bool:
        try:
            known = self._registry.get(run_id)
        except ThreadNotFoundError:
            self._registry.register(_new_thread(run_id, graph_id, parent_id))
            self._registry.mark_running(run_id, pid, token)
            return True
        if known.status == Status.RUNNING and known.pid == pid and run_id not in _active:
            return False
        if not self._registry.reopen(run_id, pid, token):
            raise not_resumable_error(run_id, f"it is {known.status}, or another process has it")
        with suppress(FileNotFoundError):  # that ended it last time
            place = self._registry.place
            remove_file(place.file(run_id, CANCEL), within=place.root)
        end_rest(self._registry, known, self._seals)  # what it did last is about to be done again
        return True

    def is_end_requested(self, run_id: str) -> bool:
        """True if a user has asked for the end of a run, see `ryeos.run.threads.end`."""
        return self._registry.place.file(run_id, CANCEL).exists()

    def leave(self, run_id: str) -> None:
        """Record that this process does not work on the run any more."""
        _active.discard(run_id)

    def end(self, run_id: str, status: str, answer: Mapping[str, object]) -> None:
        """Record how a run of this process has ended. Raises as `ThreadRegistry`."""
        error = answer.get("error")
        self._registry.finish(
            run_id,
            _STATUSES.get(status, Status.ERROR),
            result=json.dumps(answer, ensure_ascii=True, default=str),
            error=str(error) if error else None,
        )
        write_document(self._registry, run_id)


def _new_thread(run_id: str, graph_id: str, parent_id: str) -> Thread:
    return Thread(
        thread_id=run_id,
        directive=graph_id,
        parent_id=parent_id or None,
        tool_id=graph_id,
        item_id=f"tool:{graph_id}",
        kind="tool",
        target=LOCAL,
        thread_mode=INLINE,
        chain_root_id=run_id,
    )


def _parent_unknown(parent_id: str, problem: str) -> RyeError:
    """The error of a thread that a run is said to be started by, and that is not known here."""
    return RyeError(
        f"Permission denied: RYE_PARENT_THREAD_ID names {parent_id[:200]!r}, {problem}",
        code="PERMISSION_DENIED",
        hint="what a run starts may do no more than the run; unset the variable to start over",
    )


def _grants_lost(run_id: str, problem: str) -> RyeError:
    """The error of a run without a whole record of what it may call."""
    return RyeError(
        f"Permission denied: cannot resume {run_id}: {problem}",
        code="PERMISSION_DENIED",
        hint="run the graph again for a new run",
    )
