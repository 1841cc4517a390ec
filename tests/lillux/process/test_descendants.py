import os
import subprocess
import sys
from pathlib import Path

import pytest

from lillux.process.descendants import adopt_orphans
from tests.support.children import Lifeline

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="Linux adopts orphans")

CODE = """
import os, subprocess, sys
from lillux.process.descendants import adopt_orphans, end_descendants

assert adopt_orphans()
subprocess.run(["/bin/sh", "-c", sys.argv[1]], check=True)
print(end_descendants(10.0))
"""


def ended(script: str) -> str:
    """The output of a process that starts a script and then ends all its descendants."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", CODE, script],
        capture_output=True,
        encoding="utf-8",
        check=False,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(root)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@linux_only
@pytest.mark.parametrize(
    "left",
    [
        "sleep 600 &",
        "(setsid sleep 600 &)",
        "(setsid sh -c '(setsid sleep 600 &) ; exec sleep 600' &)",
        "(trap '' TERM INT HUP; sleep 600 &)",
    ],
)
def test_descendants_that_were_left_running_are_ended(left: str, tmp_path: Path) -> None:
    lifeline = Lifeline(tmp_path)

    assert ended(f"exec >/dev/null 2>&1; {lifeline.hold}; {left}") == "True\n"

    assert lifeline.is_released()
    lifeline.close()


@linux_only
def test_without_descendants_ending_them_does_no_harm() -> None:
    assert ended("true") == "True\n"


def test_other_systems_adopt_no_descendants() -> None:
    assert adopt_orphans(platform="darwin") is False


def test_a_process_without_children_has_ended_them_all() -> None:
    code = "from lillux.process.descendants import *; print(end_descendants(1.0, platform='x'))"
    root = Path(__file__).parents[3]
    argv = [sys.executable, "-c", code]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=True, cwd=root)

    assert done.stdout == "True\n"
