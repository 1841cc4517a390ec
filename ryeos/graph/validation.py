"""Static checks of a graph: its names, expressions, edges and permissions."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lillux.values import dataclass
from ryeos.graph.actions import EXPRESSION
from ryeos.graph.capabilities import denial, required_capability
from ryeos.graph.conditions import Condition
from ryeos.graph.conditions import references as condition_references
from ryeos.graph.expressions import problems, references, unquoted_in
from ryeos.graph.model import (
    Action,
    ActionNode,
    Edge,
    ForeachNode,
    GateNode,
    GraphNode,
    Hook,
    ReturnNode,
    edges_of,
    error_target,
)
from ryeos.graph.problems import Findings, below, shown

_ALWAYS = frozenset({"state", "inputs", "_now", "_timestamp"})
_AFTER_CALL = _ALWAYS | {"result"}
_EVENT_NAMES = _AFTER_CALL | {
    *("graph_id", "graph_run_id", "error", "classification", "node", "next_node", "status"),
    *("step_count", "steps", "limit_code", "current_value", "current_max", "event", "output"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One template or condition: where it stands, what it names, which names there are.

    ``key`` is its own in a mapping, ``command`` for one that a shell may get.
    """

    path: str
    template: Any = None
    condition: Condition | None = None
    known: frozenset[str] = _ALWAYS
    key: str = ""

    def references(self) -> Iterator[tuple[str, ...]]:
        """Every path it reads, ``("state", "total")``."""
        if self.condition is not None:
            yield from condition_references(self.condition)
        else:
            yield from references(self.template)

    def names(self, namespace: str) -> Iterator[str]:
        """The keys it reads in a namespace."""
        for reference in self.references():
            if reference[0] == namespace and len(reference) > 1:
                yield reference[1]

    def is_whole(self, namespace: str) -> bool:
        """True if it takes a namespace as a whole."""
        return any(reference == (namespace,) for reference in self.references())


def node_uses(node: GraphNode) -> Iterator[Use]:
    """The templates and conditions of a node."""
    path = below("config.nodes", node.name)
    if isinstance(node, ReturnNode):
        yield Use(path=below(path, "output"), template=node.output)
        return
    if isinstance(node, ForeachNode):
        yield Use(path=below(path, "over"), template=node.over)
    if isinstance(node, (ActionNode, ForeachNode)):
        loop = {node.as_name} if isinstance(node, ForeachNode) else frozenset[str]()
        yield from _action_uses(node.action, below(path, "action"), _ALWAYS | loop)
        yield Use(path=below(path, "remote"), template=node.remote, known=_ALWAYS | loop)
    if isinstance(node, (ActionNode, GateNode)):
        yield from _entries(node.assign, below(path, "assign"), _AFTER_CALL)
    for index, edge in enumerate(edges_of(node)):
        if edge.when is not None:
            where = below(below(below(path, "next"), index), "when")
            yield Use(path=where, condition=edge.when, known=_AFTER_CALL)


def hook_uses(hook: Hook, number: int) -> Iterator[Use]:
    """The templates and conditions of a hook."""
    path = below("config.hooks", number)
    if hook.condition is not None:
        yield Use(path=below(path, "condition"), condition=hook.condition, known=_EVENT_NAMES)
    if hook.action:
        yield from _action_uses(hook.action, below(path, "action"), _EVENT_NAMES)


def _action_uses(action: Action, path: str, known: frozenset[str]) -> Iterator[Use]:
    yield Use(path=below(path, "item_id"), template=action.item_id, known=known)
    yield from _entries(action.params, below(path, "params"), known)


def _entries(templates: Mapping[str, Any], path: str, known: frozenset[str]) -> Iterator[Use]:
    for key, template in templates.items():
        yield Use(path=below(path, key), template=template, known=known, key=key)


