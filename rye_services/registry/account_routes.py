"""Routes of accounts: sign-up, API keys, signing keys, namespaces."""

from datetime import timedelta
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from rye_services.credentials import REGISTRY_READ, REGISTRY_WRITE, ApiKey, valid_scopes
from rye_services.http import RequestProblem
from rye_services.openapi import answers
from rye_services.registry.accounts import Keeper, Reader, allowed_bytes, claimed_key
from rye_services.registry.answers import (
    AccountAnswer,
    ApiKeysAnswer,
    ChangedSigningKeyAnswer,
    ClaimedNamespaceAnswer,
    NamespacesAnswer,
    NewAccountAnswer,
    NewApiKeyAnswer,
    RevokedApiKeyAnswer,
    SigningKeysAnswer,
)
from rye_services.registry.manifests import refusing
from rye_services.registry.services import RegistryServices

OWN_SCOPES = (REGISTRY_READ, REGISTRY_WRITE)
_LONGEST_DAYS = 36_500


class NewApiKey(BaseModel):
    """An API key that is to be made."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._ -]+$")
    scopes: list[str] = Field(default_factory=lambda: list(OWN_SCOPES), max_length=20)
    expires_in_days: int | None = Field(default=None, ge=1, le=_LONGEST_DAYS)


class NewName(BaseModel):
    """A namespace, or an account, that is to be given away."""

    name: str


class KeyClaim(BaseModel):
    """A key that an account is going to sign with: a document that the key signed."""

    document: dict[str, Any]


def account_router(services: RegistryServices) -> APIRouter:
    """The routes of accounts about themselves."""
    routes = APIRouter(prefix="/v1", tags=["registry"])
    _add_api_keys(routes, services)
    _add_signing_keys(routes, services)
    _add_names(routes, services)
    return routes


def _add_api_keys(routes: APIRouter, services: RegistryServices) -> None:
    api_keys = services.api_keys

    @routes.post("/api-keys", responses=answers(NewApiKeyAnswer, 409))
    @refusing
    def create(writer: Keeper, new: NewApiKey) -> dict[str, Any]:
        """Make an API key; its text is shown this once. It has no scope that the caller lacks."""
        account = services.account_of(writer)
        for scope in valid_scopes(new.scopes):
            writer.require(scope)
        token, key = api_keys.create_named(
            account,
            name=new.name,
            scopes=tuple(new.scopes),
            expires_after=timedelta(days=new.expires_in_days) if new.expires_in_days else None,
        )
        return {"key": token, **_shown(key)}

    @routes.get("/api-keys", responses=answers(ApiKeysAnswer))
    @refusing
    def list_keys(reader: Reader) -> dict[str, Any]:
        """The API keys of an account, without their texts."""
        found = api_keys.of(services.account_of(reader))
        kept = ("revoked_at", "last_used_at")
        return {
            "api_keys": [
                {**_shown(key), **{name: getattr(key, name) for name in kept}} for key in found
            ]
        }

    @routes.delete("/api-keys/{name}", responses=answers(RevokedApiKeyAnswer, 404, 409))
    @refusing
    def revoke(writer: Keeper, name: str) -> dict[str, Any]:
        """Revoke an API key."""
        key = api_keys.revoke_named(services.account_of(writer), name)
        return {"status": "revoked", "name": key.name, "key_prefix": key.key_prefix}


def _add_signing_keys(routes: APIRouter, services: RegistryServices) -> None:
    @routes.get("/signing-keys", responses=answers(SigningKeysAnswer))
    @refusing
    def list_keys(reader: Reader) -> dict[str, Any]:
        """The keys that an account signs with."""
        found = services.accounts.keys_of(services.account_of(reader))
        keys = [{"fingerprint": fp, "public_key_pem": pem.decode()} for fp, pem in found.items()]
        return {"signing_keys": keys}

    @routes.post("/signing-keys", responses=answers(ChangedSigningKeyAnswer, 409))
    @refusing
    def add(writer: Keeper, claim: KeyClaim) -> dict[str, Any]:
        """Have what is sent signed with a key checked by it. From then on no other key will do."""
        account = services.account_of(writer)
        pem = claimed_key(claim.document, account=account, keys=services.keys)
        return {"status": "added", "fingerprint": services.accounts.add_key(account, pem)}

    @routes.delete("/signing-keys/{fingerprint}", responses=answers(ChangedSigningKeyAnswer, 404))
    @refusing
    def remove(writer: Keeper, fingerprint: str) -> dict[str, Any]:
        """Take a key back."""
        bare = fingerprint.removeprefix("fp:")
        if not services.accounts.remove_key(services.account_of(writer), bare):
            raise RequestProblem(404, f"expected a key of this account, found {bare[:80]!a}")
        return {"status": "removed", "fingerprint": bare}


def _add_names(routes: APIRouter, services: RegistryServices) -> None:
    namespaces = services.namespaces

    @routes.get("/account", responses=answers(AccountAnswer))
    @refusing
    def own(reader: Reader) -> dict[str, Any]:
        """Who one is to the registry, and what one has."""
        account = services.accounts.open_account(services.account_of(reader))
        with services.database.reading() as connection:
            default = services.settings.max_user_storage_bytes
            allowed = allowed_bytes(connection, account.name, default)
        return {
            "name": account.name,
            "created_at": account.created_at,
            "stored_bytes": account.stored_bytes,
            "max_bytes": allowed,
            "namespaces": [one.name for one in namespaces.of(account.name)],
            "signing_keys": list(services.accounts.keys_of(account.name)),
        }

    @routes.get("/namespaces", responses=answers(NamespacesAnswer))
    @refusing
    def list_namespaces(reader: Reader) -> dict[str, Any]:
        """The namespaces of an account."""
        found = namespaces.of(services.account_of(reader))
        shown = [
            {"name": one.name, "owner": one.owner, "claimed_at": one.claimed_at} for one in found
        ]
        return {"namespaces": shown}

    @routes.post("/namespaces", responses=answers(ClaimedNamespaceAnswer, 409))
    @refusing
    def claim(writer: Keeper, new: NewName) -> dict[str, Any]:
        """Claim a free namespace. The first publication below one does the same."""
        account = services.account_of(writer)
        is_new = namespaces.claim(new.name, account)
        skipped = {} if is_new else {"skipped": True}
        return {"status": "claimed", "name": new.name, "owner": account, **skipped}

    if not services.settings.open_sign_up:
        return

    @routes.post("/accounts", responses=answers(NewAccountAnswer, 409, 429))
    @refusing
    def sign_up(new: NewName) -> dict[str, Any]:
        """Have an account, and its first API key, which is shown this once."""
        services.signups.use("all")
        account = services.accounts.add(new.name)
        token, key = services.api_keys.create(account.name, name="first", scopes=OWN_SCOPES)
        return {"account": account.name, "key": token, **_shown(key)}


def _shown(key: ApiKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "key_prefix": key.key_prefix,
        "scopes": None if key.scopes is None else list(key.scopes),
        "expires_at": key.expires_at,
        "created_at": key.created_at,
    }
