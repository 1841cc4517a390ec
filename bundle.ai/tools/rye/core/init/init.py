"""User space, a signing key and a project, each where it is missing. Page: ``docs/cli.md``.

Nothing that is there is changed, and a second call says so.
"""

from rye_command import flags, run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/init"
__tool_description__ = "Set up user space, a signing key and this project where they are missing"

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "none", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "scope": {
            "enum": ["project", "user"],
            "default": "project",
            "description": "project sets up user space too",
        },
        "no_key": {"type": "boolean", "description": "Make no signing key"},
        "clients": {
            "type": "array",
            "items": {"type": "string"},
            "maxItems": 20,
            "description": "MCP clients whose settings get Rye too, like cursor",
        },
        "dry_run": {"type": "boolean", "description": "Say what would be made"},
    },
    "examples": [{"dry_run": True}],
}


def execute(params: dict, project_path: str) -> dict:
    """What was made, and what was there, with ``success``."""
    words = ["init", *flags(params, "no_key", "dry_run")]
    words += [f"--client={name}" for name in params.get("clients", [])]
    if params["scope"] == "user":
        return run_rye([*words, "--user"])
    return run_rye(words, project=project_path)
