"""The table of commands of ``rye-node``, and the flags that each of them takes."""

from typing import Any

from ryeos.app.command_line import Arguments, Table

GROUPS = {
    "keys": "who may sign requests",
    "api-keys": "texts that stand for a user",
    "accounts": "who may publish in a registry",
    "users": "who has a store here, and how much is in it",
    "teams": "who owns projects together",
    "quota": "how much a user may store",
    "jobs": "the executions of all users",
}
"""What the commands of a group are about."""
_SERVING = (
    ("serve", "cli.SERVE", "serve until asked to end"),
    ("work", "cli.WORK", "carry out executions of a cluster"),
    ("init", "cli.INIT", "make keys and database, or bring the tables up to date"),
)
_KEYS = (
    ("keys add", "cli.ADD_KEY", "add a key that may sign requests"),
    ("keys list", "cli.LIST_KEYS", "the keys that may sign requests"),
    ("keys revoke", "cli.REVOKE_KEY", "remove a key"),
    (
        "keys export",
        "cli.EXPORT_KEYS",
        "the private keys of the node itself, as a Secret for: kubectl apply -f -",
    ),
    (
        "keys rotate",
        "operator_commands.ROTATE",
        "new signing and box keys of the node itself; the node is stopped",
    ),
    ("api-keys create", "cli.CREATE_API_KEY", "make one, and show it once"),
    ("api-keys list", "cli.LIST_API_KEYS", "all there ever were"),
    ("api-keys revoke", "cli.REVOKE_API_KEY", "revoke one"),
)
_REGISTRY = (
    (
        "accounts add",
        "operator_commands.ADD_ACCOUNT",
        "make an account, and show its first API key once",
    ),
    (
        "accounts list",
        "operator_commands.LIST_ACCOUNTS",
        "all there are, with their namespaces and keys",
    ),
    (
        "accounts disable",
        "operator_commands.DISABLE_ACCOUNT",
        "let one publish no longer; what it published stays",
    ),
    ("accounts enable", "operator_commands.ENABLE_ACCOUNT", "let one publish again"),
    ("accounts add-key", "operator_commands.ADD_ACCOUNT_KEY", "let one sign with a key"),
    (
        "accounts grant",
        "operator_commands.GRANT_NAMESPACE",
        "give one a namespace, also one that is reserved",
    ),
    ("take-down", "operator_commands.TAKE_DOWN", "delete an item or bundle from a registry"),
)
_STORAGE = (
    ("gc", "cli.COLLECT", "remove what nothing names from every store"),
    ("fsck", "cli.FSCK", "read everything that is stored, and name what is damaged"),
    ("backup", "cli.BACK_UP", "back up a whole node to a folder, also while it serves"),
    ("restore", "cli.RESTORE", "restore a backup to a data folder"),
    (
        "migrate",
        "operator_commands.MIGRATE",
        "move the database to another one, or the stores to a bucket",
    ),
)
_PEOPLE = (
    ("audit", "operator_commands.AUDIT", "who changed what may be done here, the newest first"),
    ("users list", "operator_commands.LIST_USERS", "every user, with bytes, heads and executions"),
    ("users show", "operator_commands.SHOW_USER", "one of them"),
    ("users add", "operator_commands.ADD_USER", "make a person who has no key yet"),
    ("users add-key", "operator_commands.ADD_KEY", "let a person sign with a further key"),
    ("users keys", "operator_commands.LIST_KEYS", "the further keys of a person"),
    ("users remove-key", "operator_commands.REMOVE_KEY", "let a key of a person sign no longer"),
    ("users open", "operator_commands.OPEN_USER", "let in a person who waits, or was closed"),
    ("users close", "operator_commands.CLOSE_USER", "lock a person out, and end what they run"),
    (
        "users invite",
        "operator_commands.INVITE",
        "invite a person who signs in; the text is shown once",
    ),
    ("teams list", "operator_commands.LIST_TEAMS", "all teams"),
    ("teams show", "operator_commands.SHOW_TEAM", "the members of one"),
    ("teams add", "operator_commands.ADD_TEAM", "make a team, also of a reserved name"),
    ("teams set-role", "operator_commands.SET_ROLE", "give a person a role in a team"),
    (
        "teams remove",
        "operator_commands.REMOVE_MEMBER",
        "end a membership; what they run there ends",
    ),
    ("quota set", "operator_commands.SET_QUOTA", "how much a user may store from now on"),
    ("quota list", "operator_commands.LIST_QUOTAS", "who has a quota of their own"),
)
_JOBS = (
    ("jobs list", "operator_commands.LIST_JOBS", "executions of all users, the newest first"),
    ("jobs cancel", "operator_commands.CANCEL_JOB", "end one; what it changed is not taken"),
    ("jobs sweeps", "operator_commands.LIST_SWEEPS", "collections of garbage, the newest first"),
    ("jobs logs", "operator_commands.JOB_LOGS", "what the programs of one wrote"),
)
_SUPPORT = (
    ("doctor", "cli.DOCTOR", "what this machine gives to keep executions apart"),
    ("version", "cli.VERSION", "the version and its environment"),
)
TABLE = Table(
    "rye_services.operations",
    (
        ("Serving", _SERVING),
        ("Keys", _KEYS),
        ("Registry", _REGISTRY),
        ("Storage", _STORAGE),
        ("People", _PEOPLE),
        ("Jobs", _JOBS),
        ("Support", _SUPPORT),
    ),
)

Flag = tuple[tuple[str, ...], dict[str, Any]]
STORE_FLAGS: tuple[Flag, ...] = (
    (
        ("--store",),
        {
            "metavar": "URL",
            "help": "object storage like s3://bucket/prefix, named when the node is made",
        },
    ),
    (("--store-endpoint",), {"metavar": "URL", "help": "where that is served, if not by AWS"}),
    (("--store-region",), {"metavar": "NAME", "help": "its region (default us-east-1)"}),
)
"""Where the node keeps its objects."""
SHARED: tuple[Flag, ...] = (
    (("--data",), {"metavar": "DIR", "help": "what the node keeps (default ~/.rye-node)"}),
    *STORE_FLAGS,
    (("--json",), {"action": "store_true", "help": "one JSON document on stdout"}),
    (("-q", "--quiet"), {"action": "store_true", "help": "no notes"}),
)
"""The flags that every command takes, beside ``--help``: names and rules."""


def declare_shared(parser: Arguments) -> None:
    """Declare the flags that every command takes."""
    for names, rules in SHARED:
        parser.add_argument(*names, **rules)
