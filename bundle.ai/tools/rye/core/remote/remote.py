"""Push this project to a node, run items there, and bring back what they made.

Each action is a command of Rye itself, which is started once more with ``--json``: what this file
knows is only which. Page: ``docs/remote.md``.
"""

import json

from rye_command import flags, missing, refusal, run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/remote"
__tool_description__ = "Push to a node, run items there, bring back what they made"

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}

ACTIONS = (
    "push",
    "pull",
    "execute",
    "status",
    "threads",
    "thread_status",
    "history",
    "diff",
    "resolve",
    "secrets_set",
    "secrets_import",
    "secrets_list",
    "secrets_delete",
    "seal",
    "vault_set",
    "vault_list",
    "vault_delete",
    "webhooks",
    "webhook_create",
    "webhook_delete",
    "webhook_trigger",
)

# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "any", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["action"],
    "additionalProperties": False,
    "properties": {
        "action": {"type": "string", "description": "What to do, like push or execute"},
        "remote": {"type": "string", "description": "The name of the remote; default without one"},
        "item_id": {"type": "string", "description": "execute, webhook_create: the item, kind:id"},
        "parameters": {"type": "object", "description": "execute, webhook_trigger: of the item"},
        "thread": {"type": "string", "description": "execute: inline or fork"},
        "async": {"type": "boolean", "description": "execute: do not wait for its end"},
        "apply": {"type": "boolean", "description": "execute: merge in what it changes (true)"},
        "resign": {"type": "boolean", "description": "execute: sign pages with your own key"},
        "vault_keys": {
            "type": "array",
            "items": {"type": "string"},
            "description": "execute, webhook_create: secrets of the node",
        },
        "force": {"type": "boolean", "description": "push: replace what others brought"},
        "drop_excluded": {
            "type": "boolean",
            "description": "push: remove there what no longer travels",
        },
        "new_project": {"type": "boolean", "description": "push: under another name than before"},
        "hashes": {
            "type": "array",
            "items": {"type": "string"},
            "description": "pull: only this content",
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "description": "threads, history: at most so many",
        },
        "project_path": {"type": "string", "description": "threads: of this project of the node"},
        "path": {"type": "string", "description": "resolve: what both sides changed"},
        "take": {
            "type": "string",
            "enum": ["ours", "theirs"],
            "description": "resolve: which version stays",
        },
        "thread_id": {"type": "string", "description": "thread_status: which run"},
        "name": {"type": "string", "description": "secrets: its name"},
        "value": {"type": "string", "description": "secrets_set: what it is to be"},
        "secret_name": {"type": "string", "description": "seal, vault_set, vault_delete: its name"},
        "secret_value": {"type": "string", "description": "seal, vault_set: what it is to be"},
        "env_file": {"type": "string", "description": "secrets_import: a file of NAME=VALUE lines"},
        "names": {
            "type": "array",
            "items": {"type": "string"},
            "description": "secrets_import: variables of the environment",
        },
        "description": {"type": "string", "description": "webhook_create: what it is for"},
        "hook_id": {"type": "string", "description": "webhook_delete, webhook_trigger: which one"},
        "secret": {"type": "string", "description": "webhook_trigger: else WEBHOOK_SECRET"},
    },
    "examples": [{"action": "status"}],
}


# What an action cannot do without.
NEEDED = {
    "execute": ("item_id",),
    "resolve": ("path", "take"),
    "thread_status": ("thread_id",),
    "webhook_create": ("item_id",),
    "webhook_delete": ("hook_id",),
    "webhook_trigger": ("hook_id",),
}

# Words of a command line, which must not be taken for its flags.
WORDS = (
    "path",
    "item_id",
    "thread_id",
    "name",
    "secret_name",
    "env_file",
    "hook_id",
    "hashes",
    "names",
)


def execute(params: dict, project_path: str) -> dict:
    """What the action answers, with ``success``."""
    action = params["action"]
    if action not in ACTIONS:
        problem = f"action: expected one of {', '.join(ACTIONS)}, found {action!r}"
        return {**refusal(problem), "valid_actions": list(ACTIONS)}
    lacking = missing(params, action, NEEDED)
    if lacking:
        return lacking
    for name in WORDS:
        words = params.get(name, [])
        if any(word.startswith("-") for word in ([words] if isinstance(words, str) else words)):
            return refusal(f"{name}: expected none that begins with -")
    words, stdin, env = command(action, params)
    if params.get("remote"):
        words += ["--remote", params["remote"]]
    return run_rye(["remote", *words], stdin=stdin, env=env, project=project_path)


def command(action: str, params: dict) -> tuple:
    """The words of the command, its standard input, and variables for it alone."""
    if f"_{action}" in globals():
        return globals()[f"_{action}"](params)
    if action == "thread_status":
        return ["thread", params.get("thread_id", "")], None, {}
    if action.startswith("webhook"):
        return _webhook(action, params)
    return _secret("seal" if action == "seal" else action.partition("_")[2], params)


def _push(params: dict) -> tuple:
    return ["push", *flags(params, "force", "drop_excluded", "new_project")], None, {}


def _pull(params: dict) -> tuple:
    return ["pull", *params.get("hashes", [])], None, {}


def _status(_: dict) -> tuple:
    return ["status"], None, {}


def _diff(_: dict) -> tuple:
    return ["diff"], None, {}


def _resolve(params: dict) -> tuple:
    return ["resolve", params["path"], f"--{params['take']}"], None, {}


def _threads(params: dict) -> tuple:
    project = ["--of", params["project_path"]] if params.get("project_path") else []
    return ["threads", *_options(params, "limit"), *project], None, {}


def _history(params: dict) -> tuple:
    return ["history", *_options(params, "limit")], None, {}


def _execute(params: dict) -> tuple:
    words = ["execute", params.get("item_id", ""), "--params", "-", *_options(params, "thread")]
    words += flags(params, "async", "resign") + _vault_keys(params)
    if params.get("apply") is False:
        words.append("--no-apply")
    return words, json.dumps(params.get("parameters", {})), {}


def _secret(action: str, params: dict) -> tuple:
    """A value travels over a pipe: every user of the machine can read a command line."""
    name = params.get("name") or params.get("secret_name", "")
    if action in ("set", "seal"):
        value = params.get("value", params.get("secret_value", ""))
        return ["secrets", action, name, "--stdin"], value, {}
    if action == "import":
        names = params.get("names", [])
        words = [*names, "--env"] if names else [params.get("env_file", "")]
        return ["secrets", "import", *words], None, {}
    return ["secrets", action, *([name] if action == "delete" else [])], None, {}


def _webhook(action: str, params: dict) -> tuple:
    if action == "webhooks":
        return ["webhooks", "list"], None, {}
    if action == "webhook_create":
        words = ["webhooks", "create", params.get("item_id", "")]
        return [*words, *_options(params, "description"), *_vault_keys(params)], None, {}
    words = ["webhooks", action.partition("_")[2], params.get("hook_id", "")]
    if action == "webhook_delete":
        return words, None, {}
    secret = {"WEBHOOK_SECRET": params["secret"]} if params.get("secret") else {}
    return [*words, "--params", "-"], json.dumps(params.get("parameters", {})), secret


def _vault_keys(params: dict) -> list:
    names = params.get("vault_keys")
    return ["--vault-keys", ",".join(names)] if names else []


def _options(params: dict, *names: str) -> list:
    given = [name for name in names if params.get(name) is not None]
    return [word for name in given for word in (f"--{name}", str(params[name]))]
