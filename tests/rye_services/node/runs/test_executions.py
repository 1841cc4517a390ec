import os
import sys
import threading
import venv
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from rye_services.node.queue.rows import LEASE_S, NewThread
from rye_services.node.runs.executions import Executions
from rye_services.node.secrets import SEALED_PARAMETERS, seal_parameters
from rye_services.node.services import NodeServices, open_services
from rye_services.settings import read_settings
from rye_services.storage.database import Database
from ryeos.items.refs import Space
from tests.support.databases import database_environ
from tests.support.endings import wait_until
from tests.support.node import Node, running_node
from tests.support.remote_projects import TEXT, RemoteProject
from tests.support.workspace import PLAIN_ENV, Workspace

pytest_plugins = ("tests.support.node",)
pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
    pytest.mark.heavy,
]


@pytest.fixture
def project(node: Node, workspace: Workspace) -> RemoteProject:
    """A project on a node of its own."""
    return RemoteProject.with_tools(workspace, node.user())


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_an_execution_of_a_killed_node_is_lost_and_leaves_no_process(
    node: Node, project: RemoteProject
) -> None:
    thread = project.begun("echo half > src/x.txt; (setsid sleep 600 &)")
    assert _working(node.data)
    node.restart()

    row = project.ended(thread)

    assert (row["state"], row["error_phase"]) == ("error", "lost")
    assert row["error_message"] == "the node that ran this execution ended before it was over"
    assert project.text("src/x.txt") == TEXT
    wait_until(lambda: not _working(node.data))


