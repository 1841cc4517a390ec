"""Routes for the secrets of a user: ``/secrets`` takes values, ``/vault`` sealed envelopes.

Both are about the same secrets. No answer shows a value.
"""

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel

from rye_services.auth.callers import caller
from rye_services.auth.principal import Principal
from rye_services.node.refusals import refusals
from rye_services.node.services import NodeServices
from rye_services.node.vault import VaultFullError
from rye_services.problems import Problem
from rye_services.scopes import SECRETS
from ryeos.remote.secrets import EnvelopeError, SecretNameError, SecretValuesError, why_unsafe

Owner = Annotated[Principal, caller(SECRETS)]


class NewSecret(BaseModel):
    """A secret, to be injected as the environment variable of its name."""

    name: str
    value: str


class NewSecrets(BaseModel):
    """Secrets that are to be kept."""

    secrets: list[NewSecret]


class SealedSecret(BaseModel):
    """One secret, sealed to the box key of this node by who sends it."""

    name: str
    envelope: dict[str, Any]


class SecretName(BaseModel):
    """A secret that is to be forgotten."""

    name: str


def router(services: NodeServices) -> APIRouter:
    """The routes of users about their secrets."""
    routes = APIRouter(tags=["secrets"])
    vault = services.vault

    @routes.post("/secrets")
    def put_all(owner: Owner, new: NewSecrets) -> dict[str, Any]:
        """Keep secrets. What has no name or value is passed over; reserved names are told."""
        given = {one.name: one.value for one in new.secrets if one.name and one.value}
        skipped = {name: problem for name in given if (problem := why_unsafe(name)) is not None}
        kept = {name: value for name, value in given.items() if name not in skipped}
        with refusals(SecretValuesError, VaultFullError):
            vault.put(owner.user_id, kept)
        return {
            "stored": list(kept),
            "count": len(kept),
            "skipped": [{"name": name, "reason": why} for name, why in skipped.items()],
        }

    @routes.get("/secrets")
    def entries(owner: Owner) -> dict[str, Any]:
        """The names of the secrets, and when each was set."""
        return {
            "secrets": [
                {
                    "name": entry.name,
                    "created_at": entry.created_at,
                    "updated_at": entry.updated_at,
                }
                for entry in vault.entries(owner.user_id)
            ]
        }

    @routes.delete("/secrets/{name}")
    def delete(owner: Owner, name: str) -> dict[str, str]:
        """Forget a secret."""
        if not vault.delete(owner.user_id, name):
            raise Problem(404, f"secret not found: {name[:80]!a}")
        return {"deleted": name}

    @routes.post("/vault/set")
    def put_sealed(owner: Owner, new: SealedSecret) -> dict[str, str]:
        """Keep the one secret of an envelope."""
        with refusals(EnvelopeError, SecretNameError, SecretValuesError, VaultFullError):
            vault.put_sealed(owner.user_id, new.name, new.envelope)
        return {"stored": new.name}

    @routes.get("/vault/list")
    def names(owner: Owner) -> dict[str, list[str]]:
        """The names of the secrets, sorted."""
        return {"names": [entry.name for entry in vault.entries(owner.user_id)]}

    @routes.post("/vault/delete")
    def delete_named(owner: Owner, gone: SecretName) -> dict[str, str]:
        """Forget a secret."""
        if (problem := why_unsafe(gone.name)) is not None:
            raise Problem(400, f"secret {gone.name[:80]!a}: {problem}")
        return delete(owner, gone.name)

    return routes
