"""A thread: the ten steps in which a model carries a directive out.

(1) The start is frozen, and the journal is open (`ryeos.app.threads` does that)
(2) The request is built: a prefix that never changes, then what was said
(3) Its worst case is reserved, in the purse and in the ledger of the day
(4) The intent is written and forced to the disk, then it is sent
(5) The stream is read; only the last event of the dialect makes an answer
(6) The answer is written, the reservation settled
(7) Each call of a tool is decided
(8) Its intent is written and forced, it runs, its result is written
(9) All results go back, in the order of the calls
(10) The end: state, text and outputs

Nothing here knows files, HTTP or items: these are functions that the caller passes in.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import random
from typing import Any, Protocol

from lillux.cancellation import Cancellation
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.values import dataclass, replace
from ryeos.agent.exchange import Unanswered
from ryeos.agent.journal import (
    CANCELLED,
    COMPLETED,
    FAILED,
    REFUSED,
    STOPPED,
    AgentThread,
    Ended,
    described_answer,
    described_result,
)
from ryeos.agent.messages import (
    Answer,
    End,
    Entry,
    Piece,
    Question,
    Request,
    Results,
    ToolCall,
    ToolResult,
)
from ryeos.agent.prices import price_of
from ryeos.agent.purse import NextCall, Worst, worst_case
from ryeos.agent.records import Journal
from ryeos.items.errors import RyeError

MAX_CORRECTIONS = 2
_TOLD_AT, _STOPPED_AT = 3, 5
"""The same call with the same result so often: the model gets a word on it, the thread stops."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
_MAX_PAUSES = 10
_BYTES_OF_ENTRY = 512  # what a dialect writes around one text
_STOPPING = "LIMIT_"
_KEPT_TURNS = 2
_LONG_RESULT = 400
_SUMMARISE = """\
The context window is full. Answer with text alone, no calls: sum up what was done so far, which
results matter for what is left, and what is still open. This text will stand in place of it."""

CUT_ARGUMENTS = "not run: the answer ended at its limit of tokens, so its calls may not be whole"
UNKNOWN_OUTCOME = "interrupted, outcome unknown: the call began, and was not run again"
NOT_RUN = "not run"


