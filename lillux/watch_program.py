"""``lillux-watch`` in Python: waits until a thread has ended, and answers in JSON.

The contract of both forms is ``lillux_native/PROTOCOL.md``.
"""

from collections.abc import Sequence
from pathlib import Path

from lillux.helper_programs import (
    DONE,
    CommandLineError,
    Flags,
    HelpRequest,
    answer,
    read_flags,
    refuse,
    show_help,
)

WATCH = "lillux-watch"
WATCH_USAGE = """\
usage: lillux-watch --db FILE --thread-id ID [--timeout SECONDS=300 | --no-timeout] [--exit-code]
"""
TIMEOUT_S = 300.0
TIMED_OUT = 124

_FLAGS = {
    "--db": True,
    "--thread-id": True,
    "--timeout": True,
    "--no-timeout": False,
    "--exit-code": False,
}


def watch_main(arguments: Sequence[str]) -> int:
    """Wait as the command line says; the exit status."""
    from lillux.watch import TIMEOUT, await_status

    try:
        flags = read_flags(arguments, _FLAGS)
        db, thread_id = flags.required("--db"), flags.required("--thread-id")
        timeout_s = _timeout_s(flags)
    except HelpRequest:
        return show_help(WATCH_USAGE)
    except CommandLineError as error:
        return refuse(WATCH, str(error), WATCH_USAGE)
    status = await_status(Path(db), thread_id, timeout_s)
    answer({"status": status, "thread_id": thread_id})
    return TIMED_OUT if status == TIMEOUT and flags.has("--exit-code") else DONE


def _timeout_s(flags: Flags) -> float | None:
    if not flags.has("--no-timeout"):
        return flags.seconds("--timeout", TIMEOUT_S)
    if flags.has("--timeout"):
        raise CommandLineError("--no-timeout: expected no --timeout beside it")
    return None
