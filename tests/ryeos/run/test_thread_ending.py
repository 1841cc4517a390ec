"""Ending runs of graphs inside a process that has other work, like an MCP server."""

import os
from pathlib import Path

import pytest

from lillux.process.states import start_token
from ryeos.items.errors import RyeError
from ryeos.run.threads.end import ask_for_end, kill_thread
from ryeos.run.threads.errors import UnknownRunnerError
from ryeos.run.threads.grants import Grants, write_grants
from ryeos.run.threads.place import CANCEL, GRANTS
from ryeos.run.threads.registry import ThreadRegistry
from ryeos.run.threads.seals import RunnerSeals, ThreadRunner
from ryeos.run.threads.thread import Status, Thread
from tests.support.errors import coded

ID = "mine-build-1-00ff"


@pytest.fixture
def seals(tmp_path: Path) -> RunnerSeals:
    """The seals of a user."""
    return RunnerSeals(tmp_path / "home" / ".ai")


@pytest.fixture
def run(registry: ThreadRegistry, seals: RunnerSeals) -> Thread:
    """A run that this process walks, and does not end."""
    pid = os.getpid()
    registry.register(Thread(thread_id=ID, directive="mine/build", item_id="tool:mine/build"))
    registry.mark_running(ID, pid, start_token(pid))
    write_grants(registry.place, seals, ID, Grants((("rye.*",),)))
    return registry.get(ID)


def test_a_run_that_does_not_end_is_reported_and_not_killed(
    run: Thread, registry: ThreadRegistry, seals: RunnerSeals
) -> None:
    with pytest.raises(RyeError, check=coded("TIMEOUT")) as error:
        kill_thread(registry, ID, seals, grace_s=0)

    assert str(error.value) == f"{ID}: still running 0 s after it was asked to end"
    assert f"process {os.getpid()} walks it" in error.value.hint
    assert registry.place.file(ID, CANCEL).read_bytes() == b""
    assert registry.get(ID).status == Status.RUNNING


def test_a_run_can_be_cancelled_more_than_once(run: Thread, registry: ThreadRegistry) -> None:
    ask_for_end(registry, ID)
    ask_for_end(registry, ID)

    assert registry.place.file(ID, CANCEL).exists()


def test_a_resumed_run_is_not_ended_through_its_first_runner(
    run: Thread, registry: ThreadRegistry, seals: RunnerSeals
) -> None:
    seals.seal(registry.place, ID, ThreadRunner(os.getppid(), start_token(os.getppid())))

    with pytest.raises(RyeError, check=coded("TIMEOUT")):
        kill_thread(registry, ID, seals, grace_s=0)


@pytest.mark.parametrize("grants", [None, "{}", '{"capabilities": [], "depth": 1, "seal": "x"}'])
def test_a_run_of_another_user_gets_no_cancel_request(
    grants: str | None, run: Thread, registry: ThreadRegistry, seals: RunnerSeals
) -> None:
    path = registry.place.file(ID, GRANTS)
    path.unlink()
    if grants is not None:
        path.write_text(grants, "utf-8")

    with pytest.raises(UnknownRunnerError):
        kill_thread(registry, ID, seals, grace_s=0)

    assert not registry.place.file(ID, CANCEL).exists()
