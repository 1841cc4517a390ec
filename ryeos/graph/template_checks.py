"""The expressions and conditions of a graph: which names they use, and which of them are wrong."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lillux.values import dataclass
from ryeos.graph.conditions import Condition
from ryeos.graph.conditions import references as condition_references
from ryeos.graph.expressions import problems, references, unquoted_in
from ryeos.graph.model import (
    Action,
    ActionNode,
    ForeachNode,
    GateNode,
    Hook,
    Node,
    ReturnNode,
    edges_of,
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
        """Whether it takes a namespace as a whole."""
        return any(reference == (namespace,) for reference in self.references())


def node_uses(node: Node) -> Iterator[Use]:
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


def check_uses(uses: Iterable[Use], findings: Findings) -> None:
    """Note expressions that cannot be read, unknown names, and text unsafe in a shell."""
    for use in uses:
        if use.condition is None:
            for place, text in problems(use.template):
                findings.error(_joined(use.path, place), text)
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


def _joined(path: str, place: str) -> str:
    """A path, and a place below it."""
    return path + place if not place or place.startswith("[") else f"{path}.{place.lstrip('.')}"
