"""Bytes, lines and words of one file. Called by the example graph ``rye/examples/fan-out``."""

from pathlib import Path

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/examples"
__tool_description__ = "Count the bytes, lines and words of a file"

SANDBOX = {"read": ["{project}"]}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["file"],
    "additionalProperties": False,
    "properties": {"file": {"type": "string", "minLength": 1, "description": "Its path"}},
    "examples": [{"file": "README.md"}],
}


def execute(params: dict, project_path: str) -> dict:
    """Measure; a file that cannot be read is an answer too, and not a traceback."""
    try:
        data = Path(project_path, params["file"]).read_bytes()
    except OSError as error:
        return {"success": False, "error": f"{params['file']}: {error.strerror}"}
    return {
        "success": True,
        "file": params["file"],
        "bytes": len(data),
        "lines": len(data.splitlines()),
        "words": len(data.split()),
    }
