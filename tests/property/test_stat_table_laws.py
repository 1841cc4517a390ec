"""A table of digests of files makes scans faster, and does not change their result."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.sync.rules import rules_of
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree import build_project_tree

RULES = rules_of([("test", {"sync": {"include": ["src/"]}})])
STRICT = rules_of([("test", {"sync": {"include": ["src/"], "exclude": ["src/y/"]}})])
PATHS = [".ai/tools/a.py", ".ai/tools/b/c.py", "src/x", "src/y/z"]
LONG_AGO_NS = 1_000_000_000_500_000_000

edits = st.lists(
    st.tuples(
        st.sampled_from(["write", "rewrite in place", "remove", "set back", "replace"]),
        st.sampled_from(PATHS),
        st.sampled_from([b"1", b"2"]),  # of one size, so that only the times differ
    ),
    max_size=12,
)


def edit(root: Path, how: str, relative: str, data: bytes) -> None:
    """Change a file in one of the ways that programs have."""
    path = root / relative
    path.parent.mkdir(parents=True, exist_ok=True)
    match how:
        case "remove":
            path.unlink(missing_ok=True)
        case "replace":
            beside = path.with_name("beside.tmp")
            beside.write_bytes(data)
            beside.replace(path)
        case "rewrite in place" if path.exists():
            before = path.stat()
            path.write_bytes(data)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        case _:
            path.write_bytes(data)
            if how == "set back":
                os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))


@pytest.mark.property
@given(changes=edits)
def test_a_scan_with_a_table_gives_the_same_as_a_scan_without_one(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str, bytes]]
) -> None:
    root = tmp_path_factory.mktemp("project")
    table = StatTable(root.with_name(f"{root.name}-table.json"))

    for how, relative, data in changes:
        edit(root, how, relative, data)
        rules = STRICT if data == b"2" else RULES
        known = build_project_tree(root, rules, table)
        table.save()
        table.load()
        fresh = build_project_tree(root, rules, StatTable())

        assert known.manifest_hash == fresh.manifest_hash
