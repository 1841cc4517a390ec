"""``rye run --fork``, and what people do with threads: steer, raise, resume, cancel, prune."""

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.values import dataclass, replace
from ryeos.agent.journal import Ended
from ryeos.agent.messages import Piece
from ryeos.agent.prices import dollars
from ryeos.agent.purse import read_limits
from ryeos.agent.records import AgentRecords
from ryeos.app.agent_threads import AgentThreads, Following, used_in_all
from ryeos.app.output import one_line, steers_nothing
from ryeos.cli.arguments import Arguments
from ryeos.cli.session import CommandSpec, Session
from ryeos.items.errors import Answer, RyeError, UsageError
from ryeos.run.model import ExecutionRequest, ThreadRequest

if TYPE_CHECKING:
    from ryeos.items.refs import Reference

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PERSON_ONLY = "it is a person's: run it in a terminal of your own"


# --- following ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """Ctrl-C: once after this turn, twice at once."""

    finish: Cancellation
    stop: Cancellation


def _ends_on_signals(session: Session) -> _Ends:
    ends = _Ends(finish=Cancellation(), stop=Cancellation())

    def interrupted(number: int, _: FrameType | None) -> None:
        if ends.finish.is_set:
            ends.stop.cancel()
            signal.signal(number, signal.SIG_DFL)
            return
        ends.finish.cancel()
        session.output.note("ends after this turn; Ctrl-C once more ends it at once")

    def ended(number: int, _: FrameType | None) -> None:
        ends.finish.cancel()
        ends.stop.cancel()
        signal.signal(number, signal.SIG_DFL)

    for name, act in (("SIGINT", interrupted), ("SIGTERM", ended), ("SIGHUP", ended)):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, act)
    return ends


