"""OpenAPI documents as HTTP tools. Example: ``tests/vectors/imports/openapi.yaml``."""

import json
from pathlib import Path
from typing import Any

import pytest

from ryeos.imports.openapi import read_openapi
from ryeos.imports.plan import ImportPlan, ImportSource, ProposedItem
from ryeos.items.errors import RyeError
from ryeos.items.yaml import parse_yaml
from tests.support.errors import coded

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "imports"


def plan_of(said: object, folder: Path) -> ImportPlan:
    path = folder / "openapi.json"
    path.write_text(said if isinstance(said, str) else json.dumps(said), "utf-8")
    return read_openapi(ImportSource(path=path, project=folder))


def document(operation: object, path: str = "/x", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    said = {
        "openapi": "3.0.3",
        "info": {"title": "A", "version": "1"},
        "servers": [{"url": "https://a.example"}],
        "paths": {path: {"get": operation}},
    }
    return said | more


def only(said: object, folder: Path) -> ProposedItem:
    (item,) = plan_of(said, folder).items
    return item


def values(item: ProposedItem) -> dict[str, Any]:
    assert not item.problems
    return parse_yaml(item.data.decode(), "")


def test_each_operation_of_the_example_is_a_tool() -> None:
    source = ImportSource(path=VECTORS / "openapi.yaml", project=VECTORS)
    items = {str(item.ref): item for item in read_openapi(source).items}
    listed = values(items["tool:api/shop-api/list-items"])
    added = values(items["tool:api/shop-api/add-item"])
    health = values(items["tool:api/shop-api/get-health"])

    assert listed["config"] == {
        "method": "GET",
        "url": "https://eu.shop.example/v1/orders/{orderId}/items",
        "auth": {"type": "api_key", "key": "${API_SHOP_API_SHOPKEY}", "header": "X-Shop-Key"},
        "query": {"page-size": "{page_size}", "sort": "{sort}"},
        "headers": {"X-Trace": "{X_Trace}"},
        "cookies": {"session": "{session}"},
    }
    assert listed["sandbox"]["network"] == ["eu.shop.example:443"]
    assert listed["sandbox"]["env"] == ["API_SHOP_API_SHOPKEY"]
    assert added["config"]["auth"] == {"type": "bearer", "token": "${API_SHOP_API_SHOPTOKEN}"}
    assert added["config_schema"]["required"] == ["orderId", "body"]
    body = added["config_schema"]["properties"]["body"]
    assert body["properties"]["count"] == {"type": ["integer", "null"]}
    assert body["properties"]["parts"] == {"type": "array", "items": {}}
    assert "auth" not in health["config"]


def test_a_schema_of_3_0_may_be_null(tmp_path: Path) -> None:
    parameter = {"name": "a", "in": "query", "schema": {"type": "string", "nullable": True}}

    said = values(only(document({"parameters": [parameter]}), tmp_path))

    assert said["config_schema"]["properties"]["a"] == {"type": ["string", "null"]}


PATHS = [
    ("/${HOME}", {}, "no parameter"),
    ("/$HOME", {}, "expected no"),
    ("/{missing}", {}, "no parameter"),
    ("//evil.example", {}, ""),
    ("x", {}, "begins with /"),
    ("/a", {"servers": [{"url": "/relative"}]}, "expected https://HOST"),
    ("/a", {"servers": [{"url": "https://${HOST}"}]}, "expected no"),
    ("/a", {"servers": [{"url": "https://user:pass@a.example"}]}, "expected https://HOST"),
    ("/a", {"servers": [{"url": "file:///etc/passwd"}]}, "expected https://HOST"),
    ("/a", {"servers": []}, "expected an address"),
]


@pytest.mark.parametrize(("path", "more", "problem"), PATHS)
def test_an_address_is_the_documents_alone(
    path: str, more: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    item = only(document({}, path, **more), tmp_path)

    if problem:
        assert problem in item.problems[0]
    else:
        assert values(item)["config"]["url"].startswith("https://a.example/")


@pytest.mark.parametrize(
    "reference",
    ["other.json#/x", "https://evil.example/x.json", "file:///etc/passwd", "#/nowhere", "#"],
)
def test_references_lead_to_no_other_document(reference: str, tmp_path: Path) -> None:
    parameter = {"name": "a", "in": "query", "schema": {"$ref": reference}}

    item = only(document({"parameters": [parameter]}), tmp_path)

    assert "$ref" in item.problems[0]


def test_circular_references_end(tmp_path: Path) -> None:
    schemas = {"a": {"$ref": "#/components/schemas/b"}, "b": {"$ref": "#/components/schemas/a"}}
    parameter = {"name": "x", "in": "query", "schema": {"$ref": "#/components/schemas/a"}}

    item = only(document({"parameters": [parameter]}, components={"schemas": schemas}), tmp_path)

    assert item.problems or values(item)["config_schema"]["properties"]["x"] == {}


def test_a_schema_that_grows_without_end_is_cut(tmp_path: Path) -> None:
    schemas: dict[str, Any] = {
        f"s{n}": {"anyOf": [{"$ref": f"#/components/schemas/s{n + 1}"}] * 10} for n in range(40)
    } | {"s40": {"type": "string"}}
    parameter = {"name": "x", "in": "query", "schema": {"$ref": "#/components/schemas/s0"}}

    item = only(document({"parameters": [parameter]}, components={"schemas": schemas}), tmp_path)

    assert len(item.data) < 1024 * 1024


@pytest.mark.parametrize(
    ("parameter", "problem"),
    [
        ({"name": "${TOKEN}", "in": "query"}, "expected no"),
        ({"name": "a\r\nb", "in": "header"}, "expected a name"),
        ({"name": "a", "in": "cookie", "required": True}, "is not sent"),
        ({"name": "Authorization", "in": "header", "required": True}, "is not sent"),
    ],
)
def test_parameters_that_cannot_be_sent_are_named(
    parameter: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    assert problem in only(document({"parameters": [parameter]}), tmp_path).problems[0]


def test_no_document_chooses_a_variable_of_another_purpose(tmp_path: Path) -> None:
    said = document(
        {"security": [{"secret_access_key": []}]},
        info={"title": "AWS", "version": "1"},
        components={"securitySchemes": {"secret_access_key": {"type": "http", "scheme": "bearer"}}},
    )

    assert values(only(said, tmp_path))["sandbox"]["env"] == ["API_AWS_SECRET_ACCESS_KEY_TOKEN"]


@pytest.mark.parametrize(
    "text", ["{", "[]", "{}", '{"swagger": "2.0"}', '{"openapi": "4.0"}', "[" * 100_000, "a: [b"]
)
def test_a_document_that_is_no_openapi_is_reported(text: str, tmp_path: Path) -> None:
    with pytest.raises(RyeError, check=coded("IMPORT_UNREADABLE")):
        plan_of(text, tmp_path)


def test_a_body_that_is_no_json_is_refused(tmp_path: Path) -> None:
    operation = {"requestBody": {"required": True, "content": {"multipart/form-data": {}}}}

    assert "expected JSON" in only(document(operation), tmp_path).problems[0]
