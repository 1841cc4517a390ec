"""Find items, and read them: what the tool ``fetch`` of agents does. Page: ``docs/items.md``."""

from rye_command import option, refusal, run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye"
__tool_description__ = "Read an item by its id, or find items by words"

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "none", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "item_id": {"type": "string", "minLength": 1, "description": "Read this item"},
        "query": {"type": "string", "description": "Or find items by these words"},
        "scope": {"type": "string", "description": "Of a search, like tool.rye.core"},
        "source": {"enum": ["project", "user", "system"], "description": "Only this space"},
        "destination": {"enum": ["project", "user"], "description": "Copy the item there"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Most hits"},
    },
    "examples": [{"item_id": "tool:rye/bash/bash"}, {"query": "run a command", "limit": 3}],
}


def execute(params: dict, project_path: str) -> dict:
    """What ``rye load`` or ``rye search`` answers, with ``success``."""
    item_id, query = params.get("item_id"), params.get("query")
    if (item_id is None) == (query is None and params.get("scope") is None):
        return refusal("expected item_id to read an item, or query or scope to find some")
    if item_id is not None:
        to = [f"--to={params['destination']}"] if "destination" in params else []
        words = ["load", *to, *option(params, "source")]
        return run_rye(words, [item_id], project=project_path)
    space = [f"--space={params['source']}"] if "source" in params else []
    words = ["search", *space, *option(params, "scope", "limit")]
    return run_rye(words, [query or "*"], project=project_path)
