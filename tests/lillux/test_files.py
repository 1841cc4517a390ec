import errno
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lillux.contained_paths import is_inside, safe_join
from lillux.errors import FileSystemError, UnsafePathError
from lillux.file_locks import LockTimeoutError, locked
from lillux.files import (
    FileChangedError,
    FileTooLargeError,
    create_file,
    file_system_error,
    is_directory,
    make_directory,
    prepare_write,
    read_bytes,
    replace_together,
    write_atomic,
)

posix = pytest.mark.skipif(sys.platform == "win32", reason="POSIX file types and permissions")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


# --- reading --------------------------------------------------------------------------------------


def test_a_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"12345")

    assert read_bytes(path, 5) == b"12345"


def test_a_larger_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as file:
        file.truncate(2**40)

    with pytest.raises(FileTooLargeError) as error:
        read_bytes(path, 10)

    assert str(error.value) == f"{path}: expected at most 10 bytes, found {2**40}"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="files without a size: Linux")
def test_a_file_that_hides_its_size_is_refused_too() -> None:
    with pytest.raises(FileTooLargeError):
        read_bytes(Path("/proc/self/status"), 10)


def test_a_missing_file_raises_the_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_bytes(tmp_path / "x", 10)


@posix
def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")

    with pytest.raises(FileSystemError) as error:
        read_bytes(tmp_path / "x", 10)

    assert str(error.value) == f"{tmp_path / 'x'}: expected a regular file"


@posix
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/null"])
def test_a_device_is_refused(device: str) -> None:
    with pytest.raises(FileSystemError, match="expected a regular file"):
        read_bytes(Path(device), 10)


def test_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileSystemError) as error:
        read_bytes(tmp_path, 10)

    assert error.value.path == str(tmp_path)


@posix
def test_links_that_lead_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(FileSystemError) as error:
        read_bytes(tmp_path / "a", 10)

    assert error.value.problem == os.strerror(errno.ELOOP).lower()


def test_a_path_with_a_null_character_is_refused() -> None:
    with pytest.raises(FileSystemError) as error:
        read_bytes(Path("a\0b"), 10)

    assert error.value.problem == "the path holds a null character"


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "free some disk space and try again; nothing was changed"),
        (errno.EROFS, "the file system is read-only; nothing was changed"),
        (errno.EACCES, "check the permissions of the file and of its folder"),
        (errno.EIO, ""),
    ],
)
def test_a_refusal_of_the_file_system_has_a_hint(number: int, hint: str) -> None:
    error = file_system_error("/x", OSError(number, os.strerror(number)))

    assert (error.path, error.problem) == ("/x", os.strerror(number).lower())
    assert error.hint == hint


# --- writing --------------------------------------------------------------------------------------


def test_a_file_is_replaced_whole_and_no_temporary_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    write_atomic(path, b"new")

    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["x"]


