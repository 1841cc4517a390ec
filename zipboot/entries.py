"""Entries of the archive that are read whole, compared with the checksums of the zip file.

The interpreter's own reader of zip files looks at none of them. This takes `zipfile`, which costs
more than a start: it is for what does not start by packed code. Page: ``docs/boot.md``.
"""

from __future__ import annotations

from zipboot.parts import damaged

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from zipfile import ZipFile


def read_whole(path: str, name: str) -> bytes:
    """One entry of the archive at ``path``. Raises SystemExit when it is damaged."""
    with _opened(path) as archive:
        return _read(archive, path, name)


def require_whole(path: str, *, but: tuple[str, ...]) -> None:
    """Raise SystemExit if an entry is damaged whose name begins with none of ``but``."""
    with _opened(path) as archive:
        for name in archive.namelist():
            if not name.startswith(but):
                _read(archive, path, name)


def _opened(path: str) -> ZipFile:
    from zipfile import ZipFile

    try:
        return ZipFile(path)
    except Exception:  # noqa: BLE001 - whatever zipfile makes of damage
        raise damaged(path, "its directory") from None


def _read(archive: ZipFile, path: str, name: str) -> bytes:
    try:
        return archive.read(name)
    except Exception:  # noqa: BLE001 - whatever zipfile makes of damage
        raise damaged(path, name) from None
