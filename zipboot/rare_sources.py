"""The sources that modules of rare commands are compiled from: the beginning of all sources.

They lie in an entry of the archive that is packed by LZMA, and it is unpacked no further than they
go: some milliseconds. Page: ``docs/building.md``.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` would cost more than everything else here
if TYPE_CHECKING:
    from zipboot.parts import Archive

LZMA = 14
_PROPERTIES, _DATA = 4, 9
"""Offsets of these in an entry: behind a version and a size, and the data behind both."""
_SIZE_UNKNOWN = b"\xff" * 8


def beginning(archive: Archive, name: str, size: int) -> bytes:
    """The first ``size`` bytes of the entry ``name``; fewer when it is damaged."""
    try:
        start, packed_size, method = archive.entry(name)
    except (LookupError, AttributeError):  # another Python
        method = None
    if method != LZMA:  # or packed again by another program
        return _read_as_any_zip_file(archive.path, name, size)
    packed = archive.read(start, packed_size)
    return unpacked(packed[_PROPERTIES:_DATA] + _SIZE_UNKNOWN + packed[_DATA:], size)


def unpacked(packed: bytes, size: int) -> bytes:
    """The first ``size`` bytes of a ``.lzma`` file; fewer when it is damaged or shorter."""
    try:
        from lzma import FORMAT_ALONE, LZMADecompressor, LZMAError
    except ImportError:
        from zipboot.lzma_alone import decompress

        try:
            return decompress(packed, size)[:size]
        except (ValueError, IndexError):
            return b""
    unpacker = LZMADecompressor(FORMAT_ALONE)
    data = b""
    try:
        while len(data) < size and not unpacker.eof:
            more = unpacker.decompress(b"" if data else packed, size - len(data))
            if not more:
                break
            data += more
    except LZMAError:
        return b""
    return data


def _read_as_any_zip_file(path: str, name: str, size: int) -> bytes:
    from zipfile import ZipFile

    try:
        with ZipFile(path) as archive, archive.open(name) as entry:
            return entry.read(size)
    except Exception:  # noqa: BLE001 - whatever zipfile makes of damage
        return b""
