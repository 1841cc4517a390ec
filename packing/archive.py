"""The file itself: packed by shiv, then written again with our own start.

Nothing of the building machine is kept: no modes, no order of its file system, no paths.
"""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile, ZipInfo

from packing import BuildError
from packing.build_time import VARIABLE, BuildTime
from packing.modules import is_from_source, modules, texts
from packing.parts import START, Part, fast_parts
from packing.stage import Recipe, Stage
from zipboot.importer import SOURCES

ENTRY_POINT = "zipboot.fallback:enter"
INTERPRETER = "/usr/bin/env python3"
SHEBANG = f"#!{INTERPRETER}\n".encode("ascii")
# Python takes a file without a zip file's end, the last to arrive, for a source. It complains of
# this encoding then, instead of the zip file's bytes.
_IF_CUT = b"# coding: rye.pyz-is-damaged.get-it-again\n"

_UNIX, _REGULAR_FILE = 3, 0o100644


def pack(
    stage: Stage, checkout: Path, scratch: Path, build_time: BuildTime, recipe: Recipe
) -> bytes:
    """The bytes of the executable zip file.

    In front of what shiv packs stand our start and what it reads in place. Raises BuildError.
    """
    sources = _sources(stage.tree, build_time)
    folder, target = scratch / "sources", scratch / "shiv.pyz"
    folder.mkdir()
    folder.joinpath(Path(SOURCES).name).write_bytes(sources)
    run_shiv(folder, target, build_time, entry_point=ENTRY_POINT, python=INTERPRETER)
    with ZipFile(target) as shivs:
        parts = [
            *_boot_parts(checkout),
            *fast_parts(stage, checkout, recipe.interpreters, _places(stage.tree, sources)),
            *_kept_parts(shivs),
        ]
    head = SHEBANG + _IF_CUT
    return head + zipped(parts, build_time, offset=len(head))


def _sources(tree: Path, build_time: BuildTime) -> bytes:
    """Content of shiv for interpreters that no code is packed for: one zip file of all sources.

    One entry instead of hundreds, since every start reads the archive's directory. Stored, so that
    the one entry deflates better. Texts come first, then those that modules are compiled from.
    """
    files = (path for path in tree.rglob("*") if path.is_file())
    paths = sorted(files, key=lambda path: path.relative_to(tree).as_posix())
    rare = (module.path for module in modules(tree) if is_from_source(module))
    ordered = dict.fromkeys((*texts(tree).values(), *sorted(rare), *paths))
    return zipped(
        [
            Part(path.relative_to(tree).as_posix(), path.read_bytes(), stored=True)
            for path in ordered
        ],
        build_time,
    )


def _places(tree: Path, sources: bytes) -> dict[str, int]:
    """Offset of the source of each module and each text in the file of sources, by its name."""
    with ZipFile(BytesIO(sources)) as archive:
        headers = {entry.filename: entry.header_offset for entry in archive.infolist()}
    files = {module.name: module.path for module in modules(tree)} | texts(tree)
    places = {}
    for name, path in files.items():
        header = headers[path.relative_to(tree).as_posix()]
        names = (sources[header + at] | sources[header + at + 1] << 8 for at in (26, 28))
        places[name] = header + 30 + sum(names)
    return places


def run_shiv(
    tree: Path, target: Path, build_time: BuildTime, *, entry_point: str, python: str
) -> None:
    """Have shiv pack the folder ``tree`` into the file ``target``. Raises BuildError.

    Nothing is deflated there: we write every entry again.
    """
    command = [
        *(sys.executable, "-I", "-m", "shiv", "--reproducible", "--uncompressed"),
        *("--site-packages", str(tree), "--output-file", str(target)),
        *("--entry-point", entry_point, "--python", python),
    ]
    environ = os.environ | {VARIABLE: str(build_time.epoch)}
    ended = subprocess.run(command, env=environ, capture_output=True, check=False)
    if ended.returncode:
        raise BuildError("shiv", ended.stderr.decode("utf-8", "replace").strip())


def _boot_parts(checkout: Path) -> Iterator[Part]:
    """Module that runs first, from source; the rest is for the way that shiv takes."""
    folder = checkout / "zipboot"
    yield Part(START, (folder / START).read_bytes(), stored=True)
    for path in sorted(folder.glob("[!_]*.py")):
        yield Part(f"zipboot/{path.name}", path.read_bytes())
    yield Part("zipboot/__init__.py", (folder / "__init__.py").read_bytes())


def _kept_parts(shivs: ZipFile) -> Iterator[Part]:
    """Entries that shiv packed, in an order that does not depend on the file system."""
    for name in sorted(shivs.namelist()):
        if name != START:
            yield Part(name, shivs.read(name))


def _compression(part: Part) -> int:
    """Compression of an entry: the sources as LZMA, since a start never reads them."""
    if part.name == SOURCES:
        return ZIP_LZMA
    return ZIP_STORED if part.stored else ZIP_DEFLATED


def zipped(
    parts: Iterable[Part], build_time: BuildTime, *, offset: int = 0, level: int = 9
) -> bytes:
    """A zip file of the parts, made to stand behind ``offset`` other bytes.

    ``level`` is zlib's, of which 9 makes the smallest file.
    """
    buffer = BytesIO(bytes(offset))
    buffer.seek(offset)
    with ZipFile(buffer, "w") as archive:
        for part in parts:
            entry = ZipInfo(part.name, build_time.zip_time())
            entry.create_system, entry.external_attr = _UNIX, _REGULAR_FILE << 16
            entry.compress_type = _compression(part)
            archive.writestr(entry, part.data, compresslevel=level)
    return buffer.getvalue()[offset:]
