import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.sync.paths import (
    PATH_CASE,
    PATH_PREFIX,
    UnsafeManifestError,
    clashes,
    fold,
    path_problem,
    require_safe_paths,
    safe_target,
)

links = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")
NAMES = st.sampled_from(["a", "A", "b", "\u00e9", "e\u0301", "\u00c9", "a.b", "~"])
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=3).map("/".join), max_size=8)


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "src/x.py",
        ".ai/tools/a/b.py",
        ".ai/states/x",
        ".ai/tools/state/x",
        ".gitignore",
        ".github/workflows/x.yml",
        "sub/.git/config",
        "a b/c",
        "caf\u00e9/\u65e5\u672c.md",
        "what?.md",
        "x" * 255,
        "/".join(["d" * 200] * 10),
    ],
)
def test_an_ordinary_path_is_accepted(path: str) -> None:
    require_safe_paths([path])


SEGMENTS = st.sampled_from(
    [
        *("a", "a_b-c@d=e+f.g", "x.", "x ", "..", ".", "", "a:b", "a\\b", "\x7f", "a\n", "x" * 101),
        *("con", "CON.txt", "con1", "com1", "nul.", "aux-", "lpt\u00b9", "conin$"),
        *(".git", ".GIT", "git~1", ".ai", ".AI", "state", "State", "states"),
    ]
)


@pytest.mark.property
@given(segments=st.lists(SEGMENTS, min_size=1, max_size=12))
def test_the_fast_check_of_plain_paths_gives_the_same_result(segments: list[str]) -> None:
    path = "/".join(segments)
    plain, other = path_problem(f"{path}/a"), path_problem(f"{path}/\u00e4")

    assert plain == other
    assert path_problem(path) == "" or plain != ""


def test_ordinary_paths_do_not_clash() -> None:
    require_safe_paths(["a/b", "a/c", "a.b", "a-b/c", "ab"])


def refused(paths: list[str]) -> tuple[str, str]:
    """The refused path, and the reason."""
    with pytest.raises(UnsafeManifestError) as error:
        require_safe_paths(paths)
    return error.value.path, error.value.problem


def test_the_message_names_the_path_and_the_fix() -> None:
    with pytest.raises(UnsafeManifestError) as error:
        require_safe_paths(["ok", "../x"])

    assert str(error.value) == ("unsafe path '../x' in a manifest: '..' segments are not allowed")
    assert error.value.hint == "rename the file where it comes from, and push again"


def test_a_path_may_not_be_a_folder_of_another() -> None:
    assert refused(["a/b", "a"]) == ("a", "'a/b' needs a folder there")


def test_a_path_may_not_be_a_folder_of_another_in_other_case() -> None:
    assert refused(["A", "a/b"]) == ("A", "'a/b' needs a folder there")


@pytest.mark.parametrize(
    ("one", "other"),
    [("README", "readme"), ("caf\u00e9", "cafe\u0301"), ("\u00e9", "\u00c9"), ("a", "a")],
)
def test_two_names_for_one_file_are_refused(one: str, other: str) -> None:
    path, problem = refused([one, other])

    first, second = sorted([one, other])
    assert (path, problem) == (
        second,
        f"only letter case or Unicode form differs, of it or of a folder, from {first!r}",
    )


def test_two_names_for_one_folder_are_refused() -> None:
    found = list(clashes(["docs/a", "Docs/b", "docs/c"]))

    assert [(clash.path, clash.other, clash.type) for clash in found] == [
        ("docs/a", "Docs/b", PATH_CASE),
        ("docs/c", "Docs/b", PATH_CASE),
    ]


def test_a_file_and_folders_below_it_are_reported_once() -> None:
    found = list(clashes(["a", "a/b", "a/c/d"]))

    assert [(clash.path, clash.other, clash.type) for clash in found] == [("a", "a/b", PATH_PREFIX)]


@pytest.mark.property
@given(paths=PATHS)
def test_paths_without_clashes_are_distinct_if_case_is_ignored(
    paths: list[str],
) -> None:
    files = {fold(path) for path in paths}
    folders = {
        "/".join(segments[:end])
        for segments in (fold(path).split("/") for path in paths)
        for end in range(1, len(segments))
    }
    spelled = {
        tuple(path.split("/")[:end]) for path in paths for end in range(1, path.count("/") + 1)
    }

    is_plain = len(files) == len(paths) and not files & folders and len(spelled) == len(folders)

    assert (not list(clashes(paths))) == is_plain


def test_a_target_is_the_path_below_the_root(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()

    assert safe_target(tmp_path, "a/file") == tmp_path / "a" / "file"
    assert safe_target(tmp_path, "a/new/deep") == tmp_path / "a" / "new" / "deep"


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").touch()

    with pytest.raises(UnsafeManifestError) as error:
        safe_target(tmp_path, "a/b")

    assert error.value.problem == f"{tmp_path / 'a'} is no folder"


@links
@pytest.mark.parametrize("relative", ["link", "link/x", "in/up/x"])
def test_a_link_on_the_way_is_refused(tmp_path: Path, relative: str) -> None:
    root = tmp_path / "root"
    (root / "in").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    (root / "in" / "up").symlink_to("..")

    with pytest.raises(UnsafeManifestError, match="is a link"):
        safe_target(root, relative)


@links
def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")

    assert safe_target(tmp_path / "root", "x") == tmp_path / "root" / "x"


def test_a_target_keeps_the_rules_of_manifests(tmp_path: Path) -> None:
    with pytest.raises(UnsafeManifestError):
        safe_target(tmp_path, ".ai/state/x")
