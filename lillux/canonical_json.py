"""Canonical JSON: one value, one text, one digest on every machine."""

import json
from math import isfinite
from typing import TYPE_CHECKING

from lillux.digests import sha256_hex
from lillux.errors import LilluxError

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any


MAX_DEPTH = 128
"""Levels of nesting a JSON value may have; the usual limit of parsers in other languages too."""

MAX_INTEGER_BITS = 10_000
"""Python refuses to print integers not much larger than this."""


class CanonicalJsonError(LilluxError):
    """A value has no canonical JSON. ``pointer`` (RFC 6901) is where, ``""`` the value itself."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, pointer: str, expected: str, found: str) -> None:
        self.pointer, self.expected, self.found = pointer, expected, found
        super().__init__(f"{pointer or '(root)'}: expected {expected}, found {found}")


def canonical_json(value: object) -> bytes:
    """The one JSON text of a value: keys sorted, no blanks, everything but ASCII escaped.

    Two values that differ only in the order of keys have the same text. See `require_json` for
    what counts as a value. Format: docs/items.md, Canonical JSON.

    Raises CanonicalJsonError, naming the path.
    """
    require_json(value)
    return _canonical(value).encode("ascii")


def compute_integrity(value: object) -> str:
    """The digest of a value: hex SHA-256 of its canonical JSON. Raises CanonicalJsonError."""
    return sha256_hex(canonical_json(value))


def require_json(value: object) -> None:
    """Refuse a value that JSON cannot hold.

    That is: ``dict`` with text keys, ``list``, ``tuple``, ``str``, finite numbers, ``bool`` and
    ``None``, nested at most `MAX_DEPTH` levels. A value that contains itself is deeper than that.

    Raises CanonicalJsonError for the first part that is something else.
    """
    if not _is_json(value, MAX_DEPTH):
        _require_json(value, ())


def json_pointer(path: tuple[str | int, ...]) -> str:
    """The JSON pointer (RFC 6901) of a path of keys and indices; ``""`` for the empty path."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in path)


def _is_json(value: object, levels: int) -> bool:
    """True if JSON can surely hold a value that nests so many levels: False also in doubt.

    Without the path that an error names, and without a call for each part: canonical JSON of what
    a thread said is made in each turn.
    """
    if type(value) in _ALWAYS_JSON:
        return True
    waiting: list[tuple[int, Collection[Any]]] = [(levels, (value,))]
    while waiting:
        levels, group = waiting.pop()
        for one in group:
            kind = type(one)
            if kind is dict and {*map(type, one)} <= _TEXT:
                inner = [part for part in one.values() if type(part) not in _ALWAYS_JSON]
            elif kind is list or kind is tuple:
                inner = [part for part in one if type(part) not in _ALWAYS_JSON]
            elif kind is int or kind is float:
                if one.bit_length() > MAX_INTEGER_BITS if kind is int else not isfinite(one):
                    return False
                continue
            else:
                return False
            if levels <= 0:
                return False
            if inner:
                waiting.append((levels - 1, inner))
    return True


def _require_json(value: object, path: tuple[str | int, ...]) -> None:
    match value:
        case dict() | list() | tuple() if len(path) == MAX_DEPTH:
            limit = f"at most {MAX_DEPTH} levels of nesting"
            raise CanonicalJsonError(json_pointer(path), limit, "more")
        case dict():
            for key, child in value.items():
                if not isinstance(key, str):
                    found = f"one of type {type(key).__name__}"
                    raise CanonicalJsonError(json_pointer(path), "keys that are text", found)
                _require_json(child, (*path, key))
        case list() | tuple():
            for index, child in enumerate(value):
                _require_json(child, (*path, index))
        case _:
            _require_scalar(value, path)


_TEXT = frozenset({str})
_ALWAYS_JSON = frozenset({str, bool, type(None)})
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


def _require_scalar(value: object, path: tuple[str | int, ...]) -> None:
    match value:
        case str() | bool() | None:
            return
        case int() if value.bit_length() <= MAX_INTEGER_BITS:
            return
        case float() if isfinite(value):
            return
        case int():
            expected, found = f"an integer of at most {MAX_INTEGER_BITS} bits", "a larger one"
        case float():
            expected, found = "a finite number", json.dumps(value)
        case _:
            expected, found = "a JSON value", type(value).__name__
    raise CanonicalJsonError(json_pointer(path), expected, found)
