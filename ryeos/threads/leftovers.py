"""Processes of a thread whose runner was ended before it could end them.

A runner that gets KILL takes nothing with it: its tool leads a session of its own. On Linux such
processes are known by the variable with the thread's id that they inherited; elsewhere they cannot
be found.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lillux.errors import LilluxError
from ryeos.threads.payload import PARENT_VARIABLE


def end_leftovers(thread_id: str, *, platform: str = sys.platform) -> int:
    """End what is left of a thread; how many processes were ended. Never raises for one."""
    from lillux.background import end_process, start_token

    ended = 0
    for pid in _processes_of(thread_id, platform):
        with suppress(LilluxError):
            token = start_token(pid)
            if token and end_process(pid, grace_s=0, token=token) != "already_dead":
                ended += 1
    return ended


def _processes_of(thread_id: str, platform: str) -> Iterator[int]:
    if platform != "linux":
        return
    entry = f"{PARENT_VARIABLE}={thread_id}".encode()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                environ = (folder / "environ").read_bytes()
            except OSError:  # another user's, or gone
                continue
            if entry in environ.split(b"\0"):
                yield int(folder.name)
