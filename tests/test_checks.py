"""The checks are part of the suite, so that a green suite means a clean tree."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_format_lint_types_and_imports_are_clean() -> None:
    checks = subprocess.run(
        ["sh", "scripts/check"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
        encoding="utf-8",
    )

    assert checks.returncode == 0, checks.stdout + checks.stderr
