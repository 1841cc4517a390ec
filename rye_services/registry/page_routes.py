"""The pages of a registry: which page an address is. They are for people, and for everybody."""

from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from rye_services.problems import Problem
from rye_services.registry.bundles import ShownBundle
from rye_services.registry.item_values import ItemGoneError
from rye_services.registry.names import RegistryNameError, bundle_name, item_name, version_of
from rye_services.registry.page import links
from rye_services.registry.page.views import (
    HEADERS,
    PAGE_SIZE,
    Found,
    Shown,
    bundle_page,
    bundles_page,
    item_page,
    message_page,
    search_page,
)
from rye_services.registry.search_index import MAX_QUERY_CHARACTERS, MOST_FOUND, Wanted, words_of
from rye_services.registry.services import RegistryServices
from ryeos.sync.paths import signature_info

_FILES = {"style.css": "text/css", "icon.svg": "image/svg+xml"}
_FILE_AGE_S = 300
_MOST_BUNDLES = 200
_NOTHING = "There is no such thing here, or it was deleted."
Kind = Literal["", "tool", "directive", "knowledge"]


def router(services: RegistryServices) -> APIRouter:
    """The pages. No OpenAPI document lists them."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(links.HOME)
    def browse(
        query: Annotated[str, Query(max_length=MAX_QUERY_CHARACTERS)] = "",
        item_type: Annotated[Kind, Query()] = "",
        offset: Annotated[int, Query(ge=0, le=MOST_FOUND)] = 0,
    ) -> Response:
        wanted = Wanted(words=words_of(query), item_type=item_type)
        nothing = bool(query.strip()) and not wanted.words
        found, total = (
            ((), 0) if nothing else services.items.search(wanted, limit=PAGE_SIZE, offset=offset)
        )
        shown = Found(query=query, item_type=item_type, offset=offset, items=found, total=total)
        return _page(search_page(shown))

    @routes.get("/browse/item/{item_type}/{item_id:path}")
    def item(item_type: str, item_id: str, version: Annotated[str, Query()] = "") -> Response:
        return _or_nothing(lambda: _item(services, item_type, item_id, version))

    @routes.get(links.BUNDLES)
    def bundles() -> Response:
        found, total = services.bundles.search(Wanted(words=()), limit=_MOST_BUNDLES, offset=0)
        return _page(bundles_page(found, total))

    @routes.get("/browse/bundle/{bundle_id}")
    def bundle(bundle_id: str) -> Response:
        return _or_nothing(lambda: _bundle(services, bundle_id))

    @routes.get("/browse/files/{name}")
    def file(name: str) -> Response:
        if name not in _FILES:
            raise Problem(404, "not found")
        headers = {**HEADERS, "Cache-Control": f"public, max-age={_FILE_AGE_S}"}
        return Response(_file(name), media_type=_FILES[name], headers=headers)

    return routes


def router_alone(_: RegistryServices) -> APIRouter:
    """The first page of a registry that is no node."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def first() -> Response:
        return RedirectResponse(links.HOME, 303, HEADERS)

    return routes


def _item(services: RegistryServices, item_type: str, item_id: str, version: str) -> str:
    name = item_name(item_type, item_id)
    found = services.items.pull(name, version_of(version).text if version else None)
    item, versions = services.items.info(name)
    path = f".ai/{name.kind.directory}/{name.id}{found.suffix}"
    return item_page(
        Shown(
            item=item,
            versions=versions,
            version=found,
            signature=signature_info(name.kind, path, found.content) or {},
            registry=services.keys.node_id,
        )
    )


def _bundle(services: RegistryServices, bundle_id: str) -> str:
    found: ShownBundle
    found, versions = services.bundles.info(bundle_name(bundle_id))
    paths = services.bundles.paths(found.bundle_id, found.version)
    return bundle_page(found, versions, paths)


def _or_nothing(page: Callable[[], str]) -> Response:
    try:
        return _page(page())
    except (ItemGoneError, RegistryNameError):
        return _page(message_page("Not found", _NOTHING), 404)


def _page(source: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(source, status, HEADERS)


@cache
def _file(name: str) -> bytes:
    return (resources.files("rye_services.node.page") / "files" / name).read_bytes()
