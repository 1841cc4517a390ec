import os
from pathlib import Path

import pytest

from zipboot.places import KEPT_UNUSED_S, kept_in, note_use, remove, sweep

NOW = 2_000_000_000.0
OURS = [
    "0123456789abcdef",
    "c49f5335c1ed0f0fd53a0e6f62f3c14d695d59ea",
    "4711-0123456789abcdef.tmp",
    f"rye.pyz_{'5d67138b330657b5' * 4}",
    f"rye.pyz_{'5d67138b330657b5' * 4}.tmp",
    f".rye.pyz_{'5d67138b330657b5' * 4}_lock",
]
OTHERS = ["letters", "2026", "0123456789abcdeF", "0123456789abcde", "notes.tmp", "a_lock", ".git"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the cache, which has other files too."""
    for name in (*OURS, *OTHERS):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("content", "utf-8")
    return tmp_path


def use(path: Path, seconds_ago: float) -> None:
    """Make a path look as if it was last used then."""
    os.utime(path, (NOW - seconds_ago, NOW - seconds_ago))


def test_only_our_names_are_recognised(folder: Path) -> None:
    assert sorted(kept_in(str(folder))) == sorted(str(folder / name) for name in OURS)


def test_folders_unused_for_thirty_days_are_removed(folder: Path) -> None:
    for name in OURS:
        use(folder / name, KEPT_UNUSED_S - 60)
    use(folder / OURS[0], KEPT_UNUSED_S + 60)
    use(folder / OTHERS[0], KEPT_UNUSED_S + 60)

    sweep(str(folder), NOW)

    left = {path.name for path in folder.iterdir()}
    assert left == {*OURS[1:], *OTHERS}


def test_links_are_removed_without_their_targets(folder: Path, tmp_path: Path) -> None:
    elsewhere, link = tmp_path / "elsewhere", folder / "fedcba9876543210"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    link.symlink_to(elsewhere)

    remove(str(link))

    assert not link.is_symlink()
    assert (elsewhere / "file").exists()


def test_a_new_folder_triggers_a_sweep(folder: Path) -> None:
    new, old = folder / OURS[0], folder / OURS[1]
    os.utime(old, (1_000_000_000, 1_000_000_000))

    note_use(str(new), is_new=True)

    assert new.exists()
    assert not old.exists()


@pytest.mark.parametrize("kind", ["trees", "search", "approved"])
def test_a_new_folder_triggers_a_sweep_of_other_kinds(tmp_path: Path, kind: str) -> None:
    new, old, own = (tmp_path / kind / ("0" * 64) for kind in ("native", kind, "other"))
    for path in (new, old, own):
        path.parent.mkdir()
        path.touch()
    os.utime(old, (1_000_000_000, 1_000_000_000))

    note_use(str(own), is_new=True)  # a temporary folder, whose neighbours are not ours
    assert old.exists()
    note_use(str(new), is_new=True)

    assert not old.exists()


def test_a_use_is_noted_once_a_day(folder: Path) -> None:
    fresh, stale = folder / OURS[0], folder / OURS[1]
    before = fresh.stat().st_mtime_ns
    os.utime(stale, (1_000_000_000, 1_000_000_000))

    note_use(str(fresh), is_new=False)
    note_use(str(stale), is_new=False)

    assert fresh.stat().st_mtime_ns == before
    assert stale.stat().st_mtime > 1_000_000_000


def test_a_missing_cache_is_ignored(tmp_path: Path) -> None:
    note_use(str(tmp_path / "gone" / OURS[0]), is_new=True)
    note_use(str(tmp_path / "gone" / OURS[0]), is_new=False)

    assert not (tmp_path / "gone").exists()
