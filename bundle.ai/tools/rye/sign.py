"""Sign items: what the tool ``sign`` of agents does. Page: ``docs/signatures.md``."""

from rye_command import flags, run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye"
__tool_description__ = "Validate and sign an item, or all that a pattern names"

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "none", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["item_id"],
    "additionalProperties": False,
    "properties": {
        "item_id": {"type": "string", "minLength": 1, "description": "Like tool:mine/*"},
        "source": {"enum": ["project", "user"], "description": "The space; default project"},
        "dry_run": {"type": "boolean", "description": "Check, and sign nothing"},
    },
    "examples": [{"item_id": "tool:mine/hello", "dry_run": True}],
}


def execute(params: dict, project_path: str) -> dict:
    """What ``rye sign`` answers, with ``success``."""
    space = [f"--space={params['source']}"] if "source" in params else []
    words = ["sign", "--no-input", *space, *flags(params, "dry_run")]
    return run_rye(words, [params["item_id"]], project=project_path)
