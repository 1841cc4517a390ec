"""The protocol of the server, as bytes in and messages out."""

import json
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.jsonrpc import as_json
from ryeos.mcp.protocol import McpSession
from ryeos.mcp.revisions import (
    TASKS_EXTENSION,
    Begin,
    Cancel,
    RpcError,
    Send,
    Server,
    SessionEvent,
    TaskId,
    Watch,
)

MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
INFO = {"name": "test", "title": "Test", "version": "1", "description": "for tests"}
SERVER = Server(
    info=INFO,
    instructions="read this",
    capabilities={
        "tools": {"listChanged": True},
        "prompts": {},
        "resources": {"subscribe": True, "listChanged": True},
        "extensions": {"x/y": {}},
    },
    methods={"tools/list": "tools", "tools/call": "tools", "x/do": "x"},
    extensions=frozenset({"x/do"}),
)
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def line(method: str, params: dict[str, Any] | None = None, **fields: Any) -> bytes:  # noqa: ANN401
    message = {"jsonrpc": "2.0", "method": method, **fields}
    if params is not None:
        message["params"] = params
    return json.dumps(message).encode() + b"\n"


def modern(method: str, request_id: object = 1, **params: Any) -> bytes:  # noqa: ANN401
    return line(method, {"_meta": META, **params}, id=request_id)


def begin(version: str = "2025-11-25") -> bytes:
    return line("initialize", {"protocolVersion": version, "capabilities": {}}, id=0)


def sent(events: Iterable[SessionEvent]) -> list[dict[str, Any]]:
    return [as_json(event.message) for event in events if isinstance(event, Send)]


def error_of(session: McpSession, message: bytes) -> tuple[int, str]:
    (answer,) = sent(session.receive(message))
    return answer["error"]["code"], answer["error"]["message"]


@pytest.fixture
def session() -> McpSession:
    return McpSession(SERVER)


@pytest.fixture
def legacy(session: McpSession) -> McpSession:
    list(session.receive(begin()))
    return session


# --- how a conversation begins


@pytest.mark.parametrize("version", LEGACY)
def test_initialize_is_answered_in_the_requested_revision(
    session: McpSession, version: str
) -> None:
    (answer,) = sent(session.receive(begin(version)))

    assert answer["result"]["protocolVersion"] == version
    assert answer["result"]["instructions"] == "read this"
    assert "extensions" not in answer["result"]["capabilities"]
    assert ("title" in answer["result"]["serverInfo"]) == (version >= "2025-06-18")
    assert ("description" in answer["result"]["serverInfo"]) == (version >= "2025-11-25")


@pytest.mark.parametrize("version", ["2026-07-28", "1999-01-01", ""])
def test_initialize_with_another_revision_is_answered_with_the_newest_legacy_one(
    session: McpSession, version: str
) -> None:
    (answer,) = sent(session.receive(begin(version)))

    assert answer["result"]["protocolVersion"] == "2025-11-25"


def test_initialize_without_a_revision_is_refused(session: McpSession) -> None:
    assert error_of(session, line("initialize", {}, id=1)) == (
        -32602,
        "protocolVersion: expected a string",
    )


def test_discover_lists_all_revisions_newest_first(session: McpSession) -> None:
    (answer,) = sent(session.receive(modern("server/discover")))

    assert answer["result"] == {
        "ttlMs": 3_600_000,
        "cacheScope": "private",
        "resultType": "complete",
        "supportedVersions": [MODERN, *reversed(LEGACY)],
        "capabilities": SERVER.capabilities,
        "instructions": "read this",
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
    }


def test_older_and_modern_revisions_may_be_mixed(session: McpSession) -> None:
    events = list(session.receive(begin() + modern("tools/list", 1) + line("tools/list", id=2)))

    calls = [event.call for event in events if isinstance(event, Begin)]
    assert [(call.id, call.caller.version) for call in calls] == [(1, MODERN), (2, "2025-11-25")]


def test_a_request_before_any_beginning_is_answered_with_both_ways_to_begin(
    session: McpSession,
) -> None:
    code, message = error_of(session, line("tools/list", id=1))

    assert code == -32602
    assert "io.modelcontextprotocol/protocolVersion" in message
    assert "initialize" in message


