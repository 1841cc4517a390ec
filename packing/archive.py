"""The file itself: packed by shiv, then written again with our own start.

Nothing of the building machine is kept: no modes, no order of its file system, no paths.
"""

import _imp
import marshal
import os
import subprocess
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile, ZipInfo

from packing import BuildError
from packing.build_time import VARIABLE, BuildTime
from packing.modules import (
    SHOWN_ROOT,
    Module,
    code_part,
    compiled,
    dictionary,
    hot_blocks,
    is_from_source,
    library_files,
    modules,
    text_entries,
    texts,
    wanted_by_sources,
)
from packing.stage import Recipe, Stage
from zipboot.importer import SOURCES
from zipboot.library import LATE
from zipboot.parts import MARK_BYTES, checksum
from zipboot.places import digest_of

# --- parts ----------------------------------------------------------------------------------------
# What is put into the archive, and the indexes that say where things are in it.
#
# A part begins with 16 bytes that name the build, so that two builds are never mixed in one
# process.

START = "__main__.py"
# Run straight from the index, before anything can be imported.
BOOT_MODULES = ("zipboot", "zipboot.parts", "zipboot.importer", "zipboot.launch")
# What the rest of the bundle is checked against, by name in the folder that holds `.ai`.
_KEY_FILE = "public_key.pem"
# Read by every version of marshal, and the same whatever else a process has loaded.
_PLAIN = 2
# Flags of a file of bytecode: valid for a hash of its source, which is not looked at.
_UNCHECKED_HASH = (1).to_bytes(4, "little")

Index = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """An entry of the archive. ``stored`` entries are read where they lie, without inflating."""

    name: str
    data: bytes
    stored: bool = False


def fast_parts(
    stage: Stage, checkout: Path, interpreters: Mapping[int, Path], sources: Mapping[str, int]
) -> Iterator[Part]:
    """Code, compiled modules and bundle with their indexes. Raises BuildError.

    ``sources`` is where the source of each module and each text begins in the file of sources.
    """
    bundle, files = _bundle_part(stage.bundle)
    natives = stage.natives.index
    shared: Index = {
        "natives": {key: entries for one in natives.values() for key, entries in one.items()},
        "programs": stage.programs.index,
        "bundle": {
            "name": digest_of(marshal.dumps(sorted(files.items()), _PLAIN))[:16],
            "files": files,
            "anchors": tuple(name for name in files if _is_anchor(name)),
        },
        "parts": {},
    }
    yield _marked_part("native", "_rye/native.bin", stage.natives.data, shared)
    yield _marked_part("programs", "_rye/programs.bin", stage.programs.data, shared)
    yield _marked_part("bundle", "_rye/bundle.bin", bundle, shared)
    yield from _code_parts(stage, checkout, interpreters, shared, sources)
    yield Part("_rye/common.idx", marshal.dumps(shared, _PLAIN), stored=True)


def _code_parts(
    stage: Stage,
    checkout: Path,
    interpreters: Mapping[int, Path],
    shared: Index,
    sources: Mapping[str, int],
) -> Iterator[Part]:
    found = modules(stage.tree)
    start = checkout / "zipboot" / START
    start_module = Module("__main__", start, is_package=False, shown=f"{SHOWN_ROOT}/{START}")
    stored = hot_blocks()
    hot = frozenset(chain.from_iterable(stored))
    common = dictionary(module.path for module in found if module.name not in hot)
    by_name = {module.name: module for module in found}
    kept = wanted_by_sources(found)
    others = LATE.keys() | hot.difference(by_name)
    for minor, interpreter in sorted(interpreters.items()):
        magic, (start_code, *codes) = compiled(interpreter, [start_module, *found], checkout, kept)
        if minor == min(interpreters):
            yield Part(f"{START}c", _bytecode(magic, start_code, start.read_bytes()), stored=True)
        code_of = dict(zip(found, codes, strict=True))
        boot = [(name, code_of.pop(by_name[name])) for name in BOOT_MODULES]
        data, entries, blocks = code_part(code_of, stored, common, sources)
        entries |= text_entries(texts(stage.tree), sources)
        index = {**shared, "parts": dict(shared["parts"]), "modules": entries, "boot": boot}
        index["natives"] = stage.natives.index.get(minor, {})
        index |= {"blocks": blocks, "library": library_files(interpreter, others)}
        tag = f"cpython-3{minor}"
        yield _marked_part("code", f"_rye/{tag}.bin", data, index)
        code_index = magic + marshal.dumps(index, _PLAIN)
        yield Part(f"_rye/{tag}.idx", checksum(code_index) + code_index, stored=True)


def _bytecode(magic: bytes, code: bytes, source: bytes) -> bytes:
    """The file of bytecode (PEP 552) of a source, compared with it on request alone.

    Python compiles the source of a start anew each time, and makes 200 types of syntax trees for
    the first thing it compiles: a quarter of a short start. It takes the bytecode that lies beside
    the source if that is its own, and passes over any other. There can be one: that of the oldest
    Python, whose own start costs most.
    """
    key = int.from_bytes(magic, "little")
    return magic + _UNCHECKED_HASH + _imp.source_hash(key, source) + code


def _marked_part(name: str, entry: str, data: bytes, index: Index) -> Part:
    mark = sha256(data).digest()[:MARK_BYTES]
    index["parts"][name] = entry, mark
    return Part(entry, mark + data, stored=True)


def _bundle_part(bundle: Path) -> tuple[bytes, dict[str, tuple[int, int, int, str]]]:
    """The files of the bundle, deflated: they are laid out once, and never read from here again."""
    pieces: list[bytes] = []
    files = {}
    offset = 0
    names = (path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file())
    for name in sorted(names):
        data = (bundle / name).read_bytes()
        packed = min(zlib.compress(data, 9), data, key=len)
        files[name] = offset, len(packed), len(data), digest_of(data)
        pieces.append(packed)
        offset += len(packed)
    return b"".join(pieces), files


def _is_anchor(name: str) -> bool:
    return name == _KEY_FILE or name.endswith("files.manifest")


# --- archive --------------------------------------------------------------------------------------

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
    """What shiv unpacks for interpreters that no code is packed for: one zip file of all sources.

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
    """Where the source of each module and each text begins in the file of sources, by its name."""
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
    """What runs first, from source; the rest is for the way that shiv takes."""
    folder = checkout / "zipboot"
    yield Part(START, (folder / START).read_bytes(), stored=True)
    for path in sorted(folder.glob("[!_]*.py")):
        yield Part(f"zipboot/{path.name}", path.read_bytes())
    yield Part("zipboot/__init__.py", (folder / "__init__.py").read_bytes())


def _kept_parts(shivs: ZipFile) -> Iterator[Part]:
    """What shiv packed, in an order that does not depend on the file system."""
    for name in sorted(shivs.namelist()):
        if name != START:
            yield Part(name, shivs.read(name))


def _compression(part: Part) -> int:
    """How an entry is packed: the sources as LZMA, since a start never reads them."""
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
