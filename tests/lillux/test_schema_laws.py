"""Laws for every schema and value."""

import re
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator

from lillux.schema import Violation, violations, with_defaults
from lillux.schema_keywords import SchemaError

pytestmark = pytest.mark.property

KEYS = st.sampled_from(["a", "b", "ab", "a~/b", "$id", "{a}", ""])
PATTERNS = st.sampled_from(["^a", "b", "^[^a]*$", "a|b"])
SCALARS = st.none() | st.booleans() | st.integers(-3, 5) | st.sampled_from([0.5, 2.0]) | KEYS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])
SMALL = st.integers(0, 3)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Up to three keywords, in both spellings of what differs between the drafts."""
    rules: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": SCALARS,
        "minimum": SMALL,
        "exclusiveMaximum": SMALL,
        "multipleOf": st.sampled_from([2, 0.5]),
        "maximum": SMALL,
        "exclusiveMinimum": SMALL,
        **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), SMALL),
        **dict.fromkeys(("minProperties", "maxProperties"), SMALL),
        "uniqueItems": st.booleans(),
        "pattern": PATTERNS,
        "required": st.lists(KEYS, max_size=2, unique=True),
        "properties": st.dictionaries(KEYS, inner, max_size=3),
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "additionalProperties": inner,
        "propertyNames": inner,
        "items": inner | st.lists(inner, min_size=1, max_size=2),
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        "additionalItems": inner,
        "contains": inner,
        "dependencies": st.dictionaries(KEYS, inner | st.lists(KEYS, max_size=1), max_size=2),
        "dependentRequired": st.dictionaries(KEYS, st.lists(KEYS, max_size=1), max_size=2),
        "dependentSchemas": st.dictionaries(KEYS, inner, max_size=2),
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "default": VALUES,
        "format": st.just("email"),
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), st.lists(inner, min_size=1, max_size=2)),
    }
    names = st.lists(st.sampled_from(sorted(rules)), max_size=3, unique=True)
    chosen = names.flatmap(
        lambda picked: st.fixed_dictionaries({name: rules[name] for name in picked})
    )
    return chosen | st.just({"$ref": "#/$defs/x"})


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    parts = st.recursive(st.booleans() | keywords(st.just({})), keywords, max_leaves=6)
    return st.builds(lambda root, x: {"allOf": [root], "$defs": {"x": x}}, parts, parts)


def found_by(value: object, schema: dict[str, Any]) -> tuple[Violation, ...]:
    try:
        return violations(value, schema)
    except SchemaError:
        assume(condition=False)
        raise


OLDER = frozenset({"additionalItems", "dependencies"})
NEWER = frozenset({"prefixItems", "dependentRequired", "dependentSchemas"})


def spellings(schema: object) -> set[str]:
    """The keywords in a schema that a draft may not know; a list under ``items`` is one too."""
    if isinstance(schema, list):
        return set().union(*map(spellings, schema))
    if not isinstance(schema, dict):
        return set()
    older = {"additionalItems"} if isinstance(schema.get("items"), list) else set()
    inner = (spellings(one) for name, one in schema.items() if name not in {"enum", "default"})
    return (schema.keys() & (OLDER | NEWER)) | older.union(*inner)


@given(schemas(), VALUES)
def test_there_are_violations_exactly_when_another_implementation_refuses(
    schema: dict[str, Any], value: object
) -> None:
    found, spelt = found_by(value, schema), spellings(schema)

    if not spelt & NEWER:
        assert Draft7Validator(schema).is_valid(value) == (found == ())
    if not spelt & OLDER:
        assert Draft202012Validator(schema).is_valid(value) == (found == ())


ANY_KEYWORD = st.sampled_from(
    [
        *("type", "enum", "const", "minimum", "exclusiveMinimum", "multipleOf", "minLength"),
        *("pattern", "uniqueItems", "required", "properties", "patternProperties", "items"),
        *("additionalProperties", "propertyNames", "prefixItems", "additionalItems", "contains"),
        *("dependencies", "dependentRequired", "dependentSchemas", "allOf", "anyOf", "not"),
        *("if", "then", "else", "$ref", "$defs", "default", "unevaluatedItems"),
    ]
)
ANYTHING = st.recursive(
    SCALARS | TYPES | PATTERNS | st.sampled_from(["#", "#/$defs", "#/items/0", "(", "[a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(ANY_KEYWORD, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(ANY_KEYWORD, ANYTHING, max_size=3), VALUES)
def test_any_json_is_a_schema_or_a_schema_error(schema: dict[str, Any], value: object) -> None:
    with suppress(SchemaError):
        violations(with_defaults(value, schema), schema)


@given(schemas(), VALUES)
def test_every_violation_points_into_the_value_or_beside_it(
    schema: dict[str, Any], value: object
) -> None:
    for violation in found_by(value, schema):
        parent, step = look_up(value, violation.pointer)

        if violation.found == "nothing":
            assert isinstance(parent, dict)
            assert step not in parent
        else:
            assert step is None or step in parent or int(step) < len(parent)


def look_up(value: Any, pointer: str) -> tuple[Any, str | None]:  # noqa: ANN401
    """The container of the value that the pointer names, and the last step to it."""
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    for step in steps[:-1]:
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value, steps[-1] if steps else None


@given(schemas(), VALUES)
def test_filling_in_defaults_twice_is_filling_them_in_once(
    schema: dict[str, Any], value: object
) -> None:
    schema |= schema["allOf"][0] if isinstance(schema["allOf"][0], dict) else {}
    before = deepcopy(value)
    try:
        once = with_defaults(value, schema)
    except SchemaError:
        assume(condition=False)

    assert with_defaults(once, schema) == once
    assert value == before


HOSTILE = [
    '"); raise SystemExit("out"); ("',
    "'''\"\"\"\\",
    "{variable}{0}{name}{{}}{",
    "{data.__class__}",
    "\n    raise SystemExit\n",
    "\r\u2028\x00\x85",
    "\\N{BULLET}\\x41\\u0041\\",
    "\ud800",
    "%s%41#/~0~1",
    "$id",
    "data",
    "__class__",
]


def examples(test: Any) -> Any:  # noqa: ANN401
    for text in HOSTILE:
        test = example(text=text)(test)
    return test


@examples
@given(text=st.text(max_size=12))
def test_no_text_of_a_schema_or_value_is_more_than_text(text: str) -> None:
    exactly = "^" + re.escape(text) + "$"
    place = "#/$defs/" + text.replace("~", "~0").replace("/", "~1").replace("%", "%25")
    schema = {
        "title": text,
        "$id": text,
        "x-" + text: {"$ref": text},
        "type": "object",
        "properties": {text: {"$ref": place, "default": text}},
        "patternProperties": {exactly: {"enum": [text, {text: [text]}]}},
        "additionalProperties": False,
        "required": [text],
        "dependentRequired": {text: [text]},
        "dependentSchemas": {text: {"propertyNames": {"const": text}}},
        "propertyNames": {"pattern": exactly},
        "$defs": {text: {"anyOf": [{"const": text}, {"const": {text: [text]}}]}},
    }
    pointer = "/" + text.replace("~", "~0").replace("/", "~1")

    assert violations({text: text}, schema) == ()
    assert violations({text: {text: [text]}}, schema) == ()
    assert violations({}, schema) == (Violation(pointer, "a value (required)", "nothing"),)
    assert {found.pointer for found in violations({text: text + "x"}, schema)} == {pointer}
    assert {found.pointer for found in violations({text: text, text + "x": 1}, schema)} == {
        pointer + "x"
    }
    assert with_defaults({}, schema) == {text: text}
