"""Bad forms of a document that a writer made, and what its reader says of each."""

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lillux.errors import LilluxError

Read = Callable[[Any], object]
_DEPTH = 3
_LONG, _DEEP, _DEEPEST = 10_000, 300, 100_000


def bad_values(value: Any) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - JSON
    """The JSON value with a field missing, of another type, unknown, too long, too deep."""
    wholes: tuple[object, ...] = (None, [], "x", 3)
    yield from ((f"the whole is {json.dumps(other)}", other) for other in wholes)
    for path in _paths(value, ()):
        shown = "/".join(map(str, path))
        yield f"{shown} missing", _changed(value, path, None, remove=True)
        for other in _others(_at(value, path)):
            yield f"{shown} is {json.dumps(other)}", _changed(value, path, other)
    if isinstance(value, dict):
        yield "an unknown key", {**value, "no_such_key": 1}
        yield "an unknown key that is deep", {**value, "no_such_key": _nested()}
        for key in [key for key, one in value.items() if isinstance(one, str)]:
            yield f"{key} of {_LONG} characters", {**value, key: "x" * _LONG}


def bad_texts(text: str) -> Iterator[tuple[str, str]]:
    """The text with a line missing, twice or changed, cut short, longer, or another text."""
    lines = text.splitlines(keepends=True)
    for place, line in enumerate(lines):
        shown = f"line {place + 1}"
        before, after = "".join(lines[:place]), "".join(lines[place + 1 :])
        yield f"{shown} missing", before + after
        yield f"{shown} twice", before + line + line + after
        middle = len(line) // 2
        changed = "x" if line[middle : middle + 1] != "x" else "y"
        yield f"{shown} changed", before + line[:middle] + changed + line[middle + 1 :] + after
    yield "cut in half", text[: len(text) // 2]
    yield "without its end", text[:-2]
    yield "a line more", f"{text}x\n"
    yield "nothing", ""
    yield "another text", "x\n"
    yield "another text that is deep", "[" * _DEEPEST
    yield "a byte that no text has", f"\0{text}"


def bad_headers(headers: Mapping[str, str]) -> Iterator[tuple[str, dict[str, str]]]:
    """The headers with one missing, empty, changed, too long or twice. Their values are texts."""
    for name, value in headers.items():
        yield f"{name} missing", {key: one for key, one in headers.items() if key != name}
        for what, other in (("empty", ""), ("x", "x"), ("too long", value * 100)):
            yield f"{name} {what}", {**headers, name: other}
        changed = "0" if value[-1] != "0" else "1"
        yield f"{name} changed", {**headers, name: value[:-1] + changed}
        yield f"{name} twice", {**headers, name.lower(): value}


def answer(read: Read, form: Any, usual: object) -> str:  # noqa: ANN401 - JSON or text
    """The reader's answer to one form; ``usual`` is what it reads of the good one."""
    try:
        found = read(form)
    except LilluxError as error:
        hint = f" (hint: {error.hint})" if error.hint else ""
        return f"{error.code}: {error}{hint}"
    except Exception as error:  # noqa: BLE001 - a reader that raises another one is recorded, too
        return f"{type(error).__name__}: {error}"
    return "accepted, read as the good one" if found == usual else "accepted"


def answers(read: Read, good: Any, forms: Iterator[tuple[str, Any]]) -> str:  # noqa: ANN401 - as above
    """A line for each form: what is bad, and what the reader says."""
    usual = read(good)
    return "\n".join(f"{what}: {answer(read, form, usual)}" for what, form in forms)


def _paths(value: Any, above: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:  # noqa: ANN401
    """Each key, of a list the first element, down to a depth."""
    if len(above) == _DEPTH:
        return
    keys: list[Any] = []
    if isinstance(value, dict):
        keys = list(value)
    elif isinstance(value, list) and value:
        keys = [0]
    for key in keys:
        yield (*above, key)
        yield from _paths(value[key], (*above, key))


def _others(value: object) -> Iterator[object]:
    """Values of other types."""
    for other in (None, 3, "x", True, [3], {"x": 1}):
        if type(other) is not type(value):
            yield other


def _at(value: Any, path: tuple[str | int, ...]) -> Any:  # noqa: ANN401 - JSON
    for key in path:
        value = value[key]
    return value


def _changed(
    value: Any,  # noqa: ANN401 - JSON
    path: tuple[str | int, ...],
    other: object,
    *,
    remove: bool = False,
) -> Any:  # noqa: ANN401 - JSON
    made = copy.deepcopy(value)
    parent = _at(made, path[:-1])
    if remove:
        del parent[path[-1]]
    else:
        parent[path[-1]] = other
    return made


def _nested() -> object:
    value: object = 1
    for _ in range(_DEEP):
        value = [value]
    return value
