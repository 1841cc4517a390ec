"""Sign-in by OpenID Connect: asks a provider who a person is, and verifies its answer.

The door of Authlib. The flow is that of the authorization code with PKCE, state and nonce; each
answer is for the browser that began it, once, within ten minutes, whichever server it comes to.
Page: ``docs/teams.md``, Sign-in.
"""

import json
import secrets
from collections.abc import Mapping
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from lillux.errors import LilluxError
from lillux.http.errors import HttpClientError
from lillux.http.model import HttpRequest, is_unencrypted
from lillux.values import dataclass
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import RyeError

if TYPE_CHECKING:
    from joserfc.jwk import KeySet

    from lillux.http.client import HttpClient

SCOPES = "openid email profile"
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Of signatures that are believed: none by a secret that both sides have, and not ``none``."""

LEEWAY_S = 120
"""How far the clocks of a provider and of this server may be apart."""

_TIMEOUT_S = 10.0
_MOST_BYTES = 1024 * 1024
_KEPT_S = 3600.0
_KEYS_AGAIN_S = 10.0
_LONGEST_TEXT = 255


class ProviderAwayError(RyeError):
    """The provider does not answer, or not as one does. Trying again may help."""

    code = "HTTP_UNREACHABLE"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the sign-in provider: {problem}", hint="try again in a while")


class NotSignedInError(RyeError):
    """What a provider, or a browser, said does not show who the person is."""

    code = "PERMISSION_DENIED"

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"sign-in: {problem}", hint="begin the sign-in once more")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A person whom a provider knows. ``email`` is "" unless the provider has verified it."""

    issuer: str
    subject: str
    name: str
    email: str
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderSettings:
    """What a provider knows this node by."""

    issuer: str
    client_id: str
    client_secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BegunSignIn:
    """A sign-in that has begun: where the browser goes, and what is kept until it comes back."""

    url: str
    state: str
    nonce: str
    verifier: str


