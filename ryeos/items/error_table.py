"""The one table of errors: what each code means, what a command and a server say, what to do.

Exit statuses, statuses of HTTP answers, ``rye help error:CODE``, ``docs/reference/errors.md``, the
refusals of the OpenAPI document and what a client advises after one come from here. A table is read
when an error or its page is first asked for: a start does not pay for it.
"""

from collections.abc import Mapping
from functools import cache

from lillux.values import dataclass

_TABLE = """
CONFLICT 1 409 Another file, key or setting is where something was to be written; it stays.
- $ give --overwrite where the command has it, or choose another name
- > make the same call with overwrite true, or choose another name
EXECUTION_FAILED 1 - The tool ran and failed; its output is in data.
- read what the tool wrote: its standard error is shown
- $ what the item takes: rye run REF --help
- > what the item takes: load {"item_id": "tool:a/b"}
FILE_SYSTEM_ERROR 1 - A file cannot be read or written: disk, permissions, or a link.
INTERNAL 1 - A bug in rye; standard error has more under the error_ref of the answer.
LIMIT_DAILY 1 - The money of the user's day does not cover the next call of a model.
LIMIT_DEPTH 1 - A thread may start no children: the generations below it are used up.
LIMIT_DURATION_S 1 - The time of a thread is used up.
LIMIT_INPUT_TOKENS 1 - The next call of a model could be more input than a thread has left.
LIMIT_OUTPUT_TOKENS 1 - A thread has too few tokens left for another answer of a model.
LIMIT_SPAWNS 1 - A thread may start no more children.
LIMIT_SPEND 1 - The next call of a model could cost more than a thread has left.
LIMIT_TOKENS 1 - The next call of a model could be more tokens than a thread has left.
LIMIT_TOOL_CALLS 1 - A thread may call no more tools.
LIMIT_TURNS 1 - A thread may call its model no more often.
AMBIGUOUS_ITEM 2 - A reference or a shortened thread id means more than one; give more of it.
- $ give the kind: rye run tool:a/b
- > give the kind: execute {"item_id": "tool:a/b"}
INVALID_PARAMS 2 400 An argument is unknown, missing, or of another type than expected.
- $ see what a command takes: rye COMMAND --help
- > see what a tool takes: help {"topic": "execute"}, or search, load, sign
INVALID_QUERY 2 - A search breaks the grammar, at the given position (topic search).
- put words with marks into double quotes
- $ the grammar: rye help search
- > the grammar: help {"topic": "search"}
INVALID_REF 2 - This cannot be the name of an item (topic refs).
- $ rye help refs
- > help {"topic": "refs"}
NO_PROJECT 2 404 This needs a project, and none is named or found here.
- $ name one: --project DIR; or make one here: rye init --project
- > name one that your user's policy lists: "options": {"project_path": "/path/to/it"}
SYSTEM_IMMUTABLE 2 - Items of the system are part of a signed bundle; copy one to change it.
- $ copy it first: rye load tool:a/b --to project
- > copy it first: load {"item_id": "tool:a/b", "destination": "project"}
UNSUPPORTED 2 - What is asked for is known, but not done by this build.
CREDENTIAL_NOT_FOUND 3 400 A credential is not described, or its value is not where it says.
ITEM_NOT_FOUND 3 404 No space that was searched has the item, or no key has this fingerprint.
- $ find its id: rye search WORDS
- > find its id: search {"query": "words about it"}
MODEL_NOT_FOUND 3 400 A name stands for no tier, and no provider of user space or a bundle.
OBJECT_NOT_FOUND 3 - A part of the record of a run is lost.
REGISTRY_NOT_CONFIGURED 3 - Your user space names no registry; a project cannot name one.
- $ name one: rye registry login --url URL
- > ask your user to run: rye registry login
REMOTE_NOT_FOUND 3 - No remote of this name is configured.
- $ rye remote list; rye remote add NAME URL
- > ask your user to run: rye remote add NAME URL
RUN_NOT_FOUND 3 - There is no record of a graph run with this id.
SECRET_NOT_FOUND 3 404 A run asks for a secret that its user has not set on the node.
SECRET_UNREADABLE 3 - Secrets were sealed to a box key that this node no longer has.
THREAD_NOT_FOUND 3 - No background run has this id.
- $ list runs: rye threads list
- > list runs: execute {"item_id": "rye/core/processes/list"}
APPROVAL_REQUIRED 4 - A person has to agree first, and no person can be asked here.
- $ answer at a terminal, or agree beforehand with --yes
- > ask your user to run: rye approve; then make the same call again
ENVELOPE_INVALID 4 400 Sealed secrets that this node cannot open.
INTEGRITY 4 400 The text is not the one that was signed, or the signature is malformed.
- $ read the whole file first, then: rye sign tool:a/b
- > read the whole file first, then: sign {"item_id": "tool:a/b"}
NO_SIGNING_KEY 4 - There is no private key to sign with yet.
- $ make one: rye keys generate
- > ask your user to run: rye keys generate
PERMISSION_DENIED 4 403 A graph calls an item that its permissions or its caller do not allow.
- add the item, like permissions: [rye.execute.tool.shop.total], then sign the graph
- where its caller gives capabilities, they must allow the item too
PIN_MISMATCH 4 - A node, registry or bundle has another key than before, or than was named.
REMOTE_INSECURE 4 - An API key would have crossed the network in plain text.
REMOTE_NOT_APPROVED 4 - Only the project names this node, or the key for it.
REQUEST_SIGNATURE 4 401 A request or delivery is not signed as it should be.
ROLLBACK 4 - An older version or text than one by the same signer that was here before.
SERVER_CHANGED 4 - An MCP server offers other tools, or has other files, than was approved.
- $ look at what changed, and approve it: rye mcp refresh NAME
- > ask your user to run: rye mcp refresh NAME; do not work around it
UNBOUND_SIGNATURE 4 - The signature is for another item, or does not say for which.
- $ read the whole file first, then: rye sign tool:a/b
- > read the whole file first, then: sign {"item_id": "tool:a/b"}
UNSIGNED 4 - The item has no signature line, and nothing unsigned runs.
- $ read the whole file first, then: rye sign tool:a/b
- > read the whole file first, then: sign {"item_id": "tool:a/b"}
UNTRUSTED_KEY 4 - The signature is by a key that is not trusted here (topic signing).
- $ if you trust its author: rye keys trust FINGERPRINT; else copy, read and sign it
- > if your user trusts its author, ask to run: rye keys trust FINGERPRINT; else copy, read and sign
    it
WEBHOOK_REFUSED 4 401 A delivery that no webhook of the node signed, or too old.
CHAIN_INVALID 5 - The elements of a chain do not fit: space, inputs, outputs, version.
- $ see each element: rye chain ITEM
- > see each element: execute {"item_id": "a/b", "dry_run": true, "options": {"verbose": true}}
CHAIN_TOO_DEEP 5 - A chain has more than 10 elements.
CIRCULAR_DEPENDENCY 5 - An executor leads back to an element that is in the chain already.
EXECUTOR_NOT_FOUND 5 - What a tool names as its executor_id is in no space.
- $ list runtimes: rye search '*' --scope tool.rye.core.runtimes
- > list runtimes: search {"scope": "tool.rye.core.runtimes"}
LOCKFILE_INVALID 5 - A lockfile is damaged, or not what rye writes.
LOCKFILE_MISMATCH 5 - The chain is not the one that was pinned: an element was changed.
- an element of the chain was changed; if that is as it should be:
- $ rye lock update TOOL
- > sign {"item_id": "tool:a/b"}
CONFIG_ERROR 6 400 A configuration, a key document, a bundle or a server item is wrong.
EXPRESSION_ERROR 6 - An expression of a graph has no value, or cannot be read.
- $ check the graph: rye graph validate REF; rye help graphs
- > check the graph: execute {"item_id": "a/b", "dry_run": true}; help {"topic": "graphs"}
HTTP_INVALID_REQUEST 6 - No request can be made of the tool's URL, headers or body.
IMPORT_UNREADABLE 6 - A file, or an entry of it, cannot be read as what it is imported as.
INTERPRETER_NOT_FOUND 6 - A program that the tool's runtime needs is not on this machine.
- $ install the program; what is there: rye doctor
- > install the program, or ask your user to run: rye doctor
PACKAGES_UNAVAILABLE 6 - The packages of a Python tool are not listed, or not to be had here.
- $ sign the tool again where a package index can be reached: rye sign --force tool:a/b
- > sign the tool again where a package index can be reached: sign {"item_id": "tool:a/b",
    "options": {"force": true}}
STORE_UNAVAILABLE 6 503 The object storage of a node does not answer, or refuses.
WRONG_DATABASE 6 - The database of a node is not the one that belongs to its data folder.
WRONG_STORE 6 - The object storage is not the one that belongs to the node.
PARSING_ERROR 6 - An item's header or text cannot be read as its kind of file.
PRICE_UNKNOWN 6 400 A model has no price, so that no purse could cover it, and is not free.
REGISTRY_INVALID 6 - The registry of background runs is damaged, or of a newer rye.
RESOURCE_EXCEEDED 6 413 Something is larger than what is read, kept or sent.
SANDBOX_UNAVAILABLE 6 - This machine cannot hold the rights that an item declares.
VALIDATION_FAILED 6 400 Metadata or parameters break their schema; details lists all problems.
- the error names every problem
- $ what the item takes: rye run REF --help
- > what the item takes: load {"item_id": "tool:a/b"}
AUTH_FAILED 7 - An MCP server refuses the credentials that a tool sent.
CAS_ENTRY_INVALID 7 400 Content that was transferred is not what its digest says.
CAS_OBJECT_INVALID 7 400 An object of a project, like a manifest, has a shape of no kind.
CONTEXT_FULL 7 - A thread is longer than what its model can read at once.
CREDENTIAL_REFUSED 7 - The provider of a model refuses the key, or it may not use the model.
HEAD_MOVED 7 409 A node's head is not where its client thought: another client pushed first.
HTTP_BROKEN 7 - A response broke off, or is not what HTTP allows.
HTTP_PROXY 7 - The proxy refused or could not reach the server.
HTTP_REDIRECT 7 - A response leads elsewhere too often, or to where the tool may not go.
HTTP_TLS 7 - The server's certificate, or the encrypted connection, is not good.
HTTP_UNREACHABLE 7 - No connection to the server: its name, its port or the network.
INADMISSIBLE_PATH 7 400 A manifest has a path that never travels; nothing was written.
PROVIDER_INVALID 7 - What a provider of models answers is not in the dialect of its config.
PROVIDER_REFUSED 7 - A provider of models refuses a request; another try changes nothing.
PROVIDER_UNAVAILABLE 7 - A provider of models cannot answer now; later it may.
REGISTRY_NO_KEY 7 - A registry wants an API key for this, and its variable is not set.
REGISTRY_REFUSED 7 - The registry answered with an error; detail has what it said.
REMOTE_CONFLICT 7 - Changed here and on the node: each file is to be settled.
- $ rye remote resolve PATH --ours, or --theirs
- > execute {"item_id": "rye/core/remote/remote", "parameters": {"action": "resolve"}}
REMOTE_EXCLUDED 7 - Files that were pushed are here, but the rules let them no longer travel.
REMOTE_HEAD_LOST 7 - The node has lost the snapshot of its head; a forced push from a machine that
    has the project restores it.
REMOTE_HEAD_MOVED 7 - Another client has pushed since; a pull merges what is there.
- $ rye remote pull
- > execute {"item_id": "rye/core/remote/remote", "parameters": {"action": "pull"}}
REMOTE_REFUSED 7 - The node answered with an error; http_status and detail have what it said.
REMOTE_RENAMED 7 - The project was pushed under another name: set project_path to it.
REMOTE_REPLY_INVALID 7 - What answered is no node, or one that this version does not know.
REMOTE_UNREACHABLE 7 - No reply came from the node: its address, the network, or a timeout.
REMOTE_UNRELATED 7 - The node has another project of this name; set project_path, or pull.
STREAM_CUT 7 - The answer of a model ended before its end; it may have been charged.
UNSAFE_PATH 7 400 A manifest has a path that must not become a file; nothing was written.
VERSION_MISMATCH 7 409 The node takes no pushes of this version of rye.
TIMEOUT 124 - It took longer than its time limit, and was ended.
- $ give it more time: --timeout S; or run it in the background: --async
- > run it in the background: execute {"item_id": "a/b", "async": true}
CANCELLED 130 - The run was ended before it was done: by its caller, or by Ctrl-C.
"""
# Each code, with the exit status of a command, the HTTP status of a server's answer (- where no
# server answers with it), and when it is used. Below it, what to do: ``$`` is for people, ``>`` for
# agents, as `ryeos.app.topics.text_for` has it. What is indented goes on from the line before.

