"""``rye keys protect``, ``use-agent``, ``rotate`` and ``upgrade``, by real processes."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.built import Machine
from tests.support.programs import require_program
from tests.support.workspace import ROOT

RYE = (sys.executable, str(ROOT / "rye.py"))
SECRET = "correct horse battery"
TOOL = """\
version: "1.0.0"
tool_type: bash
executor_id: rye/core/runtimes/bash/bash
category: mine
description: a test
config: {command: "echo it runs"}
"""


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path, *RYE)
    assert made.run("init", "--project", ".").returncode == 0
    write(made, "mine/x")
    return made


def write(machine: Machine, item_id: str) -> Path:
    path = machine.project / f".ai/tools/{item_id}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TOOL, encoding="utf-8")
    return path


def private_key(machine: Machine) -> Path:
    return machine.home / ".ai/config/keys/signing/private_key.pem"


def protect(machine: Machine) -> None:
    environ = machine.environ(RYE_NEW_KEY_PASSPHRASE=SECRET)
    assert machine.run("keys", "protect", environ=environ).returncode == 0


def test_a_protected_key_signs_with_its_passphrase_alone(machine: Machine) -> None:
    protect(machine)

    without = machine.run("sign", "tool:mine/x")
    wrong = machine.run("sign", "tool:mine/x", environ=machine.environ(RYE_KEY_PASSPHRASE="other"))
    right = machine.run("sign", "tool:mine/x", environ=machine.environ(RYE_KEY_PASSPHRASE=SECRET))

    assert b"PRIVATE KEY" not in private_key(machine).read_bytes()
    assert (without.returncode, wrong.returncode, right.returncode) == (4, 4, 0)
    assert "no terminal can ask for it" in without.stderr
    assert "this is not its passphrase" in wrong.stderr
    assert machine.run("run", "mine/x").stdout == "it runs\n"


@pytest.mark.heavy
def test_a_passphrase_can_be_taken_off_again(machine: Machine) -> None:
    before = private_key(machine).read_bytes()
    protect(machine)

    refused = machine.run("keys", "protect", "--remove")
    ended = machine.run(
        "keys", "protect", "--remove", environ=machine.environ(RYE_KEY_PASSPHRASE=SECRET)
    )

    assert (refused.returncode, ended.returncode) == (4, 0)
    assert private_key(machine).read_bytes() == before
    assert private_key(machine).stat().st_mode & 0o777 == 0o600


def test_a_weak_passphrase_is_refused(machine: Machine) -> None:
    before = private_key(machine).read_bytes()

    ended = machine.run("keys", "protect", environ=machine.environ(RYE_NEW_KEY_PASSPHRASE="short"))

    assert ended.returncode == 2
    assert private_key(machine).read_bytes() == before


@pytest.mark.heavy
def test_a_damaged_protected_key_is_named(machine: Machine) -> None:
    protect(machine)
    text = private_key(machine).read_bytes()
    private_key(machine).write_bytes(text.replace(text[-60:-56], b"AAAA"))

    ended = machine.run("sign", "tool:mine/x", environ=machine.environ(RYE_KEY_PASSPHRASE=SECRET))

    assert ended.returncode == 4
    assert str(private_key(machine)) in ended.stderr


def test_no_tool_gets_the_passphrase(machine: Machine) -> None:
    environ = machine.environ(RYE_KEY_PASSPHRASE=SECRET, RYE_NEW_KEY_PASSPHRASE=SECRET)

    ended = machine.run("run", "rye/bash/bash", "command=env", environ=environ)

    assert SECRET not in ended.stdout


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A real ssh-agent with one key; the variables that lead to it."""
    for name in ("ssh-agent", "ssh-add", "ssh-keygen"):
        require_program(name)
    socket = tmp_path / "agent"
    process = subprocess.Popen(
        ["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    process.stdout.readline()  # it prints this when its socket is there
    found = {"SSH_AUTH_SOCK": str(socket)}
    key = tmp_path / "id"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    subprocess.run(["ssh-add", "-q", key], check=True, env=found | {"PATH": "/usr/bin:/bin"})
    try:
        yield found
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_a_key_of_an_ssh_agent_signs(machine: Machine, agent: dict[str, str]) -> None:
    environ = machine.environ(**agent)

    chosen = machine.run("keys", "use-agent", "--force", "--json", environ=environ)
    signed = machine.run("sign", "tool:mine/x", environ=environ)

    assert (chosen.returncode, signed.returncode) == (0, 0), (chosen.stderr, signed.stderr)
    assert not private_key(machine).exists()
    assert machine.run("run", "mine/x").stdout == "it runs\n"
    shown = json.loads(machine.run("keys", "show", "--json", environ=environ).stdout)
    assert shown["fingerprint"] == json.loads(chosen.stdout)["fingerprint"]


def test_a_locked_ssh_agent_signs_nothing(machine: Machine, agent: dict[str, str]) -> None:
    environ = machine.environ(**agent)
    assert machine.run("keys", "use-agent", "--force", environ=environ).returncode == 0
    subprocess.run(
        ["ssh-add", "-D"],
        check=True,
        env=agent | {"PATH": "/usr/bin:/bin"},
        stderr=subprocess.DEVNULL,
    )

    ended = machine.run("sign", "tool:mine/x", environ=environ)
    gone = machine.run("sign", "tool:mine/x")

    assert (ended.returncode, gone.returncode) == (4, 4)
    assert "ssh-agent: it refused" in ended.stderr
    assert "SSH_AUTH_SOCK" in gone.stderr
    assert "rye:signed" not in write(machine, "mine/y").read_text("utf-8")


def test_another_key_is_not_replaced_without_consent(
    machine: Machine, agent: dict[str, str]
) -> None:
    ended = machine.run("keys", "use-agent", environ=machine.environ(**agent))

    assert ended.returncode == 1
    assert private_key(machine).exists()


def test_a_new_key_signs_again_and_the_old_one_counts_until_its_last_day(machine: Machine) -> None:
    assert machine.run("sign", "tool:mine/x").returncode == 0
    old = json.loads(machine.run("keys", "show", "--json").stdout)["fingerprint"]
    elsewhere = machine.project.parent / "other"
    shutil.copytree(machine.project, elsewhere)

    ended = machine.run("keys", "rotate", "--yes", "--json")
    report = json.loads(ended.stdout)

    assert ended.returncode == 0, ended.stderr
    assert report["fingerprint"] != old
    assert "tool:mine/x" in report["signed"]
    assert machine.run("run", "mine/x").stdout == "it runs\n"
    assert machine.run("run", "mine/x", cwd=elsewhere).stdout == "it runs\n"
    assert machine.run("verify").returncode == 0


@pytest.mark.heavy
def test_a_new_key_is_under_the_passphrase_of_the_old_one(machine: Machine) -> None:
    protect(machine)
    known = machine.environ(RYE_KEY_PASSPHRASE=SECRET)

    ended = machine.run("keys", "rotate", "--yes", environ=known)

    assert ended.returncode == 0, ended.stderr
    assert b"PRIVATE KEY" not in private_key(machine).read_bytes()
    assert machine.run("sign", "tool:mine/x").returncode == 4
    assert machine.run("sign", "tool:mine/x", environ=known).returncode == 0


def test_an_expired_key_does_not_count(machine: Machine) -> None:
    assert machine.run("sign", "tool:mine/x").returncode == 0
    elsewhere = machine.project.parent / "other"
    shutil.copytree(machine.project, elsewhere)
    assert machine.run("keys", "rotate", "--yes", "--until", "2020-01-31").returncode == 0

    ended = machine.run("run", "mine/x", cwd=elsewhere)

    assert ended.returncode == 4
    assert "untrusted key" in ended.stderr


def test_rotating_needs_consent_and_a_date(machine: Machine) -> None:
    silent = machine.run("keys", "rotate")
    odd = machine.run("keys", "rotate", "--yes", "--until", "tomorrow")

    assert (silent.returncode, odd.returncode) == (4, 2)
    assert private_key(machine).exists()


def test_upgrading_binds_items_that_were_signed_before(machine: Machine) -> None:
    path = write(machine, "mine/x")
    assert machine.run("sign", "tool:mine/x").returncode == 0
    document = next((machine.home / ".ai/config/keys/trusted").glob("*.toml"))

    assert 'identity = "required"' in document.read_text("utf-8")
    assert "# rye:item:tool:mine/x:yaml:1.0.0" in path.read_text("utf-8")
    assert json.loads(machine.run("keys", "upgrade", "--yes", "--json").stdout)["unchanged"] is True
