"""The proxy that leads to named hosts: forwarded and refused requests."""

import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from urllib.parse import urlsplit

import pytest

from lillux.addresses import is_public
from lillux.attempts import Attempt
from lillux.http.forwarder import ANYWHERE, Forwarder, Hosts, fits


class Echo(BaseHTTPRequestHandler):
    """Answers with the request that it got."""

    def do_GET(self) -> None:
        body = f"{self.path} {self.headers['Host']} {self.headers['Proxy-Authorization']}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def port() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def ask(forwarder: Forwarder, head: str, rest: bytes = b"", *, shows: bool = True) -> str:
    """All that the forwarder answers to a request, which shows its secret."""
    url = urlsplit(forwarder.variables()["HTTP_PROXY"])
    pair = b64encode(f"{url.username}:{url.password}".encode()).decode()
    line, _, fields = head.partition("\r\n")
    if shows:
        head = f"{line}\r\nProxy-Authorization: Basic {pair}\r\n{fields}"
    with socket.create_connection(("127.0.0.1", forwarder.port), timeout=10) as client:
        client.sendall(head.encode() + rest)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
    return answer.decode()


def get(target: str) -> str:
    return f"GET {target} HTTP/1.1\r\nHost: elsewhere.example\r\n\r\n"


def connect(target: str) -> str:
    return f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n"


def found(*addresses: str) -> Callable[..., list[object]]:
    """A resolver that answers with these addresses, the next one each time."""
    left = list(addresses)

    def resolve(_: str, port: int, **__: object) -> list[object]:
        address = left.pop(0) if len(left) > 1 else left[0]
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [(family, socket.SOCK_STREAM, 6, "", (address, port))]

    return resolve


def test_a_plain_request_goes_to_the_host_that_its_address_names(port: int) -> None:
    forwarder = Forwarder(Hosts((f"127.0.0.1:{port}",)))

    answer = ask(forwarder, get(f"http://127.0.0.1:{port}/a?b=c#d"))

    assert answer.endswith(f"/a?b=c 127.0.0.1:{port} None")


def test_a_client_without_its_secret_is_refused(port: int) -> None:
    forwarder = Forwarder(Hosts((f"127.0.0.1:{port}",)))
    wrong = get(f"http://127.0.0.1:{port}/").replace(
        "\r\n\r\n", "\r\nProxy-Authorization: Basic cnllOng=\r\n\r\n"
    )

    attempts: list[Attempt] = []
    with forwarder.hearers.heard_by(attempts.append):
        answers = [
            ask(forwarder, one, shows=False) for one in (get(f"http://127.0.0.1:{port}/"), wrong)
        ]

    assert [answer.split()[1] for answer in answers] == ["407", "407"]
    assert attempts == []


def test_a_tunnel_leads_to_a_named_host_and_carries_both_ways(port: int) -> None:
    forwarder = Forwarder(Hosts((f"localhost:{port}",)))
    inner = b"GET /inside HTTP/1.0\r\nHost: a\r\n\r\n"

    answer = ask(forwarder, connect(f"localhost:{port}"), inner)

    assert answer.startswith("HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.0 200 OK")
    assert answer.endswith("/inside a None")


@pytest.mark.parametrize(
    "request_text",
    [
        connect("other.example:443"),
        connect("api.example:80"),
        connect("xapi.example:443"),
        connect("api.example.evil.example:443"),
        get("http://other.example/"),
        get("http://api.example:443@evil.example/"),
    ],
)
def test_other_hosts_and_ports_are_refused_by_name(request_text: str) -> None:
    forwarder = Forwarder(Hosts(("api.example:443",)), found("192.0.2.1"))

    attempts: list[Attempt] = []
    with forwarder.hearers.heard_by(attempts.append):
        answer = ask(forwarder, request_text)

    assert answer.startswith(("HTTP/1.1 403 Forbidden", "HTTP/1.1 400 Bad Request"))
    assert all(one.was_refused for one in attempts)


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("0.0.0.0",),  # noqa: S104 - nothing listens here
        *("100.64.0.1", "::1", "fe80::1", "fd00:ec2::254", "::ffff:10.0.0.1", "64:ff9b::a00:1"),
        *("2002:7f00:1::", "224.0.0.1", "fc00::1"),
    ],
)
def test_a_name_that_leads_to_a_private_address_is_refused(address: str) -> None:
    forwarder = Forwarder(Hosts(("api.example:443",)), found(address))

    answer = ask(forwarder, connect("api.example:443"))

    assert answer.startswith("HTTP/1.1 403 Forbidden")
    assert "private address" in answer


