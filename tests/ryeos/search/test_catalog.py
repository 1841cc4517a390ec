import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ryeos.items.refs import EXECUTABLE_KINDS, PROJECT, SYSTEM, USER, Kind
from ryeos.search.catalog import Catalog, CatalogSnapshot
from ryeos.search.pools import SearchDocument
from ryeos.search.records import preview
from tests.support.corpus import record
from tests.support.workspace import SpaceFolder, Workspace

ALL = frozenset({PROJECT, USER, SYSTEM})
LONG_AGO = 1_500_000_000


def taken(catalog: Catalog, *tiers: str) -> CatalogSnapshot:
    """The items of these spaces; by default of the project."""
    return catalog.snapshot(EXECUTABLE_KINDS, frozenset(tiers or (PROJECT,)))


def by_id(catalog: Catalog, *tiers: str) -> dict[str, SearchDocument]:
    """The documents by the ids of their items."""
    return {one.ref.id: one for one in taken(catalog, *tiers).pool.all()}


def shown(document: SearchDocument) -> str:
    """The preview of a document."""
    return preview(document.record.location, document.record.content)


def test_a_record_has_the_fields_of_the_header(workspace: Workspace, catalog: Catalog) -> None:
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

    (document,) = by_id(catalog).values()
    found = document.record

    assert (found.title, found.version, found.tags) == ("How we write", "1.2.3", ("prose", "house"))
    assert shown(document) == "Short words."
    assert not found.signed


def test_a_record_is_signed_if_its_signature_matches_the_text(
    workspace: Workspace, catalog: Catalog
) -> None:
    workspace.project.tool("unsigned")
    workspace.project.signed_tool("signed")
    changed = workspace.project.signed_tool("changed")
    changed.write_bytes(changed.read_bytes() + b"\n")

    states = {item_id: found.record.signed for item_id, found in by_id(catalog).items()}

    assert states == {"unsigned": False, "signed": True, "changed": False}


def test_a_signature_file_beside_a_json_file_is_used(
    workspace: Workspace, catalog: Catalog
) -> None:
    path = workspace.project.write(
        "tools/data.json",
        '{"version": "1.0.0", "tool_type": "x", "category": "", "description": "data"}',
    )
    unsigned = by_id(catalog)["data"].record.signed
    workspace.project.sign(path)

    assert (unsigned, by_id(catalog)["data"].record.signed) == (False, True)


def test_items_of_the_bundle_are_signed_and_have_their_headers(
    workspace: Workspace, catalog: Catalog
) -> None:
    records = {item_id: found.record for item_id, found in by_id(catalog, SYSTEM).items()}

    assert records["rye/bash/bash"].signed
    assert records["rye/bash/bash"].description.startswith("Run a shell command")
    assert "rye:signed" not in records["rye/bash/bash"].content


def test_shadowing_is_reported_from_both_sides(workspace: Workspace, catalog: Catalog) -> None:
    workspace.project.tool("rye/bash/bash")
    workspace.user.tool("rye/bash/bash")

    by_label = {
        found.record.location.space.label: (found.shadows, found.shadowed_by)
        for found in taken(catalog, *ALL).pool.all()
        if found.record.location.ref.id == "rye/bash/bash"
    }

    assert by_label == {
        "project": (("user", "system:ryeos"), ""),
        "user": (("system:ryeos",), "project"),
        "system:ryeos": ((), "project"),
    }


def test_of_two_files_with_one_id_the_one_that_runs_is_found(
    workspace: Workspace, catalog: Catalog
) -> None:
    workspace.project.yaml_tool("mine/x", "")
    workspace.project.tool("mine/x")

    found = by_id(catalog).values()

    assert [one.record.location.path.suffix for one in found] == [".py"]


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
def test_unreadable_files_are_skipped_and_counted(
    workspace: Workspace, catalog: Catalog, name: str, data: bytes
) -> None:
    workspace.project.tool("fine")
    workspace.project.write(f"tools/{name}", data)

    found = taken(catalog)

    assert "fine" in by_id(catalog)
    assert len(found.pool.numbers) + len(found.skipped) == 2


