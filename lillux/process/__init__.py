"""Programs run to their end: output captured, limits kept, nothing left behind.

What every `ProcessManager.run` guarantees:

- The child leads a session and a process group of its own, and inherits no file but its pipes.
- Its three pipes are moved at the same time, so no order of reading and writing can deadlock.
- After ``timeout_s``, or a cancellation, the whole group gets TERM, and KILL after a grace.
- When the child has ended, what is left of its group is killed too: a finished tool has no
  leftovers. A descendant that moved to a session of its own cannot be found; it is not waited for
  longer than a second, however long it keeps a pipe open.
- Memory is bounded by ``max_output_bytes``, and no zombie and no open file stay.

On Windows there is no gentle signal for a process without a window: a timeout kills the tree at
once, and descendants of a child that ended by itself are not found.
"""

from lillux.process.cancellation import Cancellation
from lillux.process.model import (
    MIB,
    Captured,
    Command,
    Outcome,
    ProcessRunner,
    ProgramNotFoundError,
    SpawnError,
    signal_name,
)
from lillux.process.runner import ProcessManager

__all__ = [
    "MIB",
    "Cancellation",
    "Captured",
    "Command",
    "Outcome",
    "ProcessManager",
    "ProcessRunner",
    "ProgramNotFoundError",
    "SpawnError",
    "signal_name",
]
