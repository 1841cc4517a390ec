"""Where this user keeps what can be made again: a folder that nobody else can write to."""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

_PRIVATE = 0o700
_OTHERS_WRITE = 0o022


def cache_place(env: Mapping[str, str], kind: str, platform: str) -> Path | None:
    """A private folder of the cache, made if it is missing; None where there is no such place.

    ``RYE_CACHE_DIR``, else ``rye`` in ``XDG_CACHE_HOME`` or in the platform's folder for caches.
    """
    root = _root(env, platform)
    if root is None:
        return None
    folder = root / kind
    with suppress(OSError):
        folder.mkdir(mode=_PRIVATE, parents=True, exist_ok=True)
        if platform == "win32" or _is_ours_alone(folder):
            return folder
    return None


def _root(env: Mapping[str, str], platform: str) -> Path | None:
    asked = env.get("RYE_CACHE_DIR")
    if asked:
        return Path(asked).absolute()
    if platform == "win32":
        return _inside(env.get("LOCALAPPDATA", ""), "rye")
    home = env.get("HOME", "")
    if platform == "darwin":
        return _inside(home, "Library", "Caches", "rye")
    return _inside(env.get("XDG_CACHE_HOME", ""), "rye") or _inside(home, ".cache", "rye")


def _inside(base: str, *names: str) -> Path | None:
    return Path(base, *names) if os.path.isabs(base) else None  # noqa: PTH117 - "" is none


def _is_ours_alone(folder: Path) -> bool:
    status = folder.lstat()
    return (
        stat.S_ISDIR(status.st_mode)
        and status.st_uid == os.getuid()
        and not status.st_mode & _OTHERS_WRITE
    )
