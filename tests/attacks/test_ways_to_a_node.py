"""No tool reaches the node that runs it, nor its machine, whatever it calls and names."""

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from lillux.supervisor import can_supervise
from tests.support.node import Node, running_node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

# ruff: noqa: S104 - addresses that tools name, and a node that listens everywhere
pytestmark = pytest.mark.skipif(not can_supervise(), reason="connections need pidfd_getfd")

FUNCTION = "rye/core/runtimes/python/function"
TCP = """
import socket

def execute(params, project_path):
    found = {}
    for host in params["hosts"]:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as stream:
            stream.settimeout(2)
            try:
                stream.connect((host, params["port"]))
                found[host] = "connected"
            except OSError as error:
                found[host] = "refused"
    return found
"""
UDP = """
import ctypes, socket

def ways(port, host):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    place = (host, port)

    def fresh():
        made = socket.socket(family, socket.SOCK_DGRAM)
        made.settimeout(0.5)
        return made

    def sendto():
        one = fresh(); one.sendto(b"hello", place); return one

    def connected():
        one = fresh(); one.connect(place); one.send(b"hello"); return one

    def sendmsg():
        one = fresh(); one.sendmsg([b"hello"], [], 0, place); return one

    def sendmmsg():
        one = fresh(); libc = ctypes.CDLL(None, use_errno=True)
        class Vector(ctypes.Structure):
            _fields_ = [("base", ctypes.c_char_p), ("length", ctypes.c_size_t)]
        class Head(ctypes.Structure):
            _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint32),
                        ("vector", ctypes.POINTER(Vector)), ("vectors", ctypes.c_size_t),
                        ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
                        ("flags", ctypes.c_int)]
        class Message(ctypes.Structure):
            _fields_ = [("head", Head), ("length", ctypes.c_uint)]
        if family == socket.AF_INET:
            raw = (2).to_bytes(2, "little") + port.to_bytes(2, "big") + socket.inet_aton(host)
            raw += bytes(8)
        else:
            raw = (10).to_bytes(2, "little") + port.to_bytes(2, "big") + bytes(4)
            raw += socket.inet_pton(family, host) + bytes(4)
        kept = ctypes.create_string_buffer(raw, len(raw))
        vector = Vector(b"hello", 5)
        head = Head(ctypes.addressof(kept), len(raw), ctypes.pointer(vector), 1, None, 0, 0)
        message = Message(head, 0)
        if libc.sendmmsg(one.fileno(), ctypes.byref(message), 1, 0) < 0:
            raise OSError(ctypes.get_errno(), "sendmmsg")
        return one

    return [sendto, connected, sendmsg, sendmmsg]

def execute(params, project_path):
    found = {}
    for host in params["hosts"]:
        for way in ways(params["port"], host):
            try:
                found[f"{way.__name__} {host}"] = way().recv(100).decode()
            except OSError:
                pass
    return found
"""
GET = """
import urllib.request

def execute(params, project_path):
    try:
        return urllib.request.urlopen("http://example.invalid/health", timeout=5).status
    except OSError as error:
        return str(error)
"""
MACHINE = (
    *("127.0.0.1", "127.8.8.8", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"),
    *("64:ff9b::127.0.0.1", "2002:7f00:1::", "::127.0.0.1"),
)


def own_addresses() -> tuple[str, ...]:
    """Addresses of this machine besides those of loopback."""
    found = []
    for family, far in ((socket.AF_INET, "192.0.2.99"), (socket.AF_INET6, "2001:db8::99")):
        with socket.socket(family, socket.SOCK_DGRAM) as asked:
            try:
                asked.connect((far, 9))  # sends nothing: the system chooses the address
            except OSError:
                continue
            found.append(str(asked.getsockname()[0]))
    return tuple(found)


def places() -> list[str]:
    """This machine's addresses, in each form."""
    own = own_addresses()
    return [*MACHINE, *own, *(f"::ffff:{one}" for one in own if ":" not in one)]


@pytest.fixture(scope="module")
def open_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that listens on every address of its machine."""
    folder = tmp_path_factory.mktemp("open") / "node"
    with running_node(folder, environ={"RYE_NODE_HOST": "0.0.0.0"}) as node:
        yield node


@contextmanager
def answering() -> Iterator[int]:
    """A service of this machine that answers each datagram; its port."""
    service = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    service.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    service.bind(("::", 0))

    def serve() -> None:
        while True:
            try:
                said, place = service.recvfrom(100)
            except OSError:
                return
            if said == b"end":
                return
            service.sendto(b"the service says hi", place)

    thread = Thread(target=serve, daemon=True)
    with closing(service):
        thread.start()
        port = service.getsockname()[1]
        yield port
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"end", ("127.0.0.1", port))
        thread.join(5)


def test_the_service_of_these_tests_answers() -> None:
    with answering() as port, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        asked.settimeout(5)
        asked.sendto(b"hello", ("127.0.0.1", port))

        assert asked.recv(100) == b"the service says hi"


def test_no_form_of_an_address_leads_to_the_machine_by_tcp(
    workspace: Workspace, open_node: Node
) -> None:
    workspace.project.signed_tool(
        "mine/tcp", TCP, executor=FUNCTION, extra='SANDBOX = {"network": "any"}\n'
    )
    project = RemoteProject.with_tools(workspace, open_node.user())
    wanted: dict[str, Any] = {"hosts": places(), "port": open_node.port}

    answer = project.execute("tool:mine/tcp", parameters=wanted)

    assert answer["result"]["data"] == dict.fromkeys(places(), "refused")


def test_no_datagram_reaches_the_machine(workspace: Workspace, open_node: Node) -> None:
    workspace.project.signed_tool(
        "mine/udp", UDP, executor=FUNCTION, extra='SANDBOX = {"network": "any"}\n'
    )
    project = RemoteProject.with_tools(workspace, open_node.user())

    with answering() as port:
        answer = project.ask("tool:mine/udp", parameters={"hosts": places(), "port": port}).json

    assert "says hi" not in str(answer)
    assert answer["result"]["data"] == {}, answer


@pytest.mark.parametrize("block", ["any", "named"])
@pytest.mark.parametrize(
    "host",
    [
        *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::]", "0.0.0.0", "127.1.1.1", "localhost"),
        *(f"[{one}]" if ":" in one else one for one in own_addresses()),
        *(f"[::ffff:{one}]" for one in own_addresses() if ":" not in one),
    ],
)
def test_no_request_of_an_item_reaches_the_machine(
    workspace: Workspace, open_node: Node, host: str, block: str
) -> None:
    network = "any" if block == "any" else f'["{host}:{open_node.port}"]'
    workspace.project.signed_yaml(
        "mine/ask",
        f"sandbox: {{network: {network}}}\n"
        f'config: {{url: "http://{host}:{open_node.port}/health"}}\n',
        executor="rye/core/primitives/http_client",
    )
    project = RemoteProject.with_tools(workspace, open_node.user())

    answer = project.ask("tool:mine/ask").json

    assert answer["status"] == "error", answer
    assert "connected" not in str(answer).lower()


@contextmanager
def proxying() -> Iterator[tuple[int, list[str]]]:
    """A proxy on this machine that answers anything; its port, and what it was asked for."""
    asked: list[str] = []

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def test_no_secret_that_names_a_proxy_leads_requests_to_the_machine(
    workspace: Workspace, open_node: Node
) -> None:
    named = '["example.invalid:80"]'
    extra = f'SANDBOX = {{"network": {named}}}\n'
    workspace.project.signed_tool("mine/get", GET, executor=FUNCTION, extra=extra)
    body = f'sandbox: {{network: {named}}}\nconfig: {{url: "http://example.invalid/health"}}\n'
    workspace.project.signed_yaml("mine/ask", body, executor="rye/core/primitives/http_client")
    project = RemoteProject.with_tools(workspace, open_node.user())

    with proxying() as (port, asked):
        names = ("HTTP_PROXY", "http_proxy", "ALL_PROXY")
        secrets = project.envelope(**dict.fromkeys(names, f"http://127.0.0.1:{port}"))
        for item in ("mine/get", "mine/ask"):
            project.ask(f"tool:{item}", secret_envelope=secrets)

    assert asked == []
