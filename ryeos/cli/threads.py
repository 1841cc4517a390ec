"""``rye threads list|show|logs|kill|wait``: background runs, and threads.

Of a thread of a model the journal says how it is, the same in each command.
"""

import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lillux.errors import LilluxError
from lillux.files import file_system_error
from lillux.foreign_text import one_line, without_control_characters
from lillux.values import replace
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.app.output import field_text, utc_text
from ryeos.cli.session import Session, interrupt_on_signals
from ryeos.items.errors import TOOL_FAILED, UsageError
from ryeos.run.threads.end import GRACE_S, kill_thread
from ryeos.run.threads.errors import ThreadNotFoundError
from ryeos.run.threads.log import ThreadLog
from ryeos.run.threads.payload import FORK
from ryeos.run.threads.thread import Status, Thread
from ryeos.run.threads.watch import refreshed, wait_for

if TYPE_CHECKING:
    from ryeos.agent.records import AgentRecords

_SHOWN = 20
_STATUS_WIDTH, _TIME_WIDTH = 11, 23
_CHANGED = "its journal was changed"


def _configure_list(parser: Arguments) -> None:
    add = parser.add_argument
    add("--all", action="store_true", help=f"every one, not only the latest {_SHOWN}")
    add("--active", action="store_true", help="those that have not ended")
    add("--limit", metavar="N", type=int, help=f"at most so many, the latest first ({_SHOWN})")


def _configure_one(parser: Arguments) -> None:
    what = "a thread, or as much of its id as is needed"
    parser.add_argument("thread", metavar="ID", help=what, offers="threads")


def _configure_logs(parser: Arguments) -> None:
    _configure_one(parser)
    add = parser.add_argument
    add("-f", "--follow", action="store_true", help="follow until the run has ended")


def _list(session: Session) -> int:
    limit = _limit(session)
    registry = session.rye.threads
    found = registry.active() if session.arguments.active else registry.threads(limit=limit)
    threads = [refreshed(registry, thread) for thread in found[:limit]]
    if session.arguments.active:
        threads = [thread for thread in threads if not thread.has_ended]
    threads = _with_states(session, _with_missing(session, threads, limit))
    envelope = {
        "status": "success",
        "registry": str(registry.place.registry),
        "threads": [thread.describe() for thread in threads],
    }
    session.output.answer(envelope, "\n".join(_line(thread) for thread in threads))
    if not threads and not session.output.as_json:
        session.output.note(f"no threads in {registry.place.folder}")
    return 0


def _with_missing(session: Session, threads: list[Thread], limit: int | None) -> list[Thread]:
    """The same, with threads of models that the registry misses, for it is a view.

    What Rye confined cannot read journals. Where there are as many rows as are shown, threads that
    are older than they are not looked for.
    """
    if session.rye.context.confines:
        return threads
    records = session.thread_records
    unknown = sorted({*records.ids()} - {*session.rye.threads.ids()})
    if not unknown:
        return threads
    from ryeos.cli.agent_threads import without_rows

    is_active = bool(session.arguments.active)
    since = threads[-1].created_at or "" if len(threads) == limit else ""
    missing = without_rows(session, unknown, is_active=is_active, since=since)
    every = sorted([*threads, *missing], key=lambda one: one.created_at or "", reverse=True)
    return every[:limit]


def _with_states(session: Session, threads: list[Thread]) -> list[Thread]:
    """The same, those of a model with what their journals say.

    One whose journal was changed hides no other: that is a warning, and its row says so.
    """
    if not any(thread.thread_mode == FORK for thread in threads):
        return threads
    from ryeos.cli.agent_threads import as_journal_says

    found = []
    for thread in threads:
        try:
            found.append(as_journal_says(session, thread))
        except LilluxError as error:
            session.output.warn(str(error))
            found.append(replace(thread, status=Status.ERROR, state=None, error=_CHANGED))
    return found


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
    status = one_line(thread.shown_state)
    created = utc_text(thread.created_at or "")
    error = f"  ({one_line(thread.error, 60)})" if thread.error else ""
    cost = f"  {thread.spend:.4f} dollars, {thread.turns} turns" if thread.turns else ""
    name = one_line(thread.thread_id)
    return f"{status:<{_STATUS_WIDTH}}  {created:<{_TIME_WIDTH}}  {name}{cost}{error}"


