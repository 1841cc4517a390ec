"""The pages of a registry for people: search, items, bundles, namespaces, publishers.

They are for all visitors, and change nothing. Texts of users are text, or markup without code.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.responses import RedirectResponse, Response

from lillux.errors import LilluxError
from lillux.values import dataclass
from rye_services.names import RegistryNameError, namespace_name
from rye_services.registry.items import (
    SIGNATURE_LINES,
    ItemGoneError,
    ListedItem,
    ListedVersion,
    PublishedVersion,
    shown_rights,
)
from rye_services.registry.names import ITEM_TYPES, ItemName, bundle_name, item_name, version_of
from rye_services.registry.search_index import (
    MAX_QUERY_CHARACTERS,
    MOST_FOUND,
    UNLISTED,
    IndexQuery,
    words_of,
)
from rye_services.registry.services import RegistryServices
from rye_services.web import texts
from rye_services.web.page import (
    BROWSE,
    BUNDLES,
    PLAIN_HEADERS,
    REGISTRY_FILES,
    add_files,
    page_answer,
    page_of,
    render,
)
from ryeos.items.headers import parse_header
from ryeos.items.refs import Kind
from ryeos.items.rendering import input_schema
from ryeos.items.specs import tool_spec
from ryeos.sync.item_files import signature_info

# --- values ---------------------------------------------------------------------------------------

PAGE_SIZE = 20
SHOWN_CHARACTERS = 200_000
_MOST_BUNDLES, _MOST_OF_A_PERSON = 200, 200
_MOST_PARAMETERS = 200
_NOTHING = "There is no such thing here, or it was deleted."


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSearch:
    """One page of a search."""

    query: str
    item_type: str
    offset: int
    items: tuple[ListedItem, ...]
    total: int

    @property
    def earlier(self) -> str:
        """The address of the page before this one; "" for the first."""
        return self._at(max(0, self.offset - PAGE_SIZE)) if self.offset else ""

    @property
    def more(self) -> str:
        """The address of the next page; "" for the last."""
        after = self.offset + PAGE_SIZE
        return self._at(after) if after < min(self.total, MOST_FOUND) else ""

    def _at(self, offset: int) -> str:
        return page_of(BROWSE, query=self.query, item_type=self.item_type, offset=offset or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """What an item takes, of its schema."""

    name: str
    type: str
    is_required: bool
    default: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """With which signature of its publisher a version came, and what that means."""

    words: str
    meaning: str


def sender_of(version: PublishedVersion, key_dates: Mapping[str, str]) -> Sender:
    """What is known of the publisher's signature. ``key_dates``: when keys were registered.

    An account that had registered a key by then could send what is signed by that key, or unsigned.
    Of an account without one nothing is known: its signature could not be verified.
    """
    if version.publisher:
        return Sender(
            words=f"signed with fp:{version.publisher}",
            meaning=f"The registry verified the signature of {version.author} with this key, which "
            "the account had registered.",
        )
    alone = "an API key of the account is all that vouches for this version"
    if any(registered <= version.created_at for registered in key_dates.values()):
        return Sender(
            words="sent unsigned",
            meaning=f"{version.author} had a registered key and did not sign with it: {alone}.",
        )
    return Sender(
        words="no signature verified",
        meaning=f"The registry knew no key of {version.author} to verify one with: {alone}.",
    )


def parameters_of(version: PublishedVersion) -> tuple[Parameter, ...]:
    """What a tool or directive takes; nothing where its header does not say, or cannot be read."""
    try:
        schema = _schema(version)
    except LilluxError:
        return ()
    properties = schema.get("properties")
    required = schema.get("required")
    if not isinstance(properties, Mapping):
        return ()
    needed = required if isinstance(required, list) else []
    return tuple(
        _parameter(str(name), about, is_required=name in needed)
        for name, about in list(properties.items())[:_MOST_PARAMETERS]
        if isinstance(about, Mapping)
    )


def _schema(version: PublishedVersion) -> Mapping[str, Any]:
    match version.name.kind:
        case Kind.TOOL:
            header = parse_header(version.suffix, version.content, str(version.name))
            return tool_spec(header, version.suffix).config_schema or {}
        case Kind.DIRECTIVE:
            return input_schema(version.content)
        case _:
            return {}


def _parameter(name: str, about: Mapping[str, Any], *, is_required: bool) -> Parameter:
    kind = about.get("type", "")
    choices = about.get("enum")
    shown = ", ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    if isinstance(choices, list):
        shown = " | ".join(json.dumps(one, default=str) for one in choices[:20])
    default = json.dumps(about["default"], default=str) if "default" in about else ""
    return Parameter(
        name=name,
        type=shown,
        is_required=is_required,
        default=default[:1000],
        description=str(about.get("description", "")),
    )


def unsigned_text(content: str) -> str:
    """A content without the lines of signatures, which differ between any two versions."""
    return SIGNATURE_LINES.sub("", content)


def _previous(versions: Sequence[ListedVersion]) -> dict[str, str]:
    """For each version that is there, the highest one below it that is there too."""
    live = [one.version for one in versions if not one.deleted]
    return dict(pairwise(live))


# --- page routes ----------------------------------------------------------------------------------
# Which page an address is.

KindFilter = Literal["", "tool", "directive", "knowledge"]
Version = Annotated[str, Query(max_length=40)]


def page_router(services: RegistryServices) -> APIRouter:
    """The pages. No OpenAPI document lists them."""
    routes = APIRouter(include_in_schema=False)
    add_files(routes, REGISTRY_FILES)
    _add_item_pages(routes, services)
    _add_bundle_pages(routes, services)
    _add_publisher_pages(routes, services)
    return routes


def page_router_alone(_: RegistryServices) -> APIRouter:
    """The first page of a registry that is no node."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/")
    async def first() -> Response:
        return RedirectResponse(BROWSE, 303, PLAIN_HEADERS)

    return routes


