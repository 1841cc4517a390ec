"""The table of commands of ``rye``, and the flags that each of them takes."""

from __future__ import annotations

from ryeos.app.command_line import HELP_FLAGS, VERSION_FLAGS, Table

TYPE_CHECKING = False  # importing `typing` would slow the start
if TYPE_CHECKING:
    from typing import Any

    from ryeos.app.command_line import Arguments, CommandSpec, PlainArguments

PACKAGE = "ryeos.cli"
# Other words for a command, those of other programs among them: only where one thing can be meant.
ALIASES = {
    "execute": "run",
    "cat": "load",
    "delete": "rm",
    "ls": "list",
    "move": "mv",
    "open": "edit",
    "remove": "rm",
    "rename": "mv",
    "show": "info",
}
_ITEMS = (
    ("run", "run.RUN", "execute a tool, render a directive, print knowledge"),
    ("search", "items.SEARCH", "find items"),
    ("load", "items.LOAD", "print an item, or copy it to a space"),
    ("list", "manage.LIST", "list your items"),
    ("info", "manage.INFO", "show one item: file, signer, rights, inputs"),
    ("new", "new.NEW", "write a template for a new item"),
    ("import", "import_items.IMPORT", "make items of what you have: servers, skills, tasks"),
    ("skill add", "import_items.ADD", "sign a folder with a SKILL.md, and all its files"),
    ("skill list", "import_items.LIST", "list skills, and whether each holds"),
    ("skill verify", "import_items.VERIFY", "verify every file of skills"),
    ("skill export", "import_items.EXPORT", "write a directive as a skill"),
    ("dev", "dev.DEV", "sign and run an item whenever it is saved"),
    ("edit", "manage.EDIT", "open an item in your editor"),
    ("mv", "manage.MV", "rename an item, and what refers to it"),
    ("rm", "manage.RM", "remove an item; its text is kept"),
    ("status", "manage.STATUS", "show what waits: unsigned items, proposals, runs"),
    ("test", "test.TEST", "run the test cases of tools"),
    ("chain", "chain.CHAIN", "show the files that run a tool, in order"),
    ("sandbox show", "sandbox.SHOW", "show what a tool may do"),
    ("sandbox suggest", "sandbox.SUGGEST", "run a tool once, and suggest its rights"),
)
_TRUST = (
    ("sign", "sign.SIGN", "validate and sign items"),
    ("approve", "sign.APPROVE", "sign what agents propose"),
    ("verify", "sign.VERIFY", "verify the signatures of items, globs or folders"),
    ("trust", "trust.TRUST", "approve what a project brings: interpreters, .env"),
    ("keys generate", "keys.GENERATE", "make a signing key"),
    ("keys show", "keys.SHOW", "show your public key"),
    ("keys list", "keys.LIST", "list all keys, and whether each is trusted"),
    ("keys trust", "keys.TRUST", "trust a key"),
    ("keys untrust", "keys.UNTRUST", "stop trusting a key"),
    ("keys upgrade", "keys.UPGRADE", "let your key sign each text for one item"),
    ("keys protect", "keys.PROTECT", "put your private key under a passphrase"),
    ("keys use-agent", "keys.USE_AGENT", "sign with a key that an ssh-agent holds"),
    ("keys rotate", "keys.ROTATE", "replace your key, and sign again with a new one"),
    ("keys export", "keys.EXPORT", "write your public key to a file"),
    ("keys import", "keys.IMPORT", "import a private key"),
    ("lock show", "chain.SHOW", "show what a tool's lockfile pins"),
    ("lock list", "chain.LIST", "list pinned tools, and whether each still holds"),
    ("lock update", "chain.UPDATE", "pin a tool's chain as it is now"),
    ("lock delete", "chain.DELETE", "remove a tool's lockfile"),
)
_GRAPHS = (
    ("graph run", "graph.RUN", "run a graph, step by step"),
    ("graph validate", "graph.VALIDATE", "list all problems of a graph file"),
    ("graph show", "graph.SHOW", "draw a graph, or a run of it"),
    ("graph step", "graph.STEP", "run one node of a graph"),
    ("graph resume", "graph.RESUME", "resume a run"),
)
_RUNS = (
    ("receipts list", "receipts.LIST", "list what ran, the latest first"),
    ("receipts show", "receipts.SHOW", "show what one run did, and with which rights"),
    ("receipts verify", "receipts.VERIFY", "verify the log of receipts"),
    ("receipts export", "receipts.EXPORT", "print a receipt for other programs"),
    ("agent models", "agent.MODELS", "list models, their prices, and their keys"),
    ("agent set-up", "agent_setup.SET_UP", "store the key of a provider, and try it"),
    ("threads list", "threads.LIST", "list background runs"),
    ("threads show", "threads.SHOW", "show a background run and its result"),
    ("threads logs", "threads.LOGS", "print the log of a thread"),
    ("threads kill", "threads.KILL", "stop a background run"),
    ("threads wait", "threads.WAIT", "wait until background runs end"),
    ("threads cancel", "agent_threads.CANCEL", "end a thread after its present turn"),
    ("threads resume", "agent_threads.RESUME", "go on with a thread that stopped"),
    ("threads branch", "agent_threads.BRANCH", "start a thread from a turn of one"),
    ("threads raise", "agent_threads.RAISE", "give a stopped thread more"),
    ("threads steer", "agent_threads.STEER", "tell a running thread something"),
    ("threads prune", "agent_threads.PRUNE", "remove threads that ended long ago"),
)
_STORE = (
    ("store show", "store.SHOW", "show the contents of the project's object store"),
    ("store gc", "store.GC", "remove unreferenced objects from the store"),
)
_REMOTES = (
    ("remote add", "remote_setup.ADD", "add a node"),
    ("remote list", "remote_setup.LIST", "list configured nodes"),
    ("remote remove", "remote_setup.REMOVE", "remove a node"),
    ("remote pins", "remote_setup.PINS", "list the pinned keys of nodes"),
    ("remote forget", "remote_setup.FORGET", "forget the pinned key of a node"),
    ("remote push", "remote.PUSH", "push the project to a node"),
    ("remote pull", "remote.PULL", "pull from a node, and merge"),
    ("remote diff", "remote.DIFF", "compare the project with the node's"),
    ("remote resolve", "remote.RESOLVE", "resolve merge conflicts"),
    ("remote execute", "remote.EXECUTE", "run an item on a node"),
    ("remote status", "remote.STATUS", "show the state of all remotes"),
    ("remote threads", "remote.THREADS", "list runs on a node"),
    ("remote thread", "remote.THREAD", "show a run on a node"),
    ("remote logs", "remote.LOGS", "show what programs of a run on a node write"),
    ("remote cancel", "remote.CANCEL", "end a run on a node"),
    ("remote trust-items", "remote.TRUST_ITEMS", "trust what a node signs"),
    ("remote history", "remote.HISTORY", "list the project's snapshots on a node"),
    ("remote secrets", "remote_secrets.SECRETS", "manage secrets that tools on a node get"),
    ("remote webhooks", "remote_secrets.WEBHOOKS", "manage webhooks that start runs"),
    ("remote login", "remote_teams.LOGIN", "have a node let this machine in"),
    ("remote whoami", "remote_teams.WHOAMI", "show who a node takes you for"),
    ("remote keys", "remote_teams.KEYS", "manage your keys on a node"),
    ("remote tokens", "remote_teams.TOKENS", "manage tokens for CI"),
    ("remote teams", "remote_teams.TEAMS", "manage teams on a node"),
    ("remote projects", "remote_teams.PROJECTS", "list projects on a node"),
    ("remote move", "remote_teams.MOVE", "give a project to a team, or take it back"),
)
_REGISTRIES = (
    ("registry login", "registry.LOGIN", "log in to a registry, and pin its key"),
    ("registry logout", "registry.LOGOUT", "log out of a registry"),
    ("registry status", "registry.STATUS", "show whether the registries answer"),
    ("registry search", "registry_items.SEARCH", "find published items"),
    ("registry info", "registry_items.INFO", "show an item's versions and publisher"),
    ("registry pull", "registry_items.PULL", "pull a published item"),
    ("registry push", "registry_items.PUSH", "publish an item"),
    ("registry delete", "registry_items.DELETE", "delete a published item"),
    ("registry visibility", "registry_items.VISIBILITY", "make a published item public or private"),
    ("registry verify", "registry_items.VERIFY", "verify that a pulled item is unchanged"),
    ("registry outdated", "registry_items.OUTDATED", "list items that have a newer version"),
    ("registry update", "registry_items.UPDATE", "update items to their newest versions"),
    ("registry keys", "registry.KEYS", "manage your API keys"),
    ("registry signers", "registry.SIGNERS", "manage the signing keys of your account"),
    ("registry namespaces", "registry.NAMESPACES", "manage your namespaces"),
    ("registry pin", "registry.PIN", "pin the key of a registry"),
    ("registry pins", "registry.PINS", "list the pinned keys of registries"),
    ("registry forget", "registry.FORGET", "forget the pinned key of a registry"),
    ("registry trust", "registry.TRUST", "trust all items that a registry signs"),
    ("bundle create", "bundle.CREATE", "make a bundle from items"),
    ("bundle verify", "bundle.VERIFY", "verify every file of a bundle"),
    ("bundle inspect", "bundle.INSPECT", "list the contents of a bundle"),
    ("bundle search", "bundle.SEARCH", "find published bundles"),
    ("bundle install", "bundle.INSTALL", "install or update a bundle"),
    ("bundle uninstall", "bundle.UNINSTALL", "remove an installed bundle"),
    ("bundle list", "bundle.LIST", "list and verify installed bundles"),
    ("bundle pull", "bundle.PULL", "download a bundle to a folder"),
    ("bundle push", "bundle.PUSH", "publish a bundle"),
)
_SETUP = (
    ("init", "init.INIT", "set up the user space or a project"),
    ("uninstall", "init.UNINSTALL", "remove rye from clients and this machine"),
    ("mcp", "mcp.MCP", "serve agents over MCP on standard input and output"),
    ("mcp config", "mcp_clients.CONFIG", "print the settings entry for a client"),
    ("mcp install", "mcp_clients.INSTALL", "add rye to a client's settings"),
    ("mcp uninstall", "mcp_clients.UNINSTALL", "remove rye from a client's settings"),
    ("mcp list-clients", "mcp_clients.LIST_CLIENTS", "list clients, and where rye is installed"),
    ("mcp add", "mcp_servers.ADD", "add an MCP server"),
    ("mcp servers", "mcp_servers.SERVERS", "list configured MCP servers"),
    ("mcp discover", "mcp_servers.DISCOVER", "write the new tools of a server"),
    ("mcp refresh", "mcp_servers.REFRESH", "write the new and changed tools of a server"),
    ("mcp remove", "mcp_servers.REMOVE", "remove a server and its tools"),
    ("doctor", "doctor.DOCTOR", "check this installation"),
    ("self where", "program.WHERE", "show where this program and its files are"),
    ("self verify", "program.VERIFY", "verify this file, or another copy"),
    ("self update", "self_update.UPDATE", "look for a newer version of this file"),
    ("self extract", "program.EXTRACT", "unpack this file to a folder"),
    ("self clean", "program.CLEAN", "clear the cache of this program"),
    ("lillux-proc", "helper_programs.LILLUX_PROC", "run, start, stop and show processes, as JSON"),
    ("lillux-watch", "helper_programs.LILLUX_WATCH", "wait until a background run ends, as JSON"),
    ("completion", "completion.COMPLETION", "print a shell's completion script"),
    ("version", "help.VERSION", "show the version of this program"),
    ("help", "help.HELP", "show help on a command or a topic"),
)
TABLE = Table(
    PACKAGE,
    (
        ("Items", _ITEMS),
        ("Trust", _TRUST),
        ("Graphs", _GRAPHS),
        ("Background runs", _RUNS),
        ("Set-up and support", _STORE),
        ("Remotes", _REMOTES),
        ("Registries and bundles", _REGISTRIES),
        ("Set-up and support", _SETUP),
    ),
    ALIASES,
)
# The commands of a day, which ``rye`` alone shows.
DAILY = (
    *("init", "import", "new", "sign", "approve", "verify", "run", "test", "search", "load"),
    *("graph run", "threads list", "mcp install", "doctor"),
)
# For rye itself, see `ryeos.run.threads.start`: no user types it, no help lists it.
HIDDEN = Table(PACKAGE, (("", (("_thread", "thread_runner.THREAD", "run a thread"),)),))
_UPDATES = (
    "rye self update --check (this program), rye registry update (items), or: rye mcp refresh NAME"
    " (tools of a server)"
)
# What people type from the habit of other programs, and the commands that may be meant.
HABITS = {
    "add": "rye new tool mine/hello, or: rye registry pull ITEM",
    "audit": "rye verify (signatures), or: rye receipts list (what ran)",
    "check": "rye verify (signatures), rye doctor (this installation), or: rye graph validate",
    "create": "rye new tool mine/hello",
    "exec": "rye run REF",
    "history": "rye receipts list (what ran here), or: rye remote history",
    "key": "rye keys show",
    "resume": "rye graph resume",
    "settings": "rye help config",
    "start": "rye run REF, or in the background: rye run REF --async",
    "stop": "rye threads kill ID",
    "validate": "rye verify, or: rye graph validate",
    "upgrade": _UPDATES,
    "update": _UPDATES,
    "install": "rye bundle install NAME, or: rye registry pull ITEM",
    "watch": "rye dev REF, or: rye threads logs ID --follow",
    "log": "rye threads logs ID, or: rye receipts list",
    "logs": "rye threads logs ID",
    "ps": "rye threads list",
    "kill": "rye threads kill ID",
    "login": "rye registry login",
    "pull": "rye remote pull, or: rye registry pull ITEM",
    "push": "rye remote push, or: rye registry push REF",
    "diff": "rye remote diff",
    "config": "rye help config",
}
# Programs of layer 1 that this one stands in for: all behind their name is theirs to read.
PROGRAMS = ("lillux-proc", "lillux-watch")
# What completion scripts call, see `ryeos.cli.completion_candidates`. After it comes the line that
# the user is typing.
COMPLETE = "__complete"

