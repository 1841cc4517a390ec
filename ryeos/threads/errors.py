"""What can be wrong with a registry of threads, or with asking for one of them."""

from collections.abc import Sequence

from ryeos.errors import RyeError


class RegistryError(RyeError):
    """A registry of threads that cannot be used: damaged, not a registry, or not to be trusted."""

    code, exit_status = "REGISTRY_INVALID", 6

    def __init__(self, path: str, problem: str, *, hint: str = "") -> None:
        self.path, self.problem = path, problem
        super().__init__(
            f"{path}: {problem}",
            hint=hint or "move it away, with the files beside it; the next run --async makes one",
        )


class RegistryBusyError(RyeError):
    """Another process keeps the registry locked for longer than anybody should wait."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: still locked by another process", hint="try again; nothing was changed"
        )


class ThreadIdError(RyeError):
    """A thread id that could not be the name of a thread's folder."""

    code, exit_status = "INVALID_REF", 2

    def __init__(self, thread_id: str, problem: str) -> None:
        self.thread_id, self.problem = thread_id, problem
        super().__init__(
            f"thread id {thread_id[:200]!r}: {problem}", hint="list threads with: rye threads list"
        )


class ThreadNotFoundError(RyeError):
    """No thread of this registry has that id."""

    code, exit_status = "THREAD_NOT_FOUND", 3

    def __init__(self, text: str, registry: str, suggestions: Sequence[str] = ()) -> None:
        self.text, self.registry = text, registry
        self.suggestions = tuple(suggestions)
        hint = f"did you mean {', '.join(suggestions)}?" if suggestions else ""
        super().__init__(
            f"thread not found: {text} (searched: {registry})",
            hint=hint or "list threads with: rye threads list --all",
        )


class RemoteThreadError(RyeError):
    """The id of a run on a node, where one of this machine is expected."""

    code, exit_status = "THREAD_NOT_FOUND", 3

    def __init__(self, thread_id: str) -> None:
        self.thread_id = thread_id
        super().__init__(
            f"thread not found: {thread_id[:300]} is the id of a run on a node",
            hint=f"see: rye remote thread {thread_id[:300]}; or wait for it, with --wait",
        )


class AmbiguousThreadError(RyeError):
    """A shortened thread id that more than one thread answers to."""

    code, exit_status = "AMBIGUOUS_ITEM", 2

    def __init__(self, text: str, candidates: Sequence[str]) -> None:
        self.text = text
        self.suggestions = tuple(candidates)
        super().__init__(
            f"{text}: more than one thread is called like this: {', '.join(candidates)}",
            hint="give more of the id",
        )


class ThreadLoopError(RyeError):
    """Threads that continue each other in a circle have no end to wait for."""

    code, exit_status = "REGISTRY_INVALID", 6

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = tuple(ids)
        super().__init__(f"threads continue each other in a circle: {' -> '.join(ids)}")


class UnknownRunnerError(RyeError):
    """Nothing of the user's own shows that a process is the runner of a thread."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, thread_id: str, pid: int | None, reason: str) -> None:
        self.thread_id, self.pid, self.reason = thread_id, pid, reason
        named = f"process {pid}" if pid else "any process"
        super().__init__(
            f"{thread_id}: will not end {named}: {reason}",
            hint="the registry is a file of the project, anybody may have written it; "
            "look at the process before you end it yourself",
        )


class StillRunningError(RyeError):
    """A run was asked to end, and the process that walks it has not done so in time."""

    code, exit_status = "TIMEOUT", 124

    def __init__(self, thread_id: str, pid: int | None, grace_s: float) -> None:
        self.thread_id, self.pid, self.grace_s = thread_id, pid, grace_s
        super().__init__(
            f"{thread_id}: still running {grace_s:g} s after it was asked to end",
            hint=f"process {pid} walks it, and was not touched: it may do more than that; "
            "the run ends as soon as it looks",
        )