def test_ping_is_answered_before_any_beginning(session: McpSession) -> None:
    assert sent(session.receive(line("ping", id="p"))) == [
        {"jsonrpc": "2.0", "id": "p", "result": {}}
    ]


# --- required fields of a modern request


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({**META, "io.modelcontextprotocol/protocolVersion": 3}, -32602),
        ({"io.modelcontextprotocol/protocolVersion": MODERN}, -32602),
        ({**META, "io.modelcontextprotocol/clientCapabilities": []}, -32602),
        ([], -32602),
    ],
)
def test_wrong_meta_is_refused(session: McpSession, meta: object, code: int) -> None:
    assert error_of(session, line("tools/list", {"_meta": meta}, id=1))[0] == code


@pytest.mark.parametrize(
    ("version", "supported"),
    [("2027-01-01", [MODERN, *reversed(LEGACY)]), ("2025-11-25", [MODERN])],
)
def test_another_revision_is_answered_with_those_that_are_known(
    session: McpSession, version: str, supported: list[str]
) -> None:
    meta = {**META, "io.modelcontextprotocol/protocolVersion": version}

    (answer,) = sent(session.receive(line("tools/list", {"_meta": meta}, id=1)))

    assert answer["error"]["code"] == -32022
    assert answer["error"]["data"] == {"supported": supported, "requested": version}


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "no/such"]
)
def test_methods_that_the_modern_revision_does_not_have_are_not_found(
    session: McpSession, method: str
) -> None:
    list(session.receive(begin()))

    assert error_of(session, modern(method))[0] == -32601


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen", "x/do", "no/such"])
def test_methods_that_older_revisions_do_not_have_are_not_found(
    legacy: McpSession, method: str
) -> None:
    assert error_of(legacy, line(method, {}, id=1))[0] == -32601


# --- answers


def test_a_modern_result_has_its_type_and_its_lifetime_for_caches(session: McpSession) -> None:
    list(session.receive(modern("tools/list")))

    (answer,) = sent(session.succeed(1, {"tools": []}))

    assert answer["result"] == {
        "tools": [],
        "ttlMs": 3_600_000,
        "cacheScope": "public",
        "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/serverInfo": INFO},
    }


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        ("2024-11-05", {"name", "description", "inputSchema"}),
        ("2025-03-26", {"name", "description", "inputSchema", "annotations"}),
        (
            "2025-06-18",
            {"name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta"},
        ),
    ],
)
def test_a_tool_is_listed_with_the_fields_of_the_revision(
    session: McpSession, version: str, fields: set[str]
) -> None:
    tool = dict.fromkeys(
        ("name", "description", "inputSchema", "annotations", "title", "outputSchema", "_meta"), "x"
    )
    list(session.receive(begin(version) + line("tools/list", id=1)))

    (answer,) = sent(session.succeed(1, {"tools": [tool]}))

    assert set(answer["result"]["tools"][0]) == fields


def test_structure_and_links_are_left_out_for_clients_that_do_not_know_them(
    session: McpSession,
) -> None:
    list(session.receive(begin("2025-03-26") + line("tools/call", {"name": "t"}, id=1)))
    text, link = {"type": "text", "text": "x"}, {"type": "resource_link", "uri": "a:b", "name": "n"}

    (answer,) = sent(session.succeed(1, {"content": [text, link], "structuredContent": {}}))

    assert answer["result"] == {"content": [text]}


@pytest.mark.parametrize("request_id", ["1", 1, 0, -5, "", 2**60])
def test_an_id_comes_back_as_it_was(legacy: McpSession, request_id: str | int) -> None:
    list(legacy.receive(line("tools/list", id=request_id)))

    (answer,) = sent(legacy.succeed(request_id, {"tools": []}))

    assert answer["id"] == request_id
    assert type(answer["id"]) is type(request_id)


def test_an_error_is_reported_with_its_data(legacy: McpSession) -> None:
    list(legacy.receive(line("tools/call", {}, id=1)))

    (answer,) = sent(legacy.fail(1, RpcError(-32602, "why", {"a": 1})))

    assert answer["error"] == {"code": -32602, "message": "why", "data": {"a": 1}}


