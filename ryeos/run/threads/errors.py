"""Errors of a registry of threads, and of asking for one of them.

A file of its own, below all others of threads.
"""

from collections.abc import Sequence

from ryeos.items.errors import RyeError


def registry_error(path: str, problem: str, *, hint: str = "") -> RyeError:
    """The error of a registry of threads that is damaged, of another kind, or not to be trusted."""
    return RyeError(
        f"{path}: {problem}",
        code="REGISTRY_INVALID",
        hint=hint or "move it away, with the files beside it; the next run --async makes one",
        path=path,
    )


def thread_id_error(thread_id: str, problem: str) -> RyeError:
    """The error of a thread id that could not be the name of a thread's folder."""
    return RyeError(
        f"thread id {thread_id[:200]!r}: {problem}",
        code="INVALID_REF",
        hint="list threads with: rye threads list",
    )


class ThreadNotFoundError(RyeError):
    """No thread of this registry has that id."""

    code = "THREAD_NOT_FOUND"

    def __init__(self, text: str, registry: str, suggestions: Sequence[str] = ()) -> None:
        self.text, self.registry = text, registry
        self.suggestions = tuple(suggestions)
        hint = f"did you mean {', '.join(suggestions)}?" if suggestions else ""
        super().__init__(
            f"thread not found: {text} (searched: {registry})",
            hint=hint or "list threads with: rye threads list --all",
        )


class AmbiguousThreadError(RyeError):
    """A shortened thread id that more than one thread answers to."""

    code = "AMBIGUOUS_ITEM"

    def __init__(self, text: str, candidates: Sequence[str]) -> None:
        self.text = text
        self.suggestions = tuple(candidates)
        super().__init__(
            f"{text}: more than one thread is called like this: {', '.join(candidates)}",
            hint="give more of the id",
        )


class UnknownRunnerError(RyeError):
    """Nothing of the user's own shows that a process is the runner of a thread."""

    code = "INTEGRITY"

    def __init__(self, thread_id: str, pid: int | None, reason: str) -> None:
        self.thread_id, self.pid, self.reason = thread_id, pid, reason
        named = f"process {pid}" if pid else "any process"
        super().__init__(
            f"{thread_id}: will not end {named}: {reason}",
            hint="the registry is a file of the project, and any program may have written it; "
            "look at the process before you end it yourself",
        )
