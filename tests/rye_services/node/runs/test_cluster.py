"""Three servers, two workers and a proxy: every request of a client reaches another server."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from packing.cluster_parts import Part
from tests.support.clusters import TestedCluster, running_cluster
from tests.support.endings import wait_until
from tests.support.hooks import bind
from tests.support.registry import Registry
from tests.support.remote_projects import TEXT, RemoteProject, waiting_in
from tests.support.workspace import PLAIN_ENV, ROOT, Workspace

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.skipif(
        os.environ.get("RYE_TEST_DATABASE") == "postgresql",
        reason="a cluster has a PostgreSQL of its own in the pass of SQLite already",
    ),
    pytest.mark.heavy,
]
WAIT = "echo > $TMPDIR/here; while ! [ -e $TMPDIR/go ]; do sleep 0.02; done"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestedCluster]:
    with running_cluster(tmp_path_factory.mktemp("c") / "cluster") as running:
        yield running


class ClusterProject(RemoteProject):
    """A project whose scripts run in the folders of workers."""

    folder: Path

    def waiting(self) -> list[Path]:
        places = self.folder.glob("worker*/workspaces")
        return [here for place in places for here in waiting_in(place)]


@pytest.fixture
def project(cluster: TestedCluster, workspace: Workspace) -> ClusterProject:
    made = ClusterProject.with_tools(workspace, cluster.node.user())
    assert isinstance(made, ClusterProject)
    made.folder = cluster.folder
    return made


def begun(project: ClusterProject, script: str, item: str = "tool:sh") -> str:
    """Execute a script on a worker, and return when it waits. The thread's id."""
    before = set(project.waiting())
    envelope = project.envelope(SCRIPT=f"{script}; {WAIT}; echo done > src/x.txt")
    reply = project.ask(item, **{"async": True}, secret_envelope=envelope)
    assert reply.status == 202, reply.json
    wait_until(lambda: bool(set(project.waiting()) - before), 30)
    return str(reply.json["thread_id"])


def events_of(project: RemoteProject, thread_id: str) -> list[tuple[str, dict[str, Any]]]:
    """The server-sent events of a log, to their end."""
    reply = project.user.ask("GET", f"/threads/{thread_id}/log?follow=true")
    found = []
    for block in reply.body.decode().split("\n\n"):
        fields = dict(
            line.split(": ", 1) for line in block.splitlines() if not line.startswith(":")
        )
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def worker_of(cluster: TestedCluster, project: ClusterProject) -> Part:
    """The worker in whose folder a script waits."""
    here = project.waiting()[0]
    return next(one for one in cluster.workers if cluster.folder / one.name in here.parents)


def test_an_execution_that_is_waited_for_answers_as_on_one_node(project: ClusterProject) -> None:
    answer = project.execute("tool:write", parameters={"path": "src/y.txt", "text": "made\n"})

    assert answer["result"]["data"] == {"written": "src/y.txt"}
    assert answer["merge_type"] == "fast-forward"
    assert set(answer) >= {"snapshot_hash", "new_object_hashes", "execution_snapshot_hash"}
    assert project.text("src/y.txt") == "made\n"
    assert project.thread(answer["thread_id"])["state"] == "completed"


def test_a_failure_is_answered_as_on_one_node(project: ClusterProject) -> None:
    missing = project.ask("tool:none")

    assert missing.status == 200
    assert missing.json["status"] == "error"
    assert (
        project.user.ask(
            "POST", "/execute", {"item_id": "tool:sh", "project_path": "unknown"}
        ).status
        == 404
    )


def test_requests_reach_all_servers_and_all_workers(
    cluster: TestedCluster, project: ClusterProject
) -> None:
    before = dict(cluster.proxy.requests)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda n: project.script(f"echo n{n}"), range(16)))

    assert {reply.status for reply in replies} <= {200, 202}
    assert all(cluster.proxy.requests[port] > count for port, count in before.items())
    for worker in cluster.workers:
        assert "completed" in worker.log.read_text("utf-8")


def test_a_log_is_followed_on_any_server_while_a_worker_writes_it(project: ClusterProject) -> None:
    thread = begun(project, "echo first")
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(events_of, project, thread)
        project.release()
        events = following.result(60)

    assert events[-1] == ("end", {"state": "completed"})
    assert "".join(one["text"] for kind, one in events if kind == "log") == "first\n"


def test_deliveries_of_a_webhook_run_once_on_any_servers(
    project: ClusterProject,
) -> None:
    hook = bind(project.user, "tool:echo", project.name)

    with ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(lambda _: hook.deliver(delivery_id="same"), range(6)))

    assert [reply.status for reply in replies] == [200] * 6
    assert sum("thread_id" in reply.json for reply in replies) == 1
    assert len(project.user.ask("GET", "/threads").json["threads"]) == 1


def test_a_nonce_is_valid_once_across_all_servers(project: ClusterProject) -> None:
    headers = project.user.signed_headers("GET", "/threads")

    statuses = [project.user.node.ask("GET", "/threads", headers=headers).status for _ in range(4)]

    assert statuses == [200, 401, 401, 401]


