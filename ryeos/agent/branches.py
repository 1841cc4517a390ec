"""A branch: a new thread that goes on from a turn of an older one.

It takes what was said up to that turn, with the results of its calls. Its journal, its purse and
its results are its own: it holds also when the older thread is gone. Nothing of the older one is
changed.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from lillux.values import replace
from ryeos.agent.journal import begun
from ryeos.agent.records import AgentRecords, Journal
from ryeos.agent.thread_state import Start
from ryeos.agent.tools import address_of
from ryeos.graph.transcript import LoggedEvent
from ryeos.items.errors import RyeError

_AFTER_A_TURN = frozenset({"called", "returned", "lent", "gathered"})


def branch(
    records: AgentRecords,
    old_id: str,
    new_id: str,
    *,
    turn: int,
    text: str,
    ceilings: Mapping[str, int],
) -> Journal:
    """The journal of a new thread that goes on behind a turn, open for writing.

    Its purse is new: as large as that of the old one was at its start, below ``ceilings``.

    ``text`` is what a person says to the model then. Raises RyeError `VALIDATION_FAILED` for a turn
    that is not there, or behind which nothing is left to do; and what reading the old one raises.
    """
    events = records.events(old_id)
    kept = _up_to(events, turn, old_id)
    started = dict(kept[0][1])
    previous = {
        "previous_thread_id": old_id,
        "turn": turn,
        "events": [[kind, _readdressed(said, old_id, new_id)] for kind, said in kept],
        **({"text": text} if text else {}),
    }
    bare: Start = begun(started).start
    limits = bare.limits.lowered(ceilings)
    start = replace(bare, limits=limits, ceilings=ceilings, parent="", notes=(), previous=previous)
    thread = begun(start.described())
    last = thread.last_answer
    if last is not None and not last.calls:
        raise RyeError(
            f"--turn {turn}: the answer of turn {turn} of thread {old_id} calls nothing, so nothing"
            " is left to do behind it",
            code="VALIDATION_FAILED",
            hint=f"say what the model is to do then: rye threads branch {old_id} --turn {turn}"
            ' --say "TEXT"',
        )
    records.copy_results(old_id, new_id)
    return records.begin(new_id, start.described())


def _up_to(
    events: Sequence[LoggedEvent], turn: int, thread_id: str
) -> list[tuple[str, Mapping[str, Any]]]:
    """The events up to the end of a turn: its answer, and what became of its calls."""
    answers = [n for n, one in enumerate(events) if one.event_type == "answered"]
    if not 1 <= turn <= len(answers):
        there = f"1 to {len(answers)}" if answers else "none"
        raise RyeError(
            f"--turn: expected a turn of thread {thread_id} ({there}), found {turn}",
            code="VALIDATION_FAILED",
            hint=f"see its turns: rye threads show {thread_id}",
        )
    end = answers[turn - 1] + 1
    kept = list(events[:end])
    for one in events[end:]:
        if one.event_type in {"asked", "answered"}:
            break
        if one.event_type in _AFTER_A_TURN:
            kept.append(one)
    return [(one.event_type, one.payload) for one in kept]


def _readdressed(said: Mapping[str, Any], old_id: str, new_id: str) -> dict[str, Any]:
    """An event whose texts name the long results by their address in the new thread."""
    old, new = address_of(old_id, 0)[:-1], address_of(new_id, 0)[:-1]
    found = dict(said)
    if found.get("previous"):  # a branch of a branch
        older = found["previous"]
        events = [[kind, _readdressed(one, old_id, new_id)] for kind, one in older["events"]]
        found["previous"] = {**older, "events": events}
    if isinstance(found.get("text"), str) and "call_id" in found:
        found["text"] = found["text"].replace(old, new)
    if isinstance(found.get("texts"), dict):
        found["texts"] = {key: one.replace(old, new) for key, one in found["texts"].items()}
    return found