_REFUSALS = """
400 What was sent is not what is expected; `detail` says where
401 The request does not show who sends it, or an unknown caller
- node: is your key authorised there, and your clock right? show the key: rye keys show
- registry: is the API key right, and not revoked? name its variable with: rye registry login
403 The key is known and is not for this; `detail` says what is missing
- node: the key is known there, but may not do this: ask who runs the node
- registry: the key is known there, but may not do this: whose namespace is it?
404 There is no such thing, or it is not the caller's
405 The route has no such method
408 The body came too slowly
409 Something else was there first; `detail` says what there is now
413 More than the limits of this server allow
- node: the node takes no request of this size
- registry: the registry takes nothing of this size
422 Fields of another form than this document describes
429 Too often; `Retry-After` says when to ask again
- node: the node asks for patience: try again later
- registry: the registry asks for patience: try again later
503 Not now; `Retry-After` says when to ask again
- node: the node is busy: try again in a moment
- registry: the registry is busy: try again in a moment
507 No room: the caller's quota, or the disk of the server
- node: your storage there, or the disk of the node, is full: ask who runs it for room
"""
# Each HTTP status that a server refuses with, and what it means. Below it, what a client advises.

OF_STARTS = frozenset({"MODEL_NOT_FOUND", "PRICE_UNKNOWN", "CREDENTIAL_NOT_FOUND"})
"""Codes in a refusal of a node that say the same here as there: a client's error has them too."""

