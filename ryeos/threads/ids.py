"""Thread ids: made from the item's, opaque to everybody else, shortened by people. Pure."""

from collections.abc import Iterable

from lillux.errors import UnsafePathError
from lillux.files import check_relative
from ryeos.threads.errors import (
    AmbiguousThreadError,
    RemoteThreadError,
    ThreadIdError,
    ThreadNotFoundError,
)

MAX_ID_BYTES = 1024
MAX_NAME_BYTES = 255
_LONGEST_LAST = 120
# Beside the folders of threads: see `ryeos.threads.place`.
_TAKEN = ("registry.", ".")
_OF_NODES = "rye-remote-"
_MOST_SHOWN, _MOST_CLOSE = 5, 3


def thread_id_for(item_id: str, *, epoch_ms: int, pid: int, chance: bytes) -> str:
    """``<item id>/<its last segment>-<milliseconds>-<pid of the starter>-<4 hex digits>``."""
    last = item_id.rpartition("/")[2].encode()[:_LONGEST_LAST].decode("utf-8", "ignore")
    folder = f"item-{item_id}" if item_id.lower().startswith(_TAKEN) else item_id
    return f"{folder}/{last}-{epoch_ms}-{pid}-{chance[:2].hex()}"


def check_thread_id(thread_id: str) -> str:
    """The id, if it may be used as a relative path. Raises ThreadIdError."""
    try:
        check_relative(thread_id)
    except UnsafePathError as error:
        raise ThreadIdError(thread_id, error.problem) from None
    data = thread_id.encode("utf-8", "surrogateescape")
    if len(data) > MAX_ID_BYTES or any(len(name) > MAX_NAME_BYTES for name in data.split(b"/")):
        raise ThreadIdError(thread_id, f"expected at most {MAX_ID_BYTES} bytes, 255 in a segment")
    if thread_id.lower().startswith(_TAKEN):
        raise ThreadIdError(thread_id, "names a file of the registry")
    return thread_id


def find_thread_id(text: str, known: Iterable[str], registry: str) -> str:
    """The id that was meant: whole, or its beginning, its end, or the beginning of its last part.

    Raises ThreadIdError, ThreadNotFoundError with the closest, AmbiguousThreadError,
    RemoteThreadError.
    """
    ids = list(known)
    if text in ids:
        return text
    if text.startswith(_OF_NODES):
        raise RemoteThreadError(text)
    check_thread_id(text.strip("/") or text)
    found = [
        one
        for one in ids
        if one.startswith(text) or one.endswith(text) or one.rpartition("/")[2].startswith(text)
    ]
    if len(found) > 1:
        raise AmbiguousThreadError(text, found[:_MOST_SHOWN])
    if not found:
        raise ThreadNotFoundError(text, registry, _closest(text, ids))
    return found[0]


def _closest(text: str, ids: list[str]) -> list[str]:
    """The ids that differ little from the text, as a whole or in their last part."""
    from difflib import get_close_matches

    lasts = {one.rpartition("/")[2]: one for one in ids}
    close = get_close_matches(text, ids, _MOST_CLOSE, 0.6)
    close += [lasts[last] for last in get_close_matches(text, lasts, _MOST_CLOSE, 0.6)]
    return list(dict.fromkeys(close))[:_MOST_CLOSE]
