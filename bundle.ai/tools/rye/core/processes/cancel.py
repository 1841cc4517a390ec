"""Ends a background run, with everything that it has started.

Page: ``docs/running.md``.
"""

from rye_command import option, run_rye, short_id

__version__ = "1.1.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/processes"
__tool_description__ = "End a background run and all its processes"
__tags__ = ["cancel", "kill", "stop", "end", "run", "process", "job"]

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
        "grace": {
            "type": "number",
            "minimum": 0,
            "maximum": 60,
            "description": "Seconds until it is ended by force (5)",
        },
    },
    "examples": [{"thread_id": "bash-"}],
}


def execute(params: dict, project_path: str) -> dict:
    """The ``state`` that it has now, and whether it was ended by this (``killed``)."""
    words = ["threads", "kill", *option(params, "grace")]
    answer = run_rye(words, [params["thread_id"]], project=project_path)
    if not answer["success"]:
        return answer
    thread = answer["thread"]
    told = {
        "thread_id": short_id(thread["thread_id"]),
        "state": thread.get("state") or thread["status"],
    }
    left = {"leftovers": answer["leftovers"]} if answer.get("leftovers") else {}
    return {"success": True, "killed": answer["killed"], **told, **left}
