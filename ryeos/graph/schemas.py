"""JSON Schemas of graph, runtime, tool and test files, for editors.

Draft 07: what the YAML and JSON plugins of editors and our own validator understand alike. A
schema knows the structure; what needs the whole file (targets of edges, expressions, references)
or the machine is reported by ``rye graph validate`` and by the run.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ryeos.graph.conditions import ALIASES, OPERATORS
from ryeos.graph.nodes import (
    BACKOFFS,
    CONTROLS,
    EVENTS,
    IGNORED_KEYS,
    KINDS,
    LAST_LAYER,
    LEGACY_PRIMARIES,
    MAX_BACKOFF,
    MAX_EDGES,
    MAX_HOOKS,
    MAX_RETRIES,
    NODE_KEYS,
    NODE_TYPES,
    PRIMARIES,
)
from ryeos.graph.problems import MAX_COUNT, MAX_NAME_CHARACTERS, MAX_SECONDS
from ryeos.graph.reading import CONFIG_KEYS, MAX_NODES, ON_ERROR, RESULTS, TOP_IGNORED
from ryeos.items.rights import ANY, LOOPBACK, MAX_ENTRIES, NONE, PATH_NAMES
from ryeos.items.specs import BLOCKS, FOREIGN, RUNTIME_TYPE, ParamsMode

# --- parts ----------------------------------------------------------------------------------------
# What the schemas are made of. An explicit null means the same as leaving the key out.

DRAFT = "http://json-schema.org/draft-07/schema#"

Schema: TypeAlias = dict[str, Any]

_NOT_BLANK = "\\S"


def text(description: str, **more: object) -> Schema:
    """A text with something in it."""
    return {"type": ["string", "null"], "pattern": _NOT_BLANK, "description": description, **more}


def prose(description: str) -> Schema:
    """A text, also an empty one."""
    return {"type": ["string", "null"], "description": description}


def truth(description: str, default: bool | None = None) -> Schema:  # noqa: FBT001
    """True or false."""
    return _with_default({"type": ["boolean", "null"], "description": description}, default)


def whole(description: str, least: int, most: int, default: int | None = None) -> Schema:
    """A whole number in a range."""
    schema = {"type": ["integer", "null"], "minimum": least, "maximum": most}
    return _with_default({**schema, "description": description}, default)


def number(description: str, **bounds: float) -> Schema:
    """A number; ``minimum``, ``exclusiveMinimum``, ``maximum``."""
    return {"type": ["number", "null"], **bounds, "description": description}


def word(
    description: str, words: Sequence[str], default: str | None = None, *, optional: bool = True
) -> Schema:
    """One of some words."""
    schema: Schema = {"enum": [*words, *([None] if optional else [])], "description": description}
    return _with_default(schema, default)


def texts(description: str) -> Schema:
    """A list of texts."""
    items = {"type": "string", "pattern": _NOT_BLANK}
    return {"type": ["array", "null"], "items": items, "description": description}


def text_or_texts(description: str) -> Schema:
    """One text, or a list of them."""
    items = {"type": "string", "pattern": _NOT_BLANK}
    return {
        "type": ["string", "array", "null"],
        "pattern": _NOT_BLANK,
        "items": items,
        "description": description,
    }


def mapping(description: str, **more: object) -> Schema:
    """A mapping."""
    return {"type": ["object", "null"], "description": description, **more}


def anything(description: str) -> Schema:
    """Any value."""
    return {"description": description}


def closed(properties: Mapping[str, Schema], required: Sequence[str] = ()) -> Schema:
    """The keywords of a mapping with these keys only, and ``x-`` ones."""
    schema: Schema = {
        "properties": dict(properties),
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
    }
    return {**schema, "required": list(required)} if required else schema


def _entries(description: str, words: Sequence[str], pattern: str, **more: object) -> Schema:
    """One of some words, or a list of texts of a shape."""
    items = {"type": "string", "pattern": pattern, **more}
    return {
        "description": description,
        "anyOf": [
            {"enum": list(words)},
            {"type": "array", "maxItems": MAX_ENTRIES, "items": items},
        ],
    }


_PATH_NAMES = "|".join((*PATH_NAMES, r"config\.[a-z_]+"))
_PATH = rf"^(\{{({_PATH_NAMES})\}}(/.*)?|~(/.*)?|/.*|[A-Za-z]:[/\\].*)$"
_NO_PATH = {"not": {"pattern": r"[*?\[\]]|(^|[/\\])\.\.([/\\]|$)"}}
SANDBOX: Schema = {
    "type": "object",
    "description": "What it may do; what is left out is not given. Page: docs/rights.md.",
    "additionalProperties": False,
    "properties": {
        "read": _entries("Folders and files, like {project}.", (ANY, NONE), _PATH, **_NO_PATH),
        "write": _entries("Folders, like {project}/out, {tmp}.", (ANY, NONE), _PATH, **_NO_PATH),
        "network": _entries(
            "Hosts like api.github.com:443 and *.example.org:443.",
            (ANY, NONE, LOOPBACK),
            r"^((\*\.)?[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}$",
        ),
        "programs": _entries(
            "Names or paths of programs.",
            (ANY, NONE),
            rf"{_PATH[:-2]}|[A-Za-z0-9_][A-Za-z0-9_.+-]*)$",
            **_NO_PATH,
        ),
        "env": _entries(
            "Names of variables; NAME* for all that begin so.",
            (ANY, NONE),
            r"^([A-Za-z_][A-Za-z0-9_]*\*?|\{config\.[a-z_]+\})$",
        ),
    },
}


def there(schema: Mapping[str, Any]) -> Schema:
    """The same without null: of a key that must be there."""
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return dict(schema)
    kept = [kind for kind in kinds if kind != "null"]
    return {**schema, "type": kept[0] if len(kept) == 1 else kept}


def _with_default(schema: Schema, default: object) -> Schema:
    return schema if default is None else {**schema, "default": default}


# --- graph ----------------------------------------------------------------------------------------
# The JSON Schema of a graph file. Its reader is `ryeos.graph.reading`; a test compares the two.

_TEMPLATE = "Text may hold expressions like ${state.total}."
_STATE_KEY: Schema = {"minLength": 1, "maxLength": MAX_NAME_CHARACTERS}
_NOT_INPUTS: Schema = {"not": {"const": "inputs"}}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


def _seconds(description: str) -> Schema:
    return number(f"{description}, in seconds.", exclusiveMinimum=0, maximum=MAX_SECONDS)


_REMARKS = {
    "comment": anything("A remark; not read."),
    "description": anything("A remark; not read."),
}
_ENV_REQUIRES = text_or_texts("Environment variables that must be set before the run starts.")
_ACTION: Schema = {
    "type": "object",
    "description": "What is called.",
    **closed(
        {
            "primary": word(
                "What is done with the item: execute it, fetch its text, sign it.",
                (*PRIMARIES, *LEGACY_PRIMARIES),
                "execute",
            ),
            "item_id": text(f"The item, like tool:demo/add. {_TEMPLATE}"),
            "kind": word("The kind of an item_id without a prefix.", KINDS),
            "item_type": word("Older name of kind.", KINDS),
            "params": mapping(f"The parameters. {_TEMPLATE}"),
            "thread": anything("inline, fork, or remote:NAME."),
            "target": anything("local, or remote:NAME."),
            "id": anything("A remark; not read."),
            **_REMARKS,
        }
    ),
}
_ASSIGN = mapping(
    f"State key to value, in this order, after a successful call. {_TEMPLATE}",
    propertyNames={**_STATE_KEY, **_NOT_INPUTS},
)
_NEXT: Schema = {
    "description": "The node that follows, or edges that are tried in order. None ends the run.",
    "anyOf": [
        {"type": "string", "pattern": "\\S"},
        {"type": "array", "maxItems": MAX_EDGES, "items": _ref("edge")},
        {"type": "null"},
    ],
}
_EDGE: Schema = {
    "type": "object",
    **closed(
        {
            "to": there(text("The node that follows.")),
            "when": _ref("condition"),
            **_REMARKS,
        },
        ["to"],
    ),
}
_OPERATOR = {"enum": [*OPERATORS, *ALIASES]}
_GROUPS = ("any", "all", "not")
_OPERAND = ("path", "op", "operator", "value")


def _without(*names: str) -> Schema:
    return {"not": {"anyOf": [{"required": [name]} for name in names]}}


_CONDITIONS: Schema = {"type": "array", "items": _ref("condition")}
_CONDITION: Schema = {
    "type": ["object", "boolean", "null"],
    "description": "One comparison, or any, all, not of others; {} always holds.",
    **closed(
        {
            "path": {
                "type": "string",
                "pattern": "\\S",
                "description": "What is looked at: state.total, result.items.0, inputs.name.",
            },
            "op": {**_OPERATOR, "default": "eq", "description": "How it is compared."},
            "operator": {**_OPERATOR, "description": "Older name of op."},
            "value": anything(f"What it is compared with. {_TEMPLATE}"),
            "any": {**_CONDITIONS, "description": "At least one of them holds."},
            "all": {**_CONDITIONS, "description": "All of them hold."},
            "not": _ref("condition"),
        }
    ),
    "dependencies": {
        **{
            name: _without(*(other for other in (*_GROUPS, *_OPERAND) if other != name))
            for name in _GROUPS
        },
        "op": {"required": ["path"], **_without("operator")},
        "operator": ["path"],
        "value": ["path"],
    },
}
_RETRY = mapping(
    "How often a failed call is made again.",
    **closed(
        {
            "max": there(whole("Retries after the first attempt.", 1, MAX_RETRIES)),
            "backoff": {
                "description": "Factor from delay to delay: constant is 1, exponential 2.",
                "anyOf": [
                    {"enum": [*BACKOFFS, None]},
                    {"type": "number", "minimum": 1, "maximum": MAX_BACKOFF},
                ],
            },
            "delay": number("Seconds before the first retry.", minimum=0, maximum=MAX_SECONDS),
        },
        ["max"],
    ),
)


def _type(name: str) -> Schema:
    return {"enum": [name, *([None] if name == "action" else [])]}


def _name_schema(description: str) -> Schema:
    name = r"^[A-Za-z_][\w-]*$"
    return text(description, maxLength=MAX_NAME_CHARACTERS) | {"pattern": name}


_NODE_KEY: Mapping[str, Schema] = {
    "action": _ref("action"),
    "next": _NEXT,
    "assign": _ASSIGN,
    "async": truth("Start the call and continue with its ids."),
    "on_error": text("The node that follows when the call fails."),
    "cache_result": truth("Reuse an earlier result of the same call."),
    "cache": truth("Older name of cache_result."),
    "cache_ttl": _seconds("How long a cached result is valid"),
    "remote": text(f"The remote that makes the call. {_TEMPLATE}"),
    "env_requires": _ENV_REQUIRES,
    "retry": _RETRY,
    "timeout": _seconds("The longest time of one call"),
    "over": {"not": {"type": "null"}, "description": f"The list. {_TEMPLATE}"},
    "as": _name_schema("The name of the element, item unless given."),
    "collect": text("The state key that gets the results.", **_STATE_KEY, **_NOT_INPUTS),
    "collect_as": text("Older name of collect.", **_STATE_KEY, **_NOT_INPUTS),
    "parallel": truth("Make the calls at the same time."),
    "max_concurrency": whole("How many at the same time.", 1, MAX_COUNT),
    "fail_fast": truth("End with the first call that fails."),
    "collect_errors": truth("Go on after failed calls: each is an error in its place."),
    "output": anything(f"What the run answers. {_TEMPLATE}"),
    **_REMARKS,
}
"""What a key of a node takes, whatever the type of the node is."""

_REQUIRED = {"action": ["action"], "foreach": ["type", "action", "over"]}
_NODES: dict[str, Schema] = {
    name: closed(
        {key: _type(name) if key == "type" else _NODE_KEY[key] for key in (*keys, *IGNORED_KEYS)},
        _REQUIRED.get(name, ["type"]),
    )
    for name, keys in NODE_KEYS.items()
}
_NODE: Schema = {
    "type": "object",
    "description": "An action, or a gate, a foreach, a return.",
    "properties": {"type": word("What the node is.", NODE_TYPES, "action")},
    "allOf": [
        {
            "if": {
                "properties": {"type": _type(name)},
                **({} if name == "action" else {"required": ["type"]}),
            },
            "then": _ref(f"{name}_node"),
        }
        for name in NODE_TYPES
    ],
}
_CONTROL: Schema = {
    "description": "What is done instead of a call: retry, {retry: true, max_retries: 2}.",
    "anyOf": [
        {"enum": list(CONTROLS)},
        {
            "type": "object",
            **closed(
                {
                    "action": word("What is done.", CONTROLS),
                    "max_retries": whole("Of a retry.", 1, MAX_RETRIES),
                    **{name: truth(f"{name}: true says the same.") for name in CONTROLS},
                }
            ),
        },
        _ref("action"),
    ],
}
_HOOK: Schema = {
    "type": "object",
    **closed(
        {
            "event": word("When it is done.", EVENTS, optional=False),
            "condition": _ref("condition"),
            "action": _CONTROL,
            "layer": whole("Hooks of a lower layer come first.", 1, LAST_LAYER, 1),
            "id": text("A name for the hook."),
            "comment": anything("A remark; not read."),
        },
        ["event", "action"],
    ),
}
_CONFIG_PROPERTIES: dict[str, Schema] = {
    "start": there(text("The first node.")),
    "nodes": {
        "type": "object",
        "description": "The nodes by name.",
        "minProperties": 1,
        "maxProperties": MAX_NODES,
        "propertyNames": {"pattern": "\\S", "maxLength": MAX_NAME_CHARACTERS},
        "additionalProperties": _ref("node"),
    },
    "max_steps": whole("The most steps of a run; each visit of a node counts.", 1, MAX_COUNT),
    "max_concurrency": whole("The most calls at the same time.", 1, MAX_COUNT),
    "on_error": word("What a failed call without on_error does to the run.", ON_ERROR, "fail"),
    "state": mapping("The state at the start.", propertyNames={**_STATE_KEY, **_NOT_INPUTS}),
    "hooks": {
        "type": ["array", "null"],
        "description": "What is done at events of the run.",
        "maxItems": MAX_HOOKS,
        "items": _ref("hook"),
    },
    "timeout": number(
        "The longest time of the run, in seconds: 300 without it, 0 for none.",
        minimum=0,
        maximum=MAX_SECONDS,
    ),
    "result": word("What the run answers: the output, the state, or both.", RESULTS, "output"),
    **_REMARKS,
}
assert {*_CONFIG_PROPERTIES} == {*CONFIG_KEYS}  # noqa: S101 - a key of the reader is one of ours

GRAPH_SCHEMA: dict[str, Any] = {
    "$schema": DRAFT,
    "title": "Rye state graph",
    "description": "A graph of tools, walked from state to state.",
    "type": "object",
    **closed(
        {
            "version": prose("X.Y.Z, in quotes."),
            "tool_type": word("What the file is.", ("graph",)),
            "executor_id": {
                **prose("What runs it."),
                "default": "rye/core/runtimes/state-graph/runtime",
            },
            "category": prose("The folder below tools."),
            "description": prose("What the graph does, for people and for search."),
            "tool_id": prose("Its id; the file's place decides."),
            "name": prose("Its name; the file's place decides."),
            "permissions": texts(
                "What it may call: rye.execute.tool.demo.*, where * is any text; null for a graph"
                " that only others call."
            ),
            "limits": mapping(
                "Bounds of nested runs.",
                properties={"depth": whole("Levels of graphs below.", 0, MAX_COUNT, 5)},
                additionalProperties={"type": ["number", "null"], "minimum": 0},
            ),
            "env_requires": _ENV_REQUIRES,
            "config_schema": mapping("The JSON Schema of the inputs."),
            "sandbox": SANDBOX,
            "config": {
                "type": "object",
                "description": "The graph.",
                **closed(_CONFIG_PROPERTIES, ["start", "nodes"]),
            },
            **{key: anything("Not read by the graph.") for key in TOP_IGNORED},
        },
        ["config"],
    ),
    "definitions": {
        "node": _NODE,
        "edge": _EDGE,
        "condition": _CONDITION,
        "action": _ACTION,
        "hook": _HOOK,
        **{
            f"{name}_node": {"description": f"A node of type {name}.", **schema}
            for name, schema in _NODES.items()
        },
    },
}


# --- header ---------------------------------------------------------------------------------------
# The keys that every tool's header may have, a runtime's among them: `ryeos.items.specs` reads
# them.

_INTERPRETERS = (
    *("local_binary", "system_binary", "venv_python", "venv", "node_modules", "venv_node"),
    *("binary", "version_manager", "command"),
)
_ENV = mapping(
    "Variables, in order; later ones see earlier ones as ${NAME}.",
    additionalProperties={"type": ["string", "number", "boolean", "null"]},
)
_PROGRAM: Schema = {
    "type": ["object", "null"],
    "description": "A program to find; its path goes into the variable var.",
    "properties": {
        "type": {
            "type": "string",
            "examples": list(_INTERPRETERS),
            "description": f"How it is found: {', '.join(_INTERPRETERS)}.",
        },
        "binary": anything("The name of the program."),
        "candidates": anything("Further names."),
        "search_paths": anything("Folders, looked at below each root: .venv/bin."),
        "search_roots": anything("Roots before the project: {anchor_path}."),
        "search": anything("Spaces to look in: project, user, system."),
        "venv_path": anything("The folder of the virtual environment."),
        "manager": anything("pyenv, nvm, rbenv, asdf, mise or fnm."),
        "version": anything("A version of the manager, as text."),
        "plugin": anything("The plugin of asdf or mise."),
        "resolve_cmd": anything("A command whose first line is the path."),
        "var": anything("The variable that gets the path, like RYE_PYTHON."),
        "fallback": anything("What is taken where nothing is found."),
    },
}
ENV_CONFIG = mapping(
    "Programs to find, and the environment of the process.",
    properties={
        "interpreter": _PROGRAM,
        "env": _ENV,
        "unset": {
            "type": ["array", "null"],
            "items": {"type": "string"},
            "description": "Variables that the process does not get.",
        },
        "env_policy": word("What the process gets of the caller's.", ("inherit", "minimal")),
    },
)
_LIST: Schema = {"type": ["array", "null"]}
ANCHOR = mapping(
    "Where a tool's own modules are.",
    properties={
        "enabled": anything("Only true switches it on."),
        "mode": word("When it applies.", ("auto", "always", "never"), "auto", optional=False),
        "markers_any": {**_LIST, "description": "File names, one of which marks the folder."},
        "siblings": {"type": "boolean", "description": "Also where a Python tool imports one."},
        "root": prose("The folder: tool_dir, tool_parent or project_path."),
        "lib": prose("A folder beside the runtime's file: {runtime_lib}."),
        "cwd": prose("The working directory, a template."),
        "env_paths": mapping("{VARIABLE: {prepend: [...], append: [...]}}, templates of folders."),
        "env": mapping("{NAME: template}, set while the anchor is active."),
    },
)
VERIFY_DEPS = mapping(
    "Which files beside a tool must be signed.",
    properties={
        "enabled": anything("Only true switches it on."),
        "scope": word(
            "Which folder.",
            ("anchor", "tool_dir", "tool_siblings", "tool_file"),
            "anchor",
            optional=False,
        ),
        "recursive": anything("Folders below too."),
        "extensions": anything("Suffixes to verify, .py; none means nothing is verified."),
        "exclude_dirs": anything("Names of folders that are passed over."),
        "unverified": {
            "enum": ["refused", "left_out"],
            "description": "Whether a file that is not verified refuses the run.",
        },
    },
)
CONFIG = mapping(
    "How the primitive runs it: a chain's configs are merged, the tool's on top.",
    properties={
        "command": anything("The program, or a command line; ${RYE_PYTHON}, {tool_path}."),
        "args": anything("Its arguments, templates: {tool_path}, {params_json}."),
        "input_data": anything("What it gets on standard input: {params_json}."),
        "cwd": anything("The working directory."),
        "env": anything("Further variables."),
        "timeout": anything("Seconds."),
        "flags": anything("Parameter to option: {db_path: --db}."),
        "script_from": anything("Where a shell runtime looks for the script, in order."),
        "protocol": anything("function or mcp: how the program is talked to."),
        "launchers": anything("Suffix to command line of an MCP server."),
        "verify_files": anything("Which files of an MCP server must be signed."),
        "url": anything("The address, of the HTTP primitive."),
        "method": anything("GET, POST ..., of the HTTP primitive."),
        "headers": anything("Of the HTTP primitive."),
        "body": anything("Of the HTTP primitive."),
        "retry": anything("Of the HTTP primitive."),
        "max_output_bytes": anything("The most output that is kept."),
    },
)
_NAMES: Schema = {
    "anyOf": [
        {"type": "array", "items": {"type": ["string", "object"]}},
        {"type": ["object", "null"]},
    ]
}
_INPUT_SCHEMA = mapping("The JSON Schema of the parameters.")


FIELDS: dict[str, Schema] = {
    "version": prose("X.Y.Z, in quotes."),
    "tool_type": prose("python, bash, javascript, http, graph, runtime ..."),
    "executor_id": {
        "type": ["string", "null"],
        "minLength": 1,
        "description": "What runs it, like rye/core/runtimes/bash/bash; null ends the chain.",
    },
    "category": prose("The folder below tools."),
    "description": prose("What it does, for people, for agents and for search."),
    "name": anything("Its name; the file's place decides."),
    "env_config": ENV_CONFIG,
    "config_schema": _INPUT_SCHEMA,
    "input_schema": _INPUT_SCHEMA,
    "parameters": {"type": ["array", "null"], "description": "The parameters as a list."},
    "config": CONFIG,
    "anchor": ANCHOR,
    "verify_deps": VERIFY_DEPS,
    "config_resolve": anything(
        "A file of config items: {path, mode: deep_merge|first_match, spaces: [user, system]}."
    ),
    "execution_params": {**_NAMES, "description": "Parameters that go into the config."},
    "inputs": {**_NAMES, "description": "Names of what it takes."},
    "outputs": {**_NAMES, "description": "Names of what it gives."},
    "child_constraints": mapping("What the tools that run on it must meet."),
    "params_mode": word(
        "How parameters reach the program.", ("", *(mode.value for mode in ParamsMode)), "auto"
    ),
    "variants": {
        "type": ["array", "null"],
        "description": "Other configs, by the suffix of the tool and by what its config says.",
        "items": {
            "type": "object",
            "properties": {
                "suffixes": anything("Suffixes of tools: .yaml."),
                "when": mapping("What the config must say."),
                "config": {**CONFIG, "type": "object"},
            },
            "required": ["config"],
        },
    },
    "sandbox": SANDBOX,
    "execution_owner": prose("Who sees to background runs."),
    "native_async": truth("Whether the tool itself can run in the background."),
}


def _without_unknown_keys() -> dict[str, Schema]:
    """`FIELDS` where an unread key is a slip: in the blocks of a runtime."""
    closed = dict(FIELDS)
    for name in BLOCKS:
        closed[name] = {**FIELDS[name], "additionalProperties": False}
    variants = FIELDS["variants"]
    closed["variants"] = {**variants, "items": {**variants["items"], "additionalProperties": False}}
    programs = {"type": "object", "required": ["type", "var"], **_PROGRAM}
    closed["env_config"] = {**ENV_CONFIG, "additionalProperties": {**programs, "type": "object"}}
    return closed


# --- runtime --------------------------------------------------------------------------------------
# The JSON Schema of a runtime file. Its readers: `ryeos.items.specs` and `ryeos.items.specs`.

RUNTIME_SCHEMA: dict[str, Any] = {
    "$schema": DRAFT,
    "title": "Rye runtime",
    "description": "How tools of one kind are run: which interpreter, with which arguments.",
    "type": "object",
    "properties": {
        **_without_unknown_keys(),
        "tool_type": {"const": RUNTIME_TYPE, "description": "What the file is."},
        **{key: anything("Not read by the engine.") for key in sorted(FOREIGN)},
    },
    "patternProperties": {"^(x-|_)": {}},
    "additionalProperties": False,
    "required": ["tool_type", "executor_id"],
}


# --- test -----------------------------------------------------------------------------------------
# The JSON Schema of a file of cases, ``NAME.test.yaml``. `ryeos.app.item_tests` reads no other.

MAX_CASES, MAX_FILES, MAX_TEST_SECONDS = 500, 200, 3600
MAX_REPLIES, MAX_CALLS_OF_A_REPLY = 200, 50
STATUSES = ("success", "error")

_PATHS: Schema = {"minLength": 1, "maxLength": 500}
_TEXTS_IN: Schema = {
    "contains": text_or_texts("Text that is there, or several of them."),
    "matches": text_or_texts("A regular expression that is found there, or several of them."),
}
_FILE: Schema = {
    "description": "Its whole text; null where it must not be; else what is in it.",
    "anyOf": [
        {"type": ["string", "null"]},
        {"type": "object", **closed(_TEXTS_IN), "minProperties": 1},
    ],
}
_EXPECT = mapping(
    "What is to come of it; a success where nothing is said.",
    **closed(
        {
            "status": word("error where an error or a code is expected.", STATUSES),
            "data": anything("Of the result; of mappings the keys that stand here."),
            "equals": anything("The whole result."),
            **_TEXTS_IN,
            "error": text_or_texts("Text in the error, or several of them."),
            "code": text("The code of the error, like VALIDATION_FAILED."),
            "stdout": prose(
                "Standard output of a tool that gives text, less line ends at its end."
            ),
            "stderr": text_or_texts("Text on the standard error of such a tool."),
            "files": mapping(
                "Paths in the project afterwards, and what is in them.",
                propertyNames=_PATHS,
                maxProperties=MAX_FILES,
                additionalProperties=_FILE,
            ),
        }
    ),
)
_REPLY: Schema = {
    "description": "A text, or the calls that the model wants, or the outputs that it gives.",
    "type": ["string", "object"],
    "minProperties": 1,
    **closed(
        {
            "text": text("What it says."),
            "calls": {
                "type": "array",
                "maxItems": MAX_CALLS_OF_A_REPLY,
                "description": "Items that it calls, whether they are permitted or not.",
                "items": {
                    "type": "object",
                    **closed(
                        {
                            "item": there(text("The item, like tool:rye/bash/bash.")),
                            "params": mapping("Its parameters."),
                        },
                        ["item"],
                    ),
                },
            },
            "return": mapping("The outputs that it ends with."),
        }
    ),
}
_CASE: Schema = {
    "type": "object",
    **closed(
        {
            "name": there(text("What is true then; no other case of the file has it.")),
            "params": mapping("The parameters."),
            "files": mapping(
                "Files that the project has before, by their path.",
                propertyNames=_PATHS,
                maxProperties=MAX_FILES,
                additionalProperties={"type": "string"},
            ),
            "env": mapping("Variables of the tool.", additionalProperties={"type": "string"}),
            "expect": _EXPECT,
            "timeout": number(
                "Seconds, 60 unless said.", exclusiveMinimum=0, maximum=MAX_TEST_SECONDS
            ),
            "skip_unless": text_or_texts("A program, or several, without which it is left out."),
            "in_project": truth("Run in the project itself, not in a copy.", default=False),
            "replies": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_REPLIES,
                "items": _REPLY,
                "description": "Of a directive: what the model says, one reply for each turn.",
            },
        },
        ["name"],
    ),
}

TEST_SCHEMA: dict[str, Any] = {
    "$schema": DRAFT,
    "title": "Rye test",
    "description": "Cases of a tool or directive: what goes in, and what must come out.",
    "type": "object",
    **closed(
        {
            "version": anything("The version of this file, like 1.0.0."),
            "tool_type": {"const": "test", "description": "test"},
            "executor_id": {"const": None, "description": "null: rye test runs it."},
            "category": anything("The folder below tools/."),
            "description": anything("What is tested."),
            "tests": text("The tool, or directive:ID; the tool beside this file unless said."),
            "cases": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_CASES,
                "items": _CASE,
                "description": "What is tried, each case by itself.",
            },
        },
        ["tool_type", "executor_id", "cases"],
    ),
}


# --- tool -----------------------------------------------------------------------------------------
# The JSON Schema of a tool's header, where the file is YAML, JSON or TOML.
#
# A tool may have keys of its own, so none is refused. A graph has its own schema.

_BLOCKS = _without_unknown_keys()

TOOL_SCHEMA: dict[str, Any] = {
    "$schema": DRAFT,
    "title": "Rye tool",
    "description": "A tool of Rye whose file is data: what it takes and what runs it.",
    "type": "object",
    "properties": {
        **FIELDS,
        "anchor": _BLOCKS["anchor"],
        "verify_deps": _BLOCKS["verify_deps"],
    },
    "required": ["executor_id"],
}


SCHEMAS: Mapping[str, Schema] = {
    "graph": GRAPH_SCHEMA,
    "runtime": RUNTIME_SCHEMA,
    "test": TEST_SCHEMA,
    "tool": TOOL_SCHEMA,
}
"""Name -> schema."""
