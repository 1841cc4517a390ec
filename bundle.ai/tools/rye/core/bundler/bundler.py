"""Bundles in folders: made out of items, verified, looked at, listed. Page: ``docs/bundles.md``.

Each action is a command of Rye. What is made is signed with the user's key.
"""

from rye_command import missing, option, run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/bundler"
__tool_description__ = "Make bundles out of items; verify, inspect and list bundles"

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}
# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "any", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["action"],
    "additionalProperties": False,
    "properties": {
        "action": {
            "enum": ["create", "verify", "inspect", "list"],
            "description": "list is about installed bundles",
        },
        "bundle": {
            "type": "string",
            "description": "create: its id; verify, inspect: a folder, or the id of one in use",
        },
        "items": {
            "type": "array",
            "items": {"type": "string", "minLength": 1},
            "maxItems": 1000,
            "description": "create: items, or patterns like text/**; all of the space without it",
        },
        "version": {"type": "string", "description": "create: like 1.2.0"},
        "out": {"type": "string", "description": "create: a folder that is not there yet"},
        "space": {"enum": ["project", "user"], "description": "create: project without it"},
        "description": {"type": "string", "description": "create: what it is for"},
        "entrypoint": {"type": "string", "description": "create: the item to begin with"},
        "key": {"type": "string", "description": "verify: the fingerprint of its publisher's key"},
    },
    "examples": [{"action": "list"}],
}
NEEDED = dict.fromkeys(("create", "verify", "inspect"), ("bundle",))
OPTIONS = {"create": ("out", "space", "description", "entrypoint"), "verify": ("key",)}
MAX_SHOWN = 200


def execute(params: dict, project_path: str) -> dict:
    """What the command answers, with ``success``; long lists are cut."""
    action = params["action"]
    lacking = missing(params, action, NEEDED)
    if lacking:
        return lacking
    words = ["bundle", action, *option(params, *OPTIONS.get(action, ()))]
    values = [params["bundle"]] if action in NEEDED else []
    if action == "create":
        words += option({"release": params.get("version")}, "release")
        values += params.get("items", [])
    answer = run_rye(words, values, project=project_path)
    for name in ("items", "problems"):
        if len(answer.get(name, [])) > MAX_SHOWN:
            more = f"the first {MAX_SHOWN} of {len(answer[name])} {name}"
            answer |= {name: answer[name][:MAX_SHOWN], "truncated": True, "hint": more}
    return answer
