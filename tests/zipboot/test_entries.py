from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from zipboot.fallback import read_whole, require_whole

HINT = "get it again, or check it with the .sha256 beside it"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An archive with two entries."""
    path = tmp_path / "some.pyz"
    with ZipFile(path, "w") as made:
        made.writestr("stored", b"what was stored")
        made.writestr("deflated", b"what was deflated", ZIP_DEFLATED)
    return path


def damage(archive: Path) -> None:
    """Change the first entry."""
    archive.write_bytes(archive.read_bytes().replace(b"was stored", b"is stored "))


def test_a_whole_entry_is_read(archive: Path) -> None:
    assert read_whole(str(archive), "stored") == b"what was stored"
    assert read_whole(str(archive), "deflated") == b"what was deflated"
    require_whole(str(archive), but=())


def test_a_damaged_entry_is_named(archive: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damage(archive)

    with pytest.raises(SystemExit) as ended:
        read_whole(str(archive), "stored")

    assert ended.value.code == 78
    assert capsys.readouterr() == ("", f"rye: {archive} is damaged (stored): {HINT}\n")
    assert read_whole(str(archive), "deflated") == b"what was deflated"


def test_all_entries_have_to_be_whole_but_those_that_are_left_out(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(archive)

    require_whole(str(archive), but=("sto",))
    with pytest.raises(SystemExit):
        require_whole(str(archive), but=("deflated",))

    assert capsys.readouterr().err == f"rye: {archive} is damaged (stored): {HINT}\n"


def test_an_archive_without_its_end_is_damaged(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive.write_bytes(archive.read_bytes()[:-30])

    with pytest.raises(SystemExit):
        read_whole(str(archive), "stored")

    assert capsys.readouterr().err == f"rye: {archive} is damaged (its directory): {HINT}\n"
