"""The topics of ``help``, and what to read next.

The text of a topic is the file ``help_texts/TOPIC.md`` beside this module, which is read when the
topic is asked for. It begins with its one-line summary, and has at most `MAX_CHARACTERS`. Lines
that begin with ``$ `` are for people on the command line, and name commands; lines that begin with
``> `` are for agents over MCP, and name calls of tools; all others are for both. See `text_for`.
"""

from collections.abc import Mapping
from enum import StrEnum


class Face(StrEnum):
    """Who reads a text; the value is the mark of the lines that only this reader gets."""

    PERSON = "$"
    AGENT = ">"


def text_for(text: str, face: Face) -> str:
    """The lines of a text that are for this reader, without marks."""
    lines = []
    for line in text.split("\n"):
        mark, rest = line[:1], line[2:]
        if line[1:2].strip() or mark not in set(Face):
            lines.append(line)
        elif mark == face:
            lines.append(rest)
    return "\n".join(lines)


def topic_text(topic: str) -> str:
    """The text of a topic of `TOPICS` or `COMMAND_LINE_TOPICS`, with the marks of its readers.

    By the loader of this package: the texts lie in rye.pyz, in a wheel or in a checkout.
    """
    from pkgutil import get_data

    data = get_data("ryeos.app", f"help_texts/{topic}.md")
    assert data is not None  # noqa: S101 - each of our loaders has `get_data`
    return data.decode("utf-8")


# --- topics ---------------------------------------------------------------------------------------

MAX_CHARACTERS = 4000
OVERVIEW = "overview"

TOPICS = (
    "search",
    "load",
    "fetch",
    "execute",
    "sign",
    "directives",
    "tools",
    "knowledge",
    "runtimes",
    "graphs",
    "remote",
    "registry",
    "config",
    "setup",
    "mcp",
    "cli",
    "spaces",
    "signing",
    "refs",
    "parameters",
    "chain",
    "threads",
    "errors",
    "bundle",
    "test",
)
"""Those for agents and people, in the order of lists."""

COMMAND_LINE_TOPICS = ("exit-status", "environment")
"""Those for people alone."""

# The tools to know first, with what they are for. The overview names those that are here.
MAIN_TOOLS: Mapping[str, str] = {
    "rye/file-system/read": "a file; in its folder edit_lines, write, ls, glob, grep",
    "rye/code/git": "status, diff, log, show, blame, add, commit, branches",
    "rye/bash/bash": "any command",
    "rye/web/fetch": "a page as Markdown; in its folder search",
    "rye/core/processes/list": "background runs; in its folder status, steps, cancel",
    "rye/core/testing/test": "the cases of a tool",
    "rye/mcp/manager": "tools of MCP servers, as items",
    "rye/core/registry/registry": "published items and bundles",
    "rye/core/remote/remote": "other machines",
}

# Words that mean a topic of another name.
SYNONYMS: Mapping[str, str] = {
    "help": OVERVIEW,
    "run": "execute",
    "call": "execute",
    "key": "signing",
    "keys": "signing",
    "trust": "signing",
    "approval": "signing",
    "approve": "signing",
    "verify": "signing",
    "id": "refs",
    "ids": "refs",
    "params": "parameters",
    "inputs": "parameters",
    "arguments": "parameters",
    "permissions": "graphs",
    "background": "threads",
    "async": "threads",
    "executor": "chain",
    "lock": "chain",
    "init": "setup",
    "install": "setup",
    "doctor": "setup",
    "node": "remote",
    "nodes": "remote",
    "cases": "test",
    "project": "spaces",
    "codes": "errors",
    "cancel": "threads",
    "limits": "config",
    "timeout": "config",
    "timeouts": "config",
    "settings": "config",
}
SEE_ALSO: Mapping[str, tuple[str, ...]] = {
    OVERVIEW: ("search", "execute", "bundle", "setup"),
    "search": ("load", "fetch", "refs"),
    "load": ("search", "sign", "spaces"),
    "fetch": ("load", "search"),
    "execute": ("tools", "directives", "chain"),
    "sign": ("signing", "setup"),
    "directives": ("execute", "sign"),
    "tools": ("runtimes", "parameters", "sign", "test"),
    "knowledge": ("search", "sign"),
    "runtimes": ("tools", "chain"),
    "spaces": ("refs", "load"),
    "signing": ("sign", "errors"),
    "chain": ("runtimes", "errors"),
    "setup": ("signing", "cli"),
    "threads": ("execute", "graphs", "errors"),
    "graphs": ("execute", "threads", "tools"),
    "remote": ("registry", "threads"),
    "registry": ("bundle", "signing"),
    "bundle": ("search", "load", "registry"),
    "test": ("tools", "execute"),
    "errors": ("signing", "refs"),
}


