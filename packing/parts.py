"""What is put into the archive, and the indexes that say where things are in it.

A part begins with 16 bytes that name the build, so that two builds are never mixed in one process.
"""

import marshal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from packing.dictionary import dictionary
from packing.hot_path import hot_modules
from packing.modules import code_part, compiled, modules
from packing.stage import Stage
from zipboot.parts import MARK_BYTES, checksum
from zipboot.places import digest_of

# Run straight from the index, before anything can be imported.
BOOT_MODULES = ("zipboot", "zipboot.parts", "zipboot.importer", "zipboot.launch")
# What the rest of the bundle is checked against, by name in the folder that holds `.ai`.
_KEY_FILE = "public_key.pem"
# Read by every version of marshal, and the same whatever else a process has loaded.
_PLAIN = 2

Index = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """An entry of the archive. ``stored`` entries are read where they lie, without inflating."""

    name: str
    data: bytes
    stored: bool = False


def fast_parts(stage: Stage, checkout: Path, interpreters: Mapping[int, Path]) -> Iterator[Part]:
    """Code, compiled modules and bundle with their indexes. Raises BuildError."""
    bundle, files = _bundle_part(stage.bundle)
    shared: Index = {
        "natives": stage.natives.index,
        "programs": stage.programs.index,
        "bundle": {
            "name": digest_of(marshal.dumps(sorted(files.items()), _PLAIN))[:16],
            "files": files,
            "anchors": tuple(name for name in files if _is_anchor(name)),
        },
        "parts": {},
    }
    yield _marked("native", "_rye/native.bin", stage.natives.data, shared)
    yield _marked("programs", "_rye/programs.bin", stage.programs.data, shared)
    yield _marked("bundle", "_rye/bundle.bin", bundle, shared)
    yield from _code_parts(stage.tree, checkout, interpreters, shared)
    yield Part("_rye/common.idx", marshal.dumps(shared, _PLAIN), stored=True)


def _code_parts(
    tree: Path, checkout: Path, interpreters: Mapping[int, Path], shared: Index
) -> Iterator[Part]:
    found = modules(tree)
    stored = frozenset(chain.from_iterable(hot_modules().values()))
    common = dictionary(module.path for module in found if module.name not in stored)
    for minor, interpreter in sorted(interpreters.items()):
        magic, codes = compiled(interpreter, found, checkout)
        data, entries = code_part(found, codes, stored, common)
        by_name = dict(zip((module.name for module in found), codes, strict=True))
        boot = [(name, by_name[name]) for name in BOOT_MODULES]
        index = {**shared, "parts": dict(shared["parts"]), "modules": entries, "boot": boot}
        tag = f"cpython-3{minor}"
        yield _marked("code", f"_rye/{tag}.bin", data, index)
        code_index = magic + marshal.dumps(index, _PLAIN)
        yield Part(f"_rye/{tag}.idx", checksum(code_index) + code_index, stored=True)


def _marked(name: str, entry: str, data: bytes, index: Index) -> Part:
    mark = sha256(data).digest()[:MARK_BYTES]
    index["parts"][name] = entry, mark
    return Part(entry, mark + data, stored=True)


def _bundle_part(bundle: Path) -> tuple[bytes, dict[str, tuple[int, int, str]]]:
    pieces: list[bytes] = []
    files = {}
    offset = 0
    names = (path.relative_to(bundle).as_posix() for path in bundle.rglob("*") if path.is_file())
    for name in sorted(names):
        data = (bundle / name).read_bytes()
        files[name] = offset, len(data), digest_of(data)
        pieces.append(data)
        offset += len(data)
    return b"".join(pieces), files


def _is_anchor(name: str) -> bool:
    return name == _KEY_FILE or name.endswith("files.manifest")
