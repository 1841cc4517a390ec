"""Long lists in pages. Pure.

A cursor says where the next page begins: base64url of JSON ``[digest of the list, last id]``. A
list that is another one by then has another digest, and the client begins again.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from lillux.digests import sha256_hex
from lillux.jsonrpc import INVALID_PARAMS
from ryeos.mcp.eras import RpcError

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

    Raises RpcError for a cursor that is none, or is of another list.
    """
    start = _start(ids, params.get("cursor"))
    page = ids[start : start + size]
    if start + size >= len(ids):
        return page, {}
    return page, {"nextCursor": _encoded([_digest(ids), page[-1]])}


def _start(ids: Sequence[str], cursor: object) -> int:
    if cursor is None:
        return 0
    if not isinstance(cursor, str) or len(cursor) > MAX_CURSOR_CHARACTERS:
        raise RpcError(INVALID_PARAMS, "cursor: expected one that this server gave")
    try:
        digest, last = _decoded(cursor)
    except (ValueError, RecursionError):
        raise RpcError(INVALID_PARAMS, "cursor: expected one that this server gave") from None
    if digest != _digest(ids) or last not in ids:
        raise RpcError(INVALID_PARAMS, "cursor: the list was changed; begin again without one")
    return ids.index(last) + 1


def _digest(ids: Sequence[str]) -> str:
    text = json.dumps(list(ids))
    return sha256_hex(text.encode())[:_DIGEST_CHARACTERS]


def _encoded(value: Sequence[str]) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _decoded(cursor: str) -> tuple[Any, Any]:
    """Raises ValueError."""
    data = cursor.encode("ascii")
    digest, last = json.loads(urlsafe_b64decode(data + b"=" * (-len(data) % 4)))
    return digest, last
