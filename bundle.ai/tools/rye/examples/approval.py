"""Fails as long as no person has answered. Called by the graph ``rye/examples/approval-gate``."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/examples"
__tool_description__ = "Whether a question has been answered"

SANDBOX = {"network": "none"}
CONFIG_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"approved": {"type": "boolean", "description": "Left out: not yet"}},
    "examples": [{"approved": True}],
}


def execute(params: dict) -> dict:
    """Give the answer, or say how to give one."""
    if "approved" not in params:
        how = "rye graph resume ID --override-inputs approved:=true, or approved:=false"
        return {"success": False, "error": f"waiting for a person: {how}"}
    return {"success": True, "approved": params["approved"]}
