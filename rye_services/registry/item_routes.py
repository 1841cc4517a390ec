"""Publishing items, pulling them, and what their owners do with them: ``/v1/push`` and so on."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from rye_services.node.bodies import described, parse_body
from rye_services.problems import Problem
from rye_services.registry.answers import item_facts, pulled, pushed, shown_item, shown_version
from rye_services.registry.callers import Sent, Writer
from rye_services.registry.names import item_name, version_of
from rye_services.registry.publication import publication
from rye_services.registry.refusals import refusing
from rye_services.registry.services import RegistryServices

MAX_METADATA_CHARACTERS = 16 * 1024


class Push(BaseModel):
    """An item that is to be published.

    ``suffix`` is that of its file; it may be in ``metadata``, and is guessed where it is missing.
    """

    item_type: str
    item_id: str
    content: str
    version: str
    suffix: str | None = None
    changelog: str = Field(default="", max_length=10_000)
    metadata: dict[str, Any] | None = None


class NewVisibility(BaseModel):
    """Whether lists show an item."""

    visibility: Literal["public", "unlisted"]


def router(services: RegistryServices) -> APIRouter:
    """The routes of items."""
    routes = APIRouter(prefix="/v1", tags=["registry"])
    _add_publishing(routes, services)
    _add_reading(routes, services)
    return routes


def _add_reading(routes: APIRouter, services: RegistryServices) -> None:
    @routes.get("/pull/{item_type}/{item_id:path}")
    @refusing
    def pull(
        item_type: str, item_id: str, version: Annotated[str | None, Query()] = None
    ) -> dict[str, Any]:
        """An item as the registry signed it: a version, or the highest one."""
        named = None if version is None else version_of(version).text
        found = services.items.pull(item_name(item_type, item_id), named)
        services.items.downloads.note(found.item)
        versions = list(services.items.live_versions(found.item))
        return {**pulled(found, services), "versions": versions}

    @routes.get("/items/{item_type}/{item_id:path}")
    @refusing
    def info(item_type: str, item_id: str) -> dict[str, Any]:
        """What there is to know of an item, without its content; all its versions."""
        item, versions = services.items.info(item_name(item_type, item_id))
        return {**shown_item(item), "versions": [shown_version(one) for one in versions]}


def _add_publishing(routes: APIRouter, services: RegistryServices) -> None:
    @routes.post("/push", openapi_extra=described(Push))
    @refusing
    def push(writer: Writer, sent: Sent) -> dict[str, Any]:
        """Validate an item, sign it, keep it: a version is never changed afterwards."""
        account = services.account_of(writer)
        services.pushes.use(account)
        return _push(services, account, parse_body(sent, Push))

    @routes.delete("/delete/{item_type}/{item_id:path}")
    @refusing
    def delete(
        writer: Writer,
        item_type: str,
        item_id: str,
        version: Annotated[str | None, Query()] = None,
    ) -> dict[str, Any]:
        """Delete a version, or every one. Nobody ever publishes another in its place."""
        name = item_name(item_type, item_id)
        named = None if version is None else version_of(version).text
        gone = services.items.delete(name, named, account=services.account_of(writer))
        return {
            "status": "deleted",
            "item_type": item_type,
            "item_id": item_id,
            "version": version,
            "deleted_versions": list(gone),
        }

    @routes.post("/visibility/{item_type}/{item_id:path}")
    @refusing
    def set_visibility(
        writer: Writer, item_type: str, item_id: str, new: NewVisibility
    ) -> dict[str, Any]:
        """Have lists show an item, or not; who knows its id pulls it either way."""
        name = item_name(item_type, item_id)
        account = services.account_of(writer)
        before = services.items.set_visibility(name, new.visibility, account=account)
        return {
            "status": "updated",
            **item_facts(name),
            "visibility": new.visibility,
            "previous_visibility": before,
        }


def _push(services: RegistryServices, account: str, sent: Push) -> dict[str, Any]:
    name, version = item_name(sent.item_type, sent.item_id), version_of(sent.version)
    metadata = sent.metadata
    if metadata is not None and len(str(metadata)) > MAX_METADATA_CHARACTERS:
        raise Problem(413, f"metadata: expected at most {MAX_METADATA_CHARACTERS} characters")
    made = publication(
        name,
        version,
        sent.content,
        suffix=sent.suffix or _suffix_in(metadata),
        account=account,
        keys=services.accounts.keys_of(account),
        signer=services.signer,
    )
    kept, is_new = services.items.publish(
        name,
        version,
        made,
        account=account,
        changelog=sent.changelog,
        metadata=metadata,
        max_bytes=services.settings.max_user_storage_bytes,
    )
    return pushed(kept, services, skipped=not is_new)


def _suffix_in(metadata: dict[str, Any] | None) -> str | None:
    found = (metadata or {}).get("suffix")
    return found if isinstance(found, str) else None
