"""Routes for blobs and objects: ``/objects/has``, ``/objects/put``, ``/objects/get``."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from rye_services.accepted import weight_of
from rye_services.auth.callers import caller
from rye_services.auth.principal import Principal
from rye_services.node.bodies import described
from rye_services.node.entries import (
    Put,
    ResponseTooLargeError,
    answer_pieces,
    find_present,
    put_entries,
)
from rye_services.node.services import NodeServices
from rye_services.node.usage import QuotaExceededError
from rye_services.problems import Problem
from rye_services.scopes import OBJECTS
from ryeos.sync.entries import MEDIA_TYPE

MAX_DIGESTS = 200_000
"""Of one request, which keeps a thread for some seconds."""

Syncing = Annotated[Principal, caller(OBJECTS)]

_JSON = "application/json"
_ENTRIES_ANSWERED: dict[int | str, dict[str, Any]] = {
    200: {"content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
}


class Hashes(BaseModel):
    """Digests that are asked for."""

    hashes: Annotated[list[str], Field(max_length=MAX_DIGESTS)]


class Entries(BaseModel):
    """Entries to store. What is wrong with one is said of it, and the others are stored."""

    entries: Annotated[list[dict[str, Any]], Field(max_length=MAX_DIGESTS)]


def router(services: NodeServices) -> APIRouter:
    """The routes of what a user has stored."""
    routes = APIRouter(prefix="/objects", tags=["objects"])
    threads = services.sync.threads

    @routes.post("/has", openapi_extra=described(Hashes))
    async def has(principal: Syncing, request: Request) -> dict[str, Any]:
        """Which digests are there, as blob or as object."""
        return await threads.answer(request, Hashes, partial(_has, services, principal))

    @routes.post("/put", openapi_extra=described(Entries))
    async def put(principal: Syncing, request: Request) -> dict[str, Any]:
        """Store blobs and objects; each is kept or refused by itself."""
        return await threads.answer(request, Entries, partial(_put, services, principal))

    @routes.post("/get", openapi_extra=described(Hashes), responses=_ENTRIES_ANSWERED)
    async def get(principal: Syncing, request: Request) -> StreamingResponse:
        """Blobs and objects by digest. What is not there is left out."""
        is_framed = _wants_frames(request.headers.getlist("accept"))
        work = partial(_get, services, principal, is_framed=is_framed)
        pieces = await threads.answer(request, Hashes, work)
        media_type = MEDIA_TYPE if is_framed else _JSON
        return StreamingResponse(pieces, media_type=media_type, headers={"Vary": "Accept"})

    return routes


def _wants_frames(accept: Sequence[str]) -> bool:
    """Whether a client names frames, and likes nothing better."""
    return 0 < weight_of(accept, MEDIA_TYPE) >= weight_of(accept, _JSON, "application/*", "*/*")


def _has(services: NodeServices, principal: Principal, asked: Hashes) -> dict[str, Any]:
    services.sync.uploads.renew(principal.user_id)
    found = find_present(services.stores.of(principal.user_id), asked.hashes)
    return {"present": list(found.present), "missing": list(found.missing)}


def _put(services: NodeServices, principal: Principal, sent: Entries) -> dict[str, Any]:
    services.sync.uploads.renew(principal.user_id)
    try:
        result = put_entries(
            sent.entries,
            user_id=principal.user_id,
            store=services.stores.of(principal.user_id),
            usage=services.sync.usage,
            known=services.sync.known_items,
            max_bytes=services.settings.max_user_storage_bytes,
        )
    except QuotaExceededError as error:
        raise Problem(507, str(error)) from error
    if result.failures:
        raise Problem(400, _refusal(result))
    return {"stored": list(result.stored)}


def _get(
    services: NodeServices, principal: Principal, asked: Hashes, *, is_framed: bool
) -> Iterator[bytes]:
    store = services.stores.of(principal.user_id)
    # Whoever may store so much may get it at once; the same again and again is for nobody's good.
    limit = services.settings.max_user_storage_bytes
    try:
        return answer_pieces(store, asked.hashes, max_bytes=limit, is_framed=is_framed)
    except ResponseTooLargeError as error:
        raise Problem(413, str(error)) from error


def _refusal(result: Put) -> dict[str, Any]:
    errors = [{"hash": failure.digest, "error": failure.problem} for failure in result.failures]
    return {"stored": list(result.stored), "errors": errors}
