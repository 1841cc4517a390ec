"""What each keyword of a schema may hold, and the error for one that holds something else."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.integrity import json_pointer
from lillux.schema.keywords import COUNTS, NUMBERS, REFUSED, TYPES, python_pattern
from lillux.schema.wording import describe_value, json_text, listed, printable

Path = tuple[str | int, ...]


class SchemaError(LilluxError):
    """A schema is wrong itself. ``pointer`` (RFC 6901) is where in it, ``""`` the schema itself."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, pointer: str, problem: str) -> None:
        self.pointer, self.problem = pointer, problem
        super().__init__(f"schema {printable(pointer) or '(root)'}: {problem}")


def schema_error(path: Path, problem: str) -> SchemaError:
    """The error for a problem at a path of keys and indices."""
    return SchemaError(json_pointer(path), problem)


def wrong(path: Path, expected: str, found: object) -> SchemaError:
    """The error for a value at ``path`` that is not what it should be."""
    return schema_error(path, f"expected {expected}, found {describe_value(found)}")


def check_rule(keyword: str, rule: object, path: Path) -> None:
    """Nothing, when the keyword can hold the rule, or is none that holds plain values.

    Raises SchemaError.
    """
    if keyword in _CHECKS:
        _CHECKS[keyword](rule, path)


def require_mapping(rule: object, path: Path) -> dict[str, Any]:
    """The rule, a mapping. Raises SchemaError."""
    if not isinstance(rule, dict):
        raise wrong(path, "a mapping", rule)
    return rule


def require_list(rule: object, path: Path) -> list[Any]:
    """The rule, a list. Raises SchemaError."""
    if not isinstance(rule, list):
        raise wrong(path, "a list", rule)
    return rule


def require_members(rule: object, path: Path) -> list[Any]:
    """The rule, a list that is not empty. Raises SchemaError."""
    if not require_list(rule, path):
        raise wrong(path, "a list with at least one member", rule)
    return require_list(rule, path)


def require_names(rule: object, path: Path) -> list[str]:
    """The rule, a list of names of keys, none of them twice. Raises SchemaError."""
    if not isinstance(rule, list):
        raise wrong(path, "a list of names of keys", rule)
    seen: set[str] = set()
    for index, name in enumerate(rule):
        if not isinstance(name, str):
            raise wrong((*path, index), "the name of a key", name)
        if name in seen:
            raise schema_error((*path, index), f"{json_text(name)} is named twice")
        seen.add(name)
    return rule


def _name_lists(rule: object, path: Path) -> None:
    for name, names in require_mapping(rule, path).items():
        require_names(names, (*path, name))


def _type(rule: object, path: Path) -> None:
    if isinstance(rule, list):
        for index, name in enumerate(require_members(rule, path)):
            _type_name(name, (*path, index))
    else:
        _type_name(rule, path)


def _type_name(name: object, path: Path) -> None:
    if name not in TYPES:
        raise wrong(path, f"one of {listed(TYPES)}", name)


def _number(rule: object, path: Path) -> None:
    if isinstance(rule, bool) or not isinstance(rule, int | float):
        raise wrong(path, "a number", rule)


def _divisor(rule: object, path: Path) -> None:
    if isinstance(rule, bool) or not isinstance(rule, int | float) or rule <= 0:
        raise wrong(path, "a number above 0", rule)


def _count(rule: object, path: Path) -> None:
    if isinstance(rule, bool) or not isinstance(rule, int | float) or rule < 0 or rule % 1:
        raise wrong(path, "a whole number of at least 0", rule)


def _boolean(rule: object, path: Path) -> None:
    if not isinstance(rule, bool):
        raise wrong(path, "true or false", rule)


def _pattern(rule: object, path: Path) -> None:
    if not isinstance(rule, str):
        raise wrong(path, "a regular expression", rule)
    try:
        re.compile(python_pattern(rule))
    except (re.error, OverflowError, RecursionError) as error:
        problem = f"{json_text(rule)} is not a regular expression Python can read: {error}"
        raise schema_error(path, problem) from error


def _pattern_map(rule: object, path: Path) -> None:
    for pattern in require_mapping(rule, path):
        _pattern(pattern, (*path, pattern))


def _refused(_: object, path: Path) -> None:
    raise schema_error(path, "this keyword is not supported")


_CHECKS: Mapping[str, Callable[[object, Path], object]] = {
    "type": _type,
    "enum": require_members,
    "pattern": _pattern,
    "patternProperties": _pattern_map,
    "multipleOf": _divisor,
    "uniqueItems": _boolean,
    "required": require_names,
    "dependentRequired": _name_lists,
    **dict.fromkeys(NUMBERS, _number),
    **dict.fromkeys(COUNTS, _count),
    **dict.fromkeys(REFUSED, _refused),
}