# --- what a thread needs --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A call of a tool that may run. ``run`` makes it; ``item`` is what it calls, for the journal.

    only_reads     it changes nothing, or starts a child: it may run beside others
    is_repeatable  its item says ``retryable: true``: an interrupted call is made again
    outputs        the declared outputs that it gives, for `directive_return`; None for any other
    """

    call: ToolCall
    item: str
    run: Callable[[Cancellation], ToolResult]
    only_reads: bool = False
    is_repeatable: bool = False
    outputs: Mapping[str, Any] | None = None


class Tools(Protocol):
    """Decides calls of tools."""

    def decide(self, call: ToolCall, thread: AgentThread) -> "Planned | ToolResult":
        """What a call means; an error result for the model where it means nothing allowed."""


class Model(Protocol):
    """Asks models."""

    def body(self, frozen: Mapping[str, Any], request: Request) -> bytes:
        """The bytes of a request."""

    def ask(
        self,
        frozen: Mapping[str, Any],
        body: bytes,
        *,
        left_s: float,
        follow: Callable[[Piece], None],
        cancellation: Cancellation,
    ) -> Answer | Unanswered:
        """Send them once. Raises RyeError for a credential that cannot be had."""

    def tries(self, frozen: Mapping[str, Any]) -> int:
        """How often a call is sent at most."""


class DayLedger(Protocol):
    """What all threads of a user may spend on one day."""

    def left(self) -> int:
        """Nano-dollars."""

    def reserve(self, amount: int) -> str:
        """Hold back so much; a name. Raises RyeError `LIMIT_DAILY`."""

    def settle(self, name: str, amount: int) -> None:
        """Take it out again, and put in what was spent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What a thread works with.

    now     seconds of a clock that never goes back
    wait    waits so many seconds, or less when cancelled
    follow  hears the answer as it arrives
    tell    hears what happens, as ``(kind, facts)``: what `rye threads logs` prints
    keep    keeps a text, and gives the words that stand for it
    """

    model: Model
    tools: Tools
    ledger: DayLedger
    now: Callable[[], float]
    wait: Callable[[float, Cancellation], None]
    follow: Callable[[Piece], None] = lambda _piece: None
    tell: Callable[[str, Mapping[str, Any]], None] = lambda _kind, _facts: None
    keep: Callable[[str], str] = lambda text: text
    jitter: Callable[[], float] = random


_Decided = tuple[Planned | ToolResult, bool]
"""What becomes of a call, and whether it began before a kill."""


# --- the loop -------------------------------------------------------------------------------------


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
        thread = self._journal.thread
        while thread.ended is None:
            try:
                ended = self._turn()
            except RyeError as error:
                ended = self._ending_of(error)
            if ended is not None:
                self._end(ended)
            thread = self._journal.thread
        return thread.ended

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

    # ---------------------------------------------------------------- (2) to (6): the model

    def _ask(self) -> Ended | None:
        """Ask the model, and the next one of the list where the first is down at the beginning."""
        thread = self._journal.thread
        found = self._sent(thread.history, thread.new_entries)
        if isinstance(found, Answer):
            self._answered("answered", described_answer(found))
            asked = str(thread.frozen["model"])
            if found.model and not _is_same_model(asked, found.model):
                self._means.tell("other_model", {"asked": asked, "answered": found.model})
            return None
        return self._unanswered(found)

    def _sent(self, history: tuple[Entry, ...], new_entries: int) -> Answer | Unanswered:
        """Reserve, write the intent, send. Raises RyeError for a limit."""
        thread = self._journal.thread
        body, worst = self._reserved(thread, history, new_entries)
        entry = self._means.ledger.reserve(worst.spend)  # (3)
        intent = {
            "turn": thread.calls + 1,
            "digest": sha256_hex(body),
            "input_tokens": worst.input_tokens,
            "output_tokens": worst.output_tokens,
            "ledger": entry,
            **self._time(),
        }
        self._journal.write(("asked", intent), force=True)  # (4)
        self._means.tell("asked", {"turn": thread.calls + 1, "model": thread.frozen["model"]})
        return self._tried(thread.frozen, body)  # (5)

    def _reserved(
        self, thread: AgentThread, history: tuple[Entry, ...], new_entries: int
    ) -> tuple[bytes, Worst]:
        """The bytes of a request, and the most that it can use. Raises RyeError for a limit."""
        frozen, settings = thread.frozen, thread.start.settings
        most = frozen["max_output"] or settings["max_output"]
        request = _request(thread, history, most)
        body = self._means.model.body(frozen, request)
        pictures = _pictures(history)
        new = history[len(history) - new_entries :]
        call = NextCall(
            last=thread.usage,
            new_bytes=sum(map(_size, new)),
            request_bytes=len(body) - pictures[1],
            new_pictures=_pictures(new)[0],
            pictures=pictures[0],
            max_output=most,
        )
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
                left_s=max(left_s, 1.0),
                follow=self._means.follow,
                cancellation=self._stop,
            )
            if isinstance(found, Answer) or found.may_be_charged or not found.is_retryable:
                return found
            wait_s = found.retry_after_s
            if wait_s is None:
                wait_s = min(_FIRST_WAIT_S * 2 ** (number - 1), _LONGEST_WAIT_S)
                wait_s *= 0.5 + self._means.jitter() / 2
            if number == tries or wait_s >= self._left_s():
                return found
            self._means.tell("waiting", {"seconds": round(wait_s, 1), "reason": str(found.error)})
            self._means.wait(wait_s, self._stop)
            if self._stop.is_set:
                return replace(found, is_cancelled=True)
        raise AssertionError("the last try returns")

    def _answered(self, kind: str, said: Mapping[str, Any]) -> None:
        """Write an answer, and settle what was reserved for it."""
        thread = self._journal.thread
        entry, spent = thread.ledger_entry, thread.purse.used.spend
        after = self._journal.write((kind, {**said, **self._time()}), force=True)  # (6)
        self._means.ledger.settle(entry, after.purse.used.spend - spent)
        self._means.tell(kind, {"turn": after.calls, "text": said["text"]})

    def _unanswered(self, found: Unanswered) -> Ended | None:
        thread = self._journal.thread
        self._charge(found)
        if found.is_cancelled:
            return Ended(state=CANCELLED, code="CANCELLED", text=self._text())
        if found.error.code == "CONTEXT_FULL" and self._shorten():
            return None
        if found.may_be_charged and found.is_retryable:
            return None  # the call is made again, within the purse
        if not thread.calls and thread.model + 1 < len(thread.start.models) and found.is_retryable:
            self._journal.write(("moved", {"model": thread.model + 1}))
            return None
        return Ended(state=FAILED, code=found.error.code, error=_with_hint(found.error))

    def _charge(self, found: Unanswered) -> None:
        """Write why there is no answer: the reservation stays charged, or is given back."""
        thread = self._journal.thread
        entry, worst = thread.ledger_entry, thread.asked.worst if thread.asked else None
        said = {
            "turn": thread.calls + 1,
            "code": found.error.code,
            "error": str(found.error),
            "charged": found.may_be_charged,
            **({"partial": found.partial} if found.partial else {}),
            **self._time(),
        }
        self._journal.write(("unanswered", said), force=True)
        self._means.ledger.settle(entry, worst.spend if worst and found.may_be_charged else 0)
        self._means.tell("unanswered", said)

    # ---------------------------------------------------------------- a full window

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
        """Have the model of the thread say what was done, paid from the purse."""
        history = self._journal.thread.history
        answers = [n for n, entry in enumerate(history) if isinstance(entry, Answer)]
        if len(answers) <= _KEPT_TURNS + 1:
            return False
        kept = answers[-_KEPT_TURNS]
        shorter = (*history[:kept], Question(_SUMMARISE))
        found = self._sent(shorter, len(shorter))
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

    # ---------------------------------------------------------------- (7) to (9): the tools

    def _run_due_calls(self) -> Ended | None:
        """Decide and run the calls of the last answer that have no result yet."""
        while self._journal.thread.due:
            thread = self._journal.thread
            answer = thread.last_answer
            if answer is None:
                raise AssertionError("calls are due of the last answer")
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
            if answer.end is End.MAX_TOKENS:
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
        repeated = _times_before(thread.history, call, result) + 1
        if repeated >= _TOLD_AT:
            told = f"The same call gave the same result {repeated} times: do something else."
            result = replace(result, text=f"{result.text}\n{told}")
        if len(thread.due) == 1:
            left = thread.purse.with_elapsed(self._elapsed_s()).left()
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

    # ---------------------------------------------------------------- (10): the end

    def _ended_by_answer(self) -> Ended | None:
        """What an answer without calls means."""
        thread = self._journal.thread
        answer = thread.last_answer
        if answer is None or answer.calls:
            return None
        if answer.end is End.PAUSED and _pauses(thread.history) < _MAX_PAUSES:
            return None
        if answer.end in {End.REFUSAL, End.CONTEXT_FULL}:
            return self._ended_by_model(answer)
        if answer.end is End.MAX_TOKENS:
            problem = "the answer ended at its limit of tokens"
            words = f"Your last answer was cut: {problem}. Go on in smaller steps."
            return self._corrected(words, problem)
        if not thread.start.outputs:
            return Ended(state=COMPLETED, text=answer.text)
        return self._corrected(
            "Give the declared outputs with the tool directive_return.",
            "the model gave no declared outputs",
        )

    def _ended_by_model(self, answer: Answer) -> Ended | None:
        """The end of a model that refuses, or whose window is full. Neither is tried again."""
        if answer.end is End.REFUSAL:
            text = answer.refusal or answer.text
            return Ended(state=REFUSED, code="MODEL_REFUSED", error=text[:500], text=text)
        if self._shorten():
            return None
        return Ended(state=FAILED, code="CONTEXT_FULL", error="the context window is full")

    def _corrected(self, words: str, problem: str) -> Ended | None:
        """Tell the model what is missing; twice, then the thread fails."""
        if self._journal.thread.corrections >= MAX_CORRECTIONS:
            return Ended(state=FAILED, code="OUTPUT_INVALID", error=problem, text=self._text())
        self._journal.write(("said", {"by": "correction", "text": words}))
        return None

    def _ending_of(self, error: RyeError) -> Ended:
        """The end that an error is: a limit stops the thread, anything else lets it fail."""
        state = STOPPED if error.code.startswith(_STOPPING) else FAILED
        return Ended(state=state, code=error.code, error=_with_hint(error), text=self._text())

    def _end(self, ended: Ended) -> None:
        self._journal.write(("ended", {**ended.described(), **self._time()}))
        self._journal.seal()
        self._means.tell("ended", ended.described())

    # ---------------------------------------------------------------- a person

    def _is_cancelled(self) -> bool:
        return any(True for _ in self._journal.orders("cancel", "kill"))

    def _hear_person(self) -> None:
        """Put in what a person wants said at the next turn."""
        for _, text in self._journal.orders("steer"):
            self._journal.write(("said", {"by": "person", "text": text}), force=True)

    # ---------------------------------------------------------------- figures

    def _text(self) -> str:
        """The text of the last answer that has one."""
        answers = (one for one in reversed(self._journal.thread.history) if isinstance(one, Answer))
        return next((one.text for one in answers if one.text), "")

    def _elapsed_s(self) -> int:
        return int(self._means.now() - self._began)

    def _left_s(self) -> float:
        limit: int = self._journal.thread.purse.limits.duration_s
        return limit - (self._means.now() - self._began)

    def _time(self) -> dict[str, int]:
        return {"elapsed_s": self._elapsed_s()}


# --- requests and results -------------------------------------------------------------------------


def _request(thread: AgentThread, history: tuple[Entry, ...], max_tokens: int) -> Request:
    start = thread.start
    return Request(
        model=str(thread.frozen["model"]),
        system=start.system,
        history=history,
        max_tokens=max_tokens,
        tools=start.offers,
        features=frozenset(thread.frozen["features"]),
    )


def _size(entry: Entry) -> int:
    """At least the bytes of an entry in a request, without those of pictures."""
    match entry:
        case Question(text):
            texts = [text]
        case Results(results):
            texts = [one.text for one in results]
        case Answer(blocks=blocks):
            texts = [str(dict(one)) for one in blocks]
    return sum(_escaped_size(text) + _BYTES_OF_ENTRY for text in texts)


def _escaped_size(text: str) -> int:
    import json

    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def _pictures(entries: Sequence[Entry]) -> tuple[int, int]:
    """How many pictures are in them, and the bytes of their base64."""
    found = [
        len(picture.data)
        for entry in entries
        if isinstance(entry, Results)
        for result in entry.results
        for picture in result.pictures
    ]
    return len(found), sum(4 * ((size + 2) // 3) for size in found)


def _times_before(history: Sequence[Entry], call: ToolCall, result: ToolResult) -> int:
    """How often the same call gave the same result right before, in a row."""
    times = 0
    same = (call.name, call.arguments, _bare(result.text))
    for answer, results in _turns_backwards(history):
        before = [
            (one.name, one.arguments, _bare(given.text))
            for one, given in zip(answer.calls, results.results, strict=False)
        ]
        if same not in before:
            return times
        times += before.count(same)
    return times


def _turns_backwards(history: Sequence[Entry]) -> Iterator[tuple[Answer, Results]]:
    for place in range(len(history) - 1, 0, -1):
        answer, results = history[place - 1], history[place]
        if isinstance(answer, Answer) and isinstance(results, Results):
            yield answer, results


def _bare(text: str) -> str:
    """A result without the lines that this loop put behind it."""
    lines = text.split("\n")
    while lines and lines[-1].startswith(("[left: ", "The same call gave the same result ")):
        lines.pop()
    return "\n".join(lines)


def _pauses(history: Sequence[Entry]) -> int:
    """How many answers at the end paused, one after another."""
    count = 0
    for entry in reversed(history):
        if not (isinstance(entry, Answer) and entry.end is End.PAUSED):
            break
        count += 1
    return count


def _error(call: ToolCall, problem: str) -> ToolResult:
    return ToolResult(call_id=call.id, name=call.name, text=problem, is_error=True)


def _is_same_model(asked: str, answered: str) -> bool:
    """Providers add a date to a name, or leave out their own."""
    short, long = sorted((asked.rpartition("/")[2], answered.rpartition("/")[2]), key=len)
    return long.startswith(short)


def _with_hint(error: LilluxError) -> str:
    hint = getattr(error, "hint", "")
    return f"{error}; {hint}" if hint else str(error)
