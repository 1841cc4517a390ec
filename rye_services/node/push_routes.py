"""The route that moves the head of a project: ``/push``."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import AfterValidator, BaseModel

from rye_services.auth.callers import caller
from rye_services.auth.principal import Principal
from rye_services.node.bodies import described
from rye_services.node.heads import Head
from rye_services.node.manifest_errors import ManifestGraphError
from rye_services.node.project_names import check_project_path
from rye_services.node.pushing import HeadMovedError, ProjectPush, SystemVersionError
from rye_services.node.services import NodeServices
from rye_services.problems import Problem
from rye_services.scopes import PUSH

Pusher = Annotated[Principal, caller(PUSH)]


class PushBody(BaseModel):
    """A manifest that a project is to have, and the head that it was made on."""

    project_path: Annotated[str, AfterValidator(check_project_path)]
    project_manifest_hash: str
    system_version: str = ""
    expected_snapshot_hash: str | None = None


def router(services: NodeServices) -> APIRouter:
    """The route of pushes."""
    routes = APIRouter(tags=["push"])
    threads = services.sync.threads

    @routes.post("/push", openapi_extra=described(PushBody))
    async def push(principal: Pusher, request: Request) -> dict[str, Any]:
        """Check a manifest and all it leads to, make a snapshot of it, move the head there."""
        return await threads.answer(request, PushBody, partial(_push, services, principal))

    return routes


def _push(services: NodeServices, principal: Principal, body: PushBody) -> dict[str, Any]:
    store = services.stores.of(principal.user_id)
    services.sync.uploads.renew(principal.user_id)
    push = ProjectPush(
        project_path=body.project_path,
        project_manifest_hash=body.project_manifest_hash,
        system_version=body.system_version,
        expected_snapshot_hash=body.expected_snapshot_hash,
    )
    try:
        head = services.sync.pushing.push_project(principal.user_id, store, push)
    except ManifestGraphError as error:
        raise Problem(400, str(error)) from error
    except SystemVersionError as error:
        raise Problem(409, str(error)) from error
    except HeadMovedError as error:
        raise Problem(409, head_moved(error.expected, error.actual)) from error
    services.sync.uploads.end(principal.user_id)
    return {
        "status": "ok",
        "remote_name": services.settings.name,
        "project_path": push.project_path,
        "project_manifest_hash": head.project_manifest_hash,
        "user_manifest_hash": head.user_manifest_hash,
        "snapshot_hash": head.snapshot_hash,
        "snapshot_revision": head.revision,
    }


def head_moved(expected: str | None, actual: Head | None) -> dict[str, Any]:
    """The detail of a 409: clients go on from ``actual``."""
    return {
        "error": "HEAD has moved",
        "expected": expected,
        "actual": actual.snapshot_hash if actual else None,
        "revision": actual.revision if actual else None,
    }
