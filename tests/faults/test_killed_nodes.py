"""A node is killed at any time: HEAD is old or new, and all content behind it is there."""

import os
import random
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest

from ryeos.items.refs import Space
from tests.support.endings import wait_until
from tests.support.node import Node, running_node
from tests.support.node_proxy import Proxy, Stage, proxy_to
from tests.support.remote_client import Client, client_of, files_there, history
from tests.support.remote_projects import FUNCTION, RemoteProject, waiting_in
from tests.support.workspace import Workspace

BEFORE, HALF, AFTER = Stage.BEFORE, Stage.HALF, Stage.AFTER
pytestmark = [pytest.mark.skipif(os.name == "nt", reason="kills as POSIX does"), pytest.mark.heavy]


@pytest.fixture(scope="module")
def mortal_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that is killed and started again, by one test after the other."""
    with running_node(tmp_path_factory.mktemp("mortal") / "node") as running:
        yield running


@pytest.fixture
def proxy(mortal_node: Node) -> Iterator[Proxy]:
    """The way to it."""
    with proxy_to(mortal_node) as made:
        yield made


@pytest.fixture
def client(tmp_path: Path, bundle: Space, proxy: Proxy) -> Client:
    """A machine that talks to it."""
    made = client_of(tmp_path / "here", bundle, proxy.node, proxy.url)
    made.write({f"src/{number}.txt": f"{number}\n" for number in range(3)})
    return made


@pytest.mark.parametrize(
    ("path", "stage"),
    [
        ("/objects/put", HALF),
        ("/objects/put", AFTER),
        ("/push/user-space", AFTER),
        ("/push", HALF),
        ("/push", AFTER),
    ],
)
def test_a_push_comes_through_though_its_node_is_killed(
    proxy: Proxy, client: Client, path: str, stage: Stage
) -> None:
    first = client.push().snapshot_hash
    client.write({"src/0.txt": "changed\n", "src/new.txt": "new\n"})
    client.workspace.user.signed_tool("new")
    here = client.files()

    proxy.trap(path, stage, proxy.node.restart)
    pushed = client("remote", "push", "--json")

    assert not proxy.is_trap_left
    assert pushed.status == 0, pushed.stderr
    assert history(client.user) == [pushed.json["snapshot_hash"], first]
    assert files_there(client.user) == here == client.files()


def test_a_node_that_stays_away_is_named_and_the_push_comes_through_later(
    proxy: Proxy, client: Client
) -> None:
    client.push()
    client.write({"src/0.txt": "changed\n"})
    proxy.trap("/push", HALF, proxy.node.kill)

    refused = client("remote", "push")
    proxy.node.start()
    again = client("remote", "push")

    assert refused.status == 7
    assert refused.stderr.splitlines()[-2].startswith("error: remote default: ")
    assert "Traceback" not in refused.stderr
    assert again.status == 0, again.stderr
    assert files_there(client.user) == client.files()
    assert len(history(client.user)) == 2


WAIT = """
import os, time
from pathlib import Path

def execute(params, project_path):
    Path(project_path, "src/0.txt").write_text("half\\n")
    Path(os.environ["TMPDIR"], "here").touch()
    time.sleep(600)
"""


def test_a_client_learns_that_the_node_of_a_run_was_killed_and_runs_it_only_once(
    proxy: Proxy, client: Client
) -> None:
    client.workspace.project.signed_tool("wait", WAIT, executor=FUNCTION)
    folder = proxy.node.data / "workspaces" / client.user.user_id
    running = client.start("remote", "execute", "wait")
    wait_until(lambda: bool(waiting_in(folder)) or running.is_over)
    before = files_there(client.user)

    proxy.node.restart()
    ended = running.ended()

    assert ended.status == 7, ended.stderr
    assert proxy.requests.count("/execute") == 1
    assert client.files()["src/0.txt"] == b"0\n"
    assert files_there(client.user) == before
    wait_until(lambda: rows(client)[0]["state"] != "running")
    assert [(row["state"], row["error_phase"]) for row in rows(client)] == [("error", "lost")]


def rows(client: Client) -> list[dict[str, str]]:
    """The executions of a user."""
    return list(client.user.ask("GET", "/threads").json["threads"])


def test_a_head_is_old_or_new_whenever_a_node_is_killed_while_it_folds_back(
    mortal_node: Node, workspace: Workspace
) -> None:
    user = mortal_node.user()
    project = RemoteProject.with_tools(workspace, user)
    times, never = random.Random(7), Event()  # noqa: S311 - when to kill is no secret
    for number in range(4):
        head, new = history(user), f"{number} new\n"
        old = files_there(user)["src/x.txt"].decode()
        many = f"for n in $(seq 100); do echo {number} > src/$n.txt; done"
        thread = project.begun(f"echo {number} new > src/x.txt; {many}")

        project.release()
        never.wait(times.uniform(0.0, 0.4))
        mortal_node.restart()

        def is_over(thread: str = thread) -> bool:
            project.release()  # an execution that had not begun is taken again, and waits
            return bool(project.thread(thread)["state"] != "running")

        wait_until(is_over)
        row = project.thread(thread)
        found = files_there(user)
        has_moved = history(user) != head
        assert (row["state"], row.get("error_phase")) in {("completed", None), ("error", "lost")}
        assert has_moved or row["state"] != "completed"
        assert history(user)[1 if has_moved else 0 :] == head
        assert found["src/x.txt"].decode() == (new if has_moved else old)
        if has_moved:
            assert {found[f"src/{n + 1}.txt"] for n in range(100)} == {f"{number}\n".encode()}
    assert project.execute("tool:echo")["status"] == "success"
