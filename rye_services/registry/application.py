"""The application of a registry: the routes of its parts, beside those of a node or alone."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from fastapi import APIRouter, FastAPI
from starlette.concurrency import run_in_threadpool

from rye_services.node.assembly import Part, assemble
from rye_services.node.periodic import every
from rye_services.registry import (
    account_routes,
    bundle_routes,
    item_routes,
    manifest_routes,
    open_routes,
    page_routes,
    search_routes,
)
from rye_services.registry.services import RegistryServices

ROUTERS: tuple[Callable[[RegistryServices], APIRouter], ...] = (
    open_routes.router,
    item_routes.router,
    search_routes.router,
    bundle_routes.router,
    account_routes.router,
    manifest_routes.router,
    page_routes.router,
)

_NONCES_EVERY_S = 600
_DOWNLOADS_EVERY_S = 30
_FILES_EVERY_S = 3600


def create_app(services: RegistryServices) -> FastAPI:
    """The application of a registry that is no node, ready to be served."""
    alone = Part(
        (open_routes.router_alone(services), page_routes.router_alone(services)),
        (lambda: every(_NONCES_EVERY_S, services.nonces.forget_old),),
    )
    parts = (alone, part_of(services))
    return assemble("Rye registry", services.settings, services.authenticator, parts)


def part_of(services: RegistryServices) -> Part:
    """What a registry is to the application of a node."""
    return Part(
        tuple(router(services) for router in ROUTERS),
        (
            partial(_counting, services),
            lambda: every(_FILES_EVERY_S, services.bundles.sweep),
        ),
    )


def _counting(services: RegistryServices) -> AbstractAsyncContextManager[None]:
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
