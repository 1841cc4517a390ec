"""Pythons of the machine besides the one that runs the tests."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


def require_python(version: str) -> Path:
    """A Python of that minor, like ``3.12``; the test is skipped on a machine without one.

    It is started, not only found: a version manager's shim can be there without its version.
    """
    ask = "import sys; sys.stdout.write('%d.%d' % sys.version_info[:2])"
    for candidate in _candidates(version):
        ended = subprocess.run([candidate, "-c", ask], capture_output=True, check=False)
        if ended.stdout == version.encode():
            return candidate
    pytest.skip(f"there is no Python {version} on this machine")


def _candidates(version: str) -> Iterator[Path]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted(root.glob(f"versions/{version}.*/bin/python"))
    found = shutil.which(f"python{version}")
    if found:
        yield Path(found)
