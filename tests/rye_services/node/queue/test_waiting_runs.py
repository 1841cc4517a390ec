"""Executions on a real node that wait, are watched, are cancelled, and outlive their server."""

import json
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from lillux.redaction import MASK
from rye_services.storage.database import Database, threads
from tests.support.endings import wait_until
from tests.support.node import Node, running_node
from tests.support.remote_projects import TEXT, RemoteProject
from tests.support.workspace import Workspace

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.heavy,
]
WAIT = "echo > $TMPDIR/here; while ! [ -e $TMPDIR/go ]; do sleep 0.02; done"


@pytest.fixture
def narrow_node(tmp_path: Path) -> Iterator[Node]:
    """A node with two places."""
    environ = {"RYE_NODE_MAX_CONCURRENT": "2", "RYE_NODE_SHUTDOWN_TIMEOUT_S": "1"}
    with running_node(tmp_path / "narrow", environ=environ) as node:
        yield node


@pytest.fixture
def project(narrow_node: Node, workspace: Workspace) -> RemoteProject:
    """A project there."""
    return RemoteProject.with_tools(workspace, narrow_node.user())


def log_of(project: RemoteProject, thread_id: str, after: int = 0) -> dict[str, Any]:
    reply = project.user.ask("GET", f"/threads/{thread_id}/log?after={after}")
    assert reply.status == 200, reply.json
    return dict(reply.json)


def begun(project: RemoteProject, script: str, item: str = "tool:sh", **secrets: str) -> str:
    """Execute a script, and return when it waits. The thread's id."""
    envelope = project.envelope(SCRIPT=script, **secrets)
    reply = project.ask(item, **{"async": True}, secret_envelope=envelope)
    wait_until(lambda: bool(project.waiting()))
    return str(reply.json["thread_id"])


def events_of(project: RemoteProject, thread_id: str) -> list[tuple[str, dict[str, Any]]]:
    """The server-sent events of a log, to their end."""
    reply = project.user.ask("GET", f"/threads/{thread_id}/log?follow=true")
    assert reply.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in reply.body.decode().split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")
        )
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_30_simultaneous_requests_are_all_executed(project: RemoteProject) -> None:
    with ThreadPoolExecutor(30) as pool:
        replies = list(pool.map(lambda n: project.script(f"echo n{n}"), range(30)))

    statuses = [reply.status for reply in replies]
    assert set(statuses) <= {200, 202}
    for reply in replies:
        if reply.status == 202:
            assert project.ended(reply.json["thread_id"])["state"] == "completed"
    outputs = {r.json["result"]["data"]["stdout"] for r in replies if r.status == 200}
    assert len(outputs) == statuses.count(200) >= 2


def test_a_request_that_waits_too_long_is_answered_with_202(
    tmp_path: Path, workspace: Workspace
) -> None:
    environ = {"RYE_NODE_MAX_CONCURRENT": "1", "RYE_NODE_QUEUE_WAIT_S": "0"}
    with running_node(tmp_path / "one", environ=environ) as node:
        project = RemoteProject.with_tools(workspace, node.user())
        project.begun("true")
        body = {"item_id": "tool:echo", "project_path": project.name}

        replies = [project.user.ask("POST", path, body) for path in ("/execute", "/fetch", "/sign")]
        project.release()
        states = [project.ended(reply.json["thread_id"])["state"] for reply in replies]

    assert [(one.status, one.json["queue_place"]) for one in replies] == [
        (202, 1),
        (202, 2),
        (202, 3),
    ]
    assert states == ["completed"] * 3


def test_parameters_of_a_waiting_execution_are_sealed_for_its_row(
    project: RemoteProject, narrow_node: Node
) -> None:
    project.begun("true")
    started = project.ask("tool:echo", **{"async": True}, parameters={"text": "plain-words"}).json
    query = select(threads.c.job).where(threads.c.thread_id == started["thread_id"])
    database = Database(narrow_node.settings.database_url)
    with database.reading() as connection:
        job = connection.scalar(query)
        every = " ".join(str(row) for row in connection.execute(select(threads)).all())
    database.close()
    project.release()

    row = project.ended(started["thread_id"])

    assert job is not None
    assert set(job["sealed_parameters"]) == {"enc", "ciphertext"}
    assert "plain-words" not in every
    assert row["state"] == "completed"
    assert row["parameters"] == {"text": "plain-words"}


