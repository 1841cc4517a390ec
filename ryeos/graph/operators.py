"""The operators of conditions, which compare two values. Pure."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lillux.regex_search import compile_pattern, search
from ryeos.graph.expressions import Warn
from ryeos.graph.pipes import is_number, kind_of, number_in, text_of

Operator: TypeAlias = Callable[[Any, Any, Warn], bool]

ALIASES: Mapping[str, str] = {
    "==": "eq",
    "!=": "ne",
    "neq": "ne",
    ">": "gt",
    ">=": "gte",
    "<": "lt",
    "<=": "lte",
}
WITHOUT_VALUE = frozenset({"exists", "not_exists", "empty", "not_empty"})

_Pair: TypeAlias = tuple[Any, Any] | None


def comparable(actual: object, value: object) -> _Pair:
    """Both as numbers or both as texts, or None where they have no order.

    A text that is a number counts as one beside a number.
    """
    if isinstance(actual, str) and isinstance(value, str):
        return actual, value
    if is_number(actual) and is_number(value):
        return actual, value
    if is_number(actual) and isinstance(value, str):
        number = number_in(value)
        return None if number is None else (actual, number)
    if isinstance(actual, str) and is_number(value):
        number = number_in(actual)
        return None if number is None else (number, value)
    return None


def _ordering(holds: Callable[[Any, Any], bool]) -> Operator:
    def ordered(actual: Any, value: Any, warn: Warn) -> bool:  # noqa: ANN401
        if actual is None:
            return False
        pair = comparable(actual, value)
        if pair is None:
            warn(f"{kind_of(actual)} and {kind_of(value)} have no order, so this is false")
            return False
        return holds(*pair)

    return ordered


def _eq(actual: Any, value: Any, _: Warn) -> bool:  # noqa: ANN401
    return bool(actual == value)


def _in(actual: Any, value: Any, warn: Warn) -> bool:  # noqa: ANN401
    if not isinstance(value, (list, tuple, set, frozenset)):
        warn(f"expected a list to look in, found {kind_of(value)}, so this is false")
        return False
    return any(actual == entry for entry in value)


def _contains(actual: Any, value: Any, _: Warn) -> bool:  # noqa: ANN401
    """A list has the element, a mapping has the key, anything else has the text in its text."""
    if actual is None:
        return False
    if isinstance(actual, (list, tuple, set, frozenset)):
        return any(value == entry for entry in actual)
    if isinstance(actual, Mapping):
        return any(value == key for key in actual)
    return value is not None and text_of(value) in text_of(actual)


def _starts_with(actual: Any, value: Any, _: Warn) -> bool:  # noqa: ANN401
    return _are_there(actual, value) and text_of(actual).startswith(text_of(value))


def _ends_with(actual: Any, value: Any, _: Warn) -> bool:  # noqa: ANN401
    return _are_there(actual, value) and text_of(actual).endswith(text_of(value))


def _regex(actual: Any, value: Any, _: Warn) -> bool:  # noqa: ANN401
    if not _are_there(actual, value):
        return False
    return search(compile_pattern(text_of(value)), text_of(actual))


def _are_there(actual: object, value: object) -> bool:
    """None has no text: it neither begins with any text nor is the beginning of one."""
    return actual is not None and value is not None


def _exists(actual: Any, _: Any, __: Warn) -> bool:  # noqa: ANN401
    return actual is not None


def _empty(actual: Any, _: Any, __: Warn) -> bool:  # noqa: ANN401
    """Nothing, or a text, list or mapping without anything in it; 0 and false are something."""
    return actual is None or (isinstance(actual, (str, list, tuple, Mapping)) and not actual)


def _not(operator: Operator) -> Operator:
    return lambda actual, value, warn: not operator(actual, value, warn)


OPERATORS: Mapping[str, Operator] = {
    "eq": _eq,
    "ne": _not(_eq),
    "gt": _ordering(lambda actual, value: actual > value),
    "gte": _ordering(lambda actual, value: actual >= value),
    "lt": _ordering(lambda actual, value: actual < value),
    "lte": _ordering(lambda actual, value: actual <= value),
    "in": _in,
    "not_in": _not(_in),
    "contains": _contains,
    "not_contains": _not(_contains),
    "starts_with": _starts_with,
    "ends_with": _ends_with,
    "regex": _regex,
    "exists": _exists,
    "not_exists": _not(_exists),
    "empty": _empty,
    "not_empty": _not(_empty),
}
