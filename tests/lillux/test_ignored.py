"""``.gitignore``, held against git."""

import subprocess
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lillux.ignored import IgnoredPaths, _translated
from tests.support.programs import require_program
from tests.support.workspace import ROOT

BUNDLED = "bundle.ai/tools/rye/file-system/lib/ignored.py"
NAMES = st.text("ab.", min_size=1, max_size=3).filter(lambda name: name.strip("."))
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
MARKS = st.sampled_from(["", "!", "/", "**/", "*", "?", "[a-b]", "a/**/", "\\!", "#"])
LINES = st.tuples(MARKS, PATHS, st.sampled_from(["", "/", "*", "/**", " "])).map("".join)
RULES = st.lists(LINES, max_size=4)


@pytest.mark.heavy
@given(paths=st.sets(PATHS, max_size=8), outer=RULES, inner=RULES)
@settings(max_examples=40, suppress_health_check=list(HealthCheck), deadline=None)
def test_paths_that_git_leaves_out_are_left_out(
    paths: set[str], outer: list[str], inner: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    require_program("git")
    assume(not any(other.startswith(f"{path}/") for path in paths for other in paths))
    folder = tmp_path_factory.mktemp("ignored")
    subprocess.run(["git", "init", "-q", str(folder)], check=True, capture_output=True)
    files = [("", "\n".join(outer))]
    (folder / ".gitignore").write_text(files[0][1], "utf-8")
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    if (folder / "a").is_dir():
        files.append(("a", "\n".join(inner)))
        (folder / "a/.gitignore").write_text(files[1][1], "utf-8")

    ignored = IgnoredPaths(files)

    assert {path for path in paths if ignored.match(path)} == left_out_by_git(folder, paths)


@given(glob=st.text("ab.*?[]!^-/\\ ", min_size=1, max_size=10))
def test_the_tools_of_the_bundle_read_a_glob_alike(glob: str) -> None:
    spec = spec_from_file_location("ignored_of_bundle", ROOT / BUNDLED)
    assert spec
    assert spec.loader
    bundled = module_from_spec(spec)
    spec.loader.exec_module(bundled)

    assert bundled.translated(glob) == _translated(glob)


def left_out_by_git(folder: Path, paths: set[str]) -> set[str]:
    done = subprocess.run(
        ["git", "-C", str(folder), "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join(sorted(paths)).encode(),
        capture_output=True,
        check=False,
    )
    return set(done.stdout.decode().split("\0")) - {""}


def test_a_slash_in_brackets_is_no_slash_of_a_path() -> None:
    ignored = IgnoredPaths([("", "[]/a]\nx[/]y\nb[.-0]c\n")])

    assert ignored.match("a")
    assert not ignored.match("x/y")
    assert ignored.match("b.c")
    assert not ignored.match("b/c")


def test_a_folder_is_left_out_with_all_that_is_in_it_whatever_deeper_files_say() -> None:
    ignored = IgnoredPaths([("", "build/\n*.log\n!keep.log\n"), ("build", "!out.txt\n")])

    assert ignored.match("build/")
    assert ignored.match("build/out.txt")
    assert not ignored.match("build")
    assert ignored.match("src/a.log")
    assert not ignored.match("src/keep.log")


def test_a_glob_of_many_stars_takes_no_long_time() -> None:
    ignored = IgnoredPaths([("", f"{'*a' * 40}b\n{'**/a/' * 40}b\n")])

    assert not ignored.match("a" * 250)
    assert not ignored.match("a/" * 200 + "c")