# --- code topics ----------------------------------------------------------------------------------
# What each code of a failure means, for ``help error:CODE``. Data.
#
# The built file has no docstrings, so the classes of errors cannot say it there.

CODES: Mapping[str, str] = {
    "AMBIGUOUS_ITEM": "A reference or a shortened thread id means more than one; give more of it.",
    "APPROVAL_REQUIRED": "A person has to agree first, and no person can be asked here.",
    "AUTH_FAILED": "An MCP server refuses the credentials that a tool sent.",
    "CANCELLED": "The run was ended before it was done: by its caller, or by Ctrl-C.",
    "CAS_ENTRY_INVALID": "Content that was transferred is not what its digest says.",
    "CAS_OBJECT_INVALID": "An object of a project, like a manifest, has a shape of no kind.",
    "CHAIN_INVALID": "The elements of a chain do not fit: space, inputs, outputs, version.",
    "CHAIN_TOO_DEEP": "A chain has more than 10 elements.",
    "CIRCULAR_DEPENDENCY": "An executor leads back to an element that is in the chain already.",
    "CONFIG_ERROR": "A configuration, a key document, a bundle or a server item is wrong.",
    "CONFLICT": "Another file, key or setting is where something was to be written; it stays.",
    "CONTEXT_FULL": "A thread is longer than what its model can read at once.",
    "CREDENTIAL_NOT_FOUND": "A credential is not described, or its value is not where it says.",
    "CREDENTIAL_REFUSED": "The provider of a model refuses the key, or it may not use the model.",
    "ENVELOPE_INVALID": "Sealed secrets that this node cannot open.",
    "EXECUTION_FAILED": "The tool ran and failed; its output is in data.",
    "EXECUTOR_NOT_FOUND": "What a tool names as its executor_id is in no space.",
    "EXPRESSION_ERROR": "An expression of a graph has no value, or cannot be read.",
    "FILE_SYSTEM_ERROR": "A file cannot be read or written: disk, permissions, or a link.",
    "HEAD_MOVED": "A node's head is not where its client thought: another client pushed first.",
    "HTTP_BROKEN": "A response broke off, or is not what HTTP allows.",
    "IMPORT_UNREADABLE": "A file, or an entry of it, cannot be read as what it is imported as.",
    "HTTP_INVALID_REQUEST": "No request can be made of the tool's URL, headers or body.",
    "HTTP_PROXY": "The proxy refused or could not reach the server.",
    "HTTP_REDIRECT": "A response leads elsewhere too often, or to where the tool may not go.",
    "HTTP_TLS": "The server's certificate, or the encrypted connection, is not good.",
    "HTTP_UNREACHABLE": "No connection to the server: its name, its port or the network.",
    "INTEGRITY": "The text is not the one that was signed, or the signature is malformed.",
    "INTERNAL": "A bug in rye; standard error has more under the error_ref of the answer.",
    "INTERPRETER_NOT_FOUND": "A program that the tool's runtime needs is not on this machine.",
    "INVALID_PARAMS": "An argument is unknown, missing, or of another type than expected.",
    "INVALID_QUERY": "A search breaks the grammar, at the given position (topic search).",
    "INVALID_REF": "This cannot be the name of an item (topic refs).",
    "ITEM_NOT_FOUND": "No space that was searched has the item, or no key has this fingerprint.",
    "LIMIT_DAILY": "The money of the user's day does not cover the next call of a model.",
    "LIMIT_DEPTH": "A thread may start no children: the generations below it are used up.",
    "LIMIT_DURATION_S": "The time of a thread is used up.",
    "LIMIT_INPUT_TOKENS": "The next call of a model could be more input than a thread has left.",
    "LIMIT_OUTPUT_TOKENS": "A thread has too few tokens left for another answer of a model.",
    "LIMIT_SPAWNS": "A thread may start no more children.",
    "LIMIT_SPEND": "The next call of a model could cost more than a thread has left.",
    "LIMIT_TOKENS": "The next call of a model could be more tokens than a thread has left.",
    "LIMIT_TOOL_CALLS": "A thread may call no more tools.",
    "LIMIT_TURNS": "A thread may call its model no more often.",
    "LOCKFILE_INVALID": "A lockfile is damaged, or not what rye writes.",
    "LOCKFILE_MISMATCH": "The chain is not the one that was pinned: an element was changed.",
    "MODEL_NOT_FOUND": "A name stands for no tier, and no provider of user space or a bundle.",
    "NO_PROJECT": "This needs a project, and none is named or found here.",
    "NO_SIGNING_KEY": "There is no private key to sign with yet.",
    "OBJECT_NOT_FOUND": "A part of the record of a run is lost.",
    "PACKAGES_UNAVAILABLE": "The packages of a Python tool are not listed, or not to be had here.",
    "STORE_UNAVAILABLE": "The object storage of a node does not answer, or refuses.",
    "WRONG_DATABASE": "The database of a node is not the one that belongs to its data folder.",
    "WRONG_STORE": "The object storage is not the one that belongs to the node.",
    "PRICE_UNKNOWN": "A model has no price, so that no purse could cover it, and is not free.",
    "PARSING_ERROR": "An item's header or text cannot be read as its kind of file.",
    "PERMISSION_DENIED": "A graph calls an item that its permissions or its caller do not allow.",
    "PIN_MISMATCH": "A node, registry or bundle has another key than before, or than was named.",
    "PROVIDER_INVALID": "What a provider of models answers is not in the dialect of its config.",
    "PROVIDER_REFUSED": "A provider of models refuses a request; another try changes nothing.",
    "PROVIDER_UNAVAILABLE": "A provider of models cannot answer now; later it may.",
    "REGISTRY_NOT_CONFIGURED": "Your user space names no registry; a project cannot name one.",
    "REGISTRY_NO_KEY": "A registry wants an API key for this, and its variable is not set.",
    "REGISTRY_REFUSED": "The registry answered with an error; detail has what it said.",
    "REGISTRY_INVALID": "The registry of background runs is damaged, or of a newer rye.",
    "REMOTE_CONFLICT": "Changed here and on the node: each file is to be settled.",
    "REMOTE_EXCLUDED": "Files that were pushed are here, but the rules let them no longer travel.",
    "REMOTE_HEAD_LOST": "The node has lost the snapshot of its head; a forced push"
    " from a machine that has the project restores it.",
    "REMOTE_HEAD_MOVED": "Another client has pushed since; a pull merges what is there.",
    "REMOTE_INSECURE": "An API key would have crossed the network in plain text.",
    "REMOTE_NOT_APPROVED": "Only the project names this node, or the key for it.",
    "REMOTE_NOT_FOUND": "No remote of this name is configured.",
    "REMOTE_REFUSED": "The node answered with an error; http_status and detail have what it said.",
    "REMOTE_RENAMED": "The project was pushed under another name: set project_path to it.",
    "REMOTE_REPLY_INVALID": "What answered is no node, or one that this version does not know.",
    "REMOTE_UNREACHABLE": "No reply came from the node: its address, the network, or a timeout.",
    "REMOTE_UNRELATED": "The node has another project of this name; set project_path, or pull.",
    "REQUEST_SIGNATURE": "A request or delivery is not signed as it should be.",
    "RESOURCE_EXCEEDED": "Something is larger than what is read, kept or sent.",
    "SANDBOX_UNAVAILABLE": "This machine cannot hold the rights that an item declares.",
    "ROLLBACK": "An older version or text than one by the same signer that was here before.",
    "RUN_NOT_FOUND": "There is no record of a graph run with this id.",
    "SECRET_NOT_FOUND": "A run asks for a secret that its user has not set on the node.",
    "SECRET_UNREADABLE": "Secrets were sealed to a box key that this node no longer has.",
    "STREAM_CUT": "The answer of a model ended before its end; it may have been charged.",
    "SYSTEM_IMMUTABLE": "Items of the system are part of a signed bundle; copy one to change it.",
    "THREAD_NOT_FOUND": "No background run has this id.",
    "TIMEOUT": "It took longer than its time limit, and was ended.",
    "UNBOUND_SIGNATURE": "The signature is for another item, or does not say for which.",
    "UNSAFE_PATH": "A manifest has a path that must not become a file; nothing was written.",
    "INADMISSIBLE_PATH": "A manifest has a path that never travels; nothing was written.",
    "SERVER_CHANGED": "An MCP server offers other tools, or has other files, than was approved.",
    "UNSIGNED": "The item has no signature line, and nothing unsigned runs.",
    "UNSUPPORTED": "What is asked for is known, but not done by this build.",
    "UNTRUSTED_KEY": "The signature is by a key that is not trusted here (topic signing).",
    "VALIDATION_FAILED": "Metadata or parameters break their schema; details lists all problems.",
    "VERSION_MISMATCH": "The node takes no pushes of this version of rye.",
    "WEBHOOK_REFUSED": "A delivery that no webhook of the node signed, or too old.",
}
_READ_AND_SIGN = (
    "$ read the whole file first, then: rye sign tool:a/b",
    '> read the whole file first, then: sign {"item_id": "tool:a/b"}',
)
_WHAT_IT_TAKES = (
    "$ what the item takes: rye run REF --help",
    '> what the item takes: load {"item_id": "tool:a/b"}',
)
_REMOTE = '> execute {"item_id": "rye/core/remote/remote", "parameters": {"action": "%s"}}'
_FIND = ("$ find its id: rye search WORDS", '> find its id: search {"query": "words about it"}')
REMEDIES: Mapping[str, tuple[str, ...]] = {
    "AMBIGUOUS_ITEM": (
        "$ give the kind: rye run tool:a/b",
        '> give the kind: execute {"item_id": "tool:a/b"}',
    ),
    "APPROVAL_REQUIRED": (
        "$ answer at a terminal, or agree beforehand with --yes",
        "> ask your user to run: rye approve; then make the same call again",
    ),
    "CHAIN_INVALID": (
        "$ see each element: rye chain ITEM",
        (
            '> see each element: execute {"item_id": "a/b", "dry_run": true, "options":'
            ' {"verbose": true}}'
        ),
    ),
    "CONFLICT": (
        "$ give --overwrite where the command has it, or choose another name",
        "> make the same call with overwrite true, or choose another name",
    ),
    "EXECUTION_FAILED": ("read what the tool wrote: its standard error is shown", *_WHAT_IT_TAKES),
    "EXECUTOR_NOT_FOUND": (
        "$ list runtimes: rye search '*' --scope tool.rye.core.runtimes",
        '> list runtimes: search {"scope": "tool.rye.core.runtimes"}',
    ),
    "EXPRESSION_ERROR": (
        "$ check the graph: rye graph validate REF; rye help graphs",
        '> check the graph: execute {"item_id": "a/b", "dry_run": true}; help {"topic": "graphs"}',
    ),
    "INTEGRITY": _READ_AND_SIGN,
    "INTERPRETER_NOT_FOUND": (
        "$ install the program; what is there: rye doctor",
        "> install the program, or ask your user to run: rye doctor",
    ),
    "PACKAGES_UNAVAILABLE": (
        "$ sign the tool again where a package index can be reached: rye sign --force tool:a/b",
        (
            '> sign the tool again where a package index can be reached: sign {"item_id":'
            ' "tool:a/b", "options": {"force": true}}'
        ),
    ),
    "INVALID_PARAMS": (
        "$ see what a command takes: rye COMMAND --help",
        '> see what a tool takes: help {"topic": "execute"}, or search, load, sign',
    ),
    "INVALID_QUERY": (
        "put words with marks into double quotes",
        "$ the grammar: rye help search",
        '> the grammar: help {"topic": "search"}',
    ),
    "INVALID_REF": ("$ rye help refs", '> help {"topic": "refs"}'),
    "ITEM_NOT_FOUND": _FIND,
    "LOCKFILE_MISMATCH": (
        "an element of the chain was changed; if that is as it should be:",
        "$ rye lock update TOOL",
        '> sign {"item_id": "tool:a/b"}',
    ),
    "NO_PROJECT": (
        "$ name one: --project DIR; or make one here: rye init --project",
        '> name one that your user\'s policy lists: "options": {"project_path": "/path/to/it"}',
    ),
    "NO_SIGNING_KEY": (
        "$ make one: rye keys generate",
        "> ask your user to run: rye keys generate",
    ),
    "PERMISSION_DENIED": (
        "add the item, like permissions: [rye.execute.tool.shop.total], then sign the graph",
        "where its caller gives capabilities, they must allow the item too",
    ),
    "SERVER_CHANGED": (
        "$ look at what changed, and approve it: rye mcp refresh NAME",
        "> ask your user to run: rye mcp refresh NAME; do not work around it",
    ),
    "REGISTRY_NOT_CONFIGURED": (
        "$ name one: rye registry login --url URL",
        "> ask your user to run: rye registry login",
    ),
    "REMOTE_CONFLICT": ("$ rye remote resolve PATH --ours, or --theirs", _REMOTE % "resolve"),
    "REMOTE_HEAD_MOVED": ("$ rye remote pull", _REMOTE % "pull"),
    "REMOTE_NOT_FOUND": (
        "$ rye remote list; rye remote add NAME URL",
        "> ask your user to run: rye remote add NAME URL",
    ),
    "SYSTEM_IMMUTABLE": (
        "$ copy it first: rye load tool:a/b --to project",
        '> copy it first: load {"item_id": "tool:a/b", "destination": "project"}',
    ),
    "THREAD_NOT_FOUND": (
        "$ list runs: rye threads list",
        '> list runs: execute {"item_id": "rye/core/processes/list"}',
    ),
    "TIMEOUT": (
        "$ give it more time: --timeout S; or run it in the background: --async",
        '> run it in the background: execute {"item_id": "a/b", "async": true}',
    ),
    "UNBOUND_SIGNATURE": _READ_AND_SIGN,
    "UNSIGNED": _READ_AND_SIGN,
    "UNTRUSTED_KEY": (
        "$ if you trust its author: rye keys trust FINGERPRINT; else copy, read and sign it",
        (
            "> if your user trusts its author, ask to run: rye keys trust FINGERPRINT; else copy,"
            " read and sign it"
        ),
    ),
    "VALIDATION_FAILED": ("the error names every problem", *_WHAT_IT_TAKES),
}
"""What to do after an error, as lines of `text_for`: commands for people, calls for agents."""
# Codes that other programs of this kind have, and what is used here instead.
UNUSED_CODES: Mapping[str, str] = {
    "AUTH_REQUIRED": "AUTH_FAILED",
    "REGISTRY_ERROR": "REGISTRY_REFUSED",
    "REMOTE_ERROR": "REMOTE_REFUSED",
    "SCHEMA_NOT_FOUND": "VALIDATION_FAILED",
}
