"""What each code of a failure means, for ``help error:CODE``. Data.

The built file has no docstrings, so the classes of errors cannot say it there.
"""

from collections.abc import Mapping

CODES: Mapping[str, str] = {
    "AMBIGUOUS_ITEM": "A reference or a shortened thread id means more than one; give more of it.",
    "AUTH_FAILED": "An MCP server refuses the credentials that a tool sent.",
    "CANCELLED": "The run was ended before it was done: by its caller, or by Ctrl-C.",
    "CHAIN_INVALID": "The elements of a chain do not fit: space, inputs, outputs, version.",
    "CHAIN_TOO_DEEP": "A chain has more than 10 elements.",
    "CIRCULAR_DEPENDENCY": "An executor leads back to an element that is in the chain already.",
    "CONFIG_ERROR": "A configuration, a key document, a bundle or a server item is wrong.",
    "CONFLICT": "Another file, key or setting is where something was to be written; it stays.",
    "EXECUTION_FAILED": "The tool ran and failed; its output is in data.",
    "EXECUTOR_NOT_FOUND": "What a tool names as its executor_id is in no space.",
    "EXPRESSION_ERROR": "An expression of a graph has no value, or cannot be read.",
    "FILE_SYSTEM_ERROR": "A file cannot be read or written: disk, permissions, or a link.",
    "HTTP_BROKEN": "A response broke off, or is not what HTTP allows.",
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
    "LOCKFILE_INVALID": "A lockfile is damaged, or not what rye writes.",
    "LOCKFILE_MISMATCH": "The chain is not the one that was pinned: an element was changed.",
    "NO_PROJECT": "This needs a project, and none is named or found here.",
    "NO_SIGNING_KEY": "There is no private key to sign with yet; rye keys generate makes one.",
    "OBJECT_NOT_FOUND": "A part of what was written down of a run is lost.",
    "PARSING_ERROR": "An item's header or text cannot be read as its kind of file.",
    "PERMISSION_DENIED": "A graph calls what its capabilities leave out.",
    "REGISTRY_INVALID": "The registry of background runs is damaged, or of a newer rye.",
    "REMOTE_NOT_FOUND": "No remote of this name is configured.",
    "RESOURCE_EXCEEDED": "Something is larger than what is read, kept or sent.",
    "RUN_NOT_FOUND": "No run of a graph with this id was written down.",
    "SYSTEM_IMMUTABLE": "Items of the system are part of a signed bundle; copy one to change it.",
    "THREAD_NOT_FOUND": "No background run has this id.",
    "TIMEOUT": "It took longer than its time limit, and was ended.",
    "UNSAFE_PATH": "A manifest has a path that must not become a file; nothing was written.",
    "UNSIGNED": "The item has no signature line, and nothing unsigned runs.",
    "UNSUPPORTED": "What is asked for is known, but not done by this build.",
    "UNTRUSTED_KEY": "The signature is of a key that does not count here (topic signing).",
    "VALIDATION_FAILED": "Metadata or parameters break their schema; details lists all problems.",
}
# Codes that other programs of this kind have, and what is used here instead.
UNUSED_CODES: Mapping[str, str] = {
    "AUTH_REQUIRED": "AUTH_FAILED",
    "REGISTRY_ERROR": "UNSUPPORTED",
    "REMOTE_ERROR": "UNSUPPORTED",
    "SCHEMA_NOT_FOUND": "VALIDATION_FAILED",
}
