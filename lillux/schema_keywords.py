"""Keywords of a schema: the shape of each, and the rules of those without schemas.

Each keyword without schemas in it is checked, and becomes a function that judges a value.
"""

import re
from collections.abc import Callable, Sized
from itertools import repeat
from math import isinf
from operator import ge, gt, le, lt
from typing import Any, TypeAlias

from lillux.canonical_json import json_pointer
from lillux.errors import LilluxError
from lillux.patterns import pattern
from lillux.schema_checks import ARRAY, NUMBER, Fits

Schema: TypeAlias = dict[str, Any] | bool
"""A schema as JSON gives it: a mapping of keywords, or ``True`` (all) and ``False`` (nothing)."""


class SchemaError(LilluxError):
    """A schema is wrong itself. ``pointer`` (RFC 6901) is where in it, ``""`` the schema itself."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, pointer: str, problem: str) -> None:
        from lillux.foreign_text import printable

        self.pointer, self.problem = pointer, problem
        super().__init__(f"schema {printable(pointer) or '(root)'}: {problem}")


REFUSED = (
    "unevaluatedProperties",
    "unevaluatedItems",
    "minContains",
    "maxContains",
    "$dynamicRef",
    "$recursiveRef",
)
"""Keywords that restrict values and are not supported: refused, not ignored."""

SchemaPath: TypeAlias = tuple[str | int, ...]


def schema_error(path: SchemaPath, problem: str) -> SchemaError:
    """The error at a path of a schema."""
    return SchemaError(json_pointer(path), problem)


def wrong_keyword(path: SchemaPath, expected: str, found: object) -> SchemaError:
    """The error about the value of a keyword."""
    from lillux.wording import describe_value

    return schema_error(path, f"expected {expected}, found {describe_value(found)}")


def require_mapping(rule: object, path: SchemaPath) -> dict[str, Any]:
    """The value of a keyword that is a mapping. Raises SchemaError."""
    if not isinstance(rule, dict):
        raise wrong_keyword(path, "a mapping", rule)
    return rule


def require_list(rule: object, path: SchemaPath, expected: str = "a list") -> list[Any]:
    """The value of a keyword that is a list. Raises SchemaError."""
    if not isinstance(rule, list):
        raise wrong_keyword(path, expected, rule)
    return rule


def require_members(rule: object, path: SchemaPath) -> list[Any]:
    """The value of a keyword that is a list with members. Raises SchemaError."""
    if not require_list(rule, path):
        raise wrong_keyword(path, "a list with at least one member", rule)
    return require_list(rule, path)


_TYPES: dict[str, tuple[type, ...]] = {
    "array": ARRAY,
    "boolean": (),  # true and false are numbers to Python
    "integer": (int,),
    "null": (type(None),),
    "number": NUMBER,
    "object": (dict,),
    "string": (str,),
}


def _type(rule: Any, path: SchemaPath) -> Fits:  # noqa: ANN401
    is_list = isinstance(rule, list)
    names = require_members(rule, path) if is_list else [rule]
    for index, name in enumerate(names):
        if not isinstance(name, str) or name not in _TYPES:
            from lillux.wording import listed

            place = (*path, index) if is_list else path
            raise wrong_keyword(place, f"one of {listed(_TYPES)}", name)
    kinds = tuple(kind for name in names for kind in _TYPES[name])
    takes_boolean, takes_whole = "boolean" in names, "integer" in names

    def fits(value: object) -> bool:
        if isinstance(value, bool):
            return takes_boolean
        is_whole = takes_whole and isinstance(value, float) and value.is_integer()
        return is_whole or isinstance(value, kinds)

    return fits


def _is_number(value: object) -> bool:
    return isinstance(value, NUMBER) and not isinstance(value, bool)


def _number(compare: Callable[[float, float], bool]) -> Callable[[Any, SchemaPath], Fits]:
    def read(rule: Any, path: SchemaPath) -> Fits:  # noqa: ANN401
        if not _is_number(rule):
            raise wrong_keyword(path, "a number", rule)
        return lambda value: not _is_number(value) or compare(value, rule)

    return read


def _count(
    compare: Callable[[float, float], bool], *kinds: type[Sized]
) -> Callable[[Any, SchemaPath], Fits]:
    def read(rule: Any, path: SchemaPath) -> Fits:  # noqa: ANN401
        if not _is_number(rule) or rule < 0 or rule % 1:
            raise wrong_keyword(path, "a whole number of at least 0", rule)
        return lambda value: not isinstance(value, kinds) or compare(len(value), rule)

    return read


def _multiple_of(rule: Any, path: SchemaPath) -> Fits:  # noqa: ANN401
    if not _is_number(rule) or rule <= 0:
        raise wrong_keyword(path, "a number above 0", rule)
    return lambda value: not _is_number(value) or _is_multiple(value, rule)


def _is_multiple(value: float, divisor: float) -> bool:
    """True if a number is a multiple of another, as they are written: 0.3 is one of 0.1."""
    if isinstance(value, int) and isinstance(divisor, int):
        return value % divisor == 0
    try:
        if isinf(value / divisor):
            return False
    except OverflowError:  # an integer beyond all fractions
        return False
    from decimal import Context, Decimal

    # Exact: of a quotient that is no infinity, 309 digits stand before the point.
    return not Context(prec=400).remainder(Decimal(repr(value)), Decimal(repr(divisor)))


def _enum(rule: object, path: SchemaPath) -> Fits:
    texts = frozenset(one for one in require_members(rule, path) if isinstance(one, str))
    others = [one for one in require_members(rule, path) if not isinstance(one, str)]

    def fits(value: object) -> bool:
        if isinstance(value, str):
            return value in texts
        return any(map(_is_same, others, repeat(value)))

    return fits


def _is_same(one: Any, other: Any) -> bool:  # noqa: ANN401
    """True if JSON values are equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, dict):
        is_alike = isinstance(other, dict) and one.keys() == other.keys()
        return is_alike and all(map(_is_same, one.values(), map(other.get, one)))
    if isinstance(one, ARRAY):
        is_alike = isinstance(other, ARRAY) and len(one) == len(other)
        return is_alike and all(map(_is_same, one, other))
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def _unique_items(rule: object, path: SchemaPath) -> Fits:
    if not isinstance(rule, bool):
        raise wrong_keyword(path, "true or false", rule)

    def fits(value: Any) -> bool:  # noqa: ANN401
        return not isinstance(value, ARRAY) or len({*map(_hashable, value)}) == len(value)

    return fits if rule else lambda _: True


