"""The calls of one node: one, several in a row, or side by side.

They are made again as ``retry`` says; those of a foreach, for each of its elements. Pure.
See ``docs/graphs.md``.
"""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, TypeAlias

from ryeos.graph.call_results import failed
from ryeos.graph.calls import RefusedCallError, act_of
from ryeos.graph.commands import Act, CallResult, Fan, Pause, WalkCommand
from ryeos.graph.model import ActionNode, ForeachNode
from ryeos.graph.progress import WalkProgress


def elements_of(over: Any, node: str, warn: Callable[[str], None]) -> list[Any]:  # noqa: ANN401 - JSON
    """The elements: of a list, of a list written as JSON, or the ``{key, value}`` of a mapping.

    Anything else has none.
    """
    if isinstance(over, list | tuple):
        return list(over)
    if isinstance(over, Mapping):
        return [{"key": key, "value": value} for key, value in over.items()]
    if isinstance(over, str):
        return _written_list(over, node, warn)
    if over is not None:
        warn(f"{node}: over: expected a list, found {type(over).__name__}; there is nothing to do")
    return []


def _written_list(text: str, node: str, warn: Callable[[str], None]) -> list[Any]:
    if not text.strip():
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list):
        return value
    warn(f"{node}: over: expected a list, found the text {text!r:.60}; there is nothing to do")
    return []


def collected(results: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The kept part of each result: the thread where one was started, else all of it.

    A thread of a model that has ended is a result like any other.
    """
    return [
        dict(result) if _is_whole(result) else result.get("thread_id") or dict(result)
        for result in results
    ]


def _is_whole(result: Mapping[str, Any]) -> bool:
    return result.get("status") == "error" or result.get("type") == "thread"


def first_failure(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first result that is an error."""
    return next((result for result in results if result.get("status") == "error"), None)


Reply: TypeAlias = Any
# A call that was refused is not there, and its result says why.
MadeCall: TypeAlias = tuple[Act | None, CallResult]

NOT_MADE = CallResult(result=failed("not made: an earlier call failed", "NOT_MADE"))
CANCELLED = CallResult(result=failed("the run was cancelled", "CANCELLED"), is_cancelled=True)


def call_once(
    walk: WalkProgress,
    node: ActionNode | ForeachNode,
    document: Mapping[str, Any],
    index: int | None = None,
) -> Generator[WalkCommand, Reply, MadeCall]:
    """One call, and the same again where it fails and the node has retries left."""
    act, acted = None, CANCELLED
    for attempt in range(1 + (node.retry.max if node.retry else 0)):
        if attempt and not (yield _pause(node, attempt)):
            return None, CANCELLED
        try:
            act = act_of(node, document, walk.settings.rules, index=index, warn=walk.warn)
        except RefusedCallError as refusal:
            return None, CallResult(result=failed(str(refusal), refusal.reason))
        acted = yield act
        if acted.is_cancelled or not acted.has_failed or act.forks:
            break
    return act, acted


def one_by_one(
    walk: WalkProgress, node: ForeachNode, elements: Sequence[Any]
) -> Generator[WalkCommand, Reply, list[MadeCall]]:
    """A call for each element; the element is in the state while its call is made."""
    made: list[MadeCall] = []
    before = {node.as_name: walk.state[node.as_name]} if node.as_name in walk.state else {}
    for index, element in enumerate(elements):
        walk.state[node.as_name] = element
        act, acted = yield from call_once(
            walk, node, {**walk.document(), node.as_name: element}, index
        )
        made.append((act, acted))
        if acted.is_cancelled or (node.fail_fast and acted.has_failed):
            break
    walk.state.pop(node.as_name, None)
    walk.state |= before
    return made


def side_by_side(
    walk: WalkProgress, node: ForeachNode, elements: Sequence[Any]
) -> Generator[WalkCommand, Reply, list[MadeCall]]:
    """All calls at once, none of which sees the state; those that failed again, as often."""
    made = [_refused_call(walk, node, index, element) for index, element in enumerate(elements)]
    waiting = [place for place, (act, _) in enumerate(made) if act]
    if node.fail_fast and len(waiting) < len(made):
        return [(None, NOT_MADE if act else acted) for act, acted in made]
    last = node.retry.max if node.retry else 0
    for attempt in range(1 + last):
        if not waiting:
            break
        if attempt and not (yield _pause(node, attempt)):
            return [(None, CANCELLED)]
        answered: Sequence[CallResult] = yield Fan(
            acts=[act for place in waiting if (act := made[place][0])],
            max_concurrency=node.max_concurrency or walk.settings.max_concurrency,
            fail_fast=node.fail_fast and attempt == last,
        )
        for place, acted in zip(waiting, answered, strict=True):
            made[place] = (made[place][0], acted)
        if any(acted.is_cancelled for acted in answered):
            break
        waiting = [
            place
            for place in waiting
            if made[place][1].has_failed and not ((act := made[place][0]) and act.forks)
        ]
    return made


def _refused_call(walk: WalkProgress, node: ForeachNode, index: int, element: object) -> MadeCall:
    document = {**walk.document(), "state": {}, node.as_name: element}
    try:
        act = act_of(node, document, walk.settings.rules, index=index, warn=walk.warn)
    except RefusedCallError as refusal:
        return None, CallResult(result=failed(str(refusal), refusal.reason))
    return act, CANCELLED


def _pause(node: ActionNode | ForeachNode, attempt: int) -> Pause:
    retry = node.retry
    return Pause(retry.delay_s * retry.backoff ** (attempt - 1) if retry else 0.0)
