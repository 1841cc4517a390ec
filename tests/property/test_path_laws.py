"""No text leads out of a root or a space, for any links in it."""

import ntpath
import os
import posixpath
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.contained_paths import is_inside, require_plain_path, safe_join
from lillux.errors import UnsafePathError
from ryeos.items.errors import InvalidRefError
from ryeos.items.refs import PROJECT, ItemRef, Kind, Space, parse_reference, valid_id
from ryeos.trust.resolver import candidates

pytestmark = pytest.mark.property

SEGMENTS = st.sampled_from(
    [
        "..",
        ".",
        "",
        "a",
        "b",
        "up",
        "out",
        "here",
        "root",
        "abs",
        "C:",
        "nul",
        "...",
        "a ",
        "~",
        "*",
    ]
)
SEPARATORS = st.sampled_from(["/", "//", "\\", "/../", "\0", ":", "\u2215", "\n"])
PATHS = st.lists(SEGMENTS | SEPARATORS | st.text(max_size=3), max_size=8).map("".join)
JOINED = st.lists(SEGMENTS, max_size=6).map("/".join)
RELATIVE = PATHS | JOINED | st.text()
REFERENCES = st.tuples(
    st.sampled_from(["", "./", "tool:", "tool:./", "directive:", "x:", ":", "config:/"]), RELATIVE
).map("".join)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root with links that lead up, out, away and around."""
    folder = tmp_path_factory.mktemp("paths")
    root = folder / "root"
    (root / "a" / "b").mkdir(parents=True)
    (folder / "out").mkdir()
    if sys.platform != "win32":
        (root / "up").symlink_to("..")
        (root / "out").symlink_to("../out")
        (root / "abs").symlink_to("/")
        (root / "here").symlink_to(".")
        (root / "a" / "up").symlink_to("../..")
        (root / "a" / "here").symlink_to("../here")
    return root


@given(relative=RELATIVE)
def test_a_joined_path_really_lies_below_the_root(root: Path, relative: str) -> None:
    with suppress(UnsafePathError):
        joined = safe_join(root, relative)

        assert Path(os.path.realpath(joined)).is_relative_to(os.path.realpath(root))


@given(relative=RELATIVE)
def test_a_plain_path_lies_below_its_root_on_every_platform(relative: str) -> None:
    with suppress(UnsafePathError):
        require_plain_path(relative)

        posix = posixpath.normpath(posixpath.join("/root", relative))
        windows = ntpath.normpath(ntpath.join("C:\\root", relative.replace("/", "\\")))
        assert posix == f"/root/{relative}"
        assert windows == "C:\\root\\" + relative.replace("/", "\\")


@given(item_id=RELATIVE)
def test_an_accepted_id_names_files_of_its_space_only(root: Path, item_id: str) -> None:
    space = Space(PROJECT, root)
    with suppress(InvalidRefError):
        accepted = valid_id(item_id)

        for kind in Kind:
            for path in candidates(space, ItemRef(kind, accepted)):
                assert Path(os.path.normpath(path)) == path
                assert path.is_relative_to(space.directory(kind))
                assert path.parent != space.directory(kind).parent


@given(text=REFERENCES)
def test_an_accepted_reference_has_an_accepted_id(text: str) -> None:
    with suppress(InvalidRefError):
        reference = parse_reference(text)

        assert valid_id(reference.id) == reference.id
        assert parse_reference(str(reference)) == reference
        assert text.endswith(reference.id)


@given(relative=RELATIVE)
def test_is_inside_agrees_with_the_real_paths(root: Path, relative: str) -> None:
    path = root / relative
    try:
        real = os.path.realpath(path)
    except ValueError:
        assert not is_inside(path, root)
    else:
        assert is_inside(path, root) == (
            real == os.path.realpath(root) or real.startswith(os.path.realpath(root) + os.sep)
        )
