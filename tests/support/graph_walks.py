"""Walks through graphs without real calls: replies come from a script.

`walked` drives the generator of `ryeos.graph.walk` to its end and keeps every command it gave.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from ryeos.graph.call_results import unwrapped
from ryeos.graph.calls import CallRules
from ryeos.graph.commands import (
    Act,
    CallResult,
    Enter,
    Fan,
    NodeDone,
    Pause,
    WalkCommand,
    WalkOutcome,
)
from ryeos.graph.model import Graph
from ryeos.graph.node_calls import CANCELLED
from ryeos.graph.progress import Position, WalkSettings
from ryeos.graph.reading import read_graph
from ryeos.graph.walk import Walk
from ryeos.items.yaml import parse_yaml

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ALLOWED = ("rye.*",)

C = TypeVar("C")
# The answer of a call: the envelope's data, or CANCELLED.
Answering = Callable[[Act], object]


def ok(**values: object) -> dict[str, Any]:
    """The data of a call that succeeds."""
    return {"success": True, **values}


def bad(error: str = "broken", **values: object) -> dict[str, Any]:
    """The data of a call that fails."""
    return {"success": False, "error": error, **values}


def always(answer: object) -> Answering:
    """The same answer to every call."""
    return lambda _: answer


def in_turn(*answers: object) -> Answering:
    """One answer after another, the last for ever."""
    left = list(answers)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def by_item(**answers: object) -> Answering:
    """The answer of each item of ``demo``; of a list, one after another."""
    scripts = {
        name: in_turn(*answer) if isinstance(answer, list) else always(answer)
        for name, answer in answers.items()
    }
    return lambda act: scripts[act.item_id.removeprefix("demo/")](act)


def graph_of(text_or_data: str | Mapping[str, Any]) -> Graph:
    """A graph without errors, allowed to call everything where it does not say what."""
    data = parse_yaml(text_or_data, "x") if isinstance(text_or_data, str) else text_or_data
    reading = read_graph({"permissions": ["rye.*"], **data}, "demo/x")
    assert reading.errors == ()
    assert reading.graph is not None
    return reading.graph


def nodes(start: str = "a", /, **config: Any) -> Graph:  # noqa: ANN401 - parts of a graph file
    """A graph of these nodes; what is no node of a lower-case letter is of ``config``."""
    made = {name: node for name, node in config.items() if _is_node(name)}
    rest = {name: value for name, value in config.items() if not _is_node(name)}
    return graph_of({"config": {"start": start, "nodes": made, **rest}})


def _is_node(name: str) -> bool:
    return len(name) == 1 or name == "done"


def calling(item: str = "one", **keys: object) -> dict[str, Any]:
    """An action node."""
    params = keys.pop("params", {})
    return {"action": {"item_id": f"tool:demo/{item}", "params": params}, **keys}


def over(elements: object, item: str = "one", **keys: object) -> dict[str, Any]:
    """A foreach node."""
    params = keys.pop("params", {"n": "${item}"})
    action = {"item_id": f"tool:demo/{item}", "params": params}
    return {"type": "foreach", "over": elements, "action": action, **keys}


def gate(to: object = None, **keys: object) -> dict[str, Any]:
    """A gate that leads on, or nowhere."""
    return {"type": "gate", **({"next": to} if to is not None else {}), **keys}


@dataclass(frozen=True)
class Walked:
    """A walk at its end: its outcome and every command, with copies of the states."""

    outcome: WalkOutcome
    commands: list[WalkCommand] = field(repr=False)

    def every(self, kind: type[C]) -> list[C]:
        """The commands of a kind."""
        return [command for command in self.commands if isinstance(command, kind)]

    @property
    def path(self) -> list[str]:
        """The nodes, in the order they were entered."""
        return [enter.node for enter in self.every(Enter)]

    @property
    def acts(self) -> list[Act]:
        """All calls, those of fans included."""
        made: list[Act] = []
        for command in self.commands:
            made += [command] if isinstance(command, Act) else []
            made += command.acts if isinstance(command, Fan) else []
        return made

    @property
    def state(self) -> dict[str, Any]:
        """The state at the end, without the inputs."""
        return {name: value for name, value in self.outcome.state.items() if name != "inputs"}

    @property
    def lefts(self) -> list[NodeDone]:
        """The nodes that the walk has left."""
        return self.every(NodeDone)


def settings(
    *,
    max_steps: int = 100,
    max_concurrency: int = 4,
    grants: Sequence[Sequence[str]] = (ALLOWED,),
    single: bool = False,
    env: Sequence[str] = (),
) -> WalkSettings:
    """Settings under which everything is allowed."""
    return WalkSettings(
        max_steps=max_steps,
        max_concurrency=max_concurrency,
        rules=CallRules(grants=tuple(tuple(one) for one in grants)),
        single=single,
        env_names=env,
    )


def start_of(graph: Graph, node: str = "", **inputs: object) -> Position:
    """The start of a graph, with inputs."""
    state = {**deepcopy(dict(graph.state)), "inputs": inputs}
    return Position(node=node or graph.start, state=state)


def walked(
    graph: Graph,
    answering: Answering = lambda _: {"success": True},
    *,
    position: Position | None = None,
    enters: Iterator[bool] | None = None,
    pauses: Iterator[bool] | None = None,
    is_resumed: bool = False,
    hooks: Sequence[Any] | None = None,
    **changes: Any,  # noqa: ANN401 - of settings, else inputs
) -> Walked:
    """Walk to the end. ``enters`` and ``pauses`` tell each time whether the run goes on."""
    inputs = changes.pop("inputs", {})
    walk = Walk(
        graph,
        position or start_of(graph, **inputs),
        settings(**changes),
        hooks=hooks,
        now=lambda: NOW,
    )
    walking = walk.run(is_resumed=is_resumed)
    commands: list[WalkCommand] = []
    reply: Any = None
    while True:
        try:
            command = walking.send(reply)
        except StopIteration as stop:
            return Walked(stop.value, commands)
        commands.append(deepcopy(command))
        match command:
            case Act():
                reply = _acted(answering(command))
            case Fan():
                reply = [_acted(answering(act)) for act in command.acts]
            case Pause():
                reply = next(pauses, True) if pauses else True
            case Enter():
                reply = next(enters, True) if enters else True
            case NodeDone():
                reply = None


def _acted(answer: object) -> CallResult:
    if isinstance(answer, CallResult):
        return answer
    return CallResult(result=unwrapped({"status": "success", "data": answer}))


__all__ = ["CANCELLED", "Walked", "always", "bad", "by_item", "calling", "gate", "graph_of"]
