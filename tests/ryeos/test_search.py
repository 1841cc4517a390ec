from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.errors import UsageError
from ryeos.items import EXECUTABLE_KINDS, PROJECT, SYSTEM, USER, ItemRef, Kind, Location, Space
from ryeos.search import Record, Records, parse_query, preview, read_records, score, search
from tests.support.workspace import Workspace

HERE = Space(PROJECT, Path("project"))


def record(
    item_id: str = "media/resize",
    kind: Kind = Kind.TOOL,
    space: Space = HERE,
    **fields: Any,  # noqa: ANN401 - fields of Record
) -> Record:
    """A record of an item that is in no file."""
    location = Location(ref=ItemRef(kind, item_id), space=space, path=Path("x.py"))
    return Record(location=location, **fields)


def scored(query: str, found: Record) -> float:
    """The score of a query for a record."""
    return score(parse_query(query), found)


# --- scores ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "fields", "expected"),
    [
        ("resize", {}, 1.0),
        ("media/resize", {}, 1.0),
        ("RESIZE", {}, 1.0),
        ("images", {"title": "Scale images"}, 1.0),
        ("image", {"title": "Scale images"}, 0.6),
        ("mage", {"title": "Scale images"}, 0.3),
        ("images", {"description": "Scale images"}, 0.6667),
        ("images", {"tags": ("photos", "images")}, 0.6667),
        ("images", {"content": "Scale images"}, 0.3333),
        ("images", {"description": "images", "content": "images"}, 0.6667),
        ("scale images", {"title": "images", "content": "scale"}, 0.6667),
        ("images photos", {"title": "images"}, 0.0),
        ("video", {"title": "Scale images"}, 0.0),
        ("im", {"title": "Scale images"}, 0.0),
        ("age", {"title": "Scale images"}, 0.0),
        ("media", {}, 0.8333),
    ],
)
def test_a_query_scores_as_documented(
    query: str, fields: Mapping[str, Any], expected: float
) -> None:
    assert scored(query, record(**fields)) == expected


@pytest.mark.parametrize("query", ["", "*", "  ", "* *"])
def test_an_empty_query_matches_everything(query: str) -> None:
    assert scored(query, record()) == 1.0


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("strasse", "Straße"),
        ("ΣΟΦΌΣ", "σοφός"),
        ("ﬁle", "file"),
        ("検索", "全文検索の道具"),
        ("state-graph", "A state-graph walker"),
        ("c++", "c++ builds"),
    ],
)
def test_words_of_any_script_and_with_signs_are_found(query: str, title: str) -> None:
    assert scored(query, record(title=title)) > 0


def test_a_query_of_very_many_words_is_refused() -> None:
    with pytest.raises(UsageError) as error:
        parse_query(" ".join(f"w{number}" for number in range(33)))

    assert str(error.value) == "query: expected at most 32 words, found 33"


@pytest.mark.property
@given(st.text(max_size=40), st.text(max_size=80), st.text(max_size=200))
def test_every_query_gets_a_score_from_0_to_1(query: str, title: str, content: str) -> None:
    assert 0.0 <= scored(query, record(title=title, content=content)) <= 1.0


@pytest.mark.property
@given(st.text("ab ", max_size=12), st.text("ab ", max_size=20))
def test_a_further_word_never_finds_more(query: str, title: str) -> None:
    found = record(title=title)

    if scored(f"{query} zzzz", found) > 0:
        pytest.fail("a word that is nowhere was found")
    assert (scored(query, found) > 0) == all(scored(word, found) > 0 for word in query.split())


def test_a_text_that_repeats_a_letter_is_scored_in_time() -> None:
    found = record(content="a" * 2_000_000)

    assert scored("a aa aaa aaaa", found) == 0.0


# --- order ----------------------------------------------------------------------------------------


def test_better_hits_come_first_then_nearer_spaces_then_kinds_then_ids() -> None:
    user, system = Space(USER, Path("user")), Space(f"{SYSTEM}:x", Path("x"))
    records = [
        record("b", title="hit", space=system),
        record("c", title="hit", space=user),
        record("d", Kind.KNOWLEDGE, title="hit"),
        record("e", Kind.DIRECTIVE, title="hit"),
        record("g", title="hit"),
        record("f", title="hit"),
        record("a", content="hit"),
        record("miss"),
    ]

    found = [hit.record.location.ref.id for hit in search(parse_query("hit"), records)]

    assert found == ["f", "g", "e", "d", "c", "b", "a"]


# --- reading --------------------------------------------------------------------------------------


def read(workspace: Workspace, *, tier: str = PROJECT) -> Records:
    """The records of one tier."""
    rye = workspace.rye()
    return read_records(workspace.context().spaces, EXECUTABLE_KINDS, rye.verifier, tier=tier)


