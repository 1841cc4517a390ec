"""The tool ``rye/core/bundler/bundler``."""

import pytest

from tests.support.built import Machine
from tests.support.bundle_tools import call, example, refused
from tests.support.bundles import echo_tool

pytestmark = [pytest.mark.e2e, pytest.mark.heavy]
BUNDLER = "rye/core/bundler/bundler"


def test_the_bundle_of_the_program_is_verified(machine: Machine) -> None:
    answer = call(machine, BUNDLER, action="verify", bundle="ryeos")

    assert (answer["success"], answer["problems"]) == (True, [])


def test_no_bundle_is_installed_at_first(machine: Machine) -> None:
    assert call(machine, BUNDLER, **example(machine, BUNDLER))["bundles"] == []


def test_an_agent_makes_a_bundle_and_looks_at_it(machine: Machine) -> None:
    path = machine.project / ".ai/tools/text/upper.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(echo_tool("text", "upper"), "utf-8")
    machine.ask("keys", "generate", "-q")
    machine.ask("sign", "-q", "tool:text/upper")

    made = call(machine, BUNDLER, action="create", bundle="ada-tools", version="2.0.0")
    verified = call(machine, BUNDLER, action="verify", bundle="ada-tools", key=made["fingerprint"])
    inspected = call(machine, BUNDLER, action="inspect", bundle="ada-tools")

    assert made["items"] == ["tools/text/upper.yaml"]
    assert (verified["version"], verified["problems"]) == ("2.0.0", [])
    assert [item["ref"] for item in inspected["items"]] == ["tool:text/upper"]
    assert call(machine, BUNDLER, action="list")["bundles"] == []


def test_a_failure_is_an_answer(machine: Machine) -> None:
    assert call(machine, BUNDLER, action="create")["error"] == "create: expected bundle, found none"
    assert call(machine, BUNDLER, action="verify", bundle="--help")["success"] is False
    assert "action" in refused(machine, BUNDLER, action="burn")
