import json
from typing import Any

import pytest

from lillux.values import replace
from ryeos.app.search import search
from ryeos.app.verbs import answer
from ryeos.items.errors import RyeError, VerbArgumentError
from tests.support.errors import coded
from tests.support.workspace import Workspace


def found(workspace: Workspace, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """The answer to a search."""
    return dict(search(workspace.warm, arguments).envelope)


def ids(workspace: Workspace, **arguments: Any) -> list[str]:  # noqa: ANN401 - JSON
    """The ids of the hits."""
    return [hit["id"] for hit in found(workspace, **arguments)["results"]]


def test_a_hit_has_every_documented_key(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("media/resize", "# scale an image\n")

    answered = found(workspace, query="media/resize")

    assert answered == {
        "status": "success",
        "mode": "query",
        "results": [
            {
                "id": "media/resize",
                "ref": "tool:media/resize",
                "type": "tool",
                "name": "resize",
                "title": "resize",
                "description": "test tool",
                "category": "media",
                "score": 1.0,
                "source": "project",
                "path": str(path),
                "preview": answered["results"][0]["preview"],
                "signed": True,
                "metadata": {"version": "1.0.0", "tags": []},
            }
        ],
        "total": 1,
        "returned": 1,
        "query": "media/resize",
        "item_type": "all",
        "scope": "*",
        "source": "all",
        "limit": 10,
        "offset": 0,
        "skipped": 0,
        "search_type": "keyword",
        "project_path": str(workspace.project_path),
    }


def test_parts_of_other_items_are_in_no_list_of_everything_and_take_no_place_in_it(
    workspace: Workspace,
) -> None:
    for item_id in ("a/lib/part", "b/extractors/x", "c/tool", "d/tool"):
        workspace.project.tool(item_id)

    listed = found(workspace, source="project", limit=1)

    assert [hit["id"] for hit in listed["results"]] == ["c/tool"]
    assert (listed["total"], listed["next_offset"]) == (2, 1)
    assert "a/lib/part" in ids(workspace, query="part", source="project")


def test_an_operator_in_small_letters_is_no_word_of_a_broken_query(
    workspace: Workspace,
) -> None:
    workspace.project.tool("team/count", "# branches\n")

    answered = found(workspace, query='branches or (count, "lines', source="project")

    assert answered["warnings"][0].endswith("searched for the words instead: branches count lines")
    assert answered["results"][0]["id"] == "team/count"


def test_pages_are_followed_by_next_offset(workspace: Workspace) -> None:
    for number in range(5):
        workspace.project.tool(f"t{number}")

    first = found(workspace, source="project", limit=3)
    second = found(workspace, source="project", limit=3, offset=first["next_offset"])

    assert (first["returned"], first["next_offset"], first["total"]) == (3, 3, 5)
    assert second["returned"] == 2
    assert "next_offset" not in second


def test_a_scope_narrows_kind_and_id(workspace: Workspace) -> None:
    workspace.project.tool("mine/a")
    workspace.project.knowledge("mine/b")

    answered = found(workspace, scope="tool.mine.*")

    assert [hit["id"] for hit in answered["results"]] == ["mine/a"]
    assert (answered["scope"], answered["item_type"]) == ("tool.mine.*", "tool")


def test_a_scope_and_another_kind_contradict(workspace: Workspace) -> None:
    with pytest.raises(VerbArgumentError) as error:
        found(workspace, scope="tool.mine", item_type="directive")

    assert str(error.value) == "scope: says tool where item_type is directive"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"fuzzy": {"max_distance": 3}}, "fuzzy.max_distance: expected 0 to 2, found 3"),
        ({"fuzzy": {"on": True}}, "fuzzy.on: fuzzy has no such key"),
        ({"fuzzy": {"enabled": 1}}, "fuzzy.enabled: expected true or false, found 1"),
        (
            {"proximity": {"max_distance": -1}},
            "proximity.max_distance: expected 0 to 1000, found -1",
        ),
        ({"fields": {"title": 5}}, "fields.title: expected a query, found 5"),
        ({"filters": {"signed": 1}}, "filters.signed: expected true or false, found '1'"),
    ],
)
def test_an_option_of_another_shape_is_refused(
    workspace: Workspace, option: dict[str, Any], message: str
) -> None:
    with pytest.raises(VerbArgumentError) as error:
        found(workspace, query="a b", **option)

    assert str(error.value) == message


