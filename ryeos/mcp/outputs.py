"""Kept outputs: results that are too large for a message, each whole in a file.

Kept below the state folder of the project, else of the user, as ``outputs/ID.log``; read again as
the resource ``rye://output/ID``, whole where a message can hold it, else in parts.

A part is a range of bytes in the file. Where it would end within a character, it ends before it;
the next part begins there. One that is shorter than its first character is as long as that. One
that begins within a character shows that as U+FFFD.

Whenever one more is kept, old ones are removed:

(1) those older than ``MAX_AGE_S``
(2) the oldest, until the rest are at most ``MAX_OUTPUTS`` and ``MAX_TOTAL_BYTES``
(3) never the one just kept, nor one younger than ``FRESH_S``: its call may still be running, and
    the client that heard of it has yet to read it

Only plain files with a name as we give it, in a folder that is reached without links.
"""

import json
import os
import re
import stat
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.files import make_directory, read_part, remove_file, write_atomic
from lillux.values import dataclass
from ryeos.items.context import Context
from ryeos.items.errors import VerbArgumentError
from ryeos.mcp.uris import MAX_PART_BYTES, StoredOutput, parse_uri, part_uri
from ryeos.mcp.wire import compact

VARIABLE = "RYE_MAX_OUTPUT_CHARS"
MAX_CHARACTERS = 8000
# Of JSON that a tool made: it is of no use with a hole in the middle.
MAX_JSON_CHARACTERS = 60_000
# Two streams of that many characters, each as long as JSON can make it, fit into a message.
MIN_CHARACTERS, MOST_CHARACTERS = 1000, 250_000
_STREAMS = ("stdout", "stderr")
# Texts that bound themselves, and name the call that continues.
_SELF_BOUNDED = frozenset({"content", "your_directions"})
# Of both streams, with what JSON puts before their characters.
_MOST_OF_STREAMS = 14
PRIVATE = 0o600
SUFFIX = ".log"
OUTPUT_URI = "rye://output/"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOutput:
    """An output that was kept: how large it is, where it lies, and what it is called."""

    size_bytes: int
    path: Path
    uri: str

    def describe(self) -> dict[str, Any]:
        """The same as results show it."""
        return {"bytes": self.size_bytes, "resource": self.uri}


def outputs_folder(context: Context) -> Path:
    """The folder of kept outputs."""
    space = context.spaces.project or context.spaces.user
    return space.ai / "state" / "outputs"


def outputs_within(context: Context) -> Path | None:
    """The folder from which outputs are reached without links: the project, if there is one."""
    return context.spaces.project.within if context.spaces.project else None


def output_path(context: Context, name: str) -> Path:
    """The file of an output that was kept under this name."""
    return outputs_folder(context) / f"{name}{SUFFIX}"


def max_characters(context: Context) -> tuple[int, list[str]]:
    """The length of shown texts, by ``RYE_MAX_OUTPUT_CHARS``, and what is wrong with that."""
    given = context.process_env.get(VARIABLE, "")
    if not given:
        return MAX_CHARACTERS, []
    if given.isascii() and given.isdigit() and MIN_CHARACTERS <= int(given) <= MOST_CHARACTERS:
        return int(given), []
    wanted = f"expected a number from {MIN_CHARACTERS} to {MOST_CHARACTERS}, found {given[:20]!r}"
    return MAX_CHARACTERS, [f"{VARIABLE}: {wanted}; {MAX_CHARACTERS} is used"]


