"""The journal of a thread: what was intended, then what came of it; and the thread that it makes.

It is a record as graphs write theirs (`ryeos.graph.transcript.Transcript`), in a folder of user
space that no program reaches which Rye confined. A thread is what `after` makes of the events, one
by one. The loop works with the same value, so a thread that was killed goes on where its journal
ends.

    thread      what it was started with: item, inputs, models, prefix, limits, rights
    asked       a request is about to be sent: its digest, what is reserved, and the digest of its
                receipt, which is reserved, too; ``compact`` where it asks the model of summaries
    answered    the provider's blocks, and what it said of its use
    unanswered  why there is no answer, and whether the reservation stays charged
    moved       the next model of the list is asked, as this one gave no first answer
    called      a call of a tool is about to run
    returned    its result, or why there is none
    said        a text of a person, or of Rye, for the next request
    lent        a child starts: the limits that it asks for
    gathered    a child ended: what it used
    referred    addresses stand for old results
    shortened   the answer of the model that stands for the entries before ``kept``
    raised      a person gave more
    active      time passed while a request or a call lasted; so a kill gives none of it again
    resumed     it was stopped or interrupted, and goes on
    ended       state, code, text and outputs
"""

from collections.abc import Callable, Mapping
from typing import Any

from lillux.values import replace
from ryeos.agent.limits import Limits
from ryeos.agent.messages import (
    Answer,
    End,
    Entry,
    Picture,
    Question,
    Results,
    ToolCall,
    ToolResult,
    Usage,
)
from ryeos.agent.prices import price_of
from ryeos.agent.purse import Amounts, Purse, Reservation, Worst
from ryeos.agent.thread_state import ACTIVE, AgentThread, Ended, start_of
from ryeos.graph.transcript import EventRecord


def begun(said: Mapping[str, Any]) -> AgentThread:
    """The thread after its first event."""
    start = start_of(said)
    thread = AgentThread(
        start=start,
        purse=Purse(limits=start.limits),
        history=(Question(start.question),),
        new_entries=1,
    )
    return _branched(thread) if start.previous else thread


def _branched(thread: AgentThread) -> AgentThread:
    """A branch begins with what was said in the older thread, and with a purse of its own."""
    previous = thread.start.previous
    (_, started), *events = previous["events"]
    older = begun(started)
    for kind, said in events:
        older = after(older, (kind, said))
    heard = (Question(previous["text"]),) if previous.get("text") else ()
    return replace(
        thread,
        history=(*older.history, *heard),
        due=older.due,
        called=older.called,
        results=older.results,
        usage=older.usage,
        new_entries=older.new_entries + len(heard),
        model=older.model,
        calls=older.calls,
    )


def after(thread: AgentThread, event: EventRecord) -> AgentThread:
    """The thread after one more event; one that it does not know changes nothing."""
    kind, said = event
    change = _CHANGES.get(kind)
    if change is None:
        return thread
    elapsed_s = said.get("elapsed_s")
    if type(elapsed_s) is int and elapsed_s > thread.purse.elapsed_s:
        thread = replace(thread, purse=thread.purse.with_elapsed(elapsed_s))
    return change(thread, said)


def asked_model(thread: AgentThread, intent: Mapping[str, Any]) -> Mapping[str, Any]:
    """The provider and the model that a request asks: those of the thread, or of summaries."""
    return thread.start.compact if intent.get("compact") else thread.frozen


