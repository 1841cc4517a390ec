"""The start under interpreters that no code is packed for: shiv unpacks sources and runs them.

A newer CPython or PyPy starts this way; so does ``RYE_BOOT=shiv``. What shiv unpacks is one zip
file of sources, which is unpacked beside it, so that the interpreter keeps its bytecode there.
Compiled modules and the bundle come from the archive as always. Page: ``docs/building.md``.
"""

from __future__ import annotations

import os
import sys

from zipboot.importer import SOURCES
from zipboot.parts import damaged
from zipboot.places import folders

TYPE_CHECKING = False  # importing typing costs more than this start may take

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from zipfile import ZipFile
    from zipimport import zipimporter


FAILED = 1

_CHECKED_WHEN_USED = ("_rye/cpython", "_rye/native", "_rye/bundle", SOURCES)
"""Beginnings of entries that take long to read: who reads them, checks them."""

_archive: zipimporter | None = None
_umask = 0o022


def start(archive: zipimporter) -> int:
    """Hand over to shiv, which comes back by `enter`; the exit status if it does not.

    Raises SystemExit when something is damaged that is needed for that.
    """
    global _archive, _umask  # noqa: PLW0603 - shiv calls `enter` without arguments
    require_whole(archive.archive, but=_CHECKED_WHEN_USED)
    _archive = archive
    forget_shiv(os.environ)
    _umask = os.umask(0o077)
    problem: OSError | None = None
    try:
        for folder in folders("unpacked"):
            try:
                _hand_over(folder)
            except OSError as error:  # of the unpacking: the program reports its own
                problem = error
            except Exception:  # shiv raises what it likes over a damaged archive; raised again
                read_whole(archive.archive, SOURCES)  # ends here if that was in the way
                raise
    except OSError as error:
        problem = problem or error
    sys.stderr.write(
        f"error: no folder to unpack rye into: {problem}\n"
        "  hint: name one that can be written, RYE_CACHE_DIR=DIR\n"
    )
    return FAILED


def enter() -> object:
    """The entry point that shiv knows: everything is unpacked, continue as always."""
    import marshal

    from zipboot.launch import Program
    from zipboot.launch import enter as enter_program

    sys.path.insert(0, _sources(os.environ["SHIV_ROOT"]))
    os.umask(_umask)
    forget_shiv(os.environ)
    assert _archive is not None  # noqa: S101 - set before shiv is called
    index = marshal.loads(_archive.get_data("_rye/common.idx"))  # noqa: S302 - our own archive
    program = Program(index, _archive, "shiv")
    sys.meta_path.insert(0, program.natives)
    return enter_program(program)


def forget_shiv(environ: MutableMapping[str, str]) -> None:
    """Drop what is meant for another program packed by shiv, like its entry point."""
    for name in [name for name in environ if name.startswith("SHIV_")]:
        del environ[name]


def _hand_over(folder: str) -> None:
    """Have shiv unpack below ``folder`` and continue in `enter`. Raises OSError."""
    _require_locks(folder)
    os.environ["SHIV_ROOT"] = folder
    from _bootstrap import bootstrap  # type: ignore[import-not-found]

    bootstrap()


def _require_locks(folder: str) -> None:
    """Shiv waits for its lock for ever on a file system without locks. Raises OSError on one."""
    try:
        from fcntl import LOCK_NB, LOCK_SH, flock
    except ImportError:
        return  # Windows locks everywhere
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        flock(descriptor, LOCK_SH | LOCK_NB)
    finally:
        os.close(descriptor)


def _sources(folder: str) -> str:
    """The sources as files, beside the zip file that shiv unpacked below ``folder``."""
    from zipboot.places import note_use

    unpacked = next(path for path in sys.path if path.startswith(folder + os.sep))
    sys.path.remove(unpacked)
    root = os.path.dirname(unpacked)
    target = os.path.join(root, "sources")
    is_new = not os.path.isdir(target)
    if is_new:
        _unpack(os.path.join(unpacked, "rye.zip"), target)
    note_use(root, is_new=is_new)
    return target


def _unpack(archive: str, target: str) -> None:
    """Unpack a zip file aside, and give the folder its name unless another process was quicker."""
    from shutil import rmtree
    from zipfile import ZipFile

    temporary = f"{target}-{os.urandom(8).hex()}.tmp"
    try:
        with ZipFile(archive) as sources:
            sources.extractall(temporary)
        os.rename(temporary, target)
    except OSError:
        rmtree(temporary, ignore_errors=True)
        if not os.path.isdir(target):
            raise


# Entries of the archive that are read whole, compared with the checksums of the zip file.
#
# The interpreter's own reader of zip files looks at none of them. This takes `zipfile`, which costs
# more than a start: it is for what does not start by packed code. Page: ``docs/building.md``.


def read_whole(path: str, name: str) -> bytes:
    """One entry of the archive at ``path``. Raises SystemExit when it is damaged."""
    with _open_zip(path) as archive:
        return _read(archive, path, name)


def require_whole(path: str, *, but: tuple[str, ...]) -> None:
    """Raise SystemExit if an entry is damaged whose name begins with none of ``but``."""
    with _open_zip(path) as archive:
        for name in archive.namelist():
            if not name.startswith(but):
                _read(archive, path, name)


def _open_zip(path: str) -> ZipFile:
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
