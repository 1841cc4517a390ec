import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from zipimport import zipimporter

import pytest

from tests.support.archives import ENTRY, archive_part, write_archive
from tests.support.built import ROOT
from zipboot.parts import MARK_BYTES, Archive, Part, checksum

DATA = bytes(range(256)) * 40


def test_a_part_is_read_piecewise(tmp_path: Path) -> None:
    part = archive_part(tmp_path / "some.pyz", DATA)

    assert (part.read(0, 3), part.read(256, 2), part.read(0, len(DATA))) == (
        b"\x00\x01\x02",
        b"\x00\x01",
        DATA,
    )


def test_a_part_is_read_after_the_first_line_of_a_program(tmp_path: Path) -> None:
    plain, program = tmp_path / "plain.pyz", tmp_path / "some.pyz"
    archive_part(plain, DATA)
    with program.open("wb") as file:
        file.write(b"#!/usr/bin/env python3\n" + plain.read_bytes())

    part = archive_part_of(program)

    assert part.read(1, 2) == b"\x01\x02"


def archive_part_of(program: Path) -> Part:
    """The part of an archive that is there already."""
    mark = sha256(DATA).digest()[:MARK_BYTES]
    return Part(Archive(zipimporter(str(program))), ENTRY, mark)


def test_a_part_is_read_without_pread_as_on_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "pread")
    part = archive_part(tmp_path / "some.pyz", DATA)

    assert (part.read(255, 2), part.read(0, 1)) == (b"\xff\x00", b"\x00")


def test_an_entry_that_was_deflated_is_read_whole(tmp_path: Path) -> None:
    part = archive_part(tmp_path / "some.pyz", DATA, is_deflated=True)

    assert part.read(256, 2) == b"\x00\x01"


# --- while the program runs -----------------------------------------------------------------------


def test_replacing_the_file_by_name_does_not_affect_reading(tmp_path: Path) -> None:
    path, other = tmp_path / "some.pyz", tmp_path / "other.pyz"
    part = archive_part(path, DATA)

    write_archive(other, DATA[::-1])
    other.replace(path)

    assert part.read(0, 3) == b"\x00\x01\x02"


def test_removing_the_file_does_not_affect_reading(tmp_path: Path) -> None:
    part = archive_part(tmp_path / "some.pyz", DATA)

    (tmp_path / "some.pyz").unlink()

    assert part.read(0, 3) == b"\x00\x01\x02"


@pytest.mark.parametrize("has_been_read", ["at once", "later"])
@pytest.mark.parametrize("written", [b"", b"short", DATA[::-1], DATA * 2], ids=len)
def test_a_file_that_was_written_over_ends_the_program(
    written: bytes, has_been_read: str, tmp_path: Path
) -> None:
    path = tmp_path / "some.pyz"
    part = archive_part(path, DATA)
    if has_been_read == "later":
        part.read(0, 1)

    write_archive(path, written)

    with pytest.raises(SystemExit) as ended:
        part.read(0, 3)
    assert str(ended.value) == (
        f"rye: {path} was replaced by another file while it ran; start it again"
    )


def test_a_file_other_than_the_started_one_ends_the_program(tmp_path: Path) -> None:
    path = tmp_path / "some.pyz"
    mark = write_archive(path, DATA)
    loader = zipimporter(str(path))

    write_archive(path, DATA[::-1])

    with pytest.raises(SystemExit):
        Part(Archive(loader), ENTRY, mark).read(0, 3)


def test_a_file_that_is_gone_when_the_program_starts_ends_it(tmp_path: Path) -> None:
    path = tmp_path / "some.pyz"
    write_archive(path, DATA)
    loader = zipimporter(str(path))

    path.unlink()

    with pytest.raises(SystemExit):
        Archive(loader)


def test_parts_held_in_memory_outlive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "some.pyz"
    part = archive_part(path, DATA)

    part.hold([(0, 3), (256, 2)])
    path.write_bytes(b"something else")

    assert (part.read(0, 3), part.read(256, 2)) == (b"\x00\x01\x02", b"\x00\x01")
    with pytest.raises(SystemExit):
        part.read(0, 4)


# --- damage ---------------------------------------------------------------------------------------


def damage_message(path: Path, piece: str) -> str:
    """The one line about damage."""
    hint = "get it again, or check it with the .sha256 beside it"
    return f"rye: {path} is damaged ({piece}): {hint}\n"


def test_the_checksum_is_the_same_in_every_version_and_on_every_processor() -> None:
    assert checksum(b"abc").hex() == "f2302604a0c33bc0"


def test_a_mark_that_differs_in_the_file_that_was_started_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "some.pyz"
    mark = write_archive(path, DATA)
    path.write_bytes(path.read_bytes().replace(mark, mark[::-1]))

    with pytest.raises(SystemExit) as ended:
        Part(Archive(zipimporter(str(path))), ENTRY, mark).read(0, 3)

    assert ended.value.code == 78
    assert capsys.readouterr() == ("", damage_message(path, ENTRY))


def test_an_offset_beyond_the_end_of_the_file_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = archive_part(tmp_path / "some.pyz", DATA)

    with pytest.raises(SystemExit) as ended:
        part.read(1_000_000, 3)

    assert ended.value.code == 78
    assert re.fullmatch(
        re.escape(damage_message(tmp_path / "some.pyz", "3 bytes at N")).replace(
            "at\\ N", "at [0-9]+"
        ),
        capsys.readouterr().err,
    )


def test_damage_ends_the_program_even_without_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = archive_part(tmp_path / "some.pyz", DATA)
    monkeypatch.setattr(sys, "stderr", None)

    with pytest.raises(SystemExit) as ended:
        part.read(1_000_000, 3)

    assert ended.value.code == 78


CLOSED = """
import os, sys
from zipimport import zipimporter
for number in map(int, sys.argv[2:]):
    os.close(number)
from zipboot.parts import Archive
archive = Archive(zipimporter(sys.argv[1]))
is_whole = len(archive.read(0, 4)) == 4
taken = all(os.path.samestat(os.fstat(int(n)), os.stat(os.devnull)) for n in sys.argv[2:])
os._exit(0 if is_whole and taken and archive._descriptor > 2 else 1)
"""


@pytest.mark.skipif(os.name == "nt", reason="standard streams have other numbers there")
@pytest.mark.parametrize("closed", ["0", "1", "2", "01", "02", "12", "012"])
def test_the_place_of_a_closed_stream_is_not_taken_by_the_program(
    closed: str, tmp_path: Path
) -> None:
    program = tmp_path / "rye.pyz"
    write_archive(program, b"a piece")

    ended = subprocess.run([sys.executable, "-c", CLOSED, program, *closed], cwd=ROOT, check=False)

    assert ended.returncode == 0
