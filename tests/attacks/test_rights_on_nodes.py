"""Rights of a user's tools on a node of another owner, and the node's receipts of them."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest

from lillux.errors import LilluxError
from lillux.signing import generate_keypair
from lillux.supervisor import can_supervise
from ryeos.remote.replies import RemoteExecution
from ryeos.remote.run_answers import node_statement
from tests.support.node import Node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

FUNCTION = "rye/core/runtimes/python/function"
BODY = """
import socket

def execute(params, project_path):
    found = []
    for host, port in params["places"]:
        try:
            socket.create_connection((host, port), timeout=2).close()
            found.append("connected")
        except OSError as error:
            found.append(error.errno or "timeout")
    return found
"""


def with_tools(workspace: Workspace, node: Node) -> RemoteProject:
    for name, said in (
        ("mine/none", ""),
        ("mine/any", 'SANDBOX = {"network": "any"}\n'),
        ("mine/loopback", 'SANDBOX = {"network": "loopback"}\n'),
        ("mine/host", 'SANDBOX = {"network": ["127.0.0.1:80"]}\n'),
    ):
        workspace.project.signed_tool(name, BODY, executor=FUNCTION, extra=said)
    workspace.project.signed_yaml(
        "mine/ask",
        'sandbox: {network: any}\nconfig: {url: "http://127.0.0.1:9/"}\n',
        executor="rye/core/primitives/http_client",
    )
    return RemoteProject.with_tools(workspace, node.user())


@pytest.mark.skipif(not can_supervise(), reason="connections are decided by pidfd_getfd")
@pytest.mark.parametrize("item", ["mine/none", "mine/any", "mine/loopback", "mine/host"])
def test_no_tool_reaches_the_machine_of_a_node_or_its_metadata(
    workspace: Workspace, shared_node: Node, item: str
) -> None:
    project = with_tools(workspace, shared_node)
    port = shared_node.port

    answer = project.ask(
        f"tool:{item}", parameters={"places": [["127.0.0.1", port], ["169.254.169.254", 80]]}
    ).json

    assert answer["result"]["data"] == [13, 13], answer


def test_no_request_of_the_node_itself_reaches_its_machine_or_metadata(
    workspace: Workspace, shared_node: Node
) -> None:
    project = with_tools(workspace, shared_node)

    answer = project.ask("tool:mine/ask").json

    assert answer["status"] == "error"
    assert "403" in answer["result"]["error"]


# --- receipts of a node ---------------------------------------------------------------------------


@pytest.fixture
def ran(workspace: Workspace, shared_node: Node) -> RemoteExecution:
    answer = with_tools(workspace, shared_node).execute("tool:mine/none", parameters={"places": []})
    return RemoteExecution(
        thread_id=answer["thread_id"], status=answer["status"], result=answer["result"]
    )


def test_a_receipt_of_a_node_names_the_item_and_the_user(
    ran: RemoteExecution, shared_node: Node
) -> None:
    statement = node_statement(ran, shared_node.keys.signing.public_pem)

    predicate = statement["predicate"]
    assert predicate["item"] == "tool:mine/none"
    assert predicate["caller"]["node"] == shared_node.keys.node_id
    assert predicate["chain"][0]["id"] == "mine/none"
    assert predicate["rights"]["network"] == "none"
    assert predicate["status"] == "success"


def test_the_page_of_an_execution_shows_its_rights(workspace: Workspace, shared_node: Node) -> None:
    user = shared_node.user()
    workspace.project.signed_tool(
        "mine/held",
        "def execute(params):\n    return {}\n",
        executor=FUNCTION,
        extra='SANDBOX = {"network": ["api.example.org:443"]}\n',
    )
    answer = RemoteProject.with_tools(workspace, user).execute("tool:mine/held")
    form = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    body = urlencode({"key": user.token}).encode()
    session = shared_node.ask("POST", "/page/login", body, headers=form)
    cookie = {"Cookie": session.headers["set-cookie"].partition(";")[0]}

    page = shared_node.ask("GET", f"/page/thread?id={answer['thread_id']}", headers=cookie)

    assert b"<dt>may network</dt><dd>api.example.org:443</dd>" in page.body


def edited(ran: RemoteExecution, edit: Callable[[dict[str, Any]], None]) -> RemoteExecution:
    result = json.loads(json.dumps(ran.result))
    edit(result)
    return RemoteExecution(thread_id=ran.thread_id, status=ran.status, result=result)


def other_payload(result: dict[str, Any]) -> None:
    envelope = result["receipt"]["envelope"]
    said = json.loads(b64decode(envelope["payload"]))
    said["predicate"]["item"] = "tool:mine/other"
    envelope["payload"] = b64encode(json.dumps(said).encode()).decode()


def other_key(result: dict[str, Any]) -> None:
    from ryeos.remote.identity import encode_public_key

    result["receipt"]["key"]["public_key"] = encode_public_key(generate_keypair().public_pem)


@pytest.mark.parametrize(
    "edit",
    [
        other_payload,
        other_key,
        lambda result: result.update(data=["forged"]),
        lambda result: result["receipt"]["key"].update(kind="attestation/v1"),
        lambda result: result["receipt"]["envelope"].update(signatures=[]),
    ],
)
def test_a_receipt_that_was_changed_on_its_way_is_refused(
    ran: RemoteExecution, shared_node: Node, edit: Callable[[dict[str, Any]], None]
) -> None:
    with pytest.raises(LilluxError):
        node_statement(edited(ran, edit), shared_node.keys.signing.public_pem)


def test_a_receipt_of_another_node_or_another_run_is_refused(
    ran: RemoteExecution, shared_node: Node
) -> None:
    other = RemoteExecution(thread_id="rye-remote-x", status="success", result=ran.result)

    with pytest.raises(LilluxError):
        node_statement(ran, generate_keypair().public_pem)
    with pytest.raises(LilluxError, match="another thread"):
        node_statement(other, shared_node.keys.signing.public_pem)
