import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lillux.background import StartedProcess, start_detached
from lillux.errors import ConfigurationError
from lillux.process.ending import end_process
from lillux.process.states import is_alive
from tests.support.children import Lifeline
from tests.support.endings import wait_until, zombie

ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture
def lifeline(tmp_path: Path) -> Iterator[Lifeline]:
    made = Lifeline(tmp_path)
    yield made
    made.close()


def start(script: str, tmp_path: Path) -> StartedProcess:
    """A detached shell that has run the script, which it shows by a file."""
    ready = tmp_path / "ready"
    script = script.replace("READY", f": > {ready}")
    started = start_detached(("/bin/sh", "-c", script), env=ENV)
    wait_until(ready.exists)
    return started


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_process_that_listens_is_terminated(tmp_path: Path, platform: str) -> None:
    started = start("READY; exec sleep 60", tmp_path)

    assert end_process(started.pid, platform=platform) == "terminated"
    assert not is_alive(started.pid, started.start_token)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_process_that_does_not_listen_is_killed(tmp_path: Path, platform: str) -> None:
    started = start("trap '' TERM; READY; while :; do sleep 60; done", tmp_path)

    assert end_process(started.pid, grace_s=0.2, tree=True, platform=platform) == "killed"
    assert not is_alive(started.pid, started.start_token)


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_process_that_was_waited_for_is_already_dead(platform: str) -> None:
    with subprocess.Popen(["true"]) as process:
        pass

    assert end_process(process.pid, platform=platform) == "already_dead"


def test_a_zombie_is_already_dead() -> None:
    with zombie() as pid:
        assert end_process(pid) == "already_dead"


def test_a_later_process_with_the_number_is_left_alone(tmp_path: Path) -> None:
    started = start("READY; exec sleep 60", tmp_path)

    assert end_process(started.pid, token=f"{started.start_token}0") == "already_dead"
    assert is_alive(started.pid, started.start_token)
    end_process(started.pid)


def test_a_tree_is_ended_with_everything_in_its_group(tmp_path: Path, lifeline: Lifeline) -> None:
    script = f"{lifeline.hold}; (trap '' TERM; READY; while :; do sleep 60; done) & sleep 60"
    started = start(script, tmp_path)

    assert end_process(started.pid, grace_s=0.3, token=started.start_token, tree=True) == "killed"
    assert lifeline.is_released()


def test_without_tree_the_rest_of_the_group_lives_on(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    started = start(f"sleep 60 & echo $! > {pid_file}; READY; wait", tmp_path)
    child = int(pid_file.read_text("utf-8"))

    assert end_process(started.pid) == "terminated"
    assert is_alive(child)
    end_process(child)


@pytest.mark.parametrize("pid", [-7, 0, 1])
def test_process_numbers_below_2_are_refused(pid: int) -> None:
    with pytest.raises(ConfigurationError) as error:
        end_process(pid)

    assert str(error.value) == f"pid: expected a process above 1, got {pid}"


def test_this_process_does_not_end_itself() -> None:
    with pytest.raises(ConfigurationError, match="expected another process than this one"):
        end_process(os.getpid())


def test_our_own_group_is_not_ended() -> None:
    if os.getpgrp() == os.getpid():
        pytest.skip("this process leads its group itself, which is refused for another reason")

    with pytest.raises(ConfigurationError, match="another group"):
        end_process(os.getpgrp(), tree=True)


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_on_windows_too_process_numbers_below_2_are_refused(pid: int) -> None:
    with pytest.raises(ConfigurationError) as error:
        end_process(pid, platform="win32")

    assert str(error.value) == f"pid: expected a process above 1, got {pid}"


def test_on_windows_too_a_process_does_not_end_itself() -> None:
    with pytest.raises(ConfigurationError, match="expected another process than this one"):
        end_process(os.getpid(), tree=True, platform="win32")
