"""Lockfiles, which pin all that a tool runs: show, update, delete. Page: ``docs/signatures.md``."""

from rye_command import run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/lock"
__tool_description__ = "Show, renew and remove the lockfile that pins a tool's chain"
__tags__ = ["lock", "pin", "versions"]

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "none", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["action", "item_id"],
    "additionalProperties": False,
    "properties": {
        "action": {
            "enum": ["show", "update", "delete"],
            "description": "update pins the chain as it is now: only for a change that was meant",
        },
        "item_id": {
            "type": "string",
            "minLength": 1,
            "description": "The tool, like mine/hello",
        },
    },
    "examples": [{"action": "update", "item_id": "rye/core/keys/keys"}],
}


def execute(params: dict, project_path: str) -> dict:
    """What the command answers, with ``success``."""
    return run_rye(["lock", params["action"]], [params["item_id"]], project=project_path)
