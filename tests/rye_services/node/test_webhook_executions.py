"""Deliveries of webhooks that execute on a real node."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from ryeos.remote.deliveries import DELIVERY_ID
from tests.support.endings import wait_until
from tests.support.hooks import bind
from tests.support.node import Node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")

ECHO = """import os

def execute(params, project_path):
    return {"said": params, "token": os.environ.get("TOKEN", "")[:2]}
"""
FUNCTION = "rye/core/runtimes/python/function"


@pytest.fixture
def project(shared_node: Node, workspace: Workspace) -> RemoteProject:
    workspace.project.signed_tool("echo", ECHO, executor=FUNCTION)
    return RemoteProject(workspace, shared_node.user()).pushed()


def test_a_delivery_executes_the_item_of_its_binding(project: RemoteProject) -> None:
    project.user.ask("POST", "/secrets", {"secrets": [{"name": "TOKEN", "value": "t0ken-1"}]})
    hook = bind(project.user, "tool:echo", project.name, vault_keys=["TOKEN"])

    answer = hook.deliver(
        parameters={"ref": "main"}, item_id="tool:other", project_path="x", vault_keys=["OTHER"]
    ).json

    assert answer["status"] == "success", answer
    assert answer["result"]["data"] == {"said": {"ref": "main"}, "token": "t0"}
    row = project.thread(answer["thread_id"])
    assert (row["item_id"], row["project_path"]) == ("tool:echo", project.name)


def test_secrets_that_the_binding_does_not_name_stay_in_the_vault(project: RemoteProject) -> None:
    project.user.ask("POST", "/secrets", {"secrets": [{"name": "TOKEN", "value": "t0ken-1"}]})
    hook = bind(project.user, "tool:echo", project.name)

    assert hook.deliver().json["result"]["data"]["token"] == ""


def test_a_delivery_that_comes_twice_runs_once(project: RemoteProject) -> None:
    hook = bind(project.user, "tool:echo", project.name)

    first = hook.deliver(delivery_id="d-1")
    again = hook.deliver(delivery_id="d-1", parameters={"changed": True})

    assert first.json["status"] == "success"
    assert again.answer == (200, {"detail": "Already processed"})
    assert len(project.user.ask("GET", "/threads").json["threads"]) == 1


def test_a_captured_delivery_does_not_run_under_another_id(project: RemoteProject) -> None:
    hook = bind(project.user, "tool:echo", project.name)
    body = hook.body()
    headers = hook.headers(body, delivery_id="d-1")
    node = project.user.node

    first = node.ask("POST", "/execute", body, headers=headers)
    again = node.ask("POST", "/execute", body, headers={**headers, DELIVERY_ID: "d-2"})

    assert first.json["status"] == "success"
    assert again.answer == (200, {"detail": "Already processed"})
    assert len(project.user.ask("GET", "/threads").json["threads"]) == 1


def test_of_simultaneous_deliveries_one_runs(project: RemoteProject) -> None:
    hook = bind(project.user, "tool:echo", project.name)

    with ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: hook.deliver(delivery_id="same"), range(4)))

    assert [reply.status for reply in replies] == [200] * 4
    assert sum("thread_id" in reply.json for reply in replies) == 1
    assert len(project.user.ask("GET", "/threads").json["threads"]) == 1


def test_a_delivery_may_be_answered_at_once(project: RemoteProject) -> None:
    hook = bind(project.user, "tool:echo", project.name)

    answer = hook.deliver(is_async=True).json

    assert answer["status"] == "accepted"
    wait_until(lambda: project.thread(answer["thread_id"])["state"] == "completed")


def test_a_delivery_with_a_wrong_field_can_be_sent_again(
    project: RemoteProject,
) -> None:
    hook = bind(project.user, "tool:echo", project.name)

    wrong = hook.deliver(delivery_id="d-2", parameters=["no", "object"])
    right = hook.deliver(delivery_id="d-2", parameters={})

    assert (wrong.status, right.status) == (400, 200)
    assert right.json["status"] == "success"
