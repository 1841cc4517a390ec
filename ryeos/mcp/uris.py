"""``rye://`` URIs of resources, and their templates. Pure.

    rye://knowledge/ID  rye://directive/ID  rye://tool/ID     an item's file
    rye://output/ID  rye://output/ID?offset=N&length=N        a result that was kept whole; a part
    rye://help/TOPIC                                          a topic of ``help``

Segments are percent-encoded. What an item's id may be is decided after decoding.
"""

import re
from typing import Any
from urllib.parse import quote, unquote

from lillux.values import dataclass
from ryeos.items.errors import InvalidRefError
from ryeos.items.refs import EXECUTABLE_KINDS, ItemRef, Kind, valid_id

SCHEME = "rye://"
OUTPUT, HELP, PROPOSAL = "output", "help", "proposal"
MAX_URI_CHARACTERS = 2048
ITEM_TEMPLATE = f"{SCHEME}{{kind}}/{{+id}}"
OUTPUT_TEMPLATE = f"{SCHEME}{OUTPUT}/{{id}}{{?offset,length}}"
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
        "description": "A result too large for its message: whole, or bytes from offset on",
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
# Of which JSON makes at most six times as much, still less than a message.
MAX_PART_BYTES = 1024 * 1024
_PART = frozenset({"offset", "length"})
_NUMBER = re.compile(r"[0-9]{1,15}")
_PROPOSAL_ID = re.compile(r"[0-9a-f]{12}")
_OUTPUT_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """A result that was kept, by the name it was given; or ``length`` bytes of it."""

    name: str
    offset: int = 0
    length: int | None = None


@dataclass(frozen=True, slots=True)
class HelpTopic:
    """A topic of ``help``."""

    name: str


@dataclass(frozen=True, slots=True)
class ProposalName:
    """A proposal that a person decides about, by its id."""

    id: str


NamedResource = ItemRef | StoredOutput | HelpTopic | ProposalName


def item_uri(ref: ItemRef) -> str:
    """The URI of an item."""
    return f"{SCHEME}{ref.kind}/{quote(ref.id, safe='/', errors='surrogateescape')}"


def parse_uri(uri: str) -> NamedResource | None:
    """The resource that a URI names; None where nothing can have this name."""
    if len(uri) > MAX_URI_CHARACTERS or not uri.startswith(SCHEME) or "#" in uri:
        return None
    uri, has_query, query = uri.partition("?")
    if has_query:
        return _part_of_output(uri, query)
    word, slash, rest = uri.removeprefix(SCHEME).partition("/")
    name = unquote(rest, errors="surrogateescape")
    if not slash or not name:
        return None
    found: NamedResource | None = None
    if word in _KINDS:
        found = _item(_KINDS[word], name)
    elif word == OUTPUT and _OUTPUT_ID.fullmatch(name):
        found = StoredOutput(name)
    elif word == PROPOSAL and _PROPOSAL_ID.fullmatch(name):
        found = ProposalName(name)
    elif word == HELP:
        found = HelpTopic(name)
    return found


def part_uri(name: str, offset: int, length: int) -> str:
    """The URI of a part of an output."""
    return f"{SCHEME}{OUTPUT}/{name}?offset={offset}&length={length}"


def _part_of_output(uri: str, query: str) -> StoredOutput | None:
    """A part that is asked for in bytes, each of the two numbers at most once."""
    whole, fields = parse_uri(uri), [field.partition("=") for field in query.split("&")]
    numbers = {name: int(text) for name, _, text in fields if _NUMBER.fullmatch(text)}
    if (
        not isinstance(whole, StoredOutput)
        or len(numbers) < len(fields)
        or not numbers.keys() <= _PART
    ):
        return None
    return StoredOutput(whole.name, numbers.get("offset", 0), numbers.get("length", MAX_PART_BYTES))


def _item(kind: Kind, item_id: str) -> ItemRef | None:
    try:
        return ItemRef(kind, valid_id(item_id))
    except InvalidRefError:
        return None
