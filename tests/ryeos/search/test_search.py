import os
from collections.abc import Callable

import pytest

from ryeos.items.refs import SYSTEM, USER, Kind, Space
from ryeos.search.search import SearchResult, SortBy
from tests.support.corpus import ids
from tests.support.workspace import Workspace

Search = Callable[..., SearchResult]


def scored(result: SearchResult) -> dict[str, float]:
    """The score of each hit."""
    return {hit.document.record.location.ref.id: hit.score for hit in result.hits}


# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["media/resize", "resize", "RESIZE", "tool:media/resize"])
def test_an_item_whose_name_is_the_query_scores_one(
    workspace: Workspace, find: Search, query: str
) -> None:
    workspace.project.tool("media/resize")
    workspace.project.tool("media/other", "# resize")

    assert scored(find(query))["media/resize"] == 1.0


def test_a_prefix_of_a_name_adds_a_tenth(workspace: Workspace, find: Search) -> None:
    workspace.project.tool("a/resize")
    workspace.project.tool("a/x", "# resize resize resize")

    plain = scored(find("-zzz resi"))

    assert scored(find("resi"))["a/resize"] == pytest.approx(plain["a/resize"] + 0.1)


def test_a_star_finds_all_items(workspace: Workspace, find: Search) -> None:
    workspace.project.tool("a")
    workspace.project.knowledge("b")

    assert scored(find("*")) == {"a": 1.0, "b": 1.0}


# --- relaxation -----------------------------------------------------------------------------------


def test_half_of_the_words_match_if_no_item_has_all(workspace: Workspace, find: Search) -> None:
    workspace.project.tool("a/two", "# apple banana")
    workspace.project.tool("a/one", "# apple")

    found = find("apple banana cherry durian")

    assert (found.relaxed, ids(found)) == ("or", ["a/two"])


def test_then_similar_words_match(workspace: Workspace, find: Search) -> None:
    workspace.project.tool("a/fruit", "# banana")

    found = find("bananna")

    assert (found.relaxed, ids(found)) == ("fuzzy", ["a/fruit"])


@pytest.mark.parametrize("query", ['"bananna"', "bananna OR x9", "content:bananna", "-zzz bananna"])
def test_a_query_with_operators_is_not_relaxed(
    workspace: Workspace, find: Search, query: str
) -> None:
    workspace.project.tool("a/fruit", "# banana")

    assert ids(find(query)) == []


def test_a_search_without_results_gives_suggestions(find: Search) -> None:
    found = find("qqqqqqqq")

    assert (found.total, found.relaxed, found.suggestions) == (0, "", ("like qqqqqqqq",))


# --- options --------------------------------------------------------------------------------------


def test_fuzzy_finds_slips_beside_the_exact(workspace: Workspace, find: Search) -> None:
    workspace.project.tool("a/exact", "# banana")
    workspace.project.tool("a/slip", "# banena")

    assert ids(find("banana")) == ["a/exact"]
    assert ids(find("banana", max_slips=1)) == ["a/exact", "a/slip"]


@pytest.mark.parametrize(("distance", "found"), [(0, ["a/near"]), (2, ["a/near", "a/far"])])
def test_proximity_counts_the_words_between(
    workspace: Workspace, find: Search, distance: int, found: list[str]
) -> None:
    workspace.project.tool("a/near", "# banana apple")
    workspace.project.tool("a/far", "# apple and some banana")

    assert sorted(ids(find("apple banana", max_distance=distance))) == sorted(found)


def test_every_field_query_must_hold(workspace: Workspace, find: Search) -> None:
    workspace.project.knowledge("a/one", "banana")
    workspace.project.knowledge("a/two", "apple")

    assert ids(find(fields={"content": "banana OR apple", "name": "one"})) == ["a/one"]


def test_filters_do_not_change_scores(workspace: Workspace, find: Search) -> None:
    workspace.project.tool("a/one", "# banana", version="1.0.0")
    workspace.project.tool("a/two", "# banana", version="2.0.0")

    unfiltered = scored(find("banana"))

    found = scored(find("banana", filters={"version": ">=2"}))

    assert found == {"a/two": unfiltered["a/two"]}


def test_a_prefix_ends_at_a_segment(workspace: Workspace, find: Search) -> None:
    for name in ("rye/core/a", "rye/corex/b", "rye/core"):
        workspace.project.tool(name)

    assert sorted(ids(find(prefix="rye/core"))) == ["rye/core", "rye/core/a"]


# --- order and pages ------------------------------------------------------------------------------


def test_equal_scores_are_sorted_by_space_kind_and_id(workspace: Workspace, find: Search) -> None:
    workspace.user.tool("c")
    workspace.project.knowledge("d")
    workspace.project.directive("e")
    workspace.project.tool("g")
    workspace.project.tool("f")

    found = find("", tiers=frozenset({"project", "user"}))

    assert ids(found) == ["f", "g", "e", "d", "c"]


def test_the_newest_come_first_by_date(workspace: Workspace, find: Search) -> None:
    head = 'name: {0}\ntitle: x\nentry_type: x\nversion: "1.0.0"\n'
    dated = "```yaml\n" + head + 'updated_at: "{1}"\n```\nx\n'
    workspace.project.write("knowledge/old.md", dated.format("old", "2020-01-01"))
    workspace.project.write("knowledge/new.md", dated.format("new", "2024-01-01T00:00:00Z"))
    by_file = workspace.project.write(
        "knowledge/file.md", f"```yaml\n{head.format('file')}```\nx\n"
    )
    os.utime(by_file, (1_650_000_000, 1_650_000_000))

    assert ids(find(sort_by=SortBy.DATE)) == ["new", "file", "old"]


def test_names_are_sorted_without_regard_to_case(workspace: Workspace, find: Search) -> None:
    for name in ("x/beta", "y/Alpha", "z/alpha"):
        workspace.project.tool(name)

    assert ids(find(sort_by=SortBy.NAME)) == ["y/Alpha", "z/alpha", "x/beta"]


def test_pages_are_consecutive(workspace: Workspace, find: Search) -> None:
    for number in range(5):
        workspace.project.tool(f"t{number}")

    first, second = find(limit=3), find(limit=3, offset=3)

    assert ids(first) + ids(second) == [f"t{number}" for number in range(5)]
    assert (first.total, second.total) == (5, 5)


def test_equal_searches_have_equal_results(workspace: Workspace, find: Search) -> None:
    for number in range(20):
        workspace.project.tool(f"a/t{number}", "# apple banana\n" * (number % 3))

    assert find("apple banana tool") == find("apple banana tool")


def test_kinds_and_spaces_are_searched_separately(workspace: Workspace, find: Search) -> None:
    workspace.user.tool("mine")
    workspace.project.knowledge("mine")

    assert Space(USER, workspace.home).label == "user"
    assert ids(find("mine", kinds=(Kind.TOOL,))) == []
    assert ids(find("mine", kinds=(Kind.TOOL,), tiers=frozenset({USER}))) == ["mine"]
    assert "rye/bash/bash" in ids(find("bash", tiers=frozenset({SYSTEM})))