def test_a_second_request_with_the_id_of_a_running_one_is_refused(legacy: McpSession) -> None:
    list(legacy.receive(line("tools/list", id=1)))

    assert error_of(legacy, line("tools/list", id=1))[0] == -32600


def test_a_cancelled_call_is_not_answered(legacy: McpSession) -> None:
    list(legacy.receive(line("tools/call", {}, id=7)))

    events = list(legacy.receive(line("notifications/cancelled", {"requestId": 7})))

    assert events == [Cancel(7)]
    assert list(legacy.succeed(7, {})) == list(legacy.fail(7, RpcError(1, ""))) == []
    assert list(legacy.receive(line("notifications/cancelled", {"requestId": 7}))) == []


@pytest.mark.parametrize("request_id", [None, [], {}, True, 1.5, "unknown"])
def test_cancelling_an_unknown_request_has_no_effect(
    legacy: McpSession, request_id: object
) -> None:
    assert list(legacy.receive(line("notifications/cancelled", {"requestId": request_id}))) == []


def test_progress_is_reported_only_on_request(session: McpSession) -> None:
    meta = {**META, "progressToken": "t"}
    list(session.receive(line("tools/call", {"_meta": meta}, id=1) + modern("tools/call", 2)))

    messages = [*session.progress(1, 0.5, 2, "half"), *session.progress(2, 1, None, "")]
    list(session.succeed(1, {}))
    messages += session.progress(1, 2, 2, "late")

    assert [message["params"] for message in sent(messages)] == [
        {"progressToken": "t", "progress": 0.5, "total": 2, "message": "half"}
    ]


# --- progress, notifications and tasks


def test_a_listener_gets_an_acknowledgement_and_then_only_agreed_notifications(
    session: McpSession,
) -> None:
    wish = {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["u:1"]}

    events = list(session.receive(modern("subscriptions/listen", "s", notifications=wish)))
    messages = [
        *session.list_changed("tools"),
        *session.list_changed("prompts"),
        *session.list_changed("resources"),
        *session.resource_updated("u:1"),
        *session.resource_updated("u:2"),
    ]

    meta = {"io.modelcontextprotocol/subscriptionId": "s"}
    assert sent(events) == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {
                "notifications": {"toolsListChanged": True, "resourceSubscriptions": ["u:1"]},
                "_meta": meta,
            },
        }
    ]
    assert events[-1] == Watch(frozenset({"tools"}), frozenset({"u:1"}))
    assert [(m["method"], m["params"]["_meta"]) for m in sent(messages)] == [
        ("notifications/tools/list_changed", meta),
        ("notifications/resources/updated", meta),
    ]


def test_a_subscription_ends_silently_when_it_is_cancelled(session: McpSession) -> None:
    list(
        session.receive(modern("subscriptions/listen", 5, notifications={"toolsListChanged": True}))
    )

    events = list(session.receive(line("notifications/cancelled", {"requestId": 5})))

    assert events == [Watch()]
    assert list(session.list_changed("tools")) == []


def with_tasks() -> tuple[McpSession, dict[str, Any]]:
    """A session of a server with tasks, and the ``_meta`` of a client that has them too."""
    capabilities: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}}
    server = Server(info=INFO, instructions="", capabilities=capabilities, methods={})
    return McpSession(server), {**META, "io.modelcontextprotocol/clientCapabilities": capabilities}


def test_a_task_is_reported_whole_to_clients_that_named_it() -> None:
    session, meta = with_tasks()
    wish = {"taskIds": ["a", "b"]}
    events = list(
        session.receive(modern("subscriptions/listen", 5, _meta=meta, notifications=wish))
    )

    messages = [*session.task_changed("b", {"taskId": "b", "status": "working"})]

    tag = {"io.modelcontextprotocol/subscriptionId": 5}
    assert sent(events)[0]["params"] == {"notifications": wish, "_meta": tag}
    assert events[1] == Watch(tasks=frozenset({TaskId("a"), TaskId("b")}))
    assert sent(messages) == [
        {
            "jsonrpc": "2.0",
            "method": "notifications/tasks",
            "params": {"taskId": "b", "status": "working", "_meta": tag},
        }
    ]
    assert list(session.task_changed("c", {})) == []


