"""The module by which tools of the bundle start Rye: no value of a caller can steer it."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.workspace import ROOT

LIBRARY = ROOT / "bundle.ai/tools/rye/core/runtimes/python/lib/function/rye_command.py"
RYE = runpy.run_path(str(LIBRARY))
ECHO = """\
import json, os, sys
print(json.dumps({"words": sys.argv[1:], "stdin": sys.stdin.read(), "extra": os.getenv("EXTRA")}))
"""


@pytest.fixture(autouse=True)
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of Rye a program that prints how it was started."""
    started_as(monkeypatch, ECHO)


def started_as(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setenv("RYE_PROGRAM", json.dumps([sys.executable, "-c", code]))


def run_rye(*arguments: Any, **named: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    answer: dict[str, Any] = RYE["run_rye"](*arguments, **named)
    return answer


def test_values_stand_behind_two_dashes(tmp_path: Path) -> None:
    words = ["sign", *RYE["option"]({"space": "--force"}, "space", "limit")]

    answer = run_rye(words, ["--all", "-p"], project=str(tmp_path))

    project = f"--project={tmp_path}"
    shown = ["sign", "--space=--force", "--json", project, "--", "--all", "-p"]
    assert (answer["words"], answer["success"]) == (shown, True)


def test_flags_are_those_that_are_true() -> None:
    params = {"dry_run": True, "force": False}

    assert RYE["flags"](params, "dry_run", "force", "all") == ["--dry-run"]


def test_standard_input_and_variables_are_for_this_process_alone() -> None:
    answer = run_rye(["keys", "show"], stdin="s3cret", env={"EXTRA": "x"})

    assert (answer["stdin"], answer["extra"]) == ("s3cret", "x")
    assert run_rye(["keys", "show"])["extra"] is None


@pytest.mark.parametrize("value", ["a\0b", 7, None])
def test_a_value_that_no_word_can_hold_is_refused(value: object) -> None:
    answer = run_rye(["load"], [value])

    assert (answer["success"], answer["code"]) == (False, "INVALID_PARAMS")


def test_half_a_character_is_refused() -> None:
    assert run_rye(["load"], ["\udfff\ud800"])["success"] is False


def test_a_missing_project_starts_nothing(tmp_path: Path) -> None:
    answer = run_rye(["load"], project=str(tmp_path / "gone"))

    assert answer["error"] == f"{tmp_path / 'gone'}: there is no such folder"


@pytest.mark.parametrize("program", ["", "[]", "{", '["/not/there"]'])
def test_a_failed_start_of_rye_is_reported(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setenv("RYE_PROGRAM", program)

    answer = run_rye(["version"])

    assert answer["success"] is False
    assert "cannot be started" in answer["error"]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import sys; sys.exit('no such thing')", "no such thing"),
        ("import sys; sys.exit(9)", "rye ended with status 9"),
        ("print([1])", "rye ended with status 0"),
        ("print('{}'); import sys; sys.exit(3)", "rye ended with status 3"),
    ],
)
def test_an_end_without_an_answer_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, code: str, error: str
) -> None:
    started_as(monkeypatch, code)

    assert run_rye(["version"]) == {"success": False, "error": error}


def test_a_missing_parameter_of_an_action_is_named() -> None:
    needed = {"trust": ("key", "fingerprint")}

    lacking = RYE["missing"]({"key": "", "fingerprint": []}, "trust", needed)

    assert lacking["error"] == "trust: expected key and fingerprint, found none"
    assert RYE["missing"]({"key": "a", "fingerprint": "b"}, "trust", needed) is None
