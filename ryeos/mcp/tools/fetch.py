"""``fetch``: `load` with an id, `search` with a query."""

from collections.abc import Mapping

from ryeos.app import Rye
from ryeos.envelope import Answer
from ryeos.mcp.arguments import check_arguments
from ryeos.mcp.parameters import LOAD_ONLY, SEARCH_ONLY
from ryeos.mcp.tool_table import TOOLS
from ryeos.request_errors import ArgumentError


def fetch(rye: Rye, arguments: Mapping[str, object]) -> Answer:
    """What the one mode answers that the arguments choose. Raises ArgumentError and theirs."""
    values = check_arguments(TOOLS["fetch"], arguments)
    if "item_id" in values and "query" in values:
        raise ArgumentError("item_id", "item_id or query, not both", hint="leave one out")
    if "item_id" in values:
        from ryeos.mcp.tools.load import load

        _refuse(values, SEARCH_ONLY, "id")
        return load(rye, values)
    if not {"query", "scope"} & values.keys():
        raise ArgumentError(
            "item_id",
            "expected item_id to load an item, or query or scope to search, found none of them",
        )
    from ryeos.mcp.tools.search import search

    _refuse(values, LOAD_ONLY, "query")
    return search(rye, values)


def _refuse(values: Mapping[str, object], foreign: frozenset[str], mode: str) -> None:
    """Refuse an argument of the other mode, ``mode`` being the chosen one."""
    for name in values:
        if name in foreign:
            wanted = "item_id" if mode == "query" else "query"
            raise ArgumentError(
                name,
                f"not an argument of {mode} mode, expected only with {wanted}",
                hint=f"leave {name} out",
                mode=mode,
            )
