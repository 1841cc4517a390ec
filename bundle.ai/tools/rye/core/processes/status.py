"""One background run, with its result and what it has written.

Page: ``docs/threads.md``.
"""

from rye_command import run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/processes"
__tool_description__ = "What became of a background run: status, result, the end of its log"

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "none", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["thread_id"],
    "additionalProperties": False,
    "properties": {
        "thread_id": {
            "type": "string",
            "minLength": 1,
            "description": "Its id, or as much of the beginning or end as is needed",
        },
        "log_chars": {
            "type": "integer",
            "minimum": 0,
            "maximum": 100000,
            "default": 0,
            "description": "So much of the end of what it has written",
        },
    },
    "examples": [{"thread_id": "bash-", "log_chars": 2000}],
}


def execute(params: dict, project_path: str) -> dict:
    """``thread`` and, as far as it was asked for, ``log``."""
    wanted = [params["thread_id"]]
    answer = run_rye(["threads", "show"], wanted, project=project_path)
    if not answer["success"] or not params["log_chars"]:
        return answer
    written = run_rye(["threads", "logs"], wanted, project=project_path)
    if not written["success"]:
        return written
    cut = len(written["log"]) > params["log_chars"]
    return {
        **answer,
        "log": written["log"][-params["log_chars"] :],
        "truncated": cut or written["truncated"],
    }
