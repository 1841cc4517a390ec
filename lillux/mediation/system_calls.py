"""System calls that Python does not have, and their numbers."""

import ctypes
import os
from functools import cache

from lillux.seccomp import number_of

AT_FDCWD = -100
MAX_PATH, MAX_LINKS, MAX_ATTRIBUTE = 4096, 40, 65536
NO_FOLLOW, REMOVE_FOLDER, FOLLOW, EMPTY_PATH = 0x100, 0x200, 0x400, 0x1000  # AT_*
OPEN_FOLDER = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0) | os.O_CLOEXEC


def system_call(name: str, *words: object) -> int:
    """The result of a system call, -1 for an error, which `require_success` raises."""
    numbers = (one if not isinstance(one, int) else ctypes.c_long(one) for one in words)
    return int(c_library().syscall(ctypes.c_long(number_of(name)), *numbers))


def require_success(result: int) -> int:
    """The result of a call that did not fail. Raises OSError."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


@cache
def c_library() -> ctypes.CDLL:
    """The C library of this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
