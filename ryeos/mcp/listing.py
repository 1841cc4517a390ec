"""Lists of resources: items that are offered, in pages, also as tools. Pure.

How clients see the file of an item. Pure.
Which items are offered, in the order of their ids: those that would be found.
Long lists in pages. Pure.

A cursor says where the next page begins: base64url of JSON ``[digest of the list, last id]``. A
list that is another one by then has another digest, and the client begins again.
Items that the policy of user space names, listed beside Rye's own tools with their own schemas.
"""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.foreign_text import one_line
from lillux.jsonrpc import INVALID_PARAMS
from ryeos.app.workspace import Rye
from ryeos.items.errors import InvalidRefError
from ryeos.items.refs import (
    PROJECT,
    USER,
    ItemRef,
    Kind,
    Reference,
    Resolution,
    parse_reference,
    valid_id,
)
from ryeos.mcp.revisions import RpcError
from ryeos.search.records import Record
from ryeos.search.search import LOCAL_TIERS
from ryeos.trust.verify import VerifiedItem

_MIME_TYPES = {
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".json": "application/json",
    ".toml": "application/toml",
    ".js": "text/javascript",
    ".mjs": "text/javascript",
    ".cjs": "text/javascript",
    ".ts": "text/x-typescript",
    ".sh": "application/x-sh",
}
_PLAIN = "text/plain"


def mime_type(suffix: str) -> str:
    """The media type of a file with this suffix."""
    return _MIME_TYPES.get(suffix, _PLAIN)


# Of knowledge: what the system has is found by templates and completion.
LISTED_TIERS = frozenset({PROJECT, USER})


def offered(
    rye: Rye, kinds: Sequence[Kind], tiers: frozenset[str] = LOCAL_TIERS
) -> tuple[Record, ...]:
    """The items of these kinds in these tiers that no nearer one hides. Nothing is verified."""
    documents = rye.catalog.snapshot(tuple(kinds), tiers).pool.all()
    shown = (one for one in documents if not one.shadowed_by and _has_an_id(one.ref))
    return tuple(document.record for document in sorted(shown, key=lambda one: one.ref))


def verified(rye: Rye, ref: ItemRef) -> tuple[Resolution, VerifiedItem] | None:
    """The item if it may be used as it is, else None."""
    try:
        return rye.load(Reference(ref.kind, ref.id))
    except (LilluxError, OSError):
        return None


def _has_an_id(ref: ItemRef) -> bool:
    """A file may have a name that no reference can have."""
    try:
        valid_id(ref.id)
    except InvalidRefError:
        return False
    return True


PAGE_SIZE = 100
MAX_CURSOR_CHARACTERS = 8192
_DIGEST_CHARACTERS = 16

Found = TypeVar("Found")


def listed(
    key: str,
    found: Mapping[str, Found],
    params: Mapping[str, Any],
    entry: Callable[[str, Found], dict[str, Any] | None],
) -> dict[str, Any]:
    """The result of a method that lists: what ``entry`` gives for those on the asked page.

    Raises RpcError, see `page_of`.
    """
    page, cursor = page_of(list(found), params)
    entries = (entry(one, found[one]) for one in page)
    return {key: [one for one in entries if one], **cursor}


def page_of(
    ids: Sequence[str], params: Mapping[str, Any], size: int = PAGE_SIZE
) -> tuple[Sequence[str], dict[str, str]]:
    """The asked part of a list of different ids, and ``{nextCursor}`` where there is more.

    Raises RpcError for an invalid cursor, or is of another list.
    """
    start = _start(ids, params.get("cursor"))
    page = ids[start : start + size]
    if start + size >= len(ids):
        return page, {}
    return page, {"nextCursor": _encode_cursor([_digest(ids), page[-1]])}


def _start(ids: Sequence[str], cursor: object) -> int:
    if cursor is None:
        return 0
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR_CHARACTERS:
        raise RpcError(INVALID_PARAMS, "cursor: expected one that this server gave")
    try:
        digest, last = _decode_cursor(cursor)
    except (ValueError, RecursionError):
        raise RpcError(INVALID_PARAMS, "cursor: expected one that this server gave") from None
    if digest != _digest(ids) or last not in ids:
        raise RpcError(INVALID_PARAMS, "cursor: the list was changed; begin again without one")
    return ids.index(last) + 1


def _digest(ids: Sequence[str]) -> str:
    text = json.dumps(list(ids))
    return sha256_hex(text.encode())[:_DIGEST_CHARACTERS]


def _encode_cursor(value: Sequence[str]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _decode_cursor(cursor: str) -> tuple[Any, Any]:
    """Raises ValueError."""
    data = cursor.encode("ascii")
    digest, last = json.loads(urlsafe_b64decode(data + b"=" * (-len(data) % 4)))
    return digest, last


_NO_TOOL_NAME = re.compile("[^A-Za-z0-9_-]")
_MAX_TOOL_NAME = 64
_ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


def tool_name(ref: str) -> str:
    """The name of an item for clients: ``tool:shop/total`` is ``shop_total``."""
    return _NO_TOOL_NAME.sub("_", ref.rpartition(":")[2])[-_MAX_TOOL_NAME:]


def named_tools(rye: Rye, refs: Sequence[str]) -> list[dict[str, Any]]:
    """The entries of these items; one that does not verify is not listed."""
    entries = []
    for ref in refs:
        try:
            reference = parse_reference(ref)
            chain = rye.executor.build_chain(reference.id)
            rye.require_visible(ItemRef(Kind.TOOL, chain.tool.item_id))
        except LilluxError:
            continue
        spec = chain.tool.spec
        schema = spec.config_schema or _ANY_OBJECT
        entries.append(
            {
                "name": tool_name(ref),
                "description": one_line(spec.description, 500),
                "inputSchema": {**schema, "type": "object"},
            }
        )
    return entries
