"""JSON documents: the headers of JSON files, tools and configuration.

A file of its own, imported late: most runs read none.
"""

import re
from typing import Any

from lillux.patterns import pattern
from ryeos.items.header_values import (
    MAX_DEPTH,
    MetadataError,
    UnreadableValueError,
    plain_value,
    require_parsable_text,
    shown,
)

# JSON has no comments, but a signed JSON file starts with one.
_FOREIGN_LINES = pattern(r"\A(?:#!/[^\n]*\n?)?(?:# rye:[^\n]*)?")


def parse_json(text: str) -> dict[str, Any]:
    """The object that a JSON text (RFC 8259) holds; a ``# rye:`` line above it is skipped.

    Stricter than the RFC where it leaves a choice: no key twice, finite numbers only.

    Raises MetadataError.
    """
    import json

    require_parsable_text("json", text)
    bare = _FOREIGN_LINES.sub(_only_newlines, text)
    try:
        value = plain_value(json.loads(bare, object_pairs_hook=object_of_unique_keys))
    except json.JSONDecodeError as error:
        problem = f"expected JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise MetadataError("json", problem, error.lineno) from error
    except UnreadableValueError as error:
        raise MetadataError("json", error.problem) from error
    except RecursionError as error:
        raise MetadataError(
            "json", f"expected at most {MAX_DEPTH} levels of nesting, found more"
        ) from error
    except ValueError as error:  # a number of more digits than Python converts
        raise MetadataError("json", f"expected a shorter number: {error}") from error
    if not isinstance(value, dict):
        raise MetadataError("json", f"expected an object, found {_json_name(value)}")
    return value


def _only_newlines(matched: re.Match[str]) -> str:
    return "\n" * matched[0].count("\n")


def object_of_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object. Raises UnreadableValueError for a key that is there twice."""
    unique = dict(pairs)
    if len(unique) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise UnreadableValueError(f"expected each key once, found {shown(key)} twice")
            seen.add(key)
    return unique


def _json_name(value: object) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "an array"
        case str():
            return "a string"
        case bool():
            return "a boolean"
        case _:
            return "a number"
