"""The conversation of one call, message by message, in older and modern revisions."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from lillux.errors import ConfigurationError
from lillux.jsonrpc import (
    Failure,
    Incoming,
    MalformedMessage,
    Message,
    Notification,
    Request,
    Result,
    as_json,
    parse_messages,
)
from lillux.mcp_client.session import (
    MAX_TOOLS,
    ClientInfo,
    ClientSession,
    InvalidAnswer,
    Refusal,
    SessionState,
    ToolAnswer,
    ToolCall,
    ToolListing,
    Turn,
    cancelled,
)
from lillux.mcp_client.versions import LEGACY, MODERN, NEWEST_LEGACY, AllowedVersions, wanted

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "mcp"
PROBE, INITIALIZE, CALL = 1, 2, 3
ANSWER = {"content": [{"type": "text", "text": "5"}], "isError": False}
DISCOVERED = Result(PROBE, {"supportedVersions": [NEWEST_LEGACY, MODERN]})
UNKNOWN = Failure(PROBE, -32601, "unknown method")


@cache
def judge(version: str, name: str) -> Any:  # noqa: ANN401 - a function that the library makes
    schema = json.loads((VECTORS / f"{version}.json").read_text("utf-8"))
    schema |= {"$ref": f"#/$defs/{name}"}
    formats = Draft202012Validator.FORMAT_CHECKER
    return Draft202012Validator(schema, format_checker=formats).validate


def require_valid(message: Message, name: str, version: str = NEWEST_LEGACY) -> None:
    judge(version, name)(as_json(message))


def conversation(text: str = "auto", **arguments: object) -> ClientSession:
    return ClientSession(ToolCall("add", arguments), ClientInfo("rye", "1"), wanted(text))


def initialized(version: str) -> Result:
    return Result(INITIALIZE, {"protocolVersion": version, "capabilities": {}})


def test_a_modern_server_is_probed_and_called_in_the_modern_way() -> None:
    session = conversation(a=2)

    (probe,) = session.start().send
    (call,) = session.receive(DISCOVERED).send
    end = session.receive(Result(CALL, {**ANSWER, "resultType": "complete"}))

    require_valid(probe, "DiscoverRequest", MODERN)
    require_valid(call, "CallToolRequest", MODERN)
    assert isinstance(call, Request)
    assert (call.params["name"], call.params["arguments"]) == ("add", {"a": 2})
    assert end == Turn()
    assert session.outcome == ToolAnswer({**ANSWER, "resultType": "complete"}, MODERN)


def test_a_server_that_knows_no_probe_is_initialized() -> None:
    session = conversation(a=2)

    session.start()
    (initialize,) = session.receive(UNKNOWN).send
    notification, call = session.receive(initialized(NEWEST_LEGACY)).send
    session.receive(Result(CALL, ANSWER))

    require_valid(initialize, "InitializeRequest")
    require_valid(notification, "InitializedNotification")
    require_valid(call, "CallToolRequest")
    assert session.outcome == ToolAnswer(ANSWER, NEWEST_LEGACY)


@pytest.mark.parametrize("version", LEGACY)
def test_every_older_revision_that_a_server_offers_is_taken(version: str) -> None:
    session = conversation("legacy")

    session.start()
    session.receive(initialized(version))
    session.receive(Result(CALL, ANSWER))

    assert session.outcome == ToolAnswer(ANSWER, version)


@pytest.mark.parametrize("version", LEGACY)
def test_a_named_older_revision_is_requested(version: str) -> None:
    (initialize,) = conversation(version).start().send

    assert isinstance(initialize, Request)
    assert initialize.params["protocolVersion"] == version


def test_the_named_modern_revision_needs_no_probe() -> None:
    (call,) = conversation(MODERN).start().send

    require_valid(call, "CallToolRequest", MODERN)


def test_an_unknown_revision_is_refused() -> None:
    with pytest.raises(ConfigurationError) as error:
        wanted("2024-01-01")

    assert str(error.value) == (
        "protocol_version: expected one of auto, legacy, 2024-11-05, 2025-03-26, 2025-06-18,"
        " 2025-11-25, 2026-07-28, got '2024-01-01'"
    )


@pytest.mark.parametrize("offered", ["2026-07-28", "1999-01-01", None, 5])
def test_a_server_that_offers_no_older_revision_to_initialize_is_given_up(offered: object) -> None:
    session = conversation("legacy")

    session.start()
    session.receive(Result(INITIALIZE, {"protocolVersion": offered}))

    assert isinstance(session.outcome, InvalidAnswer)
    assert session.outcome.problem.endswith(f"it offers {offered}")


def test_a_server_of_a_future_revision_is_given_up() -> None:
    session = conversation()

    session.start()
    session.receive(Failure(PROBE, -32022, "no", {"supported": ["2031-01-01"], "requested": "x"}))

    assert isinstance(session.outcome, InvalidAnswer)


def test_a_server_that_names_an_older_revision_in_its_refusal_is_initialized() -> None:
    session = conversation()

    session.start()
    session.receive(Failure(PROBE, -32022, "no", {"supported": [NEWEST_LEGACY]}))

    assert session.state is SessionState.INITIALIZING


def test_a_server_that_discovers_only_older_revisions_is_initialized() -> None:
    session = conversation()

    session.start()
    session.receive(Result(PROBE, {"supportedVersions": [NEWEST_LEGACY]}))

    assert session.state is SessionState.INITIALIZING


# --- a probe that is not answered in time


def overdue() -> ClientSession:
    session = conversation()
    session.start()
    (initialize,) = session.probe_is_overdue().send
    assert isinstance(initialize, Request)
    assert initialize.method == "initialize"
    return session


def test_a_silent_server_is_called_in_the_older_way() -> None:
    session = overdue()

    session.receive(initialized(NEWEST_LEGACY))

    assert (session.state, session.version) == (SessionState.CALLING, NEWEST_LEGACY)


def test_a_slow_modern_server_is_called_in_the_modern_way() -> None:
    session = overdue()

    session.receive(DISCOVERED)
    after = session.receive(Failure(INITIALIZE, -32022, "too late"))

    assert after == Turn()
    assert (session.state, session.version) == (SessionState.CALLING, MODERN)


def test_a_slow_modern_server_may_refuse_initialize_first() -> None:
    session = overdue()

    session.receive(Failure(INITIALIZE, -32022, "modern only"))
    session.receive(DISCOVERED)

    assert (session.state, session.version) == (SessionState.CALLING, MODERN)


def test_a_slow_older_server_is_initialized_once() -> None:
    session = overdue()

    assert session.receive(UNKNOWN) == Turn()
    assert len(session.receive(initialized(NEWEST_LEGACY)).send) == 2


def test_only_a_probe_can_be_overdue() -> None:
    session = conversation("legacy")
    session.start()

    assert session.probe_is_overdue() == Turn()


# --- other messages of a server


@pytest.mark.parametrize("message_id", [0, "7", -1])
def test_a_ping_is_answered_at_any_time(message_id: int | str) -> None:
    (reply,) = conversation().receive(Request(message_id, "ping")).send

    require_valid(reply, "JSONRPCResultResponse")
    assert reply == Result(message_id, {})


@pytest.mark.parametrize(
    "method", ["sampling/createMessage", "elicitation/create", "roots/list", "x" * 5000]
)
def test_other_requests_of_a_server_are_refused_politely(method: str) -> None:
    (reply,) = conversation().receive(Request(9, method)).send

    require_valid(reply, "JSONRPCErrorResponse")
    assert reply == Failure(9, -32601, f"this client has no {method[:100]}")


@pytest.mark.parametrize(
    ("message", "lines"),
    [
        (
            Notification("notifications/progress", {"progress": 1, "total": 2, "message": "a\nb"}),
            ("progress 1/2 a b",),
        ),
        (Notification("notifications/progress", {"progress": 0.5}), ("progress 0.5",)),
        (Notification("notifications/message", {"level": "error", "data": "x"}), ("error: x",)),
        (Notification("notifications/tools/list_changed"), ()),
        (MalformedMessage("expected JSON", "hello"), ("not a message (expected JSON): hello",)),
    ],
)
def test_notifications_become_lines_for_a_person(message: Incoming, lines: tuple[str, ...]) -> None:
    assert conversation().receive(message) == Turn(notices=lines)


def test_answers_without_a_request_are_ignored() -> None:
    session = conversation()
    session.start()

    for stray in (Result(CALL, ANSWER), initialized(MODERN)):
        assert session.receive(stray) == Turn()
    assert session.state is SessionState.PROBING


def test_an_error_without_id_belongs_to_the_request_that_is_out() -> None:
    session = conversation("legacy")
    session.start()

    session.receive(Failure(None, -32700, "what?"))

    assert session.outcome == Refusal("initialize", -32700, "what?")


@pytest.mark.parametrize(
    "answer",
    [
        MalformedMessage("expected UTF-8", "{...", id=CALL, is_answer=True),
        MalformedMessage("expected a method, a result or an error", "{}", id=CALL, is_bare=True),
    ],
)
def test_an_answer_that_is_no_message_ends_the_call(answer: MalformedMessage) -> None:
    session = conversation(MODERN)
    session.start()

    session.receive(answer)

    assert isinstance(session.outcome, InvalidAnswer)


def test_an_error_for_the_call_is_a_refusal() -> None:
    session = conversation(MODERN)
    session.start()

    session.receive(Failure(CALL, -32602, "unknown tool"))

    assert session.outcome == Refusal("tools/call", -32602, "unknown tool")


@pytest.mark.parametrize(
    ("result", "problem"),
    [
        (
            {"resultType": "input_required", "requestState": "x"},
            "expected a complete result, got one of type 'input_required'",
        ),
        ({"content": "text"}, "expected a result whose content is a list of objects"),
        ({"content": ["text"]}, "expected a result whose content is a list of objects"),
        ({"content": [], "isError": "no"}, "expected a result whose isError is a boolean"),
    ],
)
def test_an_invalid_answer_is_reported(result: dict[str, Any], problem: str) -> None:
    session = conversation(MODERN)
    session.start()

    session.receive(Result(CALL, result))

    assert session.outcome == InvalidAnswer(problem)


def test_a_cancellation_is_valid_in_older_and_modern_revisions() -> None:
    require_valid(cancelled("late"), "CancelledNotification")
    require_valid(cancelled("late"), "CancelledNotification", MODERN)


# --- laws

small = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", MODERN, *LEGACY])
params = st.dictionaries(
    st.sampled_from(
        [
            *("content", "data", "isError", "level", "progress", "protocolVersion", "resultType"),
            *("supported", "supportedVersions", "total"),
        ]
    ),
    small | st.lists(small, max_size=2) | st.dictionaries(st.just("supported"), st.lists(small)),
    max_size=3,
)
message_ids = st.integers(0, 4) | st.sampled_from(["1", "3"])
incoming: st.SearchStrategy[Incoming] = st.one_of(
    st.builds(Request, message_ids, st.sampled_from(["ping", "roots/list"]), params),
    st.builds(
        Notification,
        st.sampled_from(["notifications/progress", "notifications/message", "x"]),
        params,
    ),
    st.builds(Result, message_ids, params),
    st.builds(
        Failure, st.none() | message_ids, st.sampled_from([-32601, -32022]), st.text(), small
    ),
    st.builds(MalformedMessage, st.text(), st.text()),
)


@pytest.mark.property
@given(
    st.sampled_from([AllowedVersions(), AllowedVersions(modern=False), AllowedVersions(legacy="")]),
    st.lists(incoming, max_size=8),
    st.integers(0, 8),
)
def test_the_conversation_stays_within_its_states_for_any_messages_of_a_server(
    allowed: AllowedVersions, script: list[Incoming], overdue_at: int
) -> None:
    session = ClientSession(ToolCall("t"), ClientInfo("rye", "1"), allowed)
    sent = list(session.start().send)
    for position, message in enumerate(script):
        if position == overdue_at:
            sent += session.probe_is_overdue().send
        was_over = session.state is SessionState.OVER
        turn = session.receive(message)
        sent += turn.send
        if was_over:
            assert all(isinstance(reply, Result | Failure) for reply in turn.send)

    ours = [message.id for message in sent if isinstance(message, Request)]
    assert ours.count(CALL) <= 1
    assert (session.outcome is not None) == (session.state is SessionState.OVER)


# ---------------------------------------------------------------- all tools


def listing(text: str = "auto") -> ClientSession:
    return ClientSession(ToolListing(), ClientInfo("rye", "1"), wanted(text))


def test_all_tools_are_requested_in_the_modern_way() -> None:
    session = listing()
    session.start()

    (request,) = session.receive(DISCOVERED).send
    session.receive(Result(CALL, {"tools": [{"name": "add"}], "resultType": "complete"}))

    require_valid(request, "ListToolsRequest", MODERN)
    assert session.outcome == ToolAnswer({"tools": [{"name": "add"}], "truncated": False}, MODERN)


def test_all_tools_are_requested_in_the_older_way_page_after_page() -> None:
    session = listing("legacy")
    session.start()

    _, first = session.receive(initialized(NEWEST_LEGACY)).send
    (second,) = session.receive(Result(CALL, {"tools": [{"name": "a"}], "nextCursor": "n"})).send
    stale = session.receive(Result(CALL, {"tools": [{"name": "old"}]}))
    session.receive(Result(CALL + 1, {"tools": [{"name": "b"}]}))

    require_valid(first, "ListToolsRequest")
    require_valid(second, "ListToolsRequest")
    assert isinstance(second, Request)
    assert (second.id, second.params["cursor"], stale) == (CALL + 1, "n", Turn())
    named = {"tools": [{"name": "a"}, {"name": "b"}], "truncated": False}
    assert session.outcome == ToolAnswer(named, NEWEST_LEGACY)


def test_a_list_without_end_is_cut() -> None:
    session = listing("legacy")
    session.start()
    session.receive(initialized(NEWEST_LEGACY))

    number = CALL
    while session.outcome is None:
        session.receive(Result(number, {"tools": [{"name": "a"}] * 30, "nextCursor": "same"}))
        number += 1

    assert isinstance(session.outcome, ToolAnswer)
    assert session.outcome.result["truncated"] is True
    assert len(session.outcome.result["tools"]) == MAX_TOOLS


@pytest.mark.parametrize(
    "page", [{}, {"tools": {}}, {"tools": ["add"]}, {"tools": [], "nextCursor": 1}]
)
def test_an_invalid_list_is_reported(page: dict[str, Any]) -> None:
    session = listing("legacy")
    session.start()
    session.receive(initialized(NEWEST_LEGACY))

    session.receive(Result(CALL, page))

    assert isinstance(session.outcome, InvalidAnswer)


def test_a_server_without_tools_refuses_by_the_name_of_the_list() -> None:
    session = listing("legacy")
    session.start()
    session.receive(initialized(NEWEST_LEGACY))

    session.receive(Failure(CALL, -32601, "no tools"))

    assert session.outcome == Refusal("tools/list", -32601, "no tools")


# --- answers that are written in odd ways


@pytest.mark.parametrize("odd", [str, lambda number: f"{number:03d}"])
def test_a_number_that_is_written_as_text_is_the_number(odd: Any) -> None:  # noqa: ANN401
    session = conversation()

    session.start()
    session.receive(Failure(odd(PROBE), -32601, "unknown method"))
    session.receive(Result(odd(INITIALIZE), {"protocolVersion": NEWEST_LEGACY}))
    session.receive(Result(odd(CALL), ANSWER))

    assert session.outcome == ToolAnswer(ANSWER, NEWEST_LEGACY)


@pytest.mark.parametrize("wrong", ["mine", 99, 0, -1, "", "1.0", "³"])
def test_an_answer_to_what_was_never_sent_ends_the_conversation(wrong: str | int) -> None:
    session = conversation("legacy")

    session.start()
    session.receive(Result(wrong, {"protocolVersion": NEWEST_LEGACY}))

    assert isinstance(session.outcome, InvalidAnswer)
    assert "which was never sent" in session.outcome.problem


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":null,"result":{"content":[]}}',
        '{"jsonrpc":"2.0","id":3.5,"result":{"content":[]}}',
        '{"jsonrpc":"2.0","id":3,"result":"text"}',
        '{"id":3,"result":{"content":[]}}',
        '{"jsonrpc":"2.0","id":3,"error":"no"}',
    ],
)
def test_an_answer_that_is_none_ends_the_conversation_with_its_text(text: str) -> None:
    session = conversation("legacy")
    session.start()
    session.receive(initialized(NEWEST_LEGACY))

    for message in parse_messages(text.encode()):
        session.receive(message)

    assert isinstance(session.outcome, InvalidAnswer)
    assert text in session.outcome.problem


@pytest.mark.parametrize(
    "text",
    [
        '{"jsonrpc":"2.0","id":null,"result":{}}',
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"unknown"}}',
    ],
)
def test_an_answer_to_a_notification_is_passed_over(text: str) -> None:
    session = conversation("legacy")
    session.start()
    session.receive(initialized(NEWEST_LEGACY))

    for message in parse_messages(text.encode()):
        session.receive(message)
    session.receive(Result(CALL, ANSWER))

    assert session.outcome == ToolAnswer(ANSWER, NEWEST_LEGACY)


def test_a_malformed_answer_to_the_probe_leads_to_the_older_way() -> None:
    session = conversation()
    session.start()

    (message,) = parse_messages(b'{"id":1,"error":{"code":-32601,"message":"no"}}')
    turn = session.receive(message)

    assert [one.method for one in turn.send if isinstance(one, Request)] == ["initialize"]
