"""Background runs, the latest first.

Page: ``docs/threads.md``.
"""

from rye_command import flags, option, run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/processes"
__tool_description__ = "List background runs and runs of graphs, the latest first"

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "none", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "active": {"type": "boolean", "default": False, "description": "Only what has not ended"},
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "default": 20,
            "description": "At most so many",
        },
    },
    "examples": [{"active": True}],
}


def execute(params: dict, project_path: str) -> dict:
    """``threads``: a row for each."""
    words = ["threads", "list", *flags(params, "active"), *option(params, "limit")]
    return run_rye(words, project=project_path)
