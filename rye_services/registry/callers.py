"""Who asks a registry: nobody known is fine for what is public, but not a key that is wrong."""

from typing import Annotated, Any

from fastapi import Depends, Request

from rye_services.auth.callers import authenticate, authenticator, caller
from rye_services.auth.principal import Principal
from rye_services.scopes import REGISTRY_READ, REGISTRY_WRITE

_SHOW_WHO = frozenset({"authorization", "x-rye-signature", "x-webhook-timestamp"})


def optional_caller(scope: str) -> Any:  # noqa: ANN401 - what FastAPI takes for a dependency
    """The dependency on a caller who may be nobody; who shows a key has to have one for this."""

    async def principal(request: Request) -> Principal | None:
        if not _SHOW_WHO & {name.lower() for name in request.headers}:
            return None
        found = await authenticate(request, authenticator(request).principal)
        found.require(scope)
        return found

    return Depends(principal)


async def _read(request: Request) -> bytes:
    return await request.body()


Anybody = Annotated[Principal | None, optional_caller(REGISTRY_READ)]
Reader = Annotated[Principal, caller(REGISTRY_READ)]
Writer = Annotated[Principal, caller(REGISTRY_WRITE)]
Sent = Annotated[bytes, Depends(_read)]
"""A body, to be parsed in the thread of the route: the event loop must not wait for that."""
