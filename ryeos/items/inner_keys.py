"""Keys inside the blocks of a header that seem to declare a field of it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ryeos.items.declared_names import DATA_SUFFIXES, FIELDS, SQUASHED
from ryeos.items.header_names import (
    SANDBOX,
    Unread,
    is_one_slip,
    seems_right,
    seems_rights,
    squashed,
)
from ryeos.items.header_values import line_of
from ryeos.items.rights import KEYS
from ryeos.items.specs import SPELLINGS

_NO_BLOCKS = frozenset({"none", "any", "nothing"})
_NAMES_OF_CALLERS = frozenset(
    {"properties", "params", "parameters", "arguments", "args", "env", "headers", "body", "json"}
    | {"data", "query", "config_schema", "input_schema", "CONFIG_SCHEMA", "INPUT_SCHEMA"}
    | {"PARAMETERS"}
)
"""Fields whose keys an author chooses, or another program: schemas, parameters, variables."""


def inner_blocks(suffix: str, header: Mapping[str, Any]) -> Iterator[str]:
    """The keys inside of a header's blocks, at any depth, that seem to declare rights.

    In code, only inside of constants that are fields of a header or are called after it.
    """
    is_data = suffix in DATA_SUFFIXES
    left: list[Any] = [
        value
        for key, value in header.items()
        if isinstance(value, (dict, list))
        and key not in _NAMES_OF_CALLERS
        and not key.startswith("x-")
        and FIELDS.get(key) != SANDBOX
        and (is_data or key in FIELDS or key[:2] == "__" or key.upper() in _HEADERS)
    ]
    while left:
        block = left.pop()
        if isinstance(block, list):
            left += block
        elif isinstance(block, dict):
            for key, value in block.items():
                if key in _NAMES_OF_CALLERS or key.startswith("x-"):
                    continue
                if seems_rights(key) and _is_of_rights(key, value):
                    yield key
                left.append(value)


_HEADERS = frozenset({"HEADER", "META", "METADATA", "TOOL", "TOOL_CONFIG"})


def _is_of_rights(key: str, value: object) -> bool:
    """True if a value looks like rights: a switch or a name below the same key does not."""
    match value:
        case list() if seems_right(key):
            return True
        case dict() | list():
            names = [squashed(name) for name in value if isinstance(name, str)]
            near = any(is_one_slip(name, right) for name in names for right in KEYS)
            return not value or near
        case None:
            return True
        case str():
            is_exact = squashed(key) == SANDBOX or seems_right(key)
            is_word = is_exact and value.strip().casefold() in _NO_BLOCKS
            return is_word or value.lstrip().startswith("{")
        case _:
            return False


def inner_rights(suffix: str, text: str, header: Mapping[str, Any]) -> Iterator[Unread]:
    """The keys inside of blocks that seem to declare rights."""
    for key in dict.fromkeys(inner_blocks(suffix, header)):
        yield _inner_unread(suffix, text, key, SANDBOX)


def _inner_unread(suffix: str, text: str, key: str, field: str) -> Unread:
    found = re.finditer(rf'["\']?\b{re.escape(key)}["\']?\s*[:=\]]', text)
    lines = [line_of(text, one.start()) for one in found]
    raw = text.split("\n")
    inner = [one for one in lines if not raw[one - 1].startswith(key)] or lines or [1]
    line = lines[-1] if suffix == ".toml" and lines else inner[0]
    problem = "stands in another block; Rye reads it at the top level of the header alone"
    return Unread(line=line, name=key, field=field, problem=f"{problem}; move or remove it")


_INNER_FIELDS: Mapping[str, type[str] | type[dict[str, Any]]] = {
    "executor_id": str,
    "tool_type": str,
    "config_schema": dict,
    "env_config": dict,
}
"""Fields that no other block has under these names, at whatever depth, by what their values are."""
_INNER_FLAGS = frozenset({"retryable", "native_async", "params_mode", "execution_owner"}) | {
    "verify_deps",
    "config_resolve",
    "child_constraints",
    "execution_params",
}
"""Those that other programs may have further down: they count directly inside of ``config``."""
_READ_IN_CONFIG = frozenset({"params_mode"})
"""Those that are read there as well, see `ryeos.items.specs`."""


def inner_names(suffix: str, header: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The keys inside of a header's blocks that seem to be fields of it, each with its field."""
    is_data = suffix in DATA_SUFFIXES
    for name, block in header.items():
        field = FIELDS.get(name)
        if name in _NAMES_OF_CALLERS or field == SANDBOX or name.startswith("x-"):
            continue
        if field is None and not is_data:
            continue
        for key, value, is_direct in _keys_inside(block):
            inner = SQUASHED.get(squashed(key), "")
            is_field = isinstance(value, _INNER_FIELDS.get(inner, ()))
            is_field &= is_direct or "_" in key or "-" in key
            is_own = is_direct and field in {"config", "env_config"}
            if is_own and field == "config" and key in _READ_IN_CONFIG:
                continue
            if is_field or (is_own and inner in _INNER_FLAGS):
                yield key, inner


def _keys_inside(block: object) -> Iterator[tuple[str, object, bool]]:
    """The keys of a block and of those inside of it, and whether they stand in it directly."""
    left = [(block, True)]
    while left:
        one, is_direct = left.pop()
        if isinstance(one, list):
            left += [(part, False) for part in one]
        elif isinstance(one, dict):
            for key, value in one.items():
                is_free = key in _NAMES_OF_CALLERS or key.startswith("x-")
                if not is_free:
                    left.append((value, False))
                if not is_free or (is_direct and key in SPELLINGS["config_schema"]):
                    yield key, value, is_direct


def inner_fields(suffix: str, text: str, header: Mapping[str, Any]) -> Iterator[Unread]:
    """The keys inside of blocks that seem to be fields of the header."""
    for key, field in dict.fromkeys(inner_names(suffix, header)):
        yield _inner_unread(suffix, text, key, field)
