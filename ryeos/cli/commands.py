"""The table of commands: the only list of them, and the only place with late imports.

Each command's module has ``COMMANDS``, a mapping from its words to a `Command` that knows its
arguments and what to do. Help, completion and "did you mean" all read this table.
"""

from __future__ import annotations


class CommandEntry:
    """One row: the words a user types, the module that has it, a line for ``rye help``.

    No dataclass: ``rye version`` reads this table, and takes less time than importing those.
    """

    __slots__ = ("group", "module", "summary", "words")

    def __init__(self, words: str, module: str, summary: str, group: str) -> None:
        self.words = words
        self.module = module
        self.summary = summary
        self.group = group


_ITEMS, _TRUST, _GRAPHS = "Items", "Trust", "Graphs"
_RUNS, _SETUP = "Background runs", "Set-up and support"
_REMOTES, _REGISTRIES = "Remotes", "Registries and bundles"

TABLE: tuple[CommandEntry, ...] = (
    CommandEntry("run", "run", "execute a tool, render a directive, print knowledge", _ITEMS),
    CommandEntry("search", "items", "find items", _ITEMS),
    CommandEntry("load", "items", "print an item, or copy it to a space", _ITEMS),
    CommandEntry("list", "manage", "list your items", _ITEMS),
    CommandEntry("info", "manage", "show one item: file, signer, rights, inputs", _ITEMS),
    CommandEntry("new", "new", "write a template for a new item", _ITEMS),
    CommandEntry(
        "import", "import_items", "make items of what you have: servers, skills, tasks", _ITEMS
    ),
    CommandEntry(
        "skill add", "import_items", "sign a folder with a SKILL.md, and all its files", _ITEMS
    ),
    CommandEntry("skill list", "import_items", "list skills, and whether each holds", _ITEMS),
    CommandEntry("skill verify", "import_items", "verify every file of skills", _ITEMS),
    CommandEntry("skill export", "import_items", "write a directive as a skill", _ITEMS),
    CommandEntry("dev", "dev", "sign and run an item whenever it is saved", _ITEMS),
    CommandEntry("edit", "manage", "open an item in your editor", _ITEMS),
    CommandEntry("mv", "manage", "rename an item, and what refers to it", _ITEMS),
    CommandEntry("rm", "manage", "remove an item; its text is kept", _ITEMS),
    CommandEntry("status", "manage", "show what waits: unsigned items, proposals, runs", _ITEMS),
    CommandEntry("test", "test", "run the test cases of tools", _ITEMS),
    CommandEntry("chain", "chain", "show the files that run a tool, in order", _ITEMS),
    CommandEntry("sandbox show", "sandbox", "show what a tool may do", _ITEMS),
    CommandEntry("sandbox suggest", "sandbox", "run a tool once, and suggest its rights", _ITEMS),
    CommandEntry("sign", "sign", "validate and sign items", _TRUST),
    CommandEntry("approve", "sign", "sign what agents propose", _TRUST),
    CommandEntry("verify", "sign", "verify the signatures of items, globs or folders", _TRUST),
    CommandEntry("trust", "trust", "approve what a project brings: interpreters, .env", _TRUST),
    CommandEntry("keys generate", "keys", "make a signing key", _TRUST),
    CommandEntry("keys show", "keys", "show your public key", _TRUST),
    CommandEntry("keys list", "keys", "list all keys, and whether each is trusted", _TRUST),
    CommandEntry("keys trust", "keys", "trust a key", _TRUST),
    CommandEntry("keys untrust", "keys", "stop trusting a key", _TRUST),
    CommandEntry("keys upgrade", "keys", "let your key sign each text for one item", _TRUST),
    CommandEntry("keys protect", "keys", "put your private key under a passphrase", _TRUST),
    CommandEntry("keys use-agent", "keys", "sign with a key that an ssh-agent holds", _TRUST),
    CommandEntry("keys rotate", "keys", "replace your key, and sign again with a new one", _TRUST),
    CommandEntry("keys export", "keys", "write your public key to a file", _TRUST),
    CommandEntry("keys import", "keys", "import a private key", _TRUST),
    CommandEntry("lock show", "chain", "show what a tool's lockfile pins", _TRUST),
    CommandEntry("lock list", "chain", "list pinned tools, and whether each still holds", _TRUST),
    CommandEntry("lock update", "chain", "pin a tool's chain as it is now", _TRUST),
    CommandEntry("lock delete", "chain", "remove a tool's lockfile", _TRUST),
    CommandEntry("graph run", "graph", "run a graph, step by step", _GRAPHS),
    CommandEntry("graph validate", "graph", "list all problems of a graph file", _GRAPHS),
    CommandEntry("graph show", "graph", "draw a graph, or a run of it", _GRAPHS),
    CommandEntry("graph step", "graph", "run one node of a graph", _GRAPHS),
    CommandEntry("graph resume", "graph", "resume a run", _GRAPHS),
    CommandEntry("receipts list", "receipts", "list what ran, the latest first", _RUNS),
    CommandEntry(
        "receipts show", "receipts", "show what one run did, and with which rights", _RUNS
    ),
    CommandEntry("receipts verify", "receipts", "verify the log of receipts", _RUNS),
    CommandEntry("receipts export", "receipts", "print a receipt for other programs", _RUNS),
    CommandEntry("agent models", "agent", "list models, their prices, and their keys", _RUNS),
    CommandEntry("agent set-up", "agent_setup", "store the key of a provider, and try it", _RUNS),
    CommandEntry("threads list", "threads", "list background runs", _RUNS),
    CommandEntry("threads show", "threads", "show a background run and its result", _RUNS),
    CommandEntry("threads logs", "threads", "print the log of a thread", _RUNS),
    CommandEntry("threads kill", "threads", "stop a background run", _RUNS),
    CommandEntry("threads wait", "threads", "wait until background runs end", _RUNS),
    CommandEntry("threads cancel", "agent_threads", "end a thread after its present turn", _RUNS),
    CommandEntry("threads resume", "agent_threads", "go on with a thread that stopped", _RUNS),
    CommandEntry("threads branch", "agent_threads", "start a thread from a turn of one", _RUNS),
    CommandEntry("threads raise", "agent_threads", "give a stopped thread more", _RUNS),
    CommandEntry("threads steer", "agent_threads", "tell a running thread something", _RUNS),
    CommandEntry("threads prune", "agent_threads", "remove threads that ended long ago", _RUNS),
    CommandEntry("store show", "store", "show the contents of the project's object store", _SETUP),
    CommandEntry("store gc", "store", "remove unreferenced objects from the store", _SETUP),
    CommandEntry("remote add", "remote_setup", "add a node", _REMOTES),
    CommandEntry("remote list", "remote_setup", "list configured nodes", _REMOTES),
    CommandEntry("remote remove", "remote_setup", "remove a node", _REMOTES),
    CommandEntry("remote pins", "remote_setup", "list the pinned keys of nodes", _REMOTES),
    CommandEntry("remote forget", "remote_setup", "forget the pinned key of a node", _REMOTES),
    CommandEntry("remote push", "remote", "push the project to a node", _REMOTES),
    CommandEntry("remote pull", "remote", "pull from a node, and merge", _REMOTES),
    CommandEntry("remote diff", "remote", "compare the project with the node's", _REMOTES),
    CommandEntry("remote resolve", "remote", "resolve merge conflicts", _REMOTES),
    CommandEntry("remote execute", "remote", "run an item on a node", _REMOTES),
    CommandEntry("remote status", "remote", "show the state of all remotes", _REMOTES),
    CommandEntry("remote threads", "remote", "list runs on a node", _REMOTES),
    CommandEntry("remote thread", "remote", "show a run on a node", _REMOTES),
    CommandEntry("remote logs", "remote", "show what programs of a run on a node write", _REMOTES),
    CommandEntry("remote cancel", "remote", "end a run on a node", _REMOTES),
    CommandEntry("remote trust-items", "remote", "trust what a node signs", _REMOTES),
    CommandEntry("remote history", "remote", "list the project's snapshots on a node", _REMOTES),
    CommandEntry(
        "remote secrets", "remote_secrets", "manage secrets that tools on a node get", _REMOTES
    ),
    CommandEntry("remote webhooks", "remote_secrets", "manage webhooks that start runs", _REMOTES),
    CommandEntry("remote login", "remote_teams", "have a node let this machine in", _REMOTES),
    CommandEntry("remote whoami", "remote_teams", "show who a node takes you for", _REMOTES),
    CommandEntry("remote keys", "remote_teams", "manage your keys on a node", _REMOTES),
    CommandEntry("remote tokens", "remote_teams", "manage tokens for CI", _REMOTES),
    CommandEntry("remote teams", "remote_teams", "manage teams on a node", _REMOTES),
    CommandEntry("remote projects", "remote_teams", "list projects on a node", _REMOTES),
    CommandEntry(
        "remote move", "remote_teams", "give a project to a team, or take it back", _REMOTES
    ),
    CommandEntry(
        "registry login", "registry", "log in to a registry, and pin its key", _REGISTRIES
    ),
    CommandEntry("registry logout", "registry", "log out of a registry", _REGISTRIES),
    CommandEntry("registry status", "registry", "show whether the registries answer", _REGISTRIES),
    CommandEntry("registry search", "registry_items", "find published items", _REGISTRIES),
    CommandEntry(
        "registry info", "registry_items", "show an item's versions and publisher", _REGISTRIES
    ),
    CommandEntry("registry pull", "registry_items", "pull a published item", _REGISTRIES),
    CommandEntry("registry push", "registry_items", "publish an item", _REGISTRIES),
    CommandEntry("registry delete", "registry_items", "delete a published item", _REGISTRIES),
    CommandEntry(
        "registry visibility",
        "registry_items",
        "make a published item public or private",
        _REGISTRIES,
    ),
    CommandEntry(
        "registry verify", "registry_items", "verify that a pulled item is unchanged", _REGISTRIES
    ),
    CommandEntry(
        "registry outdated", "registry_items", "list items that have a newer version", _REGISTRIES
    ),
    CommandEntry(
        "registry update", "registry_items", "update items to their newest versions", _REGISTRIES
    ),
    CommandEntry("registry keys", "registry", "manage your API keys", _REGISTRIES),
    CommandEntry(
        "registry signers", "registry", "manage the signing keys of your account", _REGISTRIES
    ),
    CommandEntry("registry namespaces", "registry", "manage your namespaces", _REGISTRIES),
    CommandEntry("registry pin", "registry", "pin the key of a registry", _REGISTRIES),
    CommandEntry("registry pins", "registry", "list the pinned keys of registries", _REGISTRIES),
    CommandEntry("registry forget", "registry", "forget the pinned key of a registry", _REGISTRIES),
    CommandEntry(
        "registry trust", "registry", "trust all items that a registry signs", _REGISTRIES
    ),
    CommandEntry("bundle create", "bundle", "make a bundle from items", _REGISTRIES),
    CommandEntry("bundle verify", "bundle", "verify every file of a bundle", _REGISTRIES),
    CommandEntry("bundle inspect", "bundle", "list the contents of a bundle", _REGISTRIES),
    CommandEntry("bundle search", "bundle", "find published bundles", _REGISTRIES),
    CommandEntry("bundle install", "bundle", "install or update a bundle", _REGISTRIES),
    CommandEntry("bundle uninstall", "bundle", "remove an installed bundle", _REGISTRIES),
    CommandEntry("bundle list", "bundle", "list and verify installed bundles", _REGISTRIES),
    CommandEntry("bundle pull", "bundle", "download a bundle to a folder", _REGISTRIES),
    CommandEntry("bundle push", "bundle", "publish a bundle", _REGISTRIES),
    CommandEntry("init", "init", "set up the user space or a project", _SETUP),
    CommandEntry("uninstall", "init", "remove rye from clients and this machine", _SETUP),
    CommandEntry("mcp", "mcp", "serve agents over MCP on standard input and output", _SETUP),
    CommandEntry("mcp config", "mcp_clients", "print the settings entry for a client", _SETUP),
    CommandEntry("mcp install", "mcp_clients", "add rye to a client's settings", _SETUP),
    CommandEntry("mcp uninstall", "mcp_clients", "remove rye from a client's settings", _SETUP),
    CommandEntry(
        "mcp list-clients", "mcp_clients", "list clients, and where rye is installed", _SETUP
    ),
    CommandEntry("mcp add", "mcp_servers", "add an MCP server", _SETUP),
    CommandEntry("mcp servers", "mcp_servers", "list configured MCP servers", _SETUP),
    CommandEntry("mcp discover", "mcp_servers", "write the new tools of a server", _SETUP),
    CommandEntry(
        "mcp refresh", "mcp_servers", "write the new and changed tools of a server", _SETUP
    ),
    CommandEntry("mcp remove", "mcp_servers", "remove a server and its tools", _SETUP),
    CommandEntry("doctor", "doctor", "check this installation", _SETUP),
    CommandEntry("self where", "program", "show where this program and its files are", _SETUP),
    CommandEntry("self verify", "program", "verify this file, or another copy", _SETUP),
    CommandEntry("self update", "self_update", "look for a newer version of this file", _SETUP),
    CommandEntry("self extract", "program", "unpack this file to a folder", _SETUP),
    CommandEntry("self clean", "program", "clear the cache of this program", _SETUP),
    CommandEntry(
        "lillux-proc", "helper_programs", "run, start, stop and show processes, as JSON", _SETUP
    ),
    CommandEntry(
        "lillux-watch", "helper_programs", "wait until a background run ends, as JSON", _SETUP
    ),
    CommandEntry("completion", "completion", "print a shell's completion script", _SETUP),
    CommandEntry("version", "help", "show the version of this program", _SETUP),
    CommandEntry("help", "help", "show help on a command or a topic", _SETUP),
)
# The commands of a day, which ``rye`` alone shows.
DAILY = (
    *("init", "import", "new", "sign", "approve", "verify", "run", "test", "search", "load"),
    *("graph run", "threads list", "mcp install", "doctor"),
)
# For rye itself, see `ryeos.run.thread_control`: no user types it, no help lists it.
HIDDEN: tuple[CommandEntry, ...] = (CommandEntry("_thread", "thread_runner", "run a thread", ""),)
_UPDATES = (
    "rye self update --check (this program), rye registry update (items), or: rye mcp refresh NAME"
    " (tools of a server)"
)
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
# Flags of every command, and whether a value follows.
GLOBAL_FLAGS = {
    "-p": True,
    "--project": True,
    "--project-path": True,
    "--user-space": True,
    "--color": True,
    "--json": False,
    "-q": False,
    "--quiet": False,
    "-v": False,
    "--verbose": False,
    "--no-input": False,
    "-h": False,
    "--help": False,
    "-V": False,
    "--version": False,
}


def find(words: list[str]) -> CommandEntry | None:
    """The command that the words begin with, the longest first."""
    named = [ALIASES.get(words[0], words[0]), *words[1:]] if words else []
    for length in (2, 1):
        typed = " ".join(named[:length])
        for entry in (*TABLE, *HIDDEN):
            if entry.words == typed and len(words) >= length:
                return entry
    return None


def actions(word: str) -> tuple[str, ...]:
    """The second words of a group of commands, like ``keys``."""
    pairs = (entry.words.split() for entry in TABLE)
    return tuple(pair[1] for pair in pairs if len(pair) > 1 and pair[0] == word)


def first_words() -> tuple[str, ...]:
    """Every word that a command may begin with."""
    words = (entry.words.split()[0] for entry in TABLE)
    return (*dict.fromkeys(words), *ALIASES)
