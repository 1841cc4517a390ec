"""Nodes of a graph file, of any type: read, with all of their problems."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from ryeos.graph.actions import read_action
from ryeos.graph.conditions import ALWAYS, Condition, parse_condition
from ryeos.graph.model import (
    FORK,
    Action,
    ActionNode,
    Edge,
    ForeachNode,
    GateNode,
    GraphNode,
    NodeRetry,
    ReturnNode,
)
from ryeos.graph.problems import (
    MAX_NAME_CHARACTERS,
    MAX_SECONDS,
    Findings,
    GraphFields,
    below,
    found,
    shown,
)
from ryeos.items.refs import Kind

NAMESPACES = frozenset({"state", "inputs", "result", "_now", "_timestamp"})
MAX_RETRIES = 100
MAX_BACKOFF = 100.0
MAX_EDGES = 1000
BACKOFFS: Mapping[str, float] = {"constant": 1.0, "exponential": 2.0}

IGNORED_KEYS = ("comment", "description")
NODE_KEYS: Mapping[str, tuple[str, ...]] = {
    "action": (
        *("type", "action", "assign", "next", "on_error", "cache_result", "cache", "cache_ttl"),
        *("remote", "env_requires", "retry", "timeout", "async"),
    ),
    "gate": ("type", "assign", "next", "env_requires"),
    "foreach": (
        *("type", "action", "over", "as", "collect", "collect_as", "parallel", "fail_fast"),
        "collect_errors",
        *("max_concurrency", "next", "on_error", "cache_result", "cache", "cache_ttl", "remote"),
        *("env_requires", "retry", "timeout"),
    ),
    "return": ("type", "output", "env_requires"),
}
"""The keys of a node by its type, for its reader and for its JSON Schema."""

NODE_TYPES = tuple(NODE_KEYS)
_NAME = re.compile(r"[A-Za-z_][\w-]*")


def read_node(
    name: str, value: object, path: str, findings: Findings, names: Collection[str]
) -> GraphNode | None:
    """The node at ``path``; None when it is so wrong that there is none.

    ``names`` are those of all nodes of the graph.
    """
    if not isinstance(value, Mapping):
        findings.error(path, f"expected a mapping, found {found(value)}")
        return None
    fields = GraphFields(value, path, findings)
    word = _type(fields)
    if word is None:
        fields.report_unknown(
            (*{key for keys in NODE_KEYS.values() for key in keys}, *IGNORED_KEYS), {}
        )
        return None
    node = _READERS[word](name, fields, names)
    others = {key for keys in NODE_KEYS.values() for key in keys} - {*NODE_KEYS[word]}
    fields.report_unknown(
        (*NODE_KEYS[word], *IGNORED_KEYS),
        {key: f"{key} is not used on a node of type {word}" for key in others},
    )
    return node


def _type(fields: GraphFields) -> str | None:
    if fields.any("type") is not None:
        return fields.choice("type", NODE_TYPES)
    if fields.data.get("action") is None:
        known = ", ".join(NODE_TYPES[1:])
        fields.findings.error(fields.path, f"expected an action, or a type ({known}), found none")
        return None
    return "action"


def _action_node(name: str, fields: GraphFields, names: Collection[str]) -> GraphNode | None:
    action = _action(fields, foreach=False)
    node_fields = _calling(fields, names)
    assign, following, is_async = _assign(fields), _next(fields, names), fields.truth("async")
    if action is None:
        return None
    return ActionNode(
        name=name, action=action, assign=assign, next=following, is_async=is_async, **node_fields
    )


def _gate_node(name: str, fields: GraphFields, names: Collection[str]) -> GraphNode:
    return GateNode(
        name=name,
        assign=_assign(fields),
        next=_next(fields, names),
        env_requires=fields.env_requires(),
    )


def _foreach_node(name: str, fields: GraphFields, names: Collection[str]) -> GraphNode | None:
    action = _action(fields, foreach=True)
    if fields.data.get("async"):
        fields.read_keys.add("async")
        fields.findings.error(
            fields.at("async"), "a foreach cannot be started and left", "use parallel: true"
        )
    over = fields.any("over")
    if over is None:
        fields.findings.error(fields.at("over"), "expected the list to go over, found nothing")
    collect_key = fields.first_of(("collect", "collect_as"))
    read: dict[str, Any] = {
        "as_name": _loop_name(fields),
        "collect": _state_key(fields, collect_key),
        "parallel": fields.truth("parallel"),
        "max_concurrency": fields.count("max_concurrency"),
        "fail_fast": fields.truth("fail_fast"),
        "collect_errors": fields.truth("collect_errors"),
        "next": _next(fields, names),
    } | _calling(fields, names)
    if action is None or over is None:
        return None
    return ForeachNode(name=name, action=action, over=over, **read)


def _return_node(name: str, fields: GraphFields, _: Collection[str]) -> GraphNode:
    return ReturnNode(
        name=name,
        output=fields.any("output"),
        has_output="output" in fields.data,
        env_requires=fields.env_requires(),
    )


_READERS: Mapping[str, Callable[[str, GraphFields, Collection[str]], GraphNode | None]] = {
    "action": _action_node,
    "gate": _gate_node,
    "foreach": _foreach_node,
    "return": _return_node,
}


def _action(fields: GraphFields, *, foreach: bool) -> Action | None:
    value = fields.any("action")
    if value is None:
        fields.findings.error(fields.at("action"), "expected an action, found nothing")
        return None
    action = read_action(value, fields.at("action"), fields.findings, foreach=foreach)
    is_directive = action is not None and action.kind == Kind.DIRECTIVE.value
    if is_directive and action and action.thread == FORK and fields.data.get("retry"):
        fields.findings.warn(
            fields.at("retry"),
            "a thread is never made again by itself: it tries what can be tried, within its limits",
            "leave out retry; a person goes on with it: rye threads resume",
        )
    return action


def _calling(fields: GraphFields, names: Collection[str]) -> dict[str, Any]:
    """The fields of all nodes that call something."""
    return {
        "on_error": _error_target(fields, names),
        "cache_result": fields.truth(fields.first_of(("cache_result", "cache"))),
        "cache_ttl_s": fields.seconds("cache_ttl"),
        "remote": fields.text("remote"),
        "env_requires": fields.env_requires(),
        "retry": _retry(fields),
        "timeout_s": fields.seconds("timeout"),
    }


def _error_target(fields: GraphFields, names: Collection[str]) -> str | None:
    target = fields.text("on_error")
    if target:
        note_missing_target(target, fields.at("on_error"), fields.findings, names)
    return target


def note_missing_target(target: str, path: str, findings: Findings, names: Collection[str]) -> None:
    """Note a target that is no node."""
    if target not in names:
        hint = findings.guess(target, names) or "add the node, or name another"
        findings.error(path, f"there is no node {shown(target)}", hint)


def _retry(fields: GraphFields) -> NodeRetry | None:
    value = fields.mapping("retry")
    if value is None:
        return None
    inner = GraphFields(value, fields.at("retry"), fields.findings)
    most = inner.count("max", most=MAX_RETRIES)
    if value.get("max") is None:
        inner.findings.error(inner.at("max"), "expected the number of retries, found nothing")
    retry = NodeRetry(
        max=most or 1,
        backoff=_backoff(inner),
        delay_s=inner.number("delay", 0.0, MAX_SECONDS) or 0.0,
    )
    inner.report_unknown(("max", "backoff", "delay"), {})
    return retry


def _backoff(fields: GraphFields) -> float:
    if isinstance(fields.any("backoff"), str):
        return BACKOFFS.get(fields.choice("backoff", tuple(BACKOFFS)) or "", 1.0)
    return fields.number("backoff", 1.0, MAX_BACKOFF) or 1.0


def _loop_name(fields: GraphFields) -> str:
    name = fields.text("as") or "item"
    if not _NAME.fullmatch(name) or len(name) > MAX_NAME_CHARACTERS:
        expected = f"a name of letters, digits, _ and - (at most {MAX_NAME_CHARACTERS})"
        fields.findings.error(fields.at("as"), f"expected {expected}, found {shown(name)}")
    elif name in NAMESPACES:
        fields.findings.error(
            fields.at("as"), f"expected a name of your own, found {name}, which means the {name}"
        )
    return name


def _state_key(fields: GraphFields, key: str) -> str | None:
    name = fields.text(key)
    if name is not None:
        note_bad_state_key(name, fields.at(key), fields.findings)
    return name


def _assign(fields: GraphFields) -> Mapping[str, Any]:
    assign = fields.mapping("assign") or {}
    for key in assign:
        note_bad_state_key(key, below(fields.at("assign"), key), fields.findings)
    return assign


def note_bad_state_key(key: str, path: str, findings: Findings) -> None:
    """Note a key that is the engine's, or that no expression can name."""
    if key == "inputs":
        findings.error(path, "state.inputs holds the inputs of the run", "use another key")
    elif not key or len(key) > MAX_NAME_CHARACTERS:
        expected = f"a key of 1 to {MAX_NAME_CHARACTERS} characters"
        findings.error(path, f"expected {expected}, found {shown(key)}")
    elif not _NAME.fullmatch(key):
        findings.warn(
            path, f"no expression can name the state key {shown(key)}", "use a plain name"
        )


