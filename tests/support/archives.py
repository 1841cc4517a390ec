"""Small archives with parts, as ``rye.pyz`` has them."""

import marshal
import zlib
from collections.abc import Collection, Mapping
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile
from zipimport import zipimporter

from zipboot.importer import DEFLATED, DICTIONARY, SOURCES, STORED, CodeImporter
from zipboot.parts import MARK_BYTES, Archive, Part, checksum

ENTRY = "_rye/some.bin"
_COMMON = b"value = packed_package"


def write_archive(path: Path, data: bytes, *, compression: int = ZIP_STORED) -> bytes:
    """Write an archive with one part that holds ``data``; the mark of the part."""
    mark = sha256(data).digest()[:MARK_BYTES]
    with ZipFile(path, "w") as archive:
        archive.writestr("__main__.py", "")
        archive.writestr(ENTRY, mark + data, compression)
    return mark


def archive_part(path: Path, data: bytes, *, is_deflated: bool = False) -> Part:
    """The part of a new archive."""
    compression = ZIP_DEFLATED if is_deflated else ZIP_STORED
    mark = write_archive(path, data, compression=compression)
    return Part(Archive(zipimporter(str(path))), ENTRY, mark)


def code_importer(
    path: Path,
    modules: Mapping[str, str],
    *,
    packages: set[str],
    sources: Mapping[str, str],
    damaged: Collection[str] = (),
) -> CodeImporter:
    """An importer of modules from a new archive; every second one is deflated.

    ``sources`` are the files that its zip file of sources has, ``damaged`` modules whose code has
    one bit changed since it was packed.
    """
    data = b""
    entries: dict[str, tuple[bool, int, int, int, bytes]] = {}
    for number, (name, source) in enumerate(modules.items()):
        code = marshal.dumps(compile(source, f"some.pyz/{name}.py", "exec"))
        is_deflated = bool(number % 2)
        piece = _deflated(code) if is_deflated else code
        packing = DEFLATED if is_deflated else STORED
        where = len(data), len(piece), packing, checksum(piece)
        entries[name] = (name in packages, *where)
        data += _changed(piece) if name in damaged else piece
    entries[DICTIONARY] = (False, len(data), len(_COMMON), STORED, checksum(_COMMON))
    data += _changed(_COMMON) if DICTIONARY in damaged else _COMMON
    mark = write_archive(path, data)
    with ZipFile(path, "a") as archive:
        archive.writestr(SOURCES, _zipped(sources))
    opened = Archive(zipimporter(str(path)))
    return CodeImporter(opened, Part(opened, ENTRY, mark), entries)


def _deflated(code: bytes) -> bytes:
    deflate = zlib.compressobj(zdict=_COMMON)
    return deflate.compress(code) + deflate.flush()


def _changed(data: bytes) -> bytes:
    half = len(data) // 2
    return data[:half] + bytes([data[half] ^ 1]) + data[half + 1 :]


def _zipped(files: Mapping[str, str]) -> bytes:
    buffer = BytesIO()
    with ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()