def test_notifications_of_tasks_are_for_clients_with_the_extension() -> None:
    session, meta = with_tasks()
    listen = modern("subscriptions/listen", 5, notifications={"taskIds": ["a"]})
    wrong = modern("subscriptions/listen", 6, _meta=meta, notifications={"taskIds": "a"})

    assert error_of(session, listen)[0] == -32021
    assert error_of(session, wrong)[0] == -32602


def test_a_server_without_tasks_ignores_requests_for_them(session: McpSession) -> None:
    listen = modern("subscriptions/listen", 5, notifications={"taskIds": ["a"]})

    (acknowledged,) = sent(session.receive(listen))

    assert acknowledged["params"]["notifications"] == {}


def test_a_subscription_ends_with_a_result_when_the_server_does(session: McpSession) -> None:
    list(session.receive(modern("subscriptions/listen", 5, notifications={})))
    list(session.receive(modern("tools/call", 6)))

    events = list(session.close())

    assert sent(events) == [
        {
            "jsonrpc": "2.0",
            "id": 5,
            "result": {
                "resultType": "complete",
                "_meta": {"io.modelcontextprotocol/subscriptionId": 5},
            },
        }
    ]
    assert events[-1] == Cancel(6)


def test_a_legacy_client_hears_of_resources_it_subscribed_to_and_of_lists_it_requested(
    legacy: McpSession,
) -> None:
    watched, _ = legacy.receive(line("tools/list", {}, id=3))
    events = list(legacy.receive(line("resources/subscribe", {"uri": "u:1"}, id=1)))
    assert watched == Watch(frozenset({"tools"}))
    assert events[-1] == Watch(frozenset({"tools"}), frozenset({"u:1"}))
    messages = sent([*legacy.resource_updated("u:1"), *legacy.list_changed("tools")])
    list(legacy.receive(line("resources/unsubscribe", {"uri": "u:1"}, id=2)))

    assert [message["method"] for message in messages] == [
        "notifications/resources/updated",
        "notifications/tools/list_changed",
    ]
    assert list(legacy.resource_updated("u:1")) == []
    assert list(legacy.list_changed("resources")) == []


# --- invalid messages


