from pathlib import Path

import pytest

from ryeos.app.search import search
from ryeos.app.workspace import Rye
from ryeos.items.context import context_from
from tests.support.command_line import CommandLine

DESCRIBED = (
    'version: "1.0.0"\ntool_type: bash\nexecutor_id: rye/core/runtimes/bash/bash\n'
    'category: "mine"\ndescription: {description}\nconfig: {{script: echo}}\n'
)


def write_tool(cli: CommandLine, name: str, description: str) -> Path:
    """An unsigned tool in the project's folder ``mine``."""
    path = cli.project / ".ai/tools/mine" / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(DESCRIBED.format(description=description), "utf-8")
    return path


def test_a_hit_has_every_documented_key(cli: CommandLine) -> None:
    path = write_tool(cli, "resize", "Scale an image")

    found = cli.json("search", "scale", "image", "--space", "project")

    assert found == {
        "status": "success",
        "mode": "query",
        "results": [
            {
                "id": "mine/resize",
                "ref": "tool:mine/resize",
                "type": "tool",
                "name": "resize",
                "title": "resize",
                "description": "",
                "category": "mine",
                "score": 0.6571,
                "source": "project",
                "path": str(path),
                "preview": "",
                "signed": False,
                "metadata": {},
                "integrity": "UNSIGNED",
            }
        ],
        "total": 1,
        "returned": 1,
        "query": "scale image",
        "item_type": "all",
        "scope": "*",
        "source": "project",
        "limit": 10,
        "offset": 0,
        "skipped": 0,
        "search_type": "keyword",
        "project_path": str(cli.project),
    }


def test_an_item_of_the_bundle_names_the_bundle(cli: CommandLine) -> None:
    (hit, *_) = cli.json("search", "bash")["results"]

    assert (hit["ref"], hit["source"], hit["bundle"]) == ("tool:rye/bash/bash", "system", "ryeos")
    assert hit["score"] == 1.0


def test_a_hidden_item_names_the_item_that_hides_it(cli: CommandLine) -> None:
    cli("new", "tool", "rye/bash/bash")

    found = cli.json("search", "rye/bash/bash")["results"]
    results = [hit for hit in found if hit["ref"] == "tool:rye/bash/bash"]

    assert [(hit["source"], hit.get("shadowed_by")) for hit in results] == [
        ("project", None),
        ("system", "project"),
    ]
    assert results[0]["shadows"] == [{"source": "system:ryeos"}]


def test_a_hit_is_one_line(cli: CommandLine) -> None:
    write_tool(cli, "resize", "Scale an image")

    done = cli("search", "scale", "--space", "project")

    assert done.stdout == "0.66  tool:mine/resize  p  resize  (unsigned)\n"
    assert done.stderr == ""


@pytest.mark.parametrize("query", [(), ("*",), ("",)])
def test_no_query_finds_everything(cli: CommandLine, query: tuple[str, ...]) -> None:
    for name in ("a", "b", "c"):
        write_tool(cli, name, "one")

    found = cli.json("search", *query, "--space", "project")

    assert [hit["name"] for hit in found["results"]] == ["a", "b", "c"]


def test_type_and_space_narrow_the_search(cli: CommandLine) -> None:
    cli("new", "tool", "mine/zzq")
    cli("new", "knowledge", "mine/zzq")
    cli("new", "knowledge", "mine/zzq", "--space", "user")
    cli("new", "config", "mine/zzq")

    def refs(*flags: str) -> list[str]:
        results = cli.json("search", "zzq", *flags)["results"]
        return [f"{hit['source']} {hit['ref']}" for hit in results]

    assert refs() == [
        "project tool:mine/zzq",
        "project knowledge:mine/zzq",
        "user knowledge:mine/zzq",
    ]
    assert refs("--type", "knowledge", "--space", "user") == ["user knowledge:mine/zzq"]
    assert refs("--type", "config") == ["project config:mine/zzq"]


def test_more_hits_than_the_limit_are_counted(cli: CommandLine) -> None:
    for number in range(4):
        write_tool(cli, f"t{number}", "one")

    done = cli("search", "--space", "project", "--limit", "3")

    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == "4 items match; more of them with --limit N\n"


