"""Requests of imported operations say exactly what the caller said, or none is sent."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lillux.http.errors import InvalidRequestError
from lillux.http.model import HttpRequest, validate_request
from lillux.templating import Names
from ryeos.imports.openapi import read_openapi
from ryeos.imports.plan import ImportSource, ProposedItem
from ryeos.items.errors import SpecError
from ryeos.items.yaml import parse_yaml
from ryeos.run.http_config import http_plan


class Api:
    """Documents of one operation, imported, and the requests of their tools."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def imported(
        self,
        operation: Mapping[str, Any],
        path: str = "/x",
        method: str = "get",
        server: str = "",
        **more: Any,  # noqa: ANN401
    ) -> ProposedItem:
        said = {
            "openapi": "3.0.3",
            "info": {"title": "A", "version": "1"},
            "servers": [{"url": "https://a.example"}],
            "paths": {path: {method: dict(operation)}},
        }
        file = self.folder / "openapi.json"
        file.write_text(json.dumps(said | more), "utf-8")
        source = ImportSource(path=file, project=self.folder, server=server)
        (item,) = read_openapi(source).items
        return item

    def request(
        self,
        item: ProposedItem,
        given: Mapping[str, object],
        variables: Mapping[str, str] | None = None,
    ) -> HttpRequest:
        assert not item.problems
        tool = parse_yaml(item.data.decode(), "")
        optional = frozenset(tool["config_schema"]["properties"])
        names = Names(variables=variables or {}, opaque=given)
        request = http_plan(tool["config"], names, optional=optional, timeout_s=1).request
        validate_request(request)
        return request

    def parameter(self, value: object, **said: Any) -> HttpRequest:  # noqa: ANN401
        """A request with one parameter ``c`` of any type."""
        path = "/x/{c}" if said.get("in") == "path" else "/x"
        item = self.imported({"parameters": [{"name": "c", **said}]}, path)
        return self.request(item, {"c": value})

    def body(self, value: object, kind: str, **media: Any) -> tuple[str | None, str]:  # noqa: ANN401
        """The media type and the text of a body."""
        operation = {"requestBody": {"required": True, "content": {kind: media}}}
        request = self.request(self.imported(operation, method="post"), {"body": value})
        sent = {name.lower(): one for name, one in request.headers.items()}
        return sent.get("content-type"), (request.body or b"").decode()


@pytest.fixture
def api(tmp_path: Path) -> Api:
    return Api(tmp_path)


# --- bodies


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        ("application/json", "x", '"x"'),
        ("application/json", None, "null"),
        ("application/json", "", '""'),
        ("application/json; charset=utf-8", "ä", '"ä"'),
        ("application/json", "\ud800", '"\\ud800"'),
        ("application/json", 9007199254740993, "9007199254740993"),
        ("application/merge-patch+json", {"a": None}, '{"a": null}'),
        ("application/json-patch+json", [{"op": "remove"}], '[{"op": "remove"}]'),
        ("application/vnd.api+json", {"a": 1}, '{"a": 1}'),
        ('application/vnd.api+json; ext="a b"', True, "true"),
        ("application/x-www-form-urlencoded", {"a": "b&c=d", "n": [1, 2]}, "a=b%26c%3Dd&n=1&n=2"),
        ("text/plain", "a", "a"),
        ("text/csv; charset=utf-8", "ä\r\n", "ä\r\n"),
    ],
)
def test_a_body_has_the_media_type_that_the_document_names(
    kind: str, value: object, written: str, api: Api
) -> None:
    assert api.body(value, kind) == (kind, written)


@pytest.mark.parametrize(
    ("named", "sent", "value"),
    [
        ("*/*", "application/json", "x"),
        ("application/*", "application/json", "x"),
        ("text/*", "text/plain", "x"),
        ("text/plain", "text/plain; charset=utf-8", "ä"),
    ],
)
def test_a_range_and_a_text_beyond_ascii_are_sent_as_a_whole_media_type(
    named: str, sent: str, value: str, api: Api
) -> None:
    assert api.body(value, named)[0] == sent


@pytest.mark.parametrize(
    ("kind", "value", "problem"),
    [
        ("application/x-www-form-urlencoded", ["a"], "body: expected an object for a form"),
        ("application/x-www-form-urlencoded", {"a": {"b": 1}}, "body.a: expected plain values"),
        ("application/x-www-form-urlencoded", {"a": [["b"]]}, "a: expected plain values"),
        ("application/x-www-form-urlencoded", {"a": None}, "a: expected a value, found null"),
        ("application/x-www-form-urlencoded", {"a": []}, "found an empty list"),
        ("text/plain", ["a"], "body: expected a text"),
        ("text/plain; charset=us-ascii", "ä", "body: expected characters of us-ascii"),
    ],
)
def test_a_value_that_a_media_type_has_no_form_for_is_refused(
    kind: str, value: object, problem: str, api: Api
) -> None:
    with pytest.raises(SpecError, match=problem):
        api.body(value, kind)


