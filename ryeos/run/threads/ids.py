"""Ids of threads: made from the item's, opaque to other programs, shortened by people. Pure."""

import re
from collections.abc import Iterable

from lillux.contained_paths import require_plain_path
from lillux.errors import UnsafePathError
from ryeos.items.errors import RyeError
from ryeos.run.threads.errors import AmbiguousThreadError, ThreadNotFoundError, thread_id_error

MAX_ID_BYTES = 1024
MAX_NAME_BYTES = 255
_LONGEST_LAST = 120
# Names of what lies beside the folders of threads: see `ThreadsPlace`.
_TAKEN = ("registry.", ".")
_OF_NODES = "rye-remote-"
_MOST_SHOWN, _MOST_CLOSE = 5, 3

_MADE_HERE = re.compile(r".*-\d{10,}(?:-\d+)?(-[0-9a-f]{4})", re.DOTALL)
_SHORT = re.compile("run-[0-9a-f]{4}")


def thread_id_for(item_id: str, *, epoch_ms: int, pid: int, chance: bytes) -> str:
    """``<item id>/<its last segment>-<milliseconds>-<pid of the starter>-<4 hex digits>``."""
    last = item_id.rpartition("/")[2].encode()[:_LONGEST_LAST].decode("utf-8", "ignore")
    folder = f"item-{item_id}" if item_id.lower().startswith(_TAKEN) else item_id
    return f"{folder}/{last}-{epoch_ms}-{pid}-{chance[:2].hex()}"


def short_thread_id(thread_id: str) -> str:
    """The short form of an id from `thread_id_for`, like ``run-d150``; any other as it is."""
    found = _MADE_HERE.fullmatch(thread_id)
    return f"run{found[1]}" if found else thread_id


def looks_like_thread_id(text: str) -> bool:
    """True if a text has a form that ids of runs have, the short one or the long one."""
    return is_short_thread_id(text) or _MADE_HERE.fullmatch(text) is not None


def is_short_thread_id(text: str) -> bool:
    """True if a text is such a short form; no item has to have such an id."""
    return _SHORT.fullmatch(text) is not None


def valid_thread_id(thread_id: str) -> str:
    """The id, if it may be used as a relative path. Raises RyeError `INVALID_REF`."""
    try:
        require_plain_path(thread_id)
    except UnsafePathError as error:
        raise thread_id_error(thread_id, error.problem) from None
    data = thread_id.encode("utf-8", "surrogateescape")
    if len(data) > MAX_ID_BYTES or any(len(name) > MAX_NAME_BYTES for name in data.split(b"/")):
        raise thread_id_error(thread_id, f"expected at most {MAX_ID_BYTES} bytes, 255 in a segment")
    if thread_id.lower().startswith(_TAKEN):
        raise thread_id_error(thread_id, "names a file of the registry")
    return thread_id


def find_thread_id(text: str, known: Iterable[str], registry: str) -> str:
    """The id that was meant: whole, its beginning, its end, or the beginning of its last part.

    ``run-d150`` is the short form of one that ends with ``-d150``: see `short_thread_id`.

    Raises RyeError `INVALID_REF`, ThreadNotFoundError with the closest, AmbiguousThreadError, and a
    RyeError of the same code as the second for a run on a node.
    """
    ids = list(known)
    if text in ids:
        return text
    if text.startswith(_OF_NODES):
        raise RyeError(
            f"thread not found: {text[:300]} is the id of a run on a node",
            code="THREAD_NOT_FOUND",
            hint=f"see: rye remote thread {text[:300]}; or wait for it, with --wait",
        )
    valid_thread_id(text.strip("/") or text)
    part = text.removeprefix("run") if _SHORT.fullmatch(text) else text
    found = [
        one
        for one in ids
        if one.startswith(part) or one.endswith(part) or one.rpartition("/")[2].startswith(part)
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