def _after_asked(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    frozen = asked_model(thread, said)
    price = price_of(frozen["prices"], str(frozen["model"]))
    worst = Worst(said["input_tokens"], said["output_tokens"], price)
    purse, asked = thread.purse.reserve(worst)
    return replace(thread, purse=purse, asked=asked, intent=said)


def _after_answered(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    answer = answer_of(said)
    return replace(
        thread,
        purse=thread.purse.settle(_asked(thread), answer.usage),
        asked=None,
        history=(*thread.history, answer),
        # On `max_tokens` no call of that answer runs; the loop gives each an error as its result.
        due=answer.calls,
        called=frozenset(),
        results=(),
        usage=answer.usage,
        new_entries=0,
        calls=thread.calls + 1,
        shortenings=0,
        cuts=0,
    )


def _after_unanswered(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    asked = _asked(thread)
    settle = thread.purse.charge_in_full if said["charged"] else thread.purse.release
    cuts = thread.cuts + bool(said["charged"])
    return replace(thread, purse=settle(asked), asked=None, cuts=cuts)


def _after_moved(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    return replace(thread, model=said["model"])


def _after_called(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    return replace(
        thread, purse=thread.purse.with_tool_calls(1), called=thread.called | {said["call_id"]}
    )


def _after_returned(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    """All results go back at once, in the order of the calls, when the last one is there."""
    result = _result_of(said)
    due = tuple(one for one in thread.due if one.id != result.call_id)
    results = (*thread.results, result)
    if due:
        return replace(thread, due=due, results=results)
    answer = thread.last_answer
    order = {one.id: place for place, one in enumerate(answer.calls if answer else ())}
    ordered = tuple(sorted(results, key=lambda one: order.get(one.call_id, len(order))))
    return replace(
        thread,
        due=(),
        called=frozenset(),
        results=(),
        history=(*thread.history, Results(ordered)),
        new_entries=thread.new_entries + 1,
    )


def _after_said(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    return replace(
        thread,
        history=(*thread.history, Question(said["text"])),
        new_entries=thread.new_entries + 1,
        corrections=thread.corrections + (said["by"] == "correction"),
    )


def _after_lent(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    purse, child = thread.purse.take_child(said["wanted"], defaults=Limits(**said["defaults"]))
    return replace(thread, purse=purse, children={**thread.children, said["thread_id"]: child})


def _after_gathered(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    children = dict(thread.children)
    child = children.pop(said["thread_id"])
    return replace(
        thread,
        purse=thread.purse.return_child(child, Amounts(**said["used"])),
        children=children,
    )


def _after_referred(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    """Old results of tools become the address of their text."""
    texts: Mapping[str, str] = said["texts"]

    def referred(entry: Entry) -> Entry:
        if not isinstance(entry, Results):
            return entry
        return Results(
            tuple(
                replace(one, text=texts[one.call_id], pictures=()) if one.call_id in texts else one
                for one in entry.results
            )
        )

    return _rewritten(thread, tuple(map(referred, thread.history)))


def _after_shortened(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    """The first entry, the directive with its inputs, stays in front of the summary."""
    answer = answer_of(said)
    thread = replace(thread, purse=thread.purse.settle(_asked(thread), answer.usage), asked=None)
    summary = Question(f"What was done so far, in your own words:\n{answer.text}")
    return _rewritten(thread, (thread.history[0], summary, *thread.history[said["kept"] :]))


def _rewritten(thread: AgentThread, history: tuple[Entry, ...]) -> AgentThread:
    """The thread with another history: what the provider reported of the old one is no measure."""
    return replace(
        thread,
        history=history,
        usage=None,
        new_entries=len(history),
        shortenings=thread.shortenings + 1,
    )


def _after_raised(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    return replace(thread, purse=thread.purse.raised(said["limits"], thread.start.ceilings))


def _after_active(thread: AgentThread, _said: Mapping[str, Any]) -> AgentThread:
    return thread  # its time is that of any event, see `after`


def _after_resumed(thread: AgentThread, _said: Mapping[str, Any]) -> AgentThread:
    return replace(thread, ended=None, cuts=0)


def _after_ended(thread: AgentThread, said: Mapping[str, Any]) -> AgentThread:
    named = {name: said[name] for name in Ended.__slots__ if name in said}
    return replace(thread, ended=Ended(**named))


_CHANGES: Mapping[str, Callable[[AgentThread, Mapping[str, Any]], AgentThread]] = {
    "asked": _after_asked,
    "answered": _after_answered,
    "unanswered": _after_unanswered,
    "moved": _after_moved,
    "called": _after_called,
    "returned": _after_returned,
    "said": _after_said,
    "lent": _after_lent,
    "gathered": _after_gathered,
    "referred": _after_referred,
    "shortened": _after_shortened,
    "raised": _after_raised,
    ACTIVE: _after_active,
    "resumed": _after_resumed,
    "ended": _after_ended,
}


def _asked(thread: AgentThread) -> Reservation:
    if thread.asked is None:
        raise ValueError("an answer, and nothing was asked")
    return thread.asked


def described_answer(answer: Answer) -> dict[str, Any]:
    """An answer as JSON: the blocks as the provider sent them."""
    usage = {name: getattr(answer.usage, name) for name in Usage.__slots__}
    return {
        "blocks": [dict(one) for one in answer.blocks],
        "text": answer.text,
        "calls": [
            {"id": one.id, "name": one.name, "arguments": one.arguments} for one in answer.calls
        ],
        "end": answer.end.value,
        "usage": {name: count for name, count in usage.items() if count is not None},
        "model": answer.model,
        "refusal": answer.refusal,
    }


def answer_facts(said: Mapping[str, Any]) -> dict[str, Any]:
    """The answer in an event, as `described_answer` has it; nothing where it has none."""
    return {name: said[name] for name in _ANSWER_FACTS} if "blocks" in said else {}


_ANSWER_FACTS = ("blocks", "text", "calls", "end", "usage", "model", "refusal")


def answer_of(said: Mapping[str, Any]) -> Answer:
    """The answer in an ``answered`` event."""
    return Answer(
        blocks=tuple(said["blocks"]),
        text=said["text"],
        calls=tuple(ToolCall(**one) for one in said["calls"]),
        end=End(said["end"]),
        usage=Usage(**said["usage"]),
        model=said["model"],
        refusal=said["refusal"],
    )


def described_result(result: ToolResult) -> dict[str, Any]:
    """A result as JSON; pictures in base64."""
    from base64 import b64encode

    pictures = [
        {"media_type": one.media_type, "data": b64encode(one.data).decode("ascii")}
        for one in result.pictures
    ]
    named = {name: getattr(result, name) for name in ("call_id", "name", "text", "is_error")}
    return {**named, "pictures": pictures} if pictures else named


def _result_of(said: Mapping[str, Any]) -> ToolResult:
    from base64 import b64decode

    return ToolResult(
        call_id=said["call_id"],
        name=said["name"],
        text=said["text"],
        is_error=said["is_error"],
        pictures=tuple(
            Picture(media_type=one["media_type"], data=b64decode(one["data"]))
            for one in said.get("pictures", ())
        ),
    )
