"""Threads of test cases: the replies of the model stand in the case, all else is as in any thread.

The rights, tools, limits and outputs of the directive hold, and what the replies call runs. Nothing
is asked over a network and nothing is paid; the journal is in a folder that is removed.
"""

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from ryeos.agent.dialects.wire import parsed_object
from ryeos.agent.ledger import GrantedLedger
from ryeos.agent.means import DayLedger, Model
from ryeos.agent.messages import Answer as ModelAnswer
from ryeos.agent.messages import End, Piece, Question, Request, Results, ToolCall, Usage
from ryeos.agent.offers import RETURN
from ryeos.agent.prices import Price
from ryeos.agent.records import AgentRecords
from ryeos.agent.thread_state import AgentThread, Ended, Start
from ryeos.app.agent_threads import AgentThreads
from ryeos.app.thread_log import Following
from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.errors import RyeError, error_envelope
from ryeos.items.refs import Reference

if TYPE_CHECKING:
    from ryeos.agent.exchange import Unanswered
    from ryeos.app.thread_workspace import ThreadWorkspace

_BYTES_OF_A_TOKEN = 4
_EXECUTE = "execute"
_MODEL: Mapping[str, Any] = {
    "provider": "test",
    "digest": "",
    "dialect": "openai-chat",
    "base_url": "",
    "headers": {},
    "credential": "",
    "usage": {},
    "schema": {},
    "retry": {},
    "model": "script",
    "context": None,
    "max_output": None,
    "features": ["parallel_tools"],
    "prices": Price(is_free=True).described(),
}
Reply = str | Mapping[str, Any]
"""A text, or a mapping with ``text``, ``calls`` (each ``item`` and ``params``) or ``return``."""


