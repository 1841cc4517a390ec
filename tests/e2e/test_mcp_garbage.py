"""The MCP server of the built file answers requests after any garbage."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.built import Machine
from tests.support.mcp_messages import judge
from tests.support.mcp_process import META, McpProcess, mcp_process, request

pytestmark = pytest.mark.e2e

INTERNAL_ERROR = -32603
TOOLS = ("search", "load", "fetch", "execute", "sign", "help")
ARGUMENTS = ("query", "scope", "limit", "cursor", "parameters", "topic", "source", "destination")
# No id of a real tool: nothing is to run.
ITEM_IDS = ("a/b", "tool:a", "../../b", "a\0b", "\ud800", "https://[", "*", "", "a" * 5000)
METHODS = ("initialize", "server/discover", "tools/list", "tools/call", "subscriptions/listen")

FINITE = st.floats(allow_nan=False, allow_infinity=False)
# With half characters, which JSON can hold.
TEXT = st.text(st.characters(), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | FINITE | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
NEARLY_MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": st.integers() | st.text(max_size=4) | JSON,
        "method": st.sampled_from(METHODS) | JSON,
        "params": st.fixed_dictionaries({}, optional={"_meta": st.just(META) | JSON}) | JSON,
        "result": JSON,
        "error": JSON,
    },
).map(lambda message: json.dumps(message).encode())
GARBAGE = st.lists(st.binary(max_size=60) | JSON.map(repr).map(str.encode) | NEARLY_MESSAGES)
CALLS = st.fixed_dictionaries(
    {
        "name": st.sampled_from(TOOLS),
        "arguments": st.fixed_dictionaries(
            {},
            optional={
                "item_id": st.sampled_from(ITEM_IDS) | JSON,
                "item_type": st.sampled_from(["tool", "directive", "knowledge"]) | JSON,
                "project_path": st.sampled_from(["/", "/nowhere", "\0", "a"]) | JSON,
                "dry_run": st.booleans() | JSON,
                **dict.fromkeys(ARGUMENTS, JSON | TEXT),
            },
        ),
    }
)
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize",'
    b'"params":{"protocolVersion":"2025-11-25","capabilities":{}}}'
)
IDS = ['""', '"x"', "0", "-1", "7", str(2**70)]
NO_IDS = ["null", "true", "1.5", "[]", "{}", "[1]", '{"a": 1}']

# The process is the same for all examples on purpose: it has to live on.
shared = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def server(machine: Machine) -> Iterator[McpProcess]:
    command = [*machine.rye, "mcp"]
    with mcp_process(command, cwd=machine.project, environ=machine.environ()) as process:
        yield process


def codes(messages: list[dict[str, Any]]) -> set[int]:
    """Of all errors; and each is one by the schema of its revision, where it has an id."""
    errors = [message for message in messages if "error" in message]
    for error in errors:
        if error["id"] is not None:
            judge("2026-07-28", "JSONRPCErrorResponse")(error)
    return {error["error"]["code"] for error in errors}


@shared
@given(lines=GARBAGE)
def test_garbage_is_answered_with_errors_and_survived(
    server: McpProcess, lines: list[bytes]
) -> None:
    messages = server.answers(b"\n".join(lines))

    assert INTERNAL_ERROR not in codes(messages)


@shared
@given(call=CALLS)
def test_no_arguments_of_a_tool_are_an_internal_error(
    server: McpProcess, call: dict[str, Any]
) -> None:
    server.write(request("call", "tools/call", **call) + b"\n")
    message = server.read()

    assert message["id"] == "call"
    assert codes([message]) <= {-32602}


@pytest.mark.parametrize("depth", [150, 400, 900, 5_000, 200_000])
@pytest.mark.parametrize("is_modern", [True, False])
def test_a_request_with_more_than_200_levels_is_refused_by_its_id(
    server: McpProcess, depth: int, *, is_modern: bool
) -> None:
    nested = "[" * depth + "]" * depth
    line = request("deep", "tools/call", name="search", arguments={"query": 0})
    if not is_modern:
        server.write(INITIALIZE + b"\n")
        assert "result" in server.read()
        params = {"name": "search", "arguments": {"query": 0}}
        message = {"method": "tools/call", "params": params, "jsonrpc": "2.0", "id": "deep"}
        line = json.dumps(message).encode()

    server.write(line.replace(b'"query": 0', f'"query": {nested}'.encode()) + b"\n")
    answer = server.read()

    assert answer["id"] == "deep"
    if depth > 200:
        assert codes([answer]) == {-32600}
        assert "200 levels" in answer["error"]["message"]
    else:
        assert answer["result"]["isError"] is True


@pytest.mark.parametrize("depth", [900, 200_000, 4_000_000])
def test_a_nested_message_without_an_id_is_refused_without_one(
    server: McpProcess, depth: int
) -> None:
    lines = [b"[" * depth, b"[" * depth + b"]" * depth, b'{"a":' * depth, b'{"a":[' * depth]

    messages = server.answers(b"\n".join(lines))

    assert [message["id"] for message in messages] == [None] * len(lines)
    assert codes(messages) <= {-32700, -32600}


@shared
@given(
    depth=st.integers(190, 2_000),
    around=st.sampled_from([('{"a":', "}"), ("[", "]"), ('[0, {"id": 3, "b":', "}]")]),
    order=st.permutations(["jsonrpc", "id", "method"]),
    place=st.integers(0, 3),
    given_id=st.integers() | st.text(max_size=8),
)
def test_however_a_message_is_nested_it_is_answered_once(
    server: McpProcess,
    *,
    depth: int,
    around: tuple[str, str],
    order: list[str],
    place: int,
    given_id: int | str,
) -> None:
    nested = around[0] * depth + "1" + around[1] * depth
    texts = {"jsonrpc": '"2.0"', "id": json.dumps(given_id), "method": '"m"'}
    members = [f'"{name}": {texts[name]}' for name in order]
    members.insert(place, f'"params": {{"x": {nested}}}')

    server.write(f"{{{', '.join(members)}}}".encode() + b"\n")
    answer = server.read()

    assert answer["id"] == given_id
    assert codes([answer]) <= {-32600, -32602}


@pytest.mark.parametrize("number", ["1e999", "-1e999", "1" * 5000, "NaN", "Infinity"])
def test_huge_numbers_are_survived(server: McpProcess, number: str) -> None:
    line = request("odd", "tools/call", name="search", arguments={"query": "a", "limit": 0})

    messages = server.answers(line.replace(b'"limit": 0', f'"limit": {number}'.encode()))
    while not messages:
        messages.append(server.read())

    assert codes(messages) <= {-32700, -32600, -32602}


def test_ten_thousand_requests_at_once_are_all_answered_in_order(server: McpProcess) -> None:
    pings = b"\n".join(
        b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number for number in range(10_000)
    )

    messages = server.answers(pings)

    assert [message["id"] for message in messages] == list(range(10_000))


@pytest.mark.parametrize("given_id", IDS)
def test_an_id_comes_back_as_it_was(server: McpProcess, given_id: str) -> None:
    line = b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % given_id.encode()

    (message,) = server.answers(line)

    assert json.dumps(message["id"]) == given_id


def test_an_invalid_id_is_refused(server: McpProcess) -> None:
    lines = [b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % each.encode() for each in NO_IDS]

    messages = server.answers(b"\n".join(lines))

    assert [(message["id"], message["error"]["code"]) for message in messages] == [
        (None, -32600)
    ] * len(NO_IDS)
