from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.digests import sha256_hex
from ryeos.remote.requests import (
    HEADERS,
    WINDOW_S,
    RequestSignatureError,
    SignedRequest,
    canonical_path,
    canonical_query,
    new_nonce,
    parse_headers,
    require_recent,
    sign_request,
    string_to_sign,
    verify_request_signature,
)
from tests.support.wire_vectors import CALLER, NODE, VECTORS

AUDIENCE = f"fp:{NODE.fingerprint}"
NONCE = "00112233445566778899aabbccddeeff"
NOW_S = 1_700_000_000


def request(**changes: Any) -> dict[str, Any]:  # noqa: ANN401 - parts of a request
    """The parts of a request that its signature covers."""
    parts = {"method": "GET", "path": "/threads", "query": "limit=20", "audience": AUDIENCE}
    return {**parts, **changes}


def signed(body: bytes = b"", now_s: float = NOW_S, **changes: Any) -> dict[str, str]:  # noqa: ANN401
    return sign_request(CALLER, body=body, now_s=now_s, nonce=NONCE, **request(**changes))


def check(headers: dict[str, str], body: bytes = b"", **changes: Any) -> None:  # noqa: ANN401
    verify_request_signature(
        CALLER.public_pem, headers, body_sha256=sha256_hex(body), **request(**changes)
    )


@pytest.mark.parametrize("vector", VECTORS["signed_requests"], ids=["post", "get"])
def test_the_signature_of_a_request_matches_other_programs(vector: dict[str, Any]) -> None:
    path, _, query = vector["canonical_path"].partition("?")
    parts = {"method": vector["method"], "path": path, "query": query}
    body = vector["body"].encode()

    headers = sign_request(
        CALLER, body=body, audience=vector["audience"], now_s=NOW_S, nonce=NONCE, **parts
    )
    text = string_to_sign(
        body_sha256=sha256_hex(body),
        audience=vector["audience"],
        timestamp=NOW_S,
        nonce=NONCE,
        **parts,
    )

    assert headers == vector["headers"]
    assert text == vector["string_to_sign"]
    assert sha256_hex(text.encode()) == vector["sha256_hex_of_string"]


def test_a_signed_request_passes_in_any_case_of_its_headers() -> None:
    check({name.lower(): value for name, value in signed(b"x").items()}, b"x")
    check(signed(b"x"), b"x")


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "POST"},
        {"path": "/threads/1"},
        {"query": "limit=21"},
        {"query": ""},
        {"audience": f"fp:{CALLER.fingerprint}"},
        {"body": b"y"},
    ],
    ids=str,
)
def test_a_changed_part_is_refused(changes: dict[str, Any]) -> None:
    headers = signed(b"x")

    with pytest.raises(RequestSignatureError) as error:
        check(headers, **{"body": b"x", **changes})

    assert str(error.value) == (
        "request signature: X-Rye-Signature: not the key's over this request"
    )


@pytest.mark.parametrize(
    ("name", "value"), [("X-Rye-Timestamp", "1700000001"), ("X-Rye-Nonce", "n")]
)
def test_a_changed_header_is_refused(name: str, value: str) -> None:
    with pytest.raises(RequestSignatureError):
        check({**signed(), name: value})


@pytest.mark.parametrize("name", HEADERS)
def test_a_missing_header_is_named(name: str) -> None:
    headers = signed()
    del headers[name]

    with pytest.raises(RequestSignatureError) as error:
        parse_headers(headers)

    assert error.value.problem == f"expected the headers {name}, found none"


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_that_comes_twice_is_refused(name: str) -> None:
    headers = signed()
    headers[name.upper()] = headers[name]

    with pytest.raises(RequestSignatureError) as error:
        parse_headers(headers)

    assert error.value.problem == f"{name}: expected once, found twice"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-Rye-Key-Id", "3d4c030534b1c1c6"),
        ("X-Rye-Key-Id", "fp:3D4C030534B1C1C6"),
        ("X-Rye-Key-Id", "fp:../../etc/passwd"),
        ("X-Rye-Timestamp", "soon"),
        ("X-Rye-Timestamp", " 1700000000"),
        ("X-Rye-Timestamp", "+1700000000"),
        ("X-Rye-Timestamp", "1_700_000_000"),
        ("X-Rye-Timestamp", "\u0661\u0667"),
        ("X-Rye-Timestamp", "01"),
        ("X-Rye-Timestamp", "9" * 16),
        ("X-Rye-Nonce", ""),
        ("X-Rye-Nonce", "a b"),
        ("X-Rye-Nonce", "n" * 129),
    ],
)
def test_a_header_of_another_form_is_refused(name: str, value: str) -> None:
    with pytest.raises(RequestSignatureError) as error:
        parse_headers({**signed(), name: value})

    assert name in error.value.problem


