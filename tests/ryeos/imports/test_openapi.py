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


def document(
    operation: object,
    path: str = "/x",
    method: str = "get",
    **more: Any,  # noqa: ANN401
) -> dict[str, Any]:
    said = {
        "openapi": "3.0.3",
        "info": {"title": "A", "version": "1"},
        "servers": [{"url": "https://a.example"}],
        "paths": {path: {method: operation}},
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


@pytest.mark.parametrize(
    "kind",
    ["multipart/form-data", "application/octet-stream", "image/*", "text/plain; charset=utf-16"],
)
def test_a_body_that_no_value_can_be_written_as_is_refused(kind: str, tmp_path: Path) -> None:
    operation = {"requestBody": {"required": True, "content": {kind: {}}}}
    problem = only(document(operation, method="post"), tmp_path).problems[0]

    assert problem.endswith(f"or text, found {kind}")


def test_yaml_of_a_document_means_what_yaml_1_2_says(tmp_path: Path) -> None:
    path = tmp_path / "openapi.yaml"
    path.write_text(
        "openapi: 3.1\ninfo: {title: A, version: 1}\nservers: [{url: 'https://a.example'}]\n"
        "paths:\n  /x:\n    get:\n      parameters:\n"
        "      - {name: c, in: query, schema: {enum: [NO, yes, on, 1:30, 0123, 1_0, 0x1F, null]},"
        " example: .inf}\n",
        "utf-8",
    )
    (item,) = read_openapi(ImportSource(path=path, project=tmp_path)).items

    said = values(item)["config_schema"]["properties"]["c"]
    assert said["enum"] == ["NO", "yes", "on", "1:30", 123, "1_0", 31, None]


def test_a_reference_is_a_fragment_of_an_address(tmp_path: Path) -> None:
    said = document({"parameters": [{"$ref": "#/paths/~1y~1%7Bid%7D/parameters/0"}]})
    said["paths"]["/y/{id}"] = {
        "parameters": [{"name": "a b", "in": "query", "schema": {"type": "string"}}]
    }
    item = only(said, tmp_path)

    assert values(item)["config"]["query"] == {"a b": "{a_b}"}


def test_a_path_that_leads_out_of_the_document_is_named_and_the_rest_taken(tmp_path: Path) -> None:
    said = document({})
    said["paths"]["/z"] = {"$ref": "./other.yaml"}
    plan = plan_of(said, tmp_path)

    assert len(plan.items) == 1
    assert "/z: not taken: $ref './other.yaml'" in plan.notes[0]


@pytest.mark.parametrize("name", ["api_key", "X_API.Key~1"])
def test_any_token_is_the_name_of_a_header(name: str, tmp_path: Path) -> None:
    schemes = {"k": {"type": "apiKey", "in": "header", "name": name}}
    said = document({"security": [{"k": []}]}, components={"securitySchemes": schemes})

    assert values(only(said, tmp_path))["config"]["auth"]["header"] == name


SCHEMES = {
    "one": {"type": "apiKey", "in": "header", "name": "X-One"},
    "two": {"type": "apiKey", "in": "header", "name": "X-Two"},
    "session": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "digest": {"type": "http", "scheme": "digest"},
}


def secured(security: object, folder: Path) -> ProposedItem:
    said = document({"security": security}, components={"securitySchemes": SCHEMES})
    return only(said, folder)


def test_all_keys_of_a_requirement_are_sent(tmp_path: Path) -> None:
    config = values(secured([{"one": [], "two": [], "session": []}], tmp_path))["config"]

    assert [one["header"] for one in config["auth"]] == ["X-One", "X-Two"]
    assert config["cookies"] == {"sid": "${API_A_SESSION_KEY}"}


def test_the_first_alternative_that_can_be_sent_is_taken(tmp_path: Path) -> None:
    item = secured([{"digest": []}, {"bearer": []}], tmp_path)

    assert values(item)["config"]["auth"]["type"] == "bearer"
    assert "of its alternatives this is number 2" in item.notes


@pytest.mark.parametrize(
    ("security", "problem"),
    [
        ([{"bearer": [], "basic": []}], "two values in the header 'Authorization'"),
        ([{"digest": []}], "a key by 'digest' is not sent"),
    ],
)
def test_keys_that_cannot_be_sent_are_refused(
    security: object, problem: str, tmp_path: Path
) -> None:
    assert problem in secured(security, tmp_path).problems[0]


def test_members_that_an_answer_alone_has_are_not_asked_for(tmp_path: Path) -> None:
    schemas = {
        "Base": {
            "type": "object",
            "required": ["id", "size"],
            "properties": {"id": {"type": "integer"}, "size": {"type": "integer"}},
        },
        "At": {"type": "string", "readOnly": True},
        "Cage": {
            "allOf": [
                {"$ref": "#/components/schemas/Base"},
                {
                    "required": ["at"],
                    "properties": {
                        "id": {"readOnly": True},
                        "at": {"$ref": "#/components/schemas/At"},
                    },
                },
            ]
        },
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Cage"}}}}
    said = document({"requestBody": body}, method="post", components={"schemas": schemas})
    parts = values(only(said, tmp_path))["config_schema"]["properties"]["body"]["allOf"]

    assert [part["required"] for part in parts] == [["size"], []]


def test_an_address_that_is_given_takes_the_place_of_the_documents(tmp_path: Path) -> None:
    path = tmp_path / "openapi.json"
    found = []
    for servers in ([], [{"url": "/v2"}], [{"url": "https://a.example"}]):
        path.write_text(json.dumps(document({}, servers=servers)), "utf-8")
        source = ImportSource(path=path, project=tmp_path, server="https://b.example/api")
        found.append(values(read_openapi(source).items[0])["config"]["url"])

    assert found == [
        "https://b.example/api/x",
        "https://b.example/v2/x",
        "https://b.example/api/x",
    ]


def test_a_parameter_is_not_taken_for_a_name_that_rye_fills(tmp_path: Path) -> None:
    parameter = {"name": "timeout", "in": "query", "schema": {"type": "integer"}}

    assert values(only(document({"parameters": [parameter]}), tmp_path))["config"]["query"] == {
        "timeout": "{timeout_}"
    }


def test_headers_that_openapi_ignores_are_ignored(tmp_path: Path) -> None:
    parameter = {"name": "Accept", "in": "header", "required": True, "schema": {"type": "string"}}

    assert "headers" not in values(only(document({"parameters": [parameter]}), tmp_path))["config"]


@pytest.mark.parametrize(
    ("place", "style", "explode", "kind"),
    [
        ("query", "pipeDelimited", True, "array"),
        ("query", "deepObject", True, "array"),
        ("query", "matrix", False, "string"),
        ("cookie", "form", True, "array"),
        ("header", "form", False, "array"),
    ],
)
def test_a_parameter_whose_style_says_nothing_exact_is_not_sent(
    place: str, style: str, explode: object, kind: str, tmp_path: Path
) -> None:
    parameter = {"name": "c", "in": place, "style": style, "explode": explode}
    schema = {"schema": {"type": kind}}
    left_out = only(document({"parameters": [parameter | schema]}), tmp_path)
    refused = only(document({"parameters": [parameter | schema | {"required": True}]}), tmp_path)

    assert f"left out: {place} c" in left_out.notes
    assert "or of this style, is not sent" in refused.problems[0]


def test_more_operations_than_can_be_taken_are_counted(tmp_path: Path) -> None:
    said = document({}) | {"paths": {f"/p{n}": {"get": {}} for n in range(2003)}}
    plan = plan_of(said, tmp_path)

    assert (len(plan.items), plan.left_out) == (2000, 3)