UNUSED_CODES: Mapping[str, str] = {
    "AUTH_REQUIRED": "AUTH_FAILED",
    "REGISTRY_ERROR": "REGISTRY_REFUSED",
    "REMOTE_ERROR": "REMOTE_REFUSED",
    "SCHEMA_NOT_FOUND": "VALIDATION_FAILED",
}
"""Codes that other programs of this kind have, and what is used here instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRow:
    """A row of the table. ``http_status`` is 0 where no server answers with the code.

    A few classes have another status for the same code, and say so themselves.
    """

    code: str
    exit_status: int
    http_status: int
    meaning: str
    remedies: tuple[str, ...]


@cache
def error_table() -> Mapping[str, ErrorRow]:
    """The rows by their codes, in the order of their exit statuses."""
    rows: dict[str, ErrorRow] = {}
    for first, *remedies in _entries(_TABLE):
        code, exit_status, http_status, meaning = first.split(" ", 3)
        rows[code] = ErrorRow(
            code=code,
            exit_status=int(exit_status),
            http_status=0 if http_status == "-" else int(http_status),
            meaning=meaning,
            remedies=tuple(one.removeprefix("- ") for one in remedies),
        )
    return rows


@dataclass(frozen=True, slots=True)
class RefusalRow:
    """What an HTTP status of a refusal means, and what to do by who said it."""

    meaning: str
    remedies: Mapping[str, str]


@cache
def refusal_table() -> Mapping[int, RefusalRow]:
    """The HTTP statuses with which a node or a registry refuses."""
    rows = {}
    for first, *remedies in _entries(_REFUSALS):
        status, meaning = first.split(" ", 1)
        told = (one.removeprefix("- ").partition(": ") for one in remedies)
        rows[int(status)] = RefusalRow(meaning, {peer: advice for peer, _, advice in told})
    return rows


def refusal_remedy(status: int, peer: str) -> str:
    """What to do where a ``node`` or a ``registry`` answered with this status; "" for no advice."""
    row = refusal_table().get(status)
    return row.remedies.get(peer, "") if row else ""


def _entries(table: str) -> list[list[str]]:
    """The lines of each row, those that go on joined to the one before."""
    entries: list[list[str]] = []
    for line in table.strip().split("\n"):
        if line.startswith(" "):
            entries[-1][-1] += f" {line.strip()}"
        elif line.startswith("- "):
            entries[-1].append(line)
        else:
            entries.append([line])
    return entries
