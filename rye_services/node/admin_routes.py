"""Routes that say which keys may sign requests: ``/admin/authorized-keys``."""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from rye_services.auth.callers import caller
from rye_services.auth.principal import Principal
from rye_services.authorized_keys import (
    AuthorizedKey,
    AuthorizedKeyMissingError,
    LastManagerError,
)
from rye_services.node.services import NodeServices
from rye_services.problems import Problem
from rye_services.scopes import EVERYTHING, MANAGE, check_scopes
from ryeos.items.errors import RyeError
from ryeos.remote.requests import decode_public_key

Manager = Annotated[Principal, caller(MANAGE)]


class NewKey(BaseModel):
    """A key that is to be let in."""

    public_key: str
    label: str = "operator"
    scopes: list[str] = Field(default_factory=lambda: [EVERYTHING])


def router(services: NodeServices) -> APIRouter:
    """The routes of those who manage keys."""
    routes = APIRouter(prefix="/admin/authorized-keys", tags=["admin"])
    authorized = services.authorized_keys

    @routes.post("")
    def add(principal: Manager, new: NewKey) -> dict[str, Any]:
        """Let a key in. One that is in already gets these scopes, and loses its others.

        Nobody grants a scope that their own key has not.
        """
        try:
            for scope in check_scopes(new.scopes):
                principal.require(scope)
            key = authorized.authorize(
                decode_public_key(new.public_key),
                label=new.label,
                scopes=new.scopes,
                via="admin",
                by=principal.key_id,
            )
        except RyeError as error:
            raise Problem(400, str(error)) from error
        return {
            "fingerprint": f"fp:{key.fingerprint}",
            "label": key.label,
            "scopes": list(key.scopes),
            "authorized_by": principal.key_id,
        }

    @routes.get("")
    def list_keys(_: Manager) -> dict[str, Any]:
        """The keys that may sign requests now."""
        return {"keys": [_shown(key) for key in authorized.all()]}

    @routes.delete("/{fingerprint}")
    def revoke(_: Manager, fingerprint: str) -> dict[str, str]:
        """Let a key in no longer; the last one that may manage keys stays."""
        bare = fingerprint.removeprefix("fp:")
        try:
            authorized.revoke_unless_last(bare)
        except AuthorizedKeyMissingError as error:
            raise Problem(404, str(error)) from error
        except LastManagerError as error:
            raise Problem(400, str(error)) from error
        return {"revoked": f"fp:{bare}"}

    return routes


def _shown(key: AuthorizedKey) -> dict[str, Any]:
    return {
        "fingerprint": f"fp:{key.fingerprint}",
        "label": key.label,
        "scopes": list(key.scopes),
        "created_via": key.created_via,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
    }
