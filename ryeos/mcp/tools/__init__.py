"""What the tools do but `execute`: arguments in, an answer out.

`answer` turns what goes wrong into an answer as well; the functions of the modules raise it.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from lillux.errors import LilluxError
from ryeos.app import Rye
from ryeos.envelope import Answer, error_answer
from ryeos.mcp.calling import Calling, StepProgress

# Those that may take a while: they tell how far they are, and can be cancelled.
LASTING = frozenset({"sign"})
READERS = ("search", "load", "fetch", "sign", "help")


def answer(
    rye: Rye, name: str, arguments: Mapping[str, object], calling: Calling | None = None
) -> Answer:
    """The answer of one of `READERS`, also for what it refuses."""
    module = import_module(f"ryeos.app.{name}")
    lasting: dict[str, Any] = {}
    if calling and name in LASTING:
        progress = StepProgress(calling.progress)
        lasting = {"on_progress": progress.step, "cancellation": calling.cancellation}
    try:
        found: Answer = getattr(module, name)(rye, arguments, **lasting)
    except LilluxError as error:
        refused = error_answer(error)
        item_id = arguments.get("item_id")
        named = {"item_id": item_id} if isinstance(item_id, str) else {}
        return Answer(named | dict(refused.envelope), refused.exit_status)
    return found