def _working(data: Path) -> list[int]:
    """The processes that work in a workspace of the node."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return [pid for pid in pids if _folder_of(pid).startswith(str(data / "workspaces"))]


def _folder_of(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/cwd").readlink())
    except OSError:
        return ""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has Landlock")
def test_tools_run_on_the_python_of_a_virtual_environment_on_the_path(
    tmp_path: Path, workspace: Workspace
) -> None:
    venv.create(tmp_path / "tools", symlinks=True)
    python = tmp_path / "tools" / "bin" / "python3"
    path = os.pathsep.join((str(python.parent), os.environ["PATH"]))

    with running_node(tmp_path / "node", environ={"PATH": path}) as node:
        project = RemoteProject.with_tools(workspace, node.user())
        answer = project.script("command -v python3; python3 -c 'print(6 * 7)'").json

    assert answer["result"]["data"]["stdout"] == f"{python}\n42\n"


def test_the_next_execution_after_a_kill_starts_from_a_clean_checkout(
    node: Node, project: RemoteProject
) -> None:
    project.begun("echo half > src/x.txt; echo left > src/left.txt")
    node.restart()

    answer = project.script("cat src/x.txt; ls src").json

    assert answer["result"]["data"]["stdout"] == f"{TEXT}x.txt\n"
    assert answer["merge_type"] == "no-op"


def test_a_node_that_shuts_down_lets_executions_end_first(
    node: Node, project: RemoteProject
) -> None:
    thread = project.begun("echo new > src/x.txt")
    ending = threading.Thread(target=node.end)
    ending.start()
    wait_until(lambda: any("asked to end" in line for line in node.log))
    project.release()
    ending.join()
    node.start()

    assert project.thread(thread)["state"] == "completed"
    assert project.text("src/x.txt") == "new\n"


@pytest.fixture
def strict_node(tmp_path: Path) -> Iterator[Node]:
    """A node with one place, no queue, a small quota and a short grace."""
    environ = {
        "RYE_NODE_MAX_CONCURRENT": "1",
        "RYE_NODE_MAX_QUEUED": "0",
        "RYE_NODE_MAX_USER_STORAGE_BYTES": "2 MiB",
        "RYE_NODE_SHUTDOWN_TIMEOUT_S": "0",
        "RYE_NODE_WORKER_TIMEOUT_S": "5",
    }
    with running_node(tmp_path / "strict", environ=environ) as node:
        yield node


@pytest.fixture
def strict_project(strict_node: Node, workspace: Workspace) -> RemoteProject:
    """A project there."""
    return RemoteProject.with_tools(workspace, strict_node.user())


def test_executions_beyond_the_places_are_refused_until_later(
    strict_project: RemoteProject,
) -> None:
    thread = strict_project.begun("true")

    refused = strict_project.ask("tool:echo")
    strict_project.release()
    strict_project.ended(thread)
    wait_until(lambda: strict_project.ask("tool:echo").status == 200)

    words = "all 1 places for executions are taken, and 0 wait"
    assert refused.answer == (503, {"detail": words})
    assert refused.headers["retry-after"] == "5"


def test_an_execution_over_its_time_limit_is_answered(strict_project: RemoteProject) -> None:
    reply = strict_project.script("sleep 600")

    assert (reply.status, reply.json["result"]["code"]) == (200, "TIMEOUT")


def test_a_run_whose_changes_exceed_the_quota_does_not_move_the_head(
    strict_project: RemoteProject,
) -> None:
    reply = strict_project.script("head -c 3000000 /dev/urandom > src/big.bin")

    assert reply.status == 507
    assert "storage quota exceeded" in reply.json["detail"]
    assert len(strict_project.history()) == 1
    row = strict_project.user.ask("GET", "/threads").json["threads"][0]
    assert (row["state"], row["error_phase"]) == ("error", "quota")


def test_a_node_with_a_short_grace_ends_its_executions_and_reports_it(
    strict_node: Node, strict_project: RemoteProject
) -> None:
    thread = strict_project.begun("echo half > src/x.txt")
    strict_node.end()
    strict_node.start()

    row = strict_project.thread(thread)

    assert (row["state"], row["error_phase"]) == ("error", "interrupted")
    assert strict_project.text("src/x.txt") == TEXT


# --- two servers on the same data, in this process ------------------------------------------------


@pytest.fixture
def make_services(tmp_path: Path, bundle: Space) -> Iterator[Callable[[], NodeServices]]:
    """Servers of one node."""
    made: list[NodeServices] = []

    def make() -> NodeServices:
        data = tmp_path / "node"
        settings = read_settings({"data_dir": str(data)}, database_environ(data), tmp_path)
        made.append(open_services(settings, bundle.base, environ=PLAIN_ENV))
        made[-1].executions.begin()
        return made[-1]

    yield make
    for services in made:
        services.executions.close(0.0)
        services.database.close()


def accepted(thread_id: str, **changes: Any) -> NewThread:  # noqa: ANN401 - fields
    """An execution that was accepted and not begun."""
    fields: dict[str, Any] = {
        "thread_id": thread_id,
        "user_id": "u",
        "item_ref": "tool:rye/bash/bash",
        "remote_name": "default",
        "project_path": "nowhere",
        "project_manifest_hash": "0" * 64,
        "user_manifest_hash": None,
        "system_version": "0.1.0",
        "job": {"action": "execute", "parameters": {}, "vault_keys": []},
    }
    return NewThread(**fields | changes)


def state_of(services: NodeServices, thread_id: str) -> tuple[str, str | None]:
    """State and phase of an execution."""
    row = services.executions.rows.one("u", thread_id)
    assert row is not None
    return row["state"], row["error_phase"]


def test_an_accepted_execution_that_did_not_begin_begins_on_the_next_server(
    make_services: Callable[[], NodeServices],
) -> None:
    first, second = make_services(), make_services()
    first.executions.rows.begin(accepted("t"))
    second.executions.beat()
    untouched = state_of(second, "t")
    first.executions.close(0.0)

    second.executions.beat()

    wait_until(lambda: state_of(second, "t") != ("running", None))
    assert untouched == ("running", None)
    assert state_of(second, "t") == ("error", "preparation")  # its project is nowhere


def test_an_execution_that_began_is_never_begun_again(
    make_services: Callable[[], NodeServices],
) -> None:
    first, second = make_services(), make_services()
    rows = first.executions.rows
    rows.begin(accepted("t"))
    assert rows.claim("t") is not None
    assert rows.mark_begun("t", 1, retryable=False, given=None)
    first.executions.close(0.0)

    second.executions.beat()

    assert state_of(second, "t") == ("error", "lost")


def test_a_claimed_execution_that_did_not_begin_begins_on_the_next_server(
    make_services: Callable[[], NodeServices],
) -> None:
    first, second = make_services(), make_services()
    first.executions.rows.begin(accepted("t"))
    assert first.executions.rows.claim("t") is not None
    first.executions.close(0.0)

    second.executions.beat()

    wait_until(lambda: state_of(second, "t") == ("error", "preparation"))  # it has no project


def test_only_one_of_several_servers_begins_an_execution(
    make_services: Callable[[], NodeServices],
) -> None:
    services = make_services()
    services.executions.rows.begin(accepted("t"))

    with ThreadPoolExecutor(8) as pool:
        claimed = list(pool.map(lambda _: services.executions.rows.claim("t"), range(8)))

    assert sum(one is not None for one in claimed) == 1


def test_the_secrets_of_an_accepted_execution_are_forgotten_once_it_has_ended(
    make_services: Callable[[], NodeServices], tmp_path: Path
) -> None:
    services = make_services()
    services.executions.rows.begin(accepted("t", envelope=b"SEALED-ENVELOPE"))

    pending = services.executions.rows.claim("t")

    assert pending is not None
    assert pending.envelope == b"SEALED-ENVELOPE"
    assert services.executions.rows.end("t", pending.attempt, "completed")
    assert _column(services.database, "job_secrets") == [None]


@pytest.mark.parametrize("other", [("other", "t"), ("u", "other")])
def test_parameters_that_were_copied_to_another_row_are_not_carried_out(
    make_services: Callable[[], NodeServices], other: tuple[str, str]
) -> None:
    services = make_services()
    sealed = seal_parameters({"text": "mine"}, services.keys.box_public, *other)
    job = {"action": "execute", "vault_keys": None, SEALED_PARAMETERS: sealed}
    services.executions.rows.begin(accepted("t", job=job))

    services.executions._runs.claimed("t")  # type: ignore[attr-defined]

    row = services.executions.rows.one("u", "t")
    assert row is not None
    assert state_of(services, "t") == ("error", "preparation")
    assert row["error_message"] == (
        "its parameters do not open with the keys of this node: execute it again"
    )


def _column(database: Database, name: str) -> list[Any]:
    from sqlalchemy import select

    from rye_services.storage.database import threads

    with database.reading() as connection:
        return list(connection.execute(select(threads.c[name])).scalars())


def test_a_lease_that_ran_out_leaves_an_execution_without_a_server(
    make_services: Callable[[], NodeServices],
) -> None:
    first, second = make_services(), make_services()
    first.executions.rows.begin(accepted("t", job=None))
    with second.database.writing() as connection:
        from sqlalchemy import update

        from rye_services.storage.database import threads

        connection.execute(update(threads).values(lease_until_s=threads.c.lease_until_s - LEASE_S))

    second.executions.beat()

    assert state_of(second, "t") == ("error", "lost")
    assert not first.executions.rows.end("t", 1, "completed")


@pytest.mark.parametrize(("retryable", "end"), [(False, ("error", "lost")), (True, None)])
def test_a_begun_execution_that_its_server_does_not_run_is_given_up(
    make_services: Callable[[], NodeServices], *, retryable: bool, end: tuple[str, str] | None
) -> None:
    executions = (services := make_services()).executions
    executions.rows.begin(accepted("t"))
    assert executions.rows.claim("t") is not None
    # And then the database went away.
    assert executions.rows.mark_begun("t", 1, retryable=retryable, given=None)

    executions.beat()
    first = state_of(services, "t")
    executions.beat()

    assert first == ("running", None)
    if end:
        assert state_of(services, "t") == end
    else:  # it waits again, and its project is nowhere
        wait_until(lambda: state_of(services, "t") == ("error", "preparation"))


def test_a_running_execution_is_not_given_up(make_services: Callable[[], NodeServices]) -> None:
    executions = (services := make_services()).executions
    executions.rows.begin(accepted("t", job=None))
    assert isinstance(executions, Executions)
    executions._runs._running["t"] = Cancellation()
    for _ in range(3):
        executions.beat()
    del executions._runs._running["t"]

    assert state_of(services, "t") == ("running", None)
