"""Reports on values that violate a schema."""

from typing import Any

import pytest

from lillux.schema import SchemaValidator, ValidationResult, Violation, violations


def lines(value: object, schema: dict[str, Any]) -> list[str]:
    return [str(violation) for violation in violations(value, schema)]


CAT_OR_DOG = {
    "oneOf": [{"$ref": "#/$defs/cat"}, {"$ref": "#/$defs/dog"}],
    "$defs": {
        "cat": {"type": "object", "properties": {"is": {"const": "cat"}}, "required": ["is"]},
        "dog": {"type": "object", "properties": {"is": {"const": "dog"}}, "required": ["is"]},
    },
}


@pytest.mark.parametrize(
    ("schema", "value", "line"),
    [
        ({"type": "integer"}, "x", 'expected integer, found string "x"'),
        ({"type": "integer"}, True, "expected integer, found boolean true"),
        ({"type": "integer"}, 3.5, "expected integer, found number 3.5"),
        ({"type": ["string", "null"]}, [1], "expected string or null, found array [1]"),
        ({"type": "string"}, None, "expected string, found null"),
        ({"enum": ["a", 2]}, "b", 'expected one of "a", 2, found string "b"'),
        ({"const": {"a": 1}}, {}, 'expected {"a": 1}, found object {}'),
        ({"minimum": 1}, 0, "expected at least 1, found integer 0"),
        ({"maximum": 1.5}, 2, "expected at most 1.5, found integer 2"),
        ({"exclusiveMinimum": 1}, 1, "expected more than 1, found integer 1"),
        ({"exclusiveMaximum": 1}, 1, "expected less than 1, found integer 1"),
        ({"multipleOf": 0.5}, 0.7, "expected a multiple of 0.5, found number 0.7"),
        (
            {"minLength": 2},
            "x",
            'expected at least 2 characters, found string "x" (1 character)',
        ),
        (
            {"maxLength": 1},
            "xyz",
            'expected at most 1 character, found string "xyz" (3 characters)',
        ),
        ({"pattern": "^a"}, "ba", 'expected text matching "^a", found string "ba"'),
        ({"minItems": 1}, [], "expected at least 1 item, found 0 items"),
        ({"maxItems": 1}, [1, 2], "expected at most 1 item, found 2 items"),
        ({"minProperties": 1}, {}, "expected at least 1 key, found 0 keys"),
        ({"maxProperties": 0}, {"a": 1}, "expected at most 0 keys, found 1 key"),
        ({"uniqueItems": True}, [1, 1], "expected no item twice, found array [1, 1]"),
        (
            {"contains": {"type": "string", "minLength": 1}},
            [1],
            "expected at least one item that is string (at least 1 character), found array [1]",
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "null"}]},
            3,
            "expected string or null, found integer 3",
        ),
        (
            {"oneOf": [{"multipleOf": 3}, {"multipleOf": 5}]},
            15,
            (
                "expected exactly one of these: a multiple of 3 or a multiple of 5, "
                "found integer 15, which fits 2 of them"
            ),
        ),
        (
            CAT_OR_DOG,
            {"is": "cow"},
            (
                'expected exactly one of these: object (with "is": "cat") or '
                'object (with "is": "dog"), found object {"is": "cow"}'
            ),
        ),
        (
            {"anyOf": [{"const": n} for n in range(20)]},
            99,
            (
                "expected 0 or 1 or 2 or 3 or 4 or 5 or 6 or 7 or 8 or 9 or 10 or 11 or 8 more, "
                "found integer 99"
            ),
        ),
        (
            {"anyOf": [{"anyOf": [{"anyOf": [{"anyOf": [{"type": "null"}]}]}]}]},
            1,
            'expected {"type": "null"}, found integer 1',
        ),
        ({"not": {"type": "null"}}, None, "expected anything but null, found null"),
        ({"not": {}}, 1, "expected anything but {}, found integer 1"),
        ({"allOf": [False]}, 1, "expected nothing, found integer 1"),
    ],
)
def test_each_rule_has_a_message(schema: dict[str, Any], value: object, line: str) -> None:
    assert lines(value, schema) == [f"(root): {line}"]


def test_all_violations_come_in_the_order_of_the_value() -> None:
    schema = {
        "type": "object",
        "properties": {
            "age": {"type": "integer", "minimum": 0},
            "name": {"type": "string"},
            "tags": {"items": {"type": "string", "pattern": "^[a-z]+$"}},
        },
        "required": ["name", "mode"],
        "additionalProperties": {"type": "null"},
    }
    value = {"tags": ["ok", "NO", 3], "more": 1, "age": -1}

    assert lines(value, schema) == [
        "/name: expected string (required), found nothing",
        "/mode: expected a value (required), found nothing",
        '/tags/1: expected text matching "^[a-z]+$", found string "NO"',
        "/tags/2: expected string, found integer 3",
        "/more: expected null, found integer 1",
        "/age: expected at least 0, found integer -1",
    ]


