"""The way for interpreters that no code is packed for: shiv unpacks sources and runs them.

A newer CPython or PyPy starts this way; so does ``RYE_BOOT=shiv``. What shiv unpacks is one zip
file of sources, so compiled modules and the bundle come from the archive as always. Page:
``docs/boot.md``.
"""

from __future__ import annotations

import os
import sys

from zipboot import places

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from zipimport import zipimporter

FAILED = 1

_archive: zipimporter | None = None
_umask = 0o022


def start(archive: zipimporter) -> int:
    """Hand over to shiv, which comes back by `enter`; the exit status."""
    global _archive, _umask  # noqa: PLW0603 - shiv calls `enter` without arguments
    _archive = archive
    forget_shiv(os.environ)
    _umask = os.umask(0o077)
    try:
        os.environ["SHIV_ROOT"] = next(places.folders("unpacked"))
        from _bootstrap import bootstrap  # type: ignore[import-not-found]

        bootstrap()
    except OSError as error:
        sys.stderr.write(
            f"error: no folder to unpack rye into: {error}\n"
            "  hint: name one that can be written, RYE_CACHE_DIR=DIR\n"
        )
    return FAILED


def enter() -> object:
    """The entry point that shiv knows: everything is unpacked, go on as always."""
    import marshal

    from zipboot.launch import Program
    from zipboot.launch import enter as enter_program

    os.umask(_umask)
    forget_shiv(os.environ)
    assert _archive is not None  # noqa: S101 - set before shiv is called
    index = marshal.loads(_archive.get_data("_rye/common.idx"))  # noqa: S302 - our own archive
    return enter_program(Program(index, _archive))


def forget_shiv(environ: MutableMapping[str, str]) -> None:
    """Drop what is meant for another program packed by shiv, like its entry point."""
    for name in [name for name in environ if name.startswith("SHIV_")]:
        del environ[name]
