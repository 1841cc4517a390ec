import pytest

from tests.support.registry import Account, Registry, item_text


def found(registry: Registry, query: str, account: Account | None = None) -> list[str]:
    """The ids that a search finds, the best first."""
    target = f"/v1/search?{query}"
    reply = registry.ask("GET", target) if account is None else account.ask("GET", target)
    assert reply.status == 200, reply.body
    return [one["item_id"] for one in reply.json["results"]]


def publish(account: Account, place: str, words: str, item_type: str = "tool") -> str:
    item_id = f"{account.name}/{place}"
    content = item_text(item_type, item_id, words=words)
    assert account.push(item_id, item_type=item_type, content=content).status == 200
    return item_id


def test_search_results_are_ordered_by_relevance(shared_registry: Registry) -> None:
    account = shared_registry.account()
    by_words = publish(account, "text/count", "Weighs a zebra and counts its stripes")
    by_name = publish(account, "animals/zebra", "Draws an animal")
    publish(account, "animals/lion", "Draws another animal")

    assert found(shared_registry, f"query=zebra&namespace={account.name}") == [by_name, by_words]
    assert found(shared_registry, f"query=zeb&namespace={account.name}") == [by_name, by_words]
    assert found(shared_registry, f"query=zebra+stripes&namespace={account.name}") == [by_words]
    assert found(shared_registry, f"query=zebra+lion&namespace={account.name}") == []


def test_a_search_result_has_all_fields_of_a_list(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = publish(account, "animals/quagga", "Draws a quagga")

    reply = shared_registry.ask("GET", f"/v1/search?query=quagga&namespace={account.name}").json

    (row,) = reply["results"]
    assert (reply["total"], reply["limit"], reply["offset"]) == (1, 20, 0)
    assert row.keys() >= {"created_at", "title", "updated_at"}
    assert {key: row[key] for key in ("item_type", "item_id", "namespace", "category", "name")} == {
        "item_type": "tool",
        "item_id": item_id,
        "namespace": account.name,
        "category": "animals",
        "name": "quagga",
    }
    assert (row["description"], row["version"], row["author"], row["download_count"]) == (
        "Draws a quagga",
        "1.0.0",
        account.name,
        0,
    )


def test_a_search_is_filtered_by_kind_and_category(shared_registry: Registry) -> None:
    account = shared_registry.account()
    tool = publish(account, "birds/small/wren", "About okapis")
    note = publish(account, "notes/wren", "About okapis", "knowledge")
    within = f"namespace={account.name}"

    assert found(shared_registry, f"query=okapis&{within}&item_type=knowledge") == [note]
    assert found(shared_registry, f"query=okapis&{within}&category=birds") == [tool]
    assert found(shared_registry, f"query=okapis&{within}&category=bird") == []
    assert found(shared_registry, f"{within}&category=birds") == [tool]
    assert found(shared_registry, f"{within}&item_type=knowledge") == [note]


def test_an_unlisted_item_is_found_by_its_owner_only(shared_registry: Registry) -> None:
    account, other = shared_registry.account(), shared_registry.account()
    other.ask("POST", "/v1/namespaces", {"name": other.name})
    item_id = publish(account, "drafts/gnu", "Draws a gnu")

    changed = account.ask("POST", f"/v1/visibility/tool/{item_id}", {"visibility": "unlisted"})

    assert changed.json["previous_visibility"] == "public"
    for query in (f"query=gnu&namespace={account.name}", f"namespace={account.name}"):
        assert found(shared_registry, query) == []
        assert found(shared_registry, query, account) == []
        assert found(shared_registry, f"{query}&include_mine=true", account) == [item_id]
        assert found(shared_registry, f"{query}&include_mine=true", other) == []
    assert shared_registry.ask("GET", f"/v1/pull/tool/{item_id}").status == 200
    assert shared_registry.ask("GET", "/v1/search?include_mine=true").status == 401
    refused = other.ask("POST", f"/v1/visibility/tool/{item_id}", {"visibility": "public"})
    assert refused.status == 403


def test_a_new_version_replaces_the_indexed_words(shared_registry: Registry) -> None:
    account = shared_registry.account()
    item_id = publish(account, "animals/one", "Draws a tapir")
    newer = item_text("tool", item_id, "1.1.0", "Draws a bongo")
    account.push(item_id, "1.1.0", content=newer)
    within = f"namespace={account.name}"

    assert found(shared_registry, f"query=tapir&{within}") == []
    assert found(shared_registry, f"query=bongo&{within}") == [item_id]

    account.ask("DELETE", f"/v1/delete/tool/{item_id}?version=1.1.0")

    assert found(shared_registry, f"query=tapir&{within}") == [item_id]
    assert found(shared_registry, f"query=bongo&{within}") == []


def test_pages_follow_each_other(shared_registry: Registry) -> None:
    account = shared_registry.account()
    made = {publish(account, f"pages/p{number}", "Draws a saiga") for number in range(5)}
    within = f"query=saiga&namespace={account.name}&limit=2"

    pages = [found(shared_registry, f"{within}&offset={offset}") for offset in (0, 2, 4, 6)]

    assert [len(page) for page in pages] == [2, 2, 1, 0]
    assert {item for page in pages for item in page} == made
    beyond = shared_registry.ask("GET", f"/v1/search?{within}&offset=6")
    assert beyond.json["total"] == 5


@pytest.mark.parametrize(
    "query",
    [
        '"',
        "NEAR(zyxq b)",
        "zyxq OR",
        "facets:v7075626c6963",
        "*",
        "^zyxq",
        "-",
        "zyxq'--",
        "%00",
        "🦓",
        "(",
    ],
)
def test_no_query_text_is_read_as_an_expression(shared_registry: Registry, query: str) -> None:
    from urllib.parse import quote

    reply = shared_registry.ask("GET", f"/v1/search?query={quote(query)}")

    assert reply.status == 200
    assert reply.json["results"] == []


def test_an_invalid_key_is_refused_on_public_routes_too(
    shared_registry: Registry,
) -> None:
    reply = shared_registry.node.ask(
        "GET", "/v1/search", headers={"Authorization": "Bearer rye_sk_wrong"}
    )

    assert reply.answer == (401, {"detail": "unauthorized"})
