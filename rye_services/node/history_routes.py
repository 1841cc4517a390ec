"""The route of what a project was: ``/history``."""

from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AfterValidator

from rye_services.auth.callers import caller
from rye_services.auth.principal import Principal
from rye_services.node.history import first_parents
from rye_services.node.project_names import check_project_path
from rye_services.node.services import NodeServices
from rye_services.problems import Problem
from rye_services.scopes import THREADS

MAX_SNAPSHOTS = 200
_DEFAULT_SNAPSHOTS = 50

Reader = Annotated[Principal, caller(THREADS)]
ProjectPath = Annotated[str, Query(), AfterValidator(check_project_path)]


def router(services: NodeServices) -> APIRouter:
    """The route of histories."""
    routes = APIRouter(tags=["history"])

    @routes.get("/history")
    def history(
        principal: Reader, project_path: ProjectPath, limit: int = _DEFAULT_SNAPSHOTS
    ) -> dict[str, Any]:
        """The snapshots that led to the head of a project, the newest first."""
        name = services.settings.name
        head = services.sync.heads.read(principal.user_id, name, project_path)
        if head is None:
            raise Problem(404, f"no project {project_path!r} was pushed yet")
        store = services.stores.of(principal.user_id)
        shown = max(0, min(limit, MAX_SNAPSHOTS))
        snapshots = islice(first_parents(store, head.snapshot_hash), shown)
        return {
            "project_path": project_path,
            "head": head.snapshot_hash,
            "revision": head.revision,
            "snapshots": [{**value, "_hash": digest} for digest, value in snapshots],
            "remote_name": name,
        }

    return routes
