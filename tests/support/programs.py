"""Programs of the machine that a test runs for real."""

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest


def require_program(name: str) -> Path:
    """Where the program is; the test is skipped, with the reason, on a machine without it.

    Where ``RYE_REQUIRE_PROGRAMS=1`` is set, as `.ci/run` does, a missing program fails the test:
    a build that skipped what it should have tried must not look green.
    """
    found = shutil.which(name)
    if not found:
        unavailable(f"{name} is not on the PATH of this machine")
    return Path(found)


def unavailable(reason: str) -> NoReturn:
    """Skip the test for something that is missing here, or fail it where nothing may be."""
    if os.environ.get("RYE_REQUIRE_PROGRAMS") == "1":
        pytest.fail(f"{reason}, and RYE_REQUIRE_PROGRAMS=1 asks for it")
    pytest.skip(reason)
