"""The application of a node: the routes of its parts, behind the limits that hold for all.

A part is a module with ``router(services)``; what it does between requests is a context that it
names in `BACKGROUND`. Nothing here decides anything.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from fastapi import APIRouter, FastAPI

from rye_services.access_log import AccessLog
from rye_services.compression import GzippedRequests, GzippedResponses
from rye_services.limits import BodyLimits
from rye_services.node import (
    admin_routes,
    execute_routes,
    history_routes,
    mcp_mount,
    nonce_sweep,
    objects_routes,
    open_routes,
    page_routes,
    push_routes,
    secret_routes,
    storage_routes,
    thread_routes,
    user_space_routes,
    webhook_routes,
)
from rye_services.node.page.page_headers import PageHeaders
from rye_services.node.services import NodeServices
from rye_services.problems import UnexpectedErrors, answer_problems
from ryeos import __version__

ROUTERS: tuple[Callable[[NodeServices], APIRouter], ...] = (
    open_routes.router,
    admin_routes.router,
    objects_routes.router,
    push_routes.router,
    user_space_routes.router,
    history_routes.router,
    execute_routes.router,
    thread_routes.router,
    storage_routes.router,
    secret_routes.router,
    webhook_routes.router,
    page_routes.router,
    lambda services: mcp_mount.router(services, execute_routes.answer_call(services)),
)

BACKGROUND: tuple[Callable[[NodeServices], AbstractAsyncContextManager[None]], ...] = (
    nonce_sweep.running,
    storage_routes.running,
    execute_routes.running,
)


def create_app(services: NodeServices) -> FastAPI:
    """The application on these services, ready to be served."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for running in BACKGROUND:
                await stack.enter_async_context(running(services))
            yield

    # The pages of FastAPI load scripts from elsewhere.
    app = FastAPI(
        title="Rye node", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.state.services = services
    app.state.authenticator = services.authenticator
    answer_problems(app)
    for router in ROUTERS:
        app.include_router(router(services))
    # The last one added is the outermost.
    settings = services.settings
    app.add_middleware(GzippedRequests, max_bytes=settings.max_request_bytes)
    app.add_middleware(
        BodyLimits,
        max_bytes=settings.max_request_bytes,
        idle_timeout_s=settings.body_idle_timeout_s,
    )
    app.add_middleware(GzippedResponses)
    app.add_middleware(UnexpectedErrors)
    app.add_middleware(PageHeaders)
    app.add_middleware(AccessLog)
    return app
