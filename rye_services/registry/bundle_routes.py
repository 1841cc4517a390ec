"""Routes of bundles: publish, pull, search: ``/v1/bundle``."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from rye_services.credentials import Principal
from rye_services.database import require_texts
from rye_services.http import RequestProblem, described, parse_body
from rye_services.openapi import answers
from rye_services.registry.accounts import AnyCaller, Reader, Sent, Writer
from rye_services.registry.answers import (
    BundleAnswer,
    BundleVisibilityAnswer,
    DeletedBundleAnswer,
    FoundBundlesAnswer,
    PulledBundleAnswer,
    PushedBundleAnswer,
    bundle_attestation,
    shown_bundle,
)
from rye_services.registry.bundles import SentFile, bundle_publication
from rye_services.registry.item_routes import MAX_OFFSET, MAX_RESULTS, NewVisibility
from rye_services.registry.manifests import refusing
from rye_services.registry.names import bundle_name, version_of
from rye_services.registry.search_index import MAX_QUERY_CHARACTERS, IndexQuery, words_of
from rye_services.registry.services import RegistryServices


class BundleFile(BaseModel):
    """A file of a bundle. ``object_hash``: that of the manifest; "" for what it does not list."""

    content: str
    object_hash: str = ""
    inline_signed: bool = False


class BundlePush(BaseModel):
    """A bundle that is to be published. Without ``version`` it is that of the manifest."""

    bundle_id: str
    manifest: str
    files: dict[str, BundleFile]
    version: str | None = None


class BundleSearch(BaseModel):
    """What is searched for. ``include_mine``: what the caller does not list, too."""

    query: str = Field(default="", max_length=MAX_QUERY_CHARACTERS)
    namespace: str = Field(default="", max_length=256)
    include_mine: bool = False
    limit: int = Field(default=20, ge=0, le=MAX_RESULTS)
    offset: int = Field(default=0, ge=0, le=MAX_OFFSET)


def bundle_router(services: RegistryServices) -> APIRouter:
    """The routes of bundles."""
    routes = APIRouter(prefix="/v1/bundle", tags=["registry"])
    _add_exchange(routes, services)
    _add_lists(routes, services)
    return routes


def _add_exchange(routes: APIRouter, services: RegistryServices) -> None:
    bundles = services.bundles

    @routes.post(
        "/push",
        openapi_extra=described(BundlePush),
        responses=answers(PushedBundleAnswer, 404, 409, 429),
    )
    @refusing
    def push(writer: Writer, sent: Sent) -> dict[str, Any]:
        """Keep a bundle as it was signed, once it is what its manifest says."""
        account = services.account_of(writer)
        services.pushes.use(account)
        return _push(services, account, parse_body(sent, BundlePush))

    @routes.get("/pull", response_class=Response, responses=answers(PulledBundleAnswer, 404))
    @refusing
    def pull_named(
        reader: Reader,
        bundle_id: Annotated[str, Query(max_length=128)],
        version: Annotated[str | None, Query()] = None,
        namespace: Annotated[str, Query(max_length=64)] = "",
    ) -> Response:
        """As ``/pull/{bundle_id}``, with the id in the query."""
        return _pulled(reader, bundle_id, version, namespace)

    @routes.get(
        "/pull/{bundle_id}", response_class=Response, responses=answers(PulledBundleAnswer, 404)
    )
    @refusing
    def pull(
        reader: Reader,
        bundle_id: str,
        version: Annotated[str | None, Query()] = None,
        namespace: Annotated[str, Query(max_length=64)] = "",
    ) -> Response:
        """A bundle with all its files: a version, or the highest one; ``namespace``: its owner."""
        return _pulled(reader, bundle_id, version, namespace)

    def _pulled(_: Reader, bundle_id: str, version: str | None, namespace: str) -> Response:
        named = None if version is None else version_of(version).text
        found = bundles.pull(bundle_name(bundle_id), named, namespace)
        bundles.downloads.note(found.bundle_id)
        answer = {
            "bundle_id": found.bundle_id,
            "version": found.version,
            "manifest": found.manifest,
            "files": found.files,
            "author": found.author,
            "created_at": found.created_at,
            "attestation": bundle_attestation(found, services.keys),
        }
        # Made here, in a thread: it may be 50 MiB, and the event loop has others to serve.
        return Response(json.dumps(answer, ensure_ascii=False), media_type="application/json")


def _add_lists(routes: APIRouter, services: RegistryServices) -> None:
    bundles = services.bundles

    @routes.get("/search", responses=answers(FoundBundlesAnswer))
    @refusing
    def search(caller: AnyCaller, asked: Annotated[BundleSearch, Query()]) -> dict[str, Any]:
        """Bundles that have every word, those that are pulled most first."""
        page = {"limit": asked.limit, "offset": asked.offset}
        words = words_of(asked.query)
        if asked.query.strip() and not words:
            return {"results": [], "total": 0, **page}
        owner = _owner(services, caller) if asked.include_mine else ""
        wanted = IndexQuery(words=words, namespace=asked.namespace)
        found, total = bundles.search(wanted, **page, owner=owner)
        return {"results": [shown_bundle(one) for one in found], "total": total, **page}

    @routes.get("/info/{bundle_id}", responses=answers(BundleAnswer, 404))
    @refusing
    def info(bundle_id: str) -> dict[str, Any]:
        """What there is to know of a bundle, without its files; all its versions."""
        found, versions = bundles.info(bundle_name(bundle_id))
        return {**shown_bundle(found), "versions": list(versions)}

    @routes.delete("/{bundle_id}", responses=answers(DeletedBundleAnswer, 404))
    @refusing
    def delete(
        writer: Writer, bundle_id: str, version: Annotated[str | None, Query()] = None
    ) -> dict[str, Any]:
        """Delete a version, or every one. It can never be published again."""
        named = None if version is None else version_of(version).text
        account = services.account_of(writer)
        gone = bundles.delete(bundle_name(bundle_id), named, account=account)
        return {"status": "deleted", "bundle_id": bundle_id, "deleted_versions": list(gone)}

    @routes.post("/{bundle_id}/visibility", responses=answers(BundleVisibilityAnswer, 404))
    @refusing
    def set_visibility(writer: Writer, bundle_id: str, new: NewVisibility) -> dict[str, Any]:
        """Have lists show a bundle, or not; who knows its id pulls it either way."""
        account = services.account_of(writer)
        before = bundles.set_visibility(bundle_name(bundle_id), new.visibility, account=account)
        return {
            "status": "updated",
            "bundle_id": bundle_id,
            "visibility": new.visibility,
            "previous_visibility": before,
        }


def _push(services: RegistryServices, account: str, sent: BundlePush) -> dict[str, Any]:
    names = {path: one.object_hash for path, one in sent.files.items()}
    require_texts({"manifest": sent.manifest, "files": names})
    files = {
        path: SentFile(one.content, one.object_hash, one.inline_signed)
        for path, one in sent.files.items()
    }
    made = bundle_publication(
        bundle_name(sent.bundle_id),
        None if sent.version is None else version_of(sent.version).text,
        sent.manifest,
        files,
        keys=services.accounts.keys_of(account),
    )
    is_new = services.bundles.publish(
        made, account=account, max_bytes=services.settings.max_user_storage_bytes
    )
    return {
        "status": "pushed",
        **({} if is_new else {"skipped": True}),
        "bundle_id": made.bundle_id,
        "version": made.version,
        "file_count": len(made.files),
        "author": account,
        "publisher": made.publisher,
    }


def _owner(services: RegistryServices, caller: Principal | None) -> str:
    if caller is None:
        raise RequestProblem(
            401, "include_mine: expected an API key", {"WWW-Authenticate": "Bearer"}
        )
    return services.account_of(caller)
