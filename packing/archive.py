"""The file itself: packed by shiv, then written again with our own start.

Nothing of the building machine is kept: no modes, no order of its file system, no paths.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from packing.errors import BuildError
from packing.moment import VARIABLE, Moment
from packing.parts import Part, Recipe, fast_parts

ENTRY_POINT = "zipboot.start:enter"
INTERPRETER = "/usr/bin/env python3"
SHEBANG = f"#!{INTERPRETER}\n".encode("ascii")
SOURCES = "rye"

_COMPILED = frozenset({".so", ".pyd", ".dylib"})
_UNIX, _REGULAR_FILE = 3, 0o100644


def pack(tree: Path, checkout: Path, scratch: Path, moment: Moment, recipe: Recipe) -> bytes:
    """The bytes of the executable zip file that holds ``tree``.

    In front of what shiv packs stand our start and what it reads in place. ``scratch`` is an empty
    folder. Raises BuildError.
    """
    sources = scratch / "sources"
    target = scratch / "shiv.pyz"
    _write_sources(tree, sources, moment)
    _run_shiv(sources, target, moment)
    parts = [*_boot_parts(checkout), *fast_parts(tree, checkout, recipe)]
    with ZipFile(target) as shivs:
        return _compose([*parts, *_kept_parts(shivs)], moment)


def _write_sources(tree: Path, folder: Path, moment: Moment) -> None:
    """What shiv unpacks for interpreters that no code is packed for: one zip of all sources.

    One entry instead of hundreds, since every start reads the archive's directory.
    """
    folder.mkdir()
    bundle = tree / "ryeos" / "bundle"
    parts = [
        Part(path.relative_to(tree).as_posix(), path.read_bytes())
        for path in sorted(tree.rglob("*"))
        if path.is_file() and path.suffix not in _COMPILED and not path.is_relative_to(bundle)
    ]
    (folder / f"{SOURCES}.zip").write_bytes(_compose(parts, moment, shebang=b""))
    (folder / f"{SOURCES}.pth").write_text(f"{SOURCES}.zip\n", "ascii")


def _run_shiv(tree: Path, target: Path, moment: Moment) -> None:
    command = [
        *(sys.executable, "-I", "-m", "shiv", "--reproducible", "--site-packages", str(tree)),
        *("--entry-point", ENTRY_POINT, "--python", INTERPRETER, "--output-file", str(target)),
    ]
    environ = os.environ | {VARIABLE: str(moment.epoch)}
    ended = subprocess.run(command, env=environ, capture_output=True, check=False)
    if ended.returncode:
        raise BuildError("shiv", ended.stderr.decode("utf-8", "replace").strip())


def _boot_parts(checkout: Path) -> Iterator[Part]:
    yield Part("__main__.py", _source(checkout, "zipboot/__main__.py"), stored=True)
    for path in sorted((checkout / "zipboot").glob("*.py")):
        if path.name != "__main__.py":
            yield Part(f"zipboot/{path.name}", path.read_bytes(), stored=True)


def _source(checkout: Path, name: str) -> bytes:
    return checkout.joinpath(name).read_bytes()


def _kept_parts(shivs: ZipFile) -> Iterator[Part]:
    """What shiv packed, in an order that does not depend on the file system."""
    for name in sorted(shivs.namelist()):
        if name != "__main__.py":
            yield Part(name, shivs.read(name))


def _compose(parts: list[Part], moment: Moment, shebang: bytes = SHEBANG) -> bytes:
    buffer = BytesIO(shebang)
    buffer.seek(0, os.SEEK_END)
    with ZipFile(buffer, "w") as archive:
        for part in parts:
            entry = ZipInfo(part.name, moment.zip_time())
            entry.create_system, entry.external_attr = _UNIX, _REGULAR_FILE << 16
            entry.compress_type = ZIP_STORED if part.stored else ZIP_DEFLATED
            archive.writestr(entry, part.data, compresslevel=9)
    return buffer.getvalue()
