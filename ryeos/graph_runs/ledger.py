"""Runs of graphs among the threads: who works on one, how it ended, what it may call.

A run that ``rye run --async`` has started is a thread already, and its runner tells how it ended;
any other is entered here, with the process that it runs in.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from lillux.errors import LilluxError
from ryeos.graph.call import Lineage
from ryeos.graph.errors import GrantsLostError, ParentUnknownError, RunNotResumableError
from ryeos.graph.run_place import RunPlace
from ryeos.log import log_warning
from ryeos.threads.documents import write_document
from ryeos.threads.ending import end_rest
from ryeos.threads.errors import ThreadNotFoundError
from ryeos.threads.grants import Grants, read_grants, write_grants
from ryeos.threads.model import Status, Thread
from ryeos.threads.payload import INLINE, LOCAL
from ryeos.threads.place import CANCEL
from ryeos.threads.registry import Registry
from ryeos.threads.seal import RunnerSeals
from ryeos.threads.watching import refreshed

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
        registry: Registry,
        seals: RunnerSeals,
        runs: RunPlace,
        warn: Callable[[str], None] = log_warning,
    ) -> None:
        self._registry, self._seals, self._runs, self._warn = registry, seals, runs, warn

    def lineage_of(self, thread_id: str) -> Lineage:
        """What a run may do that this thread has started. Raises ParentUnknownError.

        A thread that is no run of a graph hands on what it has from its own parent; one that a
        person has started hands on no limits.
        """
        for _ in range(_MAX_ANCESTORS):
            try:
                thread = self._registry.get(thread_id)
                grants = read_grants(self._registry.place, self._seals, thread_id)
            except ThreadNotFoundError:
                raise ParentUnknownError(thread_id, "which is no thread of this project") from None
            except (LilluxError, ValueError) as error:
                raise ParentUnknownError(thread_id, f"but {error}") from None
            if grants is not None:
                depth = None if grants.depth is None else grants.depth - 1
                own = () if grants.own is None else (grants.own,)
                return Lineage(grants=(*grants.lists, *own), depth=depth)
            if (self._runs.runs / thread_id).exists():  # the run of a graph, which had some
                raise ParentUnknownError(thread_id, "but what it may call is not there any more")
            if not thread.parent_id:
                return Lineage()
            thread_id = thread.parent_id
        raise ParentUnknownError(thread_id, "which has too many threads above it")

    def given_to(self, run_id: str) -> Lineage:
        """What whoever started a run has left it, the graph's own list aside.

        Raises GrantsLostError.
        """
        try:
            grants = read_grants(self._registry.place, self._seals, run_id)
        except (LilluxError, ValueError) as error:
            raise GrantsLostError(run_id, str(error)) from None
        if grants is None:
            raise GrantsLostError(run_id, "what it may call is not there any more")
        return Lineage(grants=grants.lists, depth=grants.depth)

    def parent_of(self, thread_id: str) -> str:
        """The thread that has started this one, ``""`` for none or an unknown one."""
        try:
            return self._registry.get(thread_id).parent_id or ""
        except ThreadNotFoundError:
            return ""

    def is_alive(self, run_id: str) -> bool:
        """Whether a process works on the run."""
        try:
            thread = refreshed(self._registry, self._registry.get(run_id))
        except ThreadNotFoundError:
            return False
        is_own = thread.pid == os.getpid()
        return thread.status == Status.RUNNING and (not is_own or run_id in _active)

    def begin(self, run_id: str, graph_id: str, parent_id: str, lineage: Lineage) -> bool:
        """Enter a run as one of this process; False where its runner sees to that.

        Raises RunNotResumableError where another process was quicker, RegistryError and its kin.
        """
        from lillux.background import start_token

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
            raise RunNotResumableError(run_id, f"it is {known.status}, or another process has it")
        with suppress(FileNotFoundError):  # that ended it last time
            self._registry.place.file(run_id, CANCEL).unlink()
        end_rest(self._registry, known, self._seals)  # what it did last is about to be done again
        return True

    def is_ending_asked(self, run_id: str) -> bool:
        """Whether somebody has asked for the end of a run, see `ryeos.threads.ending`."""
        return self._registry.place.file(run_id, CANCEL).exists()

    def leave(self, run_id: str) -> None:
        """Take note that this process does not work on the run any more."""
        _active.discard(run_id)

    def end(self, run_id: str, status: str, answer: Mapping[str, object]) -> None:
        """Tell how a run of this process has ended. Raises RegistryError and its kin."""
        import json

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


__all__ = ["Ledger"]
