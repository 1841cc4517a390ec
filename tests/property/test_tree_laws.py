"""A tree that was built and written again is the same tree; so is a merged one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.store import Store
from ryeos.sync.checkout import write_tree
from ryeos.sync.contents import LayeredContents
from ryeos.sync.merge import three_way_merge
from ryeos.sync.rules import rules_of
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree import Tree, build_project_tree

pytestmark = pytest.mark.property

RULES = rules_of([("everything", {"sync": {"include": ["*"]}})])
NAMES = st.sampled_from(
    [
        "README",
        "src/x.py",
        "src/deep/er/y.txt",
        "caf\u00e9",
        ".ai/tools/a.py",
        ".ai/tools/b/c.sh",
        ".ai/directives/d.md",
        ".ai/config/e.yaml",
        ".ai/knowledge/f.md",
    ]
)
LINES = st.lists(st.sampled_from([b"one\n", b"two\n", b"three\n", b"#!/bin/sh\n"]), max_size=5)
FILES = st.dictionaries(NAMES, LINES.map(b"".join))
BINARY = st.dictionaries(st.sampled_from(["data.bin", "src/image"]), st.binary(max_size=50))


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Have a folder with these files."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def read(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def build(folder: Path) -> Tree:
    """The tree of a folder."""
    return build_project_tree(folder, RULES, StatTable())


@given(files=FILES, binary=BINARY)
def test_a_tree_that_was_built_and_written_is_the_same_tree(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes], binary: dict[str, bytes]
) -> None:
    folder = tmp_path_factory.mktemp("trees")
    write(folder / "here", files | binary)
    tree = build(folder / "here")

    write_tree(tree.manifest, tree, folder / "there")

    assert read(folder / "there") == files | binary
    assert build(folder / "there").manifest_hash == tree.manifest_hash


@given(base=FILES, ours=FILES, theirs=FILES)
def test_a_tree_that_was_merged_and_written_is_the_merged_manifest(
    tmp_path_factory: pytest.TempPathFactory,
    base: dict[str, bytes],
    ours: dict[str, bytes],
    theirs: dict[str, bytes],
) -> None:
    folder = tmp_path_factory.mktemp("trees")
    trees = []
    for name, files in (("base", base), ("ours", ours), ("theirs", theirs)):
        write(folder / name, files)
        trees.append(build(folder / name))
    contents = LayeredContents(Store(folder / "objects"), *trees)

    before, here, there = (tree.manifest for tree in trees)
    merged = three_way_merge(before, here, there, contents).manifest

    if merged is not None:
        write_tree(merged, contents, folder / "merged")
        assert build(folder / "merged").manifest == merged
