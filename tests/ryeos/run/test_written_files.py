"""The files that a run wrote, and the digest of its program, whatever times say."""

import json
import os
import socket
import time
from pathlib import Path

import pytest

from ryeos.run.programs import ProgramDigests, program_at
from ryeos.run.written_files import (
    MAX_ENTRIES,
    MAX_FILES,
    MAX_TEXT,
    Look,
    WrittenFiles,
    look_at,
    written_files,
)


def settle() -> None:
    """Wait until a change of a file has a later change time than those before."""
    start = time.time_ns()
    while time.time_ns() - start < 60_000_000:
        pass


def looked(folder: Path) -> Look:
    """A look at a folder that no change before it can be taken for one after it."""
    settle()
    return look_at([str(folder)])


def names(before: Look) -> list[str]:
    return [Path(path).name for path, _ in written_files(before).files]


def changes(before: Look) -> dict[str, tuple[object, ...]]:
    return {
        Path(one["path"]).name: tuple(one[key] for key in one if key != "path")
        for one in written_files(before).changes
    }


def test_a_file_whose_times_were_set_back_is_found(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("before", encoding="utf-8")
    before = looked(tmp_path)

    (tmp_path / "hidden").write_text("written", encoding="utf-8")
    os.utime(tmp_path / "hidden", (0, 0))

    assert names(before) == ["hidden"]


def test_a_renamed_file_is_removed_under_one_name_and_written_under_the_other(
    tmp_path: Path,
) -> None:
    (tmp_path / "old").write_text("before", encoding="utf-8")
    before = looked(tmp_path)

    (tmp_path / "old").rename(tmp_path / "new")

    assert names(before) == ["new"]
    assert changes(before) == {"old": ("file", "removed")}


def test_what_a_moved_folder_brings_is_found_though_it_is_old(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/file").write_text("old", encoding="utf-8")
    before = looked(tmp_path / "out")

    (tmp_path / "elsewhere").rename(tmp_path / "out/moved")

    assert names(before) == ["file"]
    assert changes(before) == {"moved": ("folder", "made")}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and modes are of POSIX")
def test_links_pipes_sockets_and_folders_are_named_by_kind(tmp_path: Path) -> None:
    before = looked(tmp_path)

    (tmp_path / "link").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))

    assert changes(before) == {
        "link": ("link", "made", "/etc/passwd"),
        "pipe": ("pipe", "made"),
        "folder": ("folder", "made"),
        "socket": ("socket", "made"),
    }
    assert written_files(before).is_complete


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
def test_other_modes_are_named_also_of_folders(tmp_path: Path) -> None:
    (tmp_path / "file").touch(0o644)
    (tmp_path / "folder").mkdir(0o755)
    before = looked(tmp_path)

    (tmp_path / "file").chmod(0o600)
    (tmp_path / "folder").chmod(0o700)
    tmp_path.chmod(0o711)

    assert changes(before) == {
        "file": ("file", "changed", "0600"),
        "folder": ("folder", "changed", "0700"),
        tmp_path.name: ("folder", "changed", "0711"),
    }


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_cannot_be_read_is_named_without_a_digest(tmp_path: Path) -> None:
    before = looked(tmp_path)

    (tmp_path / "closed").touch(0o000)

    assert changes(before) == {"closed": ("file", "unreadable")}


def test_nothing_is_named_where_nothing_changed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("old", encoding="utf-8")
    (tmp_path / "folder/link").symlink_to("file")

    assert written_files(looked(tmp_path)) == WrittenFiles()


def test_a_folder_that_is_not_there_is_complete(tmp_path: Path) -> None:
    assert written_files(look_at([str(tmp_path / "none")])) == WrittenFiles()


@pytest.mark.parametrize("count", [MAX_FILES + 1, MAX_ENTRIES + 1])
def test_more_files_than_are_looked_at_are_said_to_be_missing(tmp_path: Path, count: int) -> None:
    before = look_at([str(tmp_path)])
    for number in range(count):
        (tmp_path / str(number)).touch()

    assert not written_files(before).is_complete


def test_names_that_are_too_long_together_are_said_to_be_missing(tmp_path: Path) -> None:
    before = look_at([str(tmp_path)])
    for number in range(MAX_FILES):
        (tmp_path / (str(number) + "\N{EURO SIGN}" * 80)).symlink_to("\N{EURO SIGN}" * 1000)

    found = written_files(before)

    assert not found.is_complete
    assert len(json.dumps(found.changes)) < 2 * MAX_TEXT


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
