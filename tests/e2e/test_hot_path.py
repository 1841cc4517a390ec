"""Starts import exactly the modules of the checked-in list."""

from pathlib import Path

import pytest

from packing.hot_path import STARTS, hot_modules, imported
from packing.modules import is_from_source, modules
from tests.support.built import BASE_PYTHON, ROOT, Machine
from tests.support.other_pythons import require_python

pytestmark = pytest.mark.e2e

OURS = ("lillux", "ryeos", "zipboot")


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
@pytest.mark.parametrize("start", STARTS)
def test_a_start_imports_only_the_listed_modules(start: str, version: str, built_pyz: Path) -> None:
    listed = set(hot_modules()[start])

    found = imported(require_python(version), built_pyz, STARTS[start])

    assert sorted(found - listed) == []
    assert sorted(name for name in listed - found if name.partition(".")[0] in OURS) == []


def test_every_listed_module_of_ours_exists() -> None:
    listed = {name for names in hot_modules().values() for name in names}

    known = {module.name for module in modules(ROOT)}

    assert {name for name in listed if name.partition(".")[0] in OURS} <= known


def test_a_start_that_forks_no_directive_imports_nothing_of_threads() -> None:
    for names in hot_modules().values():
        assert not any(f"{name}.".startswith("ryeos.agent.") for name in names)


SETUP = (
    ("keys", "generate", "-q"),
    ("new", "tool", "mine/hello", "-q"),
    ("sign", "mine/hello", "-q"),
)
OF_A_DAY = (
    ("version",),
    ("help",),
    ("run", "mine/hello", "name=you"),
    ("sign", "mine/hello"),
    ("verify",),
    ("search", "hello"),
    ("list",),
    ("chain", "mine/hello"),
    ("remote", "push", "--help"),
)


def test_everyday_commands_compile_no_module(machine: Machine, built_pyz: Path) -> None:
    for arguments in SETUP:
        machine.ask(*arguments)
    machine.rye = (BASE_PYTHON, "-X", "importtime", built_pyz)
    rare = {module.name for module in modules(ROOT) if is_from_source(module)}

    compiled = {
        arguments: rare & {line.rpartition("|")[2].strip() for line in stderr.splitlines()}
        for arguments in OF_A_DAY
        for stderr in [machine.run(*arguments).stderr]
    }

    assert {arguments: names for arguments, names in compiled.items() if names} == {}
