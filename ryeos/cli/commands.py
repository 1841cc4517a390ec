"""The table of commands: the only list of them, and the only place with late imports.

Each command's module has ``COMMANDS``, a mapping from its words to a `Command` that knows its
arguments and what to do. Help, completion and "did you mean" all read this table.
"""

from __future__ import annotations


class Entry:
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

TABLE: tuple[Entry, ...] = (
    Entry("run", "run", "execute a tool, render a directive, print knowledge", _ITEMS),
    Entry("search", "items", "find items", _ITEMS),
    Entry("load", "items", "print an item, or copy it to a space", _ITEMS),
    Entry("new", "new", "write a template for a new item", _ITEMS),
    Entry("test", "test", "run the cases that are declared beside tools", _ITEMS),
    Entry("chain", "chain", "show what runs a tool, file by file", _ITEMS),
    Entry("sign", "sign", "validate and sign items", _TRUST),
    Entry("verify", "sign", "check signatures of items, globs and folders", _TRUST),
    Entry("keys generate", "keys", "make a signing key", _TRUST),
    Entry("keys show", "keys", "show your public key", _TRUST),
    Entry("keys list", "keys", "list every key, and whether it counts", _TRUST),
    Entry("keys trust", "keys", "let a key count", _TRUST),
    Entry("keys untrust", "keys", "no longer let a key count", _TRUST),
    Entry("keys export", "keys", "write your public key to a file", _TRUST),
    Entry("keys import", "keys", "take over a private key", _TRUST),
    Entry("lock show", "chain", "show what a tool's lockfile pins", _TRUST),
    Entry("lock update", "chain", "pin a tool's chain as it is now", _TRUST),
    Entry("lock delete", "chain", "remove a tool's lockfile", _TRUST),
    Entry("graph run", "graph", "run a graph, step by step", _GRAPHS),
    Entry("graph validate", "graph", "every problem of a graph file at once", _GRAPHS),
    Entry("graph show", "graph", "a graph, or a run of it, as a picture", _GRAPHS),
    Entry("graph step", "graph", "work on one node of a graph", _GRAPHS),
    Entry("graph resume", "graph", "go on with a run where it ended", _GRAPHS),
    Entry("threads list", "threads", "what runs in the background, and what did", _RUNS),
    Entry("threads show", "threads", "one background run, and its result", _RUNS),
    Entry("threads logs", "threads", "what a background run has written", _RUNS),
    Entry("threads kill", "threads", "end a background run", _RUNS),
    Entry("threads wait", "threads", "wait for the end of background runs", _RUNS),
    Entry("store show", "store", "what the project's store holds", _SETUP),
    Entry("store gc", "store", "remove what nothing names any more from it", _SETUP),
    Entry("remote add", "remote_setup", "write down the address of a node", _REMOTES),
    Entry("remote list", "remote_setup", "the nodes that are configured", _REMOTES),
    Entry("remote remove", "remote_setup", "no longer use a node", _REMOTES),
    Entry("remote pins", "remote_setup", "nodes that were spoken to, and their keys", _REMOTES),
    Entry("remote forget", "remote_setup", "let a node have a new key", _REMOTES),
    Entry("remote push", "remote", "bring the project to a node", _REMOTES),
    Entry("remote pull", "remote", "merge in what is on the node", _REMOTES),
    Entry("remote diff", "remote", "what is not the same here and there", _REMOTES),
    Entry("remote resolve", "remote", "settle what both sides changed", _REMOTES),
    Entry("remote execute", "remote", "run an item on a node", _REMOTES),
    Entry("remote status", "remote", "what is known here about the remotes", _REMOTES),
    Entry("remote threads", "remote", "runs on a node", _REMOTES),
    Entry("remote thread", "remote", "one run on a node", _REMOTES),
    Entry("remote history", "remote", "the snapshots of the project on a node", _REMOTES),
    Entry("remote secrets", "remote_secrets", "what tools on a node get as variables", _REMOTES),
    Entry("remote webhooks", "remote_secrets", "runs that others may start", _REMOTES),
    Entry("registry login", "registry", "use a registry, and pin its key", _REGISTRIES),
    Entry("registry logout", "registry", "no longer use a registry", _REGISTRIES),
    Entry("registry status", "registry", "whether the registries answer", _REGISTRIES),
    Entry("registry search", "registry_items", "find published items", _REGISTRIES),
    Entry("registry info", "registry_items", "an item's versions, and who made it", _REGISTRIES),
    Entry("registry pull", "registry_items", "bring a published item here", _REGISTRIES),
    Entry("registry push", "registry_items", "publish an item", _REGISTRIES),
    Entry("registry delete", "registry_items", "take back what you published", _REGISTRIES),
    Entry("registry visibility", "registry_items", "let searches find it, or not", _REGISTRIES),
    Entry("registry verify", "registry_items", "whether it is still what was pulled", _REGISTRIES),
    Entry("registry outdated", "registry_items", "what has a newer version", _REGISTRIES),
    Entry("registry update", "registry_items", "bring the newer versions here", _REGISTRIES),
    Entry("registry keys", "registry", "your API keys there", _REGISTRIES),
    Entry("registry signers", "registry", "keys that your account signs with", _REGISTRIES),
    Entry("registry namespaces", "registry", "names that are yours", _REGISTRIES),
    Entry("registry pin", "registry", "pin the key that you were told", _REGISTRIES),
    Entry("registry pins", "registry", "registries that were spoken to", _REGISTRIES),
    Entry("registry forget", "registry", "let a registry have a new key", _REGISTRIES),
    Entry("registry trust", "registry", "let all that a registry signs run", _REGISTRIES),
    Entry("bundle create", "bundle", "make a bundle out of items", _REGISTRIES),
    Entry("bundle verify", "bundle", "check every file of a bundle", _REGISTRIES),
    Entry("bundle inspect", "bundle", "what is in a bundle", _REGISTRIES),
    Entry("bundle search", "bundle", "find published bundles", _REGISTRIES),
    Entry("bundle install", "bundle", "install a bundle, or update it", _REGISTRIES),
    Entry("bundle uninstall", "bundle", "remove an installed bundle", _REGISTRIES),
    Entry("bundle list", "bundle", "the installed bundles, checked anew", _REGISTRIES),
    Entry("bundle pull", "bundle", "bring a bundle to a folder", _REGISTRIES),
    Entry("bundle push", "bundle", "publish a bundle", _REGISTRIES),
    Entry("init", "init", "set up user space and a project", _SETUP),
    Entry("mcp", "mcp", "serve agents over MCP, on standard input and output", _SETUP),
    Entry("mcp config", "mcp_clients", "print what a client's settings need", _SETUP),
    Entry("mcp install", "mcp_clients", "add rye to a client's settings", _SETUP),
    Entry("mcp uninstall", "mcp_clients", "remove rye from a client's settings", _SETUP),
    Entry("mcp list-clients", "mcp_clients", "the clients, and where rye is installed", _SETUP),
    Entry("mcp add", "mcp_servers", "write down an MCP server whose tools are wanted", _SETUP),
    Entry("mcp servers", "mcp_servers", "the MCP servers that are written down", _SETUP),
    Entry("mcp discover", "mcp_servers", "ask a server for its tools, write new ones", _SETUP),
    Entry("mcp refresh", "mcp_servers", "the same, and write anew what has changed", _SETUP),
    Entry("mcp remove", "mcp_servers", "remove a server and what was written for it", _SETUP),
    Entry("doctor", "doctor", "check this installation", _SETUP),
    Entry("self where", "program", "where this program and its files are", _SETUP),
    Entry("self verify", "program", "check this file, or another copy of it", _SETUP),
    Entry("self extract", "program", "write what is inside of this file to a folder", _SETUP),
    Entry("self clean", "program", "remove what this program keeps in its cache", _SETUP),
    Entry(
        "lillux-proc", "helper_programs", "run, start, end and look at processes, in JSON", _SETUP
    ),
    Entry(
        "lillux-watch", "helper_programs", "wait for the end of a background run, in JSON", _SETUP
    ),
    Entry("completion", "completion", "print a shell's completion script", _SETUP),
    Entry("version", "help", "the version of this program", _SETUP),
    Entry("help", "help", "help on a command or a topic", _SETUP),
)
# For rye itself, see `ryeos.run.thread_control`: no user types it, no help lists it.
HIDDEN: tuple[Entry, ...] = (Entry("_thread", "thread_runner", "run a thread", ""),)
ALIASES = {"execute": "run"}
# Programs of layer 1 that this one stands in for: all behind their name is theirs to read.
PROGRAMS = ("lillux-proc", "lillux-watch")
# What completion scripts call, see `ryeos.cli.offers`: all behind it is a line somebody is typing.
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


def find(words: list[str]) -> Entry | None:
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
