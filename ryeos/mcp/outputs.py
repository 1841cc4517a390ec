"""Results that are too large for a message: a window on them, and the whole kept in a file.

Kept below the state folder of the project, else of the user, as ``outputs/ID.log``; read again as
the resource ``rye://output/ID``.
"""

import json
import uuid
from pathlib import Path
from typing import Any

from lillux.files import make_directory, write_atomic
from lillux.values import dataclass
from ryeos.context import Context

MAX_CHARACTERS = 100_000
PRIVATE = 0o600
SUFFIX = ".log"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """An output that was kept: how large it is, where it lies, and what it is called."""

    size_bytes: int
    path: Path
    uri: str

    def describe(self) -> dict[str, Any]:
        """As results show it."""
        return {"bytes": self.size_bytes, "path": str(self.path), "resource": self.uri}


def outputs_folder(context: Context) -> Path:
    """Where outputs are kept."""
    space = context.spaces.project or context.spaces.user
    return space.ai / "state" / "outputs"


def output_path(context: Context, name: str) -> Path:
    """The file of an output that was kept under this name."""
    return outputs_folder(context) / f"{name}{SUFFIX}"


def windowed(
    envelope: dict[str, Any],
    context: Context,
    max_characters: int = MAX_CHARACTERS,
    *,
    name: str = "",
) -> tuple[dict[str, Any], Kept | None]:
    """The envelope with its ``data`` cut to size, and what was kept of it. Raises FileSystemError.

    ``name`` is for an output that is told of more than once: 32 hex digits.

    Of a program's streams each is cut in the middle; any other value becomes the window on its
    JSON.
    """
    data = envelope.get("data")
    streams = data if _is_streams(data) else {}
    if streams:
        whole = "".join(f"--- {name} ---\n{streams[name]}\n" for name in ("stdout", "stderr"))
        too_large = any(len(streams[name]) > max_characters for name in ("stdout", "stderr"))
    else:
        whole = json.dumps(data, ensure_ascii=False, indent=1)
        too_large = len(whole) > max_characters
    if not too_large:
        return envelope, None
    kept = _keep(whole, context, name or uuid.uuid4().hex)
    if streams:
        cut: Any = {
            name: window(value, max_characters) if isinstance(value, str) else value
            for name, value in streams.items()
        }
    else:
        cut = window(whole, max_characters)
    return {**envelope, "data": cut, "truncated": kept.describe()}, kept


def window(text: str, max_characters: int) -> str:
    """The first and the last half of a text, and between them how much was left out."""
    if len(text) <= max_characters:
        return text
    half = max_characters // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n... [{left_out} characters left out] ...\n{text[-half:]}"


def _is_streams(data: object) -> bool:
    return isinstance(data, dict) and all(
        isinstance(data.get(name), str) for name in ("stdout", "stderr")
    )


def _keep(text: str, context: Context, name: str) -> Kept:
    folder = outputs_folder(context)
    make_directory(folder)
    path = output_path(context, name)
    data = text.encode("utf-8", "replace")
    write_atomic(path, data, mode=PRIVATE)
    return Kept(size_bytes=len(data), path=path, uri=f"rye://output/{name}")
