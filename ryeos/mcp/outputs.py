"""Results that are too large for a message: a window on them, and the whole kept in a file.

Kept below the state folder of the project, else of the user, as ``outputs/ID.log``; read again as
the resource ``rye://output/ID``. How long is for `ryeos.mcp.old_outputs`.
"""

import json
import uuid
from pathlib import Path
from typing import Any

from lillux.files import make_directory, write_atomic
from lillux.values import dataclass
from ryeos.context import Context

VARIABLE = "RYE_MAX_OUTPUT_CHARS"
MAX_CHARACTERS = 100_000
# Two streams of that many characters, each as long as JSON can make it, fit into a message.
MIN_CHARACTERS, MOST_CHARACTERS = 1000, 250_000
_STREAMS = ("stdout", "stderr")
# Of both streams, with what JSON puts before their characters.
_MOST_OF_STREAMS = 14
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
) -> tuple[dict[str, Any], Kept | None]:
    """The envelope with its long values cut to size, and what was kept of them.

    Of a program's streams, and of texts, each is cut in the middle; any other value becomes the
    window on its JSON. Without a context nothing is kept. ``name`` is for an output that is told of
    more than once: 32 hex digits. Raises FileSystemError.
    """
    long = {name: value for name, value in envelope.items() if _is_long(name, value, limit)}
    if not long:
        return envelope, None
    cut = {**envelope, **{name: _cut(value, limit) for name, value in long.items()}}
    if context is None:
        return cut, None
    whole = "".join(_readable(key, value) for key, value in long.items())
    kept = _keep(whole, context, name or uuid.uuid4().hex)
    return {**cut, "truncated": kept.describe()}, kept


def _is_long(name: str, value: Any, limit: int) -> bool:  # noqa: ANN401 - JSON
    if name == "data" and _is_streams(value):
        return any(len(value[stream]) > limit for stream in _STREAMS)
    return len(value if isinstance(value, str) else _json(value)) > limit


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


def _keep(text: str, context: Context, name: str) -> Kept:
    folder = outputs_folder(context)
    make_directory(folder)
    path = output_path(context, name)
    data = text.encode("utf-8", "replace")
    write_atomic(path, data, mode=PRIVATE)
    from ryeos.mcp.old_outputs import remove_old_outputs

    remove_old_outputs(folder, path.name)
    return Kept(size_bytes=len(data), path=path, uri=f"rye://output/{name}")
