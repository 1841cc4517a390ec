"""Proxies: chosen by variables, passed through for real."""

from pathlib import Path

import pytest

from lillux.http.client import HttpClient
from lillux.http.errors import ProxyError, TlsError
from lillux.http.model import HttpRequest
from lillux.http.proxies import proxy_for
from lillux.http.urls import parse_address
from tests.support.certificates import authority_file, context_for
from tests.support.http_servers import Server, closed_port, proxy


def ok_server(*names: str) -> Server:
    return Server(lambda e: e.answer(200, b"through"), context_for(*names) if names else None)


def test_http_goes_through_a_proxy_by_its_whole_address() -> None:
    with ok_server() as server, proxy() as between, HttpClient({"HTTP_PROXY": between.url}) as http:
        response = http.send(HttpRequest(url=f"{server.url}/a"))

    assert response.body == b"through"
    assert between.lines == [f"GET {server.url}/a HTTP/1.1"]
    assert "proxy-authorization" not in server.requests[0].headers


def test_https_goes_through_a_tunnel(tmp_path: Path) -> None:
    with ok_server("localhost") as server, proxy() as between:
        host, _, port = between.url.removeprefix("http://").partition(":")
        env = {
            "HTTPS_PROXY": f"http://user:p%40ss@{host}:{port}",
            "SSL_CERT_FILE": str(authority_file(tmp_path)),
        }
        with HttpClient(env) as http:
            request = HttpRequest(url=f"{server.url}/a", headers={"Authorization": "Bearer s"})
            response = http.send(request)

    assert response.body == b"through"
    assert between.lines[0].startswith(f"CONNECT localhost:{server.server_port} ")
    assert between.authorizations == ["Proxy-Authorization: Basic dXNlcjpwQHNz"]
    assert server.requests[0].headers["authorization"] == "Bearer s"
    assert "proxy-authorization" not in server.requests[0].headers


def test_a_tunnel_does_not_hide_a_wrong_certificate() -> None:
    with (
        ok_server("localhost") as server,
        proxy() as between,
        HttpClient({"ALL_PROXY": between.url}) as http,
        pytest.raises(TlsError),
    ):
        http.send(HttpRequest(url=server.url))


def test_an_excepted_host_is_reached_without_the_proxy() -> None:
    with (
        ok_server() as server,
        proxy() as between,
        HttpClient({"HTTP_PROXY": between.url, "NO_PROXY": "127.0.0.1"}) as http,
    ):
        assert http.send(HttpRequest(url=server.url)).body == b"through"

    assert between.lines == []


def test_a_proxy_out_of_reach_is_named() -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with HttpClient({"HTTP_PROXY": url}) as http, pytest.raises(ProxyError) as error:
        http.send(HttpRequest(url="http://name.invalid/x?y"))

    assert str(error.value) == (f"http://name.invalid/x?...: proxy {url}/: Connection refused")


def test_a_proxy_that_refuses_is_named(tmp_path: Path) -> None:
    with proxy(refuse=True) as between:
        env = {"HTTPS_PROXY": between.url, "SSL_CERT_FILE": str(authority_file(tmp_path))}
        with HttpClient(env) as http, pytest.raises(ProxyError, match="407 Proxy Auth"):
            http.send(HttpRequest(url="https://name.invalid"))


HTTP = parse_address("http://www.example.com/x")
HTTPS = parse_address("https://www.example.com/x")


@pytest.mark.parametrize(
    ("env", "http", "https"),
    [
        ({}, None, None),
        ({"HTTP_PROXY": "http://p:1"}, "http://p:1/", None),
        ({"https_proxy": "p:1"}, None, "http://p:1/"),
        ({"ALL_PROXY": "http://p:1"}, "http://p:1/", "http://p:1/"),
        ({"ALL_PROXY": "http://p:1", "HTTP_PROXY": "http://q"}, "http://q/", "http://p:1/"),
        ({"HTTP_PROXY": "http://p:1", "http_proxy": "http://q"}, "http://q/", None),
        ({"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None, None),
        ({"HTTPS_PROXY": "HTTPS://p"}, None, "https://p/"),
        ({"HTTP_PROXY": ""}, None, None),
    ],
)
def test_a_variable_chooses_a_proxy(
    env: dict[str, str], http: str | None, https: str | None
) -> None:
    chosen = [proxy_for(address, env) for address in (HTTP, HTTPS)]

    assert [one and one.address.text for one in chosen] == [http, https]


@pytest.mark.parametrize(
    ("exceptions", "url", "straight"),
    [
        ("*", "http://a.example/", True),
        ("example.com", "http://www.example.com/", True),
        (".example.com", "http://www.example.com/", True),
        ("*.example.com", "http://www.example.com/", True),
        ("EXAMPLE.com.", "http://example.com/", True),
        ("example.com", "http://badexample.com/", False),
        ("x, example.com:80", "http://example.com/", True),
        ("example.com:81", "http://example.com/", False),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.0.0.0/8", "http://11.1.2.3/", False),
        ("0.1", "http://127.0.0.1/", False),
        ("::1", "http://[::1]/", True),
        ("[::1]:80", "http://[::1]/", True),
        ("fd00::/8", "http://[fd00::1]/", True),
        ("[", "http://a.example/", False),
        ("[::1", "http://a.example/", False),
        ("a.example,[::1", "http://a.example/", True),
        ("[::1]x,[:::],//[", "http://a.example/", False),
        ("\udce9,[::1%]:x", "http://a.example/", False),
        ("a:b", "http://a.example/", False),
        (" , ", "http://a.example/", False),
    ],
)
def test_no_proxy_names_exceptions(exceptions: str, url: str, straight: bool) -> None:  # noqa: FBT001
    env = {"ALL_PROXY": "http://p:1", "NO_PROXY": exceptions}

    assert (proxy_for(parse_address(url), env) is None) is straight


def test_a_proxy_we_cannot_use_is_an_error_and_never_passed_by() -> None:
    with pytest.raises(ProxyError) as error:
        proxy_for(HTTPS, {"ALL_PROXY": "socks5://user:secret@p:1"})

    assert str(error.value) == (
        "https://www.example.com/x: proxy socks5://p:1: expected an http or https proxy, got socks5"
    )