def note_bad_expressions(uses: Iterable[Use], findings: Findings) -> None:
    """Note expressions that cannot be read, unknown names, and text unsafe in a shell."""
    for use in uses:
        if use.condition is None:
            for place, text in problems(use.template):
                findings.error(_path_below(use.path, place), text)
        for root in {reference[0] for reference in use.references()} - use.known:
            known = ", ".join(sorted(use.known))
            hint = findings.guess(root, use.known) or f"there are {known}"
            findings.warn(use.path, f"there is nothing called {shown(root)} here", hint)
        for path, command in _commands(use.key, use.template, use.path):
            for expression in unquoted_in(command):
                findings.warn(
                    path,
                    f"{shown(expression)} goes into a command as it is",
                    "quote it for the shell: ${... | sh}",
                )


def _commands(key: str, template: object, path: str) -> Iterator[tuple[str, str]]:
    """The command texts of a template, each with its path."""
    if isinstance(template, Mapping):
        for inner, value in template.items():
            yield from _commands(inner, value, below(path, inner))
    elif key == "command" and isinstance(template, str):
        yield path, template


def _path_below(path: str, place: str) -> str:
    """A path, and a place below it."""
    return path + place if not place or place.startswith("[") else f"{path}.{place.lstrip('.')}"


# Set by the engine, or only for a person who looks at the state.
ENGINE_KEYS = frozenset({"inputs", "_last_error", "_retries"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphDraft:
    """A graph as far as it could be read; a node that could not is None.

    ``is_declared`` says that the file has the key ``permissions``, be it null.
    """

    start: str | None
    nodes: Mapping[str, GraphNode | None]
    is_declared: bool
    permissions: tuple[str, ...] | None
    config_schema: Mapping[str, Any] | None
    state: Mapping[str, Any]
    hooks: Sequence[Hook]
    result: str

    @property
    def known(self) -> Mapping[str, GraphNode]:
        """The nodes that could be read."""
        return {name: node for name, node in self.nodes.items() if node}


def note_graph_problems(draft: GraphDraft, findings: Findings) -> None:
    """Add every problem that shows only in the whole graph."""
    uses = [use for node in draft.known.values() for use in node_uses(node)]
    uses += [use for number, hook in enumerate(draft.hooks) for use in hook_uses(hook, number)]
    note_bad_expressions(uses, findings)
    for node in draft.known.values():
        _validate_edges(node, findings)
    if draft.nodes and not any(_ends(node) for node in draft.nodes.values()):
        findings.warn(
            "config.nodes", "no node of type return", "the run ends where a node has no next"
        )
    _validate_permissions(draft, findings)
    _validate_covered(draft, findings)
    _validate_inputs(draft, uses, findings)
    if None not in draft.nodes.values():
        _validate_reachable(draft, findings)
        _validate_state(draft, uses, findings)


def _ends(node: GraphNode | None) -> bool:
    return node is None or isinstance(node, ReturnNode)


def _validate_edges(node: GraphNode, findings: Findings) -> None:
    edges = edges_of(node)
    path = below(below("config.nodes", node.name), "next")
    always = next((index for index, edge in enumerate(edges) if edge.when is None), None)
    if always is None:
        return
    if always < len(edges) - 1:
        findings.warn(
            below(path, always),
            "the edges after this one are never tried: it has no condition",
            "put it last",
        )
    if edges[always].to == node.name:
        findings.warn(
            path, f"{shown(node.name)} leads to itself without a condition", "give the edge a when"
        )


def reachable(start: str, nodes: Mapping[str, GraphNode]) -> frozenset[str]:
    """The names of the nodes that a run can come to."""
    seen, waiting = {start}, [start]
    while waiting:
        node = nodes.get(waiting.pop())
        targets = [] if node is None else [edge.to for edge in _reachable_edges(edges_of(node))]
        failed = error_target(node) if node else None
        for target in [*targets, *([failed] if failed else [])]:
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return frozenset(seen)


def _reachable_edges(edges: Iterable[Edge]) -> Iterator[Edge]:
    """The edges up to the first without a condition."""
    for edge in edges:
        yield edge
        if edge.when is None:
            return


def _validate_reachable(draft: GraphDraft, findings: Findings) -> None:
    if draft.start not in draft.nodes:
        return
    seen = reachable(draft.start or "", draft.known)
    for name in draft.nodes:
        if name not in seen:
            findings.warn(below("config.nodes", name), "no way leads to this node")


def _validate_permissions(draft: GraphDraft, findings: Findings) -> None:
    if not draft.is_declared:
        needed = json.dumps(list(_needed_capabilities(draft)))
        findings.refuse(
            "permissions",
            "expected what the graph may call, found nothing",
            f"permissions: {needed}; null for one that only other graphs call",
        )
    elif draft.permissions is None:
        findings.warn("permissions", "the graph has none, so each caller must give its own")
    elif not draft.permissions and any(_actions(draft)):
        findings.refuse("permissions", "an empty list denies every call of the graph")
    for index, permission in enumerate(draft.permissions or ()):
        if not permission.startswith(("rye.", "*", "rye*", "?", "[")):
            findings.warn(
                below("permissions", index),
                f"{shown(permission)} permits nothing",
                "a permission reads rye.execute.tool.demo.add, where * stands for any text",
            )


def _needed_capabilities(draft: GraphDraft) -> Iterator[str]:
    """Capabilities that the graph's calls need, each once; ``*`` for an id of an expression."""
    seen = set()
    for _, action in _actions(draft):
        item_id = action.item_id.partition(":")[2] or action.item_id
        is_open = EXPRESSION in action.item_id
        needed = required_capability(action.primary, action.kind, "*" if is_open else item_id)
        if needed not in seen:
            seen.add(needed)
            yield needed


def _validate_covered(draft: GraphDraft, findings: Findings) -> None:
    """A call that the graph's own list denies can never be made; ids with expressions may be."""
    if not draft.permissions:
        return
    for path, action in _actions(draft):
        item_id = action.item_id.partition(":")[2]
        if EXPRESSION in action.item_id or (action.item_id and not action.kind):
            continue
        if denial(action.primary, action.kind, item_id, [draft.permissions]):
            needed = required_capability(action.primary, action.kind, item_id)
            findings.refuse(
                below(path, "item_id"), f"the permissions do not cover {needed}", "add it to them"
            )


def _actions(draft: GraphDraft) -> Iterator[tuple[str, Action]]:
    """Every call of the graph and of its hooks, each with its path."""
    for node in draft.known.values():
        if isinstance(node, (ActionNode, ForeachNode)):
            yield below(below("config.nodes", node.name), "action"), node.action
    for number, hook in enumerate(draft.hooks):
        if hook.action:
            yield below(below("config.hooks", number), "action"), hook.action


def _validate_inputs(draft: GraphDraft, uses: Iterable[Use], findings: Findings) -> None:
    """An input that the schema does not know is most likely misspelt."""
    schema = draft.config_schema or {}
    properties = schema.get("properties")
    if not isinstance(properties, Mapping) or schema.get("additionalProperties"):
        return
    if {"patternProperties", "$ref", "allOf", "anyOf", "oneOf"} & schema.keys():
        return
    for use in uses:
        for name in use.names("inputs"):
            if name not in properties:
                findings.warn(
                    use.path,
                    f"inputs.{name[:60]} is not in config_schema",
                    findings.guess(name, properties),
                )


def _validate_state(draft: GraphDraft, uses: Sequence[Use], findings: Findings) -> None:
    assigned = _assigned_keys(draft)
    referenced = set()
    everything = draft.result != "output"
    for use in uses:
        everything = everything or use.is_whole("state")
        for name in use.names("state"):
            referenced.add(name)
            if name not in assigned and name not in ENGINE_KEYS:
                findings.warn(
                    use.path,
                    f"state.{name[:60]} is never assigned",
                    findings.guess(name, assigned),
                )
    if everything:
        return
    for name, path in assigned.items():
        if name not in referenced and name not in ENGINE_KEYS:
            findings.warn(path, f"state.{name[:60]} is never used")


def _assigned_keys(draft: GraphDraft) -> dict[str, str]:
    """State key -> where it is first assigned."""
    assigned: dict[str, str] = {name: below("config.state", name) for name in draft.state}
    for node in draft.known.values():
        path = below("config.nodes", node.name)
        if isinstance(node, (ActionNode, GateNode)):
            for name in node.assign:
                assigned.setdefault(name, below(below(path, "assign"), name))
        elif isinstance(node, ForeachNode) and node.collect:
            assigned.setdefault(node.collect, below(path, "collect"))
    return assigned
