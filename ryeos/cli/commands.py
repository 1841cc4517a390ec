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
    CommandEntry("new", "new", "write a template for a new item", _ITEMS),
    CommandEntry("test", "test", "run the cases that are declared beside tools", _ITEMS),
    CommandEntry("chain", "chain", "show what runs a tool, file by file", _ITEMS),
    CommandEntry("sign", "sign", "validate and sign items", _TRUST),
    CommandEntry("verify", "sign", "check signatures of items, globs and folders", _TRUST),
    CommandEntry("keys generate", "keys", "make a signing key", _TRUST),
    CommandEntry("keys show", "keys", "show your public key", _TRUST),
    CommandEntry("keys list", "keys", "list every key, and whether it counts", _TRUST),
    CommandEntry("keys trust", "keys", "let a key count", _TRUST),
    CommandEntry("keys untrust", "keys", "no longer let a key count", _TRUST),
    CommandEntry("keys export", "keys", "write your public key to a file", _TRUST),
    CommandEntry("keys import", "keys", "take over a private key", _TRUST),
    CommandEntry("lock show", "chain", "show what a tool's lockfile pins", _TRUST),
    CommandEntry("lock update", "chain", "pin a tool's chain as it is now", _TRUST),
    CommandEntry("lock delete", "chain", "remove a tool's lockfile", _TRUST),
    CommandEntry("graph run", "graph", "run a graph, step by step", _GRAPHS),
    CommandEntry("graph validate", "graph", "every problem of a graph file at once", _GRAPHS),
    CommandEntry("graph show", "graph", "a graph, or a run of it, as a picture", _GRAPHS),
    CommandEntry("graph step", "graph", "work on one node of a graph", _GRAPHS),
    CommandEntry("graph resume", "graph", "go on with a run where it ended", _GRAPHS),
    CommandEntry("threads list", "threads", "what runs in the background, and what did", _RUNS),
    CommandEntry("threads show", "threads", "one background run, and its result", _RUNS),
    CommandEntry("threads logs", "threads", "what a background run has written", _RUNS),
    CommandEntry("threads kill", "threads", "end a background run", _RUNS),
    CommandEntry("threads wait", "threads", "wait for the end of background runs", _RUNS),
    CommandEntry("store show", "store", "what the project's store holds", _SETUP),
    CommandEntry("store gc", "store", "remove what nothing names any more from it", _SETUP),
    CommandEntry("remote add", "remote_setup", "write down the address of a node", _REMOTES),
    CommandEntry("remote list", "remote_setup", "the nodes that are configured", _REMOTES),
    CommandEntry("remote remove", "remote_setup", "no longer use a node", _REMOTES),
    CommandEntry(
        "remote pins", "remote_setup", "nodes that were spoken to, and their keys", _REMOTES
    ),
    CommandEntry("remote forget", "remote_setup", "let a node have a new key", _REMOTES),
    CommandEntry("remote push", "remote", "bring the project to a node", _REMOTES),
    CommandEntry("remote pull", "remote", "merge in what is on the node", _REMOTES),
    CommandEntry("remote diff", "remote", "what is not the same here and there", _REMOTES),
    CommandEntry("remote resolve", "remote", "settle what both sides changed", _REMOTES),
    CommandEntry("remote execute", "remote", "run an item on a node", _REMOTES),
    CommandEntry("remote status", "remote", "what is known here about the remotes", _REMOTES),
    CommandEntry("remote threads", "remote", "runs on a node", _REMOTES),
    CommandEntry("remote thread", "remote", "one run on a node", _REMOTES),
    CommandEntry("remote history", "remote", "the snapshots of the project on a node", _REMOTES),
    CommandEntry(
        "remote secrets", "remote_secrets", "what tools on a node get as variables", _REMOTES
    ),
    CommandEntry("remote webhooks", "remote_secrets", "runs that others may start", _REMOTES),
    CommandEntry("registry login", "registry", "use a registry, and pin its key", _REGISTRIES),
    CommandEntry("registry logout", "registry", "no longer use a registry", _REGISTRIES),
    CommandEntry("registry status", "registry", "whether the registries answer", _REGISTRIES),
    CommandEntry("registry search", "registry_items", "find published items", _REGISTRIES),
    CommandEntry(
        "registry info", "registry_items", "an item's versions, and who made it", _REGISTRIES
    ),
    CommandEntry("registry pull", "registry_items", "bring a published item here", _REGISTRIES),
    CommandEntry("registry push", "registry_items", "publish an item", _REGISTRIES),
    CommandEntry("registry delete", "registry_items", "take back what you published", _REGISTRIES),
    CommandEntry(
        "registry visibility", "registry_items", "let searches find it, or not", _REGISTRIES
    ),
    CommandEntry(
        "registry verify", "registry_items", "whether it is still what was pulled", _REGISTRIES
    ),
    CommandEntry("registry outdated", "registry_items", "what has a newer version", _REGISTRIES),
    CommandEntry("registry update", "registry_items", "bring the newer versions here", _REGISTRIES),
    CommandEntry("registry keys", "registry", "your API keys there", _REGISTRIES),
    CommandEntry("registry signers", "registry", "keys that your account signs with", _REGISTRIES),
    CommandEntry("registry namespaces", "registry", "names that are yours", _REGISTRIES),
    CommandEntry("registry pin", "registry", "pin the key that you were told", _REGISTRIES),
    CommandEntry("registry pins", "registry", "registries that were spoken to", _REGISTRIES),
    CommandEntry("registry forget", "registry", "let a registry have a new key", _REGISTRIES),
    CommandEntry("registry trust", "registry", "let all that a registry signs run", _REGISTRIES),
    CommandEntry("bundle create", "bundle", "make a bundle out of items", _REGISTRIES),
    CommandEntry("bundle verify", "bundle", "check every file of a bundle", _REGISTRIES),
    CommandEntry("bundle inspect", "bundle", "what is in a bundle", _REGISTRIES),
    CommandEntry("bundle search", "bundle", "find published bundles", _REGISTRIES),
    CommandEntry("bundle install", "bundle", "install a bundle, or update it", _REGISTRIES),
    CommandEntry("bundle uninstall", "bundle", "remove an installed bundle", _REGISTRIES),
    CommandEntry("bundle list", "bundle", "the installed bundles, checked anew", _REGISTRIES),
    CommandEntry("bundle pull", "bundle", "bring a bundle to a folder", _REGISTRIES),
    CommandEntry("bundle push", "bundle", "publish a bundle", _REGISTRIES),
    CommandEntry("init", "init", "set up user space and a project", _SETUP),
    CommandEntry("mcp", "mcp", "serve agents over MCP, on standard input and output", _SETUP),
    CommandEntry("mcp config", "mcp_clients", "print what a client's settings need", _SETUP),
    CommandEntry("mcp install", "mcp_clients", "add rye to a client's settings", _SETUP),
    CommandEntry("mcp uninstall", "mcp_clients", "remove rye from a client's settings", _SETUP),
    CommandEntry(
        "mcp list-clients", "mcp_clients", "the clients, and where rye is installed", _SETUP
    ),
    CommandEntry(
        "mcp add", "mcp_servers", "write down an MCP server whose tools are wanted", _SETUP
    ),
    CommandEntry("mcp servers", "mcp_servers", "the MCP servers that are written down", _SETUP),
    CommandEntry(
        "mcp discover", "mcp_servers", "ask a server for its tools, write new ones", _SETUP
    ),
    CommandEntry("mcp refresh", "mcp_servers", "the same, and write anew what has changed", _SETUP),
    CommandEntry(
        "mcp remove", "mcp_servers", "remove a server and what was written for it", _SETUP
    ),
    CommandEntry("doctor", "doctor", "check this installation", _SETUP),
    CommandEntry("self where", "program", "where this program and its files are", _SETUP),
    CommandEntry("self verify", "program", "check this file, or another copy of it", _SETUP),
    CommandEntry(
        "self extract", "program", "write what is inside of this file to a folder", _SETUP
    ),
    CommandEntry("self clean", "program", "remove what this program keeps in its cache", _SETUP),
    CommandEntry(
        "lillux-proc", "helper_programs", "run, start, end and look at processes, in JSON", _SETUP
    ),
    CommandEntry(
        "lillux-watch", "helper_programs", "wait for the end of a background run, in JSON", _SETUP
    ),
    CommandEntry("completion", "completion", "print a shell's completion script", _SETUP),
    CommandEntry("version", "help", "the version of this program", _SETUP),
    CommandEntry("help", "help", "help on a command or a topic", _SETUP),
)
# For rye itself, see `ryeos.run.thread_control`: no user types it, no help lists it.
HIDDEN: tuple[CommandEntry, ...] = (CommandEntry("_thread", "thread_runner", "run a thread", ""),)
ALIASES = {"execute": "run"}
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
