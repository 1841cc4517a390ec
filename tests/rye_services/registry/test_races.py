from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.registry import Account, Registry, bundle_body, item_text

pytestmark = pytest.mark.heavy

FILES = {".ai/knowledge/shapes/draw/about.md": item_text("knowledge", "shapes/draw/about")}


def test_of_many_who_claim_a_namespace_at_once_one_has_it(registry: Registry) -> None:
    accounts = [registry.account() for _ in range(8)]

    def claim(account: Account) -> int:
        return account.ask("POST", "/v1/namespaces", {"name": "wanted"}).status

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(claim, accounts))

    assert sorted(statuses) == [200] + [403] * 7
    winner = accounts[statuses.index(200)]
    assert winner.ask("GET", "/v1/account").json["namespaces"] == ["wanted"]


def test_of_many_texts_of_one_version_one_is_kept(registry: Registry) -> None:
    account = registry.account()
    item_id = f"{account.name}/greetings/hello"

    def push(number: int) -> tuple[int, str]:
        content = f"{item_text('tool', item_id)}# {number}\n"
        reply = account.push(item_id, content=content)
        return reply.status, reply.json.get("sha256", "")

    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(push, range(8)))

    (kept,) = [sha256 for status, sha256 in replies if status == 200]
    assert sorted(status for status, _ in replies) == [200] + [409] * 7
    assert registry.ask("GET", f"/v1/pull/tool/{item_id}").json["sha256"] == kept


def test_many_items_at_once_are_all_there_and_counted(registry: Registry) -> None:
    account = registry.account()
    ids = [f"{account.name}/many/i{number}" for number in range(40)]

    with ThreadPoolExecutor(8) as threads:
        replies = list(threads.map(account.push, ids))

    assert {reply.status for reply in replies} == {200}
    found = registry.ask("GET", f"/v1/search?namespace={account.name}&limit=100").json
    assert {one["item_id"] for one in found["results"]} == set(ids)
    sizes = sum(len(reply.json["signed_content"].encode()) for reply in replies)
    assert account.ask("GET", "/v1/account").json["stored_bytes"] == sizes


def test_of_many_who_publish_a_bundle_at_once_one_has_it(registry: Registry) -> None:
    accounts = [registry.account() for _ in range(6)]

    def push(account: Account) -> int:
        body = bundle_body(account.key, "wanted", FILES)
        return account.ask("POST", "/v1/bundle/push", body).status

    with ThreadPoolExecutor(6) as threads:
        statuses = list(threads.map(push, accounts))

    assert statuses.count(200) == 1
    assert set(statuses) <= {200, 403, 409}