def test_a_login_and_a_logout_hold_on_every_server(
    project: ClusterProject,
) -> None:
    thread = project.execute("tool:echo")["thread_id"]
    node, form = project.user.node, {"Content-Type": "application/x-www-form-urlencoded"}
    body = urlencode({"key": project.user.token}).encode()
    reply = node.ask("POST", "/page/login", body, headers=form)
    cookie = {"Cookie": reply.headers["set-cookie"].partition(";")[0]}

    page = f"/page/thread?id={thread}"
    pages = [node.ask("GET", page, headers=cookie) for _ in range(3)]
    token = re.search(r'name="token" value="([^"]+)"', pages[0].body.decode())
    assert token is not None
    ended = urlencode({"token": token[1]}).encode()
    node.ask("POST", "/page/logout", ended, headers={**form, **cookie})
    after = [node.ask("GET", page, headers=cookie).status for _ in range(3)]

    assert reply.status == 303
    assert [one.status for one in pages] == [200] * 3
    assert after == [401, 401, 401]


def test_an_item_published_on_one_server_is_on_every_server(cluster: TestedCluster) -> None:
    registry = Registry(cluster.folder / "server0", role="all", environ=cluster.environ)
    registry.node.port = cluster.proxy.port
    account = registry.account()
    item_id = f"{account.name}/text/shout"

    pushed = account.push(item_id)
    pulled = [registry.node.ask("GET", f"/v1/pull/tool/{item_id}") for _ in range(3)]

    assert pushed.status in {200, 201}, pushed.json
    assert [one.status for one in pulled] == [200] * 3
    assert len({one.json["content"] for one in pulled}) == 1


def test_a_worker_with_other_keys_is_refused(cluster: TestedCluster) -> None:
    environ = {**cluster.environ, "SIGNING_KEY_DIR": str(cluster.folder / "other-keys")}
    words = [sys.executable, str(ROOT / "rye_node.py"), "work", "--data"]

    ended = subprocess.run(
        [*words, str(cluster.folder / "other")],
        env={**PLAIN_ENV, **environ},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )

    assert ended.returncode == 6
    assert "signing keys: expected the pair of ed25519:" in ended.stderr
    assert "mount the same keys" in ended.stderr


def test_a_worker_of_a_node_without_a_cluster_is_refused(tmp_path: Path) -> None:
    words = [sys.executable, str(ROOT / "rye_node.py"), "work", "--data", str(tmp_path)]

    ended = subprocess.run(
        words,
        env=dict(PLAIN_ENV),
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=60,
    )

    assert ended.returncode == 6
    assert "queue: expected cluster for a worker, found local" in ended.stderr


def test_a_running_execution_is_cancelled_through_another_machine(project: ClusterProject) -> None:
    thread = begun(project, "true")

    reply = project.user.ask("POST", f"/threads/{thread}/cancel")
    row = project.ended(thread)

    assert reply.json["state"] == "running"
    assert (row["state"], row["cancelled_by"]) == ("cancelled", project.user.user_id)
    assert project.text("src/x.txt") == TEXT


def test_a_worker_that_resumes_after_a_pause_does_not_move_a_head(
    cluster: TestedCluster, project: ClusterProject
) -> None:
    thread = begun(project, "true")
    worker = worker_of(cluster, project)
    worker.send_signal(signal.SIGSTOP)
    try:
        row = project.ended(thread)
    finally:
        project.release()
        worker.send_signal(signal.SIGCONT)

    wait_until(lambda: f"{thread} was taken for lost" in worker.log.read_text("utf-8"), 30)
    assert (row["state"], row["error_phase"]) == ("error", "lost")
    assert project.text("src/x.txt") == TEXT
    assert project.execute("tool:echo")["status"] == "success"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_retryable_run_of_an_ending_worker_is_taken_by_another(
    cluster: TestedCluster, workspace: Workspace, number: int
) -> None:
    command = 'config: {command: "sh -c \\"$SCRIPT\\""}'
    workspace.project.signed_yaml("again", f"retryable: true\n{command}")
    project = ClusterProject.with_tools(workspace, cluster.node.user())
    assert isinstance(project, ClusterProject)
    project.folder = cluster.folder
    thread = begun(project, "true", "tool:again")
    wait_until(lambda: project.thread(thread)["retryable"])
    worker = worker_of(cluster, project)
    worker.send_signal(number)
    if number == signal.SIGKILL:
        worker.end(number)
    for here in project.waiting():
        here.unlink(missing_ok=True)
    try:
        if number == signal.SIGTERM:
            worker.end(number)
        wait_until(lambda: bool(project.waiting()), 60)
        project.release()
        row = project.ended(thread)
    finally:
        worker.start()
        worker.wait_until_ready()

    assert (row["state"], row["attempt"]) == ("completed", 2)
    assert project.text("src/x.txt") == "done\n"
