"""A store for each user, and no way from one to another: ``<cas>/<user>/.ai/state/objects``."""

from pathlib import Path
from threading import Lock

from lillux.store import Store
from rye_services.users import UserIdError, check_user_id

_STORE = Path(".ai", "state", "objects")
# Nobody but the node reads these stores. A first push brings thousands of pieces: with two levels
# nearly each would make a folder of its own, which costs as much as the piece (ADR 0104).
_LEVELS = 1


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
                store = self._stores[user_id] = Store(folder / _STORE, levels=_LEVELS)
            return store

    def users(self) -> tuple[str, ...]:
        """Everybody who has a store, sorted. Other folders beside them are nobody's."""
        names = sorted(path.parent.name for path in self.root.glob("*/.ai"))
        return tuple(name for name in names if self._has_store(name))

    def folder_of(self, user_id: str) -> Path:
        """Where everything of a user lies. Raises UserIdError."""
        return self.root / check_user_id(user_id)

    def _has_store(self, name: str) -> bool:
        try:
            return (self.folder_of(name) / _STORE).is_dir()
        except UserIdError:
            return False
