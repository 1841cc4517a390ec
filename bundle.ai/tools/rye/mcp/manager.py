"""MCP servers, and their tools as signed items of this project. Page: ``docs/mcp.md``.

Each action is a command of Rye; the answer lists every file that was written and signed.
"""

from rye_command import flags, missing, option, run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/mcp"
__tool_description__ = "Add MCP servers and write signed tools from what they offer"
__tags__ = "mcp server servers add remove discover tools"

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "any", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["action"],
    "additionalProperties": False,
    "properties": {
        "action": {
            "enum": ["add_server", "list_servers", "discover", "refresh", "remove_server"],
            "description": "discover signs new tools, refresh writes changes for your user to sign",
        },
        "name": {"type": "string", "description": "What the server is called here, like github"},
        "command": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": 100,
            "description": "add_server: its program and words; or else url",
        },
        "url": {"type": "string", "description": "add_server: its address; or else command"},
        "env": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 100,
            "description": "add_server: names of variables that the program gets, never values",
        },
        "headers": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "add_server: header to the name of the variable that holds it",
        },
        "bearer": {"type": "string", "description": "add_server: the variable with a token"},
        "timeout": {"type": "number", "minimum": 0, "description": "add_server: of a call, in s"},
        "space": {"enum": ["project", "user"], "description": "add_server: project without it"},
        "replace": {"type": "boolean", "description": "add_server: in place of one of this name"},
        "only": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 100,
            "description": "discover, refresh: these tools only",
        },
        "dry_run": {"type": "boolean", "description": "discover, refresh: write nothing"},
        "prune": {"type": "boolean", "description": "refresh: remove what the server has not"},
    },
    "examples": [{"action": "list_servers"}],
}
COMMANDS = {"add_server": "add", "list_servers": "servers", "remove_server": "remove"}
NEEDED = dict.fromkeys(("add_server", "discover", "refresh", "remove_server"), ("name",))


def execute(params: dict, project_path: str) -> dict:
    """What the command answers, with ``success``."""
    action = params["action"]
    lacking = missing(params, action, NEEDED)
    if lacking:
        return lacking
    words, values = ["mcp", COMMANDS.get(action, action)], [params.get("name", "")]
    if action == "list_servers":
        values = []
    elif action == "add_server":
        words += [*option(params, "url", "bearer", "timeout", "space"), *flags(params, "replace")]
        words += [f"--env={name}" for name in params.get("env", [])]
        words += [f"--header={name}={held}" for name, held in params.get("headers", {}).items()]
        values += params.get("command", [])
    elif action in ("discover", "refresh"):
        words += flags(params, "dry_run", *(["prune"] if action == "refresh" else []))
        words += ["--propose"] if action == "refresh" else []
        words += [f"--only={name}" for name in params.get("only", [])]
    return run_rye(words, values, project=project_path)
