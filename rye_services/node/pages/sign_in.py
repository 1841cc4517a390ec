"""Routes of sign-in: by an OpenID provider for pages, and of a machine's key by its person.

A sign-in on its way is a row, found by the digest of a secret that only who began it has, and used
up once. Page: ``docs/teams.md``, Sign-in.
"""

import secrets
from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from sqlalchemy import delete, func, insert, select, update
from starlette.responses import Response

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.foreign_text import printable
from lillux.http.client import HttpClient
from lillux.shapes import write
from lillux.signing import compute_key_fingerprint
from lillux.values import dataclass
from rye_services.node.answers import NewSignInAnswer, SignInStateAnswer
from rye_services.node.pages.routes import PERSON_SCOPES, Guest, Pages, is_https, with_session
from rye_services.node.services import NodeServices
from rye_services.node.team_routes import refused
from rye_services.people.actors import Actor, acting
from rye_services.people.credentials import ACCOUNT
from rye_services.people.people import OPEN
from rye_services.storage.database import Database, sign_ins
from rye_services.web.http import RequestProblem, client_address
from rye_services.web.openapi import answers
from rye_services.web.page import DEVICE, SIGN_IN, SIGN_IN_BACK
from rye_services.web.sign_in import (
    NotSignedInError,
    Provider,
    ProviderAwayError,
    ProviderSettings,
    Subject,
    is_let_in,
)
from ryeos import __version__
from ryeos.items.errors import RyeError
from ryeos.remote.identity import decode_public_key

SIGN_IN_S, POLL_S = 600, 3
MOST_ON_THEIR_WAY = 2000
_COOKIE = "rye_sign_in"
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
_BROWSER, _MACHINE = "browser", "machine"
_columns = sign_ins.c
_NO_PROVIDER = "This node has no sign-in provider: log in with an API key."


# --- sign-ins on their way ------------------------------------------------------------------------


