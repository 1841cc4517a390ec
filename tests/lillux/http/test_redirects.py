"""Redirects, and headers that do not follow them."""

from collections.abc import Callable

import pytest

from lillux.http.client import HttpClient
from lillux.http.errors import RedirectError
from lillux.http.model import HttpRequest
from lillux.http.redirects import OutgoingRequest, redirected
from lillux.http.urls import parse_address
from tests.support.http_servers import Exchange, Server

SECRETS = {
    "Authorization": "Bearer s",
    "Cookie": "a=b",
    "X-API-Key": "k",
    "X-Own": "o",
    "X-Auth-Token": "t",
    "X-Plain": "p",
}


def to(location: str, status: int = 302) -> Callable[[Exchange], None]:
    def reply(exchange: Exchange) -> None:
        if exchange.path == "/start":
            exchange.answer(status, b"elsewhere", Location=location)
        else:
            exchange.answer(200, exchange.seen.method.encode())

    return reply


def test_a_redirect_is_followed_and_keeps_everything_on_one_server() -> None:
    with Server(to("/end?x=1")) as server, HttpClient({}) as http:
        response = http.send(HttpRequest(url=f"{server.url}/start", headers=SECRETS))

    assert response.url == f"{server.url}/end?..."
    assert server.requests[1].target == "/end?x=1"
    assert {name: server.requests[1].headers[name.lower()] for name in SECRETS} == SECRETS


def test_secrets_do_not_follow_to_another_server() -> None:
    with (
        Server(lambda e: e.answer()) as other,
        Server(to(f"{other.url}/end")) as server,
        HttpClient({}) as http,
    ):
        request = HttpRequest(
            url=f"{server.url}/start", headers=SECRETS, secret_headers=frozenset({"X-Own"})
        )
        http.send(request)

    assert server.requests[0].headers["authorization"] == "Bearer s"
    assert [name for name in SECRETS if name.lower() in other.requests[0].headers] == ["X-Plain"]


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"),
        (302, "POST", "GET"),
        (303, "PUT", "GET"),
        (302, "PUT", "PUT"),
        (307, "POST", "POST"),
        (308, "POST", "POST"),
        (303, "HEAD", "HEAD"),
    ],
)
def test_methods_change_as_in_browsers(status: int, method: str, then: str) -> None:
    with Server(to("/end", status)) as server, HttpClient({}) as http:
        http.send(
            HttpRequest(
                method=method,
                url=f"{server.url}/start",
                body=b"{}",
                headers={"Content-Type": "application/json"},
            )
        )

    seen = server.requests[1]
    keeps_body = then == method
    assert seen.method == then
    assert (seen.body, "content-type" in seen.headers) == (b"{}" if keeps_body else b"", keeps_body)


def test_five_redirects_are_followed_and_no_more() -> None:
    def count(exchange: Exchange) -> None:
        number = int(exchange.path[1:])
        if number:
            exchange.answer(302, b"", Location=f"/{number - 1}")
        else:
            exchange.answer(200, b"there")

    with Server(count) as server, HttpClient({}) as http:
        assert http.send(HttpRequest(url=f"{server.url}/5")).body == b"there"
        with pytest.raises(RedirectError) as error:
            http.send(HttpRequest(url=f"{server.url}/6"))

    assert error.value.problem == "expected at most 5 redirects, got more"


def test_no_redirect_is_followed_when_the_limit_is_zero() -> None:
    with Server(to("/end")) as server, HttpClient({}) as http:
        response = http.send(HttpRequest(url=f"{server.url}/start", max_redirects=0))

    assert (response.status, response.headers["location"]) == (302, "/end")


def sending(url: str) -> OutgoingRequest:
    return OutgoingRequest(address=parse_address(url), method="GET", headers=SECRETS, body=None)


def test_no_redirect_leads_away_from_tls() -> None:
    with pytest.raises(RedirectError) as error:
        redirected(sending("https://a.example/x"), 302, "http://a.example/y?token=1", frozenset())

    assert str(error.value) == (
        "https://a.example/x: redirects from https to http://a.example/y?...,"
        " where others could read along"
    )


def test_the_same_server_over_tls_is_the_same_server() -> None:
    then = redirected(sending("http://a.example/x"), 301, "https://a.example/x", frozenset())

    assert then.headers == SECRETS


@pytest.mark.parametrize(
    "location",
    ["http://b.example/", "http://a.example:81/", "https://a.example:8443/", "//b.example/"],
)
def test_another_name_port_or_scheme_is_another_server(location: str) -> None:
    then = redirected(sending("http://a.example/"), 302, location, frozenset({"x-own"}))

    assert then.headers == {"X-Plain": "p"}


@pytest.mark.parametrize(
    "location",
    [
        "file:///etc/passwd",
        "javascript:1",
        "http://u:p@b.example/",
        "http://[x/",
        "ftp://b",
    ],
)
def test_a_redirect_to_no_web_server_is_refused(location: str) -> None:
    with pytest.raises(RedirectError, match=r"^http://a\.example/: redirects to no address"):
        redirected(sending("http://a.example/"), 302, location, frozenset())
