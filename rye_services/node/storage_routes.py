"""The route that removes what nothing names: ``/gc``, for those who manage the node."""

from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any

from fastapi import APIRouter, Query

from rye_services.auth.callers import caller
from rye_services.auth.principal import Principal
from rye_services.node.periodic import every
from rye_services.node.services import NodeServices
from rye_services.node.storage import UserGarbage
from rye_services.scopes import MANAGE

Manager = Annotated[Principal, caller(MANAGE)]


def router(services: NodeServices) -> APIRouter:
    """The route of those who manage the node."""
    routes = APIRouter(tags=["admin"])

    @routes.post("/gc")
    def collect(_: Manager, dry_run: Annotated[bool, Query()] = False) -> dict[str, Any]:  # noqa: FBT002 - of a query
        """Remove what nothing names from every store, or with ``dry_run`` only count it."""
        found = services.sync.storage.collect(dry_run=dry_run)
        return {"status": "ok", "dry_run": dry_run, "users": [shown(one) for one in found]}

    return routes


def running(services: NodeServices) -> AbstractAsyncContextManager[None]:
    """The collection that happens by itself, at the start and from time to time."""
    return every(services.settings.gc_interval_s, services.sync.storage.collect)


def shown(found: UserGarbage) -> dict[str, Any]:
    """What became of the garbage of one user, as answers and ``--json`` show it."""
    values = {
        "user_id": found.user_id,
        "state": found.state,
        "removed": found.removed,
        "freed_bytes": found.freed_bytes,
        "kept": found.kept,
        "stored_bytes": found.stored_bytes,
        "forgotten_executions": found.forgotten,
    }
    return {**values, "code": found.code} if found.code else values
