"""The output of a process becomes a result."""

import json
import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.process.model import CapturedStream, Outcome
from ryeos.run.outcomes import json_or, map_outcome, parse_output

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def captured(text: str | bytes, total: int | None = None, left_out: int = 0) -> CapturedStream:
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return CapturedStream(
        data=data, total_bytes=len(data) if total is None else total, left_out_bytes=left_out
    )


def outcome(stdout: str | bytes = "", stderr: str | bytes = "", **ending: Any) -> Outcome:  # noqa: ANN401
    ending = {"exit_code": 0, "signal": None, **ending}
    return Outcome(stdout=captured(stdout), stderr=captured(stderr), **ending)


# --- data


@given(value=JSON)
def test_any_json_is_data(value: object) -> None:
    mapped = map_outcome(outcome(json.dumps(value) + "\n"), 5)

    says_failed = isinstance(value, dict) and (
        value.get("success") is False or value.get("status") == "error"
    )
    assert mapped.data == value
    assert type(mapped.data) is type(value)
    assert mapped.success is not says_failed


def test_a_byte_order_mark_before_the_json_of_a_server_is_passed_over() -> None:
    assert json_or('\ufeff{"a": 1}\n', None) == {"a": 1}


def test_what_a_program_writes_to_standard_error_is_not_changed() -> None:
    written = (
        'Traceback (most recent call last):\n  File "<string>", line 1, in <module>\n'
        '  File "/srv/x.py", line 3, in f\nKeyError: 1\n'
    )

    mapped = map_outcome(outcome("text", written, exit_code=1), 5)

    assert mapped.metadata["stderr"].rstrip() == written.rstrip()
    assert mapped.data["stderr"].rstrip() == written.rstrip()


@pytest.mark.parametrize("text", ["{}", "[]", "0", "false", "null", '""', "[1]", '"x"', " 1 \n"])
def test_falsy_json_values_are_results(text: str) -> None:
    mapped = map_outcome(outcome(text), 5)

    assert (mapped.success, mapped.data, mapped.error) == (True, json.loads(text), None)


@pytest.mark.parametrize(
    "text",
    [
        *("hello", "", "\n", "{", "{'a': 1}", "1 2", "NaN", "[Infinity]", '{"a": -Infinity}'),
        *("1" * 5000, "[" * 100_000, "\ufeff{}", "1e999", '{"a": [-1e999]}'),
    ],
    ids=lambda text: text[:12],
)
def test_other_output_is_text(text: str) -> None:
    mapped = map_outcome(outcome(text, "note"), 5)

    assert mapped.success
    assert mapped.data == {"stdout": text, "stderr": "note", "return_code": 0}


@given(stdout=st.binary(max_size=60), stderr=st.binary(max_size=20), code=st.integers(0, 255))
def test_any_output_gives_a_result(stdout: bytes, stderr: bytes, code: int) -> None:
    mapped = map_outcome(outcome(stdout, stderr, exit_code=code), 5)

    assert mapped.metadata["return_code"] == code
    assert mapped.success or mapped.error
    json.dumps(mapped.data)


def test_text_before_the_json_is_kept_in_the_metadata() -> None:
    mapped = map_outcome(outcome('loading\n\nmore\n{"a": 1}\n\n'), 5)

    assert mapped.data == {"a": 1}
    assert mapped.metadata["stdout_preamble"] == "loading\n\nmore"


@pytest.mark.parametrize("last", ["[1]", "1", "null", '"a"', "{'a': 1}", '{"a": NaN}'])
def test_a_last_line_is_read_only_if_it_is_an_object(last: str) -> None:
    text = f"loading\n{last}\n"

    assert map_outcome(outcome(text), 5).data == {"stdout": text, "stderr": "", "return_code": 0}


def test_an_object_over_several_lines_needs_the_whole_output() -> None:
    whole = '{\n  "a": 1\n}\n'

    assert parse_output(whole) == ({"a": 1}, "")
    assert map_outcome(outcome("log\n" + whole), 5).data["stdout"] == "log\n" + whole


def test_bytes_that_are_no_utf_8_are_shown_as_well_as_they_can_be() -> None:
    mapped = map_outcome(outcome(b"caf\xe9", b"\xff"), 5)

    assert mapped.data == {"stdout": "caf\ufffd", "stderr": "\ufffd", "return_code": 0}


# --- failures


@pytest.mark.parametrize(
    ("stdout", "error"),
    [
        ('{"success": false, "error": "no luck"}', "no luck"),
        ('{"success": false}', "from stderr"),
        ('{"status": "error", "error": {"why": ["ü"]}}', '{"why": ["ü"]}'),
        ('log\n{"status": "error", "error": "late"}', "late"),
        ('{"success": false, "error": 0}', "from stderr"),
    ],
)
def test_a_tool_can_say_that_it_failed(stdout: str, error: str) -> None:
    mapped = map_outcome(outcome(stdout, "from stderr\n"), 5)

    assert (mapped.success, mapped.error, mapped.code) == (False, error, "EXECUTION_FAILED")
    assert isinstance(mapped.data, dict)


