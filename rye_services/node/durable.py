"""That what was stored is on the disk, before anything says that it is there."""

import logging
from threading import Lock

from lillux.store import Store
from lillux.store_files import force_file_system

_log = logging.getLogger(__name__)


class Durable:
    """Forces stores to the disk. One for the whole server; thread-safe."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._lock = Lock()

    def force(self, store: Store) -> None:
        """Have on the disk what was put into a store before. Raises FileSystemError.

        A store remembers what it has written itself. What a server that was killed had taken and
        not yet forced, nobody remembers, so the first time everything is.
        """
        root = str(store.root)
        with self._lock:
            is_first = root not in self._seen
        if is_first and store.root.is_dir():
            if not force_file_system(root):
                _log.info("no call here forces a file system, %s is forced by file", root)
            with self._lock:
                self._seen.add(root)
        store.sync()