def _add_item_pages(routes: APIRouter, services: RegistryServices) -> None:
    @routes.get(BROWSE)
    def browse(
        query: Annotated[str, Query(max_length=MAX_QUERY_CHARACTERS)] = "",
        item_type: Annotated[KindFilter, Query()] = "",
        offset: Annotated[int, Query(ge=0, le=MOST_FOUND)] = 0,
    ) -> Response:
        return _page(_search(services, query, item_type, offset))

    @routes.get("/browse/item/{item_type}/{item_id:path}")
    def item(item_type: str, item_id: str, version: Version = "") -> Response:
        return _or_nothing(lambda: _item(services, item_type, item_id, version))

    @routes.get("/browse/diff/{item_type}/{item_id:path}")
    def diff(
        item_type: str, item_id: str, to: Version, begin: Annotated[str, Query(alias="from")]
    ) -> Response:
        return _or_nothing(lambda: _diff(services, item_name(item_type, item_id), begin, to))


def _add_bundle_pages(routes: APIRouter, services: RegistryServices) -> None:
    @routes.get(BUNDLES)
    def bundles() -> Response:
        found, total = services.bundles.search(IndexQuery(words=()), limit=_MOST_BUNDLES, offset=0)
        return _page(render("registry/bundles.html", bundles=found, total=total))

    @routes.get("/browse/bundle/{bundle_id}")
    def bundle(bundle_id: str, version: Version = "") -> Response:
        return _or_nothing(lambda: _bundle(services, bundle_id, version))

    @routes.get("/browse/bundle/{bundle_id}/file")
    def file(
        bundle_id: str, version: Version, name: Annotated[str, Query(alias="file", max_length=512)]
    ) -> Response:
        return _or_nothing(lambda: _bundle_file(services, bundle_id, version, name))


def _add_publisher_pages(routes: APIRouter, services: RegistryServices) -> None:
    @routes.get("/browse/namespace/{name}")
    def namespace(name: str) -> Response:
        return _or_nothing(lambda: _namespace(services, name))

    @routes.get("/browse/person/{name}")
    def person(name: str) -> Response:
        return _or_nothing(lambda: _person(services, name))


def _search(services: RegistryServices, query: str, item_type: str, offset: int) -> str:
    wanted = IndexQuery(words=words_of(query), item_type=item_type)
    nothing = bool(query.strip()) and not wanted.words
    found, total = (
        ((), 0) if nothing else services.items.search(wanted, limit=PAGE_SIZE, offset=offset)
    )
    search = ShownSearch(query=query, item_type=item_type, offset=offset, items=found, total=total)
    number = offset // PAGE_SIZE + 1
    return render(
        "registry/search.html",
        search=search,
        number=number,
        item_types=ITEM_TYPES,
        most=MOST_FOUND,
    )


