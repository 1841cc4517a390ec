"""Processes that outlive their starter: started, named for sure, looked at, ended.

A number alone does not name a process: systems use numbers again. A process is named by its number
and its *start token*, which says when it began: whoever asks about the pair is told "gone" when the
number belongs to another process by now, and never ends that one.
"""

from lillux.background.detached import Started, start_detached
from lillux.background.ending import EndingRefusedError, Method, end_process
from lillux.background.liveness import is_alive, start_token

__all__ = [
    "EndingRefusedError",
    "Method",
    "Started",
    "end_process",
    "is_alive",
    "start_detached",
    "start_token",
]
