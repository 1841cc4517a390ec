import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lillux.signing import compute_key_fingerprint, generate_keypair
from rye_services.operations.cli import main
from tests.support.databases import database_environ

Command = Callable[..., tuple[int, Any]]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of a node that has never served."""
    folder = tmp_path / "node"
    for name, value in database_environ(folder).items():
        monkeypatch.setenv(name, value)
    assert main(["init", "--data", str(folder), "-q"]) == 0
    return folder


@pytest.fixture
def node(data: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """``node("users", "list")`` is the envelope of ``rye-node.pyz users list``, with its status."""

    def run(*argv: str) -> tuple[int, Any]:
        capsys.readouterr()
        status = main([*argv, "--data", str(data), "--json"])
        return status, json.loads(capsys.readouterr().out)

    return run


def test_a_person_has_keys_and_a_team_has_members(node: Command, tmp_path: Path) -> None:
    pair = generate_keypair()
    pem = tmp_path / "laptop.pem"
    pem.write_bytes(pair.public_pem)

    done = [
        node("users", "add", "ada", "--key", str(pem))[0],
        node("users", "add", "bob")[0],
        node("teams", "add", "acme", "--admin", "ada")[0],
        node("teams", "set-role", "acme", "bob", "push")[0],
    ]

    assert done == [0, 0, 0, 0]
    fingerprint = f"fp:{compute_key_fingerprint(pair.public_pem)}"
    (listed,) = node("users", "keys", "ada")[1]["keys"]
    assert (listed["fingerprint"], listed["scopes"]) == (fingerprint, ["remote:*"])
    members = node("teams", "show", "acme")[1]["members"]
    assert {one["user_id"]: one["role"] for one in members} == {"ada": "admin", "bob": "push"}
    assert node("teams", "list")[1]["teams"][0]["members"] == 2
    assert node("users", "remove-key", "ada", fingerprint)[0] == 0
    assert node("users", "keys", "ada")[1]["keys"] == []


def test_a_key_of_a_person_manages_the_node_only_with_the_admin_flag(
    node: Command, tmp_path: Path
) -> None:
    pem = tmp_path / "laptop.pem"
    pem.write_bytes(generate_keypair().public_pem)
    node("users", "add", "ada")

    assert node("users", "add-key", "ada", str(pem))[1]["scopes"] == ["remote:*"]
    assert node("users", "add-key", "ada", str(pem), "--admin")[1]["scopes"] == ["*"]


def test_invalid_people_commands_are_refused_with_their_status(node: Command) -> None:
    node("users", "add", "ada")
    node("teams", "add", "acme", "--admin", "ada")

    assert node("teams", "remove", "acme", "ada")[0] == 1
    assert node("teams", "set-role", "acme", "ghost", "read")[0] == 3
    assert node("teams", "show", "nothing")[0] == 3
    assert node("users", "add", "ACME")[0] == 2
    assert node("users", "close", "ghost")[0] == 3
    assert node("users", "add-key", "acme", "ed25519:x")[0] == 2
    status, answer = node("users", "add", "ac-me")
    assert status == 0
    status, answer = node("users", "add", "ac_me")
    assert (status, answer["code"]) == (1, "CONFLICT")


def test_closing_and_opening_a_person_is_in_the_audit(node: Command) -> None:
    node("users", "add", "ada")

    closed, opened = node("users", "close", "ada")[1], node("users", "open", "ada")[1]

    assert (closed["before"], closed["state"]) == ("open", "closed")
    assert (opened["before"], opened["state"]) == ("closed", "open")
    actions = [one["action"] for one in node("audit", "--action", "people")[1]["entries"]]
    assert actions == ["people.set-state", "people.set-state", "people.add"]


def test_an_invitation_into_the_node_is_shown_once(node: Command) -> None:
    made = node("users", "invite", "--email", "ada@example.org")[1]

    assert made["invitation"].startswith("rye_inv_")
    entries = node("audit", "--action", "teams")[1]["entries"]
    assert made["invitation"] not in str(entries)


@pytest.mark.parametrize("words", [("--days", "0"), ("--days", "31"), ("--email", "ada")])
def test_an_invitation_for_no_address_or_no_time_is_refused(
    node: Command, words: tuple[str, str]
) -> None:
    status, answer = node("users", "invite", *words)

    assert (status, answer["code"]) == (2, "INVALID_PARAMS")
    assert answer["hint"]


def test_an_api_key_of_a_team_has_a_role(node: Command) -> None:
    node("users", "add", "ada")
    node("teams", "add", "acme", "--admin", "ada")

    assert node("api-keys", "create", "--user", "acme", "--name", "ci")[0] == 0
    assert node("accounts", "add", "ac-me")[0] == 0
    assert node("accounts", "add", "acme")[0] == 0
    assert node("accounts", "add", "ACME")[0] == 2
