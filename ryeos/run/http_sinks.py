"""Sinks of event streams: each gets the data of the events in order, and is closed."""

import json
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

from lillux.contained_paths import is_inside
from lillux.files import file_system_error, make_directory, open_file
from lillux.values import dataclass, field
from ryeos.items.errors import SpecError
from ryeos.items.specs import type_name
from ryeos.run.outcomes import json_or

DEFAULT_MAX_EVENTS = 10_000
FORMATS = ("jsonl", "raw")


class EventSink(Protocol):
    """Takes the events of one stream."""

    def write(self, event: str) -> None:
        """Take the data of one event."""
        ...

    def close(self) -> None:
        """No more will come, whatever the reason."""
        ...


class ReturnSink:
    """Keeps the first ``max_size`` events; they are the body of the result."""

    def __init__(self, max_size: int = DEFAULT_MAX_EVENTS) -> None:
        self._max_size = max_size
        self._events: list[str] = []
        self.dropped = 0

    def write(self, event: str) -> None:
        """Keep the event, or count it when there are enough."""
        if len(self._events) < self._max_size:
            self._events.append(event)
        else:
            self.dropped += 1

    def close(self) -> None:
        """Nothing to let go of."""

    def get_events(self) -> list[str]:
        """The events that were kept."""
        return list(self._events)


class FileSink:
    """Appends each event to a file, at once.

    jsonl  one line of JSON for an event: what it holds, else a string of JSON
    raw    the data as it is and a line feed
    """

    def __init__(self, path: Path, form: str = "jsonl", *, within: Path | None = None) -> None:
        self.path, self._is_json = path, form == "jsonl"
        make_directory(path.parent, within=within)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        try:
            self._file = os.fdopen(open_file(path, flags, within=within), "ab", buffering=0)
        except OSError as error:
            raise file_system_error(path, error) from error

    def write(self, event: str) -> None:
        """Append the event. Raises FileSystemError."""
        line = json.dumps(json_or(event, event), ensure_ascii=False) if self._is_json else event
        try:
            self._file.write(f"{line}\n".encode("utf-8", "replace"))
        except OSError as error:
            raise file_system_error(self.path, error) from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class NullSink:
    """Takes everything and keeps nothing."""

    def write(self, event: str) -> None:
        """Forget the event."""

    def close(self) -> None:
        """Nothing to let go of."""


@dataclass(frozen=True, slots=True)
class StreamDestination:
    """A sink as a config writes it.

    type    ``return``, ``file`` or ``null``
    path    of a file, relative to the project
    config  ``max_size`` for ``return``; ``outside_project: true`` for ``file``
    format  of a file: ``jsonl`` or ``raw``
    """

    type: str
    path: str | None = None
    config: Mapping[str, Any] | None = None
    format: str = "jsonl"


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """The way a stream is read.

    transport        ``sse``
    destinations     one sink each
    buffer_events    keep events for the result even without a ``return`` destination
    max_buffer_size  how many a ``return`` destination keeps that does not say so itself
    """

    transport: str = "sse"
    destinations: tuple[StreamDestination, ...] = field(default_factory=tuple)
    buffer_events: bool = False
    max_buffer_size: int = DEFAULT_MAX_EVENTS


def stream_config(value: object) -> StreamConfig:
    """The value of ``config.stream``; without destinations, events are returned.

    Raises SpecError.
    """
    where = "config.stream"
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise SpecError(where, f"expected a mapping, got {type_name(value)}")
    transport = value.get("transport", "sse")
    if transport != "sse":
        raise SpecError(f"{where}.transport", f"expected sse, got {transport!r}")
    declared = value.get("destinations", [])
    if not isinstance(declared, list):
        raise SpecError(f"{where}.destinations", f"expected a list, got {type_name(declared)}")
    found = tuple(
        _destination(entry, f"{where}.destinations[{index}]")
        for index, entry in enumerate(declared)
    )
    buffered = value.get("buffer_events", not found)
    if not isinstance(buffered, bool):
        raise SpecError(f"{where}.buffer_events", f"expected a boolean, got {type_name(buffered)}")
    return StreamConfig(
        destinations=found,
        buffer_events=buffered,
        max_buffer_size=_size(
            value.get("max_buffer_size", DEFAULT_MAX_EVENTS), f"{where}.max_buffer_size"
        ),
    )