def _configure_show(parser: Arguments) -> None:
    _configure_one(parser)
    parser.add_argument(
        "--transcript", action="store_true", help="what a model said and did, in Markdown"
    )


def _show_transcript(session: Session) -> int:
    from ryeos.app.agent_threads import AgentThreads

    thread_id = _named(session).thread_id
    text = AgentThreads(session.rye).transcript(thread_id)
    session.output.answer(
        {"status": "success", "thread_id": thread_id, "transcript": text}, text.rstrip("\n")
    )
    return 0


def _show(session: Session) -> int:
    if session.arguments.transcript:
        return _show_transcript(session)
    thread = _named(session)
    records = _agent_records(session, thread)
    if records is not None:
        from ryeos.cli.agent_threads import show_agent_thread

        return show_agent_thread(session, records, thread)
    answer = thread.answer()
    log = ThreadLog(session.rye.threads.place, thread.thread_id).path
    described = thread.describe() | ({"log": str(log)} if log.is_file() else {})
    envelope = {"status": "success", "thread": described, "result": answer}
    session.output.answer(envelope, "\n".join(_fields(described, answer)))
    return 0


def _named(session: Session) -> Thread:
    """The thread that is meant, as it is, also one that no registry of this project has.

    Raises ThreadNotFoundError, AmbiguousThreadError, RyeError `INTEGRITY`.
    """
    registry, thread_id = session.rye.threads, _found(session, str(session.arguments.thread))
    try:
        row = registry.get(thread_id)
    except ThreadNotFoundError:
        from ryeos.cli.agent_threads import thread_of_journal

        return thread_of_journal(session, thread_id)
    return _as_it_is(session, refreshed(registry, row))


def _found(session: Session, named: str) -> str:
    """The id that is meant, the same for each command. Raises as `find_thread`."""
    try:
        return session.rye.threads.find(named)
    except ThreadNotFoundError:
        if session.rye.context.confines:
            raise
        from ryeos.cli.agent_threads import find_thread

        return find_thread(session, named)


def _as_it_is(session: Session, thread: Thread) -> Thread:
    """The thread; one of a model as its journal says. Raises as `required`."""
    if thread.thread_mode != FORK:
        return thread
    from ryeos.cli.agent_threads import required

    return required(session, thread)


def _fields(described: dict[str, Any], answer: Any) -> Iterator[str]:  # noqa: ANN401 - JSON
    for name, value in described.items():
        yield f"{name.replace('_', ' ') + ':':<14} {field_text(name, value)}"
    data = answer.get("data") if isinstance(answer, dict) else None
    if data is not None:
        yield "result:"
        yield json.dumps(data, ensure_ascii=True, indent=2)


def _agent_records(session: Session, thread: Thread) -> "AgentRecords | None":
    """Where the journal of a thread of a model is; None for any other, and for what is confined."""
    if thread.thread_mode != FORK or session.rye.context.confines:
        return None
    records = session.thread_records
    return records if records.has(thread.thread_id) else None


def _agent_logs(session: Session, records: "AgentRecords", thread_id: str) -> int:
    """What a model says and does; as JSON a line for each event of the journal."""
    from ryeos.app.thread_log import events_of, log_of

    follow = bool(session.arguments.follow)
    interrupt_on_signals()
    if not session.output.as_json:
        for text in log_of(records, thread_id, follow=follow):
            _write_bytes(text.encode("utf-8", "backslashreplace"))
        return 0
    for one in events_of(records, thread_id, follow=follow):
        _write_bytes(json.dumps(one, ensure_ascii=True).encode() + b"\n")
    return 0


def _logs(session: Session) -> int:
    thread = _named(session)
    records = _agent_records(session, thread)
    if records is not None:
        return _agent_logs(session, records, thread.thread_id)
    registry = session.rye.threads
    log = ThreadLog(registry.place, thread.thread_id)
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
    if sys.stdout.isatty():
        text = chunk.decode("utf-8", "replace").replace("\r\n", "\n")
        chunk = without_control_characters(text).encode()
    _write_bytes(chunk)


