"""``rye.py``: commands run from the checkout."""

import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.built import BASE_PYTHON, ROOT, Machine

pytestmark = pytest.mark.e2e

ECHO = ("run", "rye/bash/bash", "command=echo hi")
NEEDED = ("bundle.ai", "lillux", "packing", "ryeos", "zipboot")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A fresh checkout, in a folder whose name needs quoting."""
    folder = tmp_path / "a checkout"
    for name in NEEDED:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "rye.py", folder)
    return folder


@pytest.fixture
def developer(tmp_path: Path, checkout: Path) -> Machine:
    """A user's machine, with the checkout and the libraries of the tests."""
    return Machine(tmp_path, sys.executable, checkout / "rye.py")


def test_the_checkout_runs_a_tool_of_its_bundle(developer: Machine) -> None:
    assert developer.ask(*ECHO) == "hi\n"
    assert list(developer.temporary.iterdir()) == []


@pytest.mark.heavy
def test_its_first_starts_at_once_all_work(developer: Machine, checkout: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: developer.ask(*ECHO), range(8)))

    assert answers == ["hi\n"] * 8
    assert len(list((checkout / "build" / "checkout").iterdir())) == 1


@pytest.mark.heavy
def test_an_edit_of_the_bundle_takes_effect_at_the_next_start(
    developer: Machine, checkout: Path
) -> None:
    developer.ask(*ECHO)
    bash = checkout / "bundle.ai" / "tools" / "rye" / "bash" / "bash.yaml"
    bash.rename(bash.with_name("shell.yaml"))

    answer = developer.ask("run", "rye/bash/shell", "command=echo hi")

    assert answer == "hi\n"


def test_a_broken_item_of_the_bundle_is_named(developer: Machine, checkout: Path) -> None:
    broken = checkout / "bundle.ai" / "tools" / "rye" / "bash" / "bash.yaml"
    broken.write_text("version: [\n", encoding="utf-8")

    ended = developer.run("version")

    assert ended.returncode == 6
    assert ended.stderr.startswith("error: the bundle of this checkout: ")
    assert "bash.yaml" in ended.stderr


def test_without_the_libraries_it_says_how_to_get_them(developer: Machine, checkout: Path) -> None:
    developer.rye = (BASE_PYTHON, "-I", "-S", checkout / "rye.py")

    ended = developer.run("version")

    assert ended.returncode == 78
    assert ended.stderr == (
        f"error: {BASE_PYTHON} has no dotenv, nacl, packaging, shtab, tomlkit,"
        " urllib3, yaml\n"
        f"  hint: run scripts/install, then build/venv/bin/python {checkout / 'rye.py'}\n"
    )


@pytest.mark.heavy
def test_the_status_of_a_command_is_the_status_of_the_process(developer: Machine) -> None:
    statuses = [
        developer.run(*arguments).returncode
        for arguments in (("run", "rye/bash/bash", "command=exit 9"), ("rnu",), ("run", "no/such"))
    ]

    assert statuses == [1, 2, 3]
