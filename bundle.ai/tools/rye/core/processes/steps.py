"""How far the run of a graph is.

Page: ``docs/running.md``.
"""

from rye_command import refusal, run_rye

__version__ = "1.1.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/processes"
__tool_description__ = "How far a run of a graph is: each node and its state"

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
    },
    "examples": [{"thread_id": "shop-backup-"}],
}


def execute(params: dict, project_path: str) -> dict:
    """``nodes`` with their states, and the ``status`` of the whole run."""
    answer = run_rye(["threads", "show"], [params["thread_id"]], project=project_path)
    if not answer["success"]:
        return answer
    thread = answer["thread"]
    item, run_id = thread.get("item_id"), thread["thread_id"]
    if not item or item.startswith("-"):
        return refusal(f"{run_id}: expected the run of a graph, found one of no item")
    shown = run_rye(["graph", "show", f"--run={run_id}"], [item], project=project_path)
    if not shown["success"]:
        return shown
    # By other names than those of a failure: that of the run is no failure of this call.
    names = {"status": "state", "error": "failure"}
    known = {names[name]: thread[name] for name in names if thread.get(name)}
    return {"success": True, "run_id": run_id, "graph": item, **known, "nodes": shown["nodes"]}