def test_an_unknown_key_is_refused_with_the_name_it_may_have_meant() -> None:
    schema = {"properties": {"name": {}, "count": {}}, "additionalProperties": False}

    assert lines({"nmae": "x", "zzz": 1}, schema) == [
        '/nmae: expected no such key (did you mean "name"?), found string "x"',
        '/zzz: expected no such key (known: "count", "name"), found integer 1',
    ]


def test_a_text_that_is_like_an_allowed_one_is_refused_with_that() -> None:
    schema = {"enum": ["search", "status", 3]}
    expected = '(root): expected one of "search", "status", 3'

    assert lines("serch", schema) == [f'{expected} (did you mean "search"?), found string "serch"']
    assert lines("zzz", schema) == [f'{expected}, found string "zzz"']


def test_a_key_whose_value_may_be_nothing_is_not_called_unknown() -> None:
    schema = {"additionalProperties": {"$ref": "#/$defs/none"}, "$defs": {"none": False}}

    assert lines({"a": 1}, schema) == ["/a: expected nothing, found integer 1"]


def test_an_unknown_key_is_refused_where_no_keys_are_allowed() -> None:
    assert lines({"a": 1}, {"additionalProperties": False}) == [
        "/a: expected no such key, found integer 1"
    ]


def test_pattern_properties_are_searched_anywhere_in_the_key() -> None:
    schema = {
        "patternProperties": {"_id$": {"type": "integer"}, "user": {"type": "string"}},
        "additionalProperties": {"type": "boolean"},
    }

    assert lines({"a_id": "x", "the_user_1": 1, "rest": 2, "a_id\n": True}, schema) == [
        '/a_id: expected integer, found string "x"',
        "/the_user_1: expected string, found integer 1",
        "/rest: expected boolean, found integer 2",
    ]


def test_key_names_are_judged_as_values() -> None:
    schema = {"propertyNames": {"maxLength": 2, "pattern": "^a"}}

    assert lines({"ab": 1, "abc": 2, "b": 3}, schema) == [
        '/abc: expected as key name at most 2 characters, found string "abc" (3 characters)',
        '/b: expected as key name text matching "^a", found string "b"',
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        {"items": [{"type": "string"}], "additionalItems": {"type": "integer"}},
    ],
)
def test_tuples_are_judged_in_both_spellings(schema: dict[str, Any]) -> None:
    assert lines(["a", 1], schema) == []
    assert lines([1, "a"], schema) == [
        "/0: expected string, found integer 1",
        '/1: expected integer, found string "a"',
    ]


def test_items_after_a_closed_tuple_are_refused() -> None:
    assert lines(["a", 1], {"prefixItems": [{}], "items": False}) == [
        "/1: expected nothing, found integer 1"
    ]


@pytest.mark.parametrize(
    "schema",
    [
        {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"a": {"maxProperties": 1}}},
        {"dependencies": {"a": ["b"]}, "allOf": [{"dependencies": {"a": {"maxProperties": 1}}}]},
    ],
)
def test_dependencies_are_judged_in_both_spellings(schema: dict[str, Any]) -> None:
    assert lines({"b": 1, "c": 2}, schema) == []
    assert set(lines({"a": 1, "c": 2}, schema)) == {
        '/b: expected a value (required by "a"), found nothing',
        "(root): expected at most 1 key, found 2 keys",
    }


def test_a_condition_chooses_the_schema() -> None:
    schema = {
        "if": {"required": ["a"]},
        "then": {"properties": {"a": {"type": "string"}}},
        "else": {"required": ["b"]},
    }

    assert lines({"a": 1}, schema) == ["/a: expected string, found integer 1"]
    assert lines({}, schema) == ["/b: expected a value (required), found nothing"]
    assert lines({"b": 1}, schema) == []


def test_references_may_be_recursive_and_keywords_beside_them_count() -> None:
    schema = {
        "$ref": "#/definitions/tree",
        "required": ["root"],
        "definitions": {
            "tree": {
                "properties": {
                    "value": {"type": "integer"},
                    "children": {"items": {"$ref": "#/definitions/tree"}},
                }
            }
        },
    }

    assert lines({"children": [{"value": 1}, {"children": [{"value": "x"}]}]}, schema) == [
        "/root: expected a value (required), found nothing",
        '/children/1/children/0/value: expected integer, found string "x"',
    ]


