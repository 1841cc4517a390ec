"""Keys that count, and your own: list, show, generate, trust, untrust, export.

Each action is a command of Rye. No key that is there is replaced, and none is let count but the one
whose whole fingerprint the caller has written out. Page: ``docs/trust.md``.
"""

from rye_command import missing, option, refusal, run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/keys"
__tool_description__ = "List, make, trust and export signing keys"

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "none", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["action"],
    "additionalProperties": False,
    "properties": {
        "action": {
            "enum": ["list", "show", "generate", "trust", "untrust", "export"],
            "description": "show and export are about your own public key",
        },
        "fingerprint": {
            "type": "string",
            "pattern": "^[0-9a-f]{16}$",
            "description": "trust, untrust: all 16 hex digits, as a person has compared them",
        },
        "file": {
            "type": "string",
            "minLength": 1,
            "description": "trust: its PEM file or document; else a key that the project carries",
        },
        "owner": {"type": "string", "description": "generate, trust: whose key it is"},
        "space": {
            "enum": ["project", "user"],
            "description": "trust: where its document is written, user without it",
        },
    },
    "examples": [{"action": "list"}],
}
NEEDED = {"trust": ("fingerprint",), "untrust": ("fingerprint",)}


def execute(params: dict, project_path: str) -> dict:
    """What the command answers, with ``success``."""
    action = params["action"]
    lacking = missing(params, action, NEEDED)
    if lacking:
        return {**lacking, "hint": "see the keys there are with action list"}
    words, values = ["keys", action], []
    if action in ("generate", "trust"):
        words += option(params, "owner")
    if action == "untrust":
        values = [params["fingerprint"]]
    if action == "trust":
        words += option(params, "space", "fingerprint")
        values = [params.get("file", params["fingerprint"])]
        if values == ["-"]:
            return refusal("file: expected a path, found -")
    return run_rye(words, values, project=project_path)
