"""JSON Schema: what is wrong with a value, all of it, and the defaults of what is absent.

The rules are fastjsonschema's, and this package is the only one that imports it. Supported
keywords and how they are read: docs/formats.md, Parameter schemas. ``format`` is a remark and
checks nothing, a pattern may match anywhere, ``$ref`` stays inside the schema, ``3.0`` is an
integer and ``true`` is none.

A schema comes from a signed item: it cannot run code or reach the network, but one written to be
slow (a pathological pattern) is slow.
"""

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from lillux.integrity import CanonicalJsonError, canonical_json, require_json
from lillux.schema.checks import SchemaError
from lillux.schema.defaults import fill_defaults
from lillux.schema.definition import read_definition
from lillux.schema.judge import Judge
from lillux.schema.parameters import schema_from_parameter_list
from lillux.schema.walk import Violation, collect_violations
from lillux.schema.wording import describe_value
from lillux.values import dataclass

__all__ = [
    "SchemaError",
    "SchemaValidator",
    "ValidationResult",
    "Violation",
    "check_schema",
    "schema_from_parameter_list",
    "violations",
    "with_defaults",
]

_MAX_REMEMBERED = 128


def violations(value: object, schema: Mapping[str, Any]) -> tuple[Violation, ...]:
    """Everything in which a value breaks a schema, in the order of the value; empty if it fits.

    A value that JSON cannot hold (NaN, a date, a key that is a number, 129 levels) breaks every
    schema, and only that is reported. Raises SchemaError for a schema that is wrong itself.
    """
    judge = _judge_for(schema)
    try:
        require_json(value)
    except CanonicalJsonError as error:
        return (Violation(error.pointer, error.expected, error.found),)
    try:
        return () if judge.accepts(value) else collect_violations(judge, value)
    except RecursionError:
        expected, found = "references that end sooner", "more in a row than can be followed"
        return (Violation("", expected, found),)


def with_defaults(value: object, schema: Mapping[str, Any]) -> object:
    """The value with the defaults of its schema, at any depth, where a key is absent.

    Only what ``properties`` (also behind ``$ref``) declare is filled in: nothing inside ``anyOf``
    and the like, nothing in arrays. A default of null counts only where null is allowed. The value
    is never changed; the defaults are copies. What JSON cannot hold comes back as it is.

    Raises SchemaError for a schema that is wrong itself, or whose defaults have no end.
    """
    judge = _judge_for(schema)
    try:
        require_json(value)
    except CanonicalJsonError:
        return value
    return fill_defaults(value, judge)


def check_schema(schema: Mapping[str, Any]) -> None:
    """Nothing, when values can be judged by the schema. Raises SchemaError."""
    _judge_for(schema)


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """The verdict on a value, and in words what is wrong with it."""

    valid: bool
    errors: tuple[str, ...]


class SchemaValidator:
    """`violations` under the name and in the shape that embedders of Rye know."""

    def validate_parameters(self, value: object, schema: Mapping[str, Any]) -> ValidationResult:
        """Whether the value fits, and each violation as one line. Raises SchemaError."""
        errors = tuple(str(violation) for violation in violations(value, schema))
        return ValidationResult(valid=not errors, errors=errors)


def _judge_for(schema: Mapping[str, Any]) -> Judge:
    if not isinstance(schema, Mapping):
        raise SchemaError("", f"expected a mapping, found {describe_value(schema)}")
    try:
        text = canonical_json(dict(schema))
    except CanonicalJsonError as error:
        problem = f"expected {error.expected}, found {error.found}"
        raise SchemaError(error.pointer, problem) from error
    return _judge(text)


@lru_cache(maxsize=_MAX_REMEMBERED)
def _judge(text: bytes) -> Judge:
    # From its text the schema comes back as a copy that nobody else can change.
    return Judge(read_definition(json.loads(text)), _compile)


def _compile(form: dict[str, Any]) -> Callable[[object], bool]:
    """The door to the library: a verdict function for a schema in its form."""
    import fastjsonschema

    # Without details: they would repeat the whole schema in the source of every rule.
    validate = fastjsonschema.compile(
        form, use_default=False, use_formats=False, detailed_exceptions=False
    )

    def accepts(value: object) -> bool:
        try:
            validate(value)
        except (fastjsonschema.JsonSchemaValueException, ArithmeticError):
            return False  # arithmetic: multiples of a fraction are not told apart beyond 10**308
        return True

    return accepts
