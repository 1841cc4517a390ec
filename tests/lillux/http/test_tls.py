"""Certificates of an authority made for the test."""

from pathlib import Path

import pytest

from lillux.errors import ConfigurationError
from lillux.http.client import HttpClient
from lillux.http.errors import ExchangeTimeoutError, TlsError
from lillux.http.model import HttpRequest
from lillux.http.trust_roots import CA_FILES
from tests.support.certificates import authority_file, context_for
from tests.support.http_servers import Server


def server(*names: str) -> Server:
    return Server(lambda e: e.answer(200, b"safe"), context_for(*names))


@pytest.mark.parametrize("variable", CA_FILES)
def test_a_named_authority_is_trusted(variable: str, tmp_path: Path) -> None:
    env = {variable: str(authority_file(tmp_path))}
    with server("localhost") as running, HttpClient(env) as http:
        assert http.send(HttpRequest(url=running.url)).body == b"safe"
        assert http.send(HttpRequest(url=running.url)).body == b"safe"


def test_an_unnamed_authority_is_not_trusted() -> None:
    with server("localhost") as running, HttpClient({}) as http, pytest.raises(TlsError) as error:
        http.send(HttpRequest(url=f"{running.url}/?token=1"))

    assert str(error.value) == (
        f"{running.url}/?...: no trusted connection: unable to get local issuer certificate"
    )
    assert running.requests == []


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    env = {"SSL_CERT_FILE": str(authority_file(tmp_path))}
    with (
        server("other.example") as running,
        HttpClient(env) as http,
        pytest.raises(TlsError, match="certificate is not valid for 'localhost'"),
    ):
        http.send(HttpRequest(url=running.url))

    assert running.requests == []


def test_an_address_needs_a_certificate_of_its_own(tmp_path: Path) -> None:
    env = {"SSL_CERT_FILE": str(authority_file(tmp_path))}
    with server("127.0.0.1") as running, HttpClient(env) as http:
        url = running.url.replace("localhost", "127.0.0.1")

        assert http.send(HttpRequest(url=url)).body == b"safe"


def test_a_server_without_tls_is_no_trusted_one() -> None:
    with (
        Server(lambda e: e.answer()) as running,
        HttpClient({}) as http,
        pytest.raises(TlsError, match="no trusted connection"),
    ):
        http.send(HttpRequest(url=running.url.replace("http:", "https:")))


def test_the_timeout_bounds_a_body_over_tls(tmp_path: Path) -> None:
    env = {"SSL_CERT_FILE": str(authority_file(tmp_path))}
    with (
        Server(lambda e: e.wait(60), context_for("localhost")) as running,
        HttpClient(env) as http,
        pytest.raises(ExchangeTimeoutError),
    ):
        http.send(HttpRequest(url=running.url, timeout_s=0.3))


def test_a_missing_file_of_authorities_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.pem"
    with (
        HttpClient({"SSL_CERT_FILE": str(missing)}) as http,
        pytest.raises(ConfigurationError, match=f"^SSL_CERT_FILE: expected.*{missing}"),
    ):
        http.send(HttpRequest(url="https://localhost:1"))


def test_plain_http_needs_no_authorities(tmp_path: Path) -> None:
    env = {"SSL_CERT_FILE": str(tmp_path / "none.pem")}
    with Server(lambda e: e.answer(200, b"plain")) as running, HttpClient(env) as http:
        assert http.send(HttpRequest(url=running.url)).body == b"plain"


def test_a_redirect_to_tls_is_followed_and_trusted_as_usual(tmp_path: Path) -> None:
    env = {"SSL_CERT_FILE": str(authority_file(tmp_path))}
    with (
        server("localhost") as running,
        HttpClient(env) as http,
        Server(lambda e: e.answer(302, b"", Location=running.url)) as plain,
    ):
        assert http.send(HttpRequest(url=plain.url)).body == b"safe"


def test_a_file_of_authorities_with_something_else_in_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_bytes(b"no certificate")
    with (
        HttpClient({"CURL_CA_BUNDLE": str(tmp_path / "x.pem")}) as http,
        pytest.raises(ConfigurationError, match=r"^CURL_CA_BUNDLE: expected a PEM file"),
    ):
        http.send(HttpRequest(url="https://localhost:1"))
