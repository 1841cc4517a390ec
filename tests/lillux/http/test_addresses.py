"""Addresses and headers that are refused before anything is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.http.errors import InvalidRequestError, InvalidUrlError
from lillux.http.model import HttpRequest, is_unencrypted, validate_request
from lillux.http.urls import is_loopback, parse_address, shown


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://Example.COM", "http://example.com/"),
        ("HTTPS://example.com:443/a?b#c", "https://example.com/a?b"),
        ("http://example.com:8080?x", "http://example.com:8080/?x"),
        ("http://[2001:DB8::1]:80/", "http://[2001:db8::1]/"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://127.0.0.1/", "http://127.0.0.1/"),
        ("http://under_score.example./x", "http://under_score.example./x"),
        ("http://a.example/%20?b=100%&c=%zz%2f", "http://a.example/%20?b=100%25&c=%25zz%2f"),
    ],
)
def test_an_address_is_written_one_way(url: str, text: str) -> None:
    assert parse_address(url).text == text


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("", "expected http:// or https://, got no scheme"),
        ("example.com/x", "expected http:// or https://, got no scheme"),
        ("ftp://example.com", "expected http:// or https://, got ftp"),
        ("file:///etc/passwd", "expected http:// or https://, got file"),
        ("http://", "expected a host, got none"),
        ("http:///x", "expected a host, got none"),
        ("http://user@example.com", "expected no user and password in an address"),
        ("http://a b/", "expected no ' ' in an address"),
        ("http://a/\r\nHost: b", "expected no '\\r' in an address"),
        ("http://a\\@b/", "expected no '\\\\' in an address"),
        ("http://a/\0", "expected no '\\x00' in an address"),
        ("http://a:0/", "expected a port from 1 to 65535, got 0"),
        ("http://a:65536/", "Port out of range 0-65535"),
        ("http://a..b/", "expected a host name, got 'a..b'"),
        ("http://-a/", "expected a host name, got '-a'"),
        ("http://a%2fb/", "expected a host name, got 'a%2fb'"),
        ("http://127.1/", "expected four numbers as in 127.0.0.1, got 127.1"),
        ("http://2130706433/", "expected four numbers as in 127.0.0.1, got 2130706433"),
        ("http://0x7f.0.0.1/", "expected four numbers as in 127.0.0.1, got 0x7f.0.0.1"),
        ("http://[::1%25eth0]/", "expected an IPv6 address without a zone"),
    ],
)
def test_an_address_of_no_web_server_is_refused(url: str, problem: str) -> None:
    with pytest.raises(InvalidUrlError) as error:
        parse_address(url)

    assert error.value.problem == problem


def test_no_message_has_a_password_or_a_query() -> None:
    assert shown("http://u:secret@h.example/a?token=secret#secret") == "http://h.example/a"
    assert parse_address("http://h/a?token=secret").shown == "http://h/a?..."


@given(st.text())
def test_any_text_is_an_address_or_an_error_of_ours(text: str) -> None:
    for url in (text, f"http://{text}", f"https://h/{text}"):
        try:
            address = parse_address(url)
        except InvalidUrlError:
            continue
        assert parse_address(address.text) == address


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_this_machine_is_known_by_name(host: str) -> None:
    assert is_loopback(host)
    assert not is_loopback(f"{host}.example")


@pytest.mark.parametrize(
    "host",
    ["", "a.localhost", "localhost.", "127.1", "0.0.0.0", "::", "::ffff:127.0.0.1", "10.0.0.1"],  # noqa: S104
)
def test_what_may_be_another_machine_is_not_this_one(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:1/a", False),
        ("http://[::1]:8", False),
        ("http://a.localhost", True),
        ("http://[::ffff:127.0.0.1]", True),
        ("http://127.0.0.1.example", True),
        ("https://example", False),
    ],
)
def test_only_http_to_another_machine_is_unencrypted(url: str, *, expected: bool) -> None:
    assert is_unencrypted(url) is expected


@pytest.mark.parametrize(
    ("headers", "problem"),
    [
        ({"A": "x\r\nB: y"}, "headers.'A': expected text without line breaks and control chara"),
        ({"A": "x\ny"}, "headers.'A': expected text without line breaks and control chara"),
        ({"A": "x\0"}, "headers.'A': expected text without line breaks and control chara"),
        ({"A\r\nB": "y"}, "headers.'A\\r\\nB': expected the name of a header"),
        ({"A:": "y"}, "headers.'A:': expected the name of a header"),
        ({"": "y"}, "headers.'': expected the name of a header"),
        ({"A": "\u20ac"}, "headers.'A': expected characters of Latin-1, found '\\u20ac'"),
        ({"Content-Length": "5"}, "headers.'Content-Length': expected no such header"),
        ({"transfer-encoding": "chunked"}, "headers.'transfer-encoding': expected no such header"),
        ({"A": "1", "a": "2"}, "headers.'a': expected it once, found it twice"),
    ],
)
def test_a_header_that_cannot_be_sent_is_refused(headers: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidRequestError) as error:
        validate_request(HttpRequest(url="http://h", headers=headers))

    assert str(error.value).startswith(f"http://h: {problem}")


@pytest.mark.parametrize("method", ["", "GET /x", "GE\r\nT", "CONNECT", "G\u00c9T"])
def test_an_invalid_method_is_refused(method: str) -> None:
    with pytest.raises(InvalidRequestError, match="method: expected a method such as GET"):
        validate_request(HttpRequest(url="http://h", method=method))


def test_a_request_shown_in_a_trace_has_no_header_and_no_body() -> None:
    request = HttpRequest(url="http://h", headers={"A": "hidden"}, body=b"hidden")

    assert "hidden" not in repr(request)
