"""Texts that a database cannot hold, or not all of, in every field of every route of a node.

SQLite takes NUL, and texts that are longer than their column; PostgreSQL does not. Both have to
refuse the same, and neither may fail.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.databases import KINDS, database_url
from tests.support.hooks import bind
from tests.support.node import Node, Reply, User
from tests.support.registry import Account, Registry, bundle_body, item_text, running_registry
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

NUL, HALF, LONG = "a\0b", "a\ud800b", "x" * 2_000_000
LONG_IN_ADDRESS = "x" * 60_000
CONTENT_ROUTES = ("/objects/put", "/v1/bundle/push")
"""The content of files is no text of the database: what they bring is not looked at as a whole."""

ANSWERED = {(200, "/objects/has"), (200, "/objects/get"), (200, "/threads")}
"""Routes that look up an impossible name: the thing is not found, which is no error."""

SOUND: Mapping[str, Any] = {
    "project_path": "p",
    "item_id": "tool:a/b",
    "item_type": "tool",
    "kind": "tool",
    "version": "1.0.0",
    "name": "some",
    "limit": 1,
    "bundle_id": "shapes",
    "manifest_hash": "1" * 64,
    "visibility": "public",
}
"""What the other fields of a request are, by name, so that as much as may be is looked at."""


@pytest.fixture(scope="module", params=KINDS)
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A node that is a registry as well, on each kind of database."""
    folder = tmp_path_factory.mktemp("texts")
    environ = {"RYE_NODE_DATABASE_URL": database_url(folder, request.param)}
    with running_registry(folder / "node", role="all", environ=environ) as running:
        yield running


@pytest.fixture(scope="module")
def owner(service: Registry) -> User:
    """A user whose key signs, and may do everything."""
    return service.node.user(scopes=("*",), publish_namespaces=("*",))


@pytest.fixture(scope="module")
def account(service: Registry) -> Account:
    """A user who publishes with an API key."""
    return service.account()


# --- every field of every route -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A text that a route takes, and the request that holds another text in its place."""

    method: str
    route: str
    name: str
    is_in_body: bool
    request: Callable[[str], tuple[str, bytes]] = field(repr=False)


def fields_of(document: Mapping[str, Any]) -> Iterator[Field]:
    """The texts of every route in an OpenAPI document."""
    for route, methods in document["paths"].items():
        for method, operation in methods.items():
            verb = method.upper()
            for one in operation.get("parameters", ()):
                name = one["name"]
                if "string" not in types_of(one["schema"]):
                    continue
                make = in_path(route, name) if one["in"] == "path" else in_query(route, name)
                yield Field(verb, route, name, is_in_body=False, request=make)
            body = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if body is None:
                continue
            schema = resolved(body["schema"], document)
            sound = {name: sample(name, one, document) for name, one in required(schema)}
            for name, one in schema["properties"].items():
                for place, make_value in texts_in(one, document, schema.get("$defs", {})):
                    make = in_body(route, sound, name, make_value)
                    yield Field(verb, route, f"{name}{place}", is_in_body=True, request=make)


def filled(route: str, name: str = "", text: str = "") -> str:
    """The path of a route with this text for one of its parameters."""
    for one in [part.split("}")[0] for part in route.split("{")[1:]]:
        bare = one.removesuffix(":path")
        value = quote(text, safe="") if bare == name else SOUND.get(bare, "a")
        route = route.replace("{" + one + "}", value)
    return route


def in_path(route: str, name: str) -> Callable[[str], tuple[str, bytes]]:
    return lambda text: (filled(route, name, text), b"")


def in_query(route: str, name: str) -> Callable[[str], tuple[str, bytes]]:
    return lambda text: (f"{filled(route)}?{name}={quote(text, safe='')}", b"")


def in_body(
    route: str, sound: Mapping[str, Any], name: str, make_value: Callable[[str], object]
) -> Callable[[str], tuple[str, bytes]]:
    def request(text: str) -> tuple[str, bytes]:
        return filled(route), json.dumps({**sound, name: make_value(text)}).encode()

    return request


