"""Calls over a pipe, of correct and of faulty servers."""

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from lillux.mcp_client.errors import (
    McpAnswerTooLargeError,
    McpCancelledError,
    McpProtocolError,
    McpRefusedError,
    McpServerEndedError,
    McpTimeoutError,
)
from lillux.mcp_client.session import ClientInfo, ToolCall, ToolListing
from lillux.mcp_client.stdio import ServerProcess, StdioAnswer, call_over_stdio
from lillux.mcp_client.versions import LEGACY, MODERN, NEWEST_LEGACY, wanted
from lillux.process.model import Command, ProgramNotFoundError
from tests.support.children import Lifeline

SUPPORT = Path(__file__).resolve().parents[2] / "support"
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals and shells of POSIX")


def program(*argv: str, **settings: Any) -> Command:  # noqa: ANN401 - fields of Command
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    return Command(argv=argv, env=env, **{"timeout_s": 60, **settings})


def odd(behaviour: str, **settings: Any) -> Command:  # noqa: ANN401 - as `program`
    script = str(SUPPORT / "mcp_odd_server.py")
    return program(sys.executable, "-I", "-S", script, behaviour, **settings)


def sdk(**settings: Any) -> Command:  # noqa: ANN401 - as `program`
    return program(sys.executable, "-I", str(SUPPORT / "mcp_sdk_server.py"), "stdio", **settings)


def ask(
    command: Command,
    tool: str = "t",
    *,
    version: str = "auto",
    probe_s: float = 30.0,
    start_s: float = 60.0,
    **options: Any,  # noqa: ANN401 - as `call_over_stdio`
) -> StdioAnswer:
    arguments = options.pop("arguments", {})
    return call_over_stdio(
        ServerProcess(command=command, name="odd", probe_s=probe_s, start_s=start_s),
        options.pop("call", None) or ToolCall(tool, arguments),
        ClientInfo("rye", "1"),
        wanted(version),
        **options,
    )


def text_of(answered: StdioAnswer) -> str:
    return str(answered.answer.result["content"][0]["text"])


# --- a server written with the official SDK


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("version", "spoken"),
    [
        ("auto", MODERN),
        ("legacy", NEWEST_LEGACY),
        (MODERN, MODERN),
        *((version, version) for version in LEGACY),
    ],
)
def test_a_server_of_the_sdk_is_called_in_every_revision(version: str, spoken: str) -> None:
    answered = ask(sdk(), "add", version=version, arguments={"a": 2, "b": 3})

    assert (text_of(answered), answered.answer.version) == ("5", spoken)


@pytest.mark.heavy
def test_progress_of_the_sdk_is_reported_as_a_line() -> None:
    lines: list[bytes] = []

    ask(sdk(), "progress", on_text=lines.append)

    assert b"progress 1/2 half of it\n" in lines


@pytest.mark.heavy
def test_a_tool_of_the_sdk_that_fails_says_so() -> None:
    answered = ask(sdk(), "fail", arguments={"reason": "no paper"})

    assert answered.answer.result["isError"] is True
    assert "no paper" in text_of(answered)


# --- revisions


def test_a_server_that_keeps_silent_at_the_probe_is_called_in_the_older_way() -> None:
    answered = ask(odd("silent to a probe"), probe_s=0.05)

    assert answered.answer.version == NEWEST_LEGACY
    assert answered.ignores_probe


def test_a_server_that_answers_the_probe_does_not_ignore_it() -> None:
    assert not ask(odd("plain")).ignores_probe
    assert not ask(odd("slow to a probe"), probe_s=0.05).ignores_probe


def test_a_server_that_never_begins_is_given_up_long_before_the_limit_of_a_call() -> None:
    with pytest.raises(McpTimeoutError) as error:
        ask(odd("silent to all", timeout_s=300), probe_s=0.05, start_s=0.3)

    assert str(error.value) == (
        "MCP server odd: start of the conversation: no answer within 0.3 seconds"
    )
    assert "config.start_timeout" in error.value.hint


def test_a_list_of_tools_that_never_comes_is_given_up_as_well() -> None:
    with pytest.raises(McpTimeoutError) as error:
        ask(odd("plain", timeout_s=300), start_s=0.5, call=ToolListing())

    assert error.value.stage == "tools/list"


def test_a_program_that_is_no_server_is_shown_with_what_it_writes() -> None:
    with pytest.raises(McpTimeoutError) as error:
        ask(odd("talks", timeout_s=300), probe_s=0.05, start_s=0.5)

    assert str(error.value).endswith("no message of MCP: Welcome to my server!")


def test_a_program_that_prints_and_ends_is_shown_with_what_it_wrote() -> None:
    with pytest.raises(McpServerEndedError) as error:
        ask(program(sys.executable, "-c", "print('usage: server FILE')"), version="legacy")

    assert str(error.value).endswith("exited with code 0 before it answered: usage: server FILE")


def test_an_answer_in_a_last_line_without_an_end_is_taken() -> None:
    assert text_of(ask(odd("ends in the line"))) == "the last line"


def test_a_server_that_is_slow_at_the_probe_is_called_in_the_modern_way() -> None:
    answered = ask(odd("slow to a probe"), probe_s=0.05)

    assert answered.answer.version == MODERN


def test_a_server_that_ends_at_the_probe_is_started_again() -> None:
    answered = ask(odd("ends at a probe"))

    assert answered.answer.version == NEWEST_LEGACY


def test_a_server_that_ends_at_the_probe_is_not_restarted_for_the_modern_revision_alone() -> None:
    with pytest.raises(McpServerEndedError):
        ask(odd("crashes"), version=MODERN)


# --- other messages of servers