@pytest.mark.parametrize(
    ("text", "code", "request_id"),
    [
        (b"{", -32700, None),
        (b"\xff", -32700, None),
        (b"NaN", -32700, None),
        (b"1", -32600, None),
        (b'{"id":3,"method":"ping"}', -32600, 3),
        (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":4,"method":5}', -32600, 4),
        (b'{"jsonrpc":"2.0","id":4,"method":"ping","params":[]}', -32600, 4),
        (b"[" * 100_000, -32600, None),
    ],
)
def test_an_invalid_request_is_reported(
    session: McpSession, text: bytes, code: int, request_id: object
) -> None:
    (answer,) = sent(session.receive(text + b"\n"))

    assert (answer["error"]["code"], answer["id"]) == (code, request_id)
    assert sent(session.receive(line("ping", id=1)))[0]["result"] == {}


def test_a_message_that_is_too_long_is_refused_by_its_id_if_that_comes_first() -> None:
    session = McpSession(SERVER, max_line_bytes=100)
    in_front = line("ping", {"text": "x" * 100}, id=7).replace(b', "id": 7', b"")
    in_front = in_front.replace(b"{", b'{"id": 7, ', 1)
    behind = (
        line("ping", {"text": "x" * 100}, id=7).replace(b', "id": 7', b"")[:-2] + b', "id": 7}\n'
    )

    answers = sent([*session.receive(in_front), *session.receive(behind)])

    assert [(one["id"], one["error"]["code"]) for one in answers] == [(7, -32600), (None, -32600)]


def test_a_message_that_is_too_long_is_dropped_and_the_next_one_answered() -> None:
    session = McpSession(SERVER, max_line_bytes=100)

    answers = sent(session.receive(b"x" * 1000 + b"\n" + line("ping", id=1)))

    assert [answer.get("error", {}).get("code") for answer in answers] == [-32600, None]


def test_a_batch_is_answered_only_in_the_revision_that_has_them(session: McpSession) -> None:
    batch = b"[" + line("ping", id=1).strip() + b"," + line("ping", id=2).strip() + b"]\n"

    before = sent(session.receive(batch))
    after = sent(session.receive(begin("2025-03-26") + batch))

    assert [answer["error"]["code"] for answer in before] == [-32600]
    assert [answer["id"] for answer in after] == [0, 1, 2]


def test_a_byte_order_mark_and_blank_lines_are_passed_over(session: McpSession) -> None:
    text = b"\xef\xbb\xbf\r\n\n" + line("ping", id=1).replace(b"\n", b"\r\n")

    assert [answer["id"] for answer in sent(session.receive(text))] == [1]


def test_answers_without_a_question_are_passed_over(session: McpSession) -> None:
    text = b'{"jsonrpc":"2.0","id":1,"result":{}}\n{"jsonrpc":"2.0","method":"notifications/x"}\n'

    assert list(session.receive(text)) == []


# --- questions to the client


QUESTION = {"method": "elicitation/create", "params": {"message": "name?", "requestedSchema": {}}}
INPUT_REQUIRED = {
    "resultType": "input_required",
    "inputRequests": {"name": QUESTION, "folders": {"method": "roots/list"}},
    "requestState": "s",
}


def questions_of(session: McpSession, capabilities: dict[str, Any]) -> list[dict[str, Any]]:
    """The questions to a legacy client whose call needs more input."""
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
    list(session.receive(line("initialize", params, id=0)))
    list(session.receive(line("tools/call", {"name": "x"}, id=1)))
    return sent(session.succeed(1, INPUT_REQUIRED))


def test_a_legacy_client_gets_questions_and_its_call_is_begun_once_more(
    session: McpSession,
) -> None:
    questions = questions_of(session, {"elicitation": {}, "roots": {}})
    answers: tuple[dict[str, Any], ...] = ({"action": "accept"}, {"roots": []})
    replies = [
        json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": answer}).encode() + b"\n"
        for question, answer in zip(questions, answers, strict=True)
    ]

    first, second = (list(session.receive(reply)) for reply in replies)

    assert [question["method"] for question in questions] == ["elicitation/create", "roots/list"]
    assert first == []
    (begun,) = second
    assert isinstance(begun, Begin)
    assert begun.call.params == {
        "name": "x",
        "inputResponses": {"name": {"action": "accept"}, "folders": {"roots": []}},
        "requestState": "s",
    }
    (answer,) = sent(session.succeed(1, {"content": []}))
    assert answer == {"jsonrpc": "2.0", "id": 1, "result": {"content": []}}


def test_a_client_that_cannot_answer_gets_no_question(session: McpSession) -> None:
    (answer,) = questions_of(session, {"roots": {}})

    assert answer["error"] == {
        "code": -32021,
        "message": "the client lacks what this call needs: elicitation",
        "data": {"requiredCapabilities": {"elicitation": {}}},
    }


def test_a_question_that_is_refused_ends_the_call(session: McpSession) -> None:
    question, other = questions_of(session, {"elicitation": {}, "roots": {}})
    refusal = {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "no"}}
    late = {"jsonrpc": "2.0", "id": other["id"], "result": {"roots": []}}

    (answer,) = sent(session.receive(json.dumps(refusal).encode() + b"\n"))

    assert (answer["id"], answer["error"]["message"]) == (1, "the client did not answer: no")
    assert list(session.receive(json.dumps(late).encode() + b"\n")) == []


def test_a_question_whose_answer_is_malformed_ends_the_call(session: McpSession) -> None:
    question, _ = questions_of(session, {"elicitation": {}, "roots": {}})
    malformed = {"jsonrpc": "2.0", "id": question["id"], "result": []}

    (answer,) = sent(session.receive(json.dumps(malformed).encode() + b"\n"))

    problem = "the client did not answer: expected a result that is an object"
    assert (answer["id"], answer["error"]["message"]) == (1, problem)


