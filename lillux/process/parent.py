"""Waits for the end of the process that has started this one.

A file of its own because servers wait so without importing what starts processes.
"""

import os
import sys
import time
from collections.abc import Callable

POLL_S = 5.0
_SYNCHRONIZE = 0x00100000
_FOREVER_MS = 0xFFFFFFFF

Wait = Callable[[int], bool]


def await_end_of_parent(
    parent: int,
    *,
    platform: str = sys.platform,
    waits: "dict[str, Wait] | None" = None,
    current: Callable[[], int] = os.getppid,
    poll_s: float = POLL_S,
) -> None:
    """Return when the process ``parent``, which has started this one, is no more.

    The system tells where it can: Linux by a descriptor of the process, Windows by a handle, one
    for each platform in ``waits``. Elsewhere the number of the parent (``current``) is looked at
    every ``poll_s`` seconds: it becomes another's.
    """
    wait = ({"linux": _on_linux, "win32": _on_windows} if waits is None else waits).get(platform)
    if current() == parent and wait and wait(parent):
        return
    while current() == parent:
        time.sleep(poll_s)


def _on_linux(parent: int) -> bool:
    """Wait for a process; False when it cannot be waited for."""
    if not hasattr(os, "pidfd_open"):
        return False
    import select

    try:
        descriptor = os.pidfd_open(parent)
    except OSError:  # an old kernel, or a parent outside of this container
        return False
    try:
        if os.getppid() == parent:  # else the number may be another's by now
            select.select([descriptor], [], [])
    except (OSError, ValueError):  # a number that `select` does not take
        return False
    finally:
        os.close(descriptor)
    return True


def _on_windows(parent: int) -> bool:
    """Wait for a process; False when it cannot be waited for."""
    import ctypes

    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - only there on Windows
    kernel.OpenProcess.restype = ctypes.c_void_p
    kernel.WaitForSingleObject.argtypes = [ctypes.c_void_p, ctypes.c_uint32]
    handle = kernel.OpenProcess(_SYNCHRONIZE, False, parent)  # noqa: FBT003 - not inherited
    if not handle:
        return False
    return bool(kernel.WaitForSingleObject(handle, _FOREVER_MS) == 0)
