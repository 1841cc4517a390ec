"""The result of a tool as MCP has it: text, the same as a structure, and media.

``content[0]`` is text, for clients that show their model text; ``structuredContent`` is for others.
Blocks of content that the tool itself gave follow, and a link to what was too long to be shown.
"""

import json
import os
import re
import stat
import time
import uuid
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import (
    make_directory,
    read_part,
    remove_file,
    write_atomic,
)
from lillux.foreign_text import escaped
from lillux.values import dataclass
from ryeos.app.verbs import wants_all
from ryeos.items.context import Context
from ryeos.items.errors import VerbArgumentError
from ryeos.items.specs import type_name
from ryeos.mcp.brief import BLOCKS_KEY, brief, text_of
from ryeos.mcp.hints import for_callers
from ryeos.mcp.listing import MAX_PART_BYTES, StoredOutput, parse_uri, part_uri
from ryeos.mcp.wire import compact
from ryeos.trust.approvals import is_about_approval

# --- content blocks -------------------------------------------------------------------------------
# Blocks of content that a tool gives, held against what the protocol says of each. Pure.
#
# A block that is not as the protocol has it ends the whole answer for a strict client: it is left
# out, with a warning that says why.

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ROLES = frozenset({"user", "assistant"})
_MOST_PROBLEMS = 5

# What is wrong with a value, as `expected ..., found ...`; nothing where it is right.
BlockRule = Callable[[Any], str]


def valid_blocks(blocks: Iterable[object]) -> tuple[list[dict[str, Any]], list[str]]:
    """The blocks that are right, and what is wrong with each of the others."""
    good, problems = [], []
    for number, block in enumerate(blocks):
        problem = problem_of(block)
        if problem:
            problems.append(f"{BLOCKS_KEY}[{number}] is left out: {problem}")
        elif isinstance(block, dict):
            good.append(block)
    more = len(problems) - _MOST_PROBLEMS
    if more > 0:
        problems[_MOST_PROBLEMS:] = [f"{more} more blocks are left out"]
    return good, problems


def problem_of(block: object) -> str:
    """What keeps a block from being sent; nothing where it may be."""
    if not isinstance(block, dict):
        return f"expected an object, found {type_name(block)}"
    kind = block.get("type")
    required = _REQUIRED.get(kind) if isinstance(kind, str) else None
    if required is None:
        return f"type: expected one of {', '.join(_REQUIRED)}, found {kind!r:.60}"
    for name, rule in required.items():
        if name not in block:
            return f"{name}: expected by {kind}, found nothing"
        problem = rule(block[name])
        if problem:
            return f"{name}: {problem}"
    optional = _OPTIONAL_OF_LINKS if kind == "resource_link" else _OPTIONAL
    wrong = (
        f"{n}: {rule(block[n])}" for n, rule in optional.items() if n in block and rule(block[n])
    )
    return next(wrong, "")


def _text(value: Any) -> str:  # noqa: ANN401 - JSON
    return "" if isinstance(value, str) else f"expected a string, found {type_name(value)}"


