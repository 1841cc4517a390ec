"""The three tools of the node's ``/mcp``, and which request each call of one is. Pure."""

from collections.abc import Mapping
from typing import Any

from lillux.values import dataclass
from ryeos.app.verbs import Parameter, Tool, check_arguments
from ryeos.items.errors import ArgumentError

_RUNNABLE = ("tool", "directive", "knowledge")


def _text(name: str, description: str, **rules: Any) -> Parameter:  # noqa: ANN401 - of Parameter
    return Parameter(name=name, type="string", description=description, **rules)


_PROJECT = _text("project_path", "Name of a project that was pushed to this node", required=True)
_KIND = _text("item_type", "Kind of item", enum=_RUNNABLE)

TOOLS: Mapping[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool(
            name="execute",
            title="Execute an item on this node",
            description=(
                "Run a tool or directive of a project, from the HEAD that was pushed last. What it"
                " changes in the project becomes a new snapshot, merged into HEAD; nothing of it"
                " comes to your machine until somebody pulls. Every file involved is verified"
                " first. With async the answer is a thread_id at once."
            ),
            parameters=(
                _text("item_id", "tool:a/b, or a/b with item_type", required=True),
                _PROJECT,
                Parameter(name="parameters", type="object", description="The item's inputs"),
                _text("thread", "inline or fork; a directive forks", enum=("inline", "fork")),
                Parameter(name="async", type="boolean", description="Do not wait for its end"),
                Parameter(name="dry_run", type="boolean", description="Not on a node"),
                _KIND,
            ),
            destructive=True,
            idempotent=False,
            open_world=True,
        ),
        Tool(
            name="fetch",
            title="Fetch items of a project",
            description=(
                "Load and search in one tool: with item_id it loads that item, with query (or scope"
                " alone) it searches the project, the user space and the bundle."
            ),
            parameters=(
                _PROJECT,
                _text("item_id", "tool:a/b, or a/b with item_type"),
                _text("query", "Words"),
                _text("scope", "Like tool.rye.core.*"),
                _text("source", "First space to look in"),
                _text("destination", "Copy it to this space"),
                _text("version", "Of a registry's item"),
                Parameter(name="limit", type="integer", description="Hits", minimum=1, maximum=100),
                _KIND,
            ),
        ),
        Tool(
            name="sign",
            title="Validate and sign with the node's key",
            description=(
                "Validate an item of a project and sign it with the key of this node. The signed"
                " file becomes a new snapshot."
            ),
            parameters=(
                _text("item_id", "Item or pattern", required=True),
                _PROJECT,
                _text("source", "Space of the item", default="project"),
                _text("item_type", "Kind of item", enum=(*_RUNNABLE, "config")),
            ),
        ),
    )
}


class ToolNameError(Exception):
    """A call of a tool that the node does not have."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request that a tool call stands for: the route, and its body."""

    route: str
    body: Mapping[str, Any]


def call_of(name: str, arguments: Mapping[str, Any]) -> Call:
    """The request that a tool call stands for.

    The item is named in both forms: canonical, and its kind apart, where a kind is known.

    Raises ToolNameError, ArgumentError.
    """
    tool = TOOLS.get(name)
    if tool is None:
        raise ToolNameError(f"no such tool: {name[:80]!a}; there are {', '.join(TOOLS)}")
    body = check_arguments(tool, arguments)
    if body.pop("dry_run", False):
        raise ArgumentError(
            "dry_run", "expected false: a node has no dry run", hint="run it locally with dry_run"
        )
    return Call(name, _with_item(body, default="tool" if name == "execute" else None))


def _with_item(body: dict[str, Any], default: str | None) -> dict[str, Any]:
    item_id, kind = body.get("item_id"), body.get("item_type", default)
    if item_id and kind and ":" not in item_id:
        return body | {"item_id": f"{kind}:{item_id}"}
    return body
