"""Which kept outputs are removed when one more is kept."""

import os
from pathlib import Path

import pytest

from ryeos.items.context import Context, context_from
from ryeos.mcp.outputs import (
    FRESH_S,
    MAX_AGE_S,
    MAX_OUTPUTS,
    MAX_TOTAL_BYTES,
    outputs_folder,
    remove_old_outputs,
    windowed,
)

NOW_S = 1_800_000_000.0
JUST_KEPT = f"{'f' * 32}.log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / ".ai" / "state" / "outputs"
    found.mkdir(parents=True)
    return found


def kept(folder: Path, number: int, *, age_s: float, size: int = 1) -> str:
    """An output of this age. The larger ones are holes: they take no room."""
    path = folder / f"{number:032x}.log"
    with path.open("wb") as file:
        file.truncate(size)
    os.utime(path, (NOW_S - age_s, NOW_S - age_s))
    return path.name


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def removed(folder: Path) -> tuple[str, ...]:
    return remove_old_outputs(folder, JUST_KEPT, clock=lambda: NOW_S)


def test_outputs_older_than_a_week_are_removed(folder: Path) -> None:
    old = kept(folder, 1, age_s=MAX_AGE_S + 1)
    young = kept(folder, 2, age_s=MAX_AGE_S - 1)

    assert removed(folder) == (old,)
    assert names_in(folder) == [young]


def test_of_too_many_bytes_the_oldest_go_first(folder: Path) -> None:
    third = MAX_TOTAL_BYTES // 3
    names = [kept(folder, n, age_s=FRESH_S + n, size=third) for n in (4, 2, 3, 1)]

    assert removed(folder) == (names[0],)


def test_of_too_many_files_the_oldest_go_first(folder: Path) -> None:
    for number in range(MAX_OUTPUTS + 2):
        kept(folder, number, age_s=FRESH_S + number)

    assert removed(folder) == tuple(
        f"{number:032x}.log" for number in (MAX_OUTPUTS + 1, MAX_OUTPUTS)
    )


def test_recent_outputs_stay_whatever_their_size(folder: Path) -> None:
    for number in range(3):
        kept(folder, number, age_s=FRESH_S - 1, size=MAX_TOTAL_BYTES)
    path = folder / JUST_KEPT
    path.touch()
    os.utime(path, (0, 0))

    assert removed(folder) == ()


def test_entries_with_another_name_and_folders_stay(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path / "mine.log"
    outside.write_text("mine", encoding="utf-8")
    os.utime(outside, (0, 0))
    (folder / f"{1:032x}.log").symlink_to(outside)
    (folder / f"{2:032x}.log").mkdir()
    for name in ("notes.log", f"{3:032x}.txt", f"{'A' * 32}.log"):
        (folder / name).touch()
        os.utime(folder / name, (0, 0))
    before = names_in(folder)

    assert removed(folder) == ()
    assert names_in(folder) == before
    assert outside.exists()


@pytest.mark.parametrize("link", [".ai", ".ai/state", ".ai/state/outputs"])
def test_no_file_is_removed_through_a_link(folder: Path, tmp_path: Path, link: str) -> None:
    name = kept(folder, 1, age_s=MAX_AGE_S + 1)
    real = tmp_path / "real"
    (tmp_path / link).rename(real)
    (tmp_path / link).symlink_to(real, target_is_directory=True)

    assert removed(folder) == ()
    assert (folder / name).exists()


def test_a_missing_folder_is_no_error(tmp_path: Path) -> None:
    assert removed(tmp_path / "none") == ()


def test_keeping_one_removes_the_old_ones(tmp_path: Path) -> None:
    context: Context = context_from({"HOME": str(tmp_path)}, cwd=tmp_path, project=str(tmp_path))
    envelope = {"status": "success", "data": "x" * 3000}
    _, first = windowed(envelope, context, 1000)
    assert first
    os.utime(first.path, (0, 0))

    _, second = windowed(envelope, context, 1000)

    assert second
    assert names_in(outputs_folder(context)) == [second.path.name]
