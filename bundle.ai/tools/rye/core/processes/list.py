"""Background runs, the latest first.

Page: ``docs/running.md``.
"""

from rye_command import flags, option, run_rye, seconds_of, short_id

__version__ = "1.1.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/processes"
__tool_description__ = "List background runs: running processes, and those that have ended"
__tags__ = ["list", "running", "processes", "runs", "jobs", "background"]

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
    """``threads``: of each its id, item, state and seconds, and what it failed with."""
    words = ["threads", "list", *flags(params, "active"), *option(params, "limit")]
    answer = run_rye(words, project=project_path)
    if not answer["success"]:
        return answer
    return {"success": True, "threads": [row_of(thread) for thread in answer["threads"]]}


def row_of(thread: dict) -> dict:
    """What tells one run from another."""
    row = {
        "thread_id": short_id(thread["thread_id"]),
        "item_id": thread.get("item_id") or thread.get("directive"),
        "state": thread.get("state") or thread["status"],
        "seconds": seconds_of(thread),
        "error": thread.get("error"),
    }
    return {name: value for name, value in row.items() if value is not None}
