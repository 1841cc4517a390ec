"""The topics of ``help``, and what to read next. Data.

A text begins with its one-line summary, and has at most `MAX_CHARACTERS`. Lines that begin with
``$ `` are for people on the command line, and name commands; lines that begin with ``> `` are for
agents over MCP, and name calls of tools; all others are for both. See `text_for`.
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


# --- item topics ----------------------------------------------------------------------------------
# What ``help`` says about a topic, to agents and to people. Data.
#
# Each text begins with its one-line summary. Facts that depend on the machine are in
# `ryeos.app.help`.

ITEM_TOPICS: Mapping[str, str] = {
    "spaces": """\
Where items live, and which of two wins

$   project   PROJECT/.ai          the folder named with --project or RYE_PROJECT, else the nearest
$                                  one with .ai, else the current folder
$   user      ~/.ai                or below the folder named with --user-space or USER_SPACE
>   project   PROJECT/.ai          that of options project_path, else the server's own
>   user      ~/.ai                of the user that you work for
  system    inside the program   signed bundles; never written to

Each has tools/, directives/, knowledge/ and config/. An item's id is its path in there without the
suffix: .ai/tools/mine/hello.py is tool:mine/hello. Project hides user, user hides system. An item
may use its own space and those below, never one above: a tool in user space cannot run on a runtime
of some project.

$   rye chain rye/bash/bash                  the files that run a tool, and what each hides
$   rye load rye/bash/bash --to project      a copy of a system item, to be changed
>   execute {"item_id": "rye/bash/bash", "dry_run": true, "options": {"verbose": true}}
>                                           the files that run a tool, and what each hides
>   load {"item_id": "rye/bash/bash", "destination": "project"}
>                                           a copy of a system item, to be changed
""",
    "signing": """\
Who may say that an item runs

Nothing unsigned runs. A signature is a comment line at the top of the file: time, hash, Ed25519
signature, key. It covers the text below: change one character, and the item is refused.

$   rye keys generate           make your key, once; it counts in your user space from then on
$   rye sign tool:mine/hello    read the item first: signing says that you let it run
$   rye verify                  the state of every item of the project
>   sign {"item_id": "tool:mine/hello"}    read the item first: signing says that it may run
>
> The key is your user's, who may be asked: then the answer is approval_required, with the call to
> make after your user has run: rye approve. Where there is no key it is NO_SIGNING_KEY: ask your
> user to run: rye keys generate

States: valid, unsigned, tampered, untrusted-key, bad-format.
A key counts when its document is in user space. A document that a project brings along counts after
the user approved it there. The key of a bundle counts for that bundle's items.

$   rye keys list                        every key, and why one does not count
$   rye keys trust FILE|FINGERPRINT      trust one
>   execute {"item_id": "rye/core/keys/keys", "parameters": {"action": "list"}}
>                                        every key, and why one does not count
> To trust a key, ask your user to run: rye keys trust FINGERPRINT
""",
    "refs": """\
How to name an item

  tool:mine/hello       kind and id; kinds are tool, directive, knowledge and config
  mine/hello            the id alone, when only one kind has it
$   .ai/tools/mine/x.py   the path of an item's file
  rye/bash              short for rye/bash/bash

An id is a path below the kind's folder, without suffix, with / on every system. Refused are
absolute paths, `..`, empty segments, backslashes, control characters and more than 512 bytes.

