"""Routes for the user space: ``/push/user-space``, ``/user-space``."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from rye_services.auth.callers import caller
from rye_services.auth.principal import Principal
from rye_services.node.bodies import described
from rye_services.node.manifest_errors import MAX_NAMED, ManifestGraphError
from rye_services.node.pushing import RevisionMovedError
from rye_services.node.services import NodeServices
from rye_services.node.user_space_manifest import kept_user_manifest
from rye_services.problems import Problem
from rye_services.scopes import PUSH

Pusher = Annotated[Principal, caller(PUSH)]
_LARGEST = 2**63 - 1  # that databases take


class UserSpaceBody(BaseModel):
    """A manifest that the user space is to have, and the revision that it replaces."""

    user_manifest_hash: str
    expected_revision: Annotated[int, Field(ge=0, le=_LARGEST)] | None = None


def router(services: NodeServices) -> APIRouter:
    """The routes of the user space."""
    routes = APIRouter(tags=["push"])
    threads = services.sync.threads

    @routes.post("/push/user-space", openapi_extra=described(UserSpaceBody))
    async def push(principal: Pusher, request: Request) -> dict[str, Any]:
        """Check a manifest and all it leads to, and make it the user space."""
        return await threads.answer(request, UserSpaceBody, partial(_push, services, principal))

    @routes.get("/user-space")
    def present(principal: Pusher) -> dict[str, Any]:
        """The user space as it is now."""
        ref = services.sync.user_spaces.read(principal.user_id, services.settings.name)
        if ref is None:
            raise Problem(404, "no user space was pushed yet")
        return {
            "user_manifest_hash": ref.user_manifest_hash,
            "revision": ref.revision,
            "snapshot_revision": ref.revision,
            "pushed_at": ref.pushed_at,
            "remote_name": services.settings.name,
        }

    return routes


def _push(services: NodeServices, principal: Principal, body: UserSpaceBody) -> dict[str, Any]:
    store = services.stores.of(principal.user_id)
    services.sync.uploads.renew(principal.user_id)
    try:
        kept = kept_user_manifest(body.user_manifest_hash, store)
        ref = services.sync.pushing.push_user_space(
            principal.user_id, store, kept.manifest_hash, body.expected_revision
        )
    except ManifestGraphError as error:
        raise Problem(400, str(error)) from error
    except RevisionMovedError as error:
        raise Problem(404 if error.actual is None else 409, str(error)) from error
    answer: dict[str, Any] = {
        "status": "ok",
        "user_manifest_hash": ref.user_manifest_hash,
        "revision": ref.revision,
        "snapshot_revision": ref.revision,
        "remote_name": services.settings.name,
    }
    if kept.left_out:
        answer["left_out"] = [
            {"path": one.path, "problem": one.problem} for one in kept.left_out[:MAX_NAMED]
        ]
    return answer
