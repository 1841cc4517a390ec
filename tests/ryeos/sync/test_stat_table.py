import os
from pathlib import Path

import pytest

from ryeos.sync.stat_table import StatTable, TreeEntry

LONG_AGO_NS = 1_000_000_000_123_456_789
ENTRY = TreeEntry("a" * 64)
ITEM = TreeEntry("a" * 64, "b" * 64, {"kind": "item_source", "signature_info": None})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with an old modification time."""
    path = tmp_path / "file"
    path.write_bytes(b"x")
    os.utime(path, ns=(LONG_AGO_NS, LONG_AGO_NS))
    return path


def later_ns(path: Path, seconds: float = 60.0) -> int:
    """The time that many seconds after the last change of the file."""
    return path.stat().st_ctime_ns + int(seconds * 1e9)


def test_an_unchanged_file_is_known(file: Path) -> None:
    table = StatTable()

    table.record("a/b", file.stat(), ENTRY, now_ns=later_ns(file))

    assert table.entry("a/b", file.stat()) == ENTRY
    assert table.entry("a/c", file.stat()) is None


def test_a_file_of_another_size_time_or_inode_is_not_known(file: Path) -> None:
    table = StatTable()
    table.record("f", file.stat(), ENTRY, now_ns=later_ns(file))

    file.write_bytes(b"longer")
    longer = file.stat()
    file.write_bytes(b"y")
    os.utime(file, ns=(LONG_AGO_NS + 1, LONG_AGO_NS + 1))
    other_time = file.stat()
    copy = file.with_name("copy")
    copy.write_bytes(b"x")
    os.utime(copy, ns=(LONG_AGO_NS, LONG_AGO_NS))
    other_inode = copy.stat()

    assert [table.entry("f", one) for one in (longer, other_time, other_inode)] == [None] * 3


def test_a_file_whose_time_was_set_back_is_not_known(file: Path) -> None:
    table = StatTable()
    table.record("f", file.stat(), ENTRY, now_ns=later_ns(file))

    file.write_bytes(b"y")
    os.utime(file, ns=(LONG_AGO_NS, LONG_AGO_NS))

    assert table.entry("f", file.stat()) is None


@pytest.mark.parametrize(
    ("mtime_ns", "after_s", "known"),
    [
        (LONG_AGO_NS, 0.05, False),
        (LONG_AGO_NS, 0.2, True),
        (LONG_AGO_NS, -5.0, False),
        (1_000_000_000 * 10**9, 1.0, False),
        (1_000_000_000 * 10**9, 2.2, True),
    ],
)
def test_a_file_changed_just_before_recording_is_not_known(
    file: Path, mtime_ns: int, after_s: float, *, known: bool
) -> None:
    os.utime(file, ns=(mtime_ns, mtime_ns))
    table = StatTable()

    table.record("f", file.stat(), ENTRY, now_ns=later_ns(file, after_s))

    assert (table.entry("f", file.stat()) is not None) is known


def test_recording_too_soon_removes_the_entry(file: Path) -> None:
    table = StatTable()
    table.record("f", file.stat(), ENTRY, now_ns=later_ns(file))

    table.record("f", file.stat(), ITEM, now_ns=later_ns(file, 0.0))

    assert len(table) == 0


def test_a_table_is_read_as_it_was_saved(file: Path, tmp_path: Path) -> None:
    table = StatTable(tmp_path / "cache" / "table.json")
    table.record("a", file.stat(), ENTRY, now_ns=later_ns(file))
    table.record("é/b", file.stat(), ITEM, now_ns=later_ns(file))
    table.save()

    again = StatTable(table.path)
    again.load()

    assert again.entry("a", file.stat()) == ENTRY
    assert again.entry("é/b", file.stat()) == ITEM


def test_a_table_that_did_not_change_is_not_written(file: Path, tmp_path: Path) -> None:
    table = StatTable(tmp_path / "table.json")
    table.record("a", file.stat(), ENTRY, now_ns=later_ns(file))
    table.retain({"a"})
    table.save()
    (tmp_path / "table.json").unlink()

    table.retain({"a"})
    table.forget("b")
    table.save()

    assert not (tmp_path / "table.json").exists()


def test_entries_of_missing_files_are_removed(file: Path) -> None:
    table = StatTable()
    for path in ("a", "b", "c"):
        table.record(path, file.stat(), ENTRY, now_ns=later_ns(file))

    table.retain({"b", "d", "e", "f"})
    table.forget("x")

    assert (len(table), table.entry("b", file.stat())) == (1, ENTRY)


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: b"",
        lambda data: data[:-1],
        lambda data: data.replace(b"a" * 64, b"c" * 64),
        lambda _: b"x" * 64 + b"\n{}",
        lambda _: b"\xff" * 200,
    ],
    ids=range(5),
)
def test_a_damaged_table_is_read_as_empty(file: Path, tmp_path: Path, damage: object) -> None:
    table = StatTable(tmp_path / "table.json")
    table.record("a", file.stat(), ENTRY, now_ns=later_ns(file))
    table.save()
    path = tmp_path / "table.json"
    assert callable(damage)
    path.write_bytes(damage(path.read_bytes()))

    table.load()

    assert len(table) == 0


def test_a_table_without_a_file_is_kept_in_memory_only(file: Path) -> None:
    table = StatTable()
    table.record("a", file.stat(), ENTRY, now_ns=later_ns(file))

    table.save()

    assert len(table) == 1


def test_a_few_new_entries_are_not_saved_at_once(tmp_path: Path, file: Path) -> None:
    path = tmp_path / "table"
    table = StatTable(path)
    for number in range(100):
        table.record(f"old{number}", file.stat(), ENTRY, now_ns=later_ns(file))
    table.save_if_worth_it()
    saved = path.read_bytes()

    table.record("new", file.stat(), ENTRY, now_ns=later_ns(file))
    table.save_if_worth_it()
    after_one = path.read_bytes()
    for number in range(10):
        table.record(f"more{number}", file.stat(), ENTRY, now_ns=later_ns(file))
    table.save_if_worth_it()

    assert after_one == saved
    again = StatTable(path)
    again.load()
    assert len(again) == 111
