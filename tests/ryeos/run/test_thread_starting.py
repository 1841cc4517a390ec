"""Runs in the background, by real runners of this checkout."""

import json
import os

import pytest

from lillux.process.model import ProgramNotFoundError
from lillux.process.states import is_alive, start_token
from ryeos.items.refs import parse_reference
from ryeos.run.model import ExecutionRequest
from ryeos.run.threads.end import kill_thread
from ryeos.run.threads.log import ThreadLog
from ryeos.run.threads.thread import Status, Thread
from ryeos.run.threads.watch import refreshed
from tests.support.background_runs import Holding, ended, holding, program_of, started
from tests.support.endings import wait_until
from tests.support.workspace import Workspace

__all__ = ["holding"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")


def bash(workspace: Workspace, command: str) -> str:
    """The thread of a shell command."""
    return started(workspace, "tool:rye/bash/bash", command=command)


def log_of(workspace: Workspace, thread_id: str) -> str:
    """The log of the thread."""
    return ThreadLog(workspace.rye().threads.place, thread_id).text()[0]


def test_a_run_ends_with_its_result_and_its_log(workspace: Workspace) -> None:
    thread_id = bash(workspace, "echo out; echo err >&2")

    thread = ended(workspace, thread_id)

    assert (thread.status, thread.error, thread.item_id) == (
        "completed",
        None,
        "tool:rye/bash/bash",
    )
    assert thread.answer()["data"] == {"stdout": "out\n", "stderr": "err\n", "return_code": 0}
    assert sorted(log_of(workspace, thread_id).splitlines()) == ["err", "out"]


def test_a_failed_tool_is_a_failed_run(workspace: Workspace) -> None:
    thread = ended(workspace, bash(workspace, "echo no >&2; exit 3"))

    assert (thread.status, thread.error) == ("error", "no")
    assert thread.answer()["data"]["return_code"] == 3


def test_a_tool_knows_the_thread_it_runs_in(workspace: Workspace) -> None:
    thread_id = bash(workspace, 'printf %s "$RYE_PARENT_THREAD_ID"')

    assert ended(workspace, thread_id).answer()["data"]["stdout"] == thread_id


def test_a_thread_that_was_started_by_a_thread_knows_it(workspace: Workspace) -> None:
    workspace.env["RYE_PARENT_THREAD_ID"] = "mine/parent-1"

    thread_id = bash(workspace, "true")

    assert ended(workspace, thread_id).parent_id == "mine/parent-1"
    children = workspace.rye().threads.children("mine/parent-1")
    assert [child.thread_id for child in children] == [thread_id]


def test_the_document_of_a_thread_has_its_status(workspace: Workspace) -> None:
    thread_id = bash(workspace, "true")

    thread = ended(workspace, thread_id)

    runner = workspace.rye().runner_seals.runner(workspace.rye().threads.place, thread_id)
    # The document comes after the status.
    wait_until(lambda: not is_alive(runner.pid, runner.start_token))
    path = workspace.rye().threads.place.file(thread_id, "thread.json")
    assert json.loads(path.read_text("utf-8")) == thread.describe()


def test_a_runner_that_cannot_be_started_is_a_failed_thread(workspace: Workspace) -> None:
    reference = parse_reference("tool:rye/bash/bash")
    request = ExecutionRequest(item_id=reference.id, parameters={"command": "true"})
    rye = workspace.rye()

    with pytest.raises(ProgramNotFoundError) as error:
        rye.start(reference, request, program_of(workspace, "/no/such/program"))

    (thread,) = rye.threads.threads()
    assert (thread.status, thread.error) == ("error", str(error.value))


def kill(workspace: Workspace, thread_id: str, grace_s: float = 20) -> Thread:
    rye = workspace.rye()
    return kill_thread(rye.threads, thread_id, rye.runner_seals, grace_s=grace_s).thread


def test_a_killed_thread_leaves_no_process(workspace: Workspace, holding: Holding) -> None:
    thread_id = bash(workspace, holding.script)
    holding.await_ready()

    assert kill(workspace, thread_id).status == "killed"
    holding.await_end()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="orphans are found on Linux only")  # noqa: PTH112
def test_a_runner_without_grace_leaves_no_process_either(
    workspace: Workspace, holding: Holding
) -> None:
    thread_id = bash(workspace, holding.script)
    holding.await_ready()

    assert kill(workspace, thread_id, grace_s=0).status == "killed"
    holding.await_end()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="orphans are found on Linux only")  # noqa: PTH112
def test_orphan_processes_of_a_dead_runner_are_ended_on_request(
    workspace: Workspace, holding: Holding
) -> None:
    thread_id = bash(workspace, holding.script)
    holding.await_ready()
    rye = workspace.rye()
    os.kill(rye.runner_seals.runner(rye.threads.place, thread_id).pid, 9)

    assert ended(workspace, thread_id).error == "the runner ended without a result"
    done = kill_thread(rye.threads, thread_id, rye.runner_seals, grace_s=0)
    assert (done.thread.status, done.by_this, done.orphan_processes) == ("error", False, 3)
    holding.await_end()


@pytest.mark.parametrize(
    ("name", "status"), [("SIGTERM", "killed"), ("SIGINT", "cancelled"), ("SIGHUP", "cancelled")]
)
def test_a_signal_to_the_runner_ends_the_tool_and_is_reported(
    name: str, status: str, workspace: Workspace, holding: Holding
) -> None:
    import signal

    thread_id = bash(workspace, holding.script)
    holding.await_ready()
    rye = workspace.rye()

    os.kill(rye.runner_seals.runner(rye.threads.place, thread_id).pid, getattr(signal, name))

    assert ended(workspace, thread_id).status == status
    holding.await_end()


def test_killing_an_ended_thread_changes_no_state(workspace: Workspace) -> None:
    thread_id = bash(workspace, "true")
    before = ended(workspace, thread_id)

    assert kill(workspace, thread_id) == before


def test_a_thread_that_is_killed_before_its_runner_begins_never_runs(workspace: Workspace) -> None:
    registry = workspace.rye().threads
    registry.register(Thread(thread_id="mine/x/x-1", directive="mine/x", item_id="tool:mine/x"))

    assert kill(workspace, "mine/x/x-1").status == "killed"
    assert not registry.mark_running("mine/x/x-1", 42, "1")


def test_a_log_is_followed_to_its_end(workspace: Workspace) -> None:
    thread_id = bash(workspace, "for n in 1 2 3; do echo $n >&2; sleep 0.1; done; echo done")
    registry = workspace.rye().threads

    log = b"".join(ThreadLog(registry.place, thread_id).follow(registry))

    assert log.startswith(b"1\n2\n3\n")


def test_no_process_but_the_sealed_one_is_ended(workspace: Workspace) -> None:
    """The process id of a runner is reused, by this process."""
    rye = workspace.rye()
    thread_id = "mine/x/x-1"
    rye.threads.register(Thread(thread_id=thread_id, directive="mine/x"))
    rye.threads.place.make_thread_folder(thread_id)
    rye.threads.mark_running(thread_id, os.getpid(), start_token(os.getpid()))

    assert refreshed(rye.threads, rye.threads.get(thread_id)).status == Status.RUNNING
    with pytest.raises(Exception, match="will not end any process: there is no"):
        kill(workspace, thread_id)
