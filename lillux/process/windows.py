"""Handles of processes on Windows, by the calls of its kernel32."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_QUERY_LIMITED, _SYNCHRONIZE, _TERMINATE = 0x1000, 0x0010_0000, 0x0001
_ACCESS_DENIED = 5
_SIGNALED = 0
_EXIT_CODE = 1
_LONGEST_PATH = 260


@cache
def _kernel32() -> Any:  # noqa: ANN401 - a library of the system
    import ctypes

    library: Any = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined]
    library.OpenProcess.restype = ctypes.c_void_p
    for name in ("CloseHandle", "GetProcessTimes", "TerminateProcess", "WaitForSingleObject"):
        getattr(library, name).argtypes = None
    return library


@contextmanager
def process_handle(pid: int, access: int = _QUERY_LIMITED | _SYNCHRONIZE) -> Iterator[Any]:
    """A handle of the process, which keeps its number from being used again; None if none is.

    Raises PermissionError when the process is another user's.
    """
    import ctypes

    kernel32 = _kernel32()
    raw = kernel32.OpenProcess(access, False, pid)  # noqa: FBT003 - inherited or not
    if not raw:
        if ctypes.get_last_error() == _ACCESS_DENIED:  # type: ignore[attr-defined]
            raise PermissionError(f"process {pid}: access denied")
        yield None
        return
    handle = ctypes.c_void_p(raw)
    try:
        yield handle
    finally:
        kernel32.CloseHandle(handle)


def has_ended(handle: Any, within_s: float) -> bool:  # noqa: ANN401 - as above
    """True if the process ended, or does so within the time."""
    return bool(_kernel32().WaitForSingleObject(handle, round(within_s * 1000)) == _SIGNALED)


def terminate(handle: Any) -> None:  # noqa: ANN401 - as above
    """End the process now."""
    _kernel32().TerminateProcess(handle, _EXIT_CODE)


def terminate_tree(pid: int) -> None:
    """End the process and what descends from it, while it still runs."""
    import ctypes

    # By its full path: Windows would look in the working directory first.
    folder = ctypes.create_unicode_buffer(_LONGEST_PATH)
    _kernel32().GetSystemDirectoryW(folder, _LONGEST_PATH)
    subprocess.run(
        [rf"{folder.value}\taskkill.exe", "/T", "/F", "/PID", str(pid)],
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def ending_handle(pid: int) -> Any:  # noqa: ANN401 - a context manager of a handle
    """A handle by which the process can be ended; see `process_handle`."""
    return process_handle(pid, _QUERY_LIMITED | _SYNCHRONIZE | _TERMINATE)


def creation_time(handle: Any) -> str:  # noqa: ANN401 - as above
    """The time at which the process began, as a number; ``""`` if unknown."""
    import ctypes

    times = [ctypes.c_uint64() for _ in range(4)]
    if not _kernel32().GetProcessTimes(handle, *map(ctypes.byref, times)):
        return ""
    return str(times[0].value)
