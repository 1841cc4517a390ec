"""A registry on PostgreSQL, whose index and statements of search are its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.databases import database_url
from tests.support.registry import Registry, bundle_body, item_text, running_registry


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    folder: Path = tmp_path_factory.mktemp("postgresql")
    environ = {"RYE_NODE_DATABASE_URL": database_url(folder, "postgresql")}
    with running_registry(folder / "registry", environ=environ) as running:
        yield running


def test_items_are_published_found_hidden_and_deleted(registry: Registry) -> None:
    account, other = registry.account(), registry.account()
    place = f"{account.name}/draw"
    content = item_text("tool", f"{place}/circle", words="Draws a zebra")
    account.push(f"{place}/circle", content=content)
    account.push(f"{place}/zebra", "1.2.0")

    def found(query: str) -> list[str]:
        target = f"/v1/search?namespace={account.name}&{query}"
        return [one["name"] for one in registry.ask("GET", target).json["results"]]

    assert account.push(f"{place}/circle").status == 409
    assert other.push(f"{place}/line").status == 403
    assert found("query=zeb&category=draw") == ["zebra", "circle"]
    assert found("query=zebra&item_type=knowledge") == []
    account.ask("POST", f"/v1/visibility/tool/{place}/zebra", {"visibility": "unlisted"})
    assert found("query=zebra") == found("") == ["circle"]
    account.ask("DELETE", f"/v1/delete/tool/{place}/circle")
    assert found("query=zebra") == []


def test_bundles_are_published_and_found(registry: Registry) -> None:
    account = registry.account()
    files = {".ai/tools/a/b/c.py": item_text("tool", "a/b/c")}

    pushed = account.ask("POST", "/v1/bundle/push", bundle_body(None, account.name, files))
    found = registry.ask("GET", f"/v1/bundle/search?query={account.name}").json

    assert (pushed.status, found["total"]) == (200, 1)
    assert account.ask("GET", f"/v1/bundle/pull/{account.name}").status == 200


@pytest.mark.parametrize("query", ["c++ x²", "''&|!:*", "é̀ﬃ", "\u0e01\u0e33", "1.2/3-4", "_"])
def test_a_query_is_read_as_words_without_syntax(registry: Registry, query: str) -> None:
    from urllib.parse import quote

    assert registry.ask("GET", f"/v1/search?query={quote(query)}").status == 200