def test_the_questions_of_a_cancelled_call_are_withdrawn(session: McpSession) -> None:
    questions = questions_of(session, {"elicitation": {}, "roots": {}})

    events = list(session.receive(line("notifications/cancelled", {"requestId": 1})))

    assert events[0] == Cancel(1)
    assert [message["params"]["requestId"] for message in sent(events)] == [
        question["id"] for question in questions
    ]


def test_a_modern_client_gets_the_questions_as_a_result(session: McpSession) -> None:
    capabilities: dict[str, Any] = {"elicitation": {}, "roots": {}}
    meta = META | {"io.modelcontextprotocol/clientCapabilities": capabilities}
    list(session.receive(line("tools/call", {"_meta": meta, "name": "x"}, id=1)))

    (answer,) = sent(session.succeed(1, INPUT_REQUIRED))

    assert answer["result"]["resultType"] == "input_required"
    assert answer["result"]["inputRequests"] == INPUT_REQUIRED["inputRequests"]


# --- laws


MESSAGES = st.one_of(
    st.sampled_from(
        [
            begin(),
            b"\xef\xbb\xbf" + line("ping", id="bom"),
            line("ping", id=1),
            modern("server/discover", 2),
            modern("tools/list", 3),
            line("notifications/cancelled", {"requestId": 3}),
            modern("subscriptions/listen", "s", notifications={"toolsListChanged": True}),
            b"{}\n",
        ]
    ),
    st.binary(max_size=40),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    ).map(lambda value: json.dumps(value).encode() + b"\n"),
)


@pytest.mark.property
@given(parts=st.lists(MESSAGES, max_size=8), cuts=st.lists(st.integers(0, 600), max_size=6))
def test_events_do_not_depend_on_how_the_bytes_are_split(
    parts: list[bytes], cuts: list[int]
) -> None:
    stream = b"".join(parts)
    places = sorted({min(cut, len(stream)) for cut in cuts})
    whole, pieces = McpSession(SERVER), McpSession(SERVER)

    together = list(whole.receive(stream))
    apart = [
        event
        for start, end in zip([0, *places], [*places, len(stream)], strict=True)
        for event in pieces.receive(stream[start:end])
    ]

    assert apart == together


# --- invalid answers ------------------------------------------------------------------------------


def padded(start: str) -> bytes:
    """A line that begins so, and is longer than a session takes."""
    return f'{start}{{"x":"{"x" * 5000}"}}}}\n'.encode()


DEEP_ANSWER = '{"jsonrpc":"2.0","id":2,"result":{"a":' + "[" * 300 + "]" * 300 + "}}"


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":2,"result":[]}\n',
        b'{"jsonrpc":"2.0","id":2,"error":"no"}\n',
        b'{"jsonrpc":"2.0","id":2,"result":{},"error":{}}\n',
        b'{"jsonrpc":"2.0","id":null,"result":{}}\n',
        b'{"id":2,"result":{}}\n',
        DEEP_ANSWER.encode() + b"\n",
        DEEP_ANSWER.replace("[" * 300, "[" * 100_000).encode() + b"\n",
        padded('{"jsonrpc":"2.0","id":2,"result":'),
        padded('{"jsonrpc":"2.0","error":'),
    ],
    ids=range(9),
)
def test_an_invalid_answer_is_not_answered(text: bytes) -> None:
    session = McpSession(SERVER, max_line_bytes=4096 if text.endswith(b'x"}}\n') else 1_000_000)

    assert list(session.receive(text)) == []


@pytest.mark.parametrize(
    "text",
    [
        b'{"jsonrpc":"2.0","id":2}\n',
        b'{"jsonrpc":"2.0","id":2,"method":5}\n',
        padded('{"jsonrpc":"2.0","id":2,"method":"ping","params":'),
        padded('{"jsonrpc":"2.0","id":2,"_meta":{},"result":'),
    ],
)
def test_an_invalid_message_is_not_answered_by_the_id_of_a_running_call(text: bytes) -> None:
    session = McpSession(SERVER, max_line_bytes=4096)
    list(session.receive(begin("2025-11-25")))
    list(session.receive(line("tools/call", {"name": "x"}, id=2)))

    (answer,) = sent(session.receive(text))

    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