class Provider:
    """Asks one OpenID provider. Thread-safe; nothing is asked before the first sign-in."""

    def __init__(
        self, settings: ProviderSettings, client: "HttpClient", clock: Clock = utc_now
    ) -> None:
        self._settings, self._client, self._clock = settings, client, clock
        self._metadata: tuple[float, Mapping[str, Any]] | None = None
        self._keys: tuple[float, KeySet] | None = None
        self._lock = Lock()

    def begin(self, redirect_uri: str) -> BegunSignIn:
        """A new sign-in. Raises ProviderAwayError, NotSignedInError."""
        from authlib.oauth2.rfc6749.parameters import (  # type: ignore[import-untyped]
            prepare_grant_uri,
        )
        from authlib.oauth2.rfc7636 import (  # type: ignore[import-untyped]
            create_s256_code_challenge,
        )

        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        url = prepare_grant_uri(
            self._endpoint("authorization_endpoint"),
            client_id=self._settings.client_id,
            response_type="code",
            redirect_uri=redirect_uri,
            scope=SCOPES,
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return BegunSignIn(url=str(url), state=state, nonce=nonce, verifier=verifier)

    def finish(self, code: str, redirect_uri: str, *, nonce: str, verifier: str) -> Subject:
        """Who has signed in.

        1. the provider gives a token for the code, to the holder of the verifier
        2. it is signed by one of its keys, by no weak algorithm
        3. it is of this provider, for this node, of these minutes, for this sign-in (nonce)

        Raises ProviderAwayError, NotSignedInError.
        """
        answer = self._token(code, redirect_uri, verifier)  # (1)
        id_token = answer.get("id_token")
        if not isinstance(id_token, str) or not id_token.isascii():
            raise NotSignedInError("the provider gave no ID token")
        header, claims = self._verify_token(id_token)  # (2)
        return self._subject(header, claims, nonce, str(answer.get("access_token") or ""))  # (3)

    def _token(self, code: str, redirect_uri: str, verifier: str) -> Mapping[str, Any]:
        body = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
            "client_id": self._settings.client_id,
            "client_secret": self._settings.client_secret,
        }
        form = urlencode({name: value for name, value in body.items() if value}).encode()
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        status, answer = self._request("POST", self._endpoint("token_endpoint"), headers, form)
        if status != 200:  # noqa: PLR2004 - OK
            raise NotSignedInError(f"the provider refused the code: {_plain(answer.get('error'))}")
        return answer

    def _verify_token(self, id_token: str) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Header and claims. A key that is not known yet may be a new one: it is looked for."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        for keys in (self._key_set, self._new_key_set):
            try:
                token = jwt.decode(id_token, keys(), algorithms=list(ALGORITHMS))
            except (JoseError, ValueError, TypeError) as error:
                problem = f"its ID token does not verify: {_plain(error)}"
                continue
            return token.header, token.claims
        raise NotSignedInError(problem)

    def _subject(
        self,
        header: Mapping[str, Any],
        claims: Mapping[str, Any],
        nonce: str,
        access_token: str,
    ) -> Subject:
        from authlib.oidc.core.claims import CodeIDToken  # type: ignore[import-untyped]
        from joserfc.errors import JoseError

        settings = self._settings
        checked = CodeIDToken(
            dict(claims),
            dict(header),
            options={
                "iss": {"essential": True, "value": settings.issuer},
                "aud": {"essential": True, "value": settings.client_id},
                "sub": {"essential": True},
            },
            params={
                "nonce": nonce,
                "client_id": settings.client_id,
                "access_token": access_token,
            },
        )
        try:
            checked.validate(now=int(self._clock().timestamp()), leeway=LEEWAY_S)
        except (JoseError, ValueError, TypeError, LookupError) as error:
            raise NotSignedInError(f"its ID token is not for this: {_plain(error)}") from error
        subject = claims.get("sub")
        if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_TEXT:
            raise NotSignedInError("its ID token names no subject")
        is_verified = claims.get("email_verified") is True
        groups = claims.get("groups")
        return Subject(
            issuer=settings.issuer,
            subject=subject,
            name=_plain(claims.get("preferred_username") or claims.get("name") or ""),
            email=_plain(claims.get("email") or "").lower() if is_verified else "",
            groups=tuple(map(str, groups)) if isinstance(groups, list) else (),
        )

    # --- what the provider says of itself ---------------------------------------------------------

    def _endpoint(self, name: str) -> str:
        found = self._provider_metadata().get(name)
        if not isinstance(found, str) or not is_safe_address(found):
            raise ProviderAwayError(f"{name}: expected an https address, found {_plain(found)}")
        return found

    def _provider_metadata(self) -> Mapping[str, Any]:
        """Its metadata, kept for an hour; another provider's are not believed."""
        with self._lock:
            known = self._metadata
        if known is not None and monotonic() - known[0] < _KEPT_S:
            return known[1]
        issuer = self._settings.issuer
        address = f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        status, found = self._request("GET", address)
        if status != 200:  # noqa: PLR2004 - OK
            raise ProviderAwayError(f"{address} is answered with status {status}")
        if found.get("issuer") != issuer:
            raise NotSignedInError(f"{address} is of another issuer: {_plain(found.get('issuer'))}")
        with self._lock:
            self._metadata = monotonic(), found
        return found

    def _key_set(self) -> "KeySet":
        with self._lock:
            known = self._keys
        if known is not None and monotonic() - known[0] < _KEPT_S:
            return known[1]
        return self._new_key_set()

    def _new_key_set(self) -> "KeySet":
        """The keys as they are now; asked for every ten seconds at most."""
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        with self._lock:
            known = self._keys
        if known is not None and monotonic() - known[0] < _KEYS_AGAIN_S:
            return known[1]
        status, found = self._request("GET", self._endpoint("jwks_uri"))
        if status != 200:  # noqa: PLR2004 - OK
            raise ProviderAwayError(f"its keys are answered with status {status}")
        try:
            keys = KeySet.import_key_set(found)  # type: ignore[arg-type]
        except (JoseError, ValueError, TypeError, LookupError) as error:
            raise ProviderAwayError(f"its keys cannot be read: {_plain(error)}") from error
        with self._lock:
            self._keys = monotonic(), keys
        return keys

    def _request(
        self,
        method: str,
        address: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> tuple[int, Mapping[str, Any]]:
        if not is_safe_address(address):
            raise ProviderAwayError(f"expected an https address, found {_plain(address)}")
        request = HttpRequest(
            method=method,
            url=address,
            headers={"Accept": "application/json", **(headers or {})},
            body=body,
            timeout_s=_TIMEOUT_S,
            max_response_bytes=_MOST_BYTES,
            max_redirects=0,
        )
        try:
            response = self._client.send(request)
        except HttpClientError as error:
            raise ProviderAwayError(f"{address}: {error.problem}") from error
        except LilluxError as error:
            raise ProviderAwayError(str(error)) from error
        try:
            found = json.loads(response.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ProviderAwayError(f"{address}: expected a JSON object")
        return response.status, found


def is_safe_address(address: str) -> bool:
    """Whether no one on the way can change what comes from there: https, or this machine."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    if parts.username is not None or parts.password is not None or not parts.hostname:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and not is_unencrypted(address))


def _plain(value: object) -> str:
    """A text of others for a message: one line, short."""
    return ascii(str(value)[:120])[1:-1]


# --- who is let in --------------------------------------------------------------------------------


def is_let_in(subject: Subject, domains: tuple[str, ...], groups: tuple[str, ...]) -> bool:
    """Whether a person may use the node at once: by their verified address, or by a group."""
    domain = subject.email.rpartition("@")[2]
    is_of_domain = bool(domain) and domain in {one.lower().removeprefix("@") for one in domains}
    return is_of_domain or bool(set(groups) & set(subject.groups))


def wished_name(subject: Subject) -> str:
    """A name that a person may get: of what a provider calls them, what names can be made of."""
    text = subject.name.partition("@")[0] or subject.email.partition("@")[0]
    plain = "".join(one if one.isascii() and one.isalnum() else "-" for one in text.lower())
    return "-".join(part for part in plain.split("-") if part)[:39].rstrip("-")
