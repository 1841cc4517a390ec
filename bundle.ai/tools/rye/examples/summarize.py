"""One summary of many measures. Called by the example graph ``rye/examples/fan-out``."""

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/examples"
__tool_description__ = "Add up what rye/examples/measure has found"

SANDBOX = {"network": "none"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["measures"],
    "additionalProperties": False,
    "properties": {
        "measures": {
            "type": "array",
            "items": {"type": "object"},
            "description": "What rye/examples/measure has answered, once for each file",
        }
    },
    "examples": [{"measures": [{"file": "a", "bytes": 3, "lines": 1, "words": 1}]}],
}


def execute(params: dict) -> dict:
    """Add up; a measure that failed has an ``error`` instead of numbers, and is counted."""
    good = [one for one in params["measures"] if "error" not in one]
    return {
        "files": len(good),
        "failed": len(params["measures"]) - len(good),
        "lines": sum(one["lines"] for one in good),
        "words": sum(one["words"] for one in good),
        "largest": max(good, key=lambda one: one["bytes"])["file"] if good else None,
    }
