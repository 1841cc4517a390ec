import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.jsonrpc import Failure, Result
from ryeos.items.context import Context, context_from
from ryeos.mcp.outputs import MAX_CHARACTERS, max_characters, output_path, window, windowed
from ryeos.mcp.results import MAX_RESULT_BYTES, tool_result
from ryeos.mcp.wire import MAX_SENT_BYTES, line_of

LONG = "x" * 3000


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A project that shows a thousand characters."""
    (tmp_path / "project").mkdir()
    env = {"HOME": str(tmp_path), "RYE_MAX_OUTPUT_CHARS": "1000"}
    return context_from(env, cwd=tmp_path, project=str(tmp_path / "project"))


def structure(result: dict[str, Any]) -> dict[str, Any]:
    """The structure of a result."""
    found: dict[str, Any] = result["structuredContent"]
    return found


def kept(context: Context, structured: dict[str, Any]) -> str:
    """The whole of an output that was cut."""
    name = structured["truncated"]["resource"].removeprefix("rye://output/")
    return output_path(context, name).read_text("utf-8")


def test_each_stream_is_cut_and_both_are_kept(context: Context) -> None:
    data = {"stdout": LONG, "stderr": "short", "return_code": 0}

    result = tool_result({"status": "success", "data": data}, context)

    structured = structure(result)
    assert "[2000 characters left out]" in structured["data"]["stdout"]
    assert (structured["data"]["stderr"], structured["data"]["return_code"]) == ("short", 0)
    assert kept(context, structured) == f"--- stdout ---\n{LONG}\n--- stderr ---\nshort\n"


def test_a_long_value_is_a_window_on_its_json(context: Context) -> None:
    structured = structure(tool_result({"status": "success", "data": list(range(9000))}, context))

    assert structured["data"].startswith("[0,1,2,")
    assert json.loads(kept(context, structured)) == list(range(9000))


def test_a_long_text_beside_the_data_is_cut_too(context: Context) -> None:
    envelope = {"status": "success", "notes": LONG, "data": {"id": "a", "content": LONG}}

    structured = structure(tool_result(envelope, context))

    assert "[2000 characters left out]" in structured["notes"]
    assert "[2000 characters left out]" in structured["data"]["content"]
    assert structured["data"]["id"] == "a"


def test_an_output_that_cannot_be_kept_is_cut_and_reported(context: Context) -> None:
    (context.working_directory / ".ai").write_text("a file", encoding="utf-8")

    structured = structure(tool_result({"status": "success", "data": LONG}, context))

    assert "characters left out" in structured["data"]
    assert (len(structured["warnings"]), "truncated" in structured) == (1, False)


def test_an_envelope_that_no_window_helps_is_an_error() -> None:
    result = tool_result({"status": "success", "data": "x" * MAX_RESULT_BYTES})

    structured = structure(result)
    assert (result["isError"], structured["code"]) == (True, "RESOURCE_EXCEEDED")


@given(st.text(), st.integers(1000, 2000))
def test_a_window_has_the_requested_size(text: str, size: int) -> None:
    shown = window(text * 50, size)

    assert len(shown) <= size + 60


def test_the_size_is_the_default_where_the_setting_is_invalid(tmp_path: Path) -> None:
    for given_value in ("", "0", "-5", "1e6", "٣٠٠٠", "9" * 50):
        env = {"HOME": str(tmp_path), "RYE_MAX_OUTPUT_CHARS": given_value}
        limit, warnings = max_characters(context_from(env, cwd=tmp_path))
        assert (limit, len(warnings)) == (MAX_CHARACTERS, 1 if given_value else 0)


def test_a_short_text_stays_as_it_is(context: Context) -> None:
    envelope = {"status": "success", "data": {"stdout": "a", "stderr": "b"}}

    assert windowed(envelope, context, 1000) == (envelope, None)
    assert not (context.working_directory / ".ai").exists()


def test_a_message_too_long_for_a_line_becomes_an_error() -> None:
    line = line_of(Result(5, {"text": "x" * MAX_SENT_BYTES}))

    assert len(line) < 1000
    assert json.loads(line)["id"] == 5
    assert json.loads(line)["error"]["code"] == -32603


def test_an_error_whose_data_are_too_long_is_sent_without_them() -> None:
    line = line_of(Failure(5, -32603, "no", {"text": "x" * MAX_SENT_BYTES}))

    assert json.loads(line)["error"]["message"].startswith("the answer has ")
