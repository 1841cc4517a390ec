"""The OpenAPI document: authentication, refusals, and that real answers match it."""

import os
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from tests.support.node import Node, Reply, User
from tests.support.registry import Registry, bundle_body, item_text, signed_item
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

Way = dict[str, list[str]]
BEARER: Way = {"bearer": []}
SIGNED: Way = {"X-Rye-Key-Id": [], "X-Rye-Timestamp": [], "X-Rye-Nonce": [], "X-Rye-Signature": []}
HOOK: Way = {"X-Webhook-Timestamp": [], "X-Webhook-Signature": [], "X-Webhook-Delivery-Id": []}
OPEN = {
    "/sign-in/device",
    "/sign-in/device/poll",
    "/live",
    "/ready",
    "/health",
    "/status",
    "/public-key",
}
HIDDEN = {"visibility": "unlisted"}
ITEM, STORE = "tool:echo", {"hashes": ["0" * 64]}


@pytest.fixture
def document(shared_node: Node) -> dict[str, Any]:
    return dict(shared_node.ask("GET", "/openapi.json").json)


@pytest.fixture
def registry_document(shared_registry: Registry) -> dict[str, Any]:
    return dict(shared_registry.ask("GET", "/openapi.json").json)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_each_route_declares_its_authentication_and_scopes(
    document: dict[str, Any],
) -> None:
    paths = document["paths"]

    assert paths["/push"]["post"]["security"] == [BEARER, SIGNED]
    assert paths["/push"]["post"]["x-rye-scopes"] == ["remote:push"]
    assert paths["/execute"]["post"]["security"] == [BEARER, SIGNED, HOOK]
    assert paths["/metrics"]["get"]["x-rye-scopes"] == ["node.metrics"]
    assert {path for path in paths if "security" not in next(iter(paths[path].values()))} == OPEN
    schemes = document["components"]["securitySchemes"]
    assert set(schemes) == {"bearer", *SIGNED, *HOOK}
    assert schemes["bearer"]["type"] == "http"


def test_public_search_accepts_a_key(registry_document: dict[str, Any]) -> None:
    search = registry_document["paths"]["/v1/search"]["get"]

    assert search["security"] == [{}, BEARER, SIGNED]


@pytest.mark.parametrize("which", ["document", "registry_document"])
def test_every_authenticated_route_describes_its_refusals(
    which: str, request: pytest.FixtureRequest
) -> None:
    described = request.getfixturevalue(which)
    secured = {name: one for name, one in operations(described) if "security" in one}

    for name, operation in secured.items():
        missing = {"401", "403", "400", "413", "507"} - set(operation["responses"])
        assert (name, missing) == (name, set())
        assert operation["responses"]["401"]["content"]["application/json"]["schema"] == {
            "$ref": "#/components/schemas/Refusal"
        }
    assert len(secured) > 20


