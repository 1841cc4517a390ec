"""An OpenID provider that lies, is away or was taken over signs in no attacker."""

import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey

from lillux.http.client import HttpClient
from rye_services.web.sign_in import (
    NotSignedInError,
    Provider,
    ProviderAwayError,
    ProviderSettings,
    Subject,
    is_let_in,
    is_safe_address,
    wished_name,
)
from tests.support.oidc import CLIENT_ID, CLIENT_SECRET, LyingProvider, lying_provider

BACK = "http://127.0.0.1:1/page/sign-in/back"


@pytest.fixture
def liar() -> Iterator[LyingProvider]:
    """A provider that is honest until a test changes it."""
    with lying_provider() as provider:
        yield provider


def client_of(liar: LyingProvider, ahead: timedelta = timedelta()) -> Provider:
    settings = ProviderSettings(
        issuer=liar.issuer, client_id=CLIENT_ID, client_secret=CLIENT_SECRET
    )
    return Provider(settings, HttpClient({}), lambda: datetime.now(UTC) + ahead)


def signed_in(liar: LyingProvider, provider: Provider | None = None, **claims: object) -> Subject:
    """The user who signs in, if ID tokens have these claims; None removes one."""
    client = provider or client_of(liar)
    begun = client.begin(BACK)
    liar.claims = {"nonce": begun.nonce, **claims}
    return client.finish("code", BACK, nonce=begun.nonce, verifier=begun.verifier)


def test_an_honest_answer_shows_who_signs_in(liar: LyingProvider) -> None:
    found = signed_in(
        liar, email="Ada@Example.org", email_verified=True, preferred_username="ada", groups=["dev"]
    )

    assert found == Subject(
        issuer=liar.issuer, subject="ada", name="ada", email="ada@example.org", groups=("dev",)
    )
    (_, form) = next(one for one in liar.requests if one[0] == "/token")
    assert "code_verifier=" in form


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"iss": "https://other.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"aud": "another client"}, "aud"),
        ({"aud": ["another", "client"]}, "aud"),
        ({"aud": None}, "aud"),
        ({"nonce": "of another sign-in"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"sub": None}, "sub"),
        ({"sub": 7}, "sub"),
        ({"sub": "x" * 300}, "subject"),
        ({"exp": 1}, "expired"),
        ({"exp": None}, "exp"),
        ({"iat": 4_000_000_000}, ""),
        ({"azp": "another client"}, "azp"),
    ],
)
def test_a_token_that_is_not_for_this_sign_in_is_refused(
    liar: LyingProvider, claims: dict[str, Any], problem: str
) -> None:
    with pytest.raises(NotSignedInError) as caught:
        signed_in(liar, **claims)

    assert problem in str(caught.value)


def forged(make: Callable[[LyingProvider, dict[str, Any]], str], liar: LyingProvider) -> None:
    provider = client_of(liar)
    begun = provider.begin(BACK)
    liar.claims = {"nonce": begun.nonce}
    claims = {"iss": liar.issuer, "aud": CLIENT_ID, "sub": "ada", "nonce": begun.nonce}
    now = int(datetime.now(UTC).timestamp())
    liar.token = {"id_token": make(liar, {**claims, "iat": now, "exp": now + 300})}
    with pytest.raises(NotSignedInError) as caught:
        provider.finish("code", BACK, nonce=begun.nonce, verifier=begun.verifier)
    assert "its ID token does not verify" in str(caught.value)


def unsigned(_: LyingProvider, claims: dict[str, Any]) -> str:
    import json
    from base64 import urlsafe_b64encode

    parts = ({"alg": "none"}, claims)
    texts = (urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return ".".join((*texts, ""))


def by_the_shared_secret(_: LyingProvider, claims: dict[str, Any]) -> str:
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(CLIENT_SECRET * 4))


def by_the_public_key_as_a_secret(liar: LyingProvider, claims: dict[str, Any]) -> str:
    public = liar.keys["first"].as_pem(private=False)
    return jwt.encode({"alg": "HS256", "kid": "first"}, claims, OctKey.import_key(public.hex()))


def by_a_foreign_key(liar: LyingProvider, claims: dict[str, Any]) -> str:
    liar.new_key("stranger")
    liar.published = ("first",)
    return jwt.encode({"alg": "ES256", "kid": "first"}, claims, liar.keys["stranger"])


def no_token(_: LyingProvider, __: dict[str, Any]) -> str:
    return "no token"


@pytest.mark.parametrize(
    "make",
    [
        unsigned,
        by_the_shared_secret,
        by_the_public_key_as_a_secret,
        by_a_foreign_key,
        no_token,
    ],
)
def test_a_forged_token_is_refused(
    liar: LyingProvider, make: Callable[[LyingProvider, dict[str, Any]], str]
) -> None:
    forged(make, liar)