def test_links_are_not_followed_out_of_a_space(
    workspace: Workspace, catalog: Catalog, tmp_path: Path
) -> None:
    secret = tmp_path / "secret.py"
    secret.write_text('"""A secret."""\n', "utf-8")
    folder = workspace.project.space.directory(Kind.TOOL)
    folder.mkdir(parents=True)
    (folder / "link.py").symlink_to(secret)
    (folder / "dangling.py").symlink_to(tmp_path / "nowhere.py")

    found = taken(catalog)

    assert not found.pool.numbers
    assert sorted(one.ref.id for one in found.skipped) == ["dangling", "link"]


def test_hidden_files_and_other_folders_are_not_items(
    workspace: Workspace, catalog: Catalog
) -> None:
    for name in (".hidden.py", "_private.py", "node_modules/x.js", "__pycache__/y.py", "a.txt"):
        workspace.project.write(f"tools/{name}", "x = 1\n")
    workspace.project.write("tools/package.json", "{}")

    found = taken(catalog)

    assert (found.pool.numbers, found.skipped) == (frozenset(), ())


# --- previews -------------------------------------------------------------------------------------


def test_the_preview_of_a_directive_leaves_its_header_out(
    workspace: Workspace, catalog: Catalog
) -> None:
    workspace.project.directive("mine/review", body="Look at every line.")

    (found,) = by_id(catalog).values()

    assert shown(found) == "# review Look at every line."


def test_a_preview_is_one_short_line() -> None:
    text = preview(record().location, "word\n" * 100)

    assert len(text) == 160
    assert text.endswith("word word…")


# --- cached items ---------------------------------------------------------------------------------


def settle(workspace: Workspace) -> None:
    """Make every file and folder of the project old."""
    for folder, _, names in os.walk(workspace.project.space.ai):
        for path in (Path(folder), *(Path(folder, name) for name in names)):
            os.utime(path, (LONG_AGO, LONG_AGO))


def test_unchanged_files_are_not_read_again(workspace: Workspace, catalog: Catalog) -> None:
    workspace.project.tool("a")
    settle(workspace)

    first, second = taken(catalog).pool, taken(catalog).pool

    assert first is second


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda space: space.tool("mine/a", "# other"), {"mine/a": "other"}),
        (lambda space: space.tool("mine/b", "# new"), {"mine/a": "one", "mine/b": "new"}),
        (lambda space: space.tool("deep/er/b", "# new"), {"mine/a": "one", "deep/er/b": "new"}),
        (lambda space: (space.space.ai / "tools/mine/a.py").unlink(), {}),
        (
            lambda space: (space.space.ai / "tools/mine/a.py").rename(
                space.space.ai / "tools/mine/c.py"
            ),
            {"mine/c": "one"},
        ),
    ],
    ids=["changed", "added", "added in a new folder", "removed", "renamed"],
)
def test_a_change_is_seen_at_once(
    workspace: Workspace,
    catalog: Catalog,
    change: Callable[[SpaceFolder], object],
    expected: Mapping[str, str],
) -> None:
    workspace.project.tool("mine/a", "# one")
    settle(workspace)
    taken(catalog)

    change(workspace.project)

    found = {i: one.record.content.split("# ")[-1] for i, one in by_id(catalog).items()}
    assert found == expected


def test_a_change_within_one_clock_tick_is_seen(workspace: Workspace, catalog: Catalog) -> None:
    path = workspace.project.tool("a", "# one")
    times = (path.stat().st_atime_ns, path.stat().st_mtime_ns)
    taken(catalog)
    path.write_bytes(path.read_bytes().replace(b"# one", b"# two"))
    os.utime(path, ns=times)

    assert by_id(catalog)["a"].record.content.endswith("# two")


def test_a_shadowed_item_appears_when_the_shadowing_file_is_removed(
    workspace: Workspace, catalog: Catalog
) -> None:
    workspace.user.tool("a")
    path = workspace.project.tool("a")
    before = by_id(catalog, USER)["a"].shadowed_by
    path.unlink()

    assert (before, by_id(catalog, USER)["a"].shadowed_by) == ("project", "")


def test_an_index_with_many_changes_is_rebuilt(workspace: Workspace, catalog: Catalog) -> None:
    for number in range(300):
        workspace.project.tool("a", f"# word{number}")
        taken(catalog)

    assert len(taken(catalog).pool.index.lengths[0]) < 300
    assert by_id(catalog)["a"].record.content.endswith("# word299")
