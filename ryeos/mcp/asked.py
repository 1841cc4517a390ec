"""A request for something that Rye offers beside its tools, and what answering it may need."""

from collections.abc import Callable
from typing import Any

from lillux.errors import LilluxError
from lillux.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from lillux.values import dataclass
from ryeos.app import Rye
from ryeos.mcp.elicitation import States
from ryeos.mcp.eras import RpcError
from ryeos.mcp.events import Call
from ryeos.mcp.hints import naming_tools
from ryeos.mcp.prior_values import PriorValues


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request.

    make_rye      the public API, which not every answer needs; raises LilluxError where there is
                  no project
    prompts       which directives are prompts: ``tagged``, ``all``, ``none``
    skills        whether directives are skills as well
    states        seals what a client brings back with its user's answer
    prior_values  what prompts were given before in this process
    """

    make_rye: Callable[[], Rye]
    call: Call
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
    """What a client is told of an item that cannot be given: the code and the hint are data."""
    told = {
        "code": error.code,
        **({"hint": naming_tools(error.hint)} if error.hint else {}),
        **data,
    }
    return RpcError(INTERNAL_ERROR, str(error), told)