def test_members_of_a_form_have_the_forms_that_the_document_says(api: Api) -> None:
    encoding = {
        "tags": {"style": "pipeDelimited", "explode": False},
        "where": {"style": "deepObject"},
        "more": {"contentType": "application/json"},
    }
    value = {"tags": ["a", "b"], "where": {"x": 1}, "more": {"y": [2]}}
    _, text = api.body(value, "application/x-www-form-urlencoded", encoding=encoding)

    assert text == "tags=a%7Cb&where%5Bx%5D=1&more=%7B%22y%22%3A%20%5B2%5D%7D"


def test_json_is_taken_of_several_media_types_and_the_choice_is_said(api: Api) -> None:
    content: dict[str, Any] = {"text/plain": {}, "application/xml": {}, "application/hal+json": {}}
    item = api.imported({"requestBody": {"content": content}}, method="post")

    assert "of the types of its body this is application/hal+json" in item.notes
    assert api.request(item, {}).body is None
    assert "Content-Type" not in api.request(item, {}).headers


def test_a_get_has_a_body_where_the_version_of_the_document_lets_it(api: Api) -> None:
    body: dict[str, Any] = {"content": {"application/json": {}}}
    old = api.imported({"requestBody": body})
    required = api.imported({"requestBody": body | {"required": True}})
    new = api.imported({"requestBody": body}, openapi="3.1.0")

    assert "may be left out" in old.notes[0]
    assert "body" not in parse_yaml(old.data.decode(), "")["config_schema"]["properties"]
    assert "expected none in a GET" in required.problems[0]
    assert api.request(new, {"body": {"a": 1}}).body == b'{"a": 1}'


# --- parameters


NO_FORM = [
    ("query", {"style": "pipeDelimited", "explode": False}, ["a|b"]),
    ("query", {"style": "pipeDelimited", "explode": False}, {"a|b": "c"}),
    ("query", {"style": "spaceDelimited", "explode": False}, ["a b"]),
    ("query", {"style": "form"}, []),
    ("query", {"style": "form"}, {}),
    ("query", {"style": "form"}, None),
    ("query", {"style": "form"}, ["a", None]),
    ("query", {"style": "form", "explode": False}, {"a": None}),
    ("query", {"style": "deepObject"}, {"a": {"b": 1}}),
    ("query", {"style": "deepObject"}, {"a][b": 1}),
    ("query", {"style": "deepObject"}, {"": 1}),
    ("path", {}, ""),
    ("path", {}, [""]),
    ("path", {}, None),
    ("path", {}, "."),
    ("path", {}, ".."),
    ("path", {"style": "label", "explode": True}, ["a.b"]),
    ("path", {"style": "label", "explode": True}, {"a": "b.c"}),
    ("path", {"style": "label"}, ""),
    ("path", {"style": "matrix"}, []),
    ("header", {}, ["a,b"]),
    ("header", {}, ["a", ""]),
    ("header", {}, [" a"]),
    ("header", {}, " a"),
    ("header", {}, "a\t"),
    ("header", {"explode": True}, {"a=b": "c"}),
    ("cookie", {"style": "form", "explode": False}, []),
    ("query", {}, "\ud800"),
]


@pytest.mark.parametrize(("place", "said", "value"), NO_FORM)
def test_a_value_without_a_form_of_its_own_is_refused(
    place: str, said: dict[str, Any], value: object, api: Api
) -> None:
    with pytest.raises(SpecError):
        api.parameter(value, **{"in": place, "required": place == "path", **said})


@pytest.mark.parametrize(
    "place_and_style",
    [
        ("query", {"style": "form", "explode": False}),
        ("path", {"style": "simple"}),
        ("path", {"style": "label"}),
        ("path", {"style": "matrix"}),
        ("path", {"style": "matrix", "explode": True}),
        ("cookie", {"style": "form", "explode": False}),
    ],
)
def test_a_delimiter_inside_of_an_element_is_encoded_where_that_tells_them_apart(
    place_and_style: tuple[str, dict[str, Any]], api: Api
) -> None:
    place, style = place_and_style
    sent = []
    for value in (["a,b;c=d"], ["a", "b;c=d"], ["a,b", "c=d"], ["a%2Cb;c=d"]):
        request = api.parameter(value, **{"in": place, "required": True, **style})
        sent.append((request.url, request.headers.get("Cookie")))

    assert len(set(sent)) == len(sent)


