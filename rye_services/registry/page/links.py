"""The addresses of the pages. Pure."""

from collections.abc import Mapping
from urllib.parse import quote, urlencode

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