def _hashable(value: Any) -> Any:  # noqa: ANN401
    """A value that is equal for values that `_is_same` finds equal, and for no others."""
    if isinstance(value, bool):
        return (bool, value)
    if isinstance(value, dict):
        return frozenset(zip(value, map(_hashable, value.values()), strict=True))
    return tuple(map(_hashable, value)) if isinstance(value, ARRAY) else value


def _pattern(rule: object, path: SchemaPath) -> Fits:
    search = compiled_search(rule, path)
    return lambda value: not isinstance(value, str) or search(value) is not None


def compiled_search(rule: object, path: SchemaPath) -> Callable[[str], object]:
    """The search of a pattern. Raises SchemaError."""
    if not isinstance(rule, str):
        raise wrong_keyword(path, "a regular expression", rule)
    try:
        return re.compile(_python_pattern(rule)).search
    except (re.error, OverflowError, RecursionError) as error:
        from lillux.wording import json_text

        problem = f"{json_text(rule)} is not a regular expression Python can read: {error}"
        raise schema_error(path, problem) from error


def _python_pattern(text: str) -> str:
    r"""The pattern, in which ``$`` is the very end of a text, as Python writes it.

    To Python a bare ``$`` also stands before a last newline. ``\Z`` says it without doubt; inside
    a set ``$`` is only a character, and is escaped so that no reader takes it for more.
    """
    return _DOLLAR_OR_SHIELD.sub(_translate, text)


_DOLLAR_OR_SHIELD = pattern(
    r"""
      \\ (?: . | \Z )                                     # an escaped character
    | \[ \^? \]? (?: \\ (?: . | \Z ) | [^\]\\] )* \]?     # a set; ``]`` may be its first member
    | \$
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_SET = pattern(r"\\.|[$\[&~|]", re.DOTALL)  # the last four: Python warns of doubled ones


def _translate(match: re.Match[str]) -> str:
    text = match[0]
    if text == "$":
        return r"\Z"
    if text.startswith("["):
        return "[" + _IN_SET.sub(_escape, text[1:])
    return text


def _escape(match: re.Match[str]) -> str:
    return match[0] if match[0].startswith("\\") else "\\" + match[0]


def require_names(rule: object, path: SchemaPath) -> list[str]:
    """The value of a keyword that lists names, each once. Raises SchemaError."""
    seen: set[str] = set()
    for index, name in enumerate(require_list(rule, path, "a list of names of keys")):
        if not isinstance(name, str):
            raise wrong_keyword((*path, index), "the name of a key", name)
        if name in seen:
            from lillux.wording import json_text

            raise schema_error((*path, index), f"{json_text(name)} is named twice")
        seen.add(name)
    return require_list(rule, path)


def _name_lists(rule: object, path: SchemaPath) -> dict[str, list[str]]:
    return {
        key: require_names(names, (*path, key))
        for key, names in require_mapping(rule, path).items()
    }


def _refused(_: object, path: SchemaPath) -> None:
    raise schema_error(path, "this keyword is not supported")


# In the order in which a report names them.
RULES: dict[str, Callable[[Any, SchemaPath], Fits]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda rule, path: _enum([rule], path),
    "minimum": _number(ge),
    "maximum": _number(le),
    "exclusiveMinimum": _number(gt),
    "exclusiveMaximum": _number(lt),
    "multipleOf": _multiple_of,
    "minLength": _count(ge, str),
    "maxLength": _count(le, str),
    "minItems": _count(ge, *ARRAY),
    "maxItems": _count(le, *ARRAY),
    "minProperties": _count(ge, dict),
    "maxProperties": _count(le, dict),
    "pattern": _pattern,
    "uniqueItems": _unique_items,
}
KEYWORDS: dict[str, Callable[[Any, SchemaPath], Any]] = {
    **RULES,
    "required": require_names,
    "dependentRequired": _name_lists,
    **dict.fromkeys(REFUSED, _refused),
}
