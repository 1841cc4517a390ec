"""Every topic of ``help``, and what to read next. Data; items, trust and bundles are elsewhere.

A text begins with its one-line summary, and has at most `MAX_CHARACTERS`.
"""

from collections.abc import Mapping

from ryeos.mcp.bundle_topics import BUNDLE_TOPICS
from ryeos.mcp.item_topics import ITEM_TOPICS

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
Filters on metadata: {"version": ">=1.2", "tags": ["a", "b"], "category": "media/*",
"author": "!bob", "signed": true, "date_from": "2026-01-01"}; {"verify": true} checks each hit's
signature. A scope narrows kind and id: tool.rye.core.*
More hits: offset = next_offset.
""",
    "load": """\
Reading an item, or copying it to change it

  load item_id=tool:rye/bash/bash                         its verified text, metadata, inputs
  load item_id=tool:rye/bash/bash destination=project     a copy in the project, byte for byte

What is not signed by a key that counts is refused, with the command that mends it. A long text
comes in windows: go on at offset = next_offset. The copy keeps its signature until you change it;
sign it then. It hides the original ("now_shadows"). Another file in its place is a CONFLICT unless
overwrite is true; then the first one is kept as .bak. include_siblings also copies the files that
lie around a tool and that it imports.
""",
    "fetch": """\
Load and search as one tool

  fetch item_id=tool:a/b           loads the item, with the arguments of load
  fetch query="resize image"       searches, with the arguments of search
  fetch scope=tool.rye.*           lists everything in scope

item_id or query, not both.
""",
    "execute": """\
Running an item

  execute item_id=tool:rye/bash/bash parameters={"command": "ls"}
  execute item_id=directive:mine/review parameters={"path": "src"}
  execute item_id=knowledge:mine/style

A tool runs through its chain down to a primitive; a directive gives your_directions, for you to
carry out; knowledge gives its text. Parameters are checked before anything starts, all problems
are told at once. dry_run checks everything and runs nothing. A tool that fails is an error with
code EXECUTION_FAILED and its data; what Rye refuses has no data.
""",
    "sign": """\
Letting an item run

  sign item_id=tool:mine/hello          after each change of its file
  sign item_id=tool:mine/*              all items of a folder; mine/** all below it
  sign item_id=directive:*              all directives
  sign item_id=config:mine/x            configuration

The item is validated first: required fields, a version like 1.0.0, name and category as the path
says. Only project and user space are written to. A batch goes on past failures and lists them.
dry_run writes nothing. Signing says that you let the item run: read it before.
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
A template: rye new tool mine/hello. Cases beside it: the topic test. Another type of files is
added by an extractor, a YAML file: knowledge:rye/core/parsers
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

List those there are: search scope=tool.rye.core.runtimes. A project may bring its own; a tool of
user space cannot use it.
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

Permissions: rye.PRIMARY.KIND.ID with dots for slashes; * is anything. A call must be allowed by the
graph, by its caller (capabilities) and by every graph above; who lists nothing adds no limit, and
without any list nothing runs. Parameters of the caller can narrow this, never widen it.

  execute item_id=tool:mine/g parameters={...}     runs it, and tells of each step
  execute item_id=tool:mine/g async=true           in the background
  execute resume_thread_id=RUN                     goes on with a run that failed or was killed;
                                                   no completed step is repeated
On the command line: rye graph run, validate, show (--mermaid, --dot, --svg, --run), step, resume,
and rye threads list, show, wait, kill. The format as a schema for editors: rye help --schema graph
""",
    "remote": """\
Other machines

execute takes target=remote or remote:NAME where nodes are configured. Without one it answers
UNSUPPORTED; everything else works alone, without a network.

  rye remote add default URL      a node; rye-node.pyz serve is one
  rye remote push                 the project is there, what others brought merged in first
  rye run REF --target remote     runs there; what it changes comes back, over no change of yours
  rye remote pull, diff, resolve, threads, history, secrets, webhooks

Agents: tool:rye/core/remote/remote; the first time: directive:rye/core/remote/set_up
""",
    "registry": """\
Shared items

source=registry searches and loads from the registry that the user named with rye registry login,
else it answers REGISTRY_NOT_CONFIGURED. The other sources are on this machine. What is loaded into
a space is checked, and does not run before it is signed: read it, then use the tool sign.

  rye registry login --url URL    use one, and pin its key; --key-env VARIABLE to publish
  rye registry search, info, pull, verify, outdated, update
  rye registry push mine/text/upper         an id has the namespace first
  rye-node.pyz serve --role registry        is one

Agents: tool:rye/core/registry/registry. Whole bundles of items: the topic bundle
""",
    "config": """\
Configuration

.ai/config/NAME/FILE.yaml (or .toml) in project, user and system space; tools say which of them they
read, and how the three are merged. Unsigned configuration is used with a warning, a tampered one is
refused. Sign it as config:NAME/FILE. The keys in config/keys are trust: see the topic signing.
""",
    "setup": """\
First steps

  rye init                 user space, a key, and .ai in the project, each where it is missing
  rye keys generate        only the key
  rye doctor               what is there, what is missing, and how to mend it; --fix mends
  rye new tool mine/hello  a template; then: rye sign tool:mine/hello

Everything of a user lies below ~/.ai, everything of a project below its .ai.
""",
    "mcp": """\
The tools that agents get

search, load, execute, sign and help; fetch is load and search in one. They are called by these
names, by rye_NAME and by mcp__rye__NAME. Each answer is one JSON document with a status: success,
error, or another word for what was done. Errors have a code, one sentence, and a hint: the next
step. project_path chooses another project than the server's own; a relative path starts there.
Items are never tools of their own: execute runs them.

Beside the tools, by the protocol's own means:

  prompts     directives of project and user, and those of the system tagged prompt; mine/review is
              the prompt mine.review, its arguments are the inputs; --prompts all or none
  resources   knowledge; by rye://tool/ID, rye://directive/ID, rye://output/ID and rye://help/TOPIC
              also items, kept outputs and these topics; ids and prompt arguments are completed
  tasks       execute with async true is a task for a client that has the extension
              io.modelcontextprotocol/tasks; for any other a thread_id: see threads
  skills      with rye mcp --skills those prompts, and folders of knowledge with a SKILL.md, are
              skills too, skill://CATEGORY/NAME/SKILL.md, for a client that has the extension
              io.modelcontextprotocol/skills

Tools of other MCP servers become items of their own: rye mcp add NAME -- PROGRAM, or --url URL;
then rye mcp discover NAME. Agents: tool:rye/mcp/manager
""",
    "cli": """\
The command line

rye run, search, load, sign and help do what the tools of agents do, and with --json print the very
same document. Further commands make keys, items and lockfiles, and check signatures: rye help
lists them. Exit statuses: 0 done, 1 it failed, 2 usage, 3 not found, 4 trust, 5 chain, 6 metadata
or parameters, 7 remote, 124 timeout, 130 interrupted.
""",
    **ITEM_TOPICS,
    **BUNDLE_TOPICS,
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
