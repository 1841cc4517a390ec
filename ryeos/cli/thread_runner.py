"""``rye _thread``: the runner of a thread, started by ``rye run --async`` and never typed.

Its payload comes on standard input, and its output is the thread's log. Page: ``docs/running.md``.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from types import FrameType
from typing import TYPE_CHECKING

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.values import replace
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.cli.run import (
    MAX_INPUT_BYTES,
    ToolOutput,
    live_stderr,
    show_rest,
    undo_ignored_child_signals,
)
from ryeos.cli.session import Session
from ryeos.items.errors import Answer, UsageError, error_answer
from ryeos.items.refs import parse_reference
from ryeos.run.threads.payload import Payload, parse_payload
from ryeos.run.threads.registry import ThreadRegistry, write_document
from ryeos.run.threads.seals import RunnerSeals, ThreadRunner
from ryeos.run.threads.thread import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

_MAX_PAYLOAD_BYTES = 8 * MAX_INPUT_BYTES  # JSON may need six characters for one
_ENDS = {
    "SIGINT": Status.CANCELLED,
    "SIGHUP": Status.CANCELLED,
    "SIGTERM": Status.KILLED,
}


class _EndOnSignal:
    """A cancellation that the first signal sets, and which status that signal means."""

    def __init__(self) -> None:
        self.cancellation = Cancellation()
        self.status = Status.CANCELLED
        for name, status in _ENDS.items():
            number = getattr(signal, name, None)  # Windows has no SIGHUP
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._handler(status))

    def _handler(self, status: Status) -> "signal._HANDLER":
        def end(number: int, _: FrameType | None) -> None:
            self.status = status
            self.cancellation.cancel()
            signal.signal(number, signal.SIG_DFL)

        return end


def _configure(parser: Arguments) -> None:
    parser.add_argument("thread_id", metavar="THREAD", help="for those who list processes")


def _run(session: Session) -> int:
    payload = parse_payload(sys.stdin.buffer.read(_MAX_PAYLOAD_BYTES))
    if payload.thread_id != session.arguments.thread_id:
        raise UsageError(f"expected the payload of {session.arguments.thread_id}")
    undo_ignored_child_signals()
    end = _EndOnSignal()
    registry = ThreadRegistry(payload.place)
    if not _claim(registry, payload.thread_id, session.rye.runner_seals):
        session.output.note("ended before it began")
        return 0
    try:
        written = ToolOutput()
        answer = _answer(session, payload, end.cancellation, written)
    except BaseException as error:  # the door of the runner: the registry must hear of every end
        _finish(registry, payload, Status.ERROR, {"error": f"{type(error).__name__}: {error}"})
        raise
    status = _status(answer, end)
    try:
        # First: a waiting process then finds the whole log.
        show_rest(session, answer, written)
    finally:
        _finish(registry, payload, status, answer.envelope)
    return 0


def _claim(registry: ThreadRegistry, thread_id: str, seals: RunnerSeals) -> bool:
    """Record that this process runs the thread, as its starter does, which may have died by now."""
    from lillux.process.states import start_token

    pid = os.getpid()
    runner = ThreadRunner(pid, start_token(pid))
    with suppress(LilluxError):  # the starter has reported why
        seals.seal(registry.place, thread_id, runner)
    return registry.mark_running(thread_id, runner.pid, runner.start_token)


def _answer(
    session: Session, payload: Payload, cancellation: Cancellation, written: ToolOutput
) -> Answer:
    request = replace(payload.request, on_stdout=written.stdout)
    if request.thread is not None:
        from ryeos.app.agent_threads import logged

        request = replace(request, thread=logged(request.thread, written.stdout, live_stderr))
    try:
        return session.rye.execute(
            parse_reference(payload.item_id),
            request,
            cancellation=cancellation,
            on_stderr=live_stderr,
        )
    except LilluxError as error:
        return error_answer(error)


def _status(answer: Answer, end: _EndOnSignal) -> Status:
    if answer.envelope["status"] != "error":
        data = answer.envelope.get("data")
        has_errors = isinstance(data, dict) and data.get("status") == Status.COMPLETED_WITH_ERRORS
        return Status.COMPLETED_WITH_ERRORS if has_errors else Status.COMPLETED
    return end.status if answer.envelope.get("code") == "CANCELLED" else Status.ERROR


def _finish(
    registry: ThreadRegistry, payload: Payload, status: Status, envelope: "Mapping[str, object]"
) -> None:
    error = envelope.get("error")
    registry.finish(
        payload.thread_id,
        status,
        result=json.dumps(envelope, ensure_ascii=True, default=str)
        if "status" in envelope
        else None,
        error=str(error) if error else None,
    )
    write_document(registry, payload.thread_id)


THREAD = CommandSpec(_configure, _run)
