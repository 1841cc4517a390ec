"""Identifies the caller of a request: by API key, signature, or a hook's signature.

Order of the checks of a signed request: form, time, key, signature, nonce. A nonce is used up only
by a good signature, else any caller could use up those of others.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query, Request, Security
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from lillux.digests import sha256_hex
from lillux.values import dataclass, replace
from rye_services.logs import note_user
from rye_services.people.actors import Actor, act_as
from rye_services.people.credentials import (
    EXECUTE,
    ApiKeys,
    FoundApiKey,
    Nonces,
    Principal,
    Role,
)
from rye_services.people.people import OPEN, WAITING, People
from rye_services.people.teams import Teams
from rye_services.web.http import Unauthorized, client_address
from rye_services.web.openapi import CALLER, CALLER_OR_HOOK, ROLE_MARK
from ryeos.items.context import Clock
from ryeos.remote.requests import (
    RequestSignatureError,
    parse_headers,
    require_recent,
    verify_request_signature,
)

# --- authenticator --------------------------------------------------------------------------------

_BEARER = "bearer "


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """What of a request its sender can have signed.

    path      decoded, without the query
    query     as it was sent
    headers   by lower-case name; what came twice is joined with a comma
    body      whole
    """

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivery:
    """What a delivery that its hook signed may start: all but the parameters is the binding's.

    signed_once  what its signature is remembered by
    """

    principal: Principal
    hook_id: str
    delivery_id: str
    signed_once: str
    item_id: str
    project_path: str
    secret_envelope: Mapping[str, object] | None
    vault_keys: tuple[str, ...]


WebhookCheck = Callable[[RequestFacts], WebhookDelivery]
"""Checks the signature of a delivery and finds its binding. Raises Problem, Unauthorized."""


def refuse_webhooks(_: RequestFacts) -> WebhookDelivery:
    """The check of a node that has no webhooks."""
    raise Unauthorized("webhooks are not open here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Authenticator:
    """Finds out who sends a request. Thread-safe; every call may wait for the database.

    audience  ``fp:`` of this node, which a signed request has to be addressed to
    """

    audience: str
    api_keys: ApiKeys
    people: People
    teams: Teams
    nonces: Nonces
    clock: Clock
    webhook_check: WebhookCheck = refuse_webhooks

    def principal(self, facts: RequestFacts) -> Principal:
        """Who sends a request by API key or signature. Raises Unauthorized."""
        match _mode(facts.headers):
            case "bearer":
                found = self._bearer(facts)
            case "signed":
                found = self._signed_principal(facts)
            case _:
                raise Unauthorized("expected an API key or a signature, found that of a webhook")
        note_user(found.user_id)
        return found

    def owner(self, facts: RequestFacts, scope: str, owner: str | None, role: Role) -> Principal:
        """As `principal`, as the owner of what they ask about: themselves, or a team of theirs.

        Raises Unauthorized; RequestProblem, 403 where key or role are not for this.
        """
        found = self.principal(facts)
        found.require(scope)
        return self.teams.acting_for(found, owner, role)

    def execution(
        self, facts: RequestFacts, owner: str | None = None
    ) -> Principal | WebhookDelivery:
        """Who wants to execute something: also a webhook. Raises Unauthorized, Problem."""
        if _mode(facts.headers) == "webhook":
            delivery = self.webhook_check(facts)
            note_user(delivery.principal.user_id)
            return delivery
        return self.owner(facts, EXECUTE, owner, Role.RUN)

    def require_still(self, found: Principal, scope: str, role: Role) -> None:
        """Refuse a caller who has lost the right to a long answer while it is sent.

        Raises Unauthorized, RequestProblem as `owner` does.
        """
        if found.kind == "signed":
            fingerprint = found.key_id.removeprefix("fp:")
            key = self._key(fingerprint)
            again = Principal(key.user_id, "signed", key.scopes, found.key_id)
        else:
            counting = self.api_keys.valid_key(found.key_id)
            if counting is None:
                raise Unauthorized("its API key is no longer valid")
            state = self.people.state_of(counting.user_id)
            again = self._of_api_key(FoundApiKey(counting, state))
        again.require(scope)
        self.teams.acting_for(again, found.user_id if found.role is not None else None, role)

    def _bearer(self, facts: RequestFacts) -> Principal:
        value = facts.headers["authorization"]
        if not value.lower().startswith(_BEARER):
            raise Unauthorized("expected Authorization: Bearer, found another scheme")
        return self._of_api_key(self.api_keys.find(value[len(_BEARER) :].strip()))

    def _of_api_key(self, known: FoundApiKey | None) -> Principal:
        if known is None:
            raise Unauthorized("no such API key, or it is no longer valid")
        key = known.key
        _require_open(key.created_by or key.user_id, known.user_state or OPEN)
        scopes = None if key.scopes is None else frozenset(key.scopes)
        found = Principal(key.user_id, "bearer", scopes, key.id)
        if key.role is None:
            return found
        role = self.teams.token_role(key)
        if role is None:
            raise Unauthorized(f"who made this token is no longer in the team {key.user_id}")
        return replace(found, role=role, person=key.created_by or "")

    def _signed_principal(self, facts: RequestFacts) -> Principal:
        try:
            request = parse_headers(facts.headers)
            require_recent(request, self.clock().timestamp())
            key = self._key(request.fingerprint)
            verify_request_signature(
                key.public_pem,
                facts.headers,
                method=facts.method,
                path=facts.path,
                query=facts.query,
                body_sha256=sha256_hex(facts.body),
                audience=self.audience,
            )
        except RequestSignatureError as error:
            raise Unauthorized(error.problem) from error
        if not self.nonces.use(request.fingerprint, request.nonce):
            raise Unauthorized(f"the nonce of fp:{request.fingerprint} came before")
        return Principal(key.user_id, "signed", key.scopes, f"fp:{request.fingerprint}")

    def _key(self, fingerprint: str) -> "_SigningKey":
        """The key that may have signed: a further one of a person, or one of the operator's.

        A person's row counts alone, so that no one is let in by a row that their key once had.
        """
        known = self.people.of_key(fingerprint)
        _require_open(f"fp:{fingerprint}", known.state)
        if known.row is not None:
            row = known.row
            if row.expires_at and datetime.fromisoformat(row.expires_at) <= self.clock():
                raise Unauthorized(f"fp:{fingerprint} expired at {row.expires_at}")
            scopes = None if row.scopes is None else frozenset(row.scopes)
            return _SigningKey(row.user_id, row.public_pem, scopes)
        key = known.authorized
        if key is None:
            raise Unauthorized(f"fp:{fingerprint} is not authorised")
        if key.is_expired(self.clock()):
            raise Unauthorized(f"fp:{fingerprint} expired at {key.expires_at}")
        return _SigningKey(fingerprint, key.public_pem, frozenset(key.scopes))


@dataclass(frozen=True, slots=True)
class _SigningKey:
    """A key that may sign requests, whose it is, and what for."""

    user_id: str
    public_pem: bytes
    scopes: frozenset[str] | None


def _require_open(who: str, state: str) -> None:
    """Raises Unauthorized for a person who waits to be let in, or was removed."""
    if state == WAITING:
        raise Unauthorized(f"{who} was not let in yet: rye-node.pyz users open")
    if state != OPEN:
        raise Unauthorized(f"{who} was closed")


def _mode(headers: Mapping[str, str]) -> str:
    """How the sender wants to show who they are. Raises Unauthorized for none and for two."""
    modes = {
        "authorization": "bearer",
        "x-rye-signature": "signed",
        "x-webhook-timestamp": "webhook",
    }
    found = [mode for header, mode in modes.items() if header in headers]
    if len(found) != 1:
        raise Unauthorized(f"expected one way to authenticate, found {', '.join(found) or 'none'}")
    return found[0]


# --- callers --------------------------------------------------------------------------------------
# What routes ask for their caller with: ``principal: Annotated[Principal, caller(PUSH)]``.

Found = TypeVar("Found")


def caller(scope: str) -> Any:  # noqa: ANN401 - what FastAPI takes for a dependency
    """The dependency on a caller whose key is for ``scope``.

    It answers 401 for an unknown caller, in the same words, and 403 for a key for other things.
    """

    async def principal(
        request: Request, _: Annotated[None, Security(CALLER, scopes=[scope])]
    ) -> Principal:
        found = await authenticate(request, authenticator(request).principal)
        found.require(scope)
        return found

    return Depends(principal)


Owner = Annotated[
    str | None,
    Query(
        max_length=64,
        description="A team whose projects this is about; without it they are the caller's own",
    ),
]


def owner_caller(scope: str, role: Role) -> Any:  # noqa: ANN401 - what FastAPI takes for a dependency
    """As `caller`, for the owner that the query names: a team in which the caller has a role.

    The query is part of what a request signs, so no proxy can send it to another owner.
    """

    async def principal(
        request: Request,
        _: Annotated[None, Security(CALLER, scopes=[scope, f"{ROLE_MARK}{role.value}"])],
        owner: Owner = None,
    ) -> Principal:
        doors = authenticator(request)
        return await authenticate(request, lambda facts: doors.owner(facts, scope, owner, role))

    return Depends(principal)


async def resolve_execution(
    request: Request,
    _: Annotated[None, Security(CALLER_OR_HOOK, scopes=[EXECUTE, f"{ROLE_MARK}{Role.RUN.value}"])],
    owner: Owner = None,
) -> Principal | WebhookDelivery:
    """Who asks for an execution: a caller whose key is for it, or a webhook and its binding."""
    doors = authenticator(request)
    return await authenticate(request, lambda facts: doors.execution(facts, owner))


async def authenticate(request: Request, check: Callable[[RequestFacts], Found]) -> Found:
    """What a check finds out about a request, in a thread: it may wait for the database.

    What the request changes is said to be changed by its sender (`rye_services.people.audit`).
    """
    found = await run_in_threadpool(check, await facts_of(request))
    sender = found.principal if isinstance(found, WebhookDelivery) else found
    if isinstance(sender, Principal):
        key = "" if sender.kind == "signed" else sender.key_id
        act_as(Actor(sender.who, client_address(request), key))
    return found


async def facts_of(request: Request) -> RequestFacts:
    """What of a request its sender can have signed, once its body is there."""
    return RequestFacts(
        method=request.method,
        path=request.scope["path"],
        query=request.scope["query_string"].decode("latin-1"),
        headers=joined(request.headers),
        body=await request.body(),
    )


def authenticator(request: Request) -> Authenticator:
    """That of the application."""
    found: Authenticator = request.app.state.authenticator
    return found


def joined(headers: Headers) -> dict[str, str]:
    """Headers by lower-case name. What came twice is joined, so that none of them is overlooked."""
    return {name.lower(): ", ".join(headers.getlist(name)) for name in headers}
