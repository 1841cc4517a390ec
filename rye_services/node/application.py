"""The application of a node: the routes of its parts.

A part is a module with ``router(services)``; what it does between requests is a context that it
names in `BACKGROUND`. Nothing here decides anything.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

from fastapi import APIRouter, FastAPI

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
from rye_services.node.assembly import Part, assemble
from rye_services.node.services import NodeServices

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


def part_of(services: NodeServices) -> Part:
    """What these services are to an application."""
    return Part(
        tuple(router(services) for router in ROUTERS),
        tuple(partial(running, services) for running in BACKGROUND),
    )


def create_app(services: NodeServices, *beside: Part) -> FastAPI:
    """The application on these services, and perhaps other parts, ready to be served."""
    parts = (part_of(services), *beside)
    return assemble("Rye node", services.settings, services.authenticator, parts)
