"""Reads a graph file, and reports all of its problems at once. Pure.

What each key means is in ``docs/graphs.md``.
"""

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, Any, cast

from lillux.values import dataclass
from ryeos.graph.hooks import read_hooks
from ryeos.graph.model import Graph, GraphNode
from ryeos.graph.nodes import note_bad_state_key, note_missing_target, read_node
from ryeos.graph.problems import (
    MAX_NAME_CHARACTERS,
    Findings,
    GraphFields,
    GraphProblem,
    below,
    listed,
    shown,
)
from ryeos.graph.validation import GraphDraft, note_graph_problems

if TYPE_CHECKING:
    from ryeos.graph.model import OnError, ResultShape


MAX_NODES = 10_000
GRAPH_TYPE = "graph"
ON_ERROR = ("fail", "continue")
RESULTS = ("output", "state", "both")

TOP_KEYS = (
    *("version", "tool_type", "executor_id", "category", "description", "tool_id", "name"),
    *("permissions", "limits", "env_requires", "config_schema", "config", "sandbox"),
)
# Said for people and registries, or by the chain of every tool.
TOP_IGNORED = (
    *("author", "authors", "license", "homepage", "repository", "tags", "keywords", "notes"),
    *("title", "created_at", "updated_at", "comment", "outputs", "config_resolve"),
    *("execution_owner", "native_async", "native_resume", "env_config", "id"),
)
CONFIG_KEYS = (
    *("start", "nodes", "max_steps", "max_concurrency", "on_error", "state", "hooks"),
    *("timeout", "result", "comment", "description"),
)


@dataclass(frozen=True, slots=True)
class GraphReading:
    """A file as it was read: the graph when there are no errors, and all problems in any case.

    ``refused`` are those of the warnings for which it is not signed.
    """

    graph: Graph | None
    errors: tuple[GraphProblem, ...] = ()
    warnings: tuple[GraphProblem, ...] = ()
    refused: tuple[GraphProblem, ...] = ()

    @property
    def before_signing(self) -> "GraphReading":
        """The same for a file that is to be signed: what is refused then is an error."""
        errors = (*self.errors, *self.refused)
        warnings = tuple(one for one in self.warnings if one not in self.refused)
        return GraphReading(self.graph, errors, warnings)


def read_graph(data: Mapping[str, Any], graph_id: str) -> GraphReading:
    """Read the header of a graph file, as `ryeos.items.headers` parsed it: JSON types, bounded."""
    findings = Findings()
    top = GraphFields(data, "", findings)
    graph = _graph(top, graph_id)
    top.report_unknown(
        (*TOP_KEYS, *TOP_IGNORED), {key: f"{key} belongs in config" for key in CONFIG_KEYS}
    )
    errors = listed(findings.errors, "errors")
    warnings = listed(findings.warnings, "warnings")
    refused = listed(findings.refused, "errors")
    return GraphReading(None if errors else graph, errors, warnings, refused)


def _graph(top: GraphFields, graph_id: str) -> Graph | None:
    _validate_type(top)
    config = GraphFields(top.mapping("config") or {}, "config", top.findings)
    if top.data.get("config") is None:
        top.findings.error("config", "expected the graph, found nothing")
    nodes = _nodes(config)
    read: dict[str, Any] = {
        "permissions": top.some_texts("permissions"),
        "limits": _limits(top),
        "env_requires": top.env_requires(),
        "config_schema": top.mapping("config_schema"),
        "description": top.prose("description"),
        "max_steps": config.count("max_steps"),
        "max_concurrency": config.count("max_concurrency"),
        "on_error": cast("OnError", config.choice("on_error", ON_ERROR) or "fail"),
        "state": _state(config),
        "hooks": read_hooks(config),
        "timeout_s": config.limit_s("timeout"),
        "result": cast("ResultShape", config.choice("result", RESULTS) or "output"),
    }
    start = config.text("start")
    if config.data.get("start") is None and top.data.get("config") is not None:
        top.findings.error("config.start", "expected the name of the first node, found nothing")
    if start is not None and nodes:
        note_missing_target(start, "config.start", top.findings, nodes)
    config.report_unknown(CONFIG_KEYS, {key: f"{key} belongs at the top level" for key in TOP_KEYS})
    is_declared = "permissions" in top.data
    draft = GraphDraft(start=start, nodes=nodes, is_declared=is_declared, **_drafted(read))
    note_graph_problems(draft, top.findings)
    if start is None or any(node is None for node in nodes.values()):
        return None
    known = {name: node for name, node in nodes.items() if node}
    return Graph(graph_id=graph_id, start=start, nodes=known, **read)


def _drafted(read: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("permissions", "config_schema", "state", "hooks", "result")
    return {key: read[key] for key in keys}


def _validate_type(top: GraphFields) -> None:
    for key in ("version", "executor_id", "category", "tool_id", "name"):
        top.prose(key)  # the chain and the search use them
    word = top.text("tool_type")
    if word is not None and word != GRAPH_TYPE:
        top.findings.warn("tool_type", f"expected {GRAPH_TYPE}, found {shown(word)}")


def _limits(top: GraphFields) -> Mapping[str, float]:
    limits = GraphFields(top.mapping("limits") or {}, "limits", top.findings)
    read: dict[str, float | None] = {key: limits.number(key, 0, inf) for key in limits.data}
    read["depth"] = limits.count("depth", least=0)
    return {key: value for key, value in read.items() if value is not None}


def _state(config: GraphFields) -> Mapping[str, Any]:
    state = config.mapping("state") or {}
    for key in state:
        note_bad_state_key(key, below("config.state", key), config.findings)
    return state


def _nodes(config: GraphFields) -> dict[str, GraphNode | None]:
    entries = config.mapping("nodes")
    if not entries:
        if config.path and (entries is not None or config.data.get("nodes") is None):
            config.findings.error("config.nodes", "expected a mapping of nodes, found nothing")
        return {}
    if len(entries) > MAX_NODES:
        config.findings.error(
            "config.nodes", f"expected at most {MAX_NODES} nodes, found {len(entries)}"
        )
        return {}
    nodes = {}
    for name, value in entries.items():
        path = below("config.nodes", name)
        _validate_name(name, path, config.findings)
        nodes[name] = read_node(name, value, path, config.findings, entries)
    return nodes


def _validate_name(name: str, path: str, findings: Findings) -> None:
    if not name.strip() or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        expected = f"a name of 1 to {MAX_NAME_CHARACTERS} characters that can be seen"
        findings.error(path, f"expected {expected}, found {shown(name)}")
