"""The command ``rye test``."""

import sys
import textwrap
from xml.etree import ElementTree as ET

import pytest

from ryeos.app.topics import topic_text
from tests.support.command_line import CommandLine

TOOL = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: mine
description: greets
config: {script: "echo hello {name}"}
"""
CASES = """\
version: "1.0.0"
tool_type: test
executor_id: null
category: mine
description: cases
cases:
  - {name: greets Ada, params: {name: Ada}, expect: {stdout: hello Ada}}
  - {name: greets Bob, params: {name: Bob}, expect: {stdout: hello}}
  - {name: never, skip_unless: no-such-program-anywhere}
"""


@pytest.fixture
def tested(signer: CommandLine) -> CommandLine:
    """A project with a tool and three cases, one of which fails."""
    folder = signer.project / ".ai/tools/mine"
    folder.mkdir(parents=True)
    (folder / "hello.yaml").write_text(TOOL, "utf-8")
    (folder / "hello.test.yaml").write_text(CASES, "utf-8")
    assert signer("sign", "tool:mine/*", "--yes").status == 0
    return signer


def test_a_failed_case_is_status_1_and_a_line_that_says_why(tested: CommandLine) -> None:
    done = tested("test", "--jobs", "1", "--color", "never")

    assert done.status == 1
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"
    assert '        stdout: expected "hello", found "hello Bob"' in done.stdout.splitlines()
    assert "        not here: no-such-program-anywhere" in done.stdout.splitlines()


def test_passing_cases_are_status_0_and_one_line_with_quiet(tested: CommandLine) -> None:
    done = tested("test", "mine/hello", "-k", "ADA", "-q")

    assert (done.status, done.stdout) == (0, "1 passed\n")


def test_the_answer_is_one_document(tested: CommandLine) -> None:
    answer = tested("test", "--json").json

    assert (answer["status"], answer["code"]) == ("error", "EXECUTION_FAILED")
    assert answer["counts"] == {"passed": 1, "failed": 1, "skipped": 1}
    assert [case["state"] for case in answer["cases"]] == ["passed", "failed", "skipped"]


def test_the_example_of_the_help_topic_passes(signer: CommandLine) -> None:
    example = topic_text("test").partition("like the tool:\n\n")[2].partition("\n\n")[0]
    signer("new", "tool", "mine/hello")
    cases = signer.project / ".ai/tools/mine/hello.test.yaml"
    cases.write_text(textwrap.dedent(example), "utf-8")
    assert signer("sign", "tool:mine/*", "--yes").status == 0

    assert signer("test", "-q").stdout == "2 passed\n"


def test_cases_are_listed_without_being_run(tested: CommandLine) -> None:
    done = tested("test", "--list", "-k", "greets")

    assert done.stdout.splitlines() == [
        "tool:mine/hello.test: greets Ada",
        "tool:mine/hello.test: greets Bob",
    ]


def test_results_are_written_for_build_servers(tested: CommandLine) -> None:
    done = tested("test", "--junit", "results.xml")

    suite = ET.parse(tested.project / "results.xml").getroot()[0]  # noqa: S314 - our own
    assert done.status == 1
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("3", "1")


def test_without_cases_the_status_is_3(tested: CommandLine) -> None:
    assert tested("test", "rye/core/primitives/execute").status == 3
    assert tested("test", "mine/helo").status == 3
    assert tested("test", "-k", "no such name").status == 3
    assert tested("test", "absent/**").status == 3
    assert tested("test", "--jobs", "-1").status == 2


def test_a_search_does_not_show_cases(tested: CommandLine) -> None:
    found = tested("search", "hello", "cases", "--json").json

    ids = [item["id"] for item in found["results"]]
    assert "mine/hello" in ids
    assert [item_id for item_id in ids if item_id.endswith(".test")] == []


def test_cases_that_could_never_run_are_not_signed(tested: CommandLine) -> None:
    path = tested.project / ".ai/tools/mine/hello.test.yaml"
    path.write_text(CASES.replace("params:", "parms:"), "utf-8")

    one = tested("sign", "tool:mine/hello.test")
    many = tested("sign", "tool:mine/*", "--dry-run")

    assert one.status == 6
    assert "parms" in one.stderr
    assert many.stdout == "Checked 1/2 items, 1 failed\n"
    assert "rye:signed" not in path.read_text("utf-8")


@pytest.mark.skipif(sys.platform == "win32", reason="no such names there")
def test_the_name_of_a_file_steers_no_terminal(tested: CommandLine) -> None:
    planted = tested.project / ".ai/tools/mine/a\x1b[2Jb.test.yaml"
    planted.write_text(CASES, "utf-8")

    shown = tested("test").stdout + tested("test", "--list").stdout

    assert "[2Jb.test" in shown
    assert "\x1b" not in shown
