"""Hang-ups: the other end of a pipe was closed.

It is noticed without reading what is left in the pipe.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

POLL_S = 0.25
_BROKEN_PIPE = 109

HasHungUp = Callable[[int], bool]


def await_hang_up(
    descriptor: int,
    *,
    platform: str = sys.platform,
    looks: dict[str, HasHungUp] | None = None,
    poll_s: float = POLL_S,
) -> None:
    """Return when a pipe or a socket has no writer any more; for a file that is never.

    Linux tells when it happens. Elsewhere it is looked at (``looks``, by platform) every ``poll_s``
    seconds: macOS tells only those who wait for bytes as well.
    """
    if platform == "linux":
        _wait_on_linux(descriptor)
        return
    look = ({"win32": _windows_looks} if looks is None else looks).get(platform, _posix_looks)
    while not look(descriptor):
        time.sleep(poll_s)


def _wait_on_linux(descriptor: int) -> None:
    import select

    poll = select.poll()
    poll.register(descriptor, getattr(select, "POLLRDHUP", 0))  # of sockets; of pipes it comes
    poll.poll()


def _posix_looks(descriptor: int) -> bool:
    import select

    poll = select.poll()
    poll.register(descriptor, select.POLLIN | getattr(select, "POLLRDHUP", 0))
    ended = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
    return any(found & ended for _, found in poll.poll(0))


def _windows_looks(descriptor: int) -> bool:
    import ctypes
    import msvcrt

    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - only there on Windows
    handle = ctypes.c_void_p(getattr(msvcrt, "get_osfhandle")(descriptor))  # noqa: B009
    if kernel.PeekNamedPipe(handle, None, 0, None, None, None):
        return False
    return bool(kernel.GetLastError() == _BROKEN_PIPE)
