"""Published items and bundles: find them, bring them here, publish your own.

Each action is a command of Rye. Nothing that is pulled runs before its user signed it, and no
action trusts a registry's key: that is for a person. Page: ``docs/registry.md``.
"""

from rye_command import flags, missing, option, refusal, run_rye

__version__ = "1.0.0"
__tool_type__ = "python"
__executor_id__ = "rye/core/runtimes/python/function"
__category__ = "rye/core/registry"
__tool_description__ = "Publish to a registry; search, pull, verify and update what is in it"
__tags__ = ["registry", "publish", "pull", "share", "install", "bundle"]

ENV_CONFIG = {"env": {"PYTHONPATH": "{runtime_lib}"}}

# By action: the words of the command, what it cannot do without, its options and its flags.
ACTIONS = {
    "status": ("registry status", (), (), ()),
    "search": (
        "registry search",
        (),
        ("type", "namespace", "category", "limit", "offset"),
        ("mine",),
    ),
    "info": ("registry info", ("item_id",), (), ()),
    "pull": (
        "registry pull",
        ("item_id",),
        ("release", "space"),
        ("overwrite", "resign", "print"),
    ),
    "publish": ("registry push", ("item_id",), ("release", "changelog", "space"), ("unlisted",)),
    "delete": ("registry delete", ("item_id", "version"), ("release",), ()),
    "visibility": ("registry visibility", ("item_id", "visibility"), (), ()),
    "verify": ("registry verify", (), ("space",), ()),
    "outdated": ("registry outdated", (), ("space",), ()),
    "update": ("registry update", (), ("space",), ("resign",)),
    "pins": ("registry pins", (), (), ()),
    "namespaces": ("registry namespaces list", (), (), ()),
    "claim_namespace": ("registry namespaces claim", ("name",), (), ()),
    "bundle_search": ("bundle search", (), ("namespace", "limit", "offset"), ("mine",)),
    "bundle_install": ("bundle install", ("bundle",), ("release", "key"), ()),
    "bundle_uninstall": ("bundle uninstall", ("bundle",), (), ()),
    "bundle_list": ("bundle list", (), (), ()),
    "bundle_pull": ("bundle pull", ("bundle", "to"), ("to", "release", "key"), ()),
    "bundle_push": ("bundle push", ("bundle",), (), ("unlisted",)),
}
# These speak to no registry, or to whichever the lock names.
NO_REGISTRY = {"verify", "outdated", "update", "pins", "bundle_uninstall", "bundle_list"}
VALUES = ("item_id", "bundle", "name", "query")

# It starts Rye, which enforces its own rules: under an agent no key is readable.
SANDBOX = {"read": "any", "write": "any", "network": "any", "programs": "any", "env": "any"}
CONFIG_SCHEMA = {
    "type": "object",
    "required": ["action"],
    "additionalProperties": False,
    "properties": {
        "action": {
            "enum": [
                "status",
                "search",
                "info",
                "pull",
                "publish",
                "delete",
                "visibility",
                "verify",
                "outdated",
                "update",
                "pins",
                "namespaces",
                "claim_namespace",
                "bundle_search",
                "bundle_install",
                "bundle_uninstall",
                "bundle_list",
                "bundle_pull",
                "bundle_push",
            ],
            "description": "publish sends an item of your own",
        },
        "registry": {"type": "string", "description": "Its name; default without one"},
        "item_id": {
            "type": "string",
            "minLength": 1,
            "description": "kind:namespace/.../name; verify, outdated, update: only this one",
        },
        "query": {"type": "string", "description": "search, bundle_search: words to look for"},
        "bundle": {"type": "string", "minLength": 1, "description": "Its id; or its folder"},
        "name": {"type": "string", "minLength": 1, "description": "claim_namespace: which one"},
        "version": {
            "type": "string",
            "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+$",
            "description": "This one; the latest without it",
        },
        "type": {"enum": ["tool", "directive", "knowledge"], "description": "search: the kind"},
        "namespace": {"type": "string", "description": "Only what is published below it"},
        "category": {"type": "string", "description": "search: only this category"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Rows shown"},
        "offset": {"type": "integer", "minimum": 0, "description": "Rows left out before"},
        "mine": {"type": "boolean", "description": "Your own too, unlisted ones as well"},
        "space": {"enum": ["project", "user"], "description": "Where it is, or is written"},
        "overwrite": {"type": "boolean", "description": "pull: replace another file, kept as .bak"},
        "resign": {"type": "boolean", "description": "Sign with the user's key, so that it runs"},
        "print": {"type": "boolean", "description": "pull: show it, and write nothing"},
        "changelog": {"type": "string", "description": "publish: what is new in it"},
        "unlisted": {"type": "boolean", "description": "publish, bundle_push: not in searches"},
        "visibility": {"enum": ["public", "unlisted"], "description": "visibility: the new one"},
        "key": {
            "type": "string",
            "pattern": "^[0-9a-f]{16}$",
            "description": "bundle_install, bundle_pull: the publisher's, as the publisher gave it",
        },
        "to": {"type": "string", "minLength": 1, "description": "bundle_pull: a new folder"},
    },
    "examples": [{"action": "verify"}],
}


def execute(params: dict, project_path: str) -> dict:
    """What the command answers, with ``success``."""
    action = params["action"]
    command, _, options, switches = ACTIONS[action]
    lacking = missing(params, action, {name: row[1] for name, row in ACTIONS.items()})
    if lacking:
        return lacking
    values = [params[name] for name in VALUES if params.get(name)]
    if "registry" in params and action in NO_REGISTRY:
        return refusal(f"registry: {action} takes none")
    if action == "visibility":
        values.append(params["visibility"])
    given = {**params, "release": params.get("version")}
    words = [*command.split(), *option(given, *options), *flags(params, *switches)]
    return run_rye([*words, *option(params, "registry")], values, project=project_path)