def open_sinks(config: StreamConfig, project_path: Path) -> tuple[EventSink, ...]:
    """A sink for each destination. Raises SpecError and FileSystemError; then none stays open."""
    opened: list[EventSink] = []
    with ExitStack() as failed:
        failed.callback(close_all, opened)
        for index, destination in enumerate(config.destinations):
            where = f"config.stream.destinations[{index}]"
            opened.append(_open_sink(destination, config, project_path, where))
        failed.pop_all()
    if config.buffer_events and not any(isinstance(sink, ReturnSink) for sink in opened):
        opened.append(ReturnSink(config.max_buffer_size))
    return tuple(opened)


def close_all(sinks: "list[EventSink] | tuple[EventSink, ...]") -> None:
    """Close every sink, whatever the others do."""
    with ExitStack() as closing:
        for sink in sinks:
            closing.callback(sink.close)


def written_files(config: StreamConfig, project_path: Path) -> list[Path]:
    """The files that the destinations write. Raises SpecError."""
    files = [one for one in config.destinations if one.type == "file"]
    return [_file(one, project_path, "config.stream.destinations") for one in files]


def validate_destinations(config: StreamConfig, project_path: Path) -> None:
    """Raises SpecError for a file that `open_sinks` would refuse. Opens nothing."""
    for index, destination in enumerate(config.destinations):
        if destination.type == "file":
            _file(destination, project_path, f"config.stream.destinations[{index}]")


def _destination(entry: object, where: str) -> StreamDestination:
    if not isinstance(entry, dict):
        raise SpecError(where, f"expected a mapping, got {type_name(entry)}")
    kind, path, form = entry.get("type"), entry.get("path"), entry.get("format", "jsonl")
    if kind not in {"return", "file", "null"}:
        raise SpecError(f"{where}.type", f"expected return, file or null, got {kind!r}")
    if kind == "file" and not (isinstance(path, str) and path.strip()):
        raise SpecError(f"{where}.path", "expected the path of a file")
    if form not in FORMATS:
        raise SpecError(f"{where}.format", f"expected {' or '.join(FORMATS)}, got {form!r}")
    known = {"type", "path", "format", "config"}
    settings = dict(entry.get("config") or {}) | {
        key: value for key, value in entry.items() if key not in known
    }
    return StreamDestination(type=kind, path=path, config=settings, format=form)


def _open_sink(
    destination: StreamDestination, config: StreamConfig, project_path: Path, where: str
) -> EventSink:
    settings = destination.config or {}
    match destination.type:
        case "return":
            size = settings.get("max_size", config.max_buffer_size)
            return ReturnSink(_size(size, f"{where}.max_size"))
        case "file":
            path = _file(destination, project_path, where)
            within = None if _may_leave(destination) else project_path.resolve()
            return FileSink(path, destination.format, within=within)
        case _:
            return NullSink()


def _file(destination: StreamDestination, project_path: Path, where: str) -> Path:
    """The path of a file sink: in the project and not among its items, unless the config says."""
    root = project_path.resolve()
    given = os.path.normpath(Path(root, destination.path or ""))
    try:
        real = Path(given).resolve()
    except (OSError, ValueError) as error:
        raise SpecError(f"{where}.path", f"expected a path, got one with {error}") from error
    path = real if _may_leave(destination) else Path(given)
    if _may_leave(destination):
        return path
    if not is_inside(path, root):
        raise SpecError(
            f"{where}.path",
            f"expected a file in the project, got {path}",
            hint="the signed tool may say outside_project: true",
        )
    if is_inside(path, root / ".ai") and not is_inside(path, root / ".ai" / "state"):
        raise SpecError(f"{where}.path", "expected a file outside .ai, or below .ai/state")
    return path


def _may_leave(destination: StreamDestination) -> bool:
    """True if the signed tool says that its file may be outside of the project."""
    return (destination.config or {}).get("outside_project") is True


def _size(value: object, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SpecError(where, f"expected a number of events, got {value!r}")
    return value
