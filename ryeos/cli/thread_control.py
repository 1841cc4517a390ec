"""``rye threads kill`` and ``wait``: the end of background runs, brought about or waited for."""

import sys
import time
from typing import Any

from ryeos.cli.output import one_line
from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.cli.signals import interrupt_on_signals
from ryeos.envelope import TOOL_FAILED
from ryeos.errors import UsageError
from ryeos.threads.ending import GRACE_S, kill_thread
from ryeos.threads.model import Status, Thread
from ryeos.threads.watching import wait_for

TIMED_OUT = 124


def _configure_kill(parser: Arguments) -> None:
    add = parser.add_argument
    add("thread", metavar="ID", help="a thread, or as much of its id as is needed")
    add("--grace", metavar="S", type=float, help=f"seconds before it is made to ({GRACE_S:g})")


def _configure_wait(parser: Arguments) -> None:
    add = parser.add_argument
    add("threads", metavar="ID", nargs="+", help="threads, or as much of their ids as is needed")
    add("--timeout", metavar="S", type=float, help="seconds to wait at most (for ever)")


def _kill(session: Session) -> int:
    grace_s = _seconds(session.arguments.grace, "--grace")
    rye = session.rye
    thread_id = rye.threads.find(session.arguments.thread)
    ended = kill_thread(
        rye.threads,
        thread_id,
        rye.runner_seals,
        grace_s=GRACE_S if grace_s is None else grace_s,
    )
    envelope = {
        "status": "success",
        "killed": ended.by_this,
        "leftovers": ended.leftovers,
        "thread": ended.thread.describe(),
    }
    words = ended.thread.status if ended.by_this else f"had ended already ({ended.thread.status})"
    if ended.leftovers:
        words += f"; {ended.leftovers} of its processes were left, and are ended"
    session.output.answer(envelope, f"{one_line(thread_id)}: {one_line(words)}")
    return 0


def _wait(session: Session) -> int:
    timeout_s = _seconds(session.arguments.timeout, "--timeout")
    interrupt_on_signals()
    registry = session.rye.threads
    asked = [registry.find(text) for text in session.arguments.threads]
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    ended: list[Thread] = []
    for thread_id in asked:
        left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        ended.append(wait_for(registry, thread_id, left_s))
    status, envelope = _outcome(ended, timeout_s)
    lines = [f"{one_line(t.status):<9}  {one_line(t.thread_id)}" for t in ended]
    session.output.answer(envelope, "\n".join(lines))
    if not session.output.as_json:
        for thread in ended:
            if thread.error and thread.has_ended:
                sys.stderr.write(f"error: {one_line(thread.thread_id)}: {one_line(thread.error)}\n")
        if status == TIMED_OUT:
            sys.stderr.write(f"error: {envelope['error']}\n")
    return status


def _outcome(ended: list[Thread], timeout_s: float | None) -> tuple[int, dict[str, Any]]:
    threads = [t.describe() | {"result": t.answer()} for t in ended]
    running = [t.thread_id for t in ended if not t.has_ended]
    failed = [t.thread_id for t in ended if t.has_ended and t.status != Status.COMPLETED]
    if running:
        error = f"still running after {timeout_s:g} s: {', '.join(running)}"
        return TIMED_OUT, _failure(error, "TIMEOUT", threads)
    if failed:
        return TOOL_FAILED, _failure(f"failed: {', '.join(failed)}", "EXECUTION_FAILED", threads)
    return 0, {"status": "success", "threads": threads}


def _failure(error: str, code: str, threads: list[dict[str, Any]]) -> dict[str, Any]:
    return {"status": "error", "error": one_line(error), "code": code, "threads": threads}


def _seconds(value: float | None, flag: str) -> float | None:
    if value is not None and not 0 <= value < float("inf"):
        raise UsageError(f"{flag}: expected seconds from 0 up, found {value}")
    return value


COMMANDS = {
    "threads kill": Command(
        _configure_kill, _kill, ["rye threads kill 9f2c", "rye threads kill 9f2c --grace 30"]
    ),
    "threads wait": Command(
        _configure_wait, _wait, ["rye threads wait 9f2c", "rye threads wait 9f2c 41ab --timeout 60"]
    ),
}
