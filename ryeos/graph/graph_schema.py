"""The JSON Schema of a graph file.

Its reader is `ryeos.graph.reading`; a test compares the two.
"""

from collections.abc import Mapping
from typing import Any

from ryeos.graph.actions import KINDS, LEGACY_PRIMARIES, PRIMARIES
from ryeos.graph.hooks import CONTROLS, EVENTS, LAST_LAYER, MAX_HOOKS
from ryeos.graph.nodes import (
    BACKOFFS,
    IGNORED_KEYS,
    MAX_BACKOFF,
    MAX_EDGES,
    MAX_RETRIES,
    NODE_KEYS,
    NODE_TYPES,
)
from ryeos.graph.operators import ALIASES, OPERATORS
from ryeos.graph.problems import MAX_COUNT, MAX_NAME_CHARACTERS, MAX_SECONDS
from ryeos.graph.reading import CONFIG_KEYS, MAX_NODES, ON_ERROR, RESULTS, TOP_IGNORED
from ryeos.graph.schema_parts import (
    DRAFT,
    SANDBOX,
    Schema,
    anything,
    closed,
    mapping,
    number,
    prose,
    text,
    text_or_texts,
    texts,
    truth,
    whole,
    without_null,
    word,
)

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
            "to": without_null(text("The node that follows.")),
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
            "max": without_null(whole("Retries after the first attempt.", 1, MAX_RETRIES)),
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
    "start": without_null(text("The first node.")),
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
