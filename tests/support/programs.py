"""Programs of the machine that a test runs for real."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest


def require_program(name: str) -> Path:
    """The path of the program; the test is skipped, with the reason, if it is missing.

    Where ``RYE_REQUIRE_PROGRAMS=1`` is set, as `.ci/run` does, a missing program fails the test:
    a build that skips its tests must not succeed.
    """
    found = shutil.which(name)
    if not found:
        unavailable(f"{name} is not on the PATH of this machine")
    # rustup's is on the PATH of users too for whom it has installed nothing.
    if name == "cargo" and subprocess.run([found, "-V"], capture_output=True, check=False).stderr:
        unavailable("cargo does not work for this user")
    return Path(found)


def unavailable(reason: str) -> NoReturn:
    """Skip the test because a program is missing, or fail it if all are required."""
    if os.environ.get("RYE_REQUIRE_PROGRAMS") == "1":
        pytest.fail(f"{reason}, and RYE_REQUIRE_PROGRAMS=1 asks for it")
    pytest.skip(reason)
