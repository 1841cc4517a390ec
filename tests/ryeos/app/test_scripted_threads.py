"""Cases of directives: the replies of the model stand in the case, all else is a thread."""

import pytest

from ryeos.agent.tools import MAX_FLAT
from ryeos.app.case_files import CaseFileError, case_files, read_case_text
from ryeos.app.item_tests import CaseResult, CaseState, planned, run_cases
from tests.support.agent_threads import directive, echo
from tests.support.workspace import Workspace

HEADER = """\
version: "1.0.0"
tool_type: test
executor_id: null
category: ops
description: cases
tests: directive:ops/say
cases:
"""
OUTPUTS = '<outputs><output name="said" type="string" required="true">it</output></outputs>'
ECHO_CALL = '{calls: [{item: "tool:ops/echo", params: {text: hi}}]}'


def result(workspace: Workspace, case: str) -> CaseResult:
    """What comes of one case of the directive ``ops/say``."""
    workspace.project.signed("tools/ops/say.test.yaml", f"{HEADER}- {{name: it, {case}}}\n")
    rye = workspace.rye()
    (found,) = run_cases(rye, list(planned(rye, case_files(rye, ["directive:ops/say"]))))
    return found


@pytest.fixture
def said(workspace: Workspace) -> Workspace:
    """A directive without a provider that could be asked, and a tool that it permits."""
    echo(workspace)
    directive(workspace, outputs=OUTPUTS)
    return workspace


def test_the_calls_of_the_replies_run_and_the_outputs_are_compared(said: Workspace) -> None:
    found = result(
        said,
        f"replies: [{ECHO_CALL}, {{return: {{said: hi}}}}],"
        " expect: {data: {turns: 2, outputs: {said: hi},"
        ' calls: [{item: "tool:ops/echo", is_error: false}, {is_error: false}]}}',
    )

    assert (found.state, found.problems) == (CaseState.PASSED, ())


def test_what_the_directive_does_not_permit_is_refused_as_in_any_thread(said: Workspace) -> None:
    found = result(
        said,
        'replies: [{calls: [{item: "tool:rye/bash/bash", params: {command: touch made}}]},'
        " {return: {said: never}}],"
        " expect: {files: {made: null}, data: {calls: [{is_error: true}, {is_error: false}]}}",
    )

    assert (found.state, found.problems) == (CaseState.PASSED, ())


@pytest.mark.parametrize("named", ["tool:ops/echo", "ops/echo"])
def test_where_many_items_are_permitted_each_call_still_names_its_item(
    said: Workspace, named: str
) -> None:
    for number in range(MAX_FLAT):
        echo(said, f"ops/echo{number}")

    found = result(
        said,
        f"replies: [{ECHO_CALL.replace('tool:ops/echo', named)}, {{return: {{said: hi}}}}],"
        ' expect: {data: {calls: [{item: "tool:ops/echo", is_error: false}, {is_error: false}]}}',
    )

    assert (found.state, found.problems) == (CaseState.PASSED, ())


def test_a_tool_that_changes_something_runs_in_each_turn_that_calls_it(said: Workspace) -> None:
    said.project.signed_yaml("ops/add", "config: {script: 'echo a >> made; cat made'}\n")
    add = '{calls: [{item: "tool:ops/add"}]}'

    found = result(
        said,
        f"replies: [{add}, {add}, {{return: {{said: hi}}}}],"
        ' expect: {files: {made: "a\\na\\n"},'
        " data: {calls: [{is_error: false}, {is_error: false}, {is_error: false}]}}",
    )

    assert (found.state, found.problems) == (CaseState.PASSED, ())


def test_a_difference_is_reported(said: Workspace) -> None:
    found = result(
        said, "replies: [{return: {said: never}}], expect: {data: {outputs: {said: always}}}"
    )

    assert found.problems == ('data.outputs.said: expected "always", found "never"',)


@pytest.mark.parametrize(
    ("replies", "problem"),
    [
        ("[{return: {said: a}}, never]", "replies: the thread ended after 1 of 2"),
        (f"[{ECHO_CALL}]", "replies: the thread asked for more than the 1 of the case"),
    ],
)
def test_replies_too_many_or_too_few_are_a_failure(
    said: Workspace, replies: str, problem: str
) -> None:
    assert result(said, f"replies: {replies}").problems == (problem,)


def test_the_limits_of_the_directive_hold(said: Workspace) -> None:
    directive(said, outputs=OUTPUTS, limits='<limits turns="1"/>')

    found = result(said, f"replies: [{ECHO_CALL}], expect: {{code: LIMIT_TURNS}}")

    assert (found.state, found.problems) == (CaseState.PASSED, ())


def test_no_list_of_threads_shows_it_and_no_money_is_reserved(said: Workspace) -> None:
    result(said, "replies: [{return: {said: a}}]")

    rye = said.rye()
    assert rye.threads.threads() == []
    assert not (rye.context.spaces.user.ai / "state" / "agent").exists()


def test_the_case_of_a_tool_that_starts_a_thread_asks_no_model(said: Workspace) -> None:
    text = HEADER.replace("directive:ops/say", "tool:rye/agent/threads/thread_directive")
    case = "- {name: it, params: {directive_id: ops/say}, expect: {error: asks no model}}\n"
    said.project.signed("tools/ops/starts.test.yaml", text + case)
    rye = said.rye()

    (found,) = run_cases(rye, list(planned(rye, case_files(rye, ["tool:ops/starts.test"]))))

    assert (found.state, found.problems) == (CaseState.PASSED, ())


@pytest.mark.parametrize(
    ("case", "problem"),
    [
        ("expect: {}", "replies: expected the replies of the model, found none"),
        ("replies: [a], env: {A: b}", "env: a thread has no variables of its own"),
        ("replies: []", "replies"),
        ("replies: [{}]", "replies"),
        ("replies: [{calls: [{params: {}}]}]", "item"),
    ],
)
def test_a_case_that_is_none_of_a_directive_is_refused(case: str, problem: str) -> None:
    with pytest.raises(CaseFileError, match=problem):
        read_case_text(f"{HEADER}- {{name: it, {case}}}\n", "ops/say.test", "say.test.yaml")


def test_the_case_of_a_tool_has_no_replies() -> None:
    text = f"{HEADER}- {{name: it, replies: [a]}}\n".replace("directive:ops/say", "tool:ops/echo")

    with pytest.raises(CaseFileError, match="tool:ops/echo is no directive, and asks no model"):
        read_case_text(text, "ops/say.test", "say.test.yaml")
