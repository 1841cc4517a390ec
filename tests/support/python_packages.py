"""Packages for Python that do not fit the environment of the tests: installed once, and kept."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lillux.file_locks import locked
from tests.support.built import ROOT

FASTMCP = "fastmcp==4.1.2"
ANY_INSTALLATION_S = 600


def python_with(package: str) -> Path:
    """An interpreter that has the package. Skips where the index of packages is out of reach."""
    name = f"{package.replace('==', '-')}-{sys.implementation.cache_tag}"
    folder = ROOT / "build" / "pip" / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    with locked(folder.with_suffix(".lock"), timeout_s=ANY_INSTALLATION_S):
        if not (folder / "done").exists():
            made: list[str | Path] = [
                sys.executable,
                "-m",
                "venv",
                "--without-pip",
                "--clear",
                folder,
            ]
            subprocess.run(made, check=True)
            _install(python, package)
            (folder / "done").touch()
    return python


def _install(python: Path, package: str) -> None:
    options = ("--disable-pip-version-check", "--only-binary", ":all:")
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", *options, package],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    )
    if installed.returncode == 0:
        return
    reason = f"pip could not install {package}: {installed.stdout[-500:]}"
    if os.environ.get("RYE_REQUIRE_PROGRAMS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
