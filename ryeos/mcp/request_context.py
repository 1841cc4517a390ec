"""A request for something beside the tools, and what answering it needs."""

from collections.abc import Callable
from typing import Any

from lillux.errors import LilluxError
from lillux.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from lillux.values import dataclass
from ryeos.app.workspace import Rye
from ryeos.mcp.hints import for_user, naming_tools
from ryeos.mcp.questions import PriorValues, States
from ryeos.mcp.revisions import McpCall, RpcError


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """One request.

    make_rye      the public API, which not every answer needs; raises LilluxError where there is
                  no project
    prompts       which directives are prompts: ``tagged``, ``all``, ``none``
    skills        whether directives are skills as well
    states        seals what a client brings back with its user's answer
    prior_values  what prompts were given before in this process
    """

    make_rye: Callable[[], Rye]
    call: McpCall
    prompts: str
    skills: bool
    states: States
    prior_values: PriorValues

    @property
    def rye(self) -> Rye:
        """The public API. Raises LilluxError."""
        return self.make_rye()


def text_of(params: Any, name: str, where: str = "") -> str:  # noqa: ANN401 - JSON
    """A parameter that must be text. Raises RpcError."""
    value = params.get(name) if isinstance(params, dict) else None
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{where}{name}: expected a string")
    return value


def object_of(params: Any, name: str) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A parameter that must be an object; an empty one when it is left out. Raises RpcError."""
    value = params.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"{name}: expected an object")
    return value


def refusal(error: LilluxError, **data: object) -> RpcError:
    """The error for a client about an item that cannot be given: the code and the hint are data."""
    details = {
        "code": error.code,
        **({"hint": for_user(naming_tools(error.hint))} if error.hint else {}),
        **data,
    }
    return RpcError(INTERNAL_ERROR, str(error), details)