class _Live:
    """Shows a thread while it runs: the model's text as it comes, a line for each call."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.has_shown = False
        self._is_in_line = False

    def piece(self, piece: Piece) -> None:
        if self._session.output.as_json or piece.kind != "text" or not piece.text:
            return
        sys.stdout.write(steers_nothing(piece.text) if sys.stdout.isatty() else piece.text)
        sys.stdout.flush()
        self.has_shown, self._is_in_line = True, not piece.text.endswith("\n")

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.end_line()
        words = _EVENT_WORDS.get(kind)
        if words is not None and not self._session.output.as_json:
            self._session.output.note(one_line(words.format(**facts), 200))

    def end_line(self) -> None:
        """Leave no half line behind."""
        if self._is_in_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._is_in_line = False


_EVENT_WORDS = {
    "called": "calls {name} ({item})",
    "waiting": "waits {seconds} s: {reason}",
    "unanswered": "no answer ({code}): {error}",
    "other_model": "asked {asked}, {answered} answered",
}


def fork(session: Session, reference: "Reference", request: ExecutionRequest) -> int:
    """Have a model carry a directive out, and show what it says and does."""
    ends, live = _ends_on_signals(session), _Live(session)
    asked = request.thread or ThreadRequest()
    request = replace(
        request,
        thread=replace(asked, on_piece=live.piece, on_event=live.event, finish=ends.finish),
    )
    answer = session.rye.execute(reference, request, cancellation=ends.stop)
    return show_end(session, answer, live)


def show_end(session: Session, answer: Answer, live: _Live) -> int:
    """Show how a thread ended; the status of the command."""
    live.end_line()
    envelope, output = answer.envelope, session.output
    if envelope.get("type") != "thread":  # a dry run
        output.answer(envelope, str(envelope.get("message", "")))
        return answer.exit_status
    if output.as_json:
        output.answer(envelope, "")
        return answer.exit_status
    import json

    outputs = envelope["outputs"]
    text = "" if live.has_shown else str(envelope["text"])
    if outputs:
        text = json.dumps(outputs, ensure_ascii=True, indent=2)
    output.answer(envelope, text)
    usage = envelope["usage"]
    output.note(
        f"{envelope['state']}: {usage['turns']} turns, {usage['tokens']} tokens,"
        f" {usage['spend']} dollars, {usage['tool_calls']} tool calls; {envelope['thread_id']}"
    )
    if envelope["status"] == "error":
        sys.stderr.write(f"error: {one_line(str(envelope['error']), 500)}\n")
        if envelope["state"] in {"stopped", "failed", "cancelled"}:
            sys.stderr.write(f"  hint: go on with: rye threads resume {envelope['thread_id']}\n")
    return answer.exit_status


def logged(
    asked: ThreadRequest, stdout: Callable[[bytes], None], stderr: Callable[[bytes], None]
) -> ThreadRequest:
    """The same for a run in the background: what is said and done goes to its log."""

    def piece(piece: Piece) -> None:
        if piece.kind == "text":
            stdout(piece.text.encode("utf-8", "replace"))

    def event(kind: str, facts: Mapping[str, Any]) -> None:
        if kind == "answered":
            stdout(b"\n")
        words = _EVENT_WORDS.get(kind)
        if words is not None:
            stderr(f"{one_line(words.format(**facts), 200)}\n".encode("utf-8", "replace"))

    return replace(asked, on_piece=piece, on_event=event)


# --- threads of a person --------------------------------------------------------------------------


def _configure_thread(parser: Arguments) -> None:
    parser.add_argument("thread", metavar="ID", help="a thread, or as much of its id as is needed")


def _configure_raise(parser: Arguments) -> None:
    _configure_thread(parser)
    parser.add_argument("limits", metavar="NAME=N", nargs="+", help="like spend=2 turns=50")


def _configure_steer(parser: Arguments) -> None:
    _configure_thread(parser)
    parser.add_argument("text", metavar="TEXT", help="what the model hears at its next turn")


def _configure_prune(parser: Arguments) -> None:
    parser.add_argument("--older", metavar="AGE", help="those unchanged for so long: 30d, 12h")


def _thread_of(session: Session) -> tuple[AgentThreads, str]:
    """The threads of the session, and the id that is meant. Raises RyeError."""
    from ryeos.run.threads import find_thread_id

    threads = AgentThreads(session.rye)
    named = str(session.arguments.thread)
    return threads, find_thread_id(named, threads.records.ids(), str(threads.records.folder))


def _require_person(session: Session) -> None:
    if session.rye.context.confines:
        raise RyeError(
            f"{session.arguments.thread}: refused for what Rye confined",
            code="PERMISSION_DENIED",
            hint=_PERSON_ONLY,
        )


def named_limits(pairs: Sequence[str], where: str) -> dict[str, object]:
    """Limits as a header says them, from ``NAME=N``. Raises UsageError."""
    limits: dict[str, object] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"{where}: expected NAME=N, like spend=0.5, found {pair!r:.80}")
        limits[name] = int(value) if value.isdecimal() and name != "spend" else value
    return limits


def _resume(session: Session) -> int:
    _require_person(session)
    threads, thread_id = _thread_of(session)
    ends, live = _ends_on_signals(session), _Live(session)
    following = Following(piece=live.piece, event=live.event, stop=ends.stop, finish=ends.finish)
    return show_end(session, threads.resume(thread_id, following), live)


def _raise(session: Session) -> int:
    _require_person(session)
    threads, thread_id = _thread_of(session)
    limits = read_limits(named_limits(session.arguments.limits, "raise"), "raise")
    with threads.records.reopen(thread_id) as journal:
        journal.write(("raised", {"limits": limits}), force=True)
        journal.seal()
        purse = journal.thread.purse
    envelope = {"status": "success", "thread_id": thread_id, "limits": purse.limits.as_dict()}
    session.output.answer(envelope, f"{thread_id}: {purse.left()}")
    session.output.note(f"go on with: rye threads resume {thread_id}")
    return 0


def _steer(session: Session) -> int:
    _require_person(session)
    threads, thread_id = _thread_of(session)
    _require_open(threads.records, thread_id)
    threads.records.order(thread_id, "steer", session.arguments.text)
    session.output.answer(
        {"status": "success", "thread_id": thread_id},
        f"{thread_id}: the model hears it at its next turn",
    )
    return 0


def _cancel(session: Session) -> int:
    threads, thread_id = _thread_of(session)
    _require_open(threads.records, thread_id)
    threads.records.order(thread_id, "cancel")
    session.output.answer(
        {"status": "success", "thread_id": thread_id}, f"{thread_id}: ends after its present turn"
    )
    return 0


def _require_open(records: AgentRecords, thread_id: str) -> None:
    ended = records.read(thread_id).ended
    if ended is not None and not records.is_running(thread_id):
        raise RyeError(
            f"thread {thread_id}: it has ended ({ended.state})",
            code="CONFLICT",
            hint=f"go on with it: rye threads resume {thread_id}",
        )


def _prune(session: Session) -> int:
    """Remove what ended long ago; what runs, or can be gone on with within that time, stays."""
    import shutil
    import time

    age = str(session.arguments.older or "")
    unit = _SECONDS.get(age[-1:], 0)
    if not unit or not age[:-1].isdecimal():
        raise UsageError(f"--older: expected a number with s, m, h or d, found {age!r:.40}")
    oldest = time.time() - int(age[:-1]) * unit
    records = AgentThreads(session.rye).records
    removed = []
    for thread_id in records.ids():
        folder = records.folder_of(thread_id)
        if (folder / "journal.jsonl").stat().st_mtime < oldest and not records.is_running(
            thread_id
        ):
            shutil.rmtree(folder)
            removed.append(thread_id)
    session.output.answer(
        {"status": "success", "removed": removed}, "\n".join([*removed, f"{len(removed)} removed"])
    )
    return 0


def described(records: AgentRecords, thread_id: str) -> dict[str, Any] | None:
    """What a journal says of a thread, for `rye threads show`; None without a journal."""
    if not records.has(thread_id):
        return None
    thread = records.read(thread_id)
    used = used_in_all(thread)
    default = "running" if records.is_running(thread_id) else "interrupted"
    ended = thread.ended or Ended(state=default)
    return {
        "state": ended.state,
        **({"code": ended.code} if ended.code else {}),
        "model": f"{thread.frozen['provider']}/{thread.frozen['model']}",
        "used": {**used.as_dict(), "spend": dollars(used.spend)},
        "left": thread.purse.left(),
        "turns": _turns(records, thread_id),
        "text": ended.text,
        "outputs": dict(ended.outputs),
    }


def _turns(records: AgentRecords, thread_id: str) -> list[dict[str, Any]]:
    """A row for each turn: what it used, and the tools that it called."""
    rows: list[dict[str, Any]] = []
    for event in records.events(thread_id):
        said = event.payload
        if event.event_type == "answered":
            named = {name: count for name, count in said["usage"].items() if count}
            rows.append({"turn": len(rows) + 1, **named, "calls": []})
        elif event.event_type == "called" and rows:
            rows[-1]["calls"].append(said["name"])
    return rows


COMMANDS = {
    "threads resume": CommandSpec(_configure_thread, _resume, ["rye threads resume 9f2c"]),
    "threads raise": CommandSpec(
        _configure_raise, _raise, ["rye threads raise 9f2c spend=2 turns=50"]
    ),
    "threads steer": CommandSpec(
        _configure_steer, _steer, ['rye threads steer 9f2c "Leave the tests alone."']
    ),
    "threads cancel": CommandSpec(_configure_thread, _cancel, ["rye threads cancel 9f2c"]),
    "threads prune": CommandSpec(_configure_prune, _prune, ["rye threads prune --older 30d"]),
}
