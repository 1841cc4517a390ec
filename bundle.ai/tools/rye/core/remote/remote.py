"""Push this project to a node, run items there, and bring back what they made.

Each action is a command of Rye itself, which is started once more with ``--json``: what this file
knows is only which. Page: ``docs/remote.md``.
"""

import json
import os
import subprocess
from pathlib import Path

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/remote"
__tool_description__ = "Push to a node, run items there, bring back what they made"

ACTIONS = (
    "push",
    "pull",
    "execute",
    "status",
    "threads",
    "thread_status",
    "history",
    "diff",
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

CONFIG_SCHEMA = {
    "type": "object",
    "required": ["action"],
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
        "limit": {"type": "integer", "description": "threads, history: at most so many"},
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
}


# Words of a command line, which must not be taken for its flags.
WORDS = ("item_id", "thread_id", "name", "secret_name", "env_file", "hook_id", "hashes", "names")


def execute(params: dict, project_path: str) -> dict:
    """What the action answers, with ``success``."""
    action = params["action"]
    if action not in ACTIONS:
        problem = f"action: expected one of {', '.join(ACTIONS)}, found {action!r}"
        return {"success": False, "error": problem, "valid_actions": list(ACTIONS)}
    for name in WORDS:
        words = params.get(name, [])
        if any(word.startswith("-") for word in ([words] if isinstance(words, str) else words)):
            return {"success": False, "error": f"{name}: expected none that begins with -"}
    if not Path(project_path).is_dir():
        return {"success": False, "error": f"{project_path}: there is no such folder"}
    program = json.loads(os.environ.get("RYE_PROGRAM", "[]"))
    if not program:
        return {"success": False, "error": "RYE_PROGRAM: Rye cannot be started from here"}
    words, stdin, env = command(action, params)
    if params.get("remote"):
        words += ["--remote", params["remote"]]
    return answer([*program, "remote", *words, "--json", "--project", project_path], stdin, env)


def command(action: str, params: dict) -> tuple:
    """The words of the command, its standard input, and variables for it alone."""
    if action in ("push", "pull", "execute", "status", "threads", "history", "diff"):
        return globals()[f"_{action}"](params)
    if action == "thread_status":
        return ["thread", params.get("thread_id", "")], None, {}
    if action.startswith("webhook"):
        return _webhook(action, params)
    return _secret("seal" if action == "seal" else action.partition("_")[2], params)


def _push(params: dict) -> tuple:
    return ["push", *_flags(params, "force", "drop_excluded", "new_project")], None, {}


def _pull(params: dict) -> tuple:
    return ["pull", *params.get("hashes", [])], None, {}


def _status(_: dict) -> tuple:
    return ["status"], None, {}


def _diff(_: dict) -> tuple:
    return ["diff"], None, {}


def _threads(params: dict) -> tuple:
    return ["threads", *_options(params, "limit")], None, {}


def _history(params: dict) -> tuple:
    return ["history", *_options(params, "limit")], None, {}


def _execute(params: dict) -> tuple:
    words = ["execute", params.get("item_id", ""), "--params", "-", *_options(params, "thread")]
    words += _flags(params, "async", "resign") + _vault_keys(params)
    if params.get("apply") is False:
        words.append("--no-apply")
    return words, json.dumps(params.get("parameters", {})), {}


def _secret(action: str, params: dict) -> tuple:
    """A value travels over a pipe: everybody can read a command line."""
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


def _flags(params: dict, *names: str) -> list:
    return [f"--{name.replace('_', '-')}" for name in names if params.get(name)]


def _options(params: dict, *names: str) -> list:
    given = [name for name in names if params.get(name) is not None]
    return [word for name in given for word in (f"--{name}", str(params[name]))]


def answer(argv: list, stdin: str | None, env: dict) -> dict:
    """The one document that the command prints."""
    done = subprocess.run(
        argv,
        input=(stdin or "").encode(),
        capture_output=True,
        env={**os.environ, **env},
        check=False,
    )
    try:
        envelope = json.loads(done.stdout)
    except ValueError:
        problem = done.stderr.decode("utf-8", "replace").strip()[-2000:]
        envelope = {"error": problem or f"rye ended with status {done.returncode}"}
    is_fine = done.returncode == 0 and "error" not in envelope
    return {**envelope, "success": is_fine}