def test_fuzzy_and_proximity_count_only_when_enabled(workspace: Workspace) -> None:
    workspace.project.tool("a/far", "# banana and then some apple\n")
    workspace.project.tool("a/typo", "# banena\n")
    here = {"source": "project"}

    assert ids(workspace, query='"banana"', fuzzy={"enabled": True}, **here) == ["a/far"]
    assert ids(workspace, query="banana", fuzzy={"enabled": True}, **here) == ["a/far", "a/typo"]
    assert ids(workspace, query="banana", fuzzy={"enabled": False}, **here) == ["a/far"]
    near = {"enabled": True, "max_distance": 1}
    assert ids(workspace, query="banana AND apple", proximity=near, **here) == []
    assert ids(workspace, query="banana AND apple", proximity={"enabled": False}, **here) != []


def test_without_a_registry_a_search_of_it_is_refused(workspace: Workspace) -> None:
    with pytest.raises(RyeError, check=coded("REGISTRY_NOT_CONFIGURED")):
        found(workspace, source="registry")


def test_of_a_broken_query_the_words_are_searched(workspace: Workspace) -> None:
    workspace.project.signed_tool("good", "# banana")

    reply = answer(workspace.rye(), "search", {"query": "what (is banana"}).envelope

    assert [one["id"] for one in reply["results"]] == ["good"]
    assert reply["warnings"][0].endswith("searched for the words instead: what is banana")


def test_a_broken_query_without_a_word_is_refused_with_the_place(workspace: Workspace) -> None:
    refused = answer(workspace.rye(), "search", {"query": "(("})

    assert refused.exit_status == 2
    assert refused.envelope["code"] == "INVALID_QUERY"
    assert refused.envelope["position"] == 1
    assert refused.envelope["details"] == [
        "at character 1: expected a closing parenthesis, found none"
    ]


def test_verification_is_done_on_request(workspace: Workspace) -> None:
    workspace.project.signed_tool("good", "# banana")
    changed = workspace.project.signed_tool("changed", "# banana")
    changed.write_bytes(changed.read_bytes() + b"\n")

    results = found(workspace, query="banana", filters={"verify": True})["results"]

    assert {hit["id"]: hit["verified"] for hit in results} == {"good": True, "changed": False}
    assert "verified" not in found(workspace, query="banana")["results"][0]


def test_ten_hits_are_at_most_six_thousand_bytes(workspace: Workspace) -> None:
    for number in range(12):
        workspace.project.knowledge(f"some/long/category/item_number_{number}", "wörter " * 100)

    answered = found(workspace, query="wörter")

    assert answered["returned"] == 10
    assert len(json.dumps(answered["results"], ensure_ascii=False).encode()) <= 6100


def test_another_project_is_searched_when_named(workspace: Workspace) -> None:
    other = workspace.folder / "other"
    (other / ".ai/tools").mkdir(parents=True)
    (other / ".ai/tools/there.py").write_text("", encoding="utf-8")

    answered = found(workspace, query="there", source="project", project_path=str(other))

    assert [hit["id"] for hit in answered["results"]] == ["there"]
    assert answered["project_path"] == str(other)


def test_without_a_project_user_and_system_are_searched(workspace: Workspace) -> None:
    workspace.user.tool("mine/a")
    context = workspace.context()

    rye = workspace.rye(spaces=replace(context.spaces, project=None))

    answered = search(rye, {"query": "mine/a"}).envelope

    assert [hit["source"] for hit in answered["results"]] == ["user"]
    assert answered["project_path"] is None
