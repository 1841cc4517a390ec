"""Threads whose runner died are reported as failed, and waits end when they should."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta

import pytest

from lillux.process.states import start_token
from ryeos.items.errors import RyeError
from ryeos.run.threads.registry import ThreadRegistry
from ryeos.run.threads.thread import Status, Thread
from ryeos.run.threads.watch import refreshed, wait_for
from tests.support.errors import coded
from tests.support.workspace import NOW, fixed_clock

ID = "mine/x/x-1"


def register(registry: ThreadRegistry, thread_id: str = ID) -> None:
    registry.register(Thread(thread_id=thread_id, directive="mine/x", item_id="tool:mine/x"))


def dead_process() -> int:
    """The number of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_a_thread_whose_runner_is_gone_has_failed(registry: ThreadRegistry) -> None:
    register(registry)
    registry.mark_running(ID, dead_process(), "1")

    found = refreshed(registry, registry.get(ID))

    assert (found.status, found.error) == ("error", "the runner ended without a result")
    assert registry.get(ID) == found
    assert '"status": "error"' in registry.place.file(ID, "thread.json").read_text("utf-8")


def test_a_process_that_has_the_number_now_is_not_the_runner(registry: ThreadRegistry) -> None:
    register(registry)
    registry.mark_running(ID, os.getpid(), "another start")

    assert refreshed(registry, registry.get(ID)).status == "error"


def test_a_runner_that_lives_is_left_alone(registry: ThreadRegistry) -> None:
    register(registry)
    registry.mark_running(ID, os.getpid(), start_token(os.getpid()))

    assert refreshed(registry, registry.get(ID)).status == "running"


def test_a_result_written_meanwhile_is_used(registry: ThreadRegistry) -> None:
    register(registry)
    registry.mark_running(ID, dead_process(), "1")
    seen = registry.get(ID)
    registry.finish(ID, Status.COMPLETED, result='{"status": "success"}')

    found = refreshed(registry, seen)
    assert (found.status, found.result) == ("completed", '{"status": "success"}')


@pytest.mark.parametrize(("seconds", "status"), [(59, "created"), (61, "error")])
def test_a_thread_whose_runner_never_started_has_failed(
    seconds: int, status: str, registry: ThreadRegistry
) -> None:
    register(registry)

    found = refreshed(registry, registry.get(ID), clock=lambda: NOW + timedelta(seconds=seconds))

    assert found.status == status


@pytest.mark.parametrize("created_at", ["", "yesterday", "2026-01-02", "0001-01-01T00:00:00+23:59"])
def test_an_invalid_creation_time_does_not_mean_a_failure(
    created_at: str, registry: ThreadRegistry
) -> None:
    thread = Thread(thread_id=ID, item_id="tool:mine/x", created_at=created_at)

    expected = "error" if created_at.startswith("0001") else "created"
    register(registry)
    assert refreshed(registry, thread, clock=fixed_clock).status == expected


def test_a_thread_of_another_program_without_a_runner_is_left_alone(
    registry: ThreadRegistry,
) -> None:
    registry.register(Thread(thread_id="theirs", directive="d"))
    with closing(sqlite3.connect(registry.place.registry)) as connection, connection:
        connection.execute("UPDATE threads SET status = 'running'")

    assert refreshed(registry, registry.get("theirs")).status == "running"


def test_waiting_ends_with_the_time(registry: ThreadRegistry) -> None:
    register(registry)
    registry.mark_running(ID, os.getpid(), start_token(os.getpid()))

    assert wait_for(registry, ID, 0.0).status == "running"


def test_waiting_follows_a_thread_to_the_process_that_carries_on(registry: ThreadRegistry) -> None:
    for name in ("a", "b", "c"):
        register(registry, name)
    registry.continue_as("a", "b")
    registry.continue_as("b", "c")
    registry.finish("c", Status.COMPLETED, result='{"data": 3}')

    found = wait_for(registry, "a", None)

    assert (found.thread_id, found.answer()) == ("c", {"data": 3})


def test_threads_that_continue_each_other_have_no_end(registry: ThreadRegistry) -> None:
    for name in ("a", "b"):
        register(registry, name)
    registry.continue_as("a", "b")
    registry.continue_as("b", "a")

    with pytest.raises(RyeError, check=coded("REGISTRY_INVALID")) as error:
        wait_for(registry, "a", None)

    assert str(error.value) == "threads continue each other in a circle: a -> b -> a"