@posix
def test_a_reader_that_has_the_old_file_open_keeps_it(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    with path.open("rb") as reader:
        write_atomic(path, b"new")

        assert reader.read() == b"old"


@posix
@pytest.mark.parametrize("bits", [0o600, 0o640, 0o777, 0o444])
def test_an_existing_file_keeps_its_permissions(tmp_path: Path, umask: None, bits: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")
    path.chmod(bits)

    write_atomic(path, b"new")

    assert mode(path) == bits


@posix
def test_a_new_file_gets_its_permissions_less_the_umask(tmp_path: Path, umask: None) -> None:
    write_atomic(tmp_path / "x", b"new", mode=0o755)

    assert mode(tmp_path / "x") == 0o700


def test_a_write_goes_ahead_when_the_file_is_as_expected(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"old")

    write_atomic(path, b"new", expected=b"old")

    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("found", [b"an edit", b"", b"old and more"])
def test_an_edit_in_between_is_never_lost(tmp_path: Path, found: bytes) -> None:
    path = tmp_path / "x"
    path.write_bytes(found)

    with pytest.raises(FileChangedError) as error:
        write_atomic(path, b"new", expected=b"old")

    assert str(error.value) == f"{path}: changed by someone else while it was being written"
    assert error.value.hint == "nothing was overwritten; run the command again"
    assert path.read_bytes() == found
    assert names(tmp_path) == ["x"]


def test_a_file_that_was_deleted_in_between_stays_deleted(tmp_path: Path) -> None:
    with pytest.raises(FileChangedError):
        write_atomic(tmp_path / "x", b"new", expected=b"old")

    assert names(tmp_path) == []


@posix
def test_a_fifo_that_took_the_place_of_the_file_is_no_reason_to_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")

    with pytest.raises(FileChangedError):
        write_atomic(tmp_path / "x", b"new", expected=b"old")


def test_a_write_into_a_missing_folder_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileSystemError) as error:
        write_atomic(tmp_path / "a" / "x", b"new")

    assert error.value.path == str(tmp_path / "a" / "x")


@posix
def test_a_write_replaces_a_link_and_not_its_target(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "x").symlink_to("target")

    write_atomic(tmp_path / "x", b"new")

    assert (tmp_path / "target").read_bytes() == b"old"
    assert not (tmp_path / "x").is_symlink()


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_many_files_are_replaced_together(
    tmp_path: Path, platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lillux.files.sys.platform", platform)
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_bytes(b"old")
    writes = [prepare_write(path, b"new", expected=b"old") for path in paths]
    untouched = [path.read_bytes() for path in paths]

    failed = replace_together(writes)

    assert untouched == [b"old"] * 3
    assert failed == {}
    assert [path.read_bytes() for path in paths] == [b"new"] * 3
    assert names(tmp_path) == ["a", "b", "c"]


def test_of_many_files_only_the_changed_one_stays_as_it_is(tmp_path: Path) -> None:
    changed, other = tmp_path / "a", tmp_path / "b"
    writes = [prepare_write(changed, b"new", expected=b"old"), prepare_write(other, b"new")]
    changed.write_bytes(b"edited")

    failed = replace_together(writes)

    assert {path: type(error) for path, error in failed.items()} == {changed: FileChangedError}
    assert (changed.read_bytes(), other.read_bytes()) == (b"edited", b"new")
    assert names(tmp_path) == ["a", "b"]


def test_a_prepared_write_that_is_dropped_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    prepare_write(path, b"new").drop()

    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["a"]


def test_a_file_is_created_once(tmp_path: Path) -> None:
    create_file(tmp_path / "x", b"first")

    with pytest.raises(FileExistsError):
        create_file(tmp_path / "x", b"second")

    assert (tmp_path / "x").read_bytes() == b"first"


@posix
def test_a_created_file_has_its_permissions_from_the_first_byte(tmp_path: Path) -> None:
    create_file(tmp_path / "x", b"secret", mode=0o600)

    assert mode(tmp_path / "x") == 0o600


@posix
def test_creating_does_not_write_through_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("elsewhere")

    with pytest.raises(FileExistsError):
        create_file(tmp_path / "x", b"new")

    assert names(tmp_path) == ["x"]


def test_a_folder_is_made_with_its_parents_and_kept_when_there(tmp_path: Path) -> None:
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "b")

    assert (tmp_path / "a" / "b").is_dir()


def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"")

    with pytest.raises(FileSystemError) as error:
        make_directory(tmp_path / "a")

    assert error.value.path == str(tmp_path / "a")


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("relative", ["a", "a/b.txt", ".hidden/x", "a b/ü/日本", "..a", "a..b"])
def test_a_plain_relative_path_is_joined(tmp_path: Path, relative: str) -> None:
    assert safe_join(tmp_path, relative) == tmp_path / relative