def test_no_hit_is_no_failure_and_comes_with_a_suggestion(cli: CommandLine) -> None:
    write_tool(cli, "resize", "Scale an image")

    done = cli("search", '"resise"')
    found = cli.json("search", '"resise"')

    assert done.status == 0
    assert done.stdout == ""
    assert done.stderr == "nothing matches; did you mean tool:mine/resize?\n"
    assert found["results"] == []
    assert found["suggestions"] == ["tool:mine/resize"]


def test_a_near_match_is_reported_as_one(cli: CommandLine) -> None:
    write_tool(cli, "resize", "Scale an image")

    done = cli("search", "resise")

    assert "tool:mine/resize" in done.stdout
    assert done.stderr == "nothing matches as typed; these match words spelled nearly so\n"


def test_a_script_may_request_a_status_for_no_hits(cli: CommandLine) -> None:
    assert cli("search", '"zzzz"', "--fail-empty").status == 1
    assert cli("search", "bash", "--fail-empty").status == 0


def test_references_alone_can_be_listed(cli: CommandLine) -> None:
    write_tool(cli, "a", "one")
    write_tool(cli, "b", "one")

    done = cli("search", "-l", "--space", "project")

    assert done.stdout == "tool:mine/a\ntool:mine/b\n"


def test_pages_scopes_and_orders_can_be_chosen(cli: CommandLine) -> None:
    for name in ("a", "b", "c"):
        write_tool(cli, name, "one")

    found = cli.json("search", "--scope", "tool.mine", "--offset", "1", "--sort", "name")

    assert [hit["name"] for hit in found["results"]] == ["b", "c"]
    assert cli("search", "--offset", "-1").status == 2


def test_the_document_is_that_of_the_tool_of_agents(cli: CommandLine) -> None:
    write_tool(cli, "resize", "Scale an image")
    context = context_from(cli.env, cwd=cli.project, bundles=(cli.bundle,))

    answered = search(Rye(context), {"query": "scale", "limit": 5}).envelope

    assert cli.json("search", "scale", "--limit", "5") == answered


def test_a_broken_item_is_counted_and_named_on_request(cli: CommandLine) -> None:
    path = write_tool(cli, "broken", "one")
    path.write_bytes(b"a: [")

    done = cli("search", "bash", "-v")

    assert done.status == 0
    assert "tool:rye/bash/bash" in done.stdout
    assert done.stderr.endswith(
        f"1 items could not be read (-v names them)\n  tool:mine/broken: {path}\n"
    )
    assert cli.json("search", "bash")["skipped"] == 1


def test_a_description_cannot_write_to_the_terminal(cli: CommandLine) -> None:
    write_tool(cli, "evil", '"red \\e[31m and \\n more"')

    done = cli("search", "evil")

    assert "\x1b" not in done.stdout
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("limit", ["0", "-1", "101"])
def test_a_limit_out_of_range_is_refused(cli: CommandLine, limit: str) -> None:
    refused = cli("search", "x", "--limit", limit)

    assert refused.status == 2
    assert refused.stderr == (
        f"error: --limit: expected 1 to 100, found {limit}\n"
        "  hint: leave it out for 10; --offset goes on behind them\n"
    )


def test_a_query_of_very_many_words_is_refused(cli: CommandLine) -> None:
    refused = cli("search", *(f"w{number}" for number in range(40)), "--json")

    assert refused.status == 2
    assert refused.json["error"] == "query: expected at most 32 words, found 40"


def test_search_needs_no_project_and_no_home(cli: CommandLine) -> None:
    results = cli.json("search", "bash", cwd=cli.home, HOME="")["results"]

    assert results[0]["ref"] == "tool:rye/bash/bash"


def test_a_search_writes_only_to_the_cache(cli: CommandLine) -> None:
    cli("search", "bash")

    written = [path for path in cli.home.rglob("*") if path.is_file()]
    assert [path.parent for path in written] == [cli.home / ".cache" / "rye" / "search"]
    assert list(cli.project.iterdir()) == []
