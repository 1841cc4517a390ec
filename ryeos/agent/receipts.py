"""The receipts of a thread: one for the thread, one for each call of the model.

They stand in the log of user space beside those of runs (`ryeos.run.receipts`): each is reserved
before what it is of begins, and names the reservation. None holds a text of the directive, of the
model or of a tool, nor a key: digests stand for them. The digest of a request is that of the bytes
that were sent, the digest of an answer that of what the journal has of it.

The receipt of a thread names those of its calls, of the model and of tools. A thread that is gone
on with has one for each time that it ran; the figures are those of the whole thread.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from lillux.errors import LilluxError
from ryeos.agent.journal import answer_facts, asked_model
from ryeos.agent.prices import dollars
from ryeos.agent.thread_state import AgentThread, Ended, Start
from ryeos.items.context import Clock, utc_now
from ryeos.run.receipt_statements import (
    MODEL_CALL_TYPE,
    THREAD,
    THREAD_TYPE,
    digest_of,
    result_digest,
    stamp,
    subject_of,
)
from ryeos.run.receipts import Receipts


class ThreadReceipts:
    """Writes the receipts of one thread. ``caller`` is who started it.

    ``warn`` hears of one that could not be written at its end; at its beginning that is an error,
    and nothing starts.
    """

    def __init__(
        self,
        receipts: Receipts,
        thread_id: str,
        caller: Mapping[str, Any],
        *,
        warn: Callable[[str], None],
        clock: Clock = utc_now,
    ) -> None:
        self._receipts, self._thread_id, self._caller = receipts, thread_id, dict(caller)
        self._warn, self._clock = warn, clock
        self._began: datetime | None = None
        self._start = ""
        self._call_began: datetime | None = None

    def begin_thread(self, start: Start) -> None:
        """Reserve the receipt of the thread. Raises RyeError: then it does not begin."""
        self._began = self._clock()
        said = {**self._thread_facts(start), "startedOn": stamp(self._began)}
        self._start, warning = self._receipts.reserve(said)
        if warning:
            self._warn(warning)

    def end_thread(
        self, thread: AgentThread, ended: Ended, used: Mapping[str, Any], envelope: dict[str, Any]
    ) -> str:
        """Write how it ended; the id of the receipt, ``""`` where there is none."""
        result = result_digest(envelope)
        now = self._clock()
        said = {
            **self._thread_facts(thread.start),
            "startedOn": stamp(self._began or now),
            "finishedOn": stamp(now),
            "status": "success" if ended.state == "completed" else "error",
            "state": ended.state,
            **({"error": ended.code} if ended.code else {}),
            "usage": dict(used),
            "result": {"sha256": result},
            **({"start": self._start} if self._start else {}),
            **({"steps": steps} if (steps := self._receipts.steps_of(self._thread_id)) else {}),
        }
        return self._finish(said, result, envelope, THREAD_TYPE)

    def _thread_facts(self, start: Start) -> dict[str, Any]:
        return {
            "item": start.item,
            "sha256": start.integrity,
            "thread": self._thread_id,
            "parameters": {"sha256": digest_of(dict(start.inputs))},
            "caller": self._caller,
            "capabilities": [list(one) for one in start.grants],
            "limits": {**start.limits.as_dict(), "spend": dollars(start.limits.spend)},
            "models": [
                {name: one[name] for name in ("provider", "digest", "model")}
                for one in start.models
            ],
        }

    def begin(self, thread: AgentThread, intent: Mapping[str, Any]) -> str:
        """Reserve the receipt of a call; its digest. Raises RyeError: then it is not sent."""
        self._call_began = self._clock()
        said = self._call_facts(thread, intent)
        start, warning = self._receipts.reserve(
            {**said, "startedOn": stamp(self._call_began)},
        )
        if warning:
            self._warn(warning)
        return start

    def end(self, thread: AgentThread, said: Mapping[str, Any], spent: int) -> None:
        """Write what came of a call. ``thread`` is as it was before: it has the intent."""
        intent = thread.intent
        facts = answer_facts(said)
        result, now = digest_of(facts or {"code": said.get("code", "")}), self._clock()
        receipt = {
            **self._call_facts(thread, intent),
            "startedOn": stamp(self._call_began or now),
            "finishedOn": stamp(now),
            "status": "success" if facts else "error",
            **({"answeredBy": facts["model"]} if facts else {"error": said.get("code", "")}),
            **({} if facts else {"charged": bool(said.get("charged"))}),
            "usage": dict(facts["usage"]) if facts else {},
            "cost": {"nanoDollars": spent, "dollars": dollars(spent)},
            "result": {"sha256": result},
            **({"start": intent["receipt"]} if intent.get("receipt") else {}),
        }
        self._call_began = None
        self._finish(receipt, result, {}, MODEL_CALL_TYPE)

    def _call_facts(self, thread: AgentThread, intent: Mapping[str, Any]) -> dict[str, Any]:
        frozen = asked_model(thread, intent)
        return {
            "item": f"model:{frozen['provider']}/{frozen['model']}",
            "provider": {"name": frozen["provider"], "sha256": frozen["digest"]},
            "model": frozen["model"],
            "prices": frozen["prices"],
            "parameters": {"sha256": intent["digest"]},
            "reserved": {name: intent[name] for name in ("input_tokens", "output_tokens")},
            "caller": {"kind": THREAD, "run": self._thread_id, "step": f"turn {intent['turn']}"},
        }

    def _finish(
        self, said: Mapping[str, Any], result: str, envelope: dict[str, Any], predicate_type: str
    ) -> str:
        try:
            subject = [subject_of("result", result)]
            return self._receipts.finish(said, subject, envelope, predicate_type)
        except LilluxError as error:
            self._warn(f"no receipt was written: {error}")
            return ""
