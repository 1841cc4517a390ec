"""What can be told of a graph without running it: ways nobody takes, names nobody sets."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from lillux.values import dataclass
from ryeos.graph.action_reading import EXPRESSION
from ryeos.graph.capabilities import denial, required_capability
from ryeos.graph.model import (
    Action,
    ActionNode,
    Edge,
    ForeachNode,
    GateNode,
    Hook,
    Node,
    ReturnNode,
    edges_of,
    error_target,
)
from ryeos.graph.problems import Findings, below, shown
from ryeos.graph.template_checks import Use, check_uses, hook_uses, node_uses

# Set by the engine, or wanted by nobody but a person who looks at the state.
ENGINE_KEYS = frozenset({"inputs", "_last_error", "_retries"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A graph as far as it could be read; a node that could not is None."""

    start: str | None
    nodes: Mapping[str, Node | None]
    permissions: tuple[str, ...] | None
    config_schema: Mapping[str, Any] | None
    state: Mapping[str, Any]
    hooks: Sequence[Hook]
    result: str

    @property
    def known(self) -> Mapping[str, Node]:
        """The nodes that could be read."""
        return {name: node for name, node in self.nodes.items() if node}


def check_draft(draft: Draft, findings: Findings) -> None:
    """Add every problem that shows only in the whole graph."""
    uses = [use for node in draft.known.values() for use in node_uses(node)]
    uses += [use for number, hook in enumerate(draft.hooks) for use in hook_uses(hook, number)]
    check_uses(uses, findings)
    for node in draft.known.values():
        _check_edges(node, findings)
    if draft.nodes and not any(_ends(node) for node in draft.nodes.values()):
        findings.warn(
            "config.nodes", "no node of type return", "the run ends where a node has no next"
        )
    _check_permissions(draft, findings)
    _check_covered(draft, findings)
    _check_inputs(draft, uses, findings)
    if None not in draft.nodes.values():
        _check_reachable(draft, findings)
        _check_state(draft, uses, findings)


def _ends(node: Node | None) -> bool:
    return node is None or isinstance(node, ReturnNode)


def _check_edges(node: Node, findings: Findings) -> None:
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


def reachable(start: str, nodes: Mapping[str, Node]) -> frozenset[str]:
    """The names of the nodes that a run can come to."""
    seen, waiting = {start}, [start]
    while waiting:
        node = nodes.get(waiting.pop())
        targets = [] if node is None else [edge.to for edge in _taken(edges_of(node))]
        failed = error_target(node) if node else None
        for target in [*targets, *([failed] if failed else [])]:
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return frozenset(seen)


def _taken(edges: Iterable[Edge]) -> Iterator[Edge]:
    """The edges up to the first without a condition."""
    for edge in edges:
        yield edge
        if edge.when is None:
            return


def _check_reachable(draft: Draft, findings: Findings) -> None:
    if draft.start not in draft.nodes:
        return
    seen = reachable(draft.start or "", draft.known)
    for name in draft.nodes:
        if name not in seen:
            findings.warn(below("config.nodes", name), "no way leads to this node")


def _check_permissions(draft: Draft, findings: Findings) -> None:
    calls = any(isinstance(node, (ActionNode, ForeachNode)) for node in draft.nodes.values())
    if draft.permissions is None:
        findings.warn(
            "permissions",
            "the graph has none, so each caller must give its own",
            'permissions: ["rye.execute.tool.demo.*"]',
        )
    elif not draft.permissions and calls:
        findings.warn("permissions", "an empty list denies every call of the graph")
    for index, permission in enumerate(draft.permissions or ()):
        if not permission.startswith(("rye.", "*", "rye*", "?", "[")):
            findings.warn(
                below("permissions", index),
                f"{shown(permission)} permits nothing",
                "a permission reads rye.execute.tool.demo.add, where * stands for any text",
            )


def _check_covered(draft: Draft, findings: Findings) -> None:
    """A call that the graph's own list denies can never be made; ids with expressions may be."""
    if not draft.permissions:
        return
    for path, action in _actions(draft):
        item_id = action.item_id.partition(":")[2]
        if EXPRESSION in action.item_id or (action.item_id and not action.kind):
            continue
        if denial(action.primary, action.kind, item_id, [draft.permissions]):
            needed = required_capability(action.primary, action.kind, item_id)
            findings.warn(
                below(path, "item_id"), f"the permissions do not cover {needed}", "add it to them"
            )


def _actions(draft: Draft) -> Iterator[tuple[str, Action]]:
    """Every call of the graph and of its hooks, each with its path."""
    for node in draft.known.values():
        if isinstance(node, (ActionNode, ForeachNode)):
            yield below(below("config.nodes", node.name), "action"), node.action
    for number, hook in enumerate(draft.hooks):
        if hook.action:
            yield below(below("config.hooks", number), "action"), hook.action


def _check_inputs(draft: Draft, uses: Iterable[Use], findings: Findings) -> None:
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


def _check_state(draft: Draft, uses: Sequence[Use], findings: Findings) -> None:
    assigned = _assigned(draft)
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


def _assigned(draft: Draft) -> dict[str, str]:
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
