"""Reading kept outputs: whole where a message can hold them, else in parts.

A part is told by its bytes in the file. Where it would end within a character, it ends before it;
the next part begins there. One that begins within a character shows that as U+FFFD.
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
    data, total_bytes = read_part(path, asked.offset, size)
    data = _whole_characters(data) if asked.offset + len(data) < total_bytes else data
    meta: dict[str, Any] = {TOTAL_KEY: total_bytes}
    end = asked.offset + len(data)
    if data and end < total_bytes:
        meta[NEXT_KEY] = part_uri(asked.name, end, size)
    return {"text": data.decode("utf-8", "replace"), "_meta": meta}


def _whole_characters(data: bytes) -> bytes:
    """The data without the beginning of a character at its end."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:  # noqa: PLR2004 - ASCII
            return data
        if byte >= 0xC0:  # noqa: PLR2004 - the first byte of a longer character
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4  # noqa: PLR2004 - UTF-8
            return data[:-back] if back < min(length, len(data)) else data
    return data
