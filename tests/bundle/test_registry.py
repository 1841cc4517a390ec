"""The tool ``rye/core/registry/registry``."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.built import Machine
from tests.support.bundle_tools import call, example, refused, rye
from tests.support.bundles import Publisher
from tests.support.registry import Account, Registry, item_text

pytestmark = pytest.mark.e2e
REGISTRY = "rye/core/registry/registry"


@pytest.fixture
def account(machine: Machine, shared_registry: Registry) -> Account:
    """A user with a key, who may publish, and whose tools see the API key."""
    made = shared_registry.account()
    rye(machine, "keys", "generate")
    machine.variables["REG_KEY"] = made.token
    rye(machine, "registry", "login", "--url", made.registry.url, "--key-env", "REG_KEY")
    return made


def write(machine: Machine, item_id: str) -> Path:
    """A signed tool in the project."""
    path = machine.project / ".ai" / "tools" / f"{item_id}.py"
    path.parent.mkdir(parents=True)
    path.write_text(item_text("tool", item_id, words="Shouts"), "utf-8")
    rye(machine, "sign", str(path))
    return path


@pytest.mark.heavy
def test_an_item_is_published_found_and_pulled(machine: Machine, account: Account) -> None:
    item_id = f"{account.name}/text/upper"
    path = write(machine, item_id)

    published = call(machine, REGISTRY, action="publish", item_id=item_id)
    path.unlink()
    found = call(machine, REGISTRY, action="search", query="shouts", namespace=account.name)
    info = call(machine, REGISTRY, action="info", item_id=item_id)
    pulled = call(machine, REGISTRY, action="pull", item_id=item_id, resign=True)

    assert published["success"], published
    assert [row["item_id"] for row in found["results"]] == [item_id]
    assert [row["version"] for row in info["item"]["versions"]] == ["1.0.0"]
    assert (pulled["success"], pulled["runs"]) == (True, True)
    verified: Any = call(machine, REGISTRY, action="verify")
    assert [row["state"] for row in verified["items"]] == ["signed-here"]


@pytest.mark.heavy
def test_a_bundle_is_installed_and_its_tool_runs(machine: Machine, tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    publisher = Publisher.at(tmp_path / "published")
    folder = str(publisher.bundle("acme"))

    wrong = call(machine, REGISTRY, action="bundle_install", bundle=folder, key="0" * 16)
    installed = call(
        machine, REGISTRY, action="bundle_install", bundle=folder, key=publisher.fingerprint
    )

    assert (wrong["success"], wrong["code"]) == (False, "PIN_MISMATCH")
    assert (installed["success"], installed["state"]) == (True, "installed")
    assert rye(machine, "run", "acme/greet")["data"]["stdout"] == "hello 1.0.0\n"
    listed = call(machine, REGISTRY, action="bundle_list")["bundles"]
    assert [(row["bundle"], row["state"]) for row in listed] == [("acme", "valid")]
    assert call(machine, REGISTRY, action="bundle_uninstall", bundle="acme")["success"]


def test_the_example_runs(machine: Machine) -> None:
    assert call(machine, REGISTRY, **example(machine, REGISTRY))["success"]


def test_without_a_registry_it_says_how_to_have_one(machine: Machine) -> None:
    answer = call(machine, REGISTRY, action="search", query="x")

    assert (answer["success"], answer["code"]) == (False, "REGISTRY_NOT_CONFIGURED")
    assert "rye registry login" in answer["hint"]


def test_a_missing_parameter_of_an_action_is_named(machine: Machine) -> None:
    lacking = call(machine, REGISTRY, action="delete", item_id="ada/text/upper")

    assert lacking["error"] == "delete: expected version, found none"
    assert "action" in refused(machine, REGISTRY, action="trust")


def test_no_value_is_taken_for_a_flag(machine: Machine) -> None:
    answer = call(machine, REGISTRY, action="pull", item_id="--overwrite")

    assert (answer["success"], answer["code"]) == (False, "INVALID_REF")
