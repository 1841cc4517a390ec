"""What is put into the archive, and the indexes that say where things are in it.

A part begins with 16 bytes that name the build, so that two builds are never mixed in one process.
"""

import marshal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from packing.interpreters import NATIVE_MINORS
from packing.modules import Module, code_part, compiled, modules
from packing.natives import Strip, native_part
from packing.platforms import Platform
from zipboot.parts import MARK_BYTES
from zipboot.places import digest_of

# Run straight from the index, before anything can be imported.
BOOT_MODULES = ("zipboot", "zipboot.parts", "zipboot.importer", "zipboot.launch")
# What the rest of the bundle is checked against, by name in the folder that holds `.ai`.
_KEY_FILE = "public_key.pem"
# Read by every version of marshal.
_PLAIN = 2

Index = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Part:
    """An entry of the archive. ``stored`` entries are read where they lie, without inflating."""

    name: str
    data: bytes
    stored: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What a build packs besides its tree."""

    interpreters: Mapping[int, Path]
    platforms: Sequence[Platform]
    strip: Strip


def fast_parts(tree: Path, checkout: Path, recipe: Recipe) -> Iterator[Part]:
    """Code, compiled modules and bundle with their indexes. Raises BuildError."""
    native, natives = native_part(checkout, recipe.platforms, NATIVE_MINORS, recipe.strip)
    bundle, files = _bundle_part(tree / "ryeos" / "bundle")
    shared: Index = {
        "natives": natives,
        "bundle": {
            "name": digest_of(marshal.dumps(sorted(files.items()), _PLAIN))[:16],
            "files": files,
            "anchors": tuple(name for name in files if _is_anchor(name)),
        },
        "parts": {},
    }
    for name, data in (("native", native), ("bundle", bundle)):
        yield _marked(name, f"_rye/{name}.bin", data, shared)
    found = modules(tree)
    for minor, interpreter in sorted(recipe.interpreters.items()):
        magic, codes = compiled(interpreter, found, checkout)
        data, index = _code_index(codes, found, shared)
        tag = f"cpython-3{minor}"
        yield _marked("code", f"_rye/{tag}.bin", data, index)
        yield Part(f"_rye/{tag}.idx", magic + marshal.dumps(index, _PLAIN), stored=True)
    yield Part("_rye/common.idx", marshal.dumps(shared, _PLAIN), stored=True)


def _code_index(
    codes: Sequence[bytes], found: Sequence[Module], shared: Index
) -> tuple[bytes, Index]:
    data, entries = code_part(found, codes)
    by_name = dict(zip((module.name for module in found), codes, strict=True))
    boot = [(name, by_name[name]) for name in BOOT_MODULES]
    parts = dict(shared["parts"])
    return data, {**shared, "parts": parts, "modules": entries, "boot": boot}


def _marked(name: str, entry: str, data: bytes, index: Index) -> Part:
    mark = sha256(data).digest()[:MARK_BYTES]
    index["parts"][name] = entry, mark, len(data)
    return Part(entry, mark + data, stored=True)


def _bundle_part(bundle: Path) -> tuple[bytes, dict[str, tuple[int, int, str]]]:
    pieces: list[bytes] = []
    files = {}
    offset = 0
    for path in sorted(path for path in bundle.rglob("*") if path.is_file()):
        data = path.read_bytes()
        files[path.relative_to(bundle).as_posix()] = offset, len(data), digest_of(data)
        pieces.append(data)
        offset += len(data)
    return b"".join(pieces), files


def _is_anchor(name: str) -> bool:
    return name == _KEY_FILE or name.endswith("files.manifest")
