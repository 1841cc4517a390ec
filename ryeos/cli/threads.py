"""``rye threads list|show|logs|kill|wait``: background runs."""

import json
import sys
import time
from collections.abc import Iterator
from typing import Any

from lillux.files import file_system_error
from ryeos.app.output import field_text, one_line, utc_text
from ryeos.cli.arguments import Arguments
from ryeos.cli.session import CommandSpec, Session, interrupt_on_signals
from ryeos.items.errors import TOOL_FAILED, UsageError
from ryeos.run.thread_control import GRACE_S, ThreadLog, kill_thread, refreshed, wait_for
from ryeos.run.threads import Status, Thread

_SHOWN = 20
_STATUS_WIDTH, _TIME_WIDTH = 9, 23


def _configure_list(parser: Arguments) -> None:
    add = parser.add_argument
    add("--all", action="store_true", help=f"every one, not only the latest {_SHOWN}")
    add("--active", action="store_true", help="those that have not ended")
    add("--limit", metavar="N", type=int, help=f"at most so many, the latest first ({_SHOWN})")


def _configure_one(parser: Arguments) -> None:
    parser.add_argument("thread", metavar="ID", help="a thread, or as much of its id as is needed")


def _configure_logs(parser: Arguments) -> None:
    _configure_one(parser)
    parser.add_argument("--follow", action="store_true", help="follow until the run has ended")


def _list(session: Session) -> int:
    limit = _limit(session)
    registry = session.rye.threads
    found = registry.active() if session.arguments.active else registry.threads(limit=limit)
    threads = [refreshed(registry, thread) for thread in found[:limit]]
    if session.arguments.active:
        threads = [thread for thread in threads if not thread.has_ended]
    envelope = {
        "status": "success",
        "registry": str(registry.place.registry),
        "threads": [thread.describe() for thread in threads],
    }
    session.output.answer(envelope, "\n".join(_line(thread) for thread in threads))
    if not threads and not session.output.as_json:
        session.output.note(f"no threads in {registry.place.folder}")
    return 0


def _limit(session: Session) -> int | None:
    arguments = session.arguments
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError(f"--limit: expected a number from 1 up, found {arguments.limit}")
    if arguments.all and (arguments.active or arguments.limit is not None):
        raise UsageError("--all: expected neither --active nor --limit beside it")
    if arguments.all or (arguments.active and arguments.limit is None):
        return None
    return _SHOWN if arguments.limit is None else int(arguments.limit)


def _line(thread: Thread) -> str:
    status = one_line(thread.status)
    created = utc_text(thread.created_at or "")
    error = f"  ({one_line(thread.error, 60)})" if thread.error else ""
    return (
        f"{status:<{_STATUS_WIDTH}}  {created:<{_TIME_WIDTH}}  {one_line(thread.thread_id)}{error}"
    )


def _show(session: Session) -> int:
    registry = session.rye.threads
    thread = refreshed(registry, registry.get(registry.find(session.arguments.thread)))
    answer = thread.answer()
    described = thread.describe() | {"log": str(ThreadLog(registry.place, thread.thread_id).path)}
    envelope = {"status": "success", "thread": described, "result": answer}
    session.output.answer(envelope, "\n".join(_fields(described, answer)))
    return 0


def _fields(described: dict[str, Any], answer: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    for name, value in described.items():
        yield f"{name.replace('_', ' ') + ':':<14} {field_text(name, value)}"
    data = answer.get("data") if isinstance(answer, dict) else None
    if data is not None:
        yield "result:"
        yield json.dumps(data, ensure_ascii=True, indent=2)


def _logs(session: Session) -> int:
    registry = session.rye.threads
    log = ThreadLog(registry.place, registry.find(session.arguments.thread))
    if session.output.as_json:
        if session.arguments.follow:
            raise UsageError("--follow, --json: expected one of them")
        text, cut = log.text()
        envelope = {"status": "success", "thread_id": log.thread_id, "path": str(log.path)}
        session.output.answer(envelope | {"log": text, "truncated": cut}, "")
        return 0
    interrupt_on_signals()
    chunks = log.follow(registry) if session.arguments.follow else log.chunks()
    for chunk in chunks:
        _write(chunk)
    return 0


def _write(chunk: bytes) -> None:
    """To a pipe as it is; to a person without what would steer the terminal."""
    stream = sys.stdout
    if stream.isatty():
        text = chunk.decode("utf-8", "replace")
        chunk = "".join(c if c.isprintable() or c in "\n\t\r" else "?" for c in text).encode()
    try:
        stream.buffer.write(chunk)
        stream.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise file_system_error("standard output", error) from error


# --- thread control -------------------------------------------------------------------------------
# ``rye threads kill`` and ``wait``: end background runs, or wait for their end.

TIMED_OUT = 124


def _configure_kill(parser: Arguments) -> None:
    add = parser.add_argument
    add("thread", metavar="ID", help="a thread, or as much of its id as is needed")
    add("--grace", metavar="S", type=float, help=f"seconds before it is made to ({GRACE_S:g})")


def _configure_wait(parser: Arguments) -> None:
    add = parser.add_argument
    add("threads", metavar="ID", nargs="+", help="threads, or as much of their ids as is needed")
    add("--timeout", metavar="S", type=float, help="seconds to wait at most (no limit)")


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
        "leftovers": ended.orphan_processes,
        "thread": ended.thread.describe(),
    }
    words = ended.thread.status if ended.by_this else f"had ended already ({ended.thread.status})"
    if ended.orphan_processes:
        words += f"; {ended.orphan_processes} of its processes were left, and are ended"
    session.output.answer(envelope, f"{one_line(thread_id)}: {one_line(words)}")
    return 0


def _wait(session: Session) -> int:
    timeout_s = _seconds(session.arguments.timeout, "--timeout")
    interrupt_on_signals()
    registry = session.rye.threads
    thread_ids = [registry.find(text) for text in session.arguments.threads]
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    ended: list[Thread] = []
    for thread_id in thread_ids:
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
    "threads list": CommandSpec(
        _configure_list, _list, ["rye threads list", "rye threads list --active --json"]
    ),
    "threads show": CommandSpec(_configure_one, _show, ["rye threads show 9f2c"]),
    "threads logs": CommandSpec(
        _configure_logs, _logs, ["rye threads logs 9f2c", "rye threads logs 9f2c --follow"]
    ),
    "threads kill": CommandSpec(
        _configure_kill, _kill, ["rye threads kill 9f2c", "rye threads kill 9f2c --grace 30"]
    ),
    "threads wait": CommandSpec(
        _configure_wait, _wait, ["rye threads wait 9f2c", "rye threads wait 9f2c 41ab --timeout 60"]
    ),
}
