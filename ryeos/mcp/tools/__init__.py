"""What the tools do but `execute`: arguments in, an answer out.

`answer` turns what goes wrong into an answer as well; the functions of the modules raise it.
"""

from collections.abc import Mapping
from importlib import import_module

from lillux.errors import LilluxError
from ryeos.app import Rye
from ryeos.envelope import Answer, error_answer

READERS = ("search", "load", "fetch", "sign", "help")


def answer(rye: Rye, name: str, arguments: Mapping[str, object]) -> Answer:
    """The answer of one of `READERS`, also for what it refuses."""
    module = import_module(f"ryeos.mcp.tools.{name}")
    try:
        found: Answer = getattr(module, name)(rye, arguments)
    except LilluxError as error:
        refused = error_answer(error)
        item_id = arguments.get("item_id")
        named = {"item_id": item_id} if isinstance(item_id, str) else {}
        return Answer(named | dict(refused.envelope), refused.exit_status)
    return found
