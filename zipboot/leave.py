"""Leaving without the interpreter's own teardown, which would take longer than a short command.

All that has an effect still happens: threads are waited for, ``atexit`` runs, streams are flushed,
and a flush that fails is an exit status. ``RYE_EXIT=normal`` leaves the ordinary way, which
coverage and debuggers want. Page: ``docs/boot.md``.
"""

from __future__ import annotations

import os
import sys

FLUSH_FAILED = 120  # what Python itself answers
READER_GONE = 141  # what a shell says of a program that SIGPIPE ended


def leave(status: object) -> None:
    """End the process with what a program returned or gave to ``sys.exit``; does not come back."""
    code = _code(status)
    try:
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()  # noqa: SLF001 - what the interpreter calls
        import atexit

        atexit._run_exitfuncs()  # noqa: SLF001 - what the interpreter calls
    except BaseException:  # noqa: BLE001 - as the interpreter: said, and on we go
        sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            code = code or READER_GONE
        except (OSError, ValueError):
            code = code or FLUSH_FAILED
    os._exit(code & 0xFF)


def _code(status: object) -> int:
    if status is None:
        return 0
    if isinstance(status, int):
        return status
    if sys.stderr is not None:
        sys.stderr.write(f"{status}\n")
    return 1
