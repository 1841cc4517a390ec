"""Reading kept outputs: whole where a message can hold them, else in parts.

A part is told by its bytes in the file. Where it would end within a character, it ends before it;
the next part begins there. One that is shorter than its first character is as long as that. One
that begins within a character shows that as U+FFFD.
"""

from pathlib import Path
from typing import Any

from lillux.files import read_part
from ryeos.mcp.compact_json import compact
from ryeos.mcp.uris import MAX_PART_BYTES, Output, part_uri

# Of a line of 8 MiB; the rest is for what is around it.
MAX_WHOLE_BYTES = 7_500_000
NEXT_KEY, TOTAL_KEY = "rye/next", "rye/totalBytes"
_LONGEST_CHARACTER = 4


def read_output(path: Path, asked: Output) -> dict[str, Any]:
    """The ``text`` of an output, and in ``_meta`` where the next part of it is, if there is one.

    Raises FileNotFoundError, FileSystemError.
    """
    if asked.length is None:
        data, total_bytes = read_part(path, 0, MAX_WHOLE_BYTES + 1)
        text = data.decode("utf-8", "replace")
        if total_bytes == len(data) and len(compact(text).encode()) <= MAX_WHOLE_BYTES:
            return {"text": text}
    size = MAX_PART_BYTES if asked.length is None else min(asked.length, MAX_PART_BYTES)
    data, total_bytes = read_part(path, asked.offset, max(size, _LONGEST_CHARACTER))
    data = _part(data, size, reaches_end=asked.offset + size >= total_bytes)
    meta: dict[str, Any] = {TOTAL_KEY: total_bytes}
    end = asked.offset + len(data)
    if data and end < total_bytes:
        meta[NEXT_KEY] = part_uri(asked.name, end, size)
    return {"text": data.decode("utf-8", "replace"), "_meta": meta}


def _part(data: bytes, size: int, *, reaches_end: bool) -> bytes:
    """So many bytes of the data, but whole characters, and at least one."""
    part = data[:size]
    if reaches_end or not part:
        return part
    return _whole_characters(part) or data[: _length(data[0])]


def _whole_characters(data: bytes) -> bytes:
    """The data without the beginning of a character at its end."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:  # noqa: PLR2004 - ASCII
            return data
        if byte >= 0xC0:  # noqa: PLR2004 - the first byte of a longer character
            return data[:-back] if back < _length(byte) else data
    return data


def _length(first: int) -> int:
    """Of a character of more than one byte, by its first."""
    return 2 if first < 0xE0 else 3 if first < 0xF0 else 4  # noqa: PLR2004 - UTF-8
