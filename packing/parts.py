"""Parts of the archive, and the indexes that say where things are in it.

A part begins with 16 bytes that name the build, so that two builds are never mixed in one
process.
"""

import _imp
import marshal
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from packing.hot_path import hot_blocks
from packing.modules import (
    SHOWN_ROOT,
    Module,
    code_part,
    compiled,
    dictionary,
    library_files,
    modules,
    text_entries,
    texts,
    wanted_by_sources,
)
from packing.stage import Stage
from zipboot.library import LATE
from zipboot.parts import MARK_BYTES, checksum
from zipboot.places import digest_of

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
