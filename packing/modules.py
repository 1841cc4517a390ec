"""The pure Python modules of a tree, and their code for each interpreter."""

import json
import marshal
import os
import subprocess
import zlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from packing.errors import BuildError
from zipboot.importer import DICTIONARY
from zipboot.parts import checksum

SHOWN_ROOT = "rye.pyz"

# Module -> is it a package, offset, size, is it deflated, checksum of the piece.
Entries = dict[str, tuple[bool, int, int, bool, bytes]]


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the tree. ``shown`` is its file name in tracebacks."""

    name: str
    path: Path
    is_package: bool
    shown: str


def modules(tree: Path) -> list[Module]:
    """Every module below the tree, by name."""
    return sorted(_modules(tree), key=lambda module: module.name)


def _modules(tree: Path) -> Iterator[Module]:
    for path in tree.rglob("*.py"):
        parts = path.relative_to(tree).with_suffix("").parts
        if not all(part.isidentifier() for part in parts):
            continue  # a file of some library's metadata
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        yield Module(name, path, is_package, f"{SHOWN_ROOT}/{path.relative_to(tree).as_posix()}")


def compiled(
    interpreter: Path, found: Sequence[Module], checkout: Path
) -> tuple[bytes, list[bytes]]:
    """What code of an interpreter begins with, and the marshalled code of each module.

    Made by a fresh process of that interpreter, which sees nothing of this one's environment.

    Raises BuildError for a module that it cannot compile.
    """
    wanted = json.dumps([[str(module.path), module.shown] for module in found])
    script = checkout / "packing" / "compile_modules.py"
    # Not -I: it would ignore the hash seed. Without the columns of every instruction, which only
    # underline parts of lines in tracebacks, a module takes a quarter less.
    command = [str(interpreter), "-s", "-S", "-P", "-X", "no_debug_ranges", str(script)]
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    ended = subprocess.run(
        command,
        input=wanted.encode(),
        env=kept | {"PYTHONHASHSEED": "0"},
        capture_output=True,
        check=False,
    )
    if ended.returncode:
        raise BuildError(str(interpreter), ended.stderr.decode("utf-8", "replace").strip())
    magic, *codes = marshal.loads(ended.stdout)  # noqa: S302 - written by our own process
    return magic, codes


def code_part(
    found: Sequence[Module], codes: Sequence[bytes], stored: Collection[str], common: bytes
) -> tuple[bytes, Entries]:
    """The part that holds the code, and where in it each module is.

    ``stored`` are the names of those that are not deflated: every start would inflate them. The
    others are deflated with the dictionary ``common``, which is the last piece.
    """
    pieces: list[bytes] = []
    entries: Entries = {}
    offset = 0
    for module, code in zip(found, codes, strict=True):
        is_deflated = module.name not in stored
        piece = _deflated(code, common) if is_deflated else code
        where = offset, len(piece), is_deflated, checksum(piece)
        entries[module.name] = (module.is_package, *where)
        pieces.append(piece)
        offset += len(piece)
    entries[DICTIONARY] = (False, offset, len(common), False, checksum(common))
    return b"".join((*pieces, common)), entries


def _deflated(code: bytes, common: bytes) -> bytes:
    deflate = zlib.compressobj(9, memLevel=9, zdict=common)
    return deflate.compress(code) + deflate.flush()
