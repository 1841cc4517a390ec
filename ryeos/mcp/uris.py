"""``rye://`` URIs: what each of them names, and the templates they are made from. Pure.

    rye://knowledge/ID  rye://directive/ID  rye://tool/ID     an item's file
    rye://output/ID                                           a result that was kept whole
    rye://help/TOPIC                                          a topic of ``help``

Segments are percent-encoded. What an item's id may be is decided after decoding.
"""

import re
from typing import Any
from urllib.parse import quote, unquote

from lillux.values import dataclass
from ryeos.errors import InvalidRefError
from ryeos.items import EXECUTABLE_KINDS, ItemRef, Kind, check_id

SCHEME = "rye://"
OUTPUT, HELP = "output", "help"
MAX_URI_CHARACTERS = 2048
ITEM_TEMPLATE = f"{SCHEME}{{kind}}/{{+id}}"
OUTPUT_TEMPLATE = f"{SCHEME}{OUTPUT}/{{id}}"
HELP_TEMPLATE = f"{SCHEME}{HELP}/{{topic}}"
TEMPLATES: tuple[dict[str, Any], ...] = (
    {
        "uriTemplate": ITEM_TEMPLATE,
        "name": "item",
        "title": "Items",
        "description": "The verified file of an item; kind is knowledge, directive or tool",
    },
    {
        "uriTemplate": OUTPUT_TEMPLATE,
        "name": "output",
        "title": "Kept outputs",
        "description": "A result that was too large for its message, whole",
        "mimeType": "text/plain",
    },
    {
        "uriTemplate": HELP_TEMPLATE,
        "name": "help",
        "title": "Help",
        "description": "A topic of help",
        "mimeType": "text/markdown",
    },
)
_KINDS = {kind.value: kind for kind in EXECUTABLE_KINDS}
_OUTPUT_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class Output:
    """A result that was kept, by the name it was given."""

    name: str


@dataclass(frozen=True, slots=True)
class HelpTopic:
    """A topic of ``help``."""

    name: str


Named = ItemRef | Output | HelpTopic


def item_uri(ref: ItemRef) -> str:
    """The URI of an item."""
    return f"{SCHEME}{ref.kind}/{quote(ref.id, safe='/', errors='surrogateescape')}"


def parse_uri(uri: str) -> Named | None:
    """What a URI names; None where nothing can have this name."""
    if len(uri) > MAX_URI_CHARACTERS or not uri.startswith(SCHEME) or {"?", "#"} & set(uri):
        return None
    word, slash, rest = uri.removeprefix(SCHEME).partition("/")
    name = unquote(rest, errors="surrogateescape")
    if not slash or not name:
        return None
    if word in _KINDS:
        return _item(_KINDS[word], name)
    if word == OUTPUT:
        return Output(name) if _OUTPUT_ID.fullmatch(name) else None
    return HelpTopic(name) if word == HELP else None


def _item(kind: Kind, item_id: str) -> ItemRef | None:
    try:
        return ItemRef(kind, check_id(item_id))
    except InvalidRefError:
        return None