def test_a_name_is_looked_up_once_so_that_it_cannot_change_in_between(port: int) -> None:
    looked_up: list[str] = []
    resolve = found("192.0.2.1", "127.0.0.1")

    def noted(host: str, wanted: int, **more: object) -> list[object]:
        looked_up.append(host)
        return resolve(host, wanted, **more)

    forwarder = Forwarder(Hosts((f"localhost:{port}",), private=()), noted)
    ask(forwarder, connect(f"localhost:{port}"))

    assert looked_up == ["localhost"]


def test_a_private_host_is_reached_where_the_user_allows_it(port: int) -> None:
    closed = Forwarder(Hosts((f"git.corp:{port}",)), found("127.0.0.1"))
    by_name = Forwarder(Hosts((f"git.corp:{port}",), ("git.corp",)), found("127.0.0.1"))
    by_network = Forwarder(Hosts((f"git.corp:{port}",), ("127.0.0.0/8",)), found("127.0.0.1"))

    answers = [ask(one, get(f"http://git.corp:{port}/")) for one in (closed, by_name, by_network)]

    assert [answer.split()[1] for answer in answers] == ["403", "200", "200"]


def test_a_node_leads_anywhere_but_to_itself_and_its_link(port: int) -> None:
    forwarder = Forwarder(Hosts((ANYWHERE,)))

    assert ask(forwarder, get(f"http://127.0.0.1:{port}/")).split()[1] == "403"
    assert ask(forwarder, get("http://169.254.169.254/latest")).split()[1] == "403"


def test_the_proxy_of_the_user_is_used_and_its_password_is_not_the_clients(port: int) -> None:
    env = (("http_proxy", f"http://me:secret@127.0.0.1:{port}"),)
    forwarder = Forwarder(Hosts(("api.example:80",), (), env))

    answer = ask(forwarder, get("http://api.example/a"))

    assert answer.endswith("http://api.example/a api.example Basic bWU6c2VjcmV0")


@pytest.mark.parametrize(
    "head",
    [
        *("GET / HTTP/1.1\r\n\r\n", "nonsense\r\n\r\n", "CONNECT a HTTP/1.1\r\n\r\n"),
        *("CONNECT a:99999 HTTP/1.1\r\n\r\n", "GET ftp://a/ HTTP/1.1\r\n\r\n"),
        "GET http://a/ HTTP/1.1\r\n" + "x: y\r\n" * 20_000,
        "GET http://a:b/ HTTP/1.1\r\n\r\n",
    ],
)
def test_an_invalid_request_gets_an_answer_and_no_connection(head: str) -> None:
    forwarder = Forwarder(Hosts(("a:80",)), found("192.0.2.1"))

    try:
        answer = ask(forwarder, head)
    except OSError:  # it hung up because the request was too long
        answer = "HTTP/1.1 400"

    assert answer.startswith("HTTP/1.1 400")


@pytest.mark.parametrize(
    ("pattern", "host", "is_meant"),
    [
        ("a.example:443", "a.example", True),
        ("a.example:443", "A.EXAMPLE.", True),
        ("*.example.org:443", "a.example.org", True),
        ("*.example.org:443", "a.b.example.org", True),
        ("*.example.org:443", "example.org", False),
        ("*.example.org:443", "evilexample.org", False),
        ("[::1]:443", "::1", True),
        ("a.example:80", "a.example", False),
    ],
)
def test_patterns_name_hosts(pattern: str, host: str, *, is_meant: bool) -> None:
    assert fits(pattern, host, 443) is is_meant


def test_addresses_of_the_internet_are_public() -> None:
    assert is_public(ip_address("1.1.1.1"))
    assert is_public(ip_address("2606:4700::1111"))
    assert not is_public(ip_address("198.18.0.1"))