def _base64(value: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(value, str):
        return _text(value)
    try:
        b64decode(value, validate=True)
    except (NotBase64, ValueError):
        return "expected base64"
    return ""


def _uri(value: Any) -> str:  # noqa: ANN401 - JSON
    if isinstance(value, str) and not _SCHEME.match(value):
        return f"expected a URI, found {value[:60]!r}"
    return _text(value)


def _size(value: Any) -> str:  # noqa: ANN401 - JSON
    is_size = isinstance(value, int) and not isinstance(value, bool)
    return "" if is_size else f"expected an integer, found {type_name(value)}"


def _object(value: Any) -> str:  # noqa: ANN401 - JSON
    return "" if isinstance(value, dict) else f"expected an object, found {type_name(value)}"


def _annotations(value: Any) -> str:  # noqa: ANN401 - JSON
    if not isinstance(value, dict):
        return _object(value)
    audience = value.get("audience", [])
    if not isinstance(audience, list) or not all(
        isinstance(one, str) and one in _ROLES for one in audience
    ):
        return "audience: expected a list of user and assistant"
    priority = value.get("priority", 0)
    is_number = isinstance(priority, int | float) and not isinstance(priority, bool)
    if not is_number or not 0 <= priority <= 1:
        return "priority: expected a number from 0 to 1"
    problem = _text(value.get("lastModified", ""))
    return f"lastModified: {problem}" if problem else ""


def _icons(value: Any) -> str:  # noqa: ANN401 - JSON
    is_list = isinstance(value, list)
    right = is_list and all(isinstance(one, dict) and not _uri(one.get("src")) for one in value)
    return "" if right else "expected a list of objects with src"


_REQUIRED: Mapping[str, Mapping[str, BlockRule]] = {
    "text": {"text": _text},
    "image": {"data": _base64, "mimeType": _text},
    "audio": {"data": _base64, "mimeType": _text},
    "resource_link": {"uri": _uri, "name": _text},
}
_OPTIONAL: Mapping[str, BlockRule] = {"annotations": _annotations, "_meta": _object}
_OPTIONAL_OF_LINKS: Mapping[str, BlockRule] = {
    **_OPTIONAL,
    "title": _text,
    "description": _text,
    "mimeType": _text,
    "size": _size,
    "icons": _icons,
}


# --- outputs --------------------------------------------------------------------------------------
# Results that are too large for a message: a window on them, and the whole kept in a file.
#
# Kept below the state folder of the project, else of the user, as ``outputs/ID.log``; read again as
# the resource ``rye://output/ID``. How long: `remove_old_outputs`.

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
        """As results show it."""
        return {"bytes": self.size_bytes, "resource": self.uri}


def outputs_folder(context: Context) -> Path:
    """Where outputs are kept."""
    space = context.spaces.project or context.spaces.user
    return space.ai / "state" / "outputs"


def outputs_within(context: Context) -> Path | None:
    """The folder from which outputs are reached without links: the project, if there is one."""
    return context.spaces.project.within if context.spaces.project else None


def output_path(context: Context, name: str) -> Path:
    """The file of an output that was kept under this name."""
    return outputs_folder(context) / f"{name}{SUFFIX}"


def max_characters(context: Context) -> tuple[int, list[str]]:
    """How much of a text is shown, by ``RYE_MAX_OUTPUT_CHARS``, and what is wrong with that."""
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
    """What is kept of a value: text as it is."""
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


# --- results --------------------------------------------------------------------------------------

# Of a line of 8 MiB; the rest is for what is around it.
MAX_RESULT_BYTES = 7_500_000


def tool_result(
    envelope: Mapping[str, Any],
    context: Context | None = None,
    *,
    verb: str = "execute",
    arguments: Mapping[str, Any] | None = None,
    kept_as: str = "",
    told: set[str] | None = None,
) -> dict[str, Any]:
    """What ``tools/call`` answers. With a context, what is too long is cut and kept there.

    It is kept under a new name unless there is one for it. ``arguments`` are those of the call,
    ``told`` the warnings of approval that the client has had: it gets each once.
    """
    verbose = wants_all(arguments or {})
    shown = envelope if verbose else brief(verb, envelope, arguments)
    if told is not None and not verbose:
        shown = _without_told(shown, told)
    structure, media, problems = _without_media(json.loads(compact(for_callers(shown))))
    structure = _warned(structure, problems)
    kept = None
    if context:
        limit, warnings = max_characters(context)
        try:
            structure, kept = windowed(structure, context, limit, name=kept_as)
        except LilluxError as error:  # nowhere to keep it: then it is only cut
            structure, _ = windowed(structure, None, limit)
            warnings = [*warnings, str(error)]
        structure = _warned(structure, warnings)
    text = escaped(compact(structure)) if verbose else text_of(structure)
    left_bytes = MAX_RESULT_BYTES - _sent_bytes(structure, text)
    if left_bytes < 0:
        structure, media, kept = _too_large(MAX_RESULT_BYTES - left_bytes), [], None
        text = text_of(structure)
    fitting = _fitting(media, left_bytes)
    if len(fitting) < len(media):
        said = f"{len(media) - len(fitting)} blocks of content are too large for a message"
        structure = _warned(structure, [said])
    return {
        "content": [
            {"type": "text", "text": text},
            *fitting,
            *_links(kept),
        ],
        "structuredContent": structure,
        "isError": structure.get("status") == "error",
    }


def _without_told(envelope: Mapping[str, Any], told: set[str]) -> Mapping[str, Any]:
    """The envelope without warnings of approval that an earlier one had; ``told`` gets others."""
    warnings = envelope.get("warnings")
    if not isinstance(warnings, list | tuple):
        return envelope
    lasting = [one for one in warnings if isinstance(one, str) and is_about_approval(one)]
    known = [one for one in lasting if one in told]
    left = [one for one in warnings if one not in known]
    told.update(lasting)
    rest = {name: value for name, value in envelope.items() if name != "warnings"}
    return {**rest, "warnings": left} if left else rest


MAX_TWICE_CHARACTERS = 2000
"""A longer text is sent once: a structure beside it would hold all of it again."""


def sent_once(result: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The result as a client gets it: without the structure where that would only cost.

    Some clients show their model the structure and nothing else, so it is whole or not there: not
    beside pictures, which it cannot hold, and not beside a long text, unless ``verbose`` asks.
    """
    blocks = result.get("content", ())
    texts = [one["text"] for one in blocks if one.get("type") == "text"]
    is_media = any(one.get("type") in {"image", "audio"} for one in blocks)
    is_long = sum(map(len, texts)) > MAX_TWICE_CHARACTERS and not wants_all(arguments)
    left_out = {"structuredContent"} if is_media or is_long else set()
    return {name: value for name, value in result.items() if name not in left_out}


def _without_media(
    envelope: dict[str, Any],
) -> tuple[dict[str, Any], list[dict[str, Any]], list[str]]:
    """The envelope with its blocks of content only described, the blocks, and what is wrong."""
    data = envelope.get("data")
    blocks = data.get(BLOCKS_KEY) if isinstance(data, dict) else None
    if not isinstance(blocks, list) or not isinstance(data, dict):
        return envelope, [], []
    good, problems = valid_blocks(blocks)
    described = [_without_data(one) if isinstance(one, dict) else one for one in blocks]
    return {**envelope, "data": {**data, BLOCKS_KEY: described}}, good, problems


def _warned(structure: dict[str, Any], warnings: Sequence[str]) -> dict[str, Any]:
    if not warnings:
        return structure
    return {**structure, "warnings": [*structure.get("warnings", ()), *warnings]}


def _without_data(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block less its data, which a model can make nothing of as text."""
    described = {name: value for name, value in block.items() if name != "data"}
    data = block.get("data")
    return {**described, "characters": len(data)} if isinstance(data, str) else described


def _sent_bytes(structure: Mapping[str, Any], text: str) -> int:
    """What the structure and its text take in a message."""
    return len(compact(structure).encode()) + len(compact(text).encode())


def _fitting(blocks: list[dict[str, Any]], left_bytes: int) -> list[dict[str, Any]]:
    """The blocks that there is room for, each one that fits behind those before it."""
    fitting = []
    for block in blocks:
        size = len(compact(block).encode()) + 1
        if size <= left_bytes:
            left_bytes -= size
            fitting.append(block)
    return fitting


def _too_large(size: int) -> dict[str, Any]:
    return {
        "status": "error",
        "error": f"the answer takes {size} bytes, more than the {MAX_RESULT_BYTES} of a message",
        "code": "RESOURCE_EXCEEDED",
        "hint": "ask for less of it",
    }


def _links(kept: KeptOutput | None) -> list[dict[str, Any]]:
    if kept is None:
        return []
    return [
        {
            "type": "resource_link",
            "uri": kept.uri,
            "name": kept.path.name,
            "mimeType": "text/plain",
            "size": kept.size_bytes,
        }
    ]


# --- old outputs ----------------------------------------------------------------------------------
# Which kept outputs are removed again, whenever one more is kept.
#
# (1) those older than ``MAX_AGE_S``
# (2) the oldest, until the rest are at most ``MAX_OUTPUTS`` and ``MAX_TOTAL_BYTES``
# (3) never the one just kept, nor one younger than ``FRESH_S``: its call may still be running, and
#     the client that heard of it has yet to read it
#
# Only plain files with a name as we give it, in a folder that is reached without links.

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


# --- output parts ---------------------------------------------------------------------------------
# Reading kept outputs: whole where a message can hold them, else in parts.
#
# A part is a range of bytes in the file. Where it would end within a character, it ends before it;
# the next part begins there. One that is shorter than its first character is as long as that. One
# that begins within a character shows that as U+FFFD.

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
