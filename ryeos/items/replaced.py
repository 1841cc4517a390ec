"""Texts that a command replaced or removed, kept outside of the project, in user space.

Beside the file a copy would be one ``git add`` away from everyone, and a client's settings hold
tokens. A copy of ``/home/ada/shop/.mcp.json`` is
``~/.ai/state/replaced-settings/home/ada/shop/.mcp.json.20270102T030405.678901``. A file of its own,
as registries, imports and signing are on different floors.
"""

from pathlib import Path

from lillux.files import create_file, make_directory, read_bytes
from ryeos.items.context import utc_now
from ryeos.items.refs import REPLACED_FOLDER, REPLACED_SETTINGS_FOLDER, Space

MOST_KEPT = 20
"""Copies of one file: the first of all, and the newest."""
_LONGEST_NAME = 180


def keep_replaced(user: Space, path: Path, data: bytes) -> Path:
    """Keep what an item's file held, for its user alone; where. Raises FileSystemError."""
    return _keep(user.ai / REPLACED_FOLDER, path, data)


def keep_replaced_settings(user: Space, path: Path, data: bytes) -> Path:
    """Keep settings that may hold tokens like `keep_replaced`: nothing confined reads the copy."""
    return _keep(user.ai / REPLACED_SETTINGS_FOLDER, path, data)


def _keep(root: Path, path: Path, data: bytes) -> Path:
    make_directory(root, mode=0o700)
    absolute = path.absolute()
    drive = absolute.drive.strip(":\\/").replace("\\", "_")
    folder = root.joinpath(drive, *absolute.parts[1:-1])
    make_directory(folder, mode=0o700)
    start = f"{path.name[:_LONGEST_NAME]}."
    there = sorted(one for one in folder.iterdir() if one.name.startswith(start))
    there = [one for one in there if one.is_file() and len(one.name) == len(start) + _STAMP]
    if there and there[-1].stat().st_size == len(data) and read_bytes(there[-1], len(data)) == data:
        return there[-1]
    while True:
        kept = folder / f"{start}{utc_now():{_FORMAT}}"
        try:
            create_file(kept, data, mode=0o600)
        except FileExistsError:  # another one in the same microsecond
            continue
        for old in there[1 : max(1, len(there) + 2 - MOST_KEPT)]:
            old.unlink(missing_ok=True)
        return kept


_FORMAT = "%Y%m%dT%H%M%S.%f"
_STAMP = len("20270102T030405.678901")
