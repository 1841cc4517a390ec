"""Lines of the log: the request that they belong to, and the address of its client."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from starlette.datastructures import Headers

from rye_services.logs import client_address, networks_of, request_id_of
from tests.support.node import Node, running_node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

PROXIES = networks_of(["10.0.0.0/8", "fd00::/8"])


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose log is JSON, behind a proxy on this machine."""
    environ = {"RYE_NODE_LOG_FORMAT": "json", "RYE_NODE_TRUSTED_PROXIES": "127.0.0.0/8"}
    with running_node(tmp_path_factory.mktemp("json") / "node", environ=environ) as running:
        yield running


def line_about(node: Node, part: str) -> dict[str, Any]:
    """The first line of the log with this part in it."""
    return dict(json.loads(node.wait_for_line(part)))


# --- client addresses -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("peer", "headers", "address"),
    [
        ("192.0.2.1", {}, "192.0.2.1"),
        ("192.0.2.1", {"X-Forwarded-For": "203.0.113.9"}, "192.0.2.1"),
        ("10.0.0.1", {}, "10.0.0.1"),
        ("10.0.0.1", {"X-Forwarded-For": "203.0.113.9"}, "203.0.113.9"),
        ("10.0.0.1", {"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}, "203.0.113.9"),
        ("10.0.0.1", {"X-Forwarded-For": "198.51.100.1, 203.0.113.9, 10.0.0.2"}, "203.0.113.9"),
        ("10.0.0.1", {"X-Forwarded-For": "10.0.0.3, 10.0.0.2"}, "10.0.0.3"),
        ("10.0.0.1", {"X-Forwarded-For": "203.0.113.9, unknown"}, "10.0.0.1"),
        ("10.0.0.1", {"X-Forwarded-For": "203.0.113.9:4711"}, "203.0.113.9"),
        ("10.0.0.1", {"X-Forwarded-For": "2001:db8::1"}, "2001:db8::1"),
        ("::ffff:10.0.0.1", {"X-Forwarded-For": "[2001:db8::1]:80"}, "2001:db8::1"),
        ("10.0.0.1", {"Forwarded": "for=203.0.113.9;proto=https"}, "203.0.113.9"),
        ("10.0.0.1", {"Forwarded": 'for=192.0.2.7, For="[2001:db8::1]:80"'}, "2001:db8::1"),
        ("10.0.0.1", {"Forwarded": "for=203.0.113.9, for=_hidden"}, "10.0.0.1"),
        ("10.0.0.1", {"Forwarded": "for=203.0.113.9, proto=http"}, "10.0.0.1"),
        ("10.0.0.1", {"X-Forwarded-For": "9.9.9.9", "Forwarded": "for=8.8.8.8"}, "10.0.0.1"),
        ("10.0.0.1", {"X-Forwarded-For": "9.9.9.9", "Forwarded": "for=9.9.9.9"}, "9.9.9.9"),
        ("10.0.0.1", {"X-Forwarded-For": "9.9.9.9," * 900}, "10.0.0.1"),
        ("fd00::1", {"X-Forwarded-For": "203.0.113.9"}, "203.0.113.9"),
        ("", {"X-Forwarded-For": "203.0.113.9"}, ""),
    ],
)
def test_an_address_is_believed_from_trusted_proxies_alone(
    peer: str, headers: Mapping[str, str], address: str
) -> None:
    assert client_address(peer, Headers(headers), PROXIES) == address


@pytest.mark.parametrize("given", ["ab-12.C_d", "a", "7" * 64])
def test_a_request_id_of_a_trusted_proxy_is_kept(given: str) -> None:
    headers = Headers({"X-Request-Id": given})

    assert request_id_of("10.0.0.1", headers, PROXIES) == given
    assert request_id_of("192.0.2.1", headers, PROXIES) != given


@pytest.mark.parametrize("given", ["", "7" * 65, "a b", "a\nb", "-a", 'a"b', "é"])
def test_any_other_request_id_is_replaced(given: str) -> None:
    headers = Headers({"X-Request-Id": given})

    made = {request_id_of("10.0.0.1", headers, PROXIES) for _ in range(2)}

    assert len(made) == 2
    assert all(len(one) == 16 and set(one) <= set("0123456789abcdef") for one in made)


# --- lines ----------------------------------------------------------------------------------------


def test_every_line_is_json_and_says_which_request_it_is_about(node: Node) -> None:
    user = node.user()
    headers = {"X-Request-Id": "order-17", "X-Forwarded-For": "203.0.113.9"}

    reply = user.ask("GET", "/threads/nothing?secret=hunter2", headers=headers)

    line = line_about(node, "GET /threads/nothing")
    assert reply.headers["x-request-id"] == "order-17"
    assert {
        name: line[name] for name in line if name not in {"time", "duration_ms", "message"}
    } == {
        "level": "info",
        "logger": "rye_services.access",
        "request_id": "order-17",
        "user": user.user_id,
        "client": "203.0.113.9",
        "method": "GET",
        "route": "/threads/{thread_id}",
        "status": 404,
    }
    assert line["time"].endswith("+00:00")
    assert 0 < line["duration_ms"] < 10_000
    assert not any("hunter2" in one for one in node.log)
    assert all(isinstance(json.loads(one), dict) for one in node.log)


def test_a_log_line_of_a_refusal_has_the_request_id_of_the_answer(node: Node) -> None:
    reply = node.ask("GET", "/secrets", headers={"Authorization": "Bearer rye_sk_no"})

    number = reply.headers["x-request-id"]
    refused = line_about(node, number)
    assert refused["message"] == "refused a request: no such API key, or it is no longer valid"
    assert refused["client"] == "127.0.0.1"
    assert "user" not in refused


def test_a_line_of_a_page_has_the_user_who_is_logged_in(node: Node) -> None:
    user = node.user()
    form = {"Content-Type": "application/x-www-form-urlencoded", "Sec-Fetch-Site": "same-origin"}
    login = node.ask("POST", "/page/login", f"key={user.token}".encode(), headers=form)
    cookie = {"Cookie": login.headers["set-cookie"].partition(";")[0]}

    node.ask("GET", "/page/executions", headers=cookie)

    assert line_about(node, "GET /page/executions")["user"] == user.user_id


def test_a_line_break_in_a_path_starts_no_new_log_line(node: Node) -> None:
    node.ask("GET", "/a%0A%7B%22level%22%3A%22forged%22%7D")

    assert line_about(node, "forged")["logger"] == "rye_services.access"


def test_log_lines_of_an_execution_have_the_id_of_its_request(
    node: Node, workspace: Workspace
) -> None:
    project = RemoteProject.with_tools(workspace, node.user())
    accepted = project.ask("tool:echo", **{"async": True})
    thread_id = accepted.json["thread_id"]

    project.ended(thread_id)

    line = line_about(node, f"{thread_id} completed ")
    assert line["logger"] == "rye_services.executions"
    assert (line["request_id"], line["thread_id"], line["user"]) == (
        accepted.headers["x-request-id"],
        thread_id,
        project.user.user_id,
    )


def test_a_text_log_line_ends_with_its_request_id(shared_node: Node) -> None:
    reply = shared_node.ask("GET", "/numbered")

    line = shared_node.wait_for_line("/numbered")
    assert line.rstrip().endswith(f" ms [{reply.headers['x-request-id']}]")


def test_only_a_trusted_proxy_chooses_a_request_id(shared_node: Node) -> None:
    reply = shared_node.ask("GET", "/live", headers={"X-Request-Id": "mine"})

    assert reply.headers["x-request-id"] != "mine"


@pytest.mark.heavy
def test_networks_may_be_named_on_the_command_line(tmp_path: Path) -> None:
    from tests.support.node import CHECKOUT_COMMAND

    node = Node(tmp_path / "node", command=CHECKOUT_COMMAND)
    node._command += ["--trusted-proxies", "127.0.0.1,::1"]
    node.start()
    try:
        reply = node.ask("GET", "/live", headers={"X-Request-Id": "mine"})
    finally:
        node.kill()

    assert reply.headers["x-request-id"] == "mine"
