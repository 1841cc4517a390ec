"""A full window is made shorter: by the model of the thread, or by one that `compact` names."""

import pytest

from ryeos.items.errors import RyeError
from tests.support.agent_threads import carried_out, directive, echo, provider
from tests.support.model_server import ModelServer, Reply, calls, events, refused, words
from tests.support.model_streams import (
    anthropic,
    anthropic_end,
    anthropic_start,
    anthropic_text,
)
from tests.support.workspace import Workspace

FULL = refused(400, {"error": {"code": "context_length_exceeded", "message": "too many tokens"}})


def turns(count: int) -> list[Reply]:
    return [calls(("echo", {"text": f"number {n}"})) for n in range(count)]


def test_a_summary_stands_for_the_turns_in_the_middle(
    ready: Workspace, server: ModelServer
) -> None:
    server.replies = [*turns(5), FULL, words("three were said"), words("done")]

    answer = carried_out(ready, what="it all")

    last = str(server.requests[-1]["messages"])
    assert answer.envelope["text"] == "done"
    assert "Say it all with the tool echo" in last
    assert "three were said" in last
    assert [f"number {n}" in last for n in range(5)] == [False, False, False, True, True]


def test_where_nothing_that_can_be_made_shorter_makes_room_no_summary_is_paid(
    workspace: Workspace, server: ModelServer
) -> None:
    provider(workspace, server.url, model="{free: true, context: 100, max_output: 50}")
    echo(workspace)
    directive(workspace, body="Say it. " * 500)
    called = [calls(("echo", {"text": f"number {n}"}), sent=1600) for n in range(6)]
    server.replies = [*called, words("done", sent=1600)]

    answer = carried_out(workspace)

    assert (answer.envelope["state"], answer.envelope["usage"]["turns"]) == ("completed", 7)


def test_a_provider_that_pauses_again_and_again_ends_the_thread(
    workspace: Workspace, server: ModelServer
) -> None:
    provider(workspace, server.url, dialect="anthropic-messages")
    directive(workspace, permissions="<execute><tool>ops.*</tool></execute>")
    data = [*anthropic(anthropic_start(), *anthropic_text(0, "wait"), *anthropic_end("pause_turn"))]
    server.always = events([text for _, text in data])

    answer = carried_out(workspace)

    assert (answer.envelope["state"], answer.envelope["code"]) == ("stopped", "LOOPING")


def test_old_results_become_addresses_before_there_is_a_summary(
    ready: Workspace, server: ModelServer
) -> None:
    long = [calls(("echo", {"text": f"{n}" + "x" * 900})) for n in range(5)]
    server.replies = [*long, FULL, words("done")]

    answer = carried_out(ready)

    assert answer.envelope["text"] == "done"
    assert "characters: load rye://thread/" in str(server.requests[-1])


def test_the_model_that_compact_names_is_asked_for_the_summary_and_paid(
    ready: Workspace, server: ModelServer
) -> None:
    with ModelServer(words("three were said", sent=700, answered=50)) as other:
        priced = "{prices: {input: 1000, output: 5000}, max_output: 500}"
        provider(ready, other.url, name="other", model=priced)
        settings = 'version: "1.0.0"\ncategory: agent\ncompact: other/small\n'
        ready.user.signed("config/agent/agent.yaml", settings)
        server.replies = [*turns(5), FULL, words("done")]

        answer = carried_out(ready)

    (asked,) = other.requests
    assert answer.envelope["text"] == "done"
    assert answer.envelope["usage"]["spend"] == "0.00095"
    assert "tools" not in asked
    assert "number 0" in str(asked["messages"])
    assert "three were said" in str(server.requests[-1]["messages"])


def test_a_model_for_summaries_that_cannot_be_used_is_found_at_the_start(
    ready: Workspace, server: ModelServer
) -> None:
    settings = 'version: "1.0.0"\ncategory: agent\ncompact: nobody\n'
    ready.user.signed("config/agent/agent.yaml", settings)

    with pytest.raises(RyeError, match="nobody"):
        carried_out(ready)

    assert not server.requests


# --- before it is full ----------------------------------------------------------------------------


def window(workspace: Workspace, server: ModelServer, tokens: int, output: int = 200) -> None:
    provider(
        workspace,
        server.url,
        model=f"{{free: true, context: {tokens}, max_output: {output}, features: [tools]}}",
    )


def test_a_history_that_leaves_no_room_for_an_answer_is_shortened_before_it_is_sent(
    ready: Workspace, server: ModelServer
) -> None:
    window(ready, server, 3000)
    long = [calls(("echo", {"text": f"{n}" + "x" * 900}), sent=300 + 500 * n) for n in range(6)]
    server.replies = [*long, words("done")]

    answer = carried_out(ready)

    asked = [str(one["messages"]) for one in server.requests]
    assert answer.envelope["text"] == "done"
    assert ["characters: load rye://thread/" in one for one in asked][:5] == [False] * 5
    assert "characters: load rye://thread/" in asked[-1]
    assert all("Say" in one for one in asked)


def test_where_old_results_are_short_a_summary_is_made_before_the_window_is_full(
    ready: Workspace, server: ModelServer
) -> None:
    window(ready, server, 3000)
    many = [calls(("echo", {"text": f"number {n}"}), sent=300 + 350 * n) for n in range(8)]
    server.replies = [*many, words("eight were said"), words("done")]

    answer = carried_out(ready, what="it all")

    last = str(server.requests[-1]["messages"])
    assert answer.envelope["text"] == "done"
    assert "eight were said" in last
    assert "Say it all with the tool echo" in last
    assert [f"number {n}" in last for n in range(8)] == [False] * 6 + [True] * 2


def test_an_answer_is_asked_for_no_longer_than_the_window_leaves_room(
    ready: Workspace, server: ModelServer
) -> None:
    window(ready, server, 3000, output=8000)
    server.replies = [calls(("echo", {"text": "hi"}), sent=2000), words("done")]

    carried_out(ready)

    first, second = (one["max_tokens"] for one in server.requests)
    assert second < first < 3000
    assert 256 <= second <= 3000 - 2010


def test_a_model_whose_window_is_not_known_is_sent_all_of_it(
    ready: Workspace, server: ModelServer
) -> None:
    provider(ready, server.url, model="{free: true, features: [tools]}")
    long = [calls(("echo", {"text": f"{n}" + "x" * 900}), sent=5000 * n) for n in range(1, 6)]
    server.replies = [*long, words("done")]

    carried_out(ready)

    assert "characters: load rye://thread/" not in str(server.requests)
