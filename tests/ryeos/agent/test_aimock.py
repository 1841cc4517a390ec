"""A thread against aimock, a provider that others wrote: each dialect as it goes over the wire."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ryeos.agent.dialects import DIALECTS
from ryeos.items.errors import Answer
from tests.support.agent_threads import carried_out, directive, echo, provider, threads
from tests.support.aimock import Aimock, called, refused, running_aimock, said
from tests.support.workspace import Workspace

OUTPUTS = '<outputs><output name="sum" type="integer" required="true">Sum</output></outputs>'
HI = [("echo", {"text": "hi"})]
every_dialect = pytest.mark.parametrize("dialect", sorted(DIALECTS))


@pytest.fixture(scope="module")
def shared_aimock() -> Iterator[Aimock]:
    with running_aimock() as running:
        yield running


@pytest.fixture
def aimock(shared_aimock: Aimock) -> Aimock:
    shared_aimock.reset()
    return shared_aimock


def ready(workspace: Workspace, aimock: Aimock, dialect: str, **said_of_directive: str) -> None:
    """Write the provider, a tool and a directive."""
    provider(workspace, aimock.url, dialect=dialect)
    echo(workspace)
    directive(workspace, **said_of_directive)


def said_in(workspace: Workspace, answer: Answer, kind: str) -> list[dict[str, Any]]:
    found = threads(workspace).records.events(answer.envelope["thread_id"])
    return [one.payload for one in found if one.event_type == kind]


@every_dialect
def test_a_thread_calls_a_tool_and_the_provider_sees_its_result(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect)
    aimock.add(called(dialect, HI, turn=0), said(dialect, "It said hi.", turn=1))

    answer = carried_out(workspace, what="hi")

    envelope = answer.envelope
    assert (envelope["state"], envelope["text"]) == ("completed", "It said hi."), envelope
    usage = envelope["usage"]
    assert (usage["turns"], usage["tool_calls"]) == (2, 1)
    assert (usage["input_tokens"], usage["output_tokens"]) == (240, 30)
    first, second = [one["body"] for one in aimock.journal()]
    assert "Say hi with the tool echo." in json.dumps(first["messages"])
    (result,) = [one for one in second["messages"] if one["role"] == "tool"]
    assert result["tool_call_id"] == "call_0_0"
    assert '{"said": "hi"}' in result["content"]


@every_dialect
def test_results_of_calls_at_once_go_back_in_the_order_of_the_calls(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect)
    wanted = [("echo", {"text": "one"}), ("nothing", {}), ("echo", {"text": "two"})]
    aimock.add(called(dialect, wanted, turn=0), said(dialect, "done", turn=1))

    answer = carried_out(workspace)

    assert answer.envelope["usage"]["tool_calls"] == 2
    results = [one for one in aimock.journal()[1]["body"]["messages"] if one["role"] == "tool"]
    assert [one["tool_call_id"] for one in results] == ["call_0_0", "call_0_1", "call_0_2"]
    assert ["one" in results[0]["content"], "no tool" in results[1]["content"]] == [True, True]


@every_dialect
def test_a_long_answer_arrives_piece_by_piece(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect)
    text = " ".join(f"word {number} äöü" for number in range(400))
    aimock.add(said(dialect, text, chunkSize=7))

    answer = carried_out(workspace)

    assert answer.envelope["text"] == text


@every_dialect
def test_declared_outputs_come_back_from_each_dialect(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect, outputs=OUTPUTS)
    aimock.add(
        called(dialect, HI, turn=0),
        called(dialect, [("directive_return", {"sum": 3})], turn=1),
    )

    answer = carried_out(workspace)

    assert (answer.envelope["state"], answer.envelope["outputs"]) == ("completed", {"sum": 3})


@every_dialect
def test_a_provider_that_limits_its_rate_is_left_alone_as_long_as_it_says(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect)
    busy = refused(429, "slow down", retryAfter=1, match={"sequenceIndex": 0})
    aimock.add(busy, said(dialect, "done"))

    answer = carried_out(workspace)

    assert answer.envelope["state"] == "completed", answer.envelope
    assert answer.envelope["usage"]["turns"] == 1
    first, second = aimock.journal()
    assert (first["response"]["status"], second["response"]["status"]) == (429, 200)
    assert second["timestamp"] - first["timestamp"] >= 1000
    assert first["body"] == second["body"]


@pytest.mark.parametrize("dialect", ["anthropic-messages"])
def test_a_provider_that_asks_for_longer_than_the_thread_has_is_not_asked_again(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect, limits='<limits duration_s="60"/>')
    aimock.add(refused(429, "slow down", retryAfter=3600))

    answer = carried_out(workspace)

    envelope = answer.envelope
    assert (envelope["state"], envelope["code"]) == ("stopped", "LIMIT_DURATION_S")
    assert len(aimock.journal()) == 1
    assert (envelope["usage"]["spend"], envelope["usage"]["input_tokens"]) == ("0.00", 0)


@every_dialect
def test_a_stream_that_is_cut_inside_arguments_runs_nothing_and_is_charged(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect)
    long = [("echo", {"text": "x" * 400})]
    first: dict[str, Any] = {"match": {"sequenceIndex": 0}, "chunkSize": 20, "latency": 10}
    cut = called(dialect, long, truncateAfterChunks=8, **first)
    aimock.add(cut, said(dialect, "done"))

    answer = carried_out(workspace)

    envelope = answer.envelope
    assert (envelope["state"], envelope["text"]) == ("completed", "done"), envelope
    assert envelope["usage"]["tool_calls"] == 0
    assert envelope["usage"]["turns"] == 2
    (lost,) = said_in(workspace, answer, "unanswered")
    assert (lost["code"], lost["charged"]) == ("STREAM_CUT", True)
    reserved = said_in(workspace, answer, "asked")[0]
    assert envelope["usage"]["input_tokens"] == reserved["input_tokens"] + 120
    assert len(aimock.journal()[1]["body"]["messages"]) == len(
        aimock.journal()[0]["body"]["messages"]
    )


@every_dialect
def test_a_connection_that_ends_in_the_middle_is_charged_and_asked_again(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect)
    broken = said(
        dialect,
        "word " * 50,
        match={"sequenceIndex": 0},
        chunkSize=5,
        latency=20,
        disconnectAfterMs=200,
    )
    aimock.add(broken, said(dialect, "done"))

    answer = carried_out(workspace)

    assert (answer.envelope["state"], answer.envelope["text"]) == ("completed", "done")
    (lost,) = said_in(workspace, answer, "unanswered")
    assert (lost["code"], lost["charged"]) == ("STREAM_CUT", True)
    assert lost.get("partial", "").startswith("word") or not lost.get("partial")


@every_dialect
def test_arguments_that_are_broken_are_an_error_for_the_model_and_can_go_back(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect)
    half = called(dialect, [("echo", '{"text": "hi"')], turn=0)
    aimock.add(half, said(dialect, "done", turn=1))

    answer = carried_out(workspace)

    assert answer.envelope["state"] == "completed", answer.envelope
    assert answer.envelope["usage"]["tool_calls"] == 0
    (result,) = [one for one in aimock.journal()[1]["body"]["messages"] if one["role"] == "tool"]
    assert "arguments" in result["content"] or "expected" in result["content"]


@every_dialect
def test_a_body_that_is_no_stream_ends_the_thread_and_says_so(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect)
    aimock.add(said(dialect, "done", chaos={"malformedRate": 1}))

    answer = carried_out(workspace)

    envelope = answer.envelope
    assert (envelope["state"], envelope["code"]) == ("failed", "PROVIDER_INVALID")
    assert "text/event-stream" in envelope["error"]
    assert len(aimock.journal()) == 1


@every_dialect
def test_a_provider_that_is_slow_is_waited_for(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect)
    aimock.add(said(dialect, "one two three", latency=20, chunkSize=4))

    answer = carried_out(workspace)

    assert (answer.envelope["state"], answer.envelope["text"]) == ("completed", "one two three")


@every_dialect
def test_a_slow_provider_is_left_when_the_time_of_the_thread_is_over(
    workspace: Workspace, aimock: Aimock, dialect: str
) -> None:
    ready(workspace, aimock, dialect, limits='<limits duration_s="1"/>')
    aimock.add(said(dialect, "word " * 2000, latency=300, chunkSize=5))

    answer = carried_out(workspace)

    envelope = answer.envelope
    assert (envelope["state"], envelope["code"]) == ("stopped", "LIMIT_DURATION_S"), envelope
    assert len(aimock.journal()) == 1
    assert envelope["usage"]["input_tokens"] > 0, "what was reserved stays charged"
