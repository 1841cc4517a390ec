"""The one shape of every answer."""

import json

import pytest

from lillux.errors import ConfigurationError, LilluxError
from ryeos.items.errors import (
    Answer,
    ItemNotFoundError,
    LockfileMismatchError,
    NoSigningKeyError,
    ParameterError,
    UnsignedError,
    error_answer,
    error_envelope,
    failed_run_status,
)


def test_a_failure_has_a_text_a_code_and_a_hint() -> None:
    envelope = error_envelope(ParameterError(["/a: wrong", "/b: wrong"], hint="see the schema"))

    assert envelope == {
        "status": "error",
        "error": "Parameter validation failed: /a: wrong; /b: wrong",
        "code": "VALIDATION_FAILED",
        "details": ["/a: wrong", "/b: wrong"],
        "hint": "see the schema",
    }


def test_suggestions_are_listed() -> None:
    envelope = error_envelope(ItemNotFoundError("tool:a", ["project"], ["tool:ab"]))

    assert envelope["suggestions"] == ["tool:ab"]
    assert envelope["hint"] == "did you mean tool:ab?"


@pytest.mark.parametrize(
    "error", [UnsignedError("/x/a.py", "rye sign /x/a.py"), NoSigningKeyError("/keys")]
)
def test_a_failure_of_trust_is_marked(error: LilluxError) -> None:
    assert error_envelope(error)["error_type"] == "integrity"


def test_the_file_is_named_where_there_is_one() -> None:
    unsigned = error_envelope(UnsignedError("/x/a.py", "rye sign /x/a.py"))
    lockfile = error_envelope(LockfileMismatchError("differs", "a", "/x/a.lock.json"))

    assert (unsigned["path"], lockfile["path"]) == ("/x/a.py", "/x/a.lock.json")
    assert "error_type" not in lockfile


def test_a_failure_of_layer_1_has_the_same_shape() -> None:
    assert error_envelope(ConfigurationError("cwd", "expected a folder")) == {
        "status": "error",
        "error": "cwd: expected a folder",
        "code": "CONFIG_ERROR",
    }


def test_a_command_ends_with_the_status_of_its_failure() -> None:
    answer = error_answer(LockfileMismatchError("differs", "a", "/x"))

    assert (answer.exit_status, answer.envelope["code"]) == (5, "LOCKFILE_MISMATCH")
    assert Answer({}).exit_status == 0


@pytest.mark.parametrize(
    ("code", "status"),
    [("TIMEOUT", 124), ("CANCELLED", 130), ("VALIDATION_FAILED", 1), ("OF_THE_TOOL", 1)],
)
def test_a_command_whose_tool_failed_ends_with_1_unless_it_was_ended(
    code: str, status: int
) -> None:
    assert failed_run_status(code) == status


def test_an_envelope_is_json() -> None:
    error = ItemNotFoundError("tool:a\ud800\0", ["project"], ["tool:ü"])

    assert json.loads(json.dumps(error_envelope(error)))["code"] == "ITEM_NOT_FOUND"