@pytest.mark.parametrize(
    "stdout",
    [
        *('{"success": true}', '{"success": 0}', '{"success": null}', '{"status": "failed"}'),
        *('{"error": "only this"}', '[{"success": false}]', '{"status": ["error"]}'),
    ],
)
def test_only_success_false_reports_a_failure(stdout: str) -> None:
    assert map_outcome(outcome(stdout), 5).success


@pytest.mark.parametrize(
    ("stdout", "stderr", "error"),
    [
        ('{"error": "mine"}', "theirs", "mine"),
        ('{"a": 1}', "theirs\n", "theirs"),
        ("text", " \n", "Process exited with code 42"),
        ("", "", "Process exited with code 42"),
        ("[1]", "", "Process exited with code 42"),
    ],
)
def test_a_code_other_than_zero_is_a_failure_with_some_text(
    stdout: str, stderr: str, error: str
) -> None:
    mapped = map_outcome(outcome(stdout, stderr, exit_code=42), 5)

    assert (mapped.success, mapped.error, mapped.code) == (False, error, "EXECUTION_FAILED")
    assert mapped.metadata["return_code"] == 42


def test_a_death_by_signal_is_named() -> None:
    mapped = map_outcome(outcome("half", exit_code=None, signal=int(signal.SIGTERM)), 5)

    assert mapped.error == "terminated by signal SIGTERM"
    assert mapped.data == {"stdout": "half", "stderr": "", "return_code": -1}
    assert mapped.metadata == {"return_code": -1, "signal": "SIGTERM"}


@pytest.mark.parametrize(("seconds", "shown"), [(1, "1"), (0.5, "0.5"), (300, "300")])
def test_a_timeout_says_after_how_long_and_keeps_the_output(seconds: float, shown: str) -> None:
    ended = outcome('{"a": 1}', "so far", exit_code=None, signal=15, timed_out=True)

    mapped = map_outcome(ended, seconds)

    words = f"Command timed out after {shown} seconds"
    assert (mapped.success, mapped.error, mapped.code) == (False, words, "TIMEOUT")
    assert mapped.data == {
        "stdout": '{"a": 1}',
        "stderr": f"{words}\nso far",
        "return_code": -1,
    }


def test_a_timeout_is_reported_even_if_the_tool_ends_well() -> None:
    assert map_outcome(outcome("{}", timed_out=True), 1).code == "TIMEOUT"


def test_a_cancelled_tool_has_failed() -> None:
    mapped = map_outcome(outcome("{}", exit_code=None, cancelled=True), None)

    assert (mapped.success, mapped.error) == (False, "Command was cancelled")
    assert mapped.code == "CANCELLED"


# --- limits


def test_an_output_that_was_cut_is_never_read_as_json() -> None:
    ended = Outcome(
        exit_code=0,
        signal=None,
        stdout=captured('{"success": true}', total=1000, left_out=900),
        stderr=captured(""),
    )

    mapped = map_outcome(ended, 5)

    assert mapped.error == (
        "output too large: 1000 bytes on standard output, of which 900 were left out;"
        " let the tool write a file, or raise its config.max_output_bytes"
    )
    assert (mapped.success, mapped.code) == (False, "RESOURCE_EXCEEDED")
    assert mapped.metadata["truncated"] == {
        "stdout": True,
        "stderr": False,
        "stdout_bytes": 1000,
        "stderr_bytes": 0,
    }


def test_a_cut_standard_error_is_reported_and_the_result_kept() -> None:
    ended = Outcome(
        exit_code=0,
        signal=None,
        stdout=captured("{}"),
        stderr=captured("x", total=50, left_out=49),
    )

    mapped = map_outcome(ended, 5)

    assert (mapped.success, mapped.data) == (True, {})
    assert mapped.metadata["truncated"]["stderr"] is True


def test_the_end_of_standard_error_is_kept_on_success() -> None:
    mapped = map_outcome(outcome("{}", "a" * 10_000 + "end"), 5)

    assert mapped.success
    assert mapped.metadata["stderr"] == "a" * 8189 + "end"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({"success": False, "code": "REMOTE_NOT_FOUND"}, "REMOTE_NOT_FOUND"),
        ({"success": False, "code": "no code"}, "EXECUTION_FAILED"),
        ({"success": False, "code": 7}, "EXECUTION_FAILED"),
        ({"success": False, "code": "TIMEOUT"}, "EXECUTION_FAILED"),
        ({"status": "error", "code": "X1"}, "EXECUTION_FAILED"),
        ({"success": True, "code": "X1"}, ""),
    ],
)
def test_a_tool_can_set_the_error_code(answer: dict[str, Any], code: str) -> None:
    assert map_outcome(outcome(json.dumps(answer)), 5).code == code
