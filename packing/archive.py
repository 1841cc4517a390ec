"""The file itself: packed by shiv, then written again with our own start.

Nothing of the building machine is kept: no modes, no order of its file system, no paths.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from packing.errors import BuildError
from packing.moment import VARIABLE, Moment
from packing.parts import Part, fast_parts
from packing.stage import Recipe, Stage
from zipboot.importer import SOURCES

ENTRY_POINT = "zipboot.fallback:enter"
INTERPRETER = "/usr/bin/env python3"
SHEBANG = f"#!{INTERPRETER}\n".encode("ascii")
# Python takes a file without a zip file's end, the last to arrive, for a source. It complains of
# this encoding then, instead of the zip file's bytes.
_IF_CUT = b"# coding: rye.pyz-is-damaged.get-it-again\n"

_UNIX, _REGULAR_FILE = 3, 0o100644


def pack(stage: Stage, checkout: Path, scratch: Path, moment: Moment, recipe: Recipe) -> bytes:
    """The bytes of the executable zip file.

    In front of what shiv packs stand our start and what it reads in place. Raises BuildError.
    """
    sources, target = scratch / "sources", scratch / "shiv.pyz"
    sources.mkdir()
    sources.joinpath(Path(SOURCES).name).write_bytes(_sources(stage.tree, moment))
    run_shiv(sources, target, moment, entry_point=ENTRY_POINT, python=INTERPRETER)
    with ZipFile(target) as shivs:
        parts = [
            *_boot_parts(checkout),
            *fast_parts(stage, checkout, recipe.interpreters),
            *_kept_parts(shivs),
        ]
    head = SHEBANG + _IF_CUT
    return head + zipped(parts, moment, offset=len(head))


def _sources(tree: Path, moment: Moment) -> bytes:
    """What shiv unpacks for interpreters that no code is packed for: one zip file of all sources.

    One entry instead of hundreds, since every start reads the archive's directory. Stored, so that
    the one entry deflates better.
    """
    names = sorted(path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file())
    return zipped([Part(name, (tree / name).read_bytes(), stored=True) for name in names], moment)


def run_shiv(tree: Path, target: Path, moment: Moment, *, entry_point: str, python: str) -> None:
    """Have shiv pack the folder ``tree`` into the file ``target``. Raises BuildError."""
    command = [
        *(sys.executable, "-I", "-m", "shiv", "--reproducible", "--site-packages", str(tree)),
        *("--entry-point", entry_point, "--python", python, "--output-file", str(target)),
    ]
    environ = os.environ | {VARIABLE: str(moment.epoch)}
    ended = subprocess.run(command, env=environ, capture_output=True, check=False)
    if ended.returncode:
        raise BuildError("shiv", ended.stderr.decode("utf-8", "replace").strip())


def _boot_parts(checkout: Path) -> Iterator[Part]:
    """What runs first, from source; the rest is for the way that shiv takes."""
    folder = checkout / "zipboot"
    yield Part("__main__.py", (folder / "__main__.py").read_bytes(), stored=True)
    for path in sorted(folder.glob("[!_]*.py")):
        yield Part(f"zipboot/{path.name}", path.read_bytes())
    yield Part("zipboot/__init__.py", (folder / "__init__.py").read_bytes())


def _kept_parts(shivs: ZipFile) -> Iterator[Part]:
    """What shiv packed, in an order that does not depend on the file system."""
    for name in sorted(shivs.namelist()):
        if name != "__main__.py":
            yield Part(name, shivs.read(name))


def zipped(parts: Iterable[Part], moment: Moment, *, offset: int = 0) -> bytes:
    """A zip file of the parts, made to stand behind ``offset`` other bytes."""
    buffer = BytesIO(bytes(offset))
    buffer.seek(offset)
    with ZipFile(buffer, "w") as archive:
        for part in parts:
            entry = ZipInfo(part.name, moment.zip_time())
            entry.create_system, entry.external_attr = _UNIX, _REGULAR_FILE << 16
            entry.compress_type = ZIP_STORED if part.stored else ZIP_DEFLATED
            archive.writestr(entry, part.data, compresslevel=9)
    return buffer.getvalue()[offset:]
