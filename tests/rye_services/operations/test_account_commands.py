import json
import subprocess
from pathlib import Path

import pytest

from lillux.signing import compute_key_fingerprint, generate_keypair
from tests.support.databases import database_environ
from tests.support.node import run_command
from tests.support.registry import Account, Registry

pytestmark = pytest.mark.heavy


def run(data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    words = words if words[0] == "take-down" else ("accounts", *words)
    environ = {"HOME": str(data.parent), **database_environ(data)}
    return run_command(*words, "--data", str(data), environ=environ)


def test_an_account_made_by_the_operator_can_publish_at_once(registry: Registry) -> None:
    data, pair = registry.node.data, generate_keypair()
    pem = data.parent / "ada.pem"
    pem.write_bytes(pair.public_pem)

    added = run(data, "add", "ada", "--key", str(pem), "--json")

    token = json.loads(added.stdout)["key"]
    ada = Account(registry, "ada", token, pair)
    assert ada.push("ada/greetings/hello").status == 200
    listed = json.loads(run(data, "list", "--json").stdout)["accounts"]
    (one,) = listed
    assert (one["name"], one["namespaces"]) == ("ada", ["ada"])
    assert one["keys"] == [compute_key_fingerprint(pair.public_pem)]
    assert one["stored_bytes"] > 0


def test_a_disabled_account_cannot_publish(registry: Registry) -> None:
    account, data = registry.account("ada"), registry.node.data
    account.push("ada/greetings/hello")

    assert run(data, "disable", "ada").returncode == 0
    assert account.push("ada/greetings/hello", "1.1.0").status == 403
    assert registry.ask("GET", "/v1/pull/tool/ada/greetings/hello").status == 200
    assert run(data, "enable", "ada").returncode == 0
    assert account.push("ada/greetings/hello", "1.1.0").status == 200


def test_only_the_operator_grants_a_reserved_name(registry: Registry) -> None:
    account, data = registry.account("ada"), registry.node.data
    assert account.push("rye/greetings/hello").status == 403

    granted = run(data, "grant", "ada", "rye")

    assert granted.stdout == "rye belongs to ada\n"
    assert account.push("rye/greetings/hello").status == 200
    assert run(data, "add", "official").returncode == 1
    assert run(data, "add", "official", "--reserved").returncode == 0


def test_invalid_account_commands_are_reported(registry: Registry) -> None:
    data = registry.node.data
    registry.account("ada").push("ada/greetings/hello")
    registry.account("bob").ask("POST", "/v1/namespaces", {"name": "bobs-lab"})
    failures = {
        ("add", "ada"): (1, "there is one with this name"),
        ("add", "Ada"): (2, "user 'Ada'"),
        ("add", "bobs-lab"): (1, "a namespace of this name belongs to bob"),
        ("add", "0123456789abcdef"): (1, "looks like the fingerprint of a key"),
        ("disable", "eve"): (3, "expected one that is open, found none"),
        ("grant", "ada", "bobs-lab"): (4, "it belongs to another account"),
        ("add-key", "ada", "/nowhere.pem"): (2, "expected a PEM file, found none"),
    }

    for words, (status, problem) in failures.items():
        failed = run(data, *words)
        assert (failed.returncode, problem in failed.stderr) == (status, True), failed.stderr


def test_the_operator_takes_down_items_of_any_user(registry: Registry) -> None:
    account, data = registry.account("ada"), registry.node.data
    account.push("ada/greetings/hello")
    account.push("ada/greetings/hello", "1.1.0")

    one = run(data, "take-down", "tool:ada/greetings/hello", "--version", "1.1.0")
    rest = run(data, "take-down", "tool:ada/greetings/hello", "--json")

    assert one.stdout == "deleted tool:ada/greetings/hello: 1.1.0\n"
    assert json.loads(rest.stdout)["deleted_versions"] == ["1.0.0"]
    assert registry.ask("GET", "/v1/pull/tool/ada/greetings/hello").status == 404
    assert run(data, "take-down", "tool:ada/greetings/hello").returncode == 3
    assert run(data, "take-down", "bundle:none-such").returncode == 3
    assert run(data, "take-down", "ada").returncode == 2
