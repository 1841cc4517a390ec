"""NUL, halves of surrogate pairs and 10 MB in every text field of every route: never a 5xx.

The fields are those of the OpenAPI document, so that a new route is tried too.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.node import Node, as_body
from tests.support.registry import Registry

pytestmark = pytest.mark.heavy

TEXTS = {"NUL": "a\0b", "surrogate": "a\ud800b", "10 MB": "x" * 10_000_000}
IN_AN_ADDRESS = {"NUL": "a%00b", "surrogate": "a%ED%A0%80b", "long": "x" * 60_000}
MOST_DEPTH, FEWEST_PLACES = 4, 10


def resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema behind its reference, and of several the one that is an object or a list."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rpartition("/")[2]
        return resolved(document["components"]["schemas"][name], document)
    for one in schema.get("anyOf", ()):
        found = resolved(one, document)
        if found.get("type") != "null":
            return found
    return schema


def example(schema: Mapping[str, Any], document: Mapping[str, Any], depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """A value that fits."""
    schema = resolved(schema, document)
    kind = schema.get("type", "string")
    if kind == "object" and depth < MOST_DEPTH:
        fields = schema.get("properties", {})
        return {name: example(one, document, depth + 1) for name, one in fields.items()}
    if kind == "array" and depth < MOST_DEPTH:
        return [example(schema.get("items", {}), document, depth + 1)]
    of_kind = {"integer": 1, "number": 1, "boolean": False, "object": {}, "array": []}
    return of_kind.get(kind, (schema.get("enum") or schema.get("examples") or ["a"])[0])


def with_text_at_each_place(value: Any, text: str) -> Iterator[Any]:  # noqa: ANN401 - JSON
    """The value with the text at the place of one text, or of a name, for each of them."""
    match value:
        case str():
            yield text
        case dict():
            for name, one in value.items():
                for changed in with_text_at_each_place(one, text):
                    yield {**value, name: changed}
            yield {**value, text[:1000]: "a"}
        case list():
            for number, one in enumerate(value):
                for changed in with_text_at_each_place(one, text):
                    yield [*value[:number], changed, *value[number + 1 :]]


def operations(document: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Method, path and description of each route."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


def filled(path: str) -> str:
    """A path with a value for each of its parameters."""
    while "{" in path:
        start, end = path.index("{"), path.index("}")
        path = f"{path[:start]}a{path[end + 1 :]}"
    return path


def bodies(document: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str, Any]]:
    """Every route that takes JSON, with a body that has the text at one place."""
    for method, path, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is not None:
            value = example(content.get("schema", {}), document)
            for body in with_text_at_each_place(value, TEXTS[kind]):
                yield method, filled(path), body


def addresses(document: Mapping[str, Any], kind: str) -> Iterator[tuple[str, str]]:
    """Every route with the text in one parameter of its path or its query."""
    for method, path, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            name = parameter["name"]
            if parameter["in"] == "path":
                yield method, filled(path.replace(f"{{{name}}}", IN_AN_ADDRESS[kind]))
            elif parameter["in"] == "query":
                yield method, f"{filled(path)}?{quote(name)}={IN_AN_ADDRESS[kind]}"


def require_no_server_error(node: Node, own: Mapping[str, str], kind: str) -> None:
    """Send each text to each route, with a key and without."""
    document = node.ask("GET", "/openapi.json").json
    failed, requests = [], 0
    for method, path, body in bodies(document, kind) if kind in TEXTS else ():
        requests += 1
        reply = node.ask(method, path, as_body(body), headers=own, timeout_s=120)
        if reply.status >= 500:
            failed.append((method, path, reply.status, str(body)[:200]))
    for method, path in addresses(document, kind) if kind in IN_AN_ADDRESS else ():
        requests += 1
        replies = [node.ask(method, path, headers=own), node.ask(method, path)]
        failed += [(method, path[:200], one.status, "") for one in replies if one.status >= 500]
    assert failed == []
    assert requests >= FEWEST_PLACES
    assert node.ask("GET", "/ready").status == 200
    assert not [line for line in node.log if "Traceback" in line]


@pytest.mark.parametrize("kind", ["NUL", "surrogate", "10 MB", "long"])
def test_no_text_of_a_request_makes_a_node_fail(node: Node, kind: str) -> None:
    require_no_server_error(node, node.owner.bearer, kind)


@pytest.mark.parametrize("kind", ["NUL", "surrogate", "10 MB", "long"])
def test_no_text_of_a_request_makes_a_registry_fail(registry: Registry, kind: str) -> None:
    require_no_server_error(registry.node, registry.account().bearer, kind)