def _item(services: RegistryServices, item_type: str, item_id: str, version: str) -> str:
    name = item_name(item_type, item_id)
    found = services.items.pull(name, version_of(version).text if version else None)
    item, versions = services.items.info(name)
    path = f".ai/{name.kind.directory}/{name.id}{found.suffix}"
    rights = shown_rights(found)
    return render(
        "registry/item.html",
        item=item,
        found=found,
        versions=versions,
        previous=_previous(versions),
        description=texts.markdown(item.description or item.title),
        parameters=parameters_of(found),
        rights=None if rights is None else _right_rows(rights),
        is_tool=name.kind is Kind.TOOL,
        is_unlisted=item.visibility == UNLISTED,
        code=texts.code(found.content[:SHOWN_CHARACTERS], found.suffix),
        is_cut=len(found.content) > SHOWN_CHARACTERS,
        size=len(found.content.encode()),
        signature=signature_info(name.kind, path, found.content) or {},
        sender=sender_of(found, services.accounts.key_dates(found.author)),
        registry=services.keys.node_id,
        dependants=services.items.dependants(name),
        pull=page_of(f"/v1/pull/{quote(item_type)}/{quote(item_id)}", version=found.version),
    )


def _right_rows(rights: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (key, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
        for key, value in rights.items()
    )


def _diff(services: RegistryServices, name: ItemName, begin: str, to: str) -> str:
    before, after = (
        services.items.pull(name, version_of(one).text if one else None) for one in (begin, to)
    )
    lines = texts.diff_lines(unsigned_text(before.content), unsigned_text(after.content))
    return render("registry/diff.html", name=name, before=before, after=after, lines=lines)


def _bundle(services: RegistryServices, bundle_id: str, version: str) -> str:
    found, versions = services.bundles.info(bundle_name(bundle_id))
    shown = version_of(version).text if version else found.version
    if shown not in versions:
        raise ItemGoneError(f"bundle {bundle_id}@{shown}")
    paths = services.bundles.paths(found.bundle_id, shown)
    readme = _readme(paths)
    return render(
        "registry/bundle.html",
        bundle=found,
        version=shown,
        versions=versions,
        paths=paths,
        description=texts.markdown(found.description),
        readme=texts.markdown(services.bundles.text(found.bundle_id, shown, readme))
        if readme
        else None,
    )


def _readme(paths: Sequence[str]) -> str:
    """The README that is about the whole bundle; "" for none."""
    named = [path for path in paths if PurePosixPath(path).name.casefold() == "readme.md"]
    return min(named, key=lambda path: (path.count("/"), path), default="")


def _bundle_file(services: RegistryServices, bundle_id: str, version: str, path: str) -> str:
    name = bundle_name(bundle_id)
    if not path.isprintable():
        raise ItemGoneError(f"bundle {name}@{version}")
    content = services.bundles.text(name, version_of(version).text, path)
    return render(
        "registry/file.html",
        bundle_id=name,
        version=version,
        path=path,
        code=texts.code(content[:SHOWN_CHARACTERS], PurePosixPath(path).suffix),
        is_cut=len(content) > SHOWN_CHARACTERS,
    )


def _namespace(services: RegistryServices, name: str) -> str:
    found = services.namespaces.find(namespace_name(name))
    if found is None:
        raise ItemGoneError(f"namespace {name}")
    wanted = IndexQuery(words=(), namespace=found.name)
    items, total = services.items.search(wanted, limit=_MOST_OF_A_PERSON, offset=0)
    return render("registry/namespace.html", namespace=found, items=items, total=total)


def _person(services: RegistryServices, name: str) -> str:
    account = services.accounts.find(namespace_name(name, "account"))
    owned = services.namespaces.of(name)
    if account is None and not owned:
        raise ItemGoneError(f"account {name}")
    bundles, _ = services.bundles.search(
        IndexQuery(words=(), namespace=name), limit=_MOST_BUNDLES, offset=0
    )
    return render(
        "registry/person.html",
        name=name,
        account=account,
        keys=services.accounts.key_dates(name),
        namespaces=owned,
        items=services.items.published_by(name, limit=_MOST_OF_A_PERSON),
        bundles=bundles,
    )


def _or_nothing(page: Callable[[], str]) -> Response:
    try:
        return _page(page())
    except (ItemGoneError, RegistryNameError):
        source = render("registry/message.html", title="Not found", words=_NOTHING)
        return _page(source, 404)


def _page(source: str, status: int = 200) -> Response:
    return page_answer(source, status, PLAIN_HEADERS)