def test_tokens_by_new_keys_of_a_provider_are_accepted(
    liar: LyingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rye_services.web.sign_in._KEYS_AGAIN_S", 0.0)
    provider = client_of(liar)
    signed_in(liar, provider)
    liar.new_key("second")
    liar.published = ("second",)

    assert signed_in(liar, provider).subject == "ada"


def test_a_key_that_a_provider_withdrew_counts_for_an_hour_at_most(
    liar: LyingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider, ahead_s = client_of(liar), 0.0
    monkeypatch.setattr("rye_services.web.sign_in.monotonic", lambda: monotonic() + ahead_s)
    signed_in(liar, provider)
    liar.new_key("second")
    liar.signs_with, liar.published = "first", ("second",)  # as a thief of the first key signs

    assert signed_in(liar, provider).subject == "ada"
    ahead_s = 3601.0
    with pytest.raises(NotSignedInError, match="does not verify"):
        signed_in(liar, provider)


def test_unknown_keys_cause_one_request_to_the_provider_in_ten_seconds(liar: LyingProvider) -> None:
    provider = client_of(liar)
    signed_in(liar, provider)
    liar.new_key("never published")
    liar.published = ("first",)

    for _ in range(5):
        with pytest.raises(NotSignedInError):
            signed_in(liar, provider)

    assert [path for path, _ in liar.requests].count("/jwks") == 1


@pytest.mark.parametrize(("minutes", "is_fine"), [(1, True), (-1, True), (8, False), (-8, False)])
def test_clocks_may_be_two_minutes_apart(
    liar: LyingProvider,
    minutes: int,
    is_fine: bool,  # noqa: FBT001 - of a table
) -> None:
    provider = client_of(liar, timedelta(minutes=minutes))

    if is_fine:
        assert signed_in(liar, provider).subject == "ada"
    else:
        with pytest.raises(NotSignedInError):
            signed_in(liar, provider)


def test_metadata_of_another_issuer_are_refused(liar: LyingProvider) -> None:
    liar.metadata = {"issuer": "https://other.example"}

    with pytest.raises(NotSignedInError, match="is of another issuer"):
        client_of(liar).begin(BACK)


@pytest.mark.parametrize("address", ["http://other.example/auth", "file:///etc/passwd", 7, None])
def test_only_https_endpoints_are_used(liar: LyingProvider, address: object) -> None:
    liar.metadata = {"authorization_endpoint": address}

    with pytest.raises(ProviderAwayError, match="expected an https address"):
        client_of(liar).begin(BACK)


def test_a_provider_that_is_away_or_broken_is_reported(liar: LyingProvider) -> None:
    liar.status = 503
    with pytest.raises(ProviderAwayError, match="status 503"):
        client_of(liar).begin(BACK)
    liar.status, liar.body = 200, b"<html>"
    with pytest.raises(ProviderAwayError, match="expected a JSON object"):
        client_of(liar).begin(BACK)
    liar.issuer = "http://127.0.0.1:9"
    with pytest.raises(ProviderAwayError):
        client_of(liar).begin(BACK)


def test_a_provider_that_never_answers_is_away_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rye_services.web.sign_in._TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        provider = client_of(LyingProvider(issuer=f"http://127.0.0.1:{silent.getsockname()[1]}"))
        began_s = monotonic()

        with pytest.raises(ProviderAwayError):
            provider.begin(BACK)

    assert monotonic() - began_s < 5


def test_an_answer_without_end_is_not_read_and_no_redirect_is_followed(
    liar: LyingProvider,
) -> None:
    liar.body = b" " * (1024 * 1024 + 1)
    with pytest.raises(ProviderAwayError):
        client_of(liar).begin(BACK)
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0.2)
        liar.status, liar.body = 302, b"{}"
        liar.location = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/"
        with pytest.raises(ProviderAwayError):
            client_of(liar).begin(BACK)
        with pytest.raises(TimeoutError):  # it got no request
            elsewhere.accept()


def test_an_address_that_the_provider_has_not_verified_does_not_count(
    liar: LyingProvider,
) -> None:
    for verified in (None, False, "true", 1):
        found = signed_in(liar, email="ada@example.org", email_verified=verified)

        assert found.email == ""
        assert not is_let_in(found, ("example.org",), ())


def test_a_user_is_let_in_by_the_exact_domain_or_group() -> None:
    def subject(email: str, *groups: str) -> Subject:
        return Subject(issuer="i", subject="s", name="", email=email, groups=groups)

    assert is_let_in(subject("a@example.org"), ("Example.org",), ())
    assert is_let_in(subject("", "dev"), (), ("dev",))
    assert not is_let_in(subject("a@example.org.evil.example"), ("example.org",), ())
    assert not is_let_in(subject("a@notexample.org"), ("example.org",), ())
    assert not is_let_in(subject("", "developers"), (), ("dev",))
    assert not is_let_in(subject(""), ("",), ())


def test_a_name_of_a_provider_becomes_a_plain_name() -> None:
    def name_of(name: str, email: str = "") -> str:
        return wished_name(Subject(issuer="i", subject="s", name=name, email=email, groups=()))

    assert name_of("Ada Lovelace") == "ada-lovelace"
    assert name_of("../../etc") == "etc"
    assert name_of("", "ada@example.org") == "ada"
    assert name_of("\u0410\u0434a") == "a"
    assert name_of("x" * 100) == "x" * 39
    assert not is_safe_address("https://a@b.example")
