"""An application out of parts, behind the limits that hold for all of them."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

from fastapi import APIRouter, FastAPI

from lillux.values import dataclass
from rye_services.access_log import AccessLog
from rye_services.auth.authenticator import Authenticator
from rye_services.compression import GzippedRequests, GzippedResponses
from rye_services.limits import BodyLimits
from rye_services.node.page.page_headers import PageHeaders
from rye_services.problems import UnexpectedErrors, answer_problems
from rye_services.settings import Settings
from ryeos import __version__


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the server: its routes, and what it does between requests."""

    routers: tuple[APIRouter, ...]
    background: tuple[Callable[[], AbstractAsyncContextManager[None]], ...]


def assemble(
    title: str, settings: Settings, authenticator: Authenticator, parts: Sequence[Part]
) -> FastAPI:
    """The application of these parts. Where two have a route, it is that of the first."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for running in (one for part in parts for one in part.background):
                await stack.enter_async_context(running())
            yield

    # The pages of FastAPI load scripts from elsewhere.
    app = FastAPI(
        title=title, version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan
    )
    app.state.authenticator = authenticator
    answer_problems(app)
    for router in (one for part in parts for one in part.routers):
        app.include_router(router)
    # The last one added is the outermost.
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