def test_a_ping_is_answered_and_other_requests_are_refused() -> None:
    pong, refusal = json.loads(text_of(ask(odd("asks"))))

    assert pong == {"jsonrpc": "2.0", "id": "mine", "result": {}}
    assert refusal["error"] == {
        "code": -32601,
        "message": "this client has no sampling/createMessage",
    }


def test_garbage_between_messages_is_reported_and_passed_over() -> None:
    lines: list[bytes] = []

    answered = ask(odd("writes garbage"), on_text=lines.append)

    assert text_of(answered) == "after garbage"
    assert lines[0] == b"not a message (expected JSON): Listening on stdio\n"


def test_progress_and_log_messages_become_lines() -> None:
    lines: list[bytes] = []

    ask(odd("tells"), on_text=lines.append)

    assert lines == [b"progress 1/2 half\n", b"info: hi\n"]


def test_a_flood_on_standard_error_blocks_no_caller_and_only_its_end_is_kept() -> None:
    counted = 0

    def count(chunk: bytes) -> None:
        nonlocal counted
        counted += len(chunk)

    answered = ask(odd("floods stderr"), on_text=count)

    assert text_of(answered) == "flooded"
    assert answered.stderr.endswith("the end")
    assert len(answered.stderr) < 20_000
    assert counted > 6_000_000


# --- failures


def test_a_server_that_crashes_at_its_start_is_reported_with_its_last_words() -> None:
    with pytest.raises(McpServerEndedError) as error:
        ask(odd("crashes"))

    assert str(error.value) == (
        "MCP server odd: it exited with code 1 before it answered:"
        " ImportError: no module named nothing"
    )


def test_a_server_that_crashes_in_a_call_is_not_started_again() -> None:
    with pytest.raises(McpServerEndedError) as error:
        ask(odd("crashes in a call"))

    assert str(error.value) == "MCP server odd: it exited with code 3 before it answered: boom"


@pytest.mark.parametrize("behaviour", ["never answers", "never reads"])
def test_a_server_that_never_answers_is_ended_in_time(behaviour: str) -> None:
    with pytest.raises(McpTimeoutError) as error:
        ask(odd(behaviour, timeout_s=0.5))

    assert "no answer within 0.5 seconds" in str(error.value)
    assert error.value.exit_status == 124


def test_an_answer_that_is_too_large_is_refused() -> None:
    with pytest.raises(McpAnswerTooLargeError) as error:
        ask(odd("writes too much", max_output_bytes=1000), arguments={"size": 200_000})

    assert "expected a message of at most 1000 bytes" in str(error.value)


def test_a_line_without_end_costs_no_memory() -> None:
    with pytest.raises(McpAnswerTooLargeError):
        ask(odd("writes without end", max_output_bytes=1000))


def test_an_error_of_the_server_is_reported_with_its_number() -> None:
    with pytest.raises(McpRefusedError) as error:
        ask(odd("refuses"))

    assert str(error.value) == "MCP server odd: unknown tool (-32602)"


def test_a_server_that_refuses_to_begin_is_reported() -> None:
    with pytest.raises(McpRefusedError) as error:
        ask(odd("refuses to begin"))

    assert str(error.value) == "MCP server odd: initialize was refused: no licence (-32603)"


def test_an_invalid_answer_is_refused() -> None:
    with pytest.raises(McpProtocolError) as error:
        ask(odd("strange"))

    assert str(error.value).endswith("expected a result whose content is a list of objects")


def test_a_missing_server_is_not_found() -> None:
    with pytest.raises(ProgramNotFoundError):
        ask(program("no-such-mcp-server"))


# --- no process stays


@pytest.mark.heavy
@posix_only
@pytest.mark.parametrize("behaviour", ["plain", "leaves a child", "stays", "fails"])
def test_no_process_of_a_server_lives_on(tmp_path: Path, behaviour: str) -> None:
    line = Lifeline(tmp_path)
    script = f'{line.hold}; exec "$0" -I -S "$1" "$2"'
    server = str(SUPPORT / "mcp_odd_server.py")

    ask(program("/bin/sh", "-c", script, sys.executable, server, behaviour))

    assert line.is_released()
    line.close()


@posix_only
def test_a_call_that_is_cancelled_ends_the_server(tmp_path: Path) -> None:
    line, cancellation = Lifeline(tmp_path), Cancellation()
    script = f'{line.hold}; exec "$0" -I -S "$1" "never answers"'
    server = str(SUPPORT / "mcp_odd_server.py")

    with pytest.raises(McpCancelledError):
        ask(
            program("/bin/sh", "-c", script, sys.executable, server),
            cancellation=cancellation,
            on_text=lambda _: cancellation.cancel(),
        )

    assert line.is_released()
    line.close()


def test_a_call_that_was_cancelled_before_starts_no_server() -> None:
    cancellation = Cancellation()
    cancellation.cancel()

    with pytest.raises(McpCancelledError):
        ask(program("no-such-mcp-server"), cancellation=cancellation)


@posix_only
def test_a_cancellation_from_another_thread_is_noticed_while_the_server_is_silent() -> None:
    cancellation = Cancellation()
    threading.Timer(0.3, cancellation.cancel).start()

    with pytest.raises(McpCancelledError):
        ask(odd("never reads"), cancellation=cancellation)


@posix_only
def test_an_error_of_the_listener_ends_the_server(tmp_path: Path) -> None:
    line = Lifeline(tmp_path)
    script = f'{line.hold}; exec "$0" -I -S "$1" tells'
    server = str(SUPPORT / "mcp_odd_server.py")

    def refuse(_: bytes) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ask(program("/bin/sh", "-c", script, sys.executable, server), on_text=refuse)

    assert line.is_released()
    line.close()
