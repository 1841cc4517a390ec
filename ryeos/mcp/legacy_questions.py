"""Questions of a call to its client, in the way of the older revisions.

From 2026-07-28 on such a call ends with ``input_required``, and the client makes it once more,
with ``inputResponses`` and the ``requestState`` it was given. Older clients are asked by requests
of the server instead; with all answers the call is carried out once more. Its caller
sees no difference. Pure.
"""

from collections.abc import Mapping
from typing import Any

from lillux.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Failure, Id, Request, Result
from lillux.values import dataclass
from ryeos.mcp.revisions import MISSING_CAPABILITY, McpCaller, RpcError

_CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


@dataclass(slots=True)
class _QuestionRound:
    """The questions of one call.

    state    the ``requestState`` that goes back with the answers; None without one
    open     what was asked and not answered yet: the key of the question, by the request's id
    answers  by the question's key
    """

    call_id: Id
    state: object
    open: dict[Id, str]
    answers: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """All questions of a call are answered; ``params`` are added to it."""

    call_id: Id
    params: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RefusedQuestion:
    """A client gave an error instead of an answer."""

    call_id: Id
    error: RpcError


class Questions:
    """The questions of one conversation that are still open."""

    def __init__(self) -> None:
        self._rounds: dict[Id, _QuestionRound] = {}
        self._question_count = 0

    def ask(self, call_id: Id, result: Mapping[str, Any]) -> list[Request]:
        """The requests to send for an ``input_required`` result; there is at least one."""
        requests = []
        this = _QuestionRound(call_id, result.get("requestState"), {}, {})
        for key, question in result["inputRequests"].items():
            self._question_count += 1
            request = Request(
                f"ask-{self._question_count}", question["method"], question.get("params", {})
            )
            this.open[request.id] = key
            self._rounds[request.id] = this
            requests.append(request)
        return requests

    def take(self, answer: Result | Failure) -> AnsweredCall | RefusedQuestion | None:
        """The call with all answers: none while others are missing, or if no question is open."""
        this = self._rounds.pop(answer.id, None) if answer.id is not None else None
        if this is None:
            return None
        if isinstance(answer, Failure):
            self.drop(this.call_id)
            problem = f"the client did not answer: {answer.message}"
            data = {"code": answer.code, "message": answer.message}
            return RefusedQuestion(this.call_id, RpcError(INVALID_REQUEST, problem, data))
        this.answers[this.open.pop(answer.id)] = dict(answer.result)
        if this.open:
            return None
        params: dict[str, Any] = {"inputResponses": this.answers}
        if this.state is not None:
            params["requestState"] = this.state
        return AnsweredCall(this.call_id, params)

    def drop(self, call_id: Id) -> list[Id]:
        """Forget the questions of a call; the requests that the client need not answer now."""
        dropped = [
            request_id for request_id, this in self._rounds.items() if this.call_id == call_id
        ]
        for request_id in dropped:
            del self._rounds[request_id]
        return dropped


def require_answerable(result: Mapping[str, Any], caller: McpCaller) -> None:
    """Ask a client only what it can answer. Raises RpcError."""
    questions = result.get("inputRequests", {})
    wanted = {_CAPABILITY[question["method"]] for question in questions.values()}
    missing = sorted(name for name in wanted if not caller.can(name))
    if missing:
        problem = f"the client lacks what this call needs: {', '.join(missing)}"
        data: dict[str, Any] = {"requiredCapabilities": {name: {} for name in missing}}
        raise RpcError(MISSING_CAPABILITY, problem, data)
    if not questions and not caller.is_modern:
        raise RpcError(INVALID_PARAMS, "this call is to be made again by a client of 2026-07-28")
