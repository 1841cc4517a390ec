"""A thread: the ten steps in which a model carries a directive out.

(1) The start is frozen, and the journal is open (`ryeos.app.agent_threads` does that)
(2) The request is built: a prefix that never changes, then what was said
(3) Its worst case is reserved, in the purse and in the ledger of the day, and its receipt
(4) The intent is written and forced to the disk, then it is sent
(5) The stream is read; only the last event of the dialect makes an answer
(6) The answer is written, the reservation settled
(7) Each call of a tool is decided
(8) Its intent is written and forced, it runs, its result is written
(9) All results go back, in the order of the calls
(10) The end: state, text and outputs

Nothing here knows files, HTTP or items: these are functions that the caller passes in.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import ceil
from threading import Event, Thread
from typing import Any

from lillux.cancellation import Cancellation
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.values import replace
from ryeos.agent.exchange import Unanswered
from ryeos.agent.journal import described_answer, described_result
from ryeos.agent.means import Means, Planned
from ryeos.agent.messages import (
    Answer,
    End,
    Entry,
    Question,
    Request,
    Results,
    ToolCall,
    ToolResult,
    Usage,
)
from ryeos.agent.prices import is_believable, price_of
from ryeos.agent.purse import BYTES_OF_TOKEN, Worst
from ryeos.agent.records import Journal
from ryeos.agent.thread_requests import (
    as_text,
    next_call,
    pauses_at_end,
    request_of,
    times_before,
    window_of,
)
from ryeos.agent.thread_state import (
    ACTIVE,
    CANCELLED,
    COMPLETED,
    FAILED,
    REFUSED,
    STOPPED,
    AgentThread,
    Ended,
)
from ryeos.agent.worst_case import worst_case
from ryeos.items.errors import RyeError

MAX_CORRECTIONS = 2
_TOLD_AT, _STOPPED_AT = 3, 5
"""The same call with the same result so often: the model gets a word on it, the thread stops."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
_SHORTEST_S = 0.1
"""Less time than this is no time for a request: the thread is at its limit."""
_TICK_S, _TICKS = 1.0, 50
"""While a request or a call lasts, the journal gets the time so far: at most so often, and as often
as the time grew by so large a part. A kill takes no more than that from what counts."""
_ROOM = 4
"""So large a part of a window, or the most that a model writes, is kept free for an answer."""
_WORTH_SHORTENING = 10
"""The part of the window that is worth making shorter, at least."""
_MAX_PAUSES = 10
_STOPPING = "LIMIT_"
_KEPT_TURNS = 2
_LONG_RESULT = 400
_KEPT_PARTIAL = 8_000  # characters of an answer that was cut, which is not sent again
_SUMMARISE = """\
The context window is full. Answer with text alone, no calls: sum up what was done so far, which
results matter for what is left, and what is still open. This text will stand in place of it."""

CUT_ARGUMENTS = "not run: the answer ended at its limit of tokens, so its calls may not be whole"
UNKNOWN_OUTCOME = "interrupted, outcome unknown: the call began, and was not run again"
NOT_RUN = "not run"

_CUT = frozenset({End.MAX_TOKENS, End.CONTEXT_FULL})
"""Calls of an answer that ended so may not be whole."""
_Decided = tuple[Planned | ToolResult, bool]
"""A decided call, and whether it began before a kill."""


