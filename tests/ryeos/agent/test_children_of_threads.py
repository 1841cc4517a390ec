"""Threads that start threads: all pay from one purse, and a kill changes nothing of that."""

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from threading import Lock
from typing import Any

import pytest

from lillux.values import replace
from ryeos.agent.ledger import Ledger
from ryeos.agent.limits import Limits
from ryeos.agent.records import Journal
from ryeos.app.agent_threads import AgentThreads
from ryeos.app.thread_log import Following
from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.errors import RyeError
from ryeos.items.refs import Kind, Reference
from tests.support.agent_threads import carried_out, directive, echo, provider, threads
from tests.support.model_server import ModelServer, calls, streamed, words
from tests.support.workspace import Workspace

CHILDREN = 20
PRICED = (
    "{prices: {input: 1000, output: 5000}, context: 100000, max_output: 400, features: [tools]}"
)


def family(workspace: Workspace, server: ModelServer, limits: str = "") -> None:
    """Three generations of directives, and what each of their calls costs."""
    provider(workspace, server.url, model=PRICED)
    echo(workspace)
    permissions = "<execute><directive>ops.*</directive><tool>ops.echo</tool></execute>"
    for name in ("ops/inmost", "ops/inner"):
        directive(workspace, name, permissions=permissions, body="Do it.")
    directive(workspace, permissions=permissions, limits=limits, body="Start.")


def test_what_a_grandchild_used_is_charged_after_a_kill(
    workspace: Workspace, server: ModelServer
) -> None:
    family(workspace, server)
    server.always = words("done")
    found = threads(workspace)
    ids = ["root", "child", "grandchild"]
    journals = [_begun(found, "ops/say", "root", ThreadWish(parameters={}))]
    for item, name in (("ops/inner", "child"), ("ops/inmost", "grandchild")):
        above = journals[-1]
        wanted = {"spawns": 2, "turns": 9}
        said = {"thread_id": name, "call_id": "c", "wanted": wanted, "defaults": Limits().as_dict()}
        given = above.write(("lent", said), force=True).children[name].limits
        wish = ThreadWish(parameters={}, parent=above.folder.name, depth=len(journals), given=given)
        journals.append(_begun(found, item, name, wish))
    found.go_on(journals.pop(), Following())
    for journal in journals:
        journal.close()  # as a kill: nothing is gathered

    answer = threads(workspace).resume("root")

    usage = answer.envelope["usage"]
    assert sorted(ids) == sorted(found.records.ids())
    assert (usage["turns"], usage["spawns"], usage["input_tokens"]) == (2, 2, 200)
    assert usage["input_tokens"] == 100 * len(server.requests)


def _begun(found: AgentThreads, item: str, name: str, wish: ThreadWish) -> Journal:
    return found.begin(Reference(Kind.DIRECTIVE, item), replace(wish, thread_id=name))


def test_a_child_is_not_gone_on_with_by_itself(workspace: Workspace, server: ModelServer) -> None:
    family(workspace, server, limits='<limits turns="4"/>')
    server.replies = [calls(("inner", {})), words("inner done"), words("done")]
    parent = carried_out(workspace).envelope["thread_id"]
    found = threads(workspace)
    child = next(one for one in found.records.ids() if found.records.read(one).start.parent)

    with pytest.raises(RyeError, match="child") as refusal:
        threads(workspace).resume(child)

    assert refusal.value.code == "CONFLICT"
    assert parent in (refusal.value.hint or "")
    assert not found.records.is_running(child)
    found.records.remove(parent)
    with pytest.raises(RyeError, match="child") as of_pruned:
        threads(workspace).resume(child)
    assert of_pruned.value.hint == "start it again: rye run directive:ops/inner --fork"


def test_twenty_children_at_once_break_neither_the_purse_nor_the_day(
    workspace: Workspace, server: ModelServer
) -> None:
    spend, daily = 200_000_000, 120_000_000
    family(workspace, server, limits='<limits turns="60" spawns="20" spend="0.2" depth="1"/>')
    workspace.user.signed(
        "config/agent/agent.yaml",
        'version: "1.0.0"\ncategory: agent\ndaily: {spend: "0.12"}\n',
    )
    billed, lock = list[int](), Lock()

    def answer(handler: BaseHTTPRequestHandler, body: Mapping[str, Any]) -> None:
        is_parent = "Start." in json.dumps(body["messages"])
        sent, answered = int(handler.headers["content-length"]) // 2, int(body["max_tokens"])
        with lock:
            billed.append(sent * 1000 + answered * 5000)
            number = len(billed)
        usage = {"sent": sent, "answered": answered}
        if is_parent:
            count = CHILDREN if number == 1 else 0
            deltas = [_call(place, "inner", {}) for place in range(count)]
            words_of_parent = [{"content": "all done"}]
            reason = "tool_calls" if deltas else "stop"
            streamed(deltas or words_of_parent, reason, **usage)(handler, body)
        else:
            streamed([_call(0, "echo", {"text": str(number)})], "tool_calls", **usage)(
                handler, body
            )

    server.always = answer

    ended = carried_out(workspace)

    found = threads(workspace)
    root = found.records.read(ended.envelope["thread_id"])
    children = [one for one in map(found.records.read, found.records.ids()) if one.start.parent]
    assert len(children) == CHILDREN
    assert not root.children, "each gave its purse back"
    assert all(one.purse.used.spend <= one.purse.limits.spend for one in children)
    assert sum(one.purse.used.spend for one in children) < root.purse.used.spend
    assert sum(billed) <= root.purse.used.spend <= spend
    assert sum(billed) <= daily, "no call started that could break the day"
    left = Ledger(found.rye.context.spaces.user.ai, daily=daily).left()
    assert 0 <= left <= daily - sum(billed)
    codes = {one.ended.code for one in children if one.ended}
    assert codes <= {"LIMIT_SPEND", "LIMIT_DAILY", "LIMIT_TURNS"}
    assert "LIMIT_DAILY" in codes | {root.ended.code if root.ended else ""}


def _call(place: int, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": place, "id": f"call_{place}", "function": function}]}