def test_the_key_must_match_the_key_id() -> None:
    with pytest.raises(RequestSignatureError) as error:
        verify_request_signature(
            NODE.public_pem, signed(), body_sha256=sha256_hex(b""), **request()
        )

    assert error.value.problem == (
        f"X-Rye-Key-Id: expected {NODE.fingerprint}, found {CALLER.fingerprint}"
    )


def test_an_invalid_key_verifies_no_request() -> None:
    with pytest.raises(RequestSignatureError):
        verify_request_signature(b"", signed(), body_sha256=sha256_hex(b""), **request())


@pytest.mark.parametrize("audience", ["", "fp:", NODE.fingerprint])
def test_a_request_for_an_invalid_audience_is_not_signed(audience: str) -> None:
    with pytest.raises(RequestSignatureError) as error:
        signed(audience=audience)

    assert error.value.problem == "audience: expected the form fp:([0-9a-f]{16})"


def test_no_signed_part_may_contain_a_line_break() -> None:
    with pytest.raises(RequestSignatureError) as error:
        signed(path="/threads\nx")

    assert error.value.problem == "path: expected visible characters"


@pytest.mark.parametrize(
    ("age_s", "passes"), [(WINDOW_S, True), (-WINDOW_S, True), (301, False), (-301, False)]
)
def test_a_request_is_valid_for_five_minutes(age_s: int, *, passes: bool) -> None:
    request = SignedRequest(
        fingerprint=CALLER.fingerprint, timestamp=NOW_S, nonce=NONCE, signature=""
    )

    if passes:
        require_recent(request, NOW_S + age_s)
    else:
        with pytest.raises(RequestSignatureError):
            require_recent(request, NOW_S + age_s)


def test_the_order_and_the_escaping_of_a_query_are_not_signed() -> None:
    headers = signed(query="b=x%20y&a=%2f")

    check(headers, query="a=/&b=x+y")


def test_a_name_that_comes_twice_in_a_query_is_refused() -> None:
    headers = signed(query="limit=1&limit=2")

    with pytest.raises(RequestSignatureError) as error:
        check(headers, query="limit=2&limit=1")

    assert error.value.problem == "query: expected each name once"


@pytest.mark.parametrize(
    ("path", "query", "canonical"),
    [
        ("/threads", "", "/threads"),
        ("/threads", "project_path=a/b&limit=20", "/threads?limit=20&project_path=a%2Fb"),
        ("/threads", "q=a b", "/threads?q=a+b"),
        ("/threads", "empty", "/threads?empty="),
        ("/threads/rye-remote-tool:a-1", "", "/threads/rye-remote-tool:a-1"),
        ("/secrets/a?b#c\\d", "", "/secrets/a%3Fb%23c%5Cd"),
        ("/secrets/a%3Fb", "", "/secrets/a%253Fb"),
    ],
)
def test_a_path_has_one_canonical_form(path: str, query: str, canonical: str) -> None:
    assert canonical_path(path, query) == canonical


paths = st.text("/ab%?#\\.", max_size=8)
queries = st.text("ab=&+%2 ", max_size=10)


@given(paths, paths)
def test_different_paths_have_different_canonical_forms(one: str, other: str) -> None:
    assert (canonical_path(one) == canonical_path(other)) is (one == other)


@given(queries)
def test_a_canonical_query_is_unchanged(query: str) -> None:
    canonical = canonical_query(query)

    assert canonical_query(canonical) == canonical


def test_nonces_differ() -> None:
    nonces = {new_nonce() for _ in range(100)}

    assert len(nonces) == 100
    assert {len(nonce) for nonce in nonces} == {32}


def test_a_signature_is_not_shown() -> None:
    assert signed()["X-Rye-Signature"] not in repr(parse_headers(signed()))
