"""What a node says of the machine, and that nothing runs with less than it says."""

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lillux.namespaces import Apart
from lillux.shares import Shares
from lillux.uids import UidRange
from lillux.values import replace
from rye_services.node.worker.isolation import Isolation, open_isolation, read_isolation
from rye_services.node.worker.jobs import Job, JobAction
from rye_services.node.worker.process import WorkerDiedError, WorkerLaunch, do_job
from rye_services.operations.cli import main
from ryeos.items.refs import Space
from tests.support.workspace import VERSION, Workspace

pytestmark = pytest.mark.skipif(os.name == "nt", reason="processes of POSIX")
NOTHING = Isolation(problem="unshare: not permitted", shares=Shares(missing="no group is ours"))


def test_a_machine_that_gives_nothing_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO):
        NOTHING.log()

    assert [record.levelname for record in caplog.records] == ["INFO", *3 * ["WARNING"]]
    text = caplog.text
    assert "each execution has nothing of its own but its files" in text
    assert "they see, signal and limit the processes of each other: unshare: not permitted" in text
    assert "they are one user of the system: no user ids" in text
    assert "they slow each other: no group is ours" in text


def test_user_ids_are_named_and_hold_without_namespaces() -> None:
    found = replace(NOTHING, uids=UidRange(200_000, 200_999))

    assert list(found.held()) == ["a user id of its own (one of 200000-200999)"]
    assert list(found.lacking()) == [
        "they see the processes of each other: unshare: not permitted",
        "they slow each other: no group is ours",
    ]


def test_what_was_found_reaches_the_worker_as_it_is() -> None:
    found = Isolation(how=Apart.USERS, shares=Shares({"": "/groups"}, ("cpu",)))

    assert read_isolation(found.dump()) == found
    assert read_isolation({}) == Isolation()


def test_an_interpreter_that_cannot_be_started_leaves_a_reason(tmp_path: Path) -> None:
    found = open_isolation(str(tmp_path / "nothing"), ())

    assert found.how is Apart.NOT
    assert "it could not be tried" in found.problem


@pytest.fixture
def job(workspace: Workspace, bundle: Space, tmp_path: Path) -> Callable[..., Job]:
    """Jobs of one tool."""
    code = "def execute(params, project_path):\n    return 'done'\n"
    workspace.project.signed_tool("t", code, executor="rye/core/runtimes/python/function")
    for name in ("own-home", "own-tmp"):
        tmp_path.joinpath(name).mkdir()

    def make(isolation: Isolation) -> Job:
        fields: dict[str, Any] = {
            "action": JobAction.EXECUTE,
            "item_ref": "tool:t",
            "project": workspace.project_path,
            "user": workspace.home,
            "home": tmp_path / "own-home",
            "temporary": tmp_path / "own-tmp",
            "bundle": bundle.base,
            "bundle_version": VERSION,
            "time_limit_s": 60.0,
            "parent_pid": os.getpid(),
        }
        return Job(**fields, isolation=isolation.dump())

    return make


def test_an_execution_runs_where_the_machine_gives_nothing(job: Callable[..., Job]) -> None:
    answer = do_job(job(NOTHING), WorkerLaunch(environ=os.environ))

    assert answer.envelope["data"] == "done"


def test_an_execution_fails_that_cannot_be_kept_apart_any_more(
    job: Callable[..., Job], tmp_path: Path
) -> None:
    gone = Isolation(shares=Shares({"cpu": str(tmp_path / "gone")}, ("cpu",)))

    with pytest.raises(WorkerDiedError) as error:
        do_job(job(gone), WorkerLaunch(environ=os.environ))

    assert "this execution cannot be kept apart from others" in error.value.said


def test_doctor_names_what_the_machine_gives(capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["doctor"])

    lines = capsys.readouterr().out.splitlines()
    assert status == 0
    assert lines
    assert {line.split()[0] for line in lines} <= {"has", "lacks"}
