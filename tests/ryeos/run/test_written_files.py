"""The files that a run wrote, and the digest of its program, whatever times say."""

import os
import time
from pathlib import Path

import pytest

from ryeos.run.programs import ProgramDigests, program_at
from ryeos.run.written_files import MAX_ENTRIES, MAX_FILES, written_files


def names(folder: Path, since_ns: int) -> list[str]:
    return [Path(path).name for path, _ in written_files([str(folder)], since_ns).files]


def settle() -> int:
    """A moment after which a change of a file has a later change time than those before."""
    start = time.time_ns()
    while time.time_ns() - start < 60_000_000:
        pass
    return time.time_ns()


def test_a_file_whose_times_were_set_back_is_found(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("before", encoding="utf-8")
    since_ns = settle()

    (tmp_path / "hidden").write_text("written", encoding="utf-8")
    os.utime(tmp_path / "hidden", (0, 0))

    assert names(tmp_path, since_ns) == ["hidden"]


def test_a_renamed_file_is_found(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("before", encoding="utf-8")
    since_ns = settle()

    (tmp_path / "old").rename(tmp_path / "new")

    assert names(tmp_path, since_ns) == ["new"]


def test_links_and_pipes_are_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "link").symlink_to("/etc/passwd")
    if hasattr(os, "mkfifo"):
        os.mkfifo(folder / "pipe")

    found = written_files([str(folder), str(tmp_path / "none")], 0)

    assert found.files == ()
    assert found.is_complete


@pytest.mark.parametrize("count", [MAX_FILES + 1, MAX_ENTRIES + 1])
def test_more_files_than_are_looked_at_are_said_to_be_missing(tmp_path: Path, count: int) -> None:
    since_ns = 0 if count == MAX_FILES + 1 else time.time_ns() + 10**12
    for number in range(count):
        (tmp_path / str(number)).touch()

    assert not written_files([str(tmp_path)], since_ns).is_complete


def test_the_digest_is_of_the_program_as_it_was_started(tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_bytes(b"one")
    digests = ProgramDigests(tmp_path / "state.json")

    started = program_at(str(path))
    first = digests.digest(started)
    status = path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    assert len(first) == 64
    assert digests.digest(started) == ""  # other bytes are there since
    assert digests.digest(program_at(str(path))) not in {first, ""}
    assert digests.digest(program_at(str(tmp_path / "none"))) == ""


def test_a_digest_is_read_from_the_cache_while_nothing_changed(tmp_path: Path) -> None:
    digests = ProgramDigests(tmp_path / "state.json")
    program = program_at("/bin/sh")

    first = digests.digest(program)

    assert first == digests.digest(program)
    assert ProgramDigests(tmp_path / "state.json").digest(program_at("/bin/sh")) == first
    assert (tmp_path / "state.json").exists()
