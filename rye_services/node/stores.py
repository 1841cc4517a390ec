"""A store for each user, and no way from one to another: ``<cas>/<user>/.ai/state/objects``."""

from pathlib import Path
from threading import Lock

from lillux.cas.store import Store
from rye_services.users import check_user_id


class UserStores:
    """The stores below a folder. Thread-safe; a store is the same object for every caller."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._stores: dict[str, Store] = {}
        self._lock = Lock()

    def of(self, user_id: str) -> Store:
        """The store of a user. Raises UserIdError."""
        folder = self.folder_of(user_id)
        with self._lock:
            store = self._stores.get(user_id)
            if store is None:
                store = self._stores[user_id] = Store(folder / ".ai" / "state" / "objects")
            return store

    def folder_of(self, user_id: str) -> Path:
        """Where everything of a user lies. Raises UserIdError."""
        return self.root / check_user_id(user_id)
