"""``rye run --fork``, and what people do with threads: steer, raise, resume, branch, ..."""

import json
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.foreign_text import one_line, without_control_characters
from lillux.values import dataclass, replace
from lillux.wording import counted
from ryeos.agent.journal import after, begun
from ryeos.agent.limits import read_limits
from ryeos.agent.messages import Piece
from ryeos.agent.prices import dollars
from ryeos.agent.records import AgentRecords
from ryeos.agent.thread_state import COMPLETED, Ended
from ryeos.app.agent_threads import AgentThreads, row_of, status_of
from ryeos.app.command_line import Arguments, CommandSpec
from ryeos.app.output import utc_text
from ryeos.app.progress import EVENT_WORDS
from ryeos.app.thread_answers import answer_of, used_in_all
from ryeos.app.thread_log import LOG, Following
from ryeos.cli.session import Session
from ryeos.items.errors import Answer, RyeError, UsageError
from ryeos.run.model import ExecutionRequest, ThreadRequest
from ryeos.run.threads.errors import ThreadNotFoundError
from ryeos.run.threads.ids import find_thread_id
from ryeos.run.threads.payload import FORK
from ryeos.run.threads.thread import Thread, time_text

if TYPE_CHECKING:
    from ryeos.graph.transcript import LoggedEvent
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
    """Shows a thread while it runs: the model's text as it comes, a line for each call.

    To a pipe as to a terminal: what a pipe takes is shown at one in the end. ``--json`` has the
    text as the model wrote it.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self.has_shown = False
        self._is_in_line = False

    def piece(self, piece: Piece) -> None:
        if self._session.output.as_json or piece.kind != "text" or not piece.text:
            return
        sys.stdout.write(without_control_characters(piece.text))
        sys.stdout.flush()
        self.has_shown, self._is_in_line = True, not piece.text.endswith("\n")

    def event(self, kind: str, facts: Mapping[str, Any]) -> None:
        self.end_line()
        words = EVENT_WORDS.get(kind)
        if words is not None and not self._session.output.as_json:
            self._session.output.note(one_line(words.format(**facts), 200))

    def end_line(self) -> None:
        """Leave no half line behind."""
        if self._is_in_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._is_in_line = False


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
    return show_thread(session, answer, has_shown=live.has_shown)


def show_thread(session: Session, answer: Answer, *, has_shown: bool) -> int:
    """As `show_end`; ``has_shown`` says whether the text of the model was shown already."""
    envelope, output = answer.envelope, session.output
    if envelope.get("type") != "thread":  # a dry run
        output.answer(envelope, "\n".join(_would_have(envelope)))
        return answer.exit_status
    if output.as_json:
        output.answer(envelope, "")
        return answer.exit_status
    outputs = envelope["outputs"]
    text = "" if has_shown else str(envelope["text"])
    if outputs:
        text = json.dumps(outputs, ensure_ascii=True, indent=2)
    output.answer(envelope, without_control_characters(text))
    usage = envelope["usage"]
    output.note(
        f"{envelope['state']}: {usage['turns']} turns, {usage['tokens']} tokens,"
        f" {usage['spend']} dollars, {usage['tool_calls']} tool calls; {envelope['thread_id']}"
    )
    if envelope["status"] == "error":
        sys.stderr.write(f"error: {one_line(str(envelope['error']), 500)}\n")
        if hint := envelope.get("hint"):
            sys.stderr.write(f"  hint: {one_line(str(hint), 500)}\n")
    return answer.exit_status


def _would_have(envelope: Mapping[str, Any]) -> Iterator[str]:
    """The lines of a dry run."""
    yield str(envelope.get("message", ""))
    facts = envelope.get("thread")
    if facts:
        for note in envelope["metadata"].get("warnings", ()):
            yield str(note)
        yield f"model:  {', '.join(facts['models'])}"
        yield f"limits: {', '.join(f'{name} {n}' for name, n in facts['limits'].items())}"
        yield f"tools:  {', '.join(one or name for name, one in facts['tools'].items())}"


# --- threads of a person --------------------------------------------------------------------------


def _configure_thread(parser: Arguments) -> None:
    parser.add_argument("thread", metavar="ID", help="a thread, or as much of its id as is needed")


def _configure_raise(parser: Arguments) -> None:
    _configure_thread(parser)
    parser.add_argument("limits", metavar="NAME=N", nargs="+", help="like spend=2 turns=50")


def _configure_steer(parser: Arguments) -> None:
    _configure_thread(parser)
    parser.add_argument("text", metavar="TEXT", help="what the model hears at its next turn")


def _configure_branch(parser: Arguments) -> None:
    _configure_thread(parser)
    parser.add_argument(
        "--turn", metavar="N", type=int, required=True, help="go on behind this turn of it"
    )
    parser.add_argument("--say", metavar="TEXT", default="", help="what the model hears then")


def _configure_prune(parser: Arguments) -> None:
    parser.add_argument("--older", metavar="AGE", help="those unchanged for so long: 30d, 12h")


def _thread_of(session: Session) -> tuple[AgentThreads, str]:
    """The threads of the session, and the id that is meant. Raises RyeError."""
    threads = AgentThreads(session.rye)
    named, registry = str(session.arguments.thread), session.rye.threads
    thread_id = find_thread(session, named)
    if threads.records.has(thread_id):
        return threads, thread_id
    required(session, registry.get(thread_id))  # it may have been pruned
    raise RyeError(
        f"{thread_id}: it is not a thread of a model",
        code="THREAD_NOT_FOUND",
        hint="list threads with: rye threads list --all",
    )


def find_thread(session: Session, named: str) -> str:
    """The id that is meant: of this project's registry, else of a journal. Each command asks this.

    Raises as `find_thread_id`.
    """
    try:
        return session.rye.threads.find(named)
    except ThreadNotFoundError as missing:
        if session.rye.context.confines:
            raise
        try:
            return find_thread_id(named, session.thread_records.ids(), missing.registry)
        except ThreadNotFoundError as error:
            raise (missing if missing.suggestions else error) from None


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


def _branch(session: Session) -> int:
    _require_person(session)
    threads, thread_id = _thread_of(session)
    ends, live = _ends_on_signals(session), _Live(session)
    following = Following(piece=live.piece, event=live.event, stop=ends.stop, finish=ends.finish)
    arguments = session.arguments
    answer = threads.branch(thread_id, arguments.turn, arguments.say, following)
    return show_end(session, answer, live)


def _raise(session: Session) -> int:
    _require_person(session)
    threads, thread_id = _thread_of(session)
    limits = read_limits(named_limits(session.arguments.limits, "raise"), "raise")
    with threads.records.reopen(thread_id) as journal:
        threads.require_own_purse(thread_id, journal.thread.start)
        ended = journal.thread.ended
        if ended is not None and ended.state == COMPLETED:
            raise RyeError(
                f"thread {thread_id}: it is completed, and uses nothing more",
                code="CONFLICT",
                hint=f"go on from a turn of it: rye threads branch {thread_id} --turn N",
            )
        journal.write(("raised", {"limits": limits}), force=True)
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
        is_over = ended.state == COMPLETED
        hint = (
            f"go on from a turn of it: rye threads branch {thread_id} --turn N"
            if is_over
            else f"go on with it: rye threads resume {thread_id}"
        )
        raise RyeError(
            f"thread {thread_id}: it has ended ({ended.state})", code="CONFLICT", hint=hint
        )


def _prune(session: Session) -> int:
    """Remove what ended long ago; what runs, or can be gone on with within that time, stays."""
    import time

    age = str(session.arguments.older or "")
    unit = _SECONDS.get(age[-1:], 0)
    if not unit or not age[:-1].isdecimal():
        raise UsageError(f"--older: expected a number with s, m, h or d, found {age!r:.40}")
    oldest = time.time() - int(age[:-1]) * unit
    removed = AgentThreads(session.rye).prune(oldest)
    lines = [*map(one_line, removed), f"{len(removed)} removed"]
    session.output.answer({"status": "success", "removed": removed}, "\n".join(lines))
    return 0


# --- what a journal says --------------------------------------------------------------------------


PRUNED = "pruned"
"""The state of a row whose thread was removed while the project of the row was out of reach."""


def as_journal_says(session: Session, row: Thread) -> Thread:
    """A row of the registry with what the journal says: the registry is a view, and may be wrong.

    It stays as it is for what Rye confined, which cannot read journals, and for what has none yet.
    Raises RyeError `INTEGRITY` for a journal that was changed.
    """
    if row.thread_mode != FORK or session.rye.context.confines:
        return row
    records, thread_id = session.thread_records, row.thread_id
    if not records.has(thread_id):
        return replace(row, state=PRUNED) if row.has_ended and row.state else row
    thread = records.read(thread_id)
    state, used = records.state_of(thread_id, thread), used_in_all(thread)
    return replace(
        row,
        status=status_of(state),
        state=state,
        error=(thread.ended.error or None) if thread.ended else None,
        turns=used.turns,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        spend=float(dollars(used.spend)),
    )


def required(session: Session, row: Thread) -> Thread:
    """As `as_journal_says`. Raises RyeError `THREAD_NOT_FOUND`, too, for one that was pruned."""
    thread = as_journal_says(session, row)
    if thread.state == PRUNED:
        raise RyeError(
            f"thread {row.thread_id}: it was pruned, only its row is left in"
            f" {session.rye.threads.place.registry}",
            code="THREAD_NOT_FOUND",
            hint="remove such rows with: rye threads prune --older 0s",
        )
    return thread


def thread_of_journal(session: Session, thread_id: str) -> Thread:
    """A thread that the registry of this project misses. Raises RyeError `THREAD_NOT_FOUND`."""
    event = session.thread_records.beginning(thread_id)
    if event is None:
        raise ThreadNotFoundError(thread_id, str(session.rye.threads.place.registry))
    return as_journal_says(session, _row(thread_id, event))


def waited_for(session: Session, thread_id: str, timeout_s: float | None) -> Thread:
    """Such a thread once no process runs it, with its answer; as it is after so many seconds."""
    from ryeos.app.thread_log import wait_until_over

    records = session.thread_records
    if not records.has(thread_id):
        raise ThreadNotFoundError(thread_id, str(session.rye.threads.place.registry))
    wait_until_over(records, thread_id, timeout_s)
    found = thread_of_journal(session, thread_id)
    thread = records.read(thread_id)
    if thread.ended is None:
        return found
    return replace(found, result=json.dumps(answer_of(thread_id, thread, thread.ended).envelope))


def without_rows(
    session: Session, thread_ids: Sequence[str], *, is_active: bool, since: str
) -> Iterator[Thread]:
    """Those of these threads that are of this project, as they began; its registry misses them.

    Of each journal its beginning is read, and nothing of one that was not written since a time.
    """
    records, project = session.thread_records, session.context.project_path
    for thread_id in thread_ids:
        written_at = time_text(records.changed_at(thread_id))
        is_left_out = written_at < since or (is_active and not records.is_running(thread_id))
        if is_left_out:
            continue
        try:
            event = records.beginning_in(thread_id, str(project) if project else None)
        except LilluxError:  # it was changed, as `as_journal_says` tells
            yield Thread(thread_id=thread_id, thread_mode=FORK, created_at=written_at)
            continue
        if event is not None:
            yield _row(thread_id, event)


def _row(thread_id: str, event: "LoggedEvent") -> Thread:
    return row_of(thread_id, begun(event.payload), event.timestamp)


def described(records: AgentRecords, thread_id: str) -> dict[str, Any]:
    """What a journal says of a thread, for `rye threads show`, beside `as_journal_says`."""
    thread = records.read(thread_id)
    used = used_in_all(thread)
    ended = thread.ended or Ended(state=records.state_of(thread_id, thread))
    return {
        **({"code": ended.code} if ended.code else {}),
        "project": thread.start.project,
        "model": f"{thread.frozen['provider']}/{thread.frozen['model']}",
        "used": {**used.as_dict(), "spend": dollars(used.spend)},
        "left": thread.purse.left().removeprefix("left: "),
        "turns": _turns(records, thread_id),
        "text": ended.text,
        "outputs": dict(ended.outputs),
    }


def show_agent_thread(session: Session, records: AgentRecords, row: Thread) -> int:
    """Show a thread with its purse and the cost of each turn: words for a person, or all data."""
    thread = records.read(row.thread_id)
    facts = described(records, row.thread_id)
    log = records.folder_of(row.thread_id) / LOG
    shown = row.describe() | facts | ({"log": str(log)} if log.is_file() else {})
    ended = thread.ended
    answer = answer_of(row.thread_id, thread, ended).envelope if ended else None
    envelope = {"status": "success", "thread": shown, "result": answer}
    session.output.answer(envelope, "\n".join(_lines(shown)))
    return 0


def _lines(shown: Mapping[str, Any]) -> Iterator[str]:
    """A thread in words."""
    why = f" ({shown['code']})" if "code" in shown else ""
    named = {
        "thread": shown["thread_id"],
        "item": shown["item_id"],
        "state": f"{shown['state']}{why}",
        "error": shown.get("error"),
        "model": shown["model"],
        "parent": shown.get("parent_id"),
        "project": shown["project"],
        "began": utc_text(shown["created_at"]) if "created_at" in shown else None,
        "ended": utc_text(shown["completed_at"]) if "completed_at" in shown else None,
        "used": _used_words(shown["used"]),
        "left": shown["left"],
        "log": shown.get("log"),
    }
    for name, value in named.items():
        if value:
            yield f"{name + ':':<9} {one_line(str(value))}"
    for row in shown["turns"]:
        yield _turn_line(row)
    if shown["text"]:
        yield "text:"
        yield from (f"  {line}" for line in without_control_characters(shown["text"]).split("\n"))
    for name, value in shown["outputs"].items():
        yield f"output {one_line(name)}: {one_line(_plain(value))}"


def _used_words(used: Mapping[str, Any]) -> str:
    """What was used, in words; what was not is left out, but for turns, tokens and money."""
    tokens = counted(used["tokens"], "token", "tokens")
    words = [
        counted(used["turns"], "turn", "turns"),
        f"{tokens} ({used['input_tokens']} in, {used['output_tokens']} out)",
        f"{used['spend']} dollars",
    ]
    words += [counted(used["tool_calls"], "tool call", "tool calls")] if used["tool_calls"] else []
    words += [f"{used['spawns']} started threads"] if used["spawns"] else []
    return ", ".join(words)


def _turn_line(row: Mapping[str, Any]) -> str:
    named = f"turn {row['turn']}" if row["turn"] else f"no answer ({row['code']})"
    words = [f"{row.get('input_tokens', 0)} in, {row.get('output_tokens', 0)} out"]
    words = words if row["turn"] else ["charged in full"]
    words.append(f"{row['spend']} dollars")
    calls = f"; calls {one_line(', '.join(row['calls']))}" if row["calls"] else ""
    return f"{named + ':':<9} {', '.join(words)}{calls}"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _turns(records: AgentRecords, thread_id: str) -> list[dict[str, Any]]:
    """A row for each turn, with what it used and cost, and the tools that it called.

    A request that was charged without an answer is a row without a turn.
    """
    rows: list[dict[str, Any]] = []
    thread, turn = None, 0
    for event in records.events(thread_id):
        said = event.payload
        spent = thread.purse.used.spend if thread else 0
        thread = after(thread, (event.event_type, said)) if thread else begun(said)
        cost = {"spend": dollars(thread.purse.used.spend - spent)}
        if event.event_type == "answered":
            turn += 1
            named = {name: count for name, count in said["usage"].items() if count}
            rows.append({"turn": turn, **named, **cost, "calls": []})
        elif event.event_type == "unanswered" and said["charged"]:
            rows.append({"turn": None, "code": said["code"], **cost, "calls": []})
        elif event.event_type == "called" and rows:
            rows[-1]["calls"].append(said["name"])
    return rows


RESUME = CommandSpec(_configure_thread, _resume, ["rye threads resume 9f2c"])
BRANCH = CommandSpec(
    _configure_branch,
    _branch,
    ["rye threads branch 9f2c --turn 3", 'rye threads branch 9f2c --turn 3 --say "Be brief."'],
)
RAISE = CommandSpec(_configure_raise, _raise, ["rye threads raise 9f2c spend=2 turns=50"])
STEER = CommandSpec(_configure_steer, _steer, ['rye threads steer 9f2c "Leave the tests alone."'])
CANCEL = CommandSpec(_configure_thread, _cancel, ["rye threads cancel 9f2c"])
PRUNE = CommandSpec(_configure_prune, _prune, ["rye threads prune --older 30d"])
