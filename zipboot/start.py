"""From the zip file to the running program: find or make the unpacked copy, then hand over.

Compiled from source at every start, so it is short and imports little. The copy is named by the
build and lies in a folder that only this user can enter. Where there is no place for one, it is
made in a temporary folder and removed at exit. Page: ``docs/building.md``.
"""

import os
import stat
import sys
from collections.abc import Mapping, MutableMapping
from zipimport import zipimporter

BUILD_ID = "zipboot/build_id"
FAILED, INTERRUPTED = 1, 130


def start() -> int:
    """Run the program that lies in this archive; its exit status."""
    archive = sys.path[0]  # Python puts the file that it was told to run there
    build_id = zipimporter(archive).get_data(BUILD_ID).decode("ascii")
    forget_shiv(os.environ)
    try:
        sys.path[0] = site_packages(archive, build_id)
    except OSError as error:
        sys.stderr.write(
            f"error: no folder to unpack rye into: {error}\n"
            "  hint: name one that can be written, RYE_CACHE_DIR=DIR\n"
        )
        return FAILED
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return INTERRUPTED
    from ryeos.cli.entry import main

    return main()


def forget_shiv(environ: MutableMapping[str, str]) -> None:
    """Drop what is meant for another program packed by shiv, like its entry point."""
    for name in [name for name in environ if name.startswith("SHIV_")]:
        del environ[name]


def site_packages(archive: str, build_id: str) -> str:
    """The folder with the unpacked modules, there already or made now.

    Raises OSError when neither the user's cache nor a temporary folder can be written.
    """
    umask = os.umask(0o077)
    try:
        root = cache_root(os.environ, sys.platform)
        if root is not None:
            try:
                return unpacked(archive, root, build_id)
            except OSError:
                pass  # read-only, full, or not ours alone: what follows needs nobody's consent
        return unpacked(archive, _temporary_root(), build_id)
    finally:
        os.umask(umask)


def cache_root(environ: Mapping[str, str], platform: str) -> str | None:
    """Where this user keeps unpacked copies, or None where there is no such place.

    ``RYE_CACHE_DIR``, else ``rye`` in ``XDG_CACHE_HOME`` or in the platform's folder for caches.
    """
    asked = environ.get("RYE_CACHE_DIR")
    if asked:
        return os.path.join(os.path.abspath(asked), "unpacked")
    if platform == "win32":
        return _inside(environ.get("LOCALAPPDATA", ""), "rye", "unpacked")
    if platform == "darwin":
        return _inside(_home(environ), "Library", "Caches", "rye", "unpacked")
    if os.path.isabs(environ.get("XDG_CACHE_HOME", "")):
        return os.path.join(environ["XDG_CACHE_HOME"], "rye", "unpacked")
    return _inside(_home(environ), ".cache", "rye", "unpacked")


def _inside(base: str, *names: str) -> str | None:
    """A path below an existing folder of our own user; a home that is missing is not made."""
    if not os.path.isabs(base) or base == os.path.dirname(base) or not os.path.isdir(base):
        return None
    if hasattr(os, "geteuid") and os.geteuid() == 0 and os.stat(base).st_uid != 0:
        return None  # sudo: what root leaves in a user's home, that user cannot change or remove
    return os.path.join(base, *names)


def _home(environ: Mapping[str, str]) -> str:
    if "HOME" in environ:
        return environ["HOME"]
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_dir
    except (ImportError, KeyError):  # no such module on Windows, no such user in a container
        return ""


def unpacked(archive: str, root: str, build_id: str) -> str:
    """The modules of a build below ``root``, unpacked first if they are not there.

    Raises OSError when ``root`` cannot be written, or other users could.
    """
    _make_private(root)
    target = os.path.join(root, build_id)
    if not os.path.isdir(target):
        from pathlib import Path
        from zipfile import ZipFile

        # In the archive, by shiv: one process unpacks, the others wait for it.
        from _bootstrap import extract_site_packages  # type: ignore[import-not-found]

        with ZipFile(archive) as file:
            extract_site_packages(file, Path(target))
    return os.path.join(target, "site-packages")


def _make_private(folder: str) -> None:
    """A folder that no other user can enter. Raises OSError for one that is not, or cannot be."""
    try:
        status = os.lstat(folder)
    except FileNotFoundError:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        status = os.lstat(folder)
    ours = not hasattr(os, "geteuid") or (
        status.st_uid in {os.geteuid(), 0} and not status.st_mode & 0o077
    )
    if not (stat.S_ISDIR(status.st_mode) and ours):
        raise PermissionError(f"{folder}: expected a folder of this user only")


def _temporary_root() -> str:
    """A private folder, removed when the program ends."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="rye-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