def _next(fields: GraphFields, names: Collection[str]) -> tuple[Edge, ...]:
    value = fields.any("next")
    path = fields.at("next")
    if value is None:
        return ()
    if isinstance(value, str):
        target = fields.text("next")
        if target:
            note_missing_target(target, path, fields.findings, names)
        return (Edge(target),) if target else ()
    if not isinstance(value, (list, tuple)):
        expected = "the name of a node or a list of edges"
        fields.findings.error(path, f"expected {expected}, found {found(value)}")
        return ()
    if len(value) > MAX_EDGES:
        text = f"expected at most {MAX_EDGES} edges, found {len(value)}"
        fields.findings.error(path, text)
        return ()
    return tuple(_edges(value, path, fields.findings, names))


def _edges(
    entries: Sequence[object], path: str, findings: Findings, names: Collection[str]
) -> Iterator[Edge]:
    for index, entry in enumerate(entries):
        where = below(path, index)
        if not isinstance(entry, Mapping):
            text = f"expected a mapping with to, found {found(entry)}"
            findings.error(where, text, _edge_hint(entry))
            continue
        fields = GraphFields(entry, where, findings)
        target = fields.text("to")
        if entry.get("to") is None:
            findings.error(fields.at("to"), "expected the name of a node, found nothing")
        when = read_condition(fields, "when")
        fields.report_unknown(("to", "when", *IGNORED_KEYS), {})
        if target:
            note_missing_target(target, fields.at("to"), findings, names)
            yield Edge(target, when)


def _edge_hint(entry: object) -> str:
    return f"write {{to: {entry[:60]}}}" if isinstance(entry, str) and entry else ""


def read_condition(fields: GraphFields, key: str) -> Condition | None:
    """The condition at a key; None if absent, wrong, or always true."""
    value = fields.any(key)
    if value is None:
        return None
    condition, problems = parse_condition(value, fields.at(key))
    # Beside a condition they are warnings, without one they say why there is none.
    add = fields.findings.error if condition is None else fields.findings.warn
    for problem in problems:
        add(problem.path, problem.text, problem.hint)
    return None if condition == ALWAYS else condition