def test_the_same_violation_found_in_two_ways_is_reported_once() -> None:
    schema = {"allOf": [{"type": "string"}, {"type": "string"}]}

    assert lines(1, schema) == ["(root): expected string, found integer 1"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({}, {"anything": [1, None]}),
        ({"type": "integer"}, 3.0),
        ({"type": "number"}, 3),
        ({"pattern": "b"}, "abc"),
        ({"pattern": "^a$"}, 3),
        ({"format": "email"}, "not one"),
        ({"contentEncoding": "base64", "contentMediaType": "application/json"}, "{"),
        ({"enum": [1]}, 1.0),
        ({"properties": {"a": {"default": 1}}}, {}),
        ({"required": ["a"], "additionalProperties": {"title": "anything"}}, {"a": 1}),
        ({"const": {"$id": "//a/b", "x": {"$ref": "c"}}}, {"$id": "//a/b", "x": {"$ref": "c"}}),
    ],
)
def test_a_value_that_fits_has_no_violations(schema: dict[str, Any], value: object) -> None:
    assert violations(value, schema) == ()


@pytest.mark.parametrize(
    ("pattern", "fits", "breaks"),
    [
        ("^a$", "a", "a\n"),
        ("^[$]$", "$", "Z"),
        (r"^\$$", "$", ""),
        (r"^\\$", "\\", "\\$"),
        ("^[]$]$", "]", ""),
        ("^[[&&||~~]$", "[", "a"),
    ],
)
def test_a_dollar_in_a_pattern_is_the_very_end_or_a_character(
    pattern: str, fits: str, breaks: str
) -> None:
    as_value, as_key = {"pattern": pattern}, {"patternProperties": {pattern: False}}

    assert violations(fits, as_value) == ()
    assert violations(breaks, as_value) != ()
    assert violations({fits: 1}, as_key) != ()
    assert violations({breaks: 1}, as_key) == ()


def test_references_that_differ_in_case_or_punctuation_only_are_kept_apart() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/a-b"}, "b": {"$ref": "#/$defs/A_B"}},
        "$defs": {"a-b": {"type": "string"}, "A_B": {"type": "integer"}},
    }

    assert lines({"a": "x", "b": 1}, schema) == []
    assert lines({"a": 1, "b": "x"}, schema) == [
        "/a: expected string, found integer 1",
        '/b: expected integer, found string "x"',
    ]


def test_a_violation_points_to_its_place_for_any_keys() -> None:
    found = violations({"a/b~": {"": 1}}, {"properties": {"a/b~": {"properties": {"": False}}}})

    assert found == (Violation("/a~1b~0/", "nothing", "integer 1"),)


@pytest.mark.parametrize(
    ("value", "divisor"), [(0.3, 0.1), (19.01, 0.01), (7, 3.5), (1e300, 10), (0, 0.3)]
)
def test_a_multiple_is_one_of_the_numbers_as_they_are_written(value: float, divisor: float) -> None:
    assert violations(value, {"multipleOf": divisor}) == ()


@pytest.mark.parametrize(
    ("value", "divisor"), [(0.35, 0.1), (1e300, 7), (1e28, 0.3), (2**64 + 1, 2), (5e-324, 1)]
)
def test_what_is_no_multiple_is_none_at_any_size(value: float, divisor: float) -> None:
    assert violations(value, {"multipleOf": divisor}) != ()


@pytest.mark.parametrize("allowed", [1, 1.0, [1, {"a": 1}], {"a": [1.0]}])
def test_numbers_are_equal_however_written_and_true_is_none(allowed: object) -> None:
    def with_ones(value: object, one: object) -> object:
        if isinstance(value, dict):
            return {key: with_ones(child, one) for key, child in value.items()}
        return [with_ones(child, one) for child in value] if isinstance(value, list) else one

    yes = True
    for schema in ({"const": allowed}, {"enum": ["x", allowed]}):
        assert violations(with_ones(allowed, 1), schema) == ()
        assert violations(with_ones(allowed, 1.0), schema) == ()
        assert violations(with_ones(allowed, yes), schema) != ()
    unique = {"uniqueItems": True}
    assert violations([with_ones(allowed, 1), with_ones(allowed, 1.0)], unique) != ()
    assert violations([with_ones(allowed, 1), with_ones(allowed, yes)], unique) == ()


def test_the_validator_gives_its_verdict_in_lines() -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "required": ["b"]}

    bad = SchemaValidator().validate_parameters({"a": "x"}, schema)
    good = SchemaValidator().validate_parameters({"b": 1}, schema)

    assert good == ValidationResult(valid=True, errors=())
    assert bad == ValidationResult(
        valid=False,
        errors=(
            "/b: expected a value (required), found nothing",
            '/a: expected integer, found string "x"',
        ),
    )