@pytest.mark.parametrize(
    ("relative", "problem"),
    [
        ("", "expected a relative path, found nothing"),
        ("/etc/passwd", "expected a relative path, found an absolute one"),
        ("//server/share", "expected a relative path, found an absolute one"),
        ("..", "'..' segments are not allowed"),
        ("a/../b", "'..' segments are not allowed"),
        ("./a", "'.' segments are not allowed"),
        ("a//b", "empty segments are not allowed"),
        ("a/", "empty segments are not allowed"),
        ("a\\b", "expected '/' as separator, found a backslash"),
        ("..\\b", "expected '/' as separator, found a backslash"),
        ("a\0b", "control characters are not allowed"),
        ("a\nb", "control characters are not allowed"),
        ("a\x7f", "control characters are not allowed"),
        ("c:/windows", "':' is not allowed (drive letters, alternate streams)"),
        ("a:b", "':' is not allowed (drive letters, alternate streams)"),
        ("a./b", "segment 'a.' ends in a dot or a blank, which Windows drops"),
        ("...", "segment '...' ends in a dot or a blank, which Windows drops"),
        ("a /b", "segment 'a ' ends in a dot or a blank, which Windows drops"),
        ("aux", "'aux' names a device on Windows"),
        ("a/NUL.txt", "'NUL.txt' names a device on Windows"),
        ("con .py", "'con .py' names a device on Windows"),
        ("com1", "'com1' names a device on Windows"),
        ("COM¹.py", "'COM¹.py' names a device on Windows"),
        ("lpt³", "'lpt³' names a device on Windows"),
        ("CONIN$", "'CONIN$' names a device on Windows"),
        ("conout$.x", "'conout$.x' names a device on Windows"),
    ],
)
def test_a_path_that_is_not_plain_everywhere_is_refused(
    tmp_path: Path, relative: str, problem: str
) -> None:
    with pytest.raises(UnsafePathError) as error:
        safe_join(tmp_path, relative)

    assert error.value.problem == problem
    assert str(error.value) == f"unsafe path {relative!r}: {problem}"


@pytest.mark.parametrize("name", ["console", "com10", "com", "auxiliary", "nul_", "lpt"])
def test_a_name_that_only_resembles_a_device_is_plain(tmp_path: Path, name: str) -> None:
    assert safe_join(tmp_path, name) == tmp_path / name


@posix
@pytest.mark.parametrize("link", ["../outside", "/etc", "..", "."])
def test_a_link_may_lead_anywhere_below_the_root_only(tmp_path: Path, link: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(link)

    if link == ".":
        assert safe_join(root, "link/x") == root / "link" / "x"
        return
    with pytest.raises(UnsafePathError) as error:
        safe_join(root, "link/x")
    expected = f"{root / 'link'}: a link to {link}, where a file or folder of {root} is expected"
    assert str(error.value) == expected


@posix
def test_a_sibling_with_the_same_beginning_is_outside(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "ab").mkdir()
    (tmp_path / "a" / "link").symlink_to("../ab")

    assert not is_inside(tmp_path / "ab", tmp_path / "a")
    assert not is_inside(tmp_path / "a" / "link" / "x", tmp_path / "a")


@posix
def test_a_root_that_is_reached_through_a_link_holds_its_files(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")

    assert is_inside(tmp_path / "link" / "x", tmp_path / "real")
    assert is_inside(tmp_path / "real" / "x", tmp_path / "link")
    assert is_inside(tmp_path / "link", tmp_path / "link")


def test_an_impossible_path_is_inside_no_folder(tmp_path: Path) -> None:
    assert not is_inside(Path("a\0b"), tmp_path)


def test_only_a_folder_counts_as_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    assert is_directory(tmp_path)
    assert not is_directory(tmp_path / "file")
    assert not is_directory(tmp_path / "nothing")
    assert not is_directory(tmp_path / "file" / "below")
    assert not is_directory(tmp_path / ("x" * 5000))
    assert not is_directory(Path("a\0b"))


# --- locks ----------------------------------------------------------------------------------------

HOLD = """
import sys
from pathlib import Path
from lillux.file_locks import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "state" / "lock")],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_that_another_process_keeps_is_waited_for_only_so_long(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    path = tmp_path / "state" / "lock"

    with pytest.raises(LockTimeoutError) as error, locked(path, timeout_s=0.05):
        pytest.fail("two processes hold one lock")

    assert str(error.value) == f"{path}: still locked by another process after 0.05 s"


def test_a_killed_process_leaves_no_lock(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()

    with locked(tmp_path / "state" / "lock", timeout_s=0):
        pass


def test_a_lock_is_free_again_after_its_block(tmp_path: Path) -> None:
    with locked(tmp_path / "lock", timeout_s=0):
        pass
    with locked(tmp_path / "lock", timeout_s=0):
        pass


@posix
def test_a_lock_file_is_not_made_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(FileSystemError) as error, locked(tmp_path / "lock"):
        pytest.fail("the lock was taken")

    assert error.value.path == str(tmp_path / "lock")
    assert names(tmp_path) == ["lock"]