@pytest.mark.parametrize(
    ("value", "written"),
    [(True, "true"), (3.0, "3"), (9007199254740993, "9007199254740993"), (1.5, "1.5"), ("", "")],
)
def test_plain_values_are_written_in_a_query_as_json_has_them(
    value: object, written: str, api: Api
) -> None:
    assert api.parameter(value, **{"in": "query"}).url == f"https://a.example/x?c={written}"


@pytest.mark.parametrize("value", ["a\r\nb", "a\0", "€", "\x7f"])
def test_a_header_has_no_value_that_its_bytes_do_not_say(value: str, api: Api) -> None:
    with pytest.raises(InvalidRequestError):
        api.parameter(value, **{"in": "header"})


@pytest.mark.parametrize("value", ["a; b=c", "a,b", 'a"b', "a b", "ä", "a\\b"])
def test_a_parameter_in_a_cookie_is_encoded(value: str, api: Api) -> None:
    cookie = api.parameter(value, **{"in": "cookie", "schema": {"type": "string"}}).headers[
        "Cookie"
    ]

    assert set(cookie.removeprefix("c=")).isdisjoint('; ,"\\')
    assert cookie.isascii()


def test_json_in_a_header_has_only_ascii(api: Api) -> None:
    content: dict[str, Any] = {"application/json": {"schema": {}}}
    headers = api.parameter({"a": "€"}, **{"in": "header", "content": content}).headers

    assert json.loads(headers["c"]) == {"a": "€"}


def test_reserved_characters_stay_where_the_document_allows_them(api: Api) -> None:
    schema = {"schema": {"type": "string"}, "allowReserved": True}
    url = api.parameter("a/b?c:d&e=f+g#h%2F", **{"in": "query", **schema}).url

    assert url == "https://a.example/x?c=a/b?c:d%26e%3Df%2Bg%23h%252F"


def test_members_of_two_objects_are_never_written_alike(api: Api) -> None:
    schema = {"schema": {"type": "object"}}
    item = api.imported(
        {"parameters": [{"name": name, "in": "query", **schema} for name in ("a", "b")]}
    )

    assert api.request(item, {"a": {"x": 1}, "b": {"y": 2}}).url.endswith("?x=1&y=2")
    with pytest.raises(SpecError, match="expected no member 'x'"):
        api.request(item, {"a": {"x": 1}, "b": {"x": 2}})
    with pytest.raises(SpecError, match="expected no member 'b'"):
        api.request(item, {"a": {"b": 1}})


def test_parameters_of_one_name_in_several_places_say_which_they_are(api: Api) -> None:
    schema = {"schema": {"type": "string"}}
    places = ("path", "query", "header", "cookie")
    operation = {
        "parameters": [
            {"name": "id", "in": place, "required": place == "path", **schema} for place in places
        ]
    }
    item = api.imported(operation, "/x/{id}")
    described = parse_yaml(item.data.decode(), "")["config_schema"]["properties"]
    request = api.request(item, {"id": "1", "id_": "2", "id__": "3", "id___": "4"})

    assert [one.get("description") for one in described.values()] == [
        None,
        "(query id)",
        "(header id)",
        "(cookie id)",
    ]
    assert request.url == "https://a.example/x/1?id=2"
    assert request.headers == {"id": "3", "Cookie": "id=4"}


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        ([{"name": "a", "in": "query"}, {"name": "a", "in": "query"}], "expected query 'a' once"),
        ([{"name": "A", "in": "header"}, {"name": "a", "in": "header"}], "header 'a' once"),
        ([{"name": "id", "in": "path", "required": True}], "expected {id} in '/x'"),
        ([{"name": "a b", "in": "cookie"}], "cookie: expected a name"),
        ([{"name": "Transfer-Encoding", "in": "header", "required": True}], "is not sent"),
        ([{"name": "Content-Encoding", "in": "header", "required": True}], "is not sent"),
    ],
)
def test_parameters_that_would_go_nowhere_are_refused(
    listed: list[dict[str, Any]], problem: str, api: Api
) -> None:
    parameters = [{"schema": {"type": "string"}, **one} for one in listed]

    assert problem in api.imported({"parameters": parameters}).problems[0]


# --- addresses


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/a/", "/a/"),
        ("/a%2Fb", "/a%2Fb"),
        ("/a b", "/a%20b"),
        ("/100%", "/100%25"),
        ("/ä", "/%C3%A4"),
    ],
)
def test_a_path_is_sent_as_the_document_writes_it(path: str, sent: str, api: Api) -> None:
    assert api.request(api.imported({}, path), {}).url == f"https://a.example{sent}"