def resolved(
    schema: Mapping[str, Any], document: Mapping[str, Any], own: Mapping[str, Any] | None = None
) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    name = schema["$ref"].rpartition("/")[2]
    found: Mapping[str, Any] = ((own or {}) | document["components"]["schemas"])[name]
    return found


def required(schema: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(name, schema["properties"][name]) for name in schema.get("required", ())]


def types_of(schema: Mapping[str, Any]) -> set[str]:
    some = schema.get("anyOf", [schema])
    return {str(one.get("type")) for one in some}


def sample(name: str, schema: Mapping[str, Any], document: Mapping[str, Any]) -> object:
    if name in SOUND:
        return SOUND[name]
    samples = {"string": "a", "array": [], "object": {}, "integer": 1, "boolean": False}
    found = resolved(schema, document)
    return samples[next(iter(types_of(found) & samples.keys()))]


def texts_in(
    schema: Mapping[str, Any], document: Mapping[str, Any], own: Mapping[str, Any]
) -> Iterator[tuple[str, Callable[[str], object]]]:
    """The places of texts in a value, and functions that make the value with another text there."""
    for one in schema.get("anyOf", [schema]):
        found = resolved(one, document, own)
        match found.get("type"):
            case "string":
                yield "", str
            case "array":
                for place, make in texts_in(found["items"], document, own):
                    yield f"[0]{place}", within(make, list_of)
            case "object" if "properties" in found:
                for name, inner in found["properties"].items():
                    for place, make in texts_in(inner, document, own):
                        yield f".{name}{place}", within(make, partial(field_of, name))
            case "object":
                yield ".x", partial(field_of, "x")
                yield ".", lambda text: {text: {}}


def within(
    make: Callable[[str], object], outer: Callable[[object], object]
) -> Callable[[str], object]:
    return lambda text: outer(make(text))


def list_of(value: object) -> object:
    return [value]


def field_of(name: str, value: object) -> object:
    return {name: value}


def ask_as(who: object, method: str, target: str, body: bytes) -> Reply | None:
    """The answer; None where the address was so long that nothing was read of it."""
    with suppress(ConnectionError, HTTPException):
        if isinstance(who, Registry):
            return who.ask(method, target, body)
        assert isinstance(who, User | Account)
        return who.ask(method, target, body)
    assert len(target) >= len(LONG_IN_ADDRESS)
    return None


@pytest.mark.heavy
@pytest.mark.parametrize("text", [NUL, HALF], ids=["NUL", "half of a pair"])
def test_a_text_that_no_database_holds_is_refused_by_its_name(
    service: Registry, owner: User, account: Account, text: str
) -> None:
    tried = 0
    for one in fields_of(service.ask("GET", "/openapi.json").json):
        if not one.is_in_body and text is HALF:
            continue  # no address can hold it: bytes that are no UTF-8 are U+FFFD
        target, body = one.request(text)
        for who in (owner, account, service):
            reply = ask_as(who, one.method, target, body)
            assert reply is not None
            assert 400 <= reply.status < 500, (one, reply)
            if one.route not in CONTENT_ROUTES:
                detail = reply.json["detail"]
                named = one.name if one.name[-1] != "." else one.name[:-1]
                assert reply.status == 400, (one, reply)
                assert detail.startswith((f"{named}", "path")), (one, reply)
                assert "expected text" in detail
            tried += 1
    assert tried > 100
    assert errors_of(service.node) == []


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["owner", "account", "nobody"])
def test_a_text_of_two_million_characters_is_no_error_of_the_server(
    service: Registry, owner: User, account: Account, name: str
) -> None:
    who = {"owner": owner, "account": account, "nobody": service}[name]
    tried = 0

    for one in fields_of(service.ask("GET", "/openapi.json").json):
        target, body = one.request(LONG if one.is_in_body else LONG_IN_ADDRESS)
        reply = ask_as(who, one.method, target, body)
        if reply is not None:
            refused = 400 <= reply.status < 500
            assert refused or (reply.status, one.route) in ANSWERED, (one, reply.body[:500])
        tried += 1

    assert tried > 50
    assert errors_of(service.node) == []
    assert service.ask("GET", "/status").status == 200


