"""Simultaneous equal publications: both databases answer them as if they came in turn."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from lillux.sealing import generate_box_pair
from ryeos.remote.identity import identity_document
from tests.support.databases import KINDS, database_url
from tests.support.node import Reply
from tests.support.races import MANY, at_once
from tests.support.registry import Account, Registry, bundle_body, item_text, running_registry
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytestmark = pytest.mark.heavy

FILES = {".ai/knowledge/shapes/draw/about.md": item_text("knowledge", "shapes/draw/about")}
ROUNDS = 5
"""Of each race: one alone may be run by chance as one after the other."""


@pytest.fixture(scope="module", params=KINDS)
def registry(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Registry]:
    """A node that is a registry as well, on each kind of database."""
    folder = tmp_path_factory.mktemp("races")
    environ = {"RYE_NODE_DATABASE_URL": database_url(folder, request.param)}
    with running_registry(folder / "node", role="all", environ=environ) as running:
        yield running


def statuses(replies: list[Reply]) -> list[int]:
    return sorted(reply.status for reply in replies)


def new(replies: list[Reply]) -> int:
    """The number of replies that report a new publication."""
    return sum(reply.status == 200 and "skipped" not in reply.json for reply in replies)


# --- one of many succeeds -------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(ROUNDS))
def test_of_many_simultaneous_claims_of_a_namespace_one_succeeds(
    registry: Registry, number: int
) -> None:
    accounts = [registry.account() for _ in range(MANY)]
    body = {"name": f"wanted{number}"}

    replies = at_once([partial(one.ask, "POST", "/v1/namespaces", body) for one in accounts])

    assert statuses(replies) == [200] + [403] * (MANY - 1)
    (winner,) = [one for one, reply in zip(accounts, replies, strict=True) if reply.status == 200]
    assert winner.ask("GET", "/v1/account").json["namespaces"] == [body["name"]]


def test_of_many_simultaneous_texts_of_one_version_one_is_kept(registry: Registry) -> None:
    account = registry.account()
    item_id = f"{account.name}/greetings/hello"
    texts = [f"{item_text('tool', item_id)}# {number}\n" for number in range(MANY)]

    replies = at_once([partial(account.push, item_id, content=text) for text in texts])

    assert statuses(replies) == [200] + [409] * (MANY - 1)
    (kept,) = [reply.json["sha256"] for reply in replies if reply.status == 200]
    assert registry.ask("GET", f"/v1/pull/tool/{item_id}").json["sha256"] == kept


@pytest.mark.parametrize("number", range(ROUNDS))
def test_of_many_simultaneous_publishers_of_a_bundle_id_one_succeeds(
    registry: Registry, number: int
) -> None:
    accounts = [registry.account() for _ in range(MANY)]

    def push(account: Account) -> Reply:
        body = bundle_body(account.key, f"bundle{number}", FILES)
        return account.ask("POST", "/v1/bundle/push", body)

    replies = at_once([partial(push, one) for one in accounts])

    assert statuses(replies) == [200] + [403] * (MANY - 1)


# --- the owner is never refused -------------------------------------------------------------------


@pytest.mark.parametrize("number", range(ROUNDS))
def test_repeated_simultaneous_claims_of_the_owner_succeed(registry: Registry, number: int) -> None:
    account = registry.account()
    body = {"name": f"mine{number}"}

    replies = at_once([partial(account.ask, "POST", "/v1/namespaces", body)] * MANY)

    assert statuses(replies) == [200] * MANY
    assert new(replies) == 1


@pytest.mark.parametrize("number", range(ROUNDS))
def test_simultaneous_equal_pushes_publish_an_item_once_and_all_succeed(
    registry: Registry, number: int
) -> None:
    account = registry.account()
    item_id = f"{account.name}/greetings/hello{number}"

    replies = at_once([partial(account.push, item_id)] * MANY)

    assert statuses(replies) == [200] * MANY
    assert new(replies) == 1
    assert len({reply.json["sha256"] for reply in replies}) == 1
    stored = account.ask("GET", "/v1/account").json["stored_bytes"]
    assert stored == len(replies[0].json["signed_content"].encode())


@pytest.mark.parametrize("number", range(ROUNDS))
def test_simultaneous_equal_pushes_publish_a_bundle_once_and_all_succeed(
    registry: Registry, number: int
) -> None:
    account = registry.account()
    body = bundle_body(account.key, f"same{number}", FILES)

    replies = at_once([partial(account.ask, "POST", "/v1/bundle/push", body)] * MANY)

    assert statuses(replies) == [200] * MANY
    assert new(replies) == 1


def test_many_simultaneous_items_are_all_published_and_counted(registry: Registry) -> None:
    account = registry.account()
    ids = [f"{account.name}/many/i{number}" for number in range(40)]

    with ThreadPoolExecutor(MANY) as threads:
        replies = list(threads.map(account.push, ids))

    assert {reply.status for reply in replies} == {200}
    found = registry.ask("GET", f"/v1/search?namespace={account.name}&limit=100").json
    assert {one["item_id"] for one in found["results"]} == set(ids)
    sizes = sum(len(reply.json["signed_content"].encode()) for reply in replies)
    assert account.ask("GET", "/v1/account").json["stored_bytes"] == sizes


def test_of_many_simultaneous_versions_the_highest_is_shown(registry: Registry) -> None:
    account = registry.account()
    item_id = f"{account.name}/many/versions"
    versions = [f"1.{number}.0" for number in range(MANY)]

    replies = at_once([partial(account.push, item_id, one) for one in versions])

    assert statuses(replies) == [200] * MANY
    shown = registry.ask("GET", f"/v1/items/tool/{item_id}").json
    assert shown["version"] == versions[-1]


@pytest.mark.parametrize("number", range(ROUNDS))
@pytest.mark.parametrize("kind", ["item", "bundle"])
def test_a_version_deleted_twice_at_once_frees_its_bytes_once(
    registry: Registry, kind: str, number: int
) -> None:
    account = registry.account()
    kept = f"{account.name}/kept/one"
    account.push(kept)
    before = account.ask("GET", "/v1/account").json["stored_bytes"]
    target = f"/v1/delete/tool/{account.name}/gone/one"
    account.push(f"{account.name}/gone/one")
    if kind == "bundle":
        target = f"/v1/bundle/gone{number}"
        account.ask("POST", "/v1/bundle/push", bundle_body(account.key, f"gone{number}", FILES))
        account.ask("DELETE", f"/v1/delete/tool/{account.name}/gone/one")

    replies = at_once([partial(account.ask, "DELETE", target)] * 4)

    assert statuses(replies) == [200, 404, 404, 404]
    assert account.ask("GET", "/v1/account").json["stored_bytes"] == before


# --- clients of nodes -----------------------------------------------------------------------------


def test_simultaneous_equal_publications_of_a_manifest_all_succeed_once(
    registry: Registry, workspace: Workspace
) -> None:
    user = registry.node.user(scopes=("*",), publish_namespaces=("*",))
    project = RemoteProject(workspace, user).pushed()
    manifest = project.history()[0]["project_manifest_hash"]

    for number in range(ROUNDS):
        body = {"kind": "bundle", "item_id": f"many{number}/one", "version": "1.0.0"}
        sent = {**body, "manifest_hash": manifest}
        replies = at_once([partial(user.ask, "POST", "/registry/publish", sent)] * MANY)

        assert statuses(replies) == [200] * MANY
        assert new(replies) == 1


def test_simultaneous_registrations_of_an_identity_succeed(registry: Registry) -> None:
    for _ in range(ROUNDS):
        user = registry.node.user(scopes=("*",))
        document = identity_document(user.key, generate_box_pair()[1], "2026-01-01T00:00:00Z")
        body = {"identity": document}

        replies = at_once([partial(user.ask, "POST", "/registry/identity", body)] * MANY)

        assert statuses(replies) == [200] * MANY
        assert user.ask("GET", f"/registry/identity/{user.user_id}").json == document
