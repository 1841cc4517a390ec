import os
import subprocess
import sys
from pathlib import Path

import pytest

from lillux.process.parent import await_end_of_parent

# A process that starts another and is then killed; the other one reports when it has noticed.
CHILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
from lillux.process.parent import await_end_of_parent
parent = os.getppid()
print("watching", flush=True)
waits = {} if sys.argv[2] == "poll" else None
await_end_of_parent(parent, waits=waits, poll_s=0.01)
print("gone", flush=True)
"""
PARENT = """
import subprocess, sys
subprocess.Popen([sys.executable, "-I", "-c", *sys.argv[1:]]).wait()
"""
ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.skipif(os.name == "nt", reason="the number of a parent changes on POSIX only")
@pytest.mark.parametrize("way", ["the system tells", "poll"])
def test_the_end_of_the_parent_is_noticed(way: str) -> None:
    argv = [sys.executable, "-I", "-c", PARENT, CHILD, str(ROOT), way]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, encoding="utf-8") as parent:
        assert parent.stdout
        watching = parent.stdout.readline()

        parent.kill()

        assert (watching, parent.stdout.read()) == ("watching\n", "gone\n")


def test_the_way_of_the_platform_is_taken() -> None:
    waited: list[int] = []

    def wait(parent: int) -> bool:
        waited.append(parent)
        return True

    await_end_of_parent(7, platform="win32", waits={"win32": wait}, current=lambda: 7)

    assert waited == [7]


def test_without_a_notification_of_the_system_the_number_is_polled() -> None:
    numbers = iter([7, 7, 7, 1])

    await_end_of_parent(
        7,
        platform="win32",
        waits={"win32": lambda _: False},
        current=lambda: next(numbers),
        poll_s=0,
    )

    assert list(numbers) == []


def test_a_parent_that_is_gone_already_is_not_waited_for() -> None:
    def wait(_: int) -> bool:
        raise AssertionError

    await_end_of_parent(7, platform="linux", waits={"linux": wait}, current=lambda: 1)
