"""The variables that the start of ``rye.pyz`` reads."""

import json
import sys

import pytest

from tests.support.built import Machine

pytestmark = pytest.mark.e2e

FOLDERS = {
    "auto": "{home}/.cache/rye/native/",
    "cache": "{home}/.cache/rye/native/",
    "memfd": "/proc/self/fd/",
    "temp": "{temporary}/rye-",
}


@pytest.fixture
def machine(new_machine: Machine) -> Machine:
    return new_machine


@pytest.mark.skipif(sys.platform != "linux", reason="files in memory are Linux's")
@pytest.mark.parametrize("way", FOLDERS)
def test_compiled_modules_are_loaded_as_the_setting_says(way: str, machine: Machine) -> None:
    environ = machine.environ(RYE_NATIVE=way)

    report = json.loads(machine.ask("self", "where", "--json", environ=environ))

    start = FOLDERS[way].format(home=machine.home, temporary=machine.temporary)
    modules = {
        name: native["loaded"].startswith(start) for name, native in report["natives"].items()
    }
    assert modules == {"_cffi_backend": True, "nacl._sodium": True, "yaml._yaml": True}
    assert list(machine.temporary.iterdir()) == []


def test_without_them_it_verifies_and_runs_but_does_not_sign(machine: Machine) -> None:
    environ = machine.environ(RYE_NATIVE="off")

    answer = machine.ask("run", "rye/bash/bash", "command=echo hi", environ=environ)
    refused = machine.run("keys", "generate", environ=environ)
    report = json.loads(machine.ask("self", "where", "--json", environ=environ))

    assert answer == "hi\n"
    assert refused.returncode == 1
    assert "no way to load nacl._sodium here: RYE_NATIVE=off" in refused.stderr
    assert report["natives"]["nacl._sodium"] == {"problem": "RYE_NATIVE=off"}
    assert not (machine.cache / "native").exists()


@pytest.mark.parametrize("variable", ["RYE_NATIVE", "RYE_BOOT", "RYE_EXIT"])
def test_an_unknown_value_is_refused(variable: str, machine: Machine) -> None:
    ended = machine.run("version", environ=machine.environ(**{variable: "nonsense"}))

    assert (ended.stdout, ended.returncode) == ("", 2)
    assert ended.stderr.startswith(f"error: {variable}: expected one of ")
    assert ended.stderr.endswith(", found 'nonsense'\n")


@pytest.mark.parametrize("way", ["fast", "normal"])
@pytest.mark.parametrize(("command", "status"), [("version", 0), ("rnu", 2)])
def test_both_ways_of_leaving_end_the_same(
    way: str, command: str, status: int, machine: Machine
) -> None:
    ended = machine.run(command, environ=machine.environ(RYE_EXIT=way))

    assert ended.returncode == status
    assert ended.stdout == ("rye 0.1.0\n" if status == 0 else "")


def test_a_reader_that_is_gone_is_reported_by_the_status(machine: Machine) -> None:
    pyz = machine.rye[-1]
    script = f"'{machine.rye[0]}' '{pyz}' version; echo $? >&2"
    machine.rye = ("sh", "-c", f"({script}) | true")

    statuses = {machine.run().stderr for _ in range(5)}

    assert statuses <= {"0\n", "141\n"}
