"""What the item objects that were read once say: which blob each of them leads to.

An object is named by its content, so what one says never changes and is true for every user. That
it is *there* is another matter, and asked of the store each time.
"""

from threading import Lock

MAX_ITEMS = 100_000
"""About 25 MB; more than the items of the ten largest projects that push at once."""


class KnownItems:
    """The blob of each sound ``item_source`` seen lately, at most ``limit``. Thread-safe."""

    def __init__(self, limit: int = MAX_ITEMS) -> None:
        # Two generations instead of a queue: what is asked for moves to the young one, and when
        # that is half of all, the old one goes as a whole.
        self._half = max(1, limit // 2)
        self._young: dict[bytes, bytes] = {}
        self._old: dict[bytes, bytes] = {}
        self._lock = Lock()

    def blob_of(self, digest: str) -> str | None:
        """The blob that an item leads to, None for one that was not read lately."""
        key = bytes.fromhex(digest)
        young = self._young.get(key)
        if young is not None:
            return young.hex()
        old = self._old.get(key)
        if old is None:
            return None
        self._keep(key, old)
        return old.hex()

    def remember(self, digest: str, blob: str) -> None:
        """Keep that the item of ``digest`` was read, is sound and leads to ``blob``."""
        self._keep(bytes.fromhex(digest), bytes.fromhex(blob))

    def _keep(self, key: bytes, value: bytes) -> None:
        with self._lock:
            if len(self._young) >= self._half:
                self._old, self._young = self._young, {}
            self._young[key] = value
