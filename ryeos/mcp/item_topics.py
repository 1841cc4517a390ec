"""What ``help`` says about a topic, to agents and to people. Data.

Each text begins with its one-line summary. Facts that depend on the machine are in
`ryeos.mcp.tools.help`.
"""

from collections.abc import Mapping

ITEM_TOPICS: Mapping[str, str] = {
    "spaces": """\
Where items live, and which of two wins

  project   PROJECT/.ai          the folder named with --project or RYE_PROJECT, else the nearest
                                 one with .ai, else the current folder
  user      ~/.ai                or below the folder named with --user-space or USER_SPACE
  system    inside the program   signed bundles; never written to

Each has tools/, directives/, knowledge/ and config/. An item's id is its path in there without the
suffix: .ai/tools/mine/hello.py is tool:mine/hello. Project hides user, user hides system; `rye
chain` shows what was hidden. An item may use its own space and those below, never one above: a
tool in user space cannot run on a runtime of some project.
To change a system item, copy it: rye load rye/bash/bash --to project
""",
    "signing": """\
Who may say that an item runs

Nothing unsigned runs. A signature is a comment line at the top of the file: time, hash, Ed25519
signature, key. It covers the text below: change one character, and the item is refused.

  rye keys generate           make your key, once; it counts in your user space from then on
  rye sign tool:mine/hello    read the item first: signing says that you let it run
  rye verify                  the state of every item of the project

States: valid, unsigned, tampered, untrusted-key, bad-format.
A key counts when its document is in your user space (rye keys trust FILE). A document that a
project brings along counts after you approved it there: rye keys trust FINGERPRINT. The key of a
bundle counts for that bundle's items. `rye keys list` shows every key, and why one does not count.
""",
    "refs": """\
How to name an item

  tool:mine/hello       kind and id; kinds are tool, directive, knowledge and config
  mine/hello            the id alone, when only one kind has it
  .ai/tools/mine/x.py   the path of an item's file
  rye/bash              short for rye/bash/bash

An id is a path below the kind's folder, without suffix, with / on every system. Refused are
absolute paths, `..`, empty segments, backslashes, control characters and more than 512 bytes.

sign and verify take patterns, in quotes, so that the shell leaves them alone: 'tool:mine/*' is
what is in that folder, 'tool:mine/**' all below it, 'tool:hel*' such names anywhere.
""",
    "parameters": """\
How to give a tool its parameters

  name=text          text, as it stands
  count:=3           JSON: numbers, true, false, null, lists, objects
  text@notes.txt     the text of a file
  data:=@data.json   the JSON of a file
  --params JSON      all of them as one object; @FILE for a file, - for standard input
  --stdin            the same as --params -

A parameter given by itself wins over the object. All are checked against the item's schema before
anything starts, and whatever they contain is data: ${HOME}, {name} and quotes are never read as
templates or by a shell. Standard input is read only when asked for; an empty one is {}.
""",
    "chain": """\
What runs a tool

A tool names its executor, which may name another, down to a primitive that the engine has itself:

  mine/hello -> rye/core/runtimes/python/script -> rye/core/primitives/execute

Every element is a file; each is resolved and verified before it is read. At most 10 elements, no
circles, no element of a space above, and versions in the ranges that the elements ask for.
The first successful run of a tool in a project writes a lockfile that pins the chain, in
.ai/lockfiles/. When an element changes after that, the tool is refused until you agree:

  rye chain mine/hello          file, space, hash and signer of each element, and what it hides
  rye lock show mine/hello      what is pinned
  rye lock update mine/hello    pin the chain as it is now
""",
    "threads": """\
Runs in the background

  rye run mine/build --async      start it; prints the id of the thread, and goes on without you
  rye threads list                the latest 20, and what became of them
  rye threads wait ID...          until they end: 0 all completed, 1 one failed, 124 --timeout
  rye threads logs ID --follow    what it writes, as it comes
  rye threads show ID             everything about it, and its result
  rye threads kill ID             end it, with all that it started

ID is a thread's id, or as much of its beginning or end as is needed. Threads are kept in
.ai/state/threads of the project, outside of projects in that of user space.

Statuses: created, running; then completed, error, cancelled, killed. A run whose process died is
an error as soon as anybody looks.
""",
    "errors": """\
Codes of failures, as --json shows them

  INVALID_PARAMS, INVALID_REF, AMBIGUOUS_ITEM      the command line, or a reference (2)
  INVALID_QUERY                                    a search breaks the grammar (2)
  NO_PROJECT, SYSTEM_IMMUTABLE                     wrong place: no project here; read-only (2)
  ITEM_NOT_FOUND, THREAD_NOT_FOUND                 no space has the item, or the key; no thread (3)
  RUN_NOT_FOUND, OBJECT_NOT_FOUND                  no such run of a graph, or a part is lost (3)
  PERMISSION_DENIED                                a graph calls what its capabilities leave out (4)
  UNSIGNED, INTEGRITY, UNTRUSTED_KEY               not signed, changed, or by whom? (4)
  NO_SIGNING_KEY                                   you have no key yet (4)
  EXECUTOR_NOT_FOUND, CIRCULAR_DEPENDENCY,
  CHAIN_TOO_DEEP, CHAIN_INVALID                    what runs the tool is missing or wrong (5)
  LOCKFILE_MISMATCH, LOCKFILE_INVALID              not the chain that was pinned; no lockfile (5)
  INTERPRETER_NOT_FOUND                            a program that the tool needs is not here (6)
  VALIDATION_FAILED, PARSING_ERROR, CONFIG_ERROR   metadata, configuration, parameters (6)
  EXPRESSION_ERROR                                 an expression of a graph has no value (6)
  REMOTE_NOT_FOUND                                 no remote of that name is configured (3)
  REMOTE_NOT_APPROVED, REMOTE_INSECURE             not your own word; a key in plain text (4)
  PIN_MISMATCH                                     another node, registry or publisher (4)
  REMOTE_UNREACHABLE, REMOTE_REFUSED               no reply from the node, or a refusal (7)
  REMOTE_CONFLICT, REMOTE_HEAD_MOVED,
  REMOTE_UNRELATED                                 others changed the project there, too (7)
  REMOTE_EXCLUDED                                  what was pushed no longer travels (7)
  REMOTE_RENAMED                                   the project has another name there (7)
  REMOTE_REPLY_INVALID, CAS_ENTRY_INVALID,
  CAS_OBJECT_INVALID                               what a node sent is not what it should be (7)
  REQUEST_SIGNATURE, ENVELOPE_INVALID              a request or secrets that cannot be taken (4)
  SECRET_NOT_FOUND                                 not set on the node (3)
  WEBHOOK_REFUSED                                  a delivery that no webhook signed (4)
  VERSION_MISMATCH, HEAD_MOVED                     another version; changed meanwhile (7)
  UNSAFE_PATH                                      a path in a manifest that must not be a file (7)
  INADMISSIBLE_PATH                                a path in a manifest that never travels (7)
  REGISTRY_NOT_CONFIGURED                          no registry of this name (3)
  REGISTRY_NO_KEY, REGISTRY_REFUSED                the registry does not want it (7)
  REGISTRY_INVALID                                 a registry of threads that cannot be used (6)
  RESOURCE_EXCEEDED                                larger than what is read (6)
  EXECUTION_FAILED                                 the tool ran and failed (1)
  HTTP_INVALID_REQUEST                             no request could be made of it (6)
  HTTP_UNREACHABLE, HTTP_TLS, HTTP_PROXY,
  HTTP_BROKEN, HTTP_REDIRECT                       a tool's request got no response (1)
  AUTH_FAILED                                      an MCP server refuses the credentials (1)
  TIMEOUT, CANCELLED                               it took too long (124); interrupted (130)
  CONFLICT, FILE_SYSTEM_ERROR                      something is in the way; disk or permissions (1)
  UNSUPPORTED                                      known, but not done by this build
  INTERNAL                                         a bug in rye

The hint under an error is the way out; in JSON it is the key "hint".
""",
}
