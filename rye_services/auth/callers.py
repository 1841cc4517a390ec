"""What routes ask for their caller with: ``principal: Annotated[Principal, caller(PUSH)]``."""

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers

from rye_services.auth.authenticator import Authenticator, RequestFacts, WebhookDelivery
from rye_services.auth.principal import Principal
from rye_services.scopes import EXECUTE

Found = TypeVar("Found")


def caller(scope: str) -> Any:  # noqa: ANN401 - what FastAPI takes for a dependency
    """The dependency on a caller whose key is for ``scope``.

    It answers 401 for nobody known, always in the same words, and 403 for a key for other things.
    """

    async def principal(request: Request) -> Principal:
        found = await authenticate(request, authenticator(request).principal)
        found.require(scope)
        return found

    return Depends(principal)


async def resolve_execution(request: Request) -> Principal | WebhookDelivery:
    """Who asks for an execution: a caller whose key is for it, or a webhook and its binding."""
    found = await authenticate(request, authenticator(request).execution)
    if isinstance(found, Principal):
        found.require(EXECUTE)
    return found


async def authenticate(request: Request, check: Callable[[RequestFacts], Found]) -> Found:
    """What a check finds out about a request, in a thread: it may wait for the database."""
    return await run_in_threadpool(check, await facts_of(request))


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