class ThreadLoop:
    """Carries one thread out. ``stop`` ends it at once, ``finish`` after the present turn."""

    def __init__(
        self, journal: Journal, means: Means, *, stop: Cancellation, finish: Cancellation
    ) -> None:
        self._journal, self._means = journal, means
        self._stop, self._finish = stop, finish
        self._began = means.now() - journal.thread.purse.elapsed_s

    def run(self) -> Ended:
        """The end of the thread, which is in its journal then. Raises FileSystemError."""
        ended = self._journal.thread.ended
        if ended is None:
            with self._counting_time():
                while ended is None:
                    try:
                        ended = self._turn()
                    except RyeError as error:
                        ended = self._ending_of(error)
            self._end(ended)
        return ended

    @contextmanager
    def _counting_time(self) -> Iterator[None]:
        """Write the time of the thread also while nothing else is written."""
        over = Event()

        def count() -> None:
            while not over.wait(_TICK_S):
                known, now = self._journal.thread.purse.elapsed_s, self._elapsed_s()
                if now - known >= max(_TICK_S, now // _TICKS):
                    try:
                        self._journal.write((ACTIVE, self._time()))
                    except LilluxError:  # the next write of the loop says so
                        return

        counting = Thread(target=count, name="rye-thread-time", daemon=True)
        counting.start()
        try:
            yield
        finally:
            over.set()
            counting.join()

    def _turn(self) -> Ended | None:
        """One turn, or the end; what a kill left open comes first."""
        self._close_open_request()
        if ended := self._run_due_calls():  # (7) (8) (9)
            return ended
        if self._stop.is_set or self._finish.is_set or self._is_cancelled():
            return Ended(state=CANCELLED, code="CANCELLED", text=self._text())
        self._hear_person()
        if ended := self._ended_by_answer():  # (10)
            return ended
        return self._ask()  # (2) to (6)

    # (2) to (6): the model

    def _ask(self) -> Ended | None:
        """Ask the model, and the next one of the list where the first is down at the beginning."""
        thread = self._journal.thread
        if self._fills_window(thread) and self._shorten():
            return None
        found = self._sent(thread.history, thread.new_entries)
        if isinstance(found, Answer):
            self._answered("answered", described_answer(found))
            asked = str(thread.frozen["model"])
            if found.model and not _is_same_model(asked, found.model):
                self._means.tell("other_model", {"asked": asked, "answered": found.model})
            return None
        return self._unanswered(found)

    def _sent(
        self,
        history: tuple[Entry, ...],
        new_entries: int,
        compact: Mapping[str, Any] | None = None,
    ) -> Answer | Unanswered:
        """Reserve, write the intent, send; to the model of summaries where that is given.

        Raises RyeError for a limit.
        """
        thread = self._journal.thread
        frozen = compact or thread.frozen
        request = request_of(thread, history, frozen, has_tools=not compact)
        last = None if compact else thread.usage
        body, worst = self._reserved(frozen, request, new_entries, last)
        entry = self._means.ledger.reserve(worst.spend)  # (3)
        intent: dict[str, Any] = {
            "turn": thread.calls + 1,
            "digest": sha256_hex(body),
            "input_tokens": worst.input_tokens,
            "output_tokens": worst.output_tokens,
            "ledger": entry,
            **({"compact": True} if compact else {}),
            **self._time(),
        }
        try:
            intent["receipt"] = self._means.receipts.begin(thread, intent)
        except RyeError:
            self._means.ledger.settle(entry, 0)
            raise
        self._journal.write(("asked", intent), force=True)  # (4)
        self._means.tell("asked", {"turn": thread.calls + 1, "model": frozen["model"]})
        return self._tried(frozen, body)  # (5)

    def _reserved(
        self, frozen: Mapping[str, Any], request: Request, new_entries: int, last: Usage | None
    ) -> tuple[bytes, Worst]:
        """The bytes of a request, and the most that it can use. Raises RyeError for a limit."""
        thread, most = self._journal.thread, request.max_tokens
        settings = thread.start.settings
        body = self._means.model.body(frozen, request)
        call = next_call(request, body, new_entries, last)
        if window := window_of(frozen):  # servers refuse what could become longer than that
            room = window - call.likely_input(settings["image_tokens"])
            call = replace(call, max_output=min(most, max(room, settings["min_output"])))
        purse = thread.purse.with_elapsed(self._elapsed_s())
        worst = worst_case(
            purse,
            call,
            price_of(frozen["prices"], str(frozen["model"])),
            daily_left=self._means.ledger.left(),
            min_output=settings["min_output"],
            overhead=settings["overhead"],
            image_tokens=settings["image_tokens"],
        )
        purse.reserve(worst)  # the turn and the time, too
        if worst.output_tokens != most:
            request = replace(request, max_tokens=worst.output_tokens)
            body = self._means.model.body(frozen, request)
        return body, worst

    def _tried(self, frozen: Mapping[str, Any], body: bytes) -> Answer | Unanswered:
        """An answer, or the last failure. Only what was not charged is sent again here."""
        tries = self._means.model.tries(frozen)
        for number in range(1, tries + 1):
            left_s = self._left_s()
            found = self._means.model.ask(
                frozen,
                body,
                left_s=max(left_s, _SHORTEST_S),
                follow=self._means.follow,
                cancellation=self._stop,
            )
            if isinstance(found, Answer) or found.may_be_charged or not found.is_retryable:
                return found
            wait_s = found.retry_after_s
            if wait_s is None:
                wait_s = self._pause_s(number)
            if number == tries:
                return found
            if wait_s >= self._left_s():
                return replace(found, wait_s=wait_s)
            self._means.tell("waiting", {"seconds": round(wait_s, 1), "reason": str(found.error)})
            self._means.wait(wait_s, self._stop)
            if self._stop.is_set:
                return replace(found, is_cancelled=True)
        raise AssertionError("the last try returns")

    def _answered(self, kind: str, said: Mapping[str, Any]) -> None:
        """Write an answer, and settle what was reserved for it."""
        thread = self._journal.thread
        before = thread.purse.used.spend
        after = self._journal.write((kind, {**said, **self._time()}), force=True)  # (6)
        spent = after.purse.used.spend - before
        self._means.ledger.settle(thread.ledger_entry, spent)
        self._means.receipts.end(thread, said, spent)
        self._means.tell(kind, {"turn": after.calls, "text": said["text"]})

    def _unanswered(self, found: Unanswered) -> Ended | None:
        thread = self._journal.thread
        self._charge(found)
        if found.is_cancelled:
            return Ended(state=CANCELLED, code="CANCELLED", text=self._text())
        if found.error.code == "CONTEXT_FULL" and self._shorten():
            return None
        if found.may_be_charged and found.is_retryable and self._waits_after_cut(found):
            return None  # the call is made again, within the purse
        if not thread.calls and thread.model + 1 < len(thread.start.models) and found.is_retryable:
            self._journal.write(("moved", {"model": thread.model + 1}))
            return None
        if found.wait_s is not None:
            return self._ended_before_wait(found, found.wait_s)
        return Ended(state=FAILED, code=found.error.code, error=_with_hint(found.error))

    def _ended_before_wait(self, found: Unanswered, wait_s: float) -> Ended:
        """The end of a thread whose time is over before its provider may be asked again."""
        seconds, purse = ceil(wait_s), self._journal.thread.purse.with_elapsed(self._elapsed_s())
        limit = purse.limit_error("duration_s", seconds)
        problem = f"{limit} until the provider is asked again: {found.error}"
        return replace(self._ending_of(limit), error=problem, wait_s=seconds)

    def _waits_after_cut(self, found: Unanswered) -> bool:
        """Wait before a request that was charged is made again; False after its last try.

        Where no time is left, the next request says so: its limit stops the thread.
        """
        thread = self._journal.thread
        if thread.cuts >= self._means.model.tries(thread.frozen):
            return False
        wait_s = min(self._pause_s(thread.cuts), max(self._left_s(), 0.0))
        self._means.tell("waiting", {"seconds": round(wait_s, 1), "reason": str(found.error)})
        self._means.wait(wait_s, self._stop)
        return True

    def _pause_s(self, tries: int) -> float:
        """The time to leave a provider alone after so many tries: ever longer, never the same."""
        longest: float = min(_FIRST_WAIT_S * 2 ** max(tries - 1, 0), _LONGEST_WAIT_S)
        return longest * (0.5 + self._means.jitter() / 2)

    def _charge(self, found: Unanswered) -> None:
        """Write why there is no answer: the reservation stays charged, or is given back.

        Raises RyeError `LIMIT_DURATION_S` where the time of the thread is over: whatever that made
        of the call, the limit is why there is no answer.
        """
        thread = self._journal.thread
        worst = thread.asked.worst if thread.asked else None
        spent = worst.spend if worst and found.may_be_charged else 0
        said = {
            "turn": thread.calls + 1,
            "code": found.error.code,
            "error": str(found.error),
            "charged": found.may_be_charged,
            **({"partial": found.partial[:_KEPT_PARTIAL]} if found.partial else {}),
            **self._time(),
        }
        self._journal.write(("unanswered", said), force=True)
        self._means.ledger.settle(thread.ledger_entry, spent)
        self._means.receipts.end(thread, said, spent)
        self._means.tell("unanswered", said)
        if found.is_retryable and self._left_s() < _SHORTEST_S:
            over = thread.purse.with_elapsed(thread.purse.limits.duration_s)
            raise over.limit_error("duration_s", 1)

    def _fills_window(self, thread: AgentThread) -> bool:
        """True if the next request leaves no room for an answer, and has room without what is old.

        Some servers cut the beginning off instead of refusing: the directive would be forgotten.
        """
        window = window_of(thread.frozen)
        if not window:
            return False
        request = request_of(thread, thread.history, thread.frozen, has_tools=True)
        is_known = thread.usage is not None and is_believable(thread.usage)
        body = b"" if is_known else self._means.model.body(thread.frozen, request)
        call = next_call(request, body, thread.new_entries, thread.usage)
        likely = call.likely_input(thread.start.settings["image_tokens"])
        most = window - min(request.max_tokens, window // _ROOM)
        if likely <= most:
            return False
        old = len(as_text(thread.history[1 : -2 * _KEPT_TURNS])) // BYTES_OF_TOKEN
        return old >= window // _WORTH_SHORTENING and likely - old <= most

    def _shorten(self) -> bool:
        """Make the history shorter: old results become addresses, then a summary stands for turns.

        The directive, its inputs and the last turns stay. False where nothing is left to shorten.
        """
        if self._journal.thread.shortenings == 0 and self._refer_results():
            return True
        return self._journal.thread.shortenings <= 1 and self._summarise()

    def _refer_results(self) -> bool:
        thread = self._journal.thread
        texts = {
            one.call_id: self._means.keep(one.text)
            for entry in thread.history[: -2 * _KEPT_TURNS]
            if isinstance(entry, Results)
            for one in entry.results
            if len(one.text) > _LONG_RESULT
        }
        if texts:
            self._journal.write(("referred", {"texts": texts}))
        return bool(texts)

    def _summarise(self) -> bool:
        """Have a model say what was done, paid from the purse: the thread's, or that of summaries.

        What one provider answered no other takes back, so that one reads all of it as a text.
        """
        history = self._journal.thread.history
        answers = [n for n, entry in enumerate(history) if isinstance(entry, Answer)]
        if len(answers) <= _KEPT_TURNS + 1:
            return False
        kept = answers[-_KEPT_TURNS]
        shorter: tuple[Entry, ...] = (*history[:kept], Question(_SUMMARISE))
        compact = self._journal.thread.start.compact
        if compact:
            shorter = (Question(f"{_SUMMARISE}\n\n{as_text(history[:kept])}"),)
        found = self._sent(shorter, len(shorter), compact)
        if isinstance(found, Unanswered) or not found.text:
            if isinstance(found, Unanswered):
                self._charge(found)
            return False
        self._answered("shortened", {**described_answer(found), "kept": kept})
        return True

    def _close_open_request(self) -> None:
        """A request that a kill left without an answer is charged in full."""
        thread = self._journal.thread
        if thread.asked is None:
            return
        spend = thread.asked.worst.spend
        said = {"turn": thread.calls + 1, "code": "INTERRUPTED", "error": "", "charged": True}
        self._journal.write(("unanswered", said), force=True)
        self._means.ledger.settle(thread.ledger_entry, spend)
        self._means.receipts.end(thread, said, spend)

    # (7) to (9): the tools

    def _run_due_calls(self) -> Ended | None:
        """Decide and run the calls of the last answer that have no result yet."""
        while self._journal.thread.due:
            thread = self._journal.thread
            answer = thread.last_answer
            if answer is None:
                raise AssertionError("calls are due of the last answer")
            if answer.end is End.REFUSAL:  # none of them runs
                return _refused(answer)
            together = self._next_calls(thread, answer)
            for result, outputs in self._results(together):
                ended = self._returned(result, outputs)
                if ended is not None:
                    return ended
        return None

    def _next_calls(self, thread: AgentThread, answer: Answer) -> Sequence[_Decided]:
        """The next call, or several that only read; with each whether it began before a kill."""
        chosen: list[_Decided] = []
        for call in thread.due:
            has_begun = call.id in thread.called
            if answer.end in _CUT:
                plan: Planned | ToolResult = _error(call, CUT_ARGUMENTS)
            elif self._stop.is_set:
                plan = _error(call, f"{NOT_RUN}: the thread was stopped")
            else:
                plan = self._means.tools.decide(call, thread)
            if has_begun and isinstance(plan, Planned) and not plan.is_repeatable:
                plan = _error(call, UNKNOWN_OUTCOME)
            is_alone = isinstance(plan, Planned) and not plan.only_reads
            if is_alone and chosen:
                break
            chosen.append((plan, has_begun))
            if is_alone:
                break
        return chosen

    def _results(
        self, plans: Sequence[_Decided]
    ) -> Iterator[tuple[ToolResult, Mapping[str, Any] | None]]:
        """The result of each, and the outputs that it gives; those that only read run together."""
        refused: dict[str, ToolResult] = {}
        running: list[Planned] = []
        for plan, has_begun in plans:
            if isinstance(plan, Planned):
                refused.update({} if has_begun else self._begun(plan))
                running += [] if plan.call.id in refused else [plan]
        made = self._run_together(running)
        for decided, _ in plans:
            if isinstance(decided, ToolResult):
                yield decided, None
            elif decided.call.id in refused:
                yield refused[decided.call.id], None
            else:
                yield made[decided.call.id], decided.outputs

    def _begun(self, plan: Planned) -> dict[str, ToolResult]:
        """Write that a call is about to run; an error result where the purse has none left."""
        call = plan.call
        said = {
            "call_id": call.id,
            "name": call.name,
            "item": plan.item,
            "arguments": sha256_hex(call.arguments.encode("utf-8", "surrogatepass")),
            **self._time(),
        }
        try:
            self._journal.write(("called", said), force=True)  # (8)
        except RyeError as error:
            if not error.code.startswith(_STOPPING):
                raise
            return {call.id: _error(call, f"{NOT_RUN}: {error}")}
        self._means.tell("called", {"name": call.name, "item": plan.item})
        return {}

    def _run_together(self, plans: Sequence[Planned]) -> dict[str, ToolResult]:
        if len(plans) < 2:  # noqa: PLR2004 - one needs no other thread
            return {plan.call.id: plan.run(self._stop) for plan in plans}
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(max_workers=min(len(plans), 8)) as pool:
            made = {plan.call.id: pool.submit(plan.run, self._stop) for plan in plans}
            return {call_id: running.result() for call_id, running in made.items()}

    def _returned(self, result: ToolResult, outputs: Mapping[str, Any] | None) -> Ended | None:
        """Write a result; the last one of a turn tells the model what is left of the purse."""
        thread = self._journal.thread
        call = next(one for one in thread.due if one.id == result.call_id)
        repeated = times_before(thread.history, call, result) + 1
        if repeated >= _TOLD_AT:
            told = f"The same call gave the same result {repeated} times: do something else."
            result = replace(result, text=f"{result.text}\n{told}")
        if len(thread.due) == 1:
            left = thread.purse.with_elapsed(self._elapsed_s()).left(self._left_today(thread))
            result = replace(result, text=f"{result.text}\n[{left}]")
        said = {**described_result(result), **self._time()}
        self._journal.write(("returned", said))
        self._means.tell("returned", {"name": call.name, "is_error": result.is_error})
        if repeated >= _STOPPED_AT and not self._journal.thread.due:
            problem = f"the call {call.name} gave the same result {repeated} times"
            return Ended(state=STOPPED, code="LOOPING", error=problem, text=self._text())
        if outputs is not None and not self._journal.thread.due:
            return Ended(state=COMPLETED, text=self._text(), outputs=outputs)
        return None

    def _left_today(self, thread: AgentThread) -> int | None:
        """The nano-dollars that are left for today; None for a model that costs none."""
        price = price_of(thread.frozen["prices"], str(thread.frozen["model"]))
        is_free = price.affordable_output(0, 0) is None
        return None if is_free else self._means.ledger.left()

    # (10): the end

    def _ended_by_answer(self) -> Ended | None:
        """The end that an answer without calls means."""
        thread = self._journal.thread
        answer = thread.last_answer
        if answer is None or answer.calls:
            return None
        ended: Ended | None = Ended(state=COMPLETED, text=answer.text)
        match answer.end:
            case End.REFUSAL:
                ended = _refused(answer)
            case End.PAUSED:
                ended = self._ended_by_pauses()
            case End.CONTEXT_FULL:
                full = Ended(state=FAILED, code="CONTEXT_FULL", error="the context window is full")
                ended = None if self._shorten() else full
            case End.MAX_TOKENS:
                problem = "the answer ended at its limit of tokens"
                words = f"Your last answer was cut: {problem}. Go on in smaller steps."
                ended = self._corrected(words, problem)
            case _ if thread.start.outputs:
                words = "Give the declared outputs with the tool directive_return."
                ended = self._corrected(words, "the model gave no declared outputs")
        return ended

    def _ended_by_pauses(self) -> Ended | None:
        """The end of a thread whose provider wants to go on again and again, None to go on."""
        pauses = pauses_at_end(self._journal.thread.history)
        if pauses < _MAX_PAUSES:
            return None
        problem = f"the provider paused {pauses} times, and the model did not end"
        return Ended(state=STOPPED, code="LOOPING", error=problem, text=self._text())

    def _corrected(self, words: str, problem: str) -> Ended | None:
        """Tell the model what is missing; twice, then the thread fails."""
        if self._journal.thread.corrections >= MAX_CORRECTIONS:
            return Ended(state=FAILED, code="OUTPUT_INVALID", error=problem, text=self._text())
        self._journal.write(("said", {"by": "correction", "text": words}))
        return None

    def _ending_of(self, error: RyeError) -> Ended:
        """The end that an error is: a limit stops the thread, anything else lets it fail."""
        state = STOPPED if error.code.startswith(_STOPPING) else FAILED
        error.hint = self._means.hints.get(error.code, error.hint)
        return Ended(state=state, code=error.code, error=_with_hint(error), text=self._text())

    def _end(self, ended: Ended) -> None:
        self._journal.write(("ended", {**ended.described(), **self._time()}), force=True)
        self._means.tell("ended", ended.described())

    def _is_cancelled(self) -> bool:
        return any(True for _ in self._journal.orders("cancel", "kill"))

    def _hear_person(self) -> None:
        """Put in what a person wants said at the next turn."""
        for _, text in self._journal.orders("steer"):
            self._journal.write(("said", {"by": "person", "text": text}), force=True)

    def _text(self) -> str:
        """The text of the last answer that has one."""
        answers = (one for one in reversed(self._journal.thread.history) if isinstance(one, Answer))
        return next((one.text for one in answers if one.text), "")

    def _elapsed_s(self) -> int:
        return int(self._means.now() - self._began)

    def left_s(self) -> float:
        """Seconds that the thread has left; a call of a tool gets no more."""
        return max(self._left_s(), _SHORTEST_S)

    def _left_s(self) -> float:
        limit: int = self._journal.thread.purse.limits.duration_s
        return limit - (self._means.now() - self._began)

    def _time(self) -> dict[str, int]:
        return {"elapsed_s": self._elapsed_s()}


def _refused(answer: Answer) -> Ended:
    """The end of a model that refuses: nothing is tried again."""
    text = answer.refusal or answer.text
    return Ended(state=REFUSED, code="MODEL_REFUSED", error=text[:500], text=text)


def _error(call: ToolCall, problem: str) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, text=problem, is_error=True)


def _is_same_model(asked: str, answered: str) -> bool:
    """Providers add a date to a name, or leave out their own."""
    short, long = sorted((asked.rpartition("/")[2], answered.rpartition("/")[2]), key=len)
    return long.startswith(short)


def _with_hint(error: LilluxError) -> str:
    hint = getattr(error, "hint", "")
    return f"{error}; {hint}" if hint else str(error)
