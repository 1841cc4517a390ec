"""A node as a process: how it starts, and how it ends."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import text

from lillux.signing import generate_keypair
from rye_services.process.server import listen
from rye_services.storage.database import REVISION, Database
from ryeos.items.errors import RyeError
from ryeos.remote.identity import encode_public_key
from tests.support.databases import database_environ
from tests.support.endings import wait_until
from tests.support.errors import coded
from tests.support.node import CHECKOUT_COMMAND, Node, Reply, User, running_node, until_killed
from tests.support.workspace import PLAIN_ENV

KEYS = "/admin/authorized-keys"


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node that is started by its command line, not forked."""
    with until_killed(Node(tmp_path / "node")) as running:
        yield running


def test_a_node_prints_its_address_and_the_command_for_clients(shared_node: Node) -> None:
    def reported() -> list[str]:
        return [line for line in shared_node.log if line.startswith("rye-node: ")]

    wait_until(lambda: len(reported()) > 1)  # it answers from the first line on
    ready, client = reported()
    node_id, url = shared_node.keys.node_id, shared_node.url
    assert ready == f"rye-node: ready on {url} ({node_id}, {shared_node.data})\n"
    assert client == f"rye-node: on a client: rye remote add default {url} --node-id {node_id}\n"


def test_a_first_start_makes_private_tables_and_data(tmp_path: Path) -> None:
    node = Node(tmp_path / "node")

    node.start()
    node.end()

    database = Database(node.settings.database_url)
    assert database.revision() == REVISION
    database.close()
    if sys.platform != "win32":
        for path in (node.data, *node.data.glob("node.*")):
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.heavy
def test_a_node_that_gets_sigterm_ends_with_status_0(node: Node) -> None:
    status = node.end()

    assert status == 0
    assert node.log[-1] == "rye-node: ended\n"


@pytest.mark.heavy
def test_a_request_under_way_is_answered_before_the_end(node: Node) -> None:
    body = b'{"public_key": "ed25519:x"}'
    head = f"POST {KEYS} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/json\r\n"
    signed = node.owner.signed_headers("POST", KEYS, body)
    head += "".join(f"{name}: {value}\r\n" for name, value in signed.items())
    with socket.create_connection(("127.0.0.1", node.port), timeout=30) as connection:
        connection.sendall(f"{head}Expect: 100-continue\r\n\r\n".encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")  # the route waits for it

        node.send_signal(signal.SIGTERM)
        connection.sendall(body)
        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert node.wait() == 0


@pytest.mark.heavy
def test_a_node_that_waits_for_a_request_reports_that_it_is_draining(node: Node) -> None:
    head = f"POST {KEYS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection(("127.0.0.1", node.port), timeout=30) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")
        before = node.ask("GET", "/ready")

        node.send_signal(signal.SIGTERM)
        node.wait_for_line("asked to end")
        during, live = node.ask("GET", "/ready"), node.ask("GET", "/live")
        connection.sendall(b"{}       ")
        answer = connection.recv(65536)

    assert (before.status, before.json["status"]) == (200, "ready")
    assert (during.status, during.json["status"]) == (503, "draining")
    assert during.json["checks"] == before.json["checks"]
    assert live.status == 200
    assert answer.startswith(b"HTTP/1.1 4")
    assert node.wait() == 0


@pytest.mark.heavy
def test_a_second_signal_ends_at_once(node: Node) -> None:
    head = f"POST {KEYS} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
    with socket.create_connection(("127.0.0.1", node.port), timeout=30) as connection:
        connection.sendall(head.encode())
        assert connection.recv(65536).startswith(b"HTTP/1.1 100 ")

        node.send_signal(signal.SIGTERM)
        node.wait_for_line("asked to end")
        node.send_signal(signal.SIGTERM)

        assert node.wait(timeout_s=20) == 0


@pytest.mark.heavy
def test_a_killed_node_starts_again_on_its_data(node: Node) -> None:
    before = node.owner.ask("GET", KEYS).json

    node.restart()

    assert node.owner.ask("GET", KEYS).json == before
    assert node.owner.ask("GET", KEYS, auth="bearer").status == 200


@pytest.mark.heavy
def test_two_processes_may_serve_the_same_data(node: Node) -> None:
    headers = node.owner.signed_headers("GET", KEYS)
    with running_node(node.data) as second:
        replies: list[Reply] = []
        askers = [
            Thread(target=lambda one=one: replies.append(one.ask("GET", KEYS, headers=headers)))
            for one in (node, second)
        ]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()

        assert second.keys.node_id == node.keys.node_id
        assert sorted(reply.status for reply in replies) == [200, 401]


@pytest.mark.heavy
def test_an_older_version_does_not_start_on_newer_tables_but_keeps_running(
    node: Node,
) -> None:
    database = Database(node.settings.database_url)
    newer = text("UPDATE alembic_version SET version_num = '9999'")
    with database.writing() as connection:  # what the first start of a newer version does
        connection.execute(newer)
    database.close()
    command = [*CHECKOUT_COMMAND, "serve", "--port", "0", "--data", str(node.data)]
    environ = {**PLAIN_ENV, **database_environ(node.data)}

    ended = subprocess.run(
        command, env=environ, capture_output=True, encoding="utf-8", check=False, timeout=60
    )

    assert ended.returncode == 6
    assert f"expected tables of version {REVISION}, found version 9999" in ended.stderr
    assert "hint: use the rye-node.pyz that made them" in ended.stderr
    assert node.owner.ask("GET", KEYS).status == 200
    body = {"secrets": [{"name": "S", "value": "v"}]}
    assert node.owner.ask("POST", "/secrets", body).status == 200


@pytest.mark.heavy
def test_the_first_key_may_come_from_the_environment(tmp_path: Path) -> None:
    pair = generate_keypair()
    environ = {
        "BOOTSTRAP_PUBLIC_KEY": encode_public_key(pair.public_pem),
        "BOOTSTRAP_LABEL": "operator of the image",
    }

    with running_node(tmp_path / "node", environ=environ) as node:
        (listed,) = User(node, pair, "").ask("GET", KEYS).json["keys"]

    assert listed["label"] == "operator of the image"
    assert listed["created_via"] == "bootstrap"


@pytest.mark.heavy
def test_an_address_in_use_is_reported(tmp_path: Path, shared_node: Node) -> None:
    command = [*CHECKOUT_COMMAND, "serve", "--data", str(tmp_path / "n")]

    ended = subprocess.run(
        [*command, "--port", str(shared_node.port)],
        env=PLAIN_ENV | {"HOME": str(tmp_path), "RYE_LOG": "warning"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    assert ended.returncode == 6
    assert ended.stderr == (
        f"error: address 127.0.0.1:{shared_node.port}: address already in use\n"
        "  hint: choose another one with --host and --port; port 0 takes any that is free\n"
    )


def test_an_unknown_host_is_reported() -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        listen("host.invalid", 0)

    assert str(error.value).startswith("address host.invalid:0: ")


def test_an_address_of_ipv6_is_written_in_brackets() -> None:
    if not socket.has_ipv6:
        pytest.skip("this Python has no IPv6")
    try:
        listener = listen("::1", 0)
    except RyeError:
        pytest.skip("this machine has no IPv6")

    with listener.socket:
        assert listener.url == f"http://[::1]:{listener.socket.getsockname()[1]}"
