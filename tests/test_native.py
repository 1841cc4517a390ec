"""The compiled programs: their own tests, and the list of terminal statuses."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from lillux.watch import TERMINAL_STATUSES
from packing.programs import NAMES, WORKSPACE, target_folder
from tests.support.programs import require_program
from zipboot import programs

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.heavy
def test_the_tests_of_the_compiled_programs_pass() -> None:
    cargo = require_program("cargo")

    ended = subprocess.run(
        [cargo, "test", "--quiet", "--locked"],
        cwd=ROOT / WORKSPACE,
        env=os.environ | {"CARGO_TARGET_DIR": str(target_folder(ROOT))},
        capture_output=True,
        check=False,
        encoding="utf-8",
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_python_and_native_code_have_the_same_terminal_statuses() -> None:
    source = (ROOT / WORKSPACE / "lillux-watch" / "src" / "database.rs").read_text("utf-8")
    block = re.search(r"const TERMINAL: \[&str; \d+\]\s*=\s*\[(.*?)\];", source, re.DOTALL)

    assert block is not None
    assert set(re.findall(r'"(\w+)"', block[1])) == TERMINAL_STATUSES


def test_the_packed_programs_are_those_that_are_extracted() -> None:
    assert programs.NAMES == NAMES