def test_a_record_has_what_the_header_says(workspace: Workspace) -> None:
    workspace.project.write(
        "knowledge/mine/style.md",
        """\
        ```yaml
        name: style
        title: How we write
        entry_type: reference
        category: mine
        version: "1.2.3"
        tags: [prose, house]
        ```

        Short words.
        """,
    )

    (found,) = read(workspace).records

    assert (found.title, found.version, found.tags) == ("How we write", "1.2.3", ("prose", "house"))
    assert preview(found) == "Short words."
    assert not found.signed


def test_signed_means_that_the_line_fits_the_text(workspace: Workspace) -> None:
    workspace.project.tool("unsigned")
    workspace.project.signed_tool("signed")
    changed = workspace.project.signed_tool("changed")
    changed.write_bytes(changed.read_bytes() + b"\n")

    states = {found.location.ref.id: found.signed for found in read(workspace).records}

    assert states == {"unsigned": False, "signed": True, "changed": False}


def test_a_signature_beside_a_json_file_counts(workspace: Workspace) -> None:
    path = workspace.project.write(
        "tools/data.json",
        '{"version": "1.0.0", "tool_type": "x", "category": "", "description": "data"}',
    )
    unsigned = read(workspace).records[0].signed
    workspace.project.sign(path)

    assert (unsigned, read(workspace).records[0].signed) == (False, True)


def test_items_of_the_bundle_are_signed_and_have_their_headers(workspace: Workspace) -> None:
    records = {found.location.ref.id: found for found in read(workspace, tier=SYSTEM).records}

    assert records["rye/bash/bash"].signed
    assert records["rye/bash/bash"].description.startswith("Run a shell command")
    assert "rye:signed" not in records["rye/bash/bash"].content


def test_shadowing_is_told_from_both_sides(workspace: Workspace) -> None:
    workspace.project.tool("rye/bash/bash")
    workspace.user.tool("rye/bash/bash")

    by_label = {
        found.location.space.label: (found.shadows, found.shadowed_by)
        for found in read(workspace, tier="").records
        if found.location.ref.id == "rye/bash/bash"
    }

    assert by_label == {
        "project": (("user", "system:ryeos"), ""),
        "user": (("system:ryeos",), "project"),
        "system:ryeos": ((), "project"),
    }


def test_of_two_files_with_one_id_the_one_that_would_run_is_found(workspace: Workspace) -> None:
    workspace.project.yaml_tool("mine/x", "")
    workspace.project.tool("mine/x")

    found = read(workspace).records

    assert [one.location.path.suffix for one in found] == [".py"]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("broken.py", b"x = ("),
        ("binary.py", b"\xff\xfe\x00"),
        ("broken.yaml", b"a: [1"),
        ("large.py", b"#" * (2 * 1024 * 1024 + 1)),
        ("nul.py", b"x = 1\x00"),
        ("twice.py", b"# rye:signed:x\n# rye:signed:y\n"),
    ],
)
def test_what_cannot_be_read_is_skipped_and_counted(
    workspace: Workspace, name: str, data: bytes
) -> None:
    workspace.project.tool("fine")
    workspace.project.write(f"tools/{name}", data)

    found = read(workspace)

    assert "fine" in {one.location.ref.id for one in found.records}
    assert len(found.records) + len(found.skipped) == 2


def test_links_are_not_followed_out_of_a_space(workspace: Workspace, tmp_path: Path) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text('"""A secret."""\n', "utf-8")
    folder = workspace.project.space.directory(Kind.TOOL)
    folder.mkdir(parents=True)
    (folder / "link.py").symlink_to(secret)
    (folder / "dangling.py").symlink_to(tmp_path / "nowhere.py")

    found = read(workspace)

    assert found.records == ()
    assert sorted(one.ref.id for one in found.skipped) == ["dangling", "link"]


def test_hidden_files_and_foreign_folders_are_not_items(workspace: Workspace) -> None:
    for name in (".hidden.py", "_private.py", "node_modules/x.js", "__pycache__/y.py", "a.txt"):
        workspace.project.write(f"tools/{name}", "x = 1\n")
    workspace.project.write("tools/package.json", "{}")

    assert read(workspace) == Records((), ())


# --- previews -------------------------------------------------------------------------------------


def test_the_preview_of_a_directive_leaves_its_header_out(workspace: Workspace) -> None:
    workspace.project.directive("mine/review", body="Look at every line.")

    (found,) = read(workspace).records

    assert preview(found) == "# review Look at every line."


def test_a_preview_is_one_short_line() -> None:
    found = record(content="word\n" * 100)

    assert len(preview(found)) == 160
    assert preview(found).endswith("word word…")
