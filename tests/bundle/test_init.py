"""The tool ``rye/core/init/init``."""

import pytest

from tests.support.built import Machine
from tests.support.bundle_tools import call, example, refused

pytestmark = pytest.mark.e2e
INIT = "rye/core/init/init"


def test_a_dry_run_makes_nothing(machine: Machine) -> None:
    answer = call(machine, INIT, **example(machine, INIT))

    assert {step["status"] for step in answer["actions"]} == {"would make"}
    assert not (machine.home / ".ai/config").exists()
    assert not (machine.project / ".ai/tools").exists()


def test_a_key_and_a_project_are_made_once(machine: Machine) -> None:
    first = call(machine, INIT)
    second = call(machine, INIT)

    assert first["success"]
    assert {step["status"] for step in second["actions"]} == {"there already"}
    assert (machine.project / ".ai/tools").is_dir()
    assert (machine.home / ".ai/config/keys/signing/private_key.pem").is_file()


def test_user_space_alone_can_be_set_up(machine: Machine) -> None:
    answer = call(machine, INIT, scope="user", no_key=True)

    assert answer["project"] is None
    assert not (machine.project / ".ai").exists()
    assert not (machine.home / ".ai/config/keys/signing").exists()


def test_an_unknown_client_is_an_answer(machine: Machine) -> None:
    answer = call(machine, INIT, clients=["--user"], dry_run=True)

    assert answer["success"] is False
    assert "--user" in answer["error"]
    assert "scope" in refused(machine, INIT, scope="system")
