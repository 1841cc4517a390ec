"""The folder of a node's data, looked at before anything is read from it or written there."""

import os
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import make_directory
from rye_services.settings import SettingError, Settings
from ryeos.items.errors import RyeError


class NoDataError(RyeError):
    """A command about a node was pointed at a folder that no node ever used."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        super().__init__(
            f"{data_dir}: expected the data of a node, found none",
            hint="name the folder that the node is served with: --data DIR",
        )


def require_data(settings: Settings) -> Settings:
    """The settings, whose node has data already. Raises NoDataError, SettingError for a file."""
    _require_folder(settings.data_dir)
    places = (settings.signing_key_dir, settings.cas_base_path, settings.data_dir / "node.db")
    if not any(place.exists() for place in places) and _is_sqlite_below(settings):
        raise NoDataError(settings.data_dir)
    return settings


def make_data(settings: Settings) -> Settings:
    """The settings, whose data folder is there and can be written to. Raises SettingError."""
    _require_folder(settings.data_dir)
    try:
        make_directory(settings.data_dir, mode=0o700)
    except LilluxError as error:
        raise SettingError("data folder", str(error), hint=_HINT) from error
    if not os.access(settings.data_dir, os.W_OK | os.X_OK):
        raise SettingError("data folder", f"{settings.data_dir}: cannot be written to", hint=_HINT)
    return settings


_HINT = "name a folder of your own: --data DIR, or RYE_NODE_DATA_DIR"


def _require_folder(path: Path) -> None:
    if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112 - of any text
        raise SettingError("data folder", f"{path}: expected a folder, found a file", hint=_HINT)


def _is_sqlite_below(settings: Settings) -> bool:
    """Whether the database is the one that lies in the data folder, where none was named."""
    return settings.database_url == f"sqlite:///{settings.data_dir / 'node.db'}"
