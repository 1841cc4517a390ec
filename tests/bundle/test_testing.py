"""The tool ``rye/core/testing/test``, and the cases that tools of the bundle carry."""

import pytest

from tests.support.built import Machine
from tests.support.bundle_tools import call, example, refused, rye
from tests.support.mcp_server_machine import server

pytestmark = pytest.mark.e2e
TEST = "rye/core/testing/test"


@pytest.mark.heavy
def test_the_cases_of_the_bundle_pass(machine: Machine) -> None:
    answer = rye(machine, "test", "rye/**")

    assert [case for case in answer["cases"] if case["state"] == "failed"] == []
    assert answer["counts"]["passed"] >= 10


def test_an_agent_runs_cases(machine: Machine) -> None:
    answer = call(machine, TEST, **example(machine, TEST))

    assert (answer["counts"]["failed"], answer["cases"]) == (0, [])


def test_cases_of_the_shell_that_make_files_pass_under_an_agent(machine: Machine) -> None:
    wanted = {"item_id": TEST, "parameters": {"items": ["rye/bash/bash"]}}
    with server(machine) as client:
        client.initialize()
        answer = client.envelope("execute", **wanted)

    assert answer["data"]["counts"] == {"passed": 5, "failed": 0, "skipped": 0}


def test_an_agent_lists_cases(machine: Machine) -> None:
    answer = call(machine, TEST, items=["rye/bash/**"], containing="variable", list=True)

    assert [case["ref"] for case in answer["cases"]] == ["tool:rye/bash/bash.test"]


def test_a_project_without_cases_is_reported(machine: Machine) -> None:
    assert call(machine, TEST, items=["--list"])["success"] is False
    assert call(machine, TEST)["code"] == "ITEM_NOT_FOUND"
    assert "items" in refused(machine, TEST, items="rye/bash")
