"""``rye.pyz mcp`` over real pipes: calls, many at once, and the form of their results."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.built import BASE_PYTHON, Machine
from tests.support.mcp_client import MODERN_META, McpClient, envelope_of, request
from tests.support.mcp_server_machine import BASH, server, with_items

pytestmark = pytest.mark.e2e

MIB = 1024 * 1024
LISTED = {
    "five": ["search", "load", "execute", "sign", "help"],
    "node": ["fetch", "execute", "sign"],
    "all": ["search", "load", "fetch", "execute", "sign", "help"],
}
UNKNOWN_TOOL = 'unknown tool: launch; find an item: search {"query": "..."}'
CODE_OF_PARAMS = -32602


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory, built_pyz: Path) -> Machine:
    """A machine with signed items; no test changes them."""
    return with_items(Machine(tmp_path_factory.mktemp("machine"), BASE_PYTHON, built_pyz))


@pytest.fixture
def client(items: Machine) -> Iterator[McpClient]:
    """A client of a server in the project of that machine."""
    with server(items) as client:
        client.initialize()
        yield client


def bash(client: McpClient, command: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401
    """The envelope of a shell command."""
    parameters = {"command": command}
    return client.envelope("execute", item_id=BASH, parameters=parameters, **arguments)


# ---------------------------------------------------------------- both kinds of revisions, lists


@pytest.mark.parametrize("profile", LISTED)
def test_a_profile_lists_its_tools_in_their_order(profile: str, items: Machine) -> None:
    with server(items, "--tools", profile) as client:
        client.initialize()
        listed = client.result(client.send("tools/list"))["tools"]

        assert [tool["name"] for tool in listed] == LISTED[profile]
        assert client.call("fetch", query="fact")["isError"] is False


def test_older_and_modern_revisions_are_served_in_one_conversation(client: McpClient) -> None:
    modern = client.result(client.send("server/discover", {"_meta": MODERN_META}))
    legacy = client.result(client.send("ping"))

    assert modern["resultType"] == "complete"
    assert modern["supportedVersions"][0] == "2026-07-28"
    assert legacy == {}


def test_an_unknown_tool_is_an_error_of_the_protocol(client: McpClient) -> None:
    error = client.answer(client.start_tool("launch"))["error"]

    assert (error["code"], error["message"]) == (CODE_OF_PARAMS, UNKNOWN_TOOL)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"noise", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32600),
        (b'{"a":' * 100_000, -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600),
        (b"x" * (16 * MIB + 1), -32600),
    ],
    ids=["text", "no UTF-8", "a batch", "deep", "version", "null", "fraction", "long"],
)
def test_an_invalid_message_is_answered_and_does_no_harm(
    line: bytes, code: int, client: McpClient
) -> None:
    client.write(line)
    client.result(client.send("ping"))

    assert [m["error"]["code"] for m in client.messages if "error" in m] == [code]


def test_an_unknown_argument_is_a_result_that_a_model_can_fix(client: McpClient) -> None:
    refused = client.envelope("execute", item=BASH)

    assert (refused["code"], "item_id" in json.dumps(refused)) == ("INVALID_PARAMS", True)


# ---------------------------------------------------------------- execute


def test_a_tool_is_run(client: McpClient) -> None:
    answer = bash(client, "echo hi; echo warned >&2")

    assert answer == {
        "status": "success",
        "item_id": BASH,
        "data": {"stdout": "hi\n", "stderr": "warned\n", "return_code": 0},
    }


def test_a_tool_that_fails_is_an_error_with_its_output(client: McpClient) -> None:
    result = client.call(
        "execute", item_id=BASH, parameters={"command": "echo before; echo why >&2; exit 3"}
    )

    answer = envelope_of(result)
    assert (result["isError"], answer["code"]) == (True, "EXECUTION_FAILED")
    assert (answer["data"]["stdout"], answer["data"]["return_code"]) == ("before\n", 3)


def test_a_directive_is_rendered(client: McpClient) -> None:
    answer = client.envelope("execute", item_id="directive:mine/greet", parameters={"who": "Ann"})

    assert answer["your_directions"].strip() == "Say hello to Ann."


def test_a_knowledge_text_is_given(client: McpClient) -> None:
    answer = client.envelope("execute", item_type="knowledge", item_id="mine/fact")

    assert (answer["status"], answer["content"].strip()) == ("success", "Water is wet.")


def test_a_dry_run_starts_nothing(client: McpClient, items: Machine) -> None:
    made = items.project / "made"

    answer = bash(client, f"touch {made}", dry_run=True)

    assert (answer["status"], made.exists()) == ("validation_passed", False)


def test_a_trace_lists_the_steps(client: McpClient) -> None:
    assert bash(client, "true", trace=True)["trace"]


def test_a_run_in_the_background_is_a_handle(client: McpClient, items: Machine) -> None:
    answer = bash(client, "echo hi", **{"async": True})

    waited = items.run("threads", "wait", answer["thread_id"], "--json")
    assert answer["status"] == "running"
    assert waited.returncode == 0, waited.stdout


@pytest.mark.heavy
def test_a_run_in_the_background_outlives_the_server(items: Machine) -> None:
    with server(items) as client:
        client.initialize()
        thread_id = bash(client, "sleep 2; echo done", **{"async": True})["thread_id"]
        client.close_stdin()
        client.await_end()

    assert items.run("threads", "wait", thread_id).returncode == 0


def test_a_timeout_ends_a_tool_earlier(client: McpClient) -> None:
    assert bash(client, "sleep 600", timeout=1)["code"] == "TIMEOUT"


@pytest.mark.heavy
def test_a_timeout_never_gives_a_tool_more_time_than_it_has(client: McpClient) -> None:
    answer = client.envelope("execute", item_id="mine/limited", timeout=500)

    assert (answer["code"], answer["error"]) == ("TIMEOUT", "Command timed out after 2 seconds")


def test_processes_join_the_trace_of_the_caller(client: McpClient) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    parameters = {"command": "printf %s $TRACEPARENT"}

    call = client.start_tool(
        "execute", {"traceparent": parent}, item_id=BASH, parameters=parameters
    )

    assert envelope_of(client.result(call))["data"]["stdout"] == parent


# ---------------------------------------------------------------- many calls at once


def test_seventeen_slow_programs_delay_no_other_call(client: McpClient, items: Machine) -> None:
    gate = items.temporary / "gate"
    command = f"until [ -e {gate} ]; do sleep 0.05; done"
    slow = [
        client.start_tool("execute", item_id=BASH, parameters={"command": command})
        for _ in range(17)
    ]

    client.result(client.send("ping"))
    found = client.envelope("search", query="fact")
    client.result(client.send("tools/list"))
    before = [bool(client.answers(call)) for call in slow]
    gate.touch()
    ended = [client.result(call)["isError"] for call in slow]
    gate.unlink()

    assert (found["status"], any(before), any(ended)) == ("success", False, False)


def test_a_program_that_waits_for_its_turn_can_be_cancelled(
    client: McpClient, items: Machine
) -> None:
    made = items.temporary / "made"
    slow = [
        client.start_tool("execute", item_id=BASH, parameters={"command": "sleep 600"})
        for _ in range(16)
    ]

    waiting = client.start_tool("execute", item_id=BASH, parameters={"command": f"touch {made}"})
    for call in (waiting, *slow):
        client.cancel(call)
    bash(client, "true")

    assert [client.answers(call) for call in (waiting, *slow)] == [[]] * 17
    assert not made.exists()


def test_ten_thousand_requests_are_each_answered_once(client: McpClient) -> None:
    ids = range(100_000, 110_000)

    client.write(*(request(number, "ping") for number in ids))
    client.answer(ids[-1])

    answered = [message["id"] for message in client.messages if message.get("id", 0) >= ids[0]]
    assert answered == list(ids)


# ---------------------------------------------------------------- progress


def test_a_tool_reports_its_progress(client: McpClient) -> None:
    line = '::rye-progress {"progress": %d, "total": 2, "message": "step %d"}'
    command = f"echo '{line % (1, 1)}' >&2; sleep 0.3; echo '{line % (2, 2)}' >&2"
    call = client.start_tool(
        "execute", {"progressToken": "p"}, item_id=BASH, parameters={"command": command}
    )

    client.result(call)

    assert client.notifications("notifications/progress") == [
        {"progressToken": "p", "progress": 1.0, "total": 2, "message": "step 1"},
        {"progressToken": "p", "progress": 2.0, "total": 2, "message": "step 2"},
    ]


@pytest.mark.heavy
def test_a_silent_tool_is_reported_as_running(client: McpClient) -> None:
    command = "echo waiting >&2; sleep 600"
    call = client.start_tool(
        "execute", {"progressToken": 7}, item_id=BASH, parameters={"command": command}
    )

    client.wait_until(lambda: client.notifications("notifications/progress"), "no heartbeat")
    client.cancel(call)

    notification = client.notifications("notifications/progress")[0]
    assert (notification["progressToken"], notification["message"], "total" in notification) == (
        7,
        "waiting",
        False,
    )


def test_a_client_without_a_progress_token_gets_no_progress(client: McpClient) -> None:
    bash(client, "echo '::rye-progress {\"progress\": 1}' >&2")

    assert client.notifications("notifications/progress") == []


# ---------------------------------------------------------------- large and odd results


def test_a_long_output_is_shown_in_part_and_kept_whole(client: McpClient, items: Machine) -> None:
    result = client.call(
        "execute",
        item_id=BASH,
        parameters={"command": "head -c 300000 /dev/zero | tr '\\0' x; echo; echo end"},
    )

    text, uri = result["content"][0]["text"], result["content"][1]["uri"]
    kept = items.project / ".ai/state/outputs" / f"{uri.removeprefix('rye://output/')}.log"
    said, _, shown = text.partition("]\n")
    assert said.startswith(f"[cut: {kept.stat().st_size} bytes in all; read on with ")
    assert len(shown) < 8200
    assert "end\n" in shown
    call = json.loads(said.partition("read on with ")[2])
    rest = client.call(call["name"], **call["arguments"])["content"][0]["text"]
    assert rest.startswith("x" * 8000)
    assert '"offset":12000' in rest
    assert kept.read_text("utf-8").count("x") == 300_000


def test_the_size_of_outputs_can_be_set(items: Machine) -> None:
    with server(items, env=items.environ(RYE_MAX_OUTPUT_CHARS="2000")) as client:
        client.initialize()

        long = {"command": "head -c 3000 /dev/zero | tr '\\0' x"}
        result = client.call("execute", item_id=BASH, parameters=long)

    assert "[1000 characters left out]" in result["content"][0]["text"]


def test_a_wrong_size_of_outputs_is_a_warning(items: Machine) -> None:
    with server(items, env=items.environ(RYE_MAX_OUTPUT_CHARS="lots")) as client:
        client.initialize()

        answer = bash(client, "true")

    assert answer["warnings"] == [
        "RYE_MAX_OUTPUT_CHARS: expected a number from 1000 to 250000, found 'lots'; 8000 is used"
    ]


def test_no_output_makes_a_message_longer_than_eight_mebibytes(items: Machine) -> None:
    with server(items, env=items.environ(RYE_MAX_OUTPUT_CHARS="250000")) as client:
        client.initialize()
        fill = "head -c 1000000 /dev/zero | tr '\\0' '\\1'"

        both = {"command": f"{fill}; {fill} >&2"}

        result = client.call("execute", item_id=BASH, parameters=both, options={"verbose": True})

        assert result["isError"] is False
        assert 3 * MIB < client.longest_line <= 8 * MIB


def test_content_blocks_of_a_tool_follow_the_envelope(client: McpClient) -> None:
    result = client.call("execute", item_id="mine/media", parameters={"size": 400_000})

    text, image, said = result["content"]
    assert len(text["text"]) < 2000
    assert (image["type"], image["mimeType"], len(image["data"])) == ("image", "image/png", 400_000)
    assert said == {"type": "text", "text": "a picture"}
    assert '{"type":"image","mimeType":"image/png","characters":400000}' in text["text"]
    assert "structuredContent" not in result


def test_a_picture_too_large_for_a_message_is_left_out_and_reported(client: McpClient) -> None:
    result = client.call("execute", item_id="mine/media", parameters={"size": 8 * MIB})

    answer = envelope_of(result)
    assert [block["type"] for block in result["content"]] == ["text", "text"]
    assert "1 blocks of content are too large for a message" in answer["warnings"]


def test_half_characters_do_not_break_the_wire(client: McpClient) -> None:
    answer = client.envelope("execute", item_id="mine/odd", parameters={})

    assert (answer["status"], client.noise) == ("success", [])


def test_pipes_of_a_tool_never_fill_up(client: McpClient) -> None:
    fill = "head -c 3000000 /dev/zero | tr '\\0' x"

    long = {"command": f"{fill} >&2; {fill}; {fill} >&2"}
    assert client.call("execute", item_id=BASH, parameters=long)["isError"] is False