class SignIns:
    """Sign-ins on their way, in the database. Thread-safe, and so across processes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(
        self, secret: str, kind: str, facts: Mapping[str, Any], *, now_s: float, user_code: str = ""
    ) -> None:
        """Keep one until its time is over. Raises RequestProblem, 503: there are too many."""
        row: dict[str, Any] = {"id_hash": _hash(secret), "kind": kind, "facts": dict(facts)}
        row |= {"user_code": user_code or None, "until_s": now_s + SIGN_IN_S}
        with self._database.writing() as connection:
            connection.execute(delete(sign_ins).where(_columns.until_s < now_s))
            count = connection.scalar(select(func.count()).select_from(sign_ins)) or 0
            if count >= MOST_ON_THEIR_WAY:
                words = "too many sign-ins are on their way"
                raise RequestProblem(503, words, {"Retry-After": "60"})
            connection.execute(insert(sign_ins).values(**row))

    def use_up(self, secret: str, kind: str, now_s: float) -> dict[str, Any] | None:
        """What was kept of one, the first time; None for one that is over or never was."""
        is_it = (_columns.id_hash == _hash(secret)) & (_columns.kind == kind)
        with self._database.writing() as connection:
            found = connection.execute(
                delete(sign_ins).where(is_it).returning(_columns.facts, _columns.until_s)
            ).first()
        return None if found is None or found.until_s <= now_s else dict(found.facts)

    def state(self, secret: str, now_s: float) -> tuple[str, str]:
        """How that of a machine is: ``waiting``, ``approved``, ``refused``, ``over``; and who."""
        query = select(_columns.facts, _columns.user_id).where(
            _columns.id_hash == _hash(secret),
            _columns.kind == _MACHINE,
            _columns.until_s > now_s,
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None:
            return "over", ""
        return str(row.facts.get("state", "waiting")), row.user_id or ""

    def of_machine(self, user_code: str, now_s: float) -> dict[str, Any] | None:
        """What a machine asks for, by the code that its person reads there."""
        query = select(_columns.facts).where(_is_open(user_code, now_s))
        with self._database.reading() as connection:
            found = connection.scalar(query)
        return None if found is None or "state" in found else dict(found)

    def decide(self, user_code: str, user_id: str, state: str, now_s: float) -> bool:
        """Approve or refuse a machine, once; False where that was done, or it is too late."""
        with self._database.writing(lock=f"sign-in {user_code}") as connection:
            facts = connection.scalar(select(_columns.facts).where(_is_open(user_code, now_s)))
            if facts is None or "state" in facts:
                return False
            change = update(sign_ins).where(_is_open(user_code, now_s))
            decided = {"facts": {**facts, "state": state}, "user_id": user_id}
            connection.execute(change.values(**decided))
        return True


def _is_open(user_code: str, now_s: float) -> Any:  # noqa: ANN401 - SQLAlchemy's
    return (_columns.user_code == user_code) & (_columns.until_s > now_s)


def _hash(secret: str) -> str:
    return sha256_hex(secret.encode("utf-8", "surrogateescape"))


def open_provider(services: NodeServices, environ: Mapping[str, str]) -> Provider | None:
    """The provider that the settings name; None for none. Nothing is asked yet."""
    settings = services.settings
    if not settings.oidc_issuer:
        return None
    known = ProviderSettings(
        issuer=settings.oidc_issuer,
        client_id=settings.oidc_client_id,
        client_secret=settings.oidc_client_secret,
    )
    client = HttpClient(environ, user_agent=f"rye-node/{__version__}")
    return Provider(known, client, services.clock)


# --- of people, by a provider ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _SignInServices:
    """What the routes of sign-in share."""

    pages: Pages
    provider: Provider | None
    sign_ins: SignIns

    @property
    def now_s(self) -> float:
        """The time, in seconds since 1970."""
        return self.pages.services.clock().timestamp()

    def begin(self, request: Request, invitation: str) -> Response:
        """Send a browser to the provider. What is kept is for this browser alone."""
        if self.provider is None:
            return self.pages.message(None, "Sign in", _NO_PROVIDER, 404)
        try:
            begun = self.provider.begin(_address(self.pages, request, SIGN_IN_BACK))
        except ProviderAwayError as error:
            return self.pages.message(None, "Sign in", f"{error}. {error.hint}.", 503)
        except NotSignedInError as error:
            return self.pages.message(None, "Sign in", str(error), 403)
        browser = secrets.token_urlsafe(32)
        facts = {"nonce": begun.nonce, "verifier": begun.verifier, "browser": _hash(browser)}
        facts |= {"invitation": invitation}
        self.sign_ins.begin(begun.state, _BROWSER, facts, now_s=self.now_s)
        answer = self.pages.open_page(
            "node/sign_in.html", url=begun.url, host=urlsplit(begun.url).hostname or ""
        )
        answer.set_cookie(
            _COOKIE,
            browser,
            max_age=SIGN_IN_S,
            path=SIGN_IN,
            httponly=True,
            samesite="lax",  # it comes back by a link of the provider
            secure=is_https(request),
        )
        return answer

    def finish(self, request: Request, state: str, code: str, error: str) -> Response:
        """Sign a person in who comes back from the provider. A message says why not."""
        try:
            subject, invitation = self._subject(request, state, code, error)
            user_id = self._let_in(subject, invitation)
        except ProviderAwayError as problem:
            return self.pages.message(None, "Sign in", f"{problem}. {problem.hint}.", 503)
        except RyeError as problem:
            hint = f" ({problem.hint})" if problem.hint else ""
            return self.pages.message(None, "Sign in", f"{problem}{hint}.", 403)
        cookie = self.pages.gate.log_in(user_id, None, client_address(request))
        # A browser sends a strict cookie with nothing that a foreign page has begun: this page
        # begins the next request itself.
        answer = with_session(request, self.pages.open_page("node/signed_in.html"), cookie)
        answer.delete_cookie(_COOKIE, path=SIGN_IN)
        return answer

    def _subject(self, request: Request, state: str, code: str, error: str) -> tuple[Subject, str]:
        """Who comes back, and the invitation that they began with. Raises NotSignedInError."""
        facts = self.sign_ins.use_up(state, _BROWSER, self.now_s) if state else None
        if facts is None or self.provider is None:
            raise NotSignedInError("it is over, was used before, or was never begun here")
        if _hash(request.cookies.get(_COOKIE, "")) != facts["browser"]:
            raise NotSignedInError("another browser has begun it")
        if error or not code:
            raise NotSignedInError(f"the provider says {ascii(error[:80])[1:-1] or 'nothing'}")
        back = _address(self.pages, request, SIGN_IN_BACK)
        subject = self.provider.finish(code, back, nonce=facts["nonce"], verifier=facts["verifier"])
        return subject, str(facts.get("invitation") or "")

    def _let_in(self, subject: Subject, invitation: str) -> str:
        """The user that a person is, who may use the node.

        1. a new one may use it at once by their address or group, else they wait
        2. who waits is let in by an invitation

        Raises NotSignedInError, RefusedError `PERMISSION_DENIED`.
        """
        services, settings = self.pages.services, self.pages.services.settings
        let_in = is_let_in(subject, settings.oidc_allowed_domains, settings.oidc_allowed_groups)
        user_id, state = services.people.of_subject(subject, is_let_in=let_in)  # (1)
        with acting(Actor(user_id)):
            if invitation:  # (2)
                emails = (subject.email,) if subject.email else ()
                services.teams.accept(invitation, user_id, emails=emails)
                state = services.people.state_of(user_id)
        if state != OPEN:
            raise NotSignedInError(
                f"{user_id or 'you'} may not use this node yet: an invitation lets you in,"
                f" or its operator: rye-node.pyz users open {user_id}"
            )
        return user_id


def _address(pages: Pages, request: Request, path: str) -> str:
    """The address of a page of this node, as people and the provider know it."""
    base = pages.services.settings.public_url or f"{request.url.scheme}://{request.url.netloc}"
    return f"{base.rstrip('/')}{path}"


Text = Annotated[str, Query(max_length=4096)]
Short = Annotated[str, Query(max_length=200)]


def sign_in_router(pages: Pages, environ: Mapping[str, str]) -> APIRouter:
    """The pages of sign-in. No OpenAPI document lists them."""
    routes = APIRouter(include_in_schema=False)
    services = pages.services
    doors = _SignInServices(pages, open_provider(services, environ), SignIns(services.database))

    @routes.get(SIGN_IN)
    def sign_in(
        request: Request, invitation: Annotated[str, Query(max_length=200)] = ""
    ) -> Response:
        return doors.begin(request, invitation)

    @routes.get(SIGN_IN_BACK)
    def back(request: Request, state: Text = "", code: Text = "", error: Text = "") -> Response:
        return doors.finish(request, state, code, error)

    @routes.get(DEVICE)
    def device(request: Request, code: Annotated[str, Query(max_length=20)] = "") -> Response:
        return pages.shown(request, lambda guest: _device_page(doors, guest, code))

    @routes.post(DEVICE)
    async def decide(request: Request) -> Response:
        def change(guest: Guest, fields: Mapping[str, str]) -> Response:
            return _decide_device(doors, guest, fields)

        return await pages.changed(request, ACCOUNT, change)

    return routes


# --- of machines, by their person -----------------------------------------------------------------


class NewSignIn(BaseModel):
    """A machine whose key is to be one of a person's, once they say so on a page."""

    public_key: str = Field(max_length=200, examples=["ed25519:..."])
    label: str = Field(default="", max_length=200)


