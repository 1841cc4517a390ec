import os
import subprocess
import sys

import pytest

from ryeos.run.threads.end import end_orphans

WAIT = "import sys; print('ready', flush=True); sys.stdin.read()"


def process_of(thread_id: str) -> "subprocess.Popen[bytes]":
    """A process with the thread's id in its environment, that runs until it is ended."""
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT],
        env={**os.environ, "RYE_PARENT_THREAD_ID": thread_id},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == b"ready"
    return process


@pytest.mark.skipif(sys.platform != "linux", reason="found on Linux only")
def test_only_processes_of_the_thread_are_ended() -> None:
    with process_of("mine/x/x-1") as its, process_of("mine/x/x-12") as anothers:
        ended = end_orphans("mine/x/x-1")

        its.wait()
        assert (ended, anothers.poll()) == (1, None)
        anothers.communicate()
    assert anothers.returncode == 0


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_on_other_platforms_no_process_is_ended(platform: str) -> None:
    with process_of("mine/y/y-1") as its:
        assert end_orphans("mine/y/y-1", platform=platform) == 0
        its.communicate()

    assert its.returncode == 0
