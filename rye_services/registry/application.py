"""The application of a registry: the routes of its parts, beside those of a node or alone."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Literal

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from rye_services.process.health import Health
from rye_services.process.server import ServerPart, assemble, every
from rye_services.process.watch import open_watch
from rye_services.registry.page import page_router, page_router_alone
from rye_services.registry.routes import (
    account_router,
    bundle_router,
    item_router,
    manifest_router,
    search_router,
)
from rye_services.registry.services import RegistryServices
from rye_services.web.openapi import Responses
from ryeos import __version__

# --- open routes ----------------------------------------------------------------------------------
# Who the registry is, for any caller: ``/v1/public-key``, ``/v1/health``; alone also ``/health``.


class PemResponse(Response):
    """A key in a PEM file."""

    media_type = "application/x-pem-file"


class HealthAnswer(BaseModel):
    """How the registry is: ``degraded`` where a check of ``/ready`` fails."""

    status: Literal["healthy", "degraded", "unhealthy"]
    version: str
    database: Literal["ok", "unreachable"]


_UNHEALTHY: Responses = {503: {"model": HealthAnswer, "description": "Without its database"}}


def open_router(services: RegistryServices, health: Health) -> APIRouter:
    """The open routes that a registry has beside a node, too."""
    routes = APIRouter(tags=["registry"])
    registry_key = services.signer.public_pem

    @routes.get("/v1/public-key", response_class=PemResponse)
    async def public_key() -> Response:
        """The key that signs what is published: PEM, to be pinned by clients that pull."""
        return PemResponse(registry_key)

    @routes.get("/v1/health", response_model=HealthAnswer, responses=_UNHEALTHY)
    async def state() -> JSONResponse:
        """Whether the registry can answer, as of some seconds ago."""
        return _health(health)

    return routes


def open_router_alone(services: RegistryServices, health: Health) -> APIRouter:
    """Those that a node would have."""
    routes = APIRouter(tags=["registry"])
    identity = services.keys.identity()

    @routes.get("/health", response_model=HealthAnswer, responses=_UNHEALTHY)
    async def state() -> JSONResponse:
        """Whether the registry can answer, as of some seconds ago."""
        return _health(health)

    @routes.get("/public-key")
    async def public_key() -> dict[str, Any]:
        """Who the registry is: its keys, signed by itself; whom signed requests are for."""
        return identity

    return routes


def _health(health: Health) -> JSONResponse:
    if not health.last.has_database:
        answer = {"status": "unhealthy", "version": __version__, "database": "unreachable"}
        return JSONResponse(answer, 503)
    status = "healthy" if health.last.is_ready else "degraded"
    return JSONResponse({"status": status, "version": __version__, "database": "ok"})


# --- application ----------------------------------------------------------------------------------

ROUTERS: tuple[Callable[[RegistryServices], APIRouter], ...] = (
    item_router,
    search_router,
    bundle_router,
    account_router,
    manifest_router,
    page_router,
)

_NONCES_EVERY_S = 600
_AUDIT_EVERY_S = 3600
_DOWNLOADS_EVERY_S = 30
_FILES_EVERY_S = 3600


def create_app(services: RegistryServices, environ: Mapping[str, str]) -> FastAPI:
    """The application of a registry that is no node, ready to be served.

    Traces are sent where ``environ`` says.
    """
    watch = open_watch(services.settings, services.database, environ)
    alone = ServerPart(
        (open_router_alone(services, watch.health), page_router_alone(services)),
        (
            partial(_present, services),
            lambda: every(_NONCES_EVERY_S, services.nonces.forget_old),
            lambda: every(
                _AUDIT_EVERY_S,
                lambda: services.audit.forget_old(services.settings.retain_audit_days),
            ),
        ),
    )
    parts = (alone, part_of(services, watch.health))
    return assemble("Rye registry", services.settings, services.authenticator, watch, parts)


def part_of(services: RegistryServices, health: Health) -> ServerPart:
    """What a registry is to the application of a node."""
    return ServerPart(
        (open_router(services, health), *(router(services) for router in ROUTERS)),
        (
            partial(_download_counting, services),
            lambda: every(_FILES_EVERY_S, services.bundles.sweep),
        ),
    )


@asynccontextmanager
async def _present(services: RegistryServices) -> AsyncIterator[None]:
    """Hold the lock that tells commands that this server works on the data."""
    if services.presence is None:
        yield
        return
    await run_in_threadpool(services.presence.begin)
    try:
        yield
    finally:
        services.presence.end()


def _download_counting(services: RegistryServices) -> AbstractAsyncContextManager[None]:
    """The writing of the counts of downloads, now and then and at the end."""

    @asynccontextmanager
    async def running() -> AsyncIterator[None]:
        def write() -> None:
            services.items.downloads.write()
            services.bundles.downloads.write()

        async with every(_DOWNLOADS_EVERY_S, write):
            yield
        await run_in_threadpool(write)

    return running()
