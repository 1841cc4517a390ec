"""Who the registry is, for anybody: ``/v1/public-key``, ``/v1/health``; alone also ``/health``."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from rye_services.registry.services import RegistryServices
from ryeos import __version__
from ryeos.remote.requests import identity_document

PEM_TYPE = "application/x-pem-file"


def router(services: RegistryServices) -> APIRouter:
    """The open routes that a registry has beside a node, too."""
    routes = APIRouter(tags=["registry"])
    registry_key = services.signer.public_pem

    @routes.get("/v1/public-key", response_class=Response)
    async def public_key() -> Response:
        """The key that signs what is published: PEM, to be pinned by who pulls."""
        return Response(registry_key, media_type=PEM_TYPE)

    @routes.get("/v1/health")
    def health() -> JSONResponse:
        """Whether the registry can answer."""
        return _health(services)

    return routes


def router_alone(services: RegistryServices) -> APIRouter:
    """Those that a node would have."""
    routes = APIRouter(tags=["registry"])
    keys = services.keys
    identity = identity_document(
        keys.signing, keys.box_public, keys.created_at, items_pem=keys.items.public_pem
    )

    @routes.get("/health")
    def health() -> JSONResponse:
        """Whether the registry can answer."""
        return _health(services)

    @routes.get("/public-key")
    async def public_key() -> dict[str, Any]:
        """Who the registry is: its keys, signed by itself; whom signed requests are for."""
        return identity

    return routes


def _health(services: RegistryServices) -> JSONResponse:
    try:
        with services.database.reading() as connection:
            connection.execute(text("SELECT 1"))
    except SQLAlchemyError:
        answer = {"status": "unhealthy", "version": __version__, "database": "unreachable"}
        return JSONResponse(answer, 503)
    return JSONResponse({"status": "healthy", "version": __version__, "database": "ok"})
