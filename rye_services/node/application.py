"""The application of a node: the routes of its parts.

A part is a module with ``router(services)``; what it does between requests is a context that it
names in `BACKGROUND`. Nothing here decides anything. A file of its own because all
other modules of the node stand below it.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI

from rye_services.node.admin_routes import (
    admin_router,
    audit_router,
    collecting_garbage,
    open_router,
    secret_router,
    storage_router,
    sweeping_audit,
    sweeping_nonces,
    webhook_router,
)
from rye_services.node.mcp import mcp_router
from rye_services.node.pages.admin import admin_page_router, team_page_router
from rye_services.node.pages.items import item_page_router
from rye_services.node.pages.routes import Pages, page_router
from rye_services.node.pages.sign_in import machine_router, sign_in_router
from rye_services.node.run_routes import answer_call, execute_router, running, thread_router
from rye_services.node.services import NodeServices
from rye_services.node.sync_routes import (
    history_router,
    objects_router,
    push_router,
    user_space_router,
)
from rye_services.node.team_routes import people_router
from rye_services.process.server import ServerPart, assemble

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

ROUTERS: tuple[Callable[[NodeServices], APIRouter], ...] = (
    open_router,
    admin_router,
    audit_router,
    objects_router,
    push_router,
    user_space_router,
    history_router,
    execute_router,
    thread_router,
    storage_router,
    secret_router,
    webhook_router,
    people_router,
    machine_router,
    lambda services: _people_router(Pages(services)),
    lambda services: mcp_router(partial(_mcp_sessions, services)),
)

BACKGROUND: tuple[Callable[[NodeServices], AbstractAsyncContextManager[None]], ...] = (
    sweeping_nonces,
    sweeping_audit,
    collecting_garbage,
    running,
)


def _mcp_sessions(services: NodeServices) -> "StreamableHTTPSessionManager":
    from rye_services.node.mcp_server import sessions_of

    return sessions_of(
        services.authenticator,
        answer_call(services),
        max_request_bytes=services.settings.max_request_bytes,
    )


def _people_router(pages: Pages) -> APIRouter:
    """All pages for people: they know each other's sessions."""
    routes = page_router(pages)
    routes.include_router(item_page_router(pages))
    routes.include_router(admin_page_router(pages))
    routes.include_router(team_page_router(pages))
    routes.include_router(sign_in_router(pages, pages.services.environ))
    return routes


def part_of(services: NodeServices) -> ServerPart:
    """What these services are to an application."""
    return ServerPart(
        tuple(router(services) for router in ROUTERS),
        tuple(partial(running, services) for running in BACKGROUND),
        partial(services.executions.drain, float(services.settings.shutdown_timeout_s)),
    )


def create_app(services: NodeServices, *beside: ServerPart) -> FastAPI:
    """The application on these services, and perhaps other parts, ready to be served."""
    parts = (part_of(services), *beside)
    return assemble("Rye node", services.settings, services.authenticator, services.watch, parts)


def create_worker_app(services: NodeServices) -> FastAPI:
    """The application of a worker of a cluster: it carries out, and says how it is."""
    part = ServerPart(
        (),
        (partial(running, services),),
        partial(services.executions.drain, float(services.settings.shutdown_timeout_s)),
    )
    settings, watch = services.settings, services.watch
    return assemble("Rye worker", settings, services.authenticator, watch, (part,))