class DeviceCode(BaseModel):
    """The secret of a machine that waits."""

    device_code: str = Field(max_length=200)


def machine_router(services: NodeServices) -> APIRouter:
    """The routes of machines that want to be let in; any caller may ask."""
    routes = APIRouter(prefix="/sign-in/device", tags=["account"])
    waiting = SignIns(services.database)

    @routes.post("", responses=answers(NewSignInAnswer, 503))
    def begin(request: Request, new: NewSignIn) -> dict[str, Any]:
        """Ask to be let in: the person types ``user_code`` at ``verification_url``, signed in."""
        with refused():
            fingerprint = compute_key_fingerprint(decode_public_key(new.public_key))
        device_code = secrets.token_urlsafe(32)
        letters = "".join(secrets.choice(_LETTERS) for _ in range(8))
        user_code = f"{letters[:4]}-{letters[4:]}"
        facts = {
            "public_key": new.public_key,
            "label": printable(new.label, 0),
            "fingerprint": fingerprint,
        }
        facts |= {"address": client_address(request)}
        now_s = services.clock().timestamp()
        waiting.begin(device_code, _MACHINE, facts, now_s=now_s, user_code=user_code)
        base = services.settings.public_url or f"{request.url.scheme}://{request.url.netloc}"
        return write(
            NewSignInAnswer(
                device_code=device_code,
                user_code=user_code,
                verification_url=f"{base.rstrip('/')}{DEVICE}",
                interval_s=POLL_S,
                expires_in_s=SIGN_IN_S,
            )
        )

    @routes.post("/poll", responses=answers(SignInStateAnswer))
    def poll(sent: DeviceCode) -> dict[str, str]:
        """Whether the person has said yes: ``waiting``, ``approved``, ``refused`` or ``over``."""
        state, user_id = waiting.state(sent.device_code, services.clock().timestamp())
        return {"state": state, "user_id": user_id}

    return routes


def _device_page(doors: _SignInServices, guest: Guest, code: str) -> Response:
    typed = code.strip().upper()
    found = doors.sign_ins.of_machine(typed, doors.now_s) if typed else None
    problem = "No machine waits with this code." if typed and found is None else ""
    return doors.pages.page(guest, "node/device.html", code=typed, machine=found, problem=problem)


def _decide_device(doors: _SignInServices, guest: Guest, fields: Mapping[str, str]) -> Response:
    """Let the key of a machine in as one of the person's, or refuse it."""
    code, pages = fields.get("code", ""), doors.pages
    found = doors.sign_ins.of_machine(code, doors.now_s)
    if found is None:
        raise RequestProblem(404, "No machine waits with this code.")
    is_refused = fields.get("answer") != "yes"
    if not is_refused:
        own = guest.principal.scopes
        scopes = tuple(sorted(own)) if own is not None else PERSON_SCOPES
        try:
            pages.services.people.add_key(
                guest.who,
                decode_public_key(found["public_key"]),
                label=str(found["label"]),
                scopes=scopes,
                by=guest.who,
            )
        except LilluxError as error:
            raise RequestProblem(409, str(error)) from error
    state = "refused" if is_refused else "approved"
    if not doors.sign_ins.decide(code, guest.who, state, doors.now_s):
        raise RequestProblem(409, "It was decided before.")
    words = "It was refused." if is_refused else "The machine may sign for you now."
    return pages.message(guest, "A machine of yours", words, 200)