def carry_out_script(
    rye: "ThreadWorkspace",
    reference: Reference,
    wish: ThreadWish,
    replies: Sequence[Reply],
    cancellation: Cancellation,
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The envelope of a thread whose model gives these replies, and what was wrong with them.

    Its ``data`` are ``text``, ``outputs``, ``turns`` and ``calls``: of each call the ``item``,
    ``is_error`` and the ``result`` that the model got.
    """
    script = _Script(replies)
    with tempfile.TemporaryDirectory(prefix="rye-test-") as folder:
        threads = _ScriptedThreads(rye, script, Path(folder))
        try:
            journal = threads.begin(reference, wish)
            answer = threads.go_on(journal, Following(stop=cancellation))
        except RyeError as error:
            return error_envelope(error), ()
        envelope = dict(answer.envelope)
        envelope["data"] = {
            "text": envelope["text"],
            "outputs": envelope["outputs"],
            "turns": journal.thread.calls,
            "calls": list(_calls(journal.thread)),
        }
        return envelope, script.problems()


class _Script:
    """Gives one reply after the other, to a thread and to its children."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies, self._given = replies, 0
        self._lock = Lock()
        self._has_asked_for_more = False

    def next(self) -> Mapping[str, Any]:
        """Raises RyeError behind the last one."""
        with self._lock:
            if self._given == len(self._replies):
                self._has_asked_for_more = True
                raise RyeError(
                    f"replies: the case has {self._given}, and the thread asked for one more",
                    code="CONFIG_ERROR",
                    hint="end with a text, or with return where the directive has outputs",
                )
            self._given += 1
            reply = self._replies[self._given - 1]
        return {"text": reply} if isinstance(reply, str) else reply

    def problems(self) -> tuple[str, ...]:
        """The mismatch between the replies and the thread."""
        left = len(self._replies) - self._given
        if left:
            return (f"replies: the thread ended after {self._given} of {len(self._replies)}",)
        if self._has_asked_for_more:
            return (f"replies: the thread asked for more than the {self._given} of the case",)
        return ()


class _ScriptedThreads(AgentThreads):
    """Threads with such a model, which no list of threads shows."""

    def __init__(self, rye: "ThreadWorkspace", script: _Script, folder: Path) -> None:
        super().__init__(rye)
        self._script, self._is_kept = script, False
        self.records = AgentRecords(folder, rye.receipts.log.key)

    def _models(self, name: str) -> tuple[Mapping[str, Any], ...]:  # noqa: ARG002 - whichever
        return (_MODEL,)

    def _model(self, start: Start) -> Model:
        return _ScriptedModel(self._script, start)

    def _ledger(self) -> DayLedger:
        return GrantedLedger(0)

    def _register(self, thread_id: str, thread: AgentThread) -> None:
        """No row: it is work that is not to be gone on with."""

    def _note(self, thread_id: str, thread: AgentThread, ended: Ended) -> None:
        """No row."""


class _ScriptedModel:
    """See `ryeos.agent.means.Model`."""

    def __init__(self, script: _Script, start: Start) -> None:
        self._script, self._turns = script, 0
        self._names = {reference: name for name, reference in start.items.items()}

    def body(self, frozen: Mapping[str, Any], request: Request) -> bytes:  # noqa: ARG002
        """Texts alone: its size is what limits count."""
        texts = [request.system, *(text for entry in request.history for text in _texts(entry))]
        return json.dumps([*texts, *(offer.name for offer in request.offers)]).encode()

    def ask(
        self,
        frozen: Mapping[str, Any],  # noqa: ARG002 - there is one model
        body: bytes,
        *,
        left_s: float,  # noqa: ARG002 - it does not wait
        follow: Callable[[Piece], None],  # noqa: ARG002 - no reader follows
        cancellation: Cancellation,  # noqa: ARG002
    ) -> "ModelAnswer | Unanswered":
        reply = self._script.next()
        self._turns += 1
        calls = tuple(self._calls(reply))
        text = str(reply.get("text", ""))
        said = len(text) + sum(len(call.arguments) for call in calls)
        return ModelAnswer(
            blocks=(),
            text=text,
            calls=calls,
            end=End.TOOL_CALLS if calls else End.END_TURN,
            usage=Usage(
                input_tokens=len(body) // _BYTES_OF_A_TOKEN,
                output_tokens=said // _BYTES_OF_A_TOKEN,
            ),
            model=str(_MODEL["model"]),
        )

    def tries(self, frozen: Mapping[str, Any]) -> int:  # noqa: ARG002
        return 1

    def _calls(self, reply: Mapping[str, Any]) -> "list[ToolCall]":
        wanted = [
            self._named(one["item"], one.get("params") or {}) for one in reply.get("calls", ())
        ]
        if "return" in reply:
            wanted.append((RETURN, reply["return"]))
        return [
            ToolCall(id=f"call-{self._turns}-{number}", name=name, arguments=json.dumps(arguments))
            for number, (name, arguments) in enumerate(wanted, 1)
        ]

    def _named(self, item: str, params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        """The call of an item, as the thread offers it. Other names are said as they stand."""
        name = self._names.get(item) or self._names.get(f"tool:{item}")
        if name:
            return name, params
        if self._names or (":" not in item and "/" not in item):
            return item, params
        item_id = item if ":" in item else f"tool:{item}"
        return _EXECUTE, {"item_id": item_id, "parameters": params}


def _texts(entry: object) -> list[str]:
    if isinstance(entry, Question):
        return [entry.text]
    if isinstance(entry, Results):
        return [one.text for one in entry.results]
    if isinstance(entry, ModelAnswer):
        return [entry.text, *(call.arguments for call in entry.calls)]
    return []


def _calls(thread: AgentThread) -> list[dict[str, Any]]:
    """Each call of the thread, in order, with what the model got."""
    called = {
        call.id: _item_of(call, thread.start)
        for entry in thread.history
        if isinstance(entry, ModelAnswer)
        for call in entry.calls
    }
    return [
        {
            "item": called.get(result.call_id, result.name),
            "is_error": result.is_error,
            "result": result.text,
        }
        for entry in thread.history
        if isinstance(entry, Results)
        for result in entry.results
    ]


def _item_of(call: ToolCall, start: Start) -> str:
    """The item that a call is about, else the name of the tool."""
    if call.name in start.items or call.name != _EXECUTE:
        return start.items.get(call.name, call.name)
    return str((parsed_object(call.arguments) or {}).get("item_id") or call.name)
