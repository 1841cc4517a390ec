"""The routes of what was executed: ``/threads``."""

from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query

from lillux.errors import LilluxError
from lillux.store import Store
from rye_services.auth.callers import caller
from rye_services.auth.principal import Principal
from rye_services.node.services import NodeServices
from rye_services.problems import Problem
from rye_services.scopes import THREADS
from ryeos.sync.objects import execution_snapshot_of, outputs_bundle_of

MAX_THREADS = 200
_DEFAULT_THREADS = 20

Reader = Annotated[Principal, caller(THREADS)]


def router(services: NodeServices) -> APIRouter:
    """The routes of threads."""
    routes = APIRouter(prefix="/threads", tags=["threads"])
    rows, remote_name = services.executions.rows, services.settings.name

    @routes.get("")
    def listed(
        principal: Reader,
        limit: int = _DEFAULT_THREADS,
        project_path: Annotated[str | None, Query()] = None,
    ) -> dict[str, Any]:
        """The executions of a user, the newest first."""
        shown = max(0, min(limit, MAX_THREADS))
        found = rows.listed(principal.user_id, remote_name, limit=shown, project_path=project_path)
        return {"threads": found, "remote_name": remote_name}

    @routes.get("/{thread_id}")
    def one(principal: Reader, thread_id: str) -> dict[str, Any]:
        """One execution, with what it answered once it is over."""
        row = rows.one(principal.user_id, thread_id)
        if row is None:
            raise Problem(404, f"thread not found: {thread_id[:300]!a}")
        return {**row, **derived(row, services.stores.of(principal.user_id))}

    return routes


def derived(row: dict[str, Any], store: Store) -> dict[str, Any]:
    """What the objects of an execution say about it; what is not there (any more) is left out."""
    found: dict[str, Any] = {}
    if digest := row["execution_snapshot_hash"]:
        with suppress(LilluxError):
            snapshot = execution_snapshot_of(store.get_object(digest), digest)
            found["execution_status"] = snapshot.status
            found["execution_errors"] = [dict(error) for error in snapshot.errors]
    if digest := row["runtime_outputs_bundle_hash"]:
        with suppress(LilluxError):
            bundle = outputs_bundle_of(store.get_object(digest), digest)
            found["runtime_output_files"] = len(bundle.files)
    if digest := row["result_hash"]:
        with suppress(LilluxError, LookupError, TypeError):
            found["result"] = store.get_object(digest)["result"]
    return found
