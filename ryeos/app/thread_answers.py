"""Answers of threads, as a caller gets them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import NOTHING_CHANGED, file_system_error
from ryeos.agent.prices import dollars
from ryeos.agent.purse import Amounts
from ryeos.agent.receipts import ThreadReceipts
from ryeos.agent.records import Journal
from ryeos.agent.thread_state import CANCELLED, COMPLETED, INTERRUPTED, WAITING, AgentThread, Ended
from ryeos.app.thread_workspace import THREAD
from ryeos.items.errors import Answer

EXIT_BY_STATE: Mapping[str, int] = {COMPLETED: 0, WAITING: 0, CANCELLED: 130}


def answer_of(thread_id: str, thread: AgentThread, ended: Ended, repair: str = "") -> Answer:
    """The one document that a thread answers; ``repair`` is what its hint says first."""
    used = used_in_all(thread)
    usage = {
        **used.as_dict(),
        "spend": dollars(used.spend),
        "duration_s": thread.purse.elapsed_s,
    }
    is_good = ended.state in {COMPLETED, WAITING}
    envelope: dict[str, Any] = {
        "status": "success" if is_good else "error",
        "type": THREAD,
        "item_id": thread.start.item.partition(":")[2],
        "thread_id": thread_id,
        "state": ended.state,
        **({"code": ended.code} if ended.code else {}),
        **({"error": ended.error or ended.state} if not is_good else {}),
        **({"hint": way} if (way := _way_on(thread_id, thread, ended, repair)) else {}),
        "text": ended.text,
        "outputs": dict(ended.outputs),
        "usage": usage,
        **({"metadata": {"warnings": list(thread.start.notes)}} if thread.start.notes else {}),
    }
    return Answer(envelope, EXIT_BY_STATE.get(ended.state, 1))


_OPEN_STATES = frozenset({"stopped", "failed", CANCELLED, INTERRUPTED})


def _way_on(thread_id: str, thread: AgentThread, ended: Ended, repair: str) -> str:
    """The way to let a thread go on, "" for one that does not: a child, or one that is over.

    What a limit stopped needs more first; what a full disk cut off needs its ``repair``.
    """
    if ended.state not in _OPEN_STATES or thread.start.depth:
        return ""
    resume = f"rye threads resume {thread_id}"
    if ended.wait_s:
        return f"go on in {ended.wait_s} seconds, or later, with: {resume}"
    limit = ended.code.removeprefix("LIMIT_").lower()
    more = f"rye threads raise {thread_id} {limit}=N; "
    if limit == ended.code.lower():
        more = ""
    elif limit == "daily":
        more = "rye edit config:agent/agent --space user --sign (daily: {spend: N}); "
    return f"{repair and f'{repair}; '}go on with: {more}{resume}"


def cut_off_by(error: LilluxError | OSError, folder: Path) -> tuple[Ended, str]:
    """The end that the thread has for now, and what a person does before it goes on."""
    if isinstance(error, OSError):
        error = file_system_error(error.filename or folder, error)
    ended = Ended(state=INTERRUPTED, code=error.code, error=str(error))
    return ended, error.hint.removesuffix(NOTHING_CHANGED)


def with_receipt(
    answer: Answer, receipts: ThreadReceipts, journal: Journal, ended: Ended
) -> Answer:
    """The answer with the id of the receipt of the thread."""
    envelope, thread = dict(answer.envelope), journal.thread
    receipt = receipts.end_thread(thread, ended, envelope["usage"], envelope)
    if receipt:
        envelope["metadata"] = {**envelope.get("metadata", {}), "receipt": receipt}
    return Answer(envelope, answer.exit_status)


def used_in_all(thread: AgentThread) -> Amounts:
    """The use of a thread; what is held back for an open call counts as used."""
    used = thread.purse.used
    for one in thread.purse.reserved:
        used = used.plus(one.amounts)
    return used