def _write_bytes(chunk: bytes) -> None:
    stream = sys.stdout
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
    what = "a thread, or as much of its id as is needed"
    add("thread", metavar="ID", help=what, offers="threads")
    add("--grace", metavar="S", type=float, help=f"seconds before it is made to ({GRACE_S:g})")


def _configure_wait(parser: Arguments) -> None:
    add = parser.add_argument
    what = "threads, or as much of their ids as is needed"
    add("threads", metavar="ID", nargs="+", help=what, offers="threads")
    add("--timeout", metavar="S", type=float, help="seconds to wait at most (no limit)")


def _kill(session: Session) -> int:
    grace_s = _seconds(session.arguments.grace, "--grace")
    rye = session.rye
    thread = _named(session)
    records, thread_id = _agent_records(session, thread), thread.thread_id
    if records is not None:
        return _kill_agent_thread(
            session, records, thread_id, GRACE_S if grace_s is None else grace_s
        )
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
    words = ended.thread.shown_state
    words = words if ended.by_this else f"had ended already ({words})"
    if ended.orphan_processes:
        words += f"; {ended.orphan_processes} of its processes were left, and are ended"
    session.output.answer(envelope, f"{one_line(thread_id)}: {one_line(words)}")
    return 0


def _kill_agent_thread(
    session: Session, records: "AgentRecords", thread_id: str, grace_s: float
) -> int:
    """End a thread of a model: its process ends it, which may be a server that stays."""
    from ryeos.app.thread_log import kill

    is_killed = kill(records, thread_id, grace_s)
    thread = _named(session)
    envelope: dict[str, Any] = {
        "status": "success",
        "killed": is_killed,
        "leftovers": 0,
        "thread": thread.describe(),
    }
    words = thread.shown_state if is_killed else f"had ended already ({thread.shown_state})"
    session.output.answer(envelope, f"{one_line(thread_id)}: {words}")
    return 0


def _wait(session: Session) -> int:
    timeout_s = _seconds(session.arguments.timeout, "--timeout")
    interrupt_on_signals()
    thread_ids = [_found(session, text) for text in session.arguments.threads]
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    ended: list[Thread] = []
    for thread_id in thread_ids:
        left_s = None if deadline is None else max(deadline - time.monotonic(), 0.0)
        ended.append(_waited_for(session, thread_id, left_s))
    status, envelope = _outcome(ended, timeout_s)
    lines = [f"{one_line(t.shown_state):<9}  {one_line(t.thread_id)}" for t in ended]
    session.output.answer(envelope, "\n".join(lines))
    if not session.output.as_json:
        for thread in ended:
            if thread.error and thread.has_ended:
                sys.stderr.write(f"error: {one_line(thread.thread_id)}: {one_line(thread.error)}\n")
        if status == TIMED_OUT:
            sys.stderr.write(f"error: {envelope['error']}\n")
    return status


def _waited_for(session: Session, thread_id: str, left_s: float | None) -> Thread:
    """A thread once it has ended, or as it is then; of one that no registry here has its journal.

    Raises as `_named`.
    """
    began = time.monotonic()
    try:
        return _as_it_is(session, wait_for(session.rye.threads, thread_id, left_s))
    except ThreadNotFoundError:  # also of a registry that is removed meanwhile
        if session.rye.context.confines:
            raise
        from ryeos.cli.agent_threads import waited_for

        if left_s is not None:
            left_s = max(left_s - (time.monotonic() - began), 0.0)
        return waited_for(session, thread_id, left_s)


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


LIST = CommandSpec(_configure_list, _list, ["rye threads list", "rye threads list --active --json"])
SHOW = CommandSpec(
    _configure_show, _show, ["rye threads show 9f2c", "rye threads show 9f2c --transcript"]
)
LOGS = CommandSpec(_configure_logs, _logs, ["rye threads logs 9f2c", "rye threads logs 9f2c -f"])
KILL = CommandSpec(
    _configure_kill, _kill, ["rye threads kill 9f2c", "rye threads kill 9f2c --grace 30"]
)
WAIT = CommandSpec(
    _configure_wait, _wait, ["rye threads wait 9f2c", "rye threads wait 9f2c 41ab --timeout 60"]
)
