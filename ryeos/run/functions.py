"""Warm workers for Python functions: one per interpreter and project, kept while in use.

(1) the worker of the interpreter, the project and what an interpreter reads at its start
(2) in it, the process that has imported this tool, with these files around it and this environment
(3) in that, a process for the call

A tool is imported again when anything of (2) has changed, or the file of a module it has imported.
"""

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic
from typing import Any

from lillux.cancellation import Cancellation
from lillux.process import ProcessManager
from lillux.process.model import CapturedStream, Outcome, SpawnError
from lillux.values import replace
from ryeos.run.function_worker import (
    LEAST_S,
    Function,
    FunctionWorker,
    LoadedTool,
    LoadingTool,
    LostError,
)
from ryeos.run.model import Invocation

MAX_WORKERS = 8
MAX_TOOLS = 32
ATTEMPTS = 3


class _Slot:
    """The place of one imported tool.

    lock     held while it is imported, so that it is imported once
    users    how many calls are under way
    is_cold  it cannot be forked: its import starts threads, or it leaves behind what could act
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.lock = Lock()
        self.tool: LoadedTool | None = None
        self.users = 0
        self.is_cold = False

    def close(self) -> None:
        """Let go of the process, if there is one."""
        if self.tool:
            self.tool.close()

    def drops_tool(self) -> bool:
        """Let go of a process that may not be kept; whether there was one. With the lock held."""
        if not (self.is_cold and self.tool):
            return False
        self.tool.close()
        self.tool = None
        return True

    def forget(self, tool: LoadedTool) -> None:
        """Let go of a process, unless another has taken its place."""
        with self.lock:
            if self.tool is tool:
                self.tool = None
        tool.close()


class _Limits:
    """Bounds of an execution that may take an import and a call, or several."""

    def __init__(
        self,
        invocation: Invocation,
        cancellation: Cancellation | None,
        on_stderr: Callable[[bytes], None] | None,
    ) -> None:
        self._invocation, self._cancellation, self._on_stderr = invocation, cancellation, on_stderr
        timeout_s = invocation.timeout_s
        self._deadline = None if timeout_s is None else monotonic() + timeout_s

    def supervise_options(self) -> dict[str, Any]:
        """The arguments of `ProcessManager.supervise`, from now on."""
        deadline = self._deadline
        return {
            "timeout_s": None if deadline is None else max(deadline - monotonic(), LEAST_S),
            "max_output_bytes": self._invocation.max_output_bytes,
            "cancellation": self._cancellation,
            "on_stderr": self._on_stderr,
        }


class FunctionHost:
    """Makes calls in warm workers. Thread-safe. `close` ends them, as the end of this object does.

    Every worker also ends by itself when the process that has started it is no more.
    """

    def __init__(self, manager: ProcessManager | None = None) -> None:
        self._manager = manager or ProcessManager()
        self._lock = Lock()
        self._workers: OrderedDict[tuple[object, ...], FunctionWorker] = OrderedDict()
        self._slots: OrderedDict[object, _Slot] = OrderedDict()
        self._finalizer = weakref.finalize(self, _close_all, self._slots, self._workers)

    def call(
        self,
        function: Function,
        invocation: Invocation,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome | None:
        """The outcome of one call; None when the function cannot be called in a warm worker.

        Standard output of the outcome is the result's JSON; what the tool printed is on standard
        error. Raises SpawnError when the system has no process left for it, or lost it.
        """
        limits = _Limits(invocation, cancellation, on_stderr)
        with self._slot(function) as slot:
            for _ in range(ATTEMPTS):
                with slot.lock:
                    imported = self._import(slot, invocation, limits)
                    tool = slot.tool
                if tool is None:
                    if slot.is_cold or imported is not None:
                        return imported
                    continue
                outcome = self._call(slot, tool, invocation, limits)
                if outcome:
                    return _with_output_of(imported, outcome)
                slot.forget(tool)
        return None

    def close(self) -> None:
        """End all workers."""
        self._finalizer()

    def _import(self, slot: _Slot, invocation: Invocation, limits: _Limits) -> Outcome | None:
        """Import the tool, unless that is done; what came of it, None when there was no import."""
        if slot.tool or slot.is_cold:
            return None
        function = slot.function
        message = {
            "tool": function.tool_path,
            "project_path": function.project_path,
            "cwd": str(invocation.cwd),
            "env": dict(function.env),
        }
        worker = self._worker(function)
        try:
            with self._work(slot, worker):
                loading = worker.load(message, function.files)
                imported = self._imported(slot, worker, loading, invocation, limits)
        except LostError:
            self._drop(worker)
            return None
        return None if slot.drops_tool() else imported

    @contextmanager
    def _work(self, slot: _Slot, worker: FunctionWorker, pid: int = 0) -> Iterator[None]:
        """A piece of work of a worker, which ends with it if something is left that could act.

        Then the slot's tool gets a process of its own for each call. Raises LostError.
        """
        worker.begin(pid)
        try:
            yield
        finally:
            if not worker.end():
                slot.is_cold = True
                self._drop(worker)

    def _imported(
        self,
        slot: _Slot,
        worker: FunctionWorker,
        loading: LoadingTool,
        invocation: Invocation,
        limits: _Limits,
    ) -> Outcome | None:
        """The outcome of an import, in the slot if it is a tool to be called."""
        with worker.hearers.heard_by(invocation.attempts.append):
            outcome = self._manager.supervise(lambda: loading, **limits.supervise_options())
        match loading.answer:
            case "ready":
                slot.tool = loading.tool()
            case "threads":
                loading.tool().close()
                slot.is_cold = True
                return None
            case "" if not outcome.timed_out and not outcome.cancelled:
                self._drop(worker)
                return None
            case _:
                pass
        return outcome

    def _call(
        self, slot: _Slot, tool: LoadedTool, invocation: Invocation, limits: _Limits
    ) -> Outcome | None:
        """The outcome of a call; None when it was not begun and the tool must be imported again."""
        with tool.heard_by(invocation.attempts.append), tool.call_folder() as folder:
            try:
                with self._work(slot, tool.worker, tool.pid):
                    running = tool.call(invocation.cwd, folder)
                    left = limits.supervise_options()
                    outcome = self._manager.supervise(
                        lambda: running, stdin=invocation.stdin, **left
                    )
            except LostError:
                return None
        if slot.is_cold:
            slot.forget(tool)
        word, _, reason = running.answer.partition(" ")
        if word == "exit" or outcome.timed_out or outcome.cancelled:
            return outcome
        if word == "stale":
            return None
        reason = reason.lower() or "its worker ended before it did"
        raise SpawnError(invocation.argv[0], reason, hint="run it again")

    @contextmanager
    def _slot(self, function: Function) -> Iterator[_Slot]:
        """The place of a function's tool, kept for as long as it is used."""
        key = function.tool_key
        with self._lock:
            slot = self._slots.setdefault(key, _Slot(function))
            self._slots.move_to_end(key)
            slot.users += 1
            unneeded = self._unneeded(function)
        for unused in unneeded:
            unused.close()
        try:
            yield slot
        finally:
            with self._lock:
                slot.users -= 1

    def _unneeded(self, function: Function) -> list[_Slot]:
        """Taken out: imports of what this tool was before, and those not used for longest."""
        idle = [(key, slot) for key, slot in self._slots.items() if not slot.users]
        surplus = len(self._slots) - MAX_TOOLS
        unneeded = [
            key
            for position, (key, slot) in enumerate(idle)
            if position < surplus or _is_older(slot.function, function)
        ]
        return [self._slots.pop(key) for key in unneeded]

    def _worker(self, function: Function) -> FunctionWorker:
        """The worker of a function, started now if there is none. Raises as starting one does."""
        key = function.worker_key
        with self._lock:
            worker = self._workers.get(key)
            if worker is None:
                worker = FunctionWorker(function)
                self._workers[key] = worker
            self._workers.move_to_end(key)
            surplus = self._surplus(function)
        for unused in surplus:
            unused.close()
        return worker

    def _surplus(self, function: Function) -> list[FunctionWorker]:
        """Taken out: workers without a tool, those of older rules and those not used for longest.

        ``function`` is the one that a worker was just found for.
        """
        used = {slot.function.worker_key for slot in self._slots.values()}
        unused = [key for key in self._workers if key not in used]
        older = [key for key in unused if key[0] == function.worker_place]
        others = [key for key in unused if key not in older]
        count = max(0, len(self._workers) - len(older) - MAX_WORKERS)
        return [self._workers.pop(key) for key in (*older, *others[:count])]

    def _drop(self, worker: FunctionWorker) -> None:
        """Take out a worker that has ended."""
        with self._lock:
            for key, known in list(self._workers.items()):
                if known is worker:
                    del self._workers[key]
        worker.close()


def _is_older(known: Function, function: Function) -> bool:
    """True if this is what the same tool was before its files, or its interpreter, were changed."""
    if known.tool_path != function.tool_path:
        return False
    if known.interpreter == function.interpreter and known.program != function.program:
        return True
    is_same = (known.rules, known.code_key) == (function.rules, function.code_key)
    return known.worker_place == function.worker_place and not is_same


def _with_output_of(imported: Outcome | None, outcome: Outcome) -> Outcome:
    """The outcome of a call, what the import printed put in front of what the call did."""
    if imported is None or not imported.stderr.data:
        return outcome
    first, then = imported.stderr, outcome.stderr
    both = CapturedStream(
        data=first.data + then.data,
        total_bytes=first.total_bytes + then.total_bytes,
        left_out_bytes=first.left_out_bytes + then.left_out_bytes,
    )
    return replace(outcome, stderr=both)


def _close_all(
    slots: OrderedDict[object, _Slot], workers: OrderedDict[tuple[object, ...], FunctionWorker]
) -> None:
    while slots:
        slots.popitem()[1].close()
    while workers:
        workers.popitem()[1].close()
