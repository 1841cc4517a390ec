from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lillux.store import Durability, Store
from ryeos.sync.merge import MergeConflict, MergeResult, conflict_record, three_way_merge
from ryeos.sync.object_shapes import CasObjectError
from ryeos.sync.objects import ItemSource, SourceManifest, item_source_of

BASE = "1\n2\n3\n4\n5\n6\n"
OURS, THEIRS = BASE.replace("2", "2A"), BASE.replace("5", "5B")
BOTH = OURS.replace("5", "5B")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "objects")


class Tree:
    """Makes manifests out of texts."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def files(self, **texts: str | bytes) -> SourceManifest:
        """A manifest of files; ``__`` in a name is a slash."""
        digests = {name.replace("__", "/"): self.blob(text) for name, text in texts.items()}
        return SourceManifest("project", {}, digests)

    def item(self, text: str, signature: dict[str, str] | None = None) -> SourceManifest:
        """A manifest of one tool."""
        source = ItemSource("tool:a/b", self.blob(text), signature)
        digest = self.store.put_object(source.as_object(), Durability.UNFORCED)
        return SourceManifest("project", {".ai/tools/a/b.py": digest}, {})

    def blob(self, text: str | bytes) -> str:
        """The digest of a stored text."""
        data = text.encode() if isinstance(text, str) else text
        return self.store.put_blob(data, Durability.UNFORCED)

    def merge(
        self, base: SourceManifest | None, ours: SourceManifest, theirs: SourceManifest
    ) -> MergeResult:
        """The merge, with texts put into the store."""
        return three_way_merge(base, ours, theirs, self.store)

    def texts(self, merged: MergeResult) -> dict[str, str]:
        """The files of a clean merge."""
        assert merged.manifest, merged.conflicts
        files = merged.manifest.files
        return {path: self.store.get_blob(digest).decode() for path, digest in files.items()}


@pytest.fixture
def tree(store: Store) -> Tree:
    """Manifests over the store."""
    return Tree(store)


def types(merged: MergeResult) -> dict[str, str]:
    """The type of each conflict, by path."""
    assert merged.manifest is None
    return {conflict.path: conflict.type for conflict in merged.conflicts}


def test_changes_of_different_files_are_all_taken(tree: Tree) -> None:
    base = tree.files(same="s", ours="1", theirs="1", gone_here="g", gone_there="g")
    ours = tree.files(same="s", ours="2", theirs="1", gone_there="g", new_here="n")
    theirs = tree.files(same="s", ours="1", theirs="2", gone_here="g", new__there="n")

    merged = tree.merge(base, ours, theirs)

    assert tree.texts(merged) == {
        "same": "s",
        "ours": "2",
        "theirs": "2",
        "new_here": "n",
        "new/there": "n",
    }


def test_equal_changes_of_both_sides_are_taken_once(tree: Tree) -> None:
    base = tree.files(changed="1", gone="g")
    side = tree.files(changed="2", new="n")

    assert tree.texts(tree.merge(base, side, side)) == {"changed": "2", "new": "n"}


def test_texts_that_changed_in_different_places_are_merged(tree: Tree) -> None:
    merged = tree.merge(tree.files(a=BASE), tree.files(a=OURS), tree.files(a=THEIRS))

    assert tree.texts(merged) == {"a": BOTH}


def test_merged_items_get_a_new_item_source(tree: Tree, store: Store) -> None:
    merged = tree.merge(tree.item(BASE), tree.item(OURS), tree.item(THEIRS))

    assert merged.manifest
    source = item_source_of(store.get_object(merged.manifest.items[".ai/tools/a/b.py"]), "merged")
    assert source == ItemSource("tool:a/b", tree.blob(BOTH))
    assert merged.manifest == tree.item(BOTH)


def test_signed_items_are_not_merged_as_text(tree: Tree) -> None:
    info = {"timestamp": "t", "hash": "h", "ed25519_sig": "s", "pubkey_fp": "f"}

    merged = tree.merge(tree.item(BASE), tree.item(OURS, info), tree.item(THEIRS))

    assert types(merged) == {".ai/tools/a/b.py": "content"}


@pytest.mark.parametrize("above", ["", "#!/usr/bin/env python3\n"])
def test_a_signed_text_is_never_merged(tree: Tree, above: str) -> None:
    above += "# rye:signed:2026-01-01T00:00:00Z:whatever\n"

    merged = tree.merge(tree.item(above + BASE), tree.item(above + OURS), tree.item(THEIRS))

    assert types(merged) == {".ai/tools/a/b.py": "content"}


def test_a_signature_line_in_an_ordinary_file_is_text(tree: Tree) -> None:
    above = "# rye:signed:2026-01-01T00:00:00Z:whatever\n"
    sides = (tree.files(a=above + text) for text in (BASE, OURS, THEIRS))

    assert tree.texts(tree.merge(*sides)) == {"a": above + BOTH}


def test_every_kind_of_conflict_has_its_name(tree: Tree) -> None:
    base = tree.files(content="1", deleted_here="1", deleted_there="1")
    ours = tree.files(content="2", deleted_there="2", added="1")
    theirs = tree.files(content="3", deleted_here="2", added="2")

    assert types(tree.merge(base, ours, theirs)) == {
        "added": "add/add",
        "content": "content",
        "deleted_here": "delete/modify",
        "deleted_there": "modify/delete",
    }


def test_a_conflict_names_the_three_digests(tree: Tree) -> None:
    base, ours, theirs = tree.files(a="1"), tree.files(a="2"), tree.files(b="x")

    merged = tree.merge(base, ours, theirs)

    conflict = MergeConflict(
        path="a", base=tree.blob("1"), ours=tree.blob("2"), theirs=None, type="modify/delete"
    )
    assert merged.conflicts == (conflict,)
    assert conflict_record(merged.conflicts) == {
        "a": {
            "base": tree.blob("1"),
            "ours": tree.blob("2"),
            "theirs": None,
            "type": "modify/delete",
        }
    }


def test_without_a_base_equal_files_are_common_and_others_conflict(tree: Tree) -> None:
    ours, theirs = tree.files(same="s", a=BASE, ours="o"), tree.files(same="s", a=OURS, theirs="t")

    assert types(tree.merge(None, ours, theirs)) == {"a": "add/add"}
    assert tree.texts(tree.merge(None, tree.files(a="1"), tree.files(a="1", b="2"))) == {
        "a": "1",
        "b": "2",
    }


def test_a_file_where_the_other_side_has_a_folder_is_a_conflict(tree: Tree) -> None:
    merged = tree.merge(tree.files(), tree.files(a="1"), tree.files(a__b="2", a__c="3"))

    assert types(merged) == {"a": "path_prefix", "a/b": "path_prefix", "a/c": "path_prefix"}


def test_names_that_differ_in_case_only_are_a_conflict(tree: Tree) -> None:
    merged = tree.merge(tree.files(), tree.files(readme="1"), tree.files(README="2"))

    assert types(merged) == {"README": "path_case", "readme": "path_case"}


def test_a_clash_within_one_side_is_a_conflict(tree: Tree) -> None:
    here = tree.files(a="1")
    merged = tree.merge(here, here, tree.files(a="1", readme="1", README="2"))

    assert types(merged) == {"README": "path_case", "readme": "path_case"}


def test_an_item_that_the_other_side_has_as_a_file_is_a_conflict(tree: Tree) -> None:
    path = ".ai/tools/a/b.py"
    file = SourceManifest("project", {}, {path: tree.blob(BASE)})

    assert types(tree.merge(None, tree.item(BASE), file)) == {path: "item_file_type"}


def test_a_file_that_became_an_item_on_one_side_only_is_taken(tree: Tree) -> None:
    file = SourceManifest("project", {}, {".ai/tools/a/b.py": tree.blob(BASE)})

    assert tree.merge(file, tree.item(OURS), file).manifest == tree.item(OURS)


@pytest.mark.parametrize(
    "odd", [b"\xff" + BASE.encode(), b"\0" + BASE.encode(), BASE.encode() * 100_000]
)
def test_binary_and_very_large_files_are_a_conflict(tree: Tree, odd: bytes) -> None:
    base, ours, theirs = tree.files(a=odd), tree.files(a=odd + b"x\n"), tree.files(a=b"x\n" + odd)

    assert types(tree.merge(base, ours, theirs)) == {"a": "content"}


def test_missing_content_is_a_conflict(tree: Tree) -> None:
    gone = SourceManifest("project", {".ai/tools/a/b.py": "0" * 64}, {})

    merged = tree.merge(gone, tree.item(OURS), tree.item(THEIRS))

    assert types(merged) == {".ai/tools/a/b.py": "content"}


def test_an_invalid_item_source_is_reported(tree: Tree, store: Store) -> None:
    digest = store.put_object({"kind": "item_source", "schema": 1})
    odd = SourceManifest("project", {".ai/tools/a/b.py": digest}, {})

    with pytest.raises(CasObjectError, match=f"item_source {digest}: schema: expected 2"):
        tree.merge(odd, tree.item(OURS), tree.item(THEIRS))


NAMES = st.sampled_from(["a", "b", "b/c", "B"])
TEXTS = st.sampled_from([BASE, OURS, THEIRS, "x\n", ""])
FILES = st.dictionaries(NAMES, TEXTS, max_size=3)


def manifest(tree: Tree, files: dict[str, str]) -> SourceManifest:
    """A manifest of these files."""
    return SourceManifest("project", {}, {path: tree.blob(text) for path, text in files.items()})


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """Manifests over one store, for many examples."""
    return Tree(Store(tmp_path_factory.mktemp("store")))


@pytest.mark.property
@settings(deadline=None)
@given(base=FILES, ours=FILES, theirs=FILES)
def test_swapping_the_sides_gives_the_same_merge(
    shared: Tree, base: dict[str, str], ours: dict[str, str], theirs: dict[str, str]
) -> None:
    three = [manifest(shared, files) for files in (base, ours, theirs)]
    mirrored = {"delete/modify": "modify/delete", "modify/delete": "delete/modify"}

    one = shared.merge(three[0], three[1], three[2])
    other = shared.merge(three[0], three[2], three[1])

    assert one.manifest == other.manifest
    assert [(c.path, c.base, c.ours, c.theirs, c.type) for c in one.conflicts] == [
        (c.path, c.base, c.theirs, c.ours, mirrored.get(c.type, c.type)) for c in other.conflicts
    ]


@pytest.mark.property
@settings(deadline=None)
@given(base=FILES, side=st.dictionaries(st.sampled_from(["a", "b", "c/d"]), TEXTS))
def test_an_unchanged_side_gives_the_other_side(
    shared: Tree, base: dict[str, str], side: dict[str, str]
) -> None:
    before, after = manifest(shared, base), manifest(shared, side)

    assert shared.merge(before, before, after).manifest == after
    assert shared.merge(before, after, before).manifest == after