@pytest.mark.parametrize("path", ["/a?b=c", "/a#b", "a"])
def test_a_path_that_is_none_is_refused(path: str, api: Api) -> None:
    assert "path: expected one that begins with /" in api.imported({}, path).problems[0]


@pytest.mark.parametrize(
    ("variable", "problem"),
    [
        ({"default": "us", "enum": ["eu", "ap"]}, "v: expected one of eu, ap, found 'us'"),
        ({"default": "us", "enum": []}, "expected one of none"),
        ({"default": True}, "expected a default of 'v'"),
        ({"enum": ["eu"]}, "expected a default of 'v'"),
    ],
)
def test_a_server_has_the_values_that_its_document_allows(
    variable: dict[str, Any], problem: str, api: Api
) -> None:
    servers = [{"url": "https://{v}.a.example", "variables": {"v": variable}}]

    assert problem in api.imported({}, servers=servers).problems[0]


def test_the_default_of_a_variable_is_no_variable(api: Api) -> None:
    variables = {"v": {"default": "{w}"}, "w": {"default": "evil"}}
    item = api.imported({}, servers=[{"url": "https://{v}.a.example", "variables": variables}])

    assert "expected no '{'" in item.problems[0]


@pytest.mark.parametrize(
    ("url", "given", "sent"),
    [
        ("v2/", "https://b.example", "https://b.example/v2/x"),
        ("../v2", "https://b.example/docs/openapi.json", "https://b.example/v2/x"),
        ("/", "https://b.example/api/", "https://b.example/api/x"),
        ("//c.example/v1", "https://b.example/api", "https://b.example/api/x"),
        ("{scheme}://c.example/v1", "https://b.example/api", "https://b.example/api/x"),
    ],
)
def test_a_relative_address_is_relative_to_the_one_that_is_given(
    url: str, given: str, sent: str, api: Api
) -> None:
    item = api.imported({}, server=given, servers=[{"url": url}])

    assert api.request(item, {}).url == sent


# --- credentials


def secured(api: Api, scheme: dict[str, str], value: str) -> HttpRequest:
    schemes = {"securitySchemes": {"key": scheme}}
    item = api.imported({"security": [{"key": []}]}, components=schemes)
    (variable,) = parse_yaml(item.data.decode(), "")["sandbox"]["env"]
    return api.request(item, {}, {variable: value})


@pytest.mark.parametrize(
    ("scheme", "value"),
    [
        ({"type": "apiKey", "in": "cookie", "name": "s"}, "a;admin=1"),
        ({"type": "apiKey", "in": "cookie", "name": "s"}, "a,b"),
        ({"type": "apiKey", "in": "cookie", "name": "s"}, "a b"),
        ({"type": "apiKey", "in": "cookie", "name": "s"}, 'a"b'),
        ({"type": "apiKey", "in": "header", "name": "X-Key"}, " s3cr3t"),
        ({"type": "apiKey", "in": "query", "name": "key"}, ""),
        ({"type": "http", "scheme": "bearer"}, "a b"),
        ({"type": "http", "scheme": "bearer"}, "ä"),
        ({"type": "http", "scheme": "basic"}, "joe:s3cr3t"),
        ({"type": "http", "scheme": "basic"}, "dXNlcg=="),
    ],
)
def test_a_credential_that_would_be_another_one_is_refused(
    scheme: dict[str, str], value: str, api: Api
) -> None:
    with pytest.raises(SpecError) as raised:
        secured(api, scheme, value)

    assert not value.strip() or value not in str(raised.value)


def test_a_credential_is_sent_as_it_is(api: Api) -> None:
    cookie = secured(api, {"type": "apiKey", "in": "cookie", "name": "s"}, "a=b.c%3B")
    query = secured(api, {"type": "apiKey", "in": "query", "name": "key"}, "a&b c")
    basic = secured(api, {"type": "http", "scheme": "basic"}, "dXNlcjpwYXNz")

    assert cookie.headers["Cookie"] == "s=a=b.c%3B"
    assert query.url.endswith("?key=a%26b%20c")
    assert basic.headers["Authorization"] == "Basic dXNlcjpwYXNz"


def test_an_object_without_a_named_type_is_no_text(api: Api) -> None:
    schema: dict[str, Any] = {"properties": {"a": {"items": {}}}}
    body = {"content": {"application/json": {"schema": schema}}}
    item = api.imported({"requestBody": body}, method="post")

    assert parse_yaml(item.data.decode(), "")["config_schema"]["properties"]["body"] == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {}}},
    }