$ sign and verify take patterns, in quotes, so that the shell leaves them alone: 'tool:mine/*' is
$ what is in that folder, 'tool:mine/**' all below it, 'tool:hel*' such names anywhere.
> sign takes patterns: tool:mine/* is what is in that folder, tool:mine/** all below it, tool:hel*
> such names anywhere.
""",
    "parameters": """\
How to give a tool its parameters

$   name=value         of the type that the item's schema says: text where it may be text
$   --name value       the same; --flag alone for true
$   count:=3           JSON, whatever the schema says
$   text@notes.txt     the text of a file
$   data:=@data.json   the JSON of a file
$   --params JSON      all of them as one object; @FILE for a file, - for standard input
$   --stdin            the same as --params -
$
$ A parameter given by itself wins over the object. A path (format: path) is taken from the current
$ folder. Standard input is read when asked for, or by a parameter with format: stdin.
$ Options of rye run stand before the item, or behind it where the item has no parameter of that
$ name; after -- every --name is the item's.
>   execute {"item_id": "mine/resize", "parameters": {"width": 640, "image": "a.png"}}
>
> parameters is one JSON object. A relative path is taken from the project's folder. What an item
> takes: load {"item_id": "mine/resize"}

All are checked against the item's schema before anything starts, and whatever they contain is data:
${HOME}, {name} and quotes are never read as templates or by a shell.
""",
    "chain": """\
What runs a tool

A tool names its executor, which may name another, down to a primitive that the engine has itself:

  mine/hello -> rye/core/runtimes/python/script -> rye/core/primitives/execute

Every element is a file; each is resolved and verified before it is read. At most 10 elements, no
circles, no element of a space above, and versions in the ranges that the elements ask for.
The first successful run of a tool in a project writes a lockfile that pins the chain, in
.ai/lockfiles/. When an element changes after that, the tool is refused until the change is agreed
to; signing the tool again agrees.

$   rye chain mine/hello          file, space, hash and signer of each element, and what it hides
$   rye lock show mine/hello      what is pinned
$   rye lock update mine/hello    pin the chain as it is now
>   execute {"item_id": "mine/hello", "dry_run": true, "options": {"verbose": true}}
>                                 file, space, hash and signer of each element, and what it hides
>   execute {"item_id": "rye/core/lock/lock", "parameters": {"action": "show", "item_id": "mine/a"}}
>                                 what is pinned
>   sign {"item_id": "tool:mine/hello"}
>                                 pin the chain as it is now
""",
    "threads": """\
Runs in the background

$   rye run mine/build --async      start it, print the id of its thread, and return
$   rye threads list                the latest 20, and what became of them
$   rye threads wait ID...          until they end: 0 all completed, 1 one failed, 124 --timeout
$   rye threads logs ID --follow    what it writes, as it comes
$   rye threads show ID             everything about it, and its result
$   rye threads kill ID             end it, with all that it started
>   execute {"item_id": "mine/build", "async": true}
>             start it; the answer has its thread_id, like run-d150
>   execute {"item_id": "run-d150", "options": {"wait_s": 60}}
>             its answer, as soon as it has ended within that time; else what it has written so far
>   execute {"item_id": "rye/core/processes/list"}
>             the latest, and what became of them
>   execute {"item_id": "rye/core/processes/cancel", "parameters": {"thread_id": "run-d150"}}
>             end it, with all that it started; beside it status and steps

ID is a thread's id, or as much of its beginning or end as is needed. Threads are kept in
.ai/state/threads of the project, outside of projects in that of user space.

Statuses: created, running; then completed, error, cancelled, killed. A run whose process died is
an error as soon as a process looks.
""",
    "errors": """\
Codes of failures

  INVALID_PARAMS, INVALID_REF, AMBIGUOUS_ITEM   arguments, or a reference (2)
  INVALID_QUERY                                 a search breaks the grammar (2)
  NO_PROJECT, SYSTEM_IMMUTABLE                  no project here; read-only (2)
  ITEM_NOT_FOUND, THREAD_NOT_FOUND              no such item, key or thread (3)
  RUN_NOT_FOUND, OBJECT_NOT_FOUND               no such run of a graph, or a part is lost (3)
  PERMISSION_DENIED                             a graph calls what it may not (4)
  UNSIGNED, INTEGRITY, UNTRUSTED_KEY            not signed, changed, or by whom? (4)
  UNBOUND_SIGNATURE, ROLLBACK                   signed as another item; an older version (4)
  SERVER_CHANGED                                a server is not as approved (4)
  APPROVAL_REQUIRED                             a person has to agree first (4)
  NO_SIGNING_KEY                                you have no key yet (4)
  EXECUTOR_NOT_FOUND, CIRCULAR_DEPENDENCY,
  CHAIN_TOO_DEEP, CHAIN_INVALID                 what runs it is missing or wrong (5)
  LOCKFILE_MISMATCH, LOCKFILE_INVALID           not the pinned chain; no lockfile (5)
  INTERPRETER_NOT_FOUND                         a program that it needs is not here (6)
  PACKAGES_UNAVAILABLE                          its packages are not listed, or not here (6)
  VALIDATION_FAILED, PARSING_ERROR,
  CONFIG_ERROR, IMPORT_UNREADABLE               metadata, configuration, parameters (6)
  EXPRESSION_ERROR                              an expression of a graph has no value (6)
  REMOTE_NOT_FOUND, SECRET_NOT_FOUND            no such remote, or no such secret there (3)
  REMOTE_NOT_APPROVED, REMOTE_INSECURE          not your own word; a key in plain text (4)
  PIN_MISMATCH                                  another node, registry or publisher (4)
  REMOTE_UNREACHABLE, REMOTE_REFUSED            no reply from the node, or a refusal (7)
  REMOTE_HEAD_LOST                              a forced push restores it there (7)
  REMOTE_CONFLICT, REMOTE_HEAD_MOVED,
  REMOTE_UNRELATED                              others changed the project there, too (7)
  REMOTE_EXCLUDED                               it no longer travels (7)
  REMOTE_RENAMED                                the project has another name there (7)
  REMOTE_REPLY_INVALID, CAS_ENTRY_INVALID,
  CAS_OBJECT_INVALID                            a node sent something else (7)
  REQUEST_SIGNATURE, ENVELOPE_INVALID           a request or secrets that cannot be taken (4)
  WEBHOOK_REFUSED                               a delivery that no webhook signed (4)
  VERSION_MISMATCH, HEAD_MOVED                  another version; changed meanwhile (7)
  UNSAFE_PATH                                   a path that must not be a file (7)
  INADMISSIBLE_PATH                             a path that never travels (7)
  REGISTRY_NOT_CONFIGURED                       no registry of this name (3)
  REGISTRY_NO_KEY, REGISTRY_REFUSED             the registry refuses it (7)
  REGISTRY_INVALID                              a bad registry of threads (6)
  PROVIDER_REFUSED, STREAM_CUT                  a model gave no answer (7)
  RESOURCE_EXCEEDED                             larger than what is read (6)
  EXECUTION_FAILED                              the tool ran and failed (1)
  HTTP_INVALID_REQUEST                          no request could be made of it (6)
  HTTP_UNREACHABLE, HTTP_TLS, HTTP_PROXY,
  HTTP_BROKEN, HTTP_REDIRECT                    a tool's request got no response (1)
  AUTH_FAILED                                   an MCP server refuses the credentials (1)
  TIMEOUT, CANCELLED                            it took too long (124); interrupted (130)
  CONFLICT, FILE_SYSTEM_ERROR                   something is in the way; disk or permissions (1)
  UNSUPPORTED                                   not done by this build
  INTERNAL                                      a bug in rye

$ One of them: rye help error:UNSIGNED
> One of them: help {"topic": "error:UNSIGNED"}
""",
}


# --- bundle topics --------------------------------------------------------------------------------
# What ``help`` says about what comes with the program, and what is made to be shared. Data.
#
# Page: ``docs/reference/bundle.md``.

# The ones to know first, with what they are for. The overview names those that are here.
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

BUNDLE_TOPICS: Mapping[str, str] = {
    "bundle": """\
What comes with Rye, and bundles of others

  rye/file-system/     read, edit_lines, write, ls, glob, grep: kept to the project
  rye/code/git         a repository, without running what its configuration names
  rye/bash/bash        any command
  rye/web/             fetch, search: pages as Markdown; nothing of this machine's own network
  rye/core/processes/  list, status, steps, cancel: background runs
  rye/core/testing/test, rye/core/telemetry/telemetry     cases of tools; runs in numbers
  rye/core/keys/keys, rye/core/lock/lock, rye/core/init/init     keys, lockfiles, set-up
  rye/core/remote/remote, rye/core/registry/registry     nodes; registries
  rye/core/bundler/bundler     bundles, made and looked at
  rye/mcp/manager      MCP servers, and items made of their tools

Directives rye/authoring/create_tool, create_directive, create_knowledge, create_runtime and
create_graph say how to write one; rye/core/review_item, how to read one before it is trusted.
Knowledge explains each concept: search scope=knowledge.rye.*
A program of the edition core has only what is below rye/core.

A bundle is a folder of such items, signed as a whole. An installed one is a further system space:

$   rye bundle create ID 'mine/**' --release 1.0.0    make one; verify and inspect look at it
$   rye bundle install ID|DIR                         from a registry or a folder; its key is pinned
$   rye bundle list, uninstall, search, pull, push
>   execute {"item_id": "rye/core/bundler/bundler", "parameters": {"action": "list"}}
>                     also create, verify, inspect
>   execute {"item_id": "rye/core/registry/registry", "parameters": {"action": "bundle_search"}}
>                     also bundle_install, bundle_uninstall, bundle_list, bundle_pull, bundle_push
""",
    "test": """\
Cases beside a tool

.ai/tools/mine/hello.test.yaml holds the cases of mine/hello, and is signed like the tool:

  version: "1.0.0"
  tool_type: test
  executor_id: null
  category: mine
  description: Cases of hello
  cases:
    - name: greets
      params: {name: Ada}
      expect: {data: {greeting: hello Ada}}
    - name: a name is text
      params: {name: 3}
      expect: {code: VALIDATION_FAILED}

expect also knows status, equals, contains, matches, error, stdout, stderr, files; a case also
files, env, timeout, skip_unless, in_project. Each runs in a copy of the project's items.

$   rye test                 all of the project; status 1 where one fails, 3 where there is none
$   rye test mine/hello -k greets
$ Agents: tool:rye/core/testing/test. The format as a schema for editors: rye help --schema test
>   execute {"item_id": "rye/core/testing/test", "parameters": {"items": ["mine/hello"]}}
""",
}


# --- topics ---------------------------------------------------------------------------------------

MAX_CHARACTERS = 4000
OVERVIEW = "overview"

TOPICS: Mapping[str, str] = {
    "search": """\
Finding items by words

  resize image         both words, anywhere: title, name, id, description, category, tags, content
  "resize image"       the words next to each other
  image OR photo       one of them; also: or |
  image -video         the one without the other; also: NOT video, !video
  (png OR jpg) resize  groups
  res*  im?ge          any characters, one character
  title:image          in one field; any metadata key is a field: author:ada, version:1.*
  tool:a/b             exactly this item

Words match whole, as beginnings (from 3 letters) and inside of others (from 4 letters), in this
order of merit; stateGraph and state_graph are found as state and as graph. Scores are 0 to 1. When
nothing matches plain words, half of them is enough ("relaxed": "or"), then nearly the same spelling
("relaxed": "fuzzy").
A scope narrows kind and id: tool.rye.core.*
$ rye search WORDS --scope tool.rye.core.* --limit 20; --offset goes on behind them.
> More hits: the call in next. In options, filters on metadata: {"filters": {"version": ">=1.2",
> "tags": ["a", "b"], "category": "media/*", "author": "!bob", "signed": true,
> "date_from": "2026-01-01"}}; {"verify": true} among them checks each hit's signature. Also source,
> sort_by, fields {"title": "words"}, fuzzy {"enabled": true}, proximity {"enabled": true}.
""",
    "load": """\
Reading an item, or copying it to change it

$   rye load tool:rye/bash/bash                   its verified text
$   rye load tool:rye/bash/bash --to project      a copy in the project, byte for byte
>   load {"item_id": "rye/bash/bash"}                  its description and inputs
>   load {"item_id": "rye/bash/bash", "text": true}    its verified text too
>   load {"item_id": "rye/bash/bash", "destination": "project"}
>                                                      a copy in the project, byte for byte

What is not signed by a key that counts is refused, with the way to fix it. The copy keeps its
signature until you change it; sign it then. It hides the original.
$ Another file in its place is a CONFLICT without --overwrite; with it, user space keeps that one.
$ --siblings also copies the files that lie around a tool and that it imports.
> A long text comes in parts: the call in next reads on. Another file in its place is a CONFLICT
> unless overwrite is true; then user space keeps that one. In options: include_siblings also copies
> the files that lie around a tool and that it imports; source, the first space to look in.
""",
    "fetch": """\
Load and search as one tool

$ For agents. On the command line these are two commands: rye load and rye search.
>   fetch {"item_id": "tool:a/b"}           loads the item, with the arguments of load
>   fetch {"query": "resize image"}         searches, with the arguments of search
>   fetch {"scope": "tool.rye.*"}           lists everything in scope
>
> item_id or query, not both.
""",
    "execute": """\
Running an item

$   rye run rye/bash/bash command=ls
$   rye run directive:mine/review path=src
$   rye run knowledge:mine/style
>   execute {"item_id": "rye/bash/bash", "parameters": {"command": "ls"}}
>   execute {"item_id": "directive:mine/review", "parameters": {"path": "src"}}
>   execute {"item_id": "knowledge:mine/style"}
>   execute {"item_id": "run-d150"}           the answer of a run that was started with async

A tool runs through its chain down to a primitive; a directive gives directions to carry out;
knowledge gives its text. Parameters are checked before anything starts, and all problems are
reported at once. A tool that fails is an error with code EXECUTION_FAILED and its data; what
Rye refuses has no data.

$ --dry-run checks everything and runs nothing; --trace shows what happened. More: rye run --help
> In options: dry_run, trace (what happened), cwd, wait_s (with async, or of a run: wait so long for
> its end); batch, instead of item_id. To end a run in the background: see the topic threads.
>   execute {"options": {"batch": [{"item_id": "rye/bash/bash", "parameters": {"command": "ls"}}]}}
""",
    "sign": """\
Letting an item run

$   rye sign tool:mine/hello          after each change of its file
$   rye sign 'tool:mine/*'            all items of a folder; mine/** all below it
$   rye sign 'directive:*'            all directives
$   rye sign config:mine/x            configuration
>   sign {"item_id": "tool:mine/hello"}          after each change of its file
>   sign {"item_id": "tool:mine/hello", "content": "...", "try_parameters": {}}
>                                                write it, sign it, run it
>   sign {"item_id": "tool:mine/*"}              all items of a folder; mine/** all below it
>   sign {"item_id": "config:mine/x"}            configuration

The item is validated first: required fields, a version like 1.0.0, name and category as the path
says, and all that a run would refuse. Only project and user space are written to. A batch goes on
past failures and lists them. Signing says that it may run: read it before.
$ --dry-run writes nothing.
> dry_run writes nothing.
""",
    "directives": """\
Directives: prompts with inputs and permissions

.ai/directives/CATEGORY/NAME.md holds a ```xml block with <directive name version>, in it <metadata>
(description, category, author), <inputs> and <outputs>; the text below is the prompt. Executing it
fills {input:name}, {input:name?} and {input:name:default} in, once, and gives the text back as
your_directions. The engine carries nothing out itself. Names are snake_case.
""",
    "tools": """\
Tools: files that run

.ai/tools/CATEGORY/NAME with .py, .yaml, .sh, .js and others. A tool declares version, tool_type,
executor_id (what runs it), category (its folder), description, and the schema of its parameters:
in Python __version__ = "1.0.0" ... CONFIG_SCHEMA = {...}, in YAML version: "1.0.0" ...
The executor is a runtime, a file like the tool, down to a primitive. Sign a tool before it runs.
$ A template: rye new tool mine/hello
> A template: help {"topic": "template:python"}, or bash, javascript, yaml, http, mcp, graph
Cases beside it: the topic test. Another type of files is added by an extractor, a YAML file:
knowledge:rye/core/parsers
""",
    "knowledge": """\
Knowledge: texts for people and models

.ai/knowledge/CATEGORY/NAME.md with a ```yaml block at the top (name, title, version, entry_type,
optional category and tags), or a .yaml file. Executing or loading it gives the text. Search finds
it by everything it says.
""",
    "runtimes": """\
What runs a tool of each language

A runtime is a tool of the bundle that others name as executor_id:

  rye/core/runtimes/python/script     a Python file; parameters as JSON on standard input
  rye/core/runtimes/python/function   a function execute(params, project_path), or main(**params)
  rye/core/runtimes/node/node         a JavaScript or TypeScript file
  rye/core/runtimes/bash/bash         a shell command or script
  rye/core/primitives/execute         a program, started directly

$ List those there are: rye search '*' --scope tool.rye.core.runtimes
> List those there are: search {"scope": "tool.rye.core.runtimes"}
A project may bring its own; a tool of user space cannot use it.
""",
    "graphs": """\
State graphs: tools whose steps are other items

A YAML tool with tool_type: graph and executor_id: rye/core/runtimes/state-graph/runtime.

  permissions: ["rye.execute.tool.mine.*"]       what its nodes may call; nothing else
  config:
    start: build
    nodes:
      build: {action: {item_id: tool:mine/build, params: {target: "${inputs.target}"}},
              assign: {log: "${result.stdout}"}, next: enough}
      enough: {type: gate, next: [{to: done, when: {path: state.log, op: exists}}, {to: build}]}
      done: {type: return, output: {log: "${state.log}"}}

Nodes: action (the default), gate, foreach (over, as, parallel, collect), return. A node may have
on_error: NODE, retry: {max: 2}, timeout, cache_result. Expressions: ${inputs.a}, ${state.a.0},
${result.x || 'none'}, ${state.list | length}; a string that is one expression keeps its type.
Operators: eq, ne, gt, gte, lt, lte, in, not_in, contains, not_contains, starts_with, ends_with,
regex, exists, not_exists, empty, not_empty; any, all and not around them.
Pipes: json, from_json, length, keys, values, items, first, last, join:', ', sum, sort, upper,
lower, trim, str, int, float, sh, b64, default:0. In a command end each value with sh.

Permissions: rye.PRIMARY.KIND.ID with dots for slashes; * is anything. A call must be allowed by the
graph, by its caller (capabilities) and by every graph above; who lists nothing adds no limit, and
without any list nothing runs. Parameters of the caller can narrow this, never widen it.

$   rye run mine/g k=v             runs it, and shows each step
$   rye graph validate mine/g      every problem at once
$   rye graph resume ID            resumes a run that failed or was killed; no step that was
$                                  completed is repeated
$ Also rye graph show (--mermaid, --dot, --svg, --run), step; rye threads list, show, wait, kill.
$ The format as a schema for editors: rye help --schema graph
>   execute {"item_id": "mine/g", "parameters": {}}         runs it; "async": true in the background
>   execute {"item_id": "mine/g", "dry_run": true}          every problem, and the way it takes
>   execute {"resume_thread_id": "run-d150"}                resumes a run that failed or was killed;
>                                                           no completed step is repeated
> A whole graph to begin with: help {"topic": "template:graph"}
""",
    "remote": """\
Other machines

$ rye run REF --target remote, or remote:NAME, runs an item on a node. Without a node everything
$ else works alone, without a network.
$
$   rye remote add default URL      a node; rye-node.pyz serve is one
$   rye remote push                 the project is there, what others brought merged in first
$   rye run REF --target remote     runs there; what it changes comes back, over no change of yours
$   rye remote pull, diff, resolve, threads, history, secrets, webhooks
$
$ Agents: tool:rye/core/remote/remote; the first time: directive:rye/core/remote/set_up
> execute takes target remote or remote:NAME in options where nodes are configured. Without one it
> answers UNSUPPORTED; everything else works alone, without a network.
>
>   execute {"item_id": "mine/a", "options": {"target": "remote"}}
>               runs there; what it changes comes back, over no change made here
>   execute {"item_id": "rye/core/remote/remote", "parameters": {"action": "status"}}
>               also push, pull, diff, resolve, threads, history, secrets_list, webhooks
>
> A node is added by your user: rye remote add NAME URL; with directive:rye/core/remote/set_up
""",
    "registry": """\
Shared items

$   rye registry login --url URL    use one, and pin its key; --key-env VARIABLE to publish
$   rye registry search, info, pull, verify, outdated, update
$   rye registry push mine/text/upper         an id has the namespace first
$   rye-node.pyz serve --role registry        is one
$
$ Agents: tool:rye/core/registry/registry. Whole bundles of items: the topic bundle
>   search {"query": "resize", "options": {"source": "registry"}}
>   load {"item_id": "tool:ann/count", "destination": "project", "options": {"source": "registry"}}
>   execute {"item_id": "rye/core/registry/registry", "parameters": {"action": "outdated"}}
>                     also status, info, pull, publish, verify, update
>
> They speak to the registry that your user named (rye registry login), else the answer is
> REGISTRY_NOT_CONFIGURED. The other sources are on this machine.

What is loaded into a space is checked, and does not run before it is signed: read it, then sign it.
""",
    "config": """\
Configuration

.ai/config/NAME/FILE.yaml (or .toml) in project, user and system space; tools say which of them they
read, and how the three are merged. Unsigned configuration is used with a warning, a tampered one is
refused. Sign it as config:NAME/FILE. The keys in config/keys are trust: see the topic signing.

Each file says version: "1.0.0" and category: NAME, then its own keys. Time limits, for example, are
in .ai/config/execution/execution.yaml: defaults: {timeout: 60}, and tools: {ID: {timeout: 600}}.
$   rye help template:config                the files that Rye reads
$   rye new config execution/execution      one of them, whole
>   help {"topic": "template:config"}       the files that Rye reads; a whole one:
>   help {"topic": "template:config:execution/execution"}
> An agent writes none of these files itself:
>   sign {"item_id": "config:execution/execution", "content": "version: ..."}
""",
    "setup": """\
First steps

$   rye init                 user space, a key, and .ai in the project, each where it is missing
$   rye keys generate        only the key
$   rye doctor               what is there, what is missing, and how to fix it; --fix does
$   rye new tool mine/hello  a template; then: rye sign tool:mine/hello
>   help {}                                    what is set up here, and what to do next
>   help {"topic": "template:python"}          a whole item; also bash, http, directive, knowledge
>   sign {"item_id": "tool:mine/a", "content": "...", "try_parameters": {}}
>                                              writes it with its folders, signs it, runs it
>
> What is missing (user space, a key) is made by your user, in a terminal: rye init

Everything of a user lies below ~/.ai, everything of a project below its .ai.
""",
    "mcp": """\
The tools that agents get

search, load, execute, sign and help; fetch is load and search in one. They are called by these
names, by rye_NAME and by mcp__rye__NAME. An answer is what was asked for: text as it is, else
compact JSON; in structuredContent also a status: success, error, or another word for what was done.
Errors have a code, one sentence, and a hint: the next step; next is a list of calls that can be
made as they stand. options project_path chooses another project than the server's own, of those
that your user's policy lists; verbose adds chain, hashes, times and paths. Items are run by
execute; a few may be listed as tools of their own.

Beside the tools, by the protocol's own means:

  prompts     directives of project and user, and those of the system tagged prompt; mine/review is
              the prompt mine.review, its arguments are the inputs
  resources   knowledge; by rye://tool/ID, rye://directive/ID, rye://output/ID and rye://help/TOPIC
              also items, kept outputs and these topics; ids and prompt arguments are completed
  tasks       execute with async true is a task for a client that has the extension
              io.modelcontextprotocol/tasks; for any other a thread_id: see threads
  skills      where the server was started with --skills, those prompts, and folders of knowledge
              with a SKILL.md, are skills too, skill://CATEGORY/NAME/SKILL.md, for a client that has
              the extension io.modelcontextprotocol/skills

Tools of other MCP servers become items of their own.
$ rye mcp serves; --prompts all or none, --skills. Others' tools: rye mcp add NAME -- PROGRAM, or
$ --url URL; then rye mcp discover NAME. Agents: tool:rye/mcp/manager
>   execute {"item_id": "rye/mcp/manager", "parameters": {"action": "list_servers"}}
> A server is added by your user: rye mcp add NAME -- PROGRAM
""",
    "cli": """\
The command line

$ rye run, search, load, sign and help do what the tools of agents do, and with --json print all
$ that is known. Further commands make keys, items and lockfiles, and check signatures: rye help
$ lists them. Exit statuses: 0 done, 1 it failed, 2 usage, 3 not found, 4 trust, 5 chain, 6 metadata
$ or parameters, 7 remote, 124 timeout, 130 interrupted.
> It is your user's: each of your tools has a command of its name there, and what gives rights
> (keys, trust, approvals, nodes, registries) has commands only. Where such a step is needed, a hint
> says what to ask your user to run.
""",
    **ITEM_TOPICS,
    **BUNDLE_TOPICS,
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