def errors_of(node: Node) -> list[str]:
    """The error lines of its log."""
    return [line for line in node.log if " ERROR " in line or "Traceback" in line]


# --- other ways in: calls of tools, forms, addresses ----------------------------------------------


@pytest.mark.parametrize("text", [NUL, HALF], ids=["NUL", "half of a pair"])
def test_an_argument_of_a_tool_call_is_refused_in_the_words_of_json_rpc(
    service: Registry, owner: User, text: str
) -> None:
    arguments = {"item_id": "tool:a/b", "project_path": "p", "parameters": {"names": ["a", text]}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
    message = {**call, "params": {"name": "execute", "arguments": arguments}}
    headers = {"Accept": "application/json, text/event-stream"}

    reply = owner.ask("POST", "/mcp", message, headers=headers)

    error = reply.json["error"]
    assert (reply.status, error["code"]) == (400, -32600)
    assert error["message"].startswith("params.arguments.parameters.names[1]: expected text")


@pytest.mark.parametrize("path", ["/page/login", "/page/logout"])
def test_a_form_with_nul_is_refused_by_the_name_of_its_field(service: Registry, path: str) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded"}

    reply = service.node.ask("POST", path, b"key=a&token=a%00b", headers=headers)

    found = "token: expected text without NUL, found one at character 2"
    assert reply.answer == (400, {"detail": found})


@pytest.mark.parametrize(
    "target",
    ["/page/project?path=a%00", "/page/thread?id=%00", "/browse?query=%00", "/browse/item/%00"],
)
def test_an_address_of_a_page_with_nul_is_refused(service: Registry, target: str) -> None:
    assert service.ask("GET", target).status == 400


def test_a_body_in_another_encoding_is_refused(service: Registry, owner: User) -> None:
    body = json.dumps({"item_id": "tool:a/b", "project_path": "p"})

    for encoding in ("utf-16", "utf-16-le", "utf-32"):
        reply = owner.ask("POST", "/execute", body.encode(encoding))

        expected = "body: expected JSON in UTF-8, found a byte that is zero"
        assert reply.answer == (400, {"detail": expected})


def test_a_compressed_body_is_examined_too(service: Registry, owner: User) -> None:
    import gzip

    body = json.dumps({"item_id": "tool:a/b", "project_path": NUL}).encode()
    headers = {**owner.bearer, "Content-Encoding": "gzip"}

    reply = service.node.ask("POST", "/execute", gzip.compress(body), headers=headers)

    found = "project_path: expected text without NUL, found one at character 2"
    assert reply.answer == (400, {"detail": found})


def test_escaped_backslashes_are_no_such_text(owner: User) -> None:
    body = rb'{"item_id": "tool:a/b", "project_path": "p\\u0000\\ud800\ud83d\ude00"}'

    reply = owner.ask("POST", "/execute", body)

    assert (reply.status, reply.json["detail"][:14]) == (404, "no project 'p\\"), reply


def test_a_name_that_is_nested_deep_is_refused_and_not_repeated_whole(owner: User) -> None:
    depth, wide = 400, 20_000
    key = "k" * 50
    inner = "[" + ", ".join(['"x"'] * wide) + r', "\u0000"]'
    body = (f'{{"{key}": ' * depth + inner + "}" * depth).encode()

    reply = owner.ask("POST", "/execute", body)

    assert reply.status == 400
    assert len(reply.json["detail"]) < 400


# --- accepted texts ------------------------------------------------------------------------------


def test_content_of_a_bundle_is_kept_as_it_is(account: Account) -> None:
    files = {".ai/knowledge/odd/raw.txt": "one\0two"}
    body = bundle_body(account.key, account.name, files)

    pushed = account.ask("POST", "/v1/bundle/push", body)
    pulled = account.ask("GET", f"/v1/bundle/pull/{account.name}")

    assert pushed.status == 200, pushed
    assert pulled.json["files"][".ai/knowledge/odd/raw.txt"]["content"] == "one\0two"


def test_words_of_a_header_are_kept_without_nul(account: Account) -> None:
    item_id = f"{account.name}/odd/zero"

    pushed = account.push(item_id, content=item_text("tool", item_id, words=r"a\x00b"))
    shown = account.ask("GET", f"/v1/items/tool/{item_id}").json

    assert pushed.status == 200, pushed
    assert shown["description"] == "a\ufffdb"


def test_a_header_with_half_of_a_pair_is_not_published(account: Account) -> None:
    item_id = f"{account.name}/odd/half"

    pushed = account.push(item_id, content=item_text("tool", item_id, words=r"a\ud800b"))

    assert pushed.status == 400
    assert pushed.json["detail"]["code"] == "VALIDATION_FAILED"


def test_a_header_with_a_million_words_is_published_and_found(account: Account) -> None:
    item_id = f"{account.name}/odd/long"
    words = "zebra " + " ".join(f"w{number:x}" for number in range(130_000))

    pushed = account.push(item_id, content=item_text("tool", item_id, words=words))
    found = account.ask("GET", f"/v1/search?query=zebra&namespace={account.name}").json

    assert pushed.status == 200, pushed
    assert [one["item_id"] for one in found["results"]] == [item_id]


def test_a_project_whose_name_is_too_long_for_an_index_is_refused(owner: User) -> None:
    body = {"project_path": os.urandom(700).hex()[:1024].translate(WIDE), "item_id": "tool:a/b"}

    pushed = owner.ask("POST", "/push", {**body, "project_manifest_hash": "1" * 64})
    executed = owner.ask("POST", "/execute", body)

    assert pushed.status == 422
    assert executed.status == 400
    assert "expected at most 2048 bytes in UTF-8, found 4096" in executed.json["detail"]


WIDE = {ord(digit): 0x1F600 + number for number, digit in enumerate("0123456789abcdef")}


SAY = """def execute(params, project_path):
    return {"success": False, "error": "a\\0b" + chr(0xD800) + "c"}
"""
RAISE = """def execute(params, project_path):
    raise ValueError("a\\0b" + chr(0xDFFF) + "c")
"""
FUNCTION = "rye/core/runtimes/python/function"


@pytest.fixture
def project(service: Registry, workspace: Workspace) -> RemoteProject:
    for name, source in (("say", SAY), ("raise", RAISE)):
        workspace.project.signed_tool(name, source, executor=FUNCTION)
    return RemoteProject(workspace, service.node.user()).pushed()


@pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")
@pytest.mark.heavy
@pytest.mark.parametrize("tool", ["say", "raise"])
def test_the_error_of_a_tool_is_in_its_row(project: RemoteProject, tool: str) -> None:
    answer = project.ask(f"tool:{tool}").json

    row = project.thread(answer["thread_id"])
    assert row["state"] == "error"
    assert "a\ufffdb" in row["error_message"]
    assert errors_of(project.user.node) == []


@pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")
@pytest.mark.heavy
@pytest.mark.parametrize("text", [NUL, HALF], ids=["NUL", "half of a pair"])
def test_a_delivery_with_such_a_text_starts_no_run(project: RemoteProject, text: str) -> None:
    hook = bind(project.user, "tool:say", project.name)

    refused = hook.deliver(delivery_id="d-1", parameters={"ref": text})
    sound = hook.deliver(delivery_id="d-1", parameters={"ref": "main"})

    assert refused.status == 400
    assert refused.json["detail"].startswith("parameters.ref: expected text")
    assert sound.json["thread_id"]
    assert len(project.user.ask("GET", "/threads").json["threads"]) == 1