SHARED: tuple[tuple[tuple[str, ...], dict[str, Any]], ...] = (
    (("-p", "--project", "--project-path"), {"metavar": "DIR", "help": "the project"}),
    (("--user-space",), {"metavar": "DIR", "help": "the base of user space"}),
    (("--json",), {"action": "store_true", "help": "one JSON document on stdout"}),
    (("-q", "--quiet"), {"action": "store_true", "help": "no notes, no progress"}),
    (("-v", "--verbose"), {"action": "count", "default": 0, "help": "say more"}),
    (("--color",), {"choices": ("auto", "always", "never"), "default": "auto"}),
    (("--no-input",), {"action": "store_true", "help": "never ask"}),
)
"""The flags that every command takes, beside ``--help`` and ``--version``: names and rules."""
PROJECT_FLAGS, USER_SPACE_FLAGS = SHARED[0][0], SHARED[1][0]
GLOBAL_FLAGS = {name: "action" not in rules for names, rules in SHARED for name in names}
"""The flags that may stand anywhere, and whether a value follows."""
GLOBAL_FLAGS |= dict.fromkeys((*HELP_FLAGS, *VERSION_FLAGS), False)


def declare_shared(shared: Arguments, *, has_project: bool) -> None:
    """Declare the flags that every command takes; `init` has a ``--project`` of its own."""
    for names, rules in SHARED[1:] if has_project else SHARED:
        shared.add_argument(*names, **rules)


def plain_arguments(spec: CommandSpec) -> PlainArguments:
    """All that a command takes, the flags of every command with it."""
    from ryeos.app.command_line import PlainArguments

    plain = PlainArguments()
    spec.declare(plain)
    declare_shared(plain, has_project=plain.takes("--project"))
    return plain