def windowed(
    envelope: dict[str, Any], context: Context | None, limit: int, *, name: str = ""
) -> tuple[dict[str, Any], KeptOutput | None]:
    """The envelope with its long values cut to size, and what was kept of them.

    Of a program's streams, and of texts, each is cut in the middle; any other value becomes the
    window on its JSON. Without a context nothing is kept. ``name`` is for an output that is
    reported more than once: 32 hex digits. Raises FileSystemError.
    """
    long = {name: value for name, value in envelope.items() if _is_long(name, value, limit)}
    if not long:
        return envelope, None
    cut = {**envelope, **{name: _cut(value, limit) for name, value in long.items()}}
    if context is None:
        return cut, None
    whole = "".join(_readable(key, value) for key, value in long.items())
    kept = _keep(whole, context, name or uuid.uuid4().hex)
    call = {"name": "load", "arguments": {"item_id": kept.uri, "offset": limit // 2}}
    return {**cut, "truncated": kept.describe(), "next": [call]}, kept


def _is_long(name: str, value: Any, limit: int) -> bool:  # noqa: ANN401 - JSON
    if name in _SELF_BOUNDED:
        limit = max(limit, MAX_JSON_CHARACTERS if limit == MAX_CHARACTERS else 0)
    if name == "data" and _is_streams(value):
        return any(len(value[stream]) > limit for stream in _STREAMS)
    if isinstance(value, str):
        return len(value) > limit
    return len(_json(value)) > max(limit, MAX_JSON_CHARACTERS if limit == MAX_CHARACTERS else 0)


def _cut(value: Any, limit: int) -> Any:  # noqa: ANN401 - JSON
    if isinstance(value, str):
        return window(value, limit)
    if isinstance(value, dict):
        cut = {
            name: window(inner, limit) if isinstance(inner, str) else inner
            for name, inner in value.items()
        }
        if len(_json(cut)) <= limit * _MOST_OF_STREAMS:
            return cut
    return window(_json(value), limit)


def _readable(name: str, value: Any) -> str:  # noqa: ANN401 - JSON
    """The kept form of a value: text as it is."""
    if name == "data" and _is_streams(value):
        return "".join(f"--- {stream} ---\n{value[stream]}\n" for stream in _STREAMS)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return text if name == "data" else f"--- {name} ---\n{text}\n"


def _json(value: Any) -> str:  # noqa: ANN401 - JSON
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def window(text: str, max_characters: int) -> str:
    """The first and the last half of a text, and between them how much was left out."""
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n... [{left_out} characters left out] ...\n{text[-half:]}"


def _is_streams(data: object) -> bool:
    return isinstance(data, dict) and all(isinstance(data.get(name), str) for name in _STREAMS)


def _keep(text: str, context: Context, name: str) -> KeptOutput:
    folder, within = outputs_folder(context), outputs_within(context)
    make_directory(folder, within=within)
    path = output_path(context, name)
    data = text.encode("utf-8", "replace")
    write_atomic(path, data, mode=PRIVATE, within=within)
    remove_old_outputs(folder, path.name, within=within)
    return KeptOutput(size_bytes=len(data), path=path, uri=f"{OUTPUT_URI}{name}")


MAX_TOTAL_BYTES = 256 * 1024 * 1024
MAX_OUTPUTS = 1000
MAX_AGE_S = 7 * 24 * 3600.0
FRESH_S = 600.0
_OURS = re.compile(r"[0-9a-f]{32}\.log")
# The folder itself, and those that hold it up to the space's own.
_FOLDERS = 3


@dataclass(frozen=True, slots=True)
class _Output:
    """A kept output: when it was written (seconds), how large it is, and where it lies."""

    written_s: float
    size_bytes: int
    path: Path


def remove_old_outputs(
    folder: Path,
    kept: str,
    *,
    clock: Callable[[], float] = time.time,
    within: Path | None = None,
) -> tuple[str, ...]:
    """Remove what is too old and too much, but never the one named ``kept``.

    Gives the names of those removed, the oldest first. What cannot be looked at or removed stays,
    and is no error: the output was kept.
    """
    if any(one.is_symlink() for one in (folder, *folder.parents[: _FOLDERS - 1])):
        return ()
    try:
        outputs = sorted(_outputs(folder), key=lambda one: (-one.written_s, one.path))
    except OSError:
        return ()
    now_s = clock()
    removed = []
    for one in _too_many(outputs, now_s):
        if one.path.name == kept or now_s - one.written_s < FRESH_S:  # (3)
            continue
        with suppress(OSError):
            remove_file(one.path, within=within)
            removed.append(one.path.name)
    return tuple(removed)


def _too_many(newest_first: Sequence[_Output], now_s: float) -> Iterable[_Output]:
    """Of the outputs, those beyond one of the bounds, the oldest first."""
    total_bytes = 0
    beyond = []
    for number, one in enumerate(newest_first, 1):
        total_bytes += one.size_bytes
        is_old = now_s - one.written_s > MAX_AGE_S  # (1)
        if is_old or number > MAX_OUTPUTS or total_bytes > MAX_TOTAL_BYTES:  # (2)
            beyond.append(one)
    return reversed(beyond)


def _outputs(folder: Path) -> Iterable[_Output]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if not _OURS.fullmatch(entry.name):
                continue
            try:
                mark = entry.stat(follow_symlinks=False)
            except OSError:  # another server has removed it
                continue
            if stat.S_ISREG(mark.st_mode):
                yield _Output(mark.st_mtime, mark.st_size, Path(entry.path))


# Of a line of 8 MiB; the rest is for what is around it.
MAX_WHOLE_BYTES = 7_500_000
NEXT_KEY, TOTAL_KEY = "rye/next", "rye/totalBytes"
_LONGEST_CHARACTER = 4


def read_on(context: Context, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """The envelope of a ``load`` that reads on in a kept output; None for one of an item.

    For clients that have tools and no resources. Raises VerbArgumentError, FileSystemError.
    """
    uri = arguments.get("item_id")
    if not isinstance(uri, str) or not uri.startswith(OUTPUT_URI):
        return None
    named, offset = parse_uri(uri), arguments.get("offset", 0)
    if not isinstance(offset, int) or isinstance(offset, bool) or offset < 0:
        raise VerbArgumentError("offset", f"expected a number from 0, found {offset!r:.60}")
    if isinstance(named, StoredOutput):
        path = output_path(context, named.name)
        with suppress(FileNotFoundError):
            part = StoredOutput(named.name, offset, MAX_CHARACTERS)
            found = {}
            if not path.is_symlink():
                found = read_output(path, part, within=outputs_within(context))
            if found:
                after = parse_uri(found["_meta"].get(NEXT_KEY, ""))
                answer = {"status": "success", "content": found["text"]}
                if not isinstance(after, StoredOutput):
                    return answer
                call = {"item_id": uri, "offset": after.offset}
                return {**answer, "next": [{"name": "load", "arguments": call}]}
    raise VerbArgumentError(
        "item_id", f"{uri[:80]}: not kept any more", hint="run the tool again, with less output"
    )


def read_output(path: Path, part: StoredOutput, *, within: Path | None = None) -> dict[str, Any]:
    """The ``text`` of an output, and in ``_meta`` where the next part of it is, if there is one.

    Raises FileNotFoundError, FileSystemError.
    """
    if part.length is None:
        data, total_bytes = read_part(path, 0, MAX_WHOLE_BYTES + 1, within=within)
        text = data.decode("utf-8", "replace")
        if total_bytes == len(data) and len(compact(text).encode()) <= MAX_WHOLE_BYTES:
            return {"text": text}
    size = MAX_PART_BYTES if part.length is None else min(part.length, MAX_PART_BYTES)
    data, total_bytes = read_part(path, part.offset, max(size, _LONGEST_CHARACTER), within=within)
    data = _part(data, size, reaches_end=part.offset + size >= total_bytes)
    meta: dict[str, Any] = {TOTAL_KEY: total_bytes}
    end = part.offset + len(data)
    if data and end < total_bytes:
        meta[NEXT_KEY] = part_uri(part.name, end, size)
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
