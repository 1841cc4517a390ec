"""Which schemas are refused, and the short way to write one."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import MappingProxyType
from typing import Any

import pytest

from lillux.schema import schema_from_parameter_list, validate_schema, violations
from lillux.schema_keywords import SchemaError


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {}
    for _ in range(levels):
        schema = {"items": schema}
    return schema


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ([], "(root): expected a mapping, found array []"),
        ({1}, '(root): expected a mapping, found set "{1}"'),
        ((1 << 100_000,), "(root): expected a mapping, found array ..."),
        ({"properties": {"a": 3}}, "/properties/a: expected a schema, found integer 3"),
        ({"properties": []}, "/properties: expected a mapping, found array []"),
        (
            {"type": "strng"},
            (
                '/type: expected one of "array", "boolean", "integer", "null", "number", "object", '
                '"string", found string "strng"'
            ),
        ),
        ({"type": []}, "/type: expected a list with at least one member, found array []"),
        (
            {"items": {"type": [[]]}},
            (
                '/items/type/0: expected one of "array", "boolean", "integer", "null", "number", '
                '"object", "string", found array []'
            ),
        ),
        ({"enum": "a"}, '/enum: expected a list, found string "a"'),
        ({"anyOf": []}, "/anyOf: expected a list with at least one member, found array []"),
        ({"allOf": [1]}, "/allOf/0: expected a schema, found integer 1"),
        ({"prefixItems": {}}, "/prefixItems: expected a list, found object {}"),
        (
            {"prefixItems": [{}], "items": [{}]},
            "/items: expected a schema beside prefixItems, found array [{}]",
        ),
        ({"items": [1]}, "/items/0: expected a schema, found integer 1"),
        ({"minimum": True}, "/minimum: expected a number, found boolean true"),
        ({"exclusiveMinimum": True}, "/exclusiveMinimum: expected a number, found boolean true"),
        ({"multipleOf": 0}, "/multipleOf: expected a number above 0, found integer 0"),
        ({"minLength": -1}, "/minLength: expected a whole number of at least 0, found integer -1"),
        ({"maxItems": 1.5}, "/maxItems: expected a whole number of at least 0, found number 1.5"),
        ({"uniqueItems": 1}, "/uniqueItems: expected true or false, found integer 1"),
        ({"pattern": 1}, "/pattern: expected a regular expression, found integer 1"),
        (
            {"pattern": "("},
            (
                '/pattern: "(" is not a regular expression Python can read: '
                "missing ), unterminated subpattern at position 0"
            ),
        ),
        (
            {"patternProperties": {"[a": {}}},
            (
                '/patternProperties/[a: "[a" is not a regular expression Python can read: '
                "unterminated character set at position 0"
            ),
        ),
        (
            {"properties": {"a": {"required": True}}},
            "/properties/a/required: expected a list of names of keys, found boolean true",
        ),
        ({"required": [1]}, "/required/0: expected the name of a key, found integer 1"),
        ({"required": ["a", "a"]}, '/required/1: "a" is named twice'),
        (
            {"required": ["a"], "additionalProperties": False},
            '/required: "a" is required, but additionalProperties forbids it',
        ),
        (
            {"dependentRequired": {"a": "b"}},
            '/dependentRequired/a: expected a list of names of keys, found string "b"',
        ),
        (
            {"dependencies": {"a": [1]}},
            "/dependencies/a/0: expected the name of a key, found integer 1",
        ),
        ({"dependencies": {"a": 1}}, "/dependencies/a: expected a schema, found integer 1"),
        ({"unevaluatedItems": False}, "/unevaluatedItems: this keyword is not supported"),
        ({"minimum": float("nan")}, "/minimum: expected a finite number, found NaN"),
        (
            {"properties": {1: {}}},
            "/properties: expected keys that are text, found one of type int",
        ),
        (
            {"$ref": "other.json"},
            (
                '/$ref: expected a reference inside this schema, like "#/$defs/name", '
                'found string "other.json"'
            ),
        ),
        (
            {"$ref": 1},
            (
                '/$ref: expected a reference inside this schema, like "#/$defs/name", '
                "found integer 1"
            ),
        ),
        ({"$ref": "#/$defs/a"}, '/$ref: expected a schema at "#/$defs/a", found nothing'),
        (
            {"$ref": "#/enum/1", "enum": [1]},
            '/$ref: expected a schema at "#/enum/1", found nothing',
        ),
        (
            {"$ref": "#/enum/0", "enum": [1]},
            '/$ref: expected a schema at "#/enum/0", found integer 1',
        ),
        ({"$ref": "#/a~1b", "a/b": {"type": 1}}, "/a~1b/type: expected one of"),
        ({"$ref": "#"}, "(root): refers to itself without end"),
        (
            {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}},
            "/$defs/b: refers to itself without end",
        ),
    ],
)
def test_a_wrong_schema_is_refused_with_its_place(schema: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError) as error:
        validate_schema(schema)

    assert str(error.value).startswith(f"schema {message}")
    assert (error.value.code, error.value.exit_status) == ("CONFIG_ERROR", 6)


def test_a_schema_nested_too_deeply_is_refused() -> None:
    with pytest.raises(SchemaError) as error:
        validate_schema(nested(100_000))

    assert error.value.problem == "expected at most 128 levels of nesting, found more"


def test_a_schema_of_127_levels_is_compiled() -> None:
    validate_schema(nested(127))


def test_too_many_references_in_a_row_are_refused() -> None:
    hops = {str(n): {"$ref": f"#/$defs/{n + 1}"} for n in range(5_000)}

    with pytest.raises(SchemaError) as error:
        validate_schema({"$ref": "#/$defs/0", "$defs": {**hops, "5000": {}}})

    assert str(error.value) == "schema (root): more references in a row than can be followed"


def test_a_mapping_that_is_no_dict_is_a_schema_too() -> None:
    schema = MappingProxyType({"type": "string"})

    assert len(violations(1, schema)) == 1


def test_the_schema_is_left_as_it_was() -> None:
    schema = {
        "$id": "https://example.test/a/",
        "properties": {"a": {"$ref": "#/$defs/a", "default": {"$ref": "b"}}},
        "$defs": {"a": {"const": {"id": "x"}}},
    }
    before = deepcopy(schema)

    violations({"a": 1}, schema)

    assert schema == before


class _Counting(HTTPServer):
    requests = 0


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, _Counting)
        self.server.requests += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def loopback_server() -> Iterator[_Counting]:
    with _Counting(("127.0.0.1", 0), _Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_no_schema_reaches_the_network() -> None:
    with loopback_server() as server:
        url = f"http://127.0.0.1:{server.server_port}/schema.json"
        referring: list[dict[str, Any]] = [
            {"$ref": url},
            {"$id": url, "properties": {"a": {"$ref": "other.json"}}},
            {"properties": {"a": {"$ref": f"{url}#/$defs/a"}}},
            {"$ref": url.removeprefix("http:")},
        ]
        harmless: list[dict[str, Any]] = [
            {"$schema": url, "$id": url, "items": {"$ref": "#/$defs/a"}, "$defs": {"a": {}}},
            {"const": {"$ref": url}},
            {"enum": [{"$ref": url}], "default": {"$ref": url}, "unknown": {"$ref": url}},
        ]

        for schema in referring:
            with pytest.raises(SchemaError):
                validate_schema(schema)
        for schema in harmless:
            violations({"a": {"$ref": url}}, schema)

    assert server.requests == 0


def test_a_list_of_parameters_becomes_a_schema() -> None:
    parameters = [
        {"name": "path", "type": "string", "required": True, "description": "where"},
        {"name": "depth", "type": "integer", "default": 3, "minimum": 1},
        {"name": "any", "required": False},
    ]

    schema = schema_from_parameter_list(parameters)

    assert schema == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "where"},
            "depth": {"type": "integer", "default": 3, "minimum": 1},
            "any": {},
        },
        "required": ["path"],
    }


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"a": 1}, '(root): expected a list of parameters, found object {"a": 1}'),
        (["a"], '/0: expected a mapping, found string "a"'),
        ([{"type": "string"}], "/0/name: expected the name of a parameter, found null"),
        ([{"name": "a"}, {"name": "a"}], '/1/name: "a" is declared twice'),
        (
            [{"name": "a", "required": "yes"}],
            '/0/required: expected true or false, found string "yes"',
        ),
    ],
)
def test_a_wrong_list_of_parameters_is_refused(parameters: Any, message: str) -> None:  # noqa: ANN401
    with pytest.raises(SchemaError) as error:
        schema_from_parameter_list(parameters)

    assert str(error.value) == f"schema {message}"
