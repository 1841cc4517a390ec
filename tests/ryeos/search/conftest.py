"""A catalog over real files."""

from collections.abc import Callable

import pytest

from ryeos.search.catalog import Catalog
from ryeos.search.search import SearchRequest, SearchResult, search
from tests.support.workspace import Workspace

Search = Callable[..., SearchResult]


@pytest.fixture
def catalog(workspace: Workspace) -> Catalog:
    """The items of the workspace."""
    rye = workspace.rye()
    return Catalog(rye.context.spaces, rye.verifier)


@pytest.fixture
def find(catalog: Catalog) -> Search:
    """Search the catalog; by default only the project."""

    def find(query: str = "", **options: object) -> SearchResult:
        options.setdefault("tiers", frozenset({"project"}))
        request = SearchRequest(query=query, **options)  # type: ignore[arg-type]
        return search(catalog, request, lambda text: (f"like {text}",))

    return find
