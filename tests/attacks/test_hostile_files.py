"""Files in place of items that block a reader, are huge, are no text or cannot be read."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lillux.errors import FileSystemError, LilluxError
from ryeos.items.errors import (
    IntegrityError,
    ItemNotFoundError,
    SignatureFormatError,
    UnsignedError,
)
from ryeos.items.header_values import MetadataError
from ryeos.trust.verify import Target
from tests.support.workspace import Workspace

posix = pytest.mark.skipif(sys.platform == "win32", reason="FIFOs, devices, permissions")
MIB = 1024 * 1024


def failure(workspace: Workspace, item_id: str = "x") -> LilluxError:
    result = workspace.run(item_id)
    assert not result.success
    assert result.failure
    return result.failure


def place(workspace: Workspace) -> Path:
    path = workspace.project.space.ai / "tools" / "x.py"
    path.parent.mkdir()
    return path


def target(workspace: Workspace, path: Path) -> Target:
    return workspace.project.target(path).verify_target


# --- no regular files -----------------------------------------------------------------------------


@posix
def test_a_fifo_is_no_item_and_its_writer_is_not_waited_for(workspace: Workspace) -> None:
    path = place(workspace)
    os.mkfifo(path)

    assert type(failure(workspace)) is ItemNotFoundError
    with pytest.raises(FileSystemError, match="expected a regular file"):
        workspace.rye().verifier.verify(target(workspace, path))


@posix
@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/tty"])
def test_a_device_is_no_item(workspace: Workspace, device: str) -> None:
    path = place(workspace)
    path.symlink_to(device)

    assert type(failure(workspace)) is ItemNotFoundError
    with pytest.raises(LilluxError):
        workspace.rye().verifier.verify(target(workspace, path))


@posix
def test_a_device_node_inside_the_space_is_no_item(workspace: Workspace) -> None:
    path = place(workspace)
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("making a device node needs a privilege")

    assert type(failure(workspace)) is ItemNotFoundError
    with pytest.raises(LilluxError):
        workspace.rye().verifier.verify(target(workspace, path))


def test_a_folder_with_the_name_of_an_item_is_no_item(workspace: Workspace) -> None:
    place(workspace).mkdir()

    assert type(failure(workspace)) is ItemNotFoundError


def test_a_folder_does_not_hide_the_item_behind_it(workspace: Workspace) -> None:
    place(workspace).mkdir()
    path = workspace.project.signed("tools/x.sh", "echo '{}'\n")

    resolution = workspace.rye().load(workspace.rye().reference("tool:x"))[0]

    assert resolution.location.path == path


@posix
def test_a_socket_is_no_item(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    path = place(workspace)
    monkeypatch.chdir(path.parent)  # the path of a socket may only be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)

        assert type(failure(workspace)) is ItemNotFoundError


# --- files that cannot be read --------------------------------------------------------------------


@contextmanager
def powerless(*folders: Path) -> Iterator[None]:
    """The rights of the user ``nobody``, who may enter the folders, where the tests run as root."""
    if os.geteuid() != 0:
        yield
        return
    modes = [(folder, stat.S_IMODE(folder.stat().st_mode)) for folder in folders]
    modes = [(folder, mode) for folder, mode in modes if not mode & 0o001]
    for folder, mode in modes:
        folder.chmod(mode | 0o111)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        for folder, mode in modes:
            folder.chmod(mode)


@posix
def test_a_file_that_may_not_be_read_says_so(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("x")
    path.chmod(0)
    verifier = workspace.rye().verifier

    with powerless(*path.parents), pytest.raises(FileSystemError) as error:
        verifier.verify(target(workspace, path))

    assert str(error.value) == f"{path}: permission denied"
    assert error.value.hint == "check the permissions of the file and of its folder"


# --- contents -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [b"\xff\xfe", b"x = '\xc3\x28'\n", "x = 1\n".encode("utf-16"), b"\xed\xa0\x80", b"\x80"],
    ids=["byte order mark of UTF-16", "cut short", "UTF-16", "surrogate", "continuation"],
)
def test_bytes_that_are_no_utf_8_are_refused(workspace: Workspace, data: bytes) -> None:
    path = workspace.project.write("tools/x.py", data)

    error = failure(workspace)

    assert type(error) is SignatureFormatError
    assert str(error).startswith("expected UTF-8 text, found another byte at offset ")
    assert str(error).endswith(f": {path}")


def test_a_signature_below_a_byte_order_mark_does_not_count(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("x")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())

    assert type(failure(workspace)) is UnsignedError


def test_null_characters_before_the_signature_make_it_invalid(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("x")
    path.write_bytes(b"\0" + path.read_bytes())

    assert type(failure(workspace)) is UnsignedError


@pytest.mark.parametrize("size", [9, 10, 100])
def test_a_file_of_many_mebibytes_is_refused_before_it_is_read(
    workspace: Workspace, size: int
) -> None:
    path = place(workspace)
    with path.open("wb") as file:
        file.truncate(size * MIB)

    error = failure(workspace)

    assert str(error) == f"item larger than {8 * MIB} bytes ({size * MIB}): {path}"


@pytest.mark.parametrize(
    ("suffix", "header"),
    [
        (".py", 'X = "{}"\n'),
        (".yaml", 'x: "{}"\n'),
        (".toml", 'x = "{}"\n'),
        (".js", 'const X = "{}";\n'),
        (".sh", "# {}\n"),
    ],
)
def test_a_signed_header_of_7_mib_is_refused_or_run_but_never_a_traceback(
    workspace: Workspace, suffix: str, header: str
) -> None:
    text = header.format("x" * (7 * MIB))
    workspace.project.sign_unchecked(workspace.project.write(f"tools/x{suffix}", text))

    assert isinstance(failure(workspace), LilluxError)


@pytest.mark.parametrize(
    "block",
    ["<directive" * 700_000, "<directive " + "x" * 7 * MIB, "</directive>" * 600_000],
    ids=["starts", "one start", "ends"],
)
def test_a_directive_that_is_mebibytes_of_tags_takes_no_time(
    workspace: Workspace, block: str
) -> None:
    workspace.project.write("directives/x.md", block)

    with pytest.raises(IntegrityError):
        workspace.render("directive:x")


@pytest.mark.parametrize(
    "line",
    [
        "# rye:signed:" + "2" * 7 * MIB,
        "# rye:signed:2026-01-02T03:04:05Z:" + "0" * 64 + ":" + "A" * 7 * MIB,
        "#!/" + "coding:" * MIB,
        "#!/" + " " * 7 * MIB,
    ],
    ids=["time", "signature", "encodings", "blanks"],
)
def test_a_first_line_of_mebibytes_takes_no_time(workspace: Workspace, line: str) -> None:
    workspace.project.write("tools/x.py", f"{line}\n")

    assert isinstance(failure(workspace), IntegrityError)


def test_a_signature_beside_that_is_no_file_is_refused(workspace: Workspace) -> None:
    path = workspace.project.write("tools/x.json", "{}")
    path.with_name("x.json.sig").mkdir()

    with pytest.raises(LilluxError):
        workspace.rye().verifier.verify(target(workspace, path))


def test_a_broken_header_of_a_signed_file_is_an_error_with_its_line(workspace: Workspace) -> None:
    path = workspace.project.write("tools/x.py", "a = 1\nb = (\n")
    workspace.project.sign_unchecked(path)

    error = failure(workspace)

    assert type(error) is MetadataError
    assert str(error).startswith(f"{path}: python header, line 3: ")