@pytest.mark.parametrize("which", ["document", "registry_document"])
def test_every_reference_of_the_document_resolves(
    which: str, request: pytest.FixtureRequest
) -> None:
    described = request.getfixturevalue(which)

    def references(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for child in value.values():
                yield from references(child)
        elif isinstance(value, list):
            for child in value:
                yield from references(child)

    for reference in set(references(described)):
        found: Any = described
        for part in reference.removeprefix("#/").split("/"):
            assert part in found, reference
            found = found[part]


# --- real answers ---------------------------------------------------------------------------------


def fit(document: dict[str, Any], method: str, path: str, reply: Reply) -> None:
    """Fail the test unless the document has such an answer of a route."""
    responses = document["paths"][path][method.lower()]["responses"]
    assert str(reply.status) in responses, (path, reply.status, reply.body)
    schema = responses[str(reply.status)]["content"]["application/json"]["schema"]
    whole = {**schema, "components": document["components"]}
    jsonschema.Draft202012Validator(whole).validate(reply.json)


@pytest.mark.skipif(os.name == "nt", reason="the tools of this test are for POSIX")
def test_answers_about_projects_match_the_description(
    shared_node: Node, workspace: Workspace, document: dict[str, Any]
) -> None:
    project = RemoteProject.with_tools(workspace, shared_node.user())
    user, name = project.user, project.name
    thread_id = project.execute(ITEM)["thread_id"]
    has = user.ask("GET", "/user-space").json
    push = {"project_path": name, "project_manifest_hash": project.tree().manifest_hash}
    space = {"user_manifest_hash": has["user_manifest_hash"], "expected_revision": has["revision"]}
    item = {"item_id": ITEM, "project_path": name}

    for method, path, target, body in (
        ("POST", "/objects/has", "", STORE),
        ("POST", "/objects/get", "", STORE),
        ("POST", "/objects/put", "", {"entries": []}),
        ("POST", "/push", "", {**push, "expected_snapshot_hash": project.head}),
        ("POST", "/push", "", push),  # 409
        ("POST", "/push/user-space", "", space),
        ("GET", "/user-space", "", None),
        ("GET", "/history", f"/history?project_path={name}", None),
        ("GET", "/history", "/history?project_path=other", None),  # 404
        ("GET", "/history", "/history", None),  # 422
        ("POST", "/execute", "", item),
        ("POST", "/execute", "", {**item, "async": True}),
        ("POST", "/execute", "", {**item, "item_id": "tool:none"}),
        ("POST", "/execute", "", {}),  # 400
        ("POST", "/fetch", "", item),
        ("POST", "/sign", "", item),
        ("GET", "/threads", "", None),
        ("POST", "/threads/{thread_id}/cancel", f"/threads/{thread_id}/cancel", None),
        ("POST", "/threads/{thread_id}/answer", f"/threads/{thread_id}/answer", None),  # 404
        ("GET", "/threads/{thread_id}/log", f"/threads/{thread_id}/log", None),
        ("GET", "/threads/{thread_id}", f"/threads/{thread_id}", None),
    ):
        fit(document, method, path, user.ask(method, target or path, body))


def test_answers_about_keys_secrets_and_hooks_match_the_description(
    shared_node: Node, document: dict[str, Any]
) -> None:
    owner: User = shared_node.user(scopes=("*",))
    public = shared_node.user().keypair.public_pem
    from ryeos.remote.identity import encode_public_key

    key = {"public_key": encode_public_key(public), "scopes": ["remote:push"]}
    hook = {"item_id": ITEM, "project_path": "p"}
    made = owner.ask("POST", "/webhook-bindings", hook)
    fit(document, "POST", "/webhook-bindings", made)
    authorized = owner.ask("POST", "/admin/authorized-keys", key)
    fit(document, "POST", "/admin/authorized-keys", authorized)

    keys, hooks = "/admin/authorized-keys", "/webhook-bindings"
    for method, path, target, body in (
        ("GET", keys, "", None),
        ("DELETE", f"{keys}/{{fingerprint}}", f"{keys}/{authorized.json['fingerprint']}", None),
        ("POST", "/gc", "/gc?dry_run=true", None),
        ("POST", "/secrets", "", {"secrets": [{"name": "A", "value": "b"}]}),
        ("GET", "/secrets", "", None),
        ("GET", "/vault/list", "", None),
        ("POST", "/vault/delete", "", {"name": "A"}),
        ("DELETE", "/secrets/{name}", "/secrets/A", None),  # 404
        ("GET", hooks, "", None),
        ("DELETE", f"{hooks}/{{hook_id}}", f"{hooks}/{made.json['hook_id']}", None),
        ("GET", "/public-key", "", None),
        ("GET", "/status", "", None),
        ("GET", "/live", "", None),
        ("GET", "/ready", "", None),
        ("GET", "/health", "", None),
    ):
        fit(document, method, path, owner.ask(method, target or path, body))


def test_answers_about_items_and_bundles_match_the_description(
    shared_registry: Registry, registry_document: dict[str, Any]
) -> None:
    account = shared_registry.account(with_key=True)
    item, bundle = f"{account.name}/tools/hello", f"{account.name}-kit"
    files = {".ai/tools/hello.py": item_text("tool", "hello")}
    body_of_bundle = bundle_body(account.key, bundle, files)
    for _ in range(2):  # the second one is skipped
        pushed = (
            ("/v1/push", account.push(item, content=signed_item(account.key, item))),
            ("/v1/bundle/push", account.ask("POST", "/v1/bundle/push", body_of_bundle)),
        )
        for path, reply in pushed:
            assert reply.status == 200, reply.body
            fit(registry_document, "POST", path, reply)

    of_item, of_bundle, statuses = "{item_type}/{item_id}", "{bundle_id}", []
    for method, path, target, body in (
        ("GET", f"/v1/pull/{of_item}", f"/v1/pull/tool/{item}", None),
        ("GET", f"/v1/items/{of_item}", f"/v1/items/tool/{item}", None),
        ("GET", f"/v1/items/{of_item}", f"/v1/items/tool/{item}-not", None),  # 404
        ("GET", "/v1/search", "/v1/search?query=hello", None),
        ("POST", f"/v1/visibility/{of_item}", f"/v1/visibility/tool/{item}", HIDDEN),
        ("DELETE", f"/v1/delete/{of_item}", f"/v1/delete/tool/{item}", None),
        ("GET", f"/v1/bundle/pull/{of_bundle}", f"/v1/bundle/pull/{bundle}", None),
        ("GET", "/v1/bundle/pull", f"/v1/bundle/pull?bundle_id={bundle}", None),
        ("GET", f"/v1/bundle/info/{of_bundle}", f"/v1/bundle/info/{bundle}", None),
        ("GET", "/v1/bundle/search", "/v1/bundle/search", None),
        ("POST", f"/v1/bundle/{of_bundle}/visibility", f"/v1/bundle/{bundle}/visibility", HIDDEN),
        ("DELETE", f"/v1/bundle/{of_bundle}", f"/v1/bundle/{bundle}", None),
    ):
        reply = account.ask(method, target, body)
        statuses.append(reply.status)
        fit(registry_document, method, path, reply)

    assert statuses == [200, 200, 404, *[200] * 9]


def test_answers_about_accounts_match_the_description(
    shared_registry: Registry, registry_document: dict[str, Any]
) -> None:
    account = shared_registry.account(with_key=True)
    fingerprint, statuses = account.key.fingerprint, []
    keys, signing = "/v1/api-keys", "/v1/signing-keys"

    for method, path, target, body in (
        ("POST", keys, keys, {"name": "second"}),
        ("POST", keys, keys, {"name": "second"}),  # 409
        ("GET", keys, keys, None),
        ("DELETE", f"{keys}/{{name}}", f"{keys}/second", None),
        ("GET", signing, signing, None),
        ("DELETE", f"{signing}/{{fingerprint}}", f"{signing}/{fingerprint}", None),
        ("GET", "/v1/account", "/v1/account", None),
        ("POST", "/v1/namespaces", "/v1/namespaces", {"name": f"{account.name}-more"}),
        ("POST", "/v1/namespaces", "/v1/namespaces", {"name": f"{account.name}-more"}),
        ("GET", "/v1/namespaces", "/v1/namespaces", None),
        ("GET", "/registry/search", "/registry/search", None),
        ("GET", "/v1/health", "/v1/health", None),
    ):
        reply = account.ask(method, target, body)
        statuses.append(reply.status)
        fit(registry_document, method, path, reply)

    assert statuses == [200, 409, *[200] * 10]


def test_every_route_of_a_registry_describes_its_answer(
    registry_document: dict[str, Any],
) -> None:
    silent = [
        name
        for name, operation in operations(registry_document)
        if not any(schema_of(content) for content in contents_of(operation))
    ]

    # An identity document is as its owner signed it.
    assert sorted(silent) == ["GET /public-key", "GET /registry/identity/{fingerprint}"]


def contents_of(operation: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    return list(operation["responses"]["200"].get("content", {}).items())


def schema_of(content: tuple[str, dict[str, Any]]) -> bool:
    media_type, described = content
    schema = described.get("schema", {})
    return media_type != "application/json" or "$ref" in schema