def test_a_place_in_the_queue_is_reported_and_shrinks(project: RemoteProject) -> None:
    running = project.begun("true")
    waiting = [project.ask("tool:echo", **{"async": True}).json for _ in range(2)]

    assert [one["queue_place"] for one in waiting] == [1, 2]
    project.release()
    for one in (running, *(one["thread_id"] for one in waiting)):
        assert project.ended(one)["state"] == "completed"


def test_the_log_of_a_running_execution_is_shown_with_secrets_masked(
    project: RemoteProject,
) -> None:
    thread = begun(project, f"echo first; echo oops >&2; echo $KEY; {WAIT}", KEY="recognisable-12")
    wait_until(lambda: len(log_of(project, thread)["pieces"]) >= 2)
    during = log_of(project, thread)
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(events_of, project, thread)
        project.release()
        events = following.result(60)

    assert during["state"] == "running"
    text = "".join(one["text"] for one in during["pieces"] if one["stream"] == "stdout")
    assert text == "first\n***\n".replace("***", MASK)
    assert "oops\n" in [one["text"] for one in during["pieces"] if one["stream"] == "stderr"]
    assert events[-1] == ("end", {"state": "completed"})
    assert [one for kind, one in events if kind == "log"][: len(during["pieces"])] == during[
        "pieces"
    ]
    assert log_of(project, thread, during["after"])["state"] == "completed"


def test_a_log_is_for_its_user_alone(narrow_node: Node, project: RemoteProject) -> None:
    thread = project.script("echo mine").json["thread_id"]
    other = narrow_node.user()

    for method, target in (("GET", "log"), ("GET", "log?follow=true"), ("POST", "cancel")):
        assert other.ask(method, f"/threads/{thread}/{target}").status == 404


def test_changes_of_a_cancelled_run_are_discarded(
    project: RemoteProject,
) -> None:
    thread = project.begun("echo half > src/x.txt")

    reply = project.user.ask("POST", f"/threads/{thread}/cancel")

    row = project.ended(thread)
    assert reply.answer == (200, {"thread_id": thread, "state": "running"})
    assert (row["state"], row["error_phase"]) == ("cancelled", "cancelled")
    assert row["cancelled_by"] == project.user.user_id
    assert project.text("src/x.txt") == TEXT
    again = project.user.ask("POST", f"/threads/{thread}/cancel")
    assert again.json["state"] == "cancelled"


def test_a_cancelled_waiting_execution_never_begins(project: RemoteProject) -> None:
    running = project.begun("true")
    waiting = project.ask("tool:echo", **{"async": True}).json["thread_id"]

    reply = project.user.ask("POST", f"/threads/{waiting}/cancel")
    project.release()
    project.ended(running)

    assert reply.json["state"] == "cancelled"
    assert project.thread(waiting)["started_at"] is None
    assert project.execute("tool:echo")["status"] == "success"


def test_a_node_ends_in_time_during_a_run(narrow_node: Node, project: RemoteProject) -> None:
    project.begun("trap '' TERM")
    began = time.monotonic()

    narrow_node.end()

    assert time.monotonic() - began < 20  # one second of grace, ten for the end


def test_a_waiting_execution_begins_on_the_next_server(
    narrow_node: Node, project: RemoteProject
) -> None:
    project.begun("true")
    waiting = project.ask("tool:echo", **{"async": True}).json["thread_id"]
    narrow_node.end()
    narrow_node.start()

    assert project.ended(waiting)["state"] == "completed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_retryable_run_is_continued_by_the_next_server(
    narrow_node: Node, workspace: Workspace, number: int
) -> None:
    command = 'config: {command: "sh -c \\"$SCRIPT\\""}'
    workspace.project.signed_yaml("again", f"retryable: true\n{command}")
    project = RemoteProject.with_tools(workspace, narrow_node.user())
    thread = begun(project, f"echo begun; {WAIT}; echo done > src/x.txt", "tool:again")
    wait_until(lambda: project.thread(thread)["retryable"])
    narrow_node.send_signal(number)
    narrow_node.wait()
    # A server that is killed leaves this behind: it says nothing about the next attempt.
    for here in project.waiting():
        here.unlink()
    narrow_node.start()

    wait_until(lambda: bool(project.waiting()))
    assert project.thread(thread)["attempt"] == 2
    project.release()

    row = project.ended(thread)
    assert (row["state"], row["attempt"]) == ("completed", 2)
    assert project.text("src/x.txt") == "done\n"
    assert [one["text"] for one in log_of(project, thread)["pieces"]] == ["begun\n"]
