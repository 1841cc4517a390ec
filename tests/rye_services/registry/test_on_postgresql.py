"""A registry on PostgreSQL, where one is named: ``RYE_TEST_POSTGRESQL_URL``, and its driver there.

``rye-node.pyz`` brings no driver, and neither do the tests: ``pip install --target DIR
psycopg[binary]``, then ``PYTHONPATH=DIR RYE_TEST_POSTGRESQL_URL=postgresql+psycopg://...``.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest

from tests.support.registry import Registry, bundle_body, item_text, running_registry

URL = os.environ.get("RYE_TEST_POSTGRESQL_URL", "")

pytestmark = pytest.mark.skipif(not URL, reason="RYE_TEST_POSTGRESQL_URL names no database")


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    environ = {"RYE_NODE_DATABASE_URL": URL, "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    with running_registry(tmp_path / "registry", environ=environ) as running:
        yield running


def test_items_are_published_found_hidden_and_deleted(registry: Registry) -> None:
    account, other = registry.account(f"p{token_hex(4)}"), registry.account(f"q{token_hex(4)}")
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
    account = registry.account(f"p{token_hex(4)}")
    files = {".ai/tools/a/b/c.py": item_text("tool", "a/b/c")}

    pushed = account.ask("POST", "/v1/bundle/push", bundle_body(None, account.name, files))
    found = registry.ask("GET", f"/v1/bundle/search?query={account.name}").json

    assert (pushed.status, found["total"]) == (200, 1)
    assert account.ask("GET", f"/v1/bundle/pull/{account.name}").status == 200
