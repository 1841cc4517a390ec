"""The pages of a registry for people: search, items, bundles, publishers."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Annotated, Literal
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query
from starlette.responses import HTMLResponse, RedirectResponse, Response

from lillux.values import dataclass
from rye_services.http import RequestProblem
from rye_services.page import HEADERS as NODE_HEADERS
from rye_services.page import Html, HtmlPart, joined, table, tag
from rye_services.registry.bundles import ShownBundle
from rye_services.registry.items import (
    ItemGoneError,
    PublishedVersion,
    ShownItem,
    ShownVersion,
    shown_rights,
)
from rye_services.registry.names import (
    ITEM_TYPES,
    RegistryNameError,
    bundle_name,
    item_name,
    version_of,
)
from rye_services.registry.search_index import (
    MAX_QUERY_CHARACTERS,
    MOST_FOUND,
    UNLISTED,
    IndexQuery,
    words_of,
)
from rye_services.registry.services import RegistryServices
from ryeos.items.refs import Kind
from ryeos.sync.paths import signature_info

# --- links ----------------------------------------------------------------------------------------

HOME = "/browse"
BUNDLES = "/browse/bundles"
STYLE = "/browse/files/style.css"
ICON = "/browse/files/icon.svg"


def search_link(query: str, item_type: str, offset: int) -> str:
    """A page of a search; what says nothing is left out."""
    values = {"query": query, "item_type": item_type, "offset": offset or ""}
    return _with(HOME, values)


def item_link(item_type: str, item_id: str, version: str = "") -> str:
    """An item: a version, or the highest one."""
    return _with(f"/browse/item/{quote(item_type)}/{quote(item_id)}", {"version": version})


def bundle_link(bundle_id: str) -> str:
    """A bundle."""
    return f"/browse/bundle/{quote(bundle_id)}"


def pull_link(item_type: str, item_id: str, version: str) -> str:
    """What programs get of an item."""
    return _with(f"/v1/pull/{quote(item_type)}/{quote(item_id)}", {"version": version})


def _with(path: str, values: Mapping[str, object]) -> str:
    said = {name: value for name, value in values.items() if value != ""}
    return f"{path}?{urlencode(said, quote_via=quote)}" if said else path


# --- views ----------------------------------------------------------------------------------------
# The pages, as text. Pure: values in, HTML out. What users wrote is text: nothing of it runs.

PAGE_SIZE = 20
SHOWN_CHARACTERS = 200_000
HEADERS = {
    **NODE_HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    ),
}
"""As of a node's pages, and not one script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSearch:
    """One page of a search."""

    query: str
    item_type: str
    offset: int
    items: tuple[ShownItem, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One item as a page. ``signature``: the fields of its line; ``rights``: declared."""

    item: ShownItem
    versions: tuple[ShownVersion, ...]
    version: PublishedVersion
    signature: dict[str, str]
    registry: str
    rights: Mapping[str, object] | None = None


def search_page(found: ShownSearch) -> str:
    """The form, and what was found; everything, what changed last first, without a query."""
    what = f"“{found.query}”" if found.query else "Items"
    many = "at least " if found.total >= MOST_FOUND else ""
    return _document(
        f"{what} - page {found.offset // PAGE_SIZE + 1}" if found.offset else what,
        _form(found),
        tag("p", f"{many}{found.total} found", role="status"),
        tag("ol", *map(_result, found.items), class_="results", start=found.offset + 1)
        if found.items
        else tag("p", "Nothing here has all of these words.", class_="empty"),
        _pager(found),
    )


def item_page(shown: Shown) -> str:
    """One version of an item: what it is, who published and signed it, and all its text."""
    item, version = shown.item, shown.version
    name = f"{version.name}"
    install = f"rye registry pull {name} --release {version.version}"
    return _document(
        name,
        tag("p", item.title) if item.title and item.title != item.description else None,
        tag("p", item.description) if item.description else None,
        tag(
            "p",
            "This item is unlisted: it is found by who knows its id.",
            class_="empty",
        )
        if item.visibility == UNLISTED
        else None,
        tag("h2", "Install"),
        tag("pre", tag("code", install)),
        tag("p", "What is pulled runs only once you trust who signed it. Read it first."),
        *_rights(shown),
        tag("h2", "Facts"),
        tag("dl", *_facts(shown), class_="facts"),
        tag("h2", "Text"),
        _source(version.content),
        tag(
            "p",
            tag("a", "The same for programs", href=_pull(version)),
            f", {len(version.content.encode())} bytes",
        ),
        tag("h2", "Versions"),
        table(
            "Versions, the highest first",
            ["Version", "Published", "By", "Changes"],
            [_version_row(version, one) for one in shown.versions],
            empty="",
        ),
    )


def bundles_page(bundles: Sequence[ShownBundle], total: int) -> str:
    """Every bundle that is listed."""
    rows = [
        tag(
            "tr",
            tag("td", tag("a", one.bundle_id, href=bundle_link(one.bundle_id))),
            tag("td", one.description),
            tag("td", one.version),
            tag("td", one.author),
            tag("td", one.download_count),
        )
        for one in bundles
    ]
    more = f"The first {len(bundles)} of {total} are shown." if total > len(bundles) else None
    return _document(
        "Bundles",
        table(
            "Bundles, what is pulled most first",
            ["Bundle", "About", "Version", "By", "Downloads"],
            rows,
            empty="No bundle was published yet: rye bundle push",
        ),
        tag("p", more) if more else None,
    )


def bundle_page(bundle: ShownBundle, versions: Sequence[str], paths: Sequence[str]) -> str:
    """One bundle: what it is, and what it holds."""
    return _document(
        f"Bundle {bundle.bundle_id}",
        tag("p", bundle.description) if bundle.description else None,
        tag("h2", "Install"),
        tag(
            "pre", tag("code", f"rye bundle install {bundle.bundle_id} --release {bundle.version}")
        ),
        tag("h2", "Facts"),
        tag(
            "dl",
            *_fact("Version", bundle.version),
            *_fact("All versions", ", ".join(versions)),
            *_fact("Published by", bundle.author),
            *_fact("Updated", _time(bundle.updated_at)),
            *_fact("Downloads", bundle.download_count),
            class_="facts",
        ),
        tag("h2", f"Files ({len(paths)})"),
        tag("ul", *(tag("li", tag("code", path)) for path in paths)),
    )


def message_page(title: str, message: str) -> str:
    """A sentence where there is nothing else to show."""
    return _document(title, tag("p", message))


def _document(title: str, *body: HtmlPart) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{title} - Rye registry"),
        tag("link", rel="icon", href=ICON, type="image/svg+xml"),
        tag("link", rel="stylesheet", href=STYLE),
    )
    pages = tag(
        "nav",
        tag("a", "Items", href=HOME),
        tag("a", "Bundles", href=BUNDLES),
        aria_label="Pages",
    )
    page = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", tag("a", "Rye registry", href=HOME, class_="name"), pages),
        tag("main", tag("h1", title), *body, id="content"),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, page, lang='en')}\n"


def _form(found: ShownSearch) -> Html:
    kinds = (
        tag("option", kind, value=kind, selected=kind == found.item_type) for kind in ITEM_TYPES
    )
    return tag(
        "form",
        tag("label", "Words", for_="query"),
        tag("input", id="query", name="query", type="search", value=found.query, maxlength=400),
        tag("label", "Kind", for_="item_type"),
        tag("select", tag("option", "any", value=""), *kinds, id="item_type", name="item_type"),
        tag("button", "Search", type="submit"),
        method="get",
        action=HOME,
        role="search",
        class_="search",
    )


def _result(item: ShownItem) -> Html:
    address = item_link(item.name.kind.value, item.name.id)
    about = f"{item.version} by {item.author}, {item.download_count} downloads, updated "
    return tag(
        "li",
        tag("a", str(item.name), href=address),
        tag("div", item.description or item.title),
        tag("div", about, _time(item.updated_at), class_="who"),
    )


def _pager(found: ShownSearch) -> Html | None:
    before, after = found.offset - PAGE_SIZE, found.offset + PAGE_SIZE
    parts: list[HtmlPart] = []
    if found.offset:
        address = search_link(found.query, found.item_type, max(0, before))
        parts.append(tag("a", "Earlier", href=address, rel="prev"))
    if after < min(found.total, MOST_FOUND):
        address = search_link(found.query, found.item_type, after)
        parts.append(tag("a", "More", href=address, rel="next"))
    return tag("nav", *parts, aria_label="Results") if parts else None


def _rights(shown: Shown) -> list[Html]:
    """What a tool declares that it may do."""
    version = shown.version
    if version.name.kind is not Kind.TOOL:
        return []
    heading = tag("h2", "What it may do")
    if shown.rights is None:
        return [heading, tag("p", "It declares no rights: it runs with all rights of its caller.")]
    said = (
        fact
        for key, value in shown.rights.items()
        for fact in _fact(key, ", ".join(value) if isinstance(value, list) else str(value))
    )
    return [heading, tag("dl", *said, class_="facts")]


def _facts(shown: Shown) -> list[Html]:
    version, signature = shown.version, shown.signature
    publisher = f"signed with fp:{version.publisher}" if version.publisher else "sent unsigned"
    return [
        *_fact("Version", version.version),
        *_fact("Published by", f"{version.author} ({publisher})"),
        *_fact("Published", _time(version.created_at)),
        *_fact("Registry", tag("code", shown.registry)),
        *_fact("Signed by", tag("code", f"fp:{signature.get('pubkey_fp', '')}")),
        *_fact("Signed", _time(signature.get("timestamp", ""))),
        *_fact(
            "Provenance",
            tag(
                "code",
                f"{signature.get('registry_provider', '')}@"
                f"{signature.get('registry_username', '')}",
            ),
        ),
        *_fact("Content hash", tag("code", signature.get("hash", ""))),
        *_fact("SHA-256 of the file", tag("code", version.sha256)),
        *_fact("Downloads", shown.item.download_count),
    ]


def _fact(name: str, value: HtmlPart) -> tuple[Html, Html]:
    return tag("dt", name), tag("dd", value)


def _source(content: str) -> Html:
    text = tag("pre", tag("code", content[:SHOWN_CHARACTERS]), class_="source", tabindex=0)
    if len(content) <= SHOWN_CHARACTERS:
        return text
    return joined((text, tag("p", f"Only the first {SHOWN_CHARACTERS} characters are shown.")))


def _version_row(current: PublishedVersion, one: ShownVersion) -> Html:
    name = current.name
    address = item_link(name.kind.value, name.id, one.version)
    here = "page" if one.version == current.version else None
    shown: HtmlPart = tag("a", one.version, href=address, aria_current=here)
    return tag(
        "tr",
        tag("td", f"{one.version} (deleted)" if one.is_deleted else shown),
        tag("td", _time(one.created_at)),
        tag("td", one.author),
        tag("td", one.changelog),
    )


def _pull(version: PublishedVersion) -> str:
    return pull_link(version.name.kind.value, version.name.id, version.version)


def _time(moment: str) -> Html:
    shown = moment[:19].replace("T", " ")
    return tag("time", f"{shown} UTC" if shown else "", datetime=moment)


# --- page routes ----------------------------------------------------------------------------------
# The pages of a registry: which page an address is. They are for people, and for everybody.

_FILES = {"style.css": "text/css", "icon.svg": "image/svg+xml"}
_FILE_AGE_S = 300
_MOST_BUNDLES = 200
_NOTHING = "There is no such thing here, or it was deleted."
KindFilter = Literal["", "tool", "directive", "knowledge"]


def page_router(services: RegistryServices) -> APIRouter:
    """The pages. No OpenAPI document lists them."""
    routes = APIRouter(include_in_schema=False)

    @routes.get(HOME)
    def browse(
        query: Annotated[str, Query(max_length=MAX_QUERY_CHARACTERS)] = "",
        item_type: Annotated[KindFilter, Query()] = "",
        offset: Annotated[int, Query(ge=0, le=MOST_FOUND)] = 0,
    ) -> Response:
        wanted = IndexQuery(words=words_of(query), item_type=item_type)
        nothing = bool(query.strip()) and not wanted.words
        found, total = (
            ((), 0) if nothing else services.items.search(wanted, limit=PAGE_SIZE, offset=offset)
        )
        shown = ShownSearch(
            query=query, item_type=item_type, offset=offset, items=found, total=total
        )
        return _page(search_page(shown))

    @routes.get("/browse/item/{item_type}/{item_id:path}")
    def item(item_type: str, item_id: str, version: Annotated[str, Query()] = "") -> Response:
        return _or_nothing(lambda: _item(services, item_type, item_id, version))

    @routes.get(BUNDLES)
    def bundles() -> Response:
        found, total = services.bundles.search(IndexQuery(words=()), limit=_MOST_BUNDLES, offset=0)
        return _page(bundles_page(found, total))

    @routes.get("/browse/bundle/{bundle_id}")
    def bundle(bundle_id: str) -> Response:
        return _or_nothing(lambda: _bundle(services, bundle_id))

    @routes.get("/browse/files/{name}")
    def file(name: str) -> Response:
        if name not in _FILES:
            raise RequestProblem(404, "not found")
        headers = {**HEADERS, "Cache-Control": f"public, max-age={_FILE_AGE_S}"}
        return Response(_file(name), media_type=_FILES[name], headers=headers)

    return routes


def page_router_alone(_: RegistryServices) -> APIRouter:
    """The first page of a registry that is no node."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def first() -> Response:
        return RedirectResponse(HOME, 303, HEADERS)

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
            rights=shown_rights(found),
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
    return (resources.files("rye_services") / "page_files" / name).read_bytes()
