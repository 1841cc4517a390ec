"""The calls of one node: one, several in a row, or side by side; again, as ``retry`` says."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeAlias

from ryeos.graph.calls import RefusedCallError, act_of
from ryeos.graph.commands import Act, Acted, Command, Fan, Pause
from ryeos.graph.model import ActionNode, ForeachNode
from ryeos.graph.progress import Progress
from ryeos.graph.results import failed

Reply: TypeAlias = Any
# A call that was refused is not there, and its result says why.
Made: TypeAlias = tuple[Act | None, Acted]

NOT_MADE = Acted(result=failed("not made: an earlier call failed", "NOT_MADE"))
CANCELLED = Acted(result=failed("the run was cancelled", "CANCELLED"), is_cancelled=True)


def call_once(
    walk: Progress,
    node: ActionNode | ForeachNode,
    document: Mapping[str, Any],
    index: int | None = None,
) -> Generator[Command, Reply, Made]:
    """One call, and the same again where it fails and the node has retries left."""
    act, acted = None, CANCELLED
    for attempt in range(1 + (node.retry.max if node.retry else 0)):
        if attempt and not (yield _pause(node, attempt)):
            return None, CANCELLED
        try:
            act = act_of(node, document, walk.settings.rules, index=index, warn=walk.warn)
        except RefusedCallError as refusal:
            return None, Acted(result=failed(str(refusal), refusal.reason))
        acted = yield act
        if acted.is_cancelled or not acted.has_failed:
            break
    return act, acted


def one_by_one(
    walk: Progress, node: ForeachNode, elements: Sequence[Any]
) -> Generator[Command, Reply, list[Made]]:
    """A call for each element; the element is in the state while its call is made."""
    made: list[Made] = []
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
    walk: Progress, node: ForeachNode, elements: Sequence[Any]
) -> Generator[Command, Reply, list[Made]]:
    """All calls at once, none of which sees the state; those that failed again, as often."""
    made = [_unmade(walk, node, index, element) for index, element in enumerate(elements)]
    waiting = [place for place, (act, _) in enumerate(made) if act]
    if node.fail_fast and len(waiting) < len(made):
        return [(None, NOT_MADE if act else acted) for act, acted in made]
    last = node.retry.max if node.retry else 0
    for attempt in range(1 + last):
        if not waiting:
            break
        if attempt and not (yield _pause(node, attempt)):
            return [(None, CANCELLED)]
        answered: Sequence[Acted] = yield Fan(
            acts=[act for place in waiting if (act := made[place][0])],
            max_concurrency=node.max_concurrency or walk.settings.max_concurrency,
            fail_fast=node.fail_fast and attempt == last,
        )
        for place, acted in zip(waiting, answered, strict=True):
            made[place] = (made[place][0], acted)
        if any(acted.is_cancelled for acted in answered):
            break
        waiting = [place for place in waiting if made[place][1].has_failed]
    return made


def _unmade(walk: Progress, node: ForeachNode, index: int, element: object) -> Made:
    document = {**walk.document(), "state": {}, node.as_name: element}
    try:
        act = act_of(node, document, walk.settings.rules, index=index, warn=walk.warn)
    except RefusedCallError as refusal:
        return None, Acted(result=failed(str(refusal), refusal.reason))
    return act, CANCELLED


def _pause(node: ActionNode | ForeachNode, attempt: int) -> Pause:
    retry = node.retry
    return Pause(retry.delay_s * retry.backoff ** (attempt - 1) if retry else 0.0)
