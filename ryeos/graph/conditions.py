"""Conditions of edges and hooks: ``{path, op, value}``, ``any``, ``all``, ``not``. Pure.

``docs/graphs.md`` has every operator.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any, TypeAlias

from lillux.regex_search import TextTooLongError, compile_pattern
from lillux.regex_syntax import PatternError
from lillux.values import dataclass
from ryeos.graph.expressions import SYNTAX_HINT, VALUE_HINT, Document, ExpressionError, Warn, fill
from ryeos.graph.expressions import problems as template_problems
from ryeos.graph.expressions import references as template_references
from ryeos.graph.operators import ALIASES, OPERATORS, WITHOUT_VALUE
from ryeos.graph.pipes import PipeError, kind_of
from ryeos.graph.problems import GraphProblem
from ryeos.graph.template_syntax import Path, PathSyntaxError, has_marks, look_up, parse_path

MAX_DEPTH = 32
_GROUPS = ("any", "all", "not")
_KEYS = ("path", "op", "operator", "value")
_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of what is at a path with a value.

    op     a key of `OPERATORS`, never an alias
    value  a template, filled before it is compared
    """

    path: Path
    op: str
    value: Any


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one holds; none of them is false."""

    conditions: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one holds; none of them is true."""

    conditions: "tuple[Condition, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """The condition does not hold."""

    condition: "Condition"


Condition: TypeAlias = Comparison | AnyOf | AllOf | Not

ALWAYS = AllOf(())
NEVER = AnyOf(())


def parse_condition(data: Any, path: str) -> tuple[Condition | None, list[GraphProblem]]:  # noqa: ANN401
    """The condition that a file has at a path, and everything that is wrong with it.

    None where it is not clear what is meant: then the problems are errors. Beside a condition
    they are warnings. Nothing, an empty mapping and true always hold; false never does.
    """
    problems: list[GraphProblem] = []
    return _parse_condition(data, path, problems, MAX_DEPTH), problems


def holds(condition: Condition, document: Document, warn: Warn) -> bool:
    """True if a condition is true of a document; a group stops at the first that decides.

    Raises ExpressionError for a value that cannot be filled in, an invalid pattern, a text
    too long for its pattern, an unknown operator.
    """
    match condition:
        case Comparison():
            return _compares(condition, document, warn)
        case AnyOf(conditions):
            return any(holds(one, document, warn) for one in conditions)
        case AllOf(conditions):
            return all(holds(one, document, warn) for one in conditions)
        case Not(inner):
            return not holds(inner, document, warn)


def references(condition: Condition) -> Iterator[Path]:
    """Every path that a condition looks at, those in its values too."""
    match condition:
        case Comparison(path, _, value):
            yield path
            yield from template_references(value)
        case AnyOf(conditions) | AllOf(conditions):
            for one in conditions:
                yield from references(one)
        case Not(inner):
            yield from references(inner)


def _compares(condition: Comparison, document: Document, warn: Warn) -> bool:
    shown = f"{'.'.join(condition.path)} {condition.op}"
    operator = OPERATORS.get(condition.op)
    if operator is None:
        raise ExpressionError(shown, _unknown_operator(condition.op, OPERATORS), hint=SYNTAX_HINT)
    value = fill(condition.value, document, warn)
    actual = look_up(document, condition.path)
    try:
        return operator(actual, value, lambda line: warn(f"{shown}: {line}"))
    except (PatternError, TextTooLongError, PipeError) as error:
        raise ExpressionError(shown, str(error), hint=VALUE_HINT) from error
    except RecursionError as error:
        problem = "expected values that are less deeply nested"
        raise ExpressionError(shown, problem, hint=VALUE_HINT) from error


def _parse_condition(
    data: Any,  # noqa: ANN401 - JSON
    path: str,
    problems: list[GraphProblem],
    levels: int,
) -> Condition | None:
    if data is None or isinstance(data, bool):
        return NEVER if data is False else ALWAYS
    if not isinstance(data, Mapping):
        problem = f"expected a condition, found {kind_of(data)}"
        problems.append(
            GraphProblem(path, problem, "write it like {path: state.n, op: gt, value: 1}")
        )
        return None
    if not levels:
        problems.append(
            GraphProblem(path, f"expected at most {MAX_DEPTH} conditions in each other")
        )
        return None
    groups = [name for name in _GROUPS if name in data]
    problems += _unknown_keys(data, groups, path)
    if len(groups) > 1 or (groups and any(key in data for key in _KEYS)):
        found = ", ".join(str(key) for key in data if key in {*_GROUPS, *_KEYS})
        hint = "put them into one list: all: [{...}, {...}]"
        problems.append(
            GraphProblem(path, f"expected one of any, all, not or path, found {found}", hint)
        )
        return None
    if groups:
        return _group(groups[0], data[groups[0]], f"{path}.{groups[0]}", problems, levels - 1)
    return _comparison(data, path, problems) if data else ALWAYS


def _group(
    name: str,
    data: Any,  # noqa: ANN401
    path: str,
    problems: list[GraphProblem],
    levels: int,
) -> Condition | None:
    if name == "not":
        inner = _parse_condition(data, path, problems, levels)
        return None if inner is None else Not(inner)
    if not isinstance(data, (list, tuple)):
        hint = f"write {name}: [{{...}}, {{...}}]"
        problems.append(GraphProblem(path, f"expected a list, found {kind_of(data)}", hint))
        return None
    read = [
        _parse_condition(entry, f"{path}[{index}]", problems, levels)
        for index, entry in enumerate(data)
    ]
    conditions = tuple(condition for condition in read if condition is not None)
    if len(conditions) < len(read):
        return None
    return AnyOf(conditions) if name == "any" else AllOf(conditions)


def _comparison(
    data: Mapping[Any, Any], path: str, problems: list[GraphProblem]
) -> Condition | None:
    steps = _path(data, path, problems)
    op = _operator(data, path, problems)
    value = data.get("value")
    found = [
        GraphProblem(_below(f"{path}.value", place), line)
        for place, line in template_problems(value)
    ]
    problems += found
    if steps is None or op is None or found:
        return None
    if op == "regex" and not _is_pattern(value, f"{path}.value", problems):
        return None
    problems += _value_warnings(op, data, path)
    return Comparison(steps, op, value)


def _path(data: Mapping[Any, Any], path: str, problems: list[GraphProblem]) -> Path | None:
    if "path" not in data:
        hint = "say what is compared, like path: state.n"
        problems.append(GraphProblem(path, "expected the key path, found none", hint))
        return None
    text = data["path"]
    try:
        if isinstance(text, str) and not has_marks(text):
            return parse_path(text)
    except PathSyntaxError as error:
        problems.append(GraphProblem(f"{path}.path", str(error)))
        return None
    found = repr(text[:_SHOWN]) if isinstance(text, str) else kind_of(text)
    hint = "a path stands without ${ and }"
    problems.append(
        GraphProblem(f"{path}.path", f"expected a path like state.n, found {found}", hint)
    )
    return None


def _operator(data: Mapping[Any, Any], path: str, problems: list[GraphProblem]) -> str | None:
    key = "op" if "op" in data else "operator"
    where = f"{path}.{key}"
    if "op" in data and "operator" in data:
        problems.append(GraphProblem(where, "expected op or operator, found both"))
        return None
    op = data.get(key, "eq")
    if not isinstance(op, str):
        problems.append(
            GraphProblem(where, f"expected the name of an operator, found {kind_of(op)}")
        )
        return None
    op = ALIASES.get(op, op)
    if op not in OPERATORS:
        meant = _suggestion(op, (*OPERATORS, *ALIASES))
        known = f"{meant} " if meant else ""
        hint = f"{known}known are {', '.join(OPERATORS)}"
        problems.append(GraphProblem(where, f"unknown operator {op[:_SHOWN]!r}", hint))
        return None
    return op


def _is_pattern(value: object, path: str, problems: list[GraphProblem]) -> bool:
    """Report an invalid pattern; one that is filled in later is not looked at here."""
    if not isinstance(value, str):
        problems.append(
            GraphProblem(path, f"expected a regular expression, found {kind_of(value)}")
        )
        return False
    if has_marks(value):
        return True
    try:
        compile_pattern(value)
    except PatternError as error:
        hint = "see docs/graphs.md for what a pattern may have"
        problems.append(GraphProblem(path, f"{value[:_SHOWN]!r}: {error}", hint))
        return False
    return True


def _value_warnings(op: str, data: Mapping[Any, Any], path: str) -> Iterator[GraphProblem]:
    """Warnings for what can be compared, but hardly as it was meant."""
    value = data.get("value")
    if op in WITHOUT_VALUE:
        if value is False:
            other = op.removeprefix("not_") if op.startswith("not_") else f"not_{op}"
            yield GraphProblem(f"{path}.value", f"{op} looks at no value", f"write op: {other}")
    elif "value" not in data:
        hint = "add value, or op: exists"
        yield GraphProblem(path, f"{op} has no value to compare with, so null is taken", hint)
    elif op in {"in", "not_in"} and not isinstance(value, (list, tuple, str)):
        yield GraphProblem(f"{path}.value", f"expected a list to look in, found {kind_of(value)}")
    elif op in {"in", "not_in"} and isinstance(value, str) and not has_marks(value):
        hint = "write a list, or swap the two: op: contains"
        yield GraphProblem(f"{path}.value", "expected a list to look in, found a text", hint)


def _unknown_keys(data: Mapping[Any, Any], groups: list[str], path: str) -> Iterator[GraphProblem]:
    known = _GROUPS if groups else (*_KEYS, *_GROUPS)
    for key in data:
        if key not in {*_KEYS, *_GROUPS} and not str(key).startswith("x-"):
            shown = str(key)[:_SHOWN]
            yield GraphProblem(
                f"{path}.{shown}", "unknown key is not used", _suggestion(str(key), known)
            )


def _suggestion(word: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(word[:_SHOWN], known, 1)
    return f"did you mean {close[0]}?" if close else ""


def _unknown_operator(op: str, known: Mapping[str, object]) -> str:
    meant = _suggestion(op, tuple(known))
    said = f"unknown operator {op[:_SHOWN]!r}, {meant}".rstrip()
    return f"{said} known are {', '.join(known)}"


def _below(path: str, place: str) -> str:
    return path + place if not place or place.startswith("[") else f"{path}.{place}"
