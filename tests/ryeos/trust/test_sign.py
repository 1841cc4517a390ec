import os
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lillux.beneath import LinkOnTheWayError
from lillux.errors import FileSystemError
from lillux.files import FileChangedError, FileTooLargeError
from lillux.signing import generate_keypair
from ryeos.items.errors import (
    IntegrityError,
    ItemNotFoundError,
    ItemValidationError,
    SignatureFormatError,
    SystemImmutableError,
    UntrustedKeyError,
)
from ryeos.items.header_values import MetadataError
from ryeos.items.refs import ItemRef, Kind
from ryeos.trust.item_rules import ValidItem, validate_item
from ryeos.trust.sign import Signer
from ryeos.trust.sign_targets import ReadItem, SignTarget
from ryeos.trust.signature import MAX_ITEM_BYTES, Identity
from ryeos.trust.signing_key import SigningKey
from tests.support.signed_files import sign_partly
from tests.support.workspace import NOW, Workspace

posix = pytest.mark.skipif(sys.platform == "win32", reason="links, FIFOs and permissions")


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def sign_afresh(workspace: Workspace, path: Path) -> object:
    """Sign unless there is a valid signature of ours, as ``rye sign`` does."""
    return workspace.signer().sign(workspace.project.target(path), force=False)


# --- signed files ---------------------------------------------------------------------------------


def test_a_signed_file_is_its_text_with_two_more_lines(workspace: Workspace) -> None:
    path = workspace.project.tool("mine/hello", "print('hello')\n")
    text = path.read_text(encoding="utf-8")

    report = workspace.project.sign(path)

    assert report.signature
    assert path.read_text(encoding="utf-8") == (
        f"# {report.signature.core()}\n# rye:item:tool:mine/hello:py:1.0.0\n{text}"
    )
    assert report.signature.fingerprint == workspace.fingerprint
    assert (report.unchanged, report.warnings, report.error) == (False, (), None)


def test_each_kind_of_item_can_be_signed(workspace: Workspace) -> None:
    project = workspace.project
    paths = [
        project.tool("a/one"),
        project.yaml_tool("a/two", "config: {script: 'true'}\n"),
        project.write("tools/a/three.sh", "echo\n"),
        project.write("tools/a/data.json", "{}"),
        project.write("tools/a/notes.txt", "text"),
        project.directive("a/one"),
        project.knowledge("a/one"),
        project.write("config/a/one.toml", 'version = "1.0.0"\ncategory = "a"\n'),
    ]

    for path in paths:
        project.sign(path)

    verifier = workspace.rye().verifier
    targets = [project.target(path).verify_target for path in paths]
    assert all(verifier.verify(target).verified for target in targets)


def test_a_shell_script_keeps_its_shebang_on_the_first_line(workspace: Workspace) -> None:
    path = workspace.project.write("tools/x.sh", "#!/bin/sh\necho\n")

    workspace.project.sign(path)

    assert [line[:12] for line in lines(path)] == [
        "#!/bin/sh",
        "# rye:signed",
        "# rye:item:t",
        "echo",
    ]


def test_line_endings_become_line_feeds(workspace: Workspace) -> None:
    path = workspace.project.tool("x")
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    workspace.project.sign(path)

    assert b"\r" not in path.read_bytes()


@posix
def test_a_signed_file_keeps_its_permissions(workspace: Workspace) -> None:
    path = workspace.project.tool("x")
    path.chmod(0o750)

    workspace.project.sign(path)

    assert stat.S_IMODE(path.stat().st_mode) == 0o750


@posix
def test_a_link_inside_a_project_is_not_followed_by_signing(workspace: Workspace) -> None:
    path = workspace.project.tool("a/x")
    before = path.read_bytes()
    link = workspace.project.space.ai / "tools" / "a" / "y.py"
    link.symlink_to("x.py")

    with pytest.raises(LinkOnTheWayError, match=r"a link to x\.py"):
        workspace.project.sign(link)

    assert path.read_bytes() == before


def test_a_link_inside_user_space_is_followed_by_signing(workspace: Workspace) -> None:
    path = workspace.user.tool("a/x")
    link = workspace.user.space.ai / "tools" / "a" / "y.py"
    link.symlink_to("x.py")

    workspace.user.sign(link)

    assert link.is_symlink()
    assert lines(path)[0].startswith("# rye:signed:")


def test_signing_leaves_only_its_lock_file(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("x")

    files = {p.name for p in workspace.project.space.ai.rglob("*") if p.is_file()}

    assert files == {path.name, "sign.lock"}


# --- signing again --------------------------------------------------------------------------------


def test_a_validly_signed_file_is_left_alone(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("x")
    before = path.stat()

    report = sign_afresh(workspace, path)

    assert getattr(report, "unchanged", None) is True
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def test_an_edited_file_is_signed_again(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("x")
    with path.open("a", encoding="utf-8") as file:
        file.write("# more\n")

    report = sign_afresh(workspace, path)

    assert getattr(report, "unchanged", None) is False
    assert lines(path)[-1] == "# more"


def test_a_file_of_another_signer_is_signed_with_our_key(workspace: Workspace) -> None:
    friend = generate_keypair()
    workspace.user.trust(friend)
    path = workspace.project.tool("x")
    workspace.project.sign(path, friend)

    report = sign_afresh(workspace, path)

    assert getattr(report, "unchanged", None) is False
    assert lines(path)[0].endswith(workspace.fingerprint)


def test_a_directive_of_ours_that_is_only_partly_covered_is_signed_again(
    workspace: Workspace,
) -> None:
    """Another program has signed with this key before, without a covers line."""
    old_key = generate_keypair()
    workspace.user.trust(old_key, covers_all=False)
    path = workspace.project.directive("x")
    text = path.read_text(encoding="utf-8")
    path.write_text(sign_partly(Kind.DIRECTIVE, text, old_key), encoding="utf-8")

    report = workspace.signer(old_key).sign(workspace.project.target(path), force=False)

    assert not report.unchanged
    assert lines(path)[1].startswith("<!-- rye:covers:all:")


def test_a_directive_that_lost_its_signature_line_gets_both_again(workspace: Workspace) -> None:
    path = workspace.project.directive("x")
    workspace.project.sign(path)
    signed = path.read_text(encoding="utf-8")
    path.write_text(signed.partition("\n")[2], encoding="utf-8")

    workspace.project.sign(path)

    assert path.read_text(encoding="utf-8") == signed


# --- refusals -------------------------------------------------------------------------------------


def assert_refused(workspace: Workspace, path: Path, error: type[Exception]) -> str:
    """Signing fails, and the file is as it was."""
    before = path.read_bytes()

    with pytest.raises(error) as caught:
        workspace.project.sign(path)

    assert path.read_bytes() == before
    assert not path.with_name(f"{path.name}.sig").exists()
    return str(caught.value)


def test_an_item_that_breaks_rules_is_not_signed_and_all_problems_are_reported(
    workspace: Workspace,
) -> None:
    path = workspace.project.write(
        "tools/a/x.py", '__tool_type__ = "python"\n__version__ = "1.0"\n__category__ = "b"\n'
    )

    message = assert_refused(workspace, path, ItemValidationError)

    assert message == (
        f"{path}: Field 'version' must be semver format (X.Y.Z), got '1.0';"
        " Field 'category' value 'b' must match path category 'a';"
        " Missing required field: description"
    )


@pytest.mark.parametrize(
    ("relative", "text", "error"),
    [
        ("tools/x.py", "def broken(:\n", MetadataError),
        ("tools/x.yaml", "a: [\n", MetadataError),
        ("tools/x.toml", "a =\n", MetadataError),
        ("directives/x.md", "prose\n", MetadataError),
        ("directives/x.md", "```xml\n<directive\n```\n", MetadataError),
        ("knowledge/x.md", "```yaml\na: [\n```\n", MetadataError),
        ("tools/x.sh", "echo\r\n", SignatureFormatError),
        ("tools/x.js", "#!/usr/bin/node\n", SignatureFormatError),
        ("config/x.yaml", "#!/bin/x\nversion: 1.0.0\n", SignatureFormatError),
        ("tools/x.py", "#!/bin/x coding: latin-1\n", SignatureFormatError),
        ("tools/x.py", "\ufeff__version__ = '1.0.0'\n", SignatureFormatError),
        ("tools/x.yaml", "\ufeffversion: 1.0.0\n", SignatureFormatError),
    ],
)
def test_a_file_that_cannot_be_read_as_an_item_is_not_signed(
    workspace: Workspace, relative: str, text: str, error: type[Exception]
) -> None:
    path = workspace.project.write(relative, text.encode())

    message = assert_refused(workspace, path, error)

    assert str(path) in message


def test_a_byte_order_mark_is_reported(workspace: Workspace) -> None:
    path = workspace.project.write("tools/x.yaml", b"\xef\xbb\xbfversion: 1.0.0\n")

    message = assert_refused(workspace, path, SignatureFormatError)

    assert message == f"byte order mark at the start of the file: {path}"


def test_a_file_that_is_not_text_is_not_signed(workspace: Workspace) -> None:
    path = workspace.project.write("tools/x.py", b"x = '\xff'\n")

    message = assert_refused(workspace, path, SignatureFormatError)

    assert message == f"expected UTF-8 text, found another byte at offset 5: {path}"


@pytest.mark.skipif(sys.platform != "linux", reason="names are any bytes there")
def test_a_file_whose_name_is_not_text_is_not_signed(workspace: Workspace) -> None:
    path = workspace.project.write(f"tools/{os.fsdecode(b'caf' + bytes([0xE9]))}.sh", "echo 1\n")

    message = assert_refused(workspace, path, ItemValidationError)

    assert message.endswith("caf\\xe9.sh: its name is not UTF-8: rename it")


def test_a_file_that_is_too_large_is_not_signed(workspace: Workspace) -> None:
    path = workspace.project.write("tools/x.py", b"#" * (MAX_ITEM_BYTES + 1))

    assert_refused(workspace, path, FileTooLargeError)


def test_a_missing_file_is_not_found(workspace: Workspace) -> None:
    path = workspace.project.space.ai / "tools" / "x.py"

    with pytest.raises(ItemNotFoundError) as error:
        workspace.project.sign(path)

    assert str(error.value) == "Tool not found: x (searched: project)"


@posix
def test_a_fifo_is_not_waited_for(workspace: Workspace) -> None:
    path = workspace.project.space.ai / "tools" / "x.py"
    path.parent.mkdir()
    os.mkfifo(path)

    with pytest.raises(FileSystemError, match="expected a regular file"):
        workspace.project.sign(path)


def test_a_folder_with_the_name_of_an_item_is_refused(workspace: Workspace) -> None:
    path = workspace.project.space.ai / "tools" / "x.py"
    path.mkdir(parents=True)

    with pytest.raises(FileSystemError):
        workspace.project.sign(path)


def test_a_system_item_is_never_signed(workspace: Workspace) -> None:
    space = workspace.bundles[0]
    ref = ItemRef(Kind.TOOL, "rye/bash/bash")
    path = space.ai / "tools" / "rye" / "bash" / "bash.yaml"

    with pytest.raises(SystemImmutableError) as error:
        workspace.signer().sign(SignTarget(path=path, kind=Kind.TOOL, space=space, ref=ref))

    assert str(error.value) == "tool:rye/bash/bash: system items cannot be changed"
    assert error.value.hint == "copy it first: rye load tool:rye/bash/bash --to project"


@posix
@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_link_out_of_the_space_is_not_followed_by_signing(
    workspace: Workspace, link: str
) -> None:
    outside = workspace.folder / "outside" / "x.py"
    outside.parent.mkdir()
    outside.write_text('"""No item."""\n', encoding="utf-8")
    folder = workspace.project.space.ai / "tools"
    folder.mkdir()
    if link == "file":
        (folder / "x.py").symlink_to(outside)
    else:
        (folder / "sub").symlink_to(outside.parent)
    path = folder / "x.py" if link == "file" else folder / "sub" / "x.py"

    with pytest.raises(IntegrityError) as error:
        workspace.project.sign(path)

    assert str(error.value) == (f"symlink escape: the file lies outside the project space: {path}")
    assert outside.read_text(encoding="utf-8") == '"""No item."""\n'


def test_an_untrusted_key_is_noticed_after_signing(
    workspace: Workspace,
) -> None:
    path = workspace.project.tool("x")

    with pytest.raises(UntrustedKeyError):
        workspace.project.sign(path, generate_keypair())

    assert lines(path)[0].startswith("# rye:signed:")


def test_an_edit_during_signing_is_kept_without_a_signature(
    workspace: Workspace,
) -> None:
    path = workspace.project.tool("x")

    def clock() -> datetime:
        path.write_text("# an edit that comes between reading and writing\n", encoding="utf-8")
        return NOW

    signer = Signer(SigningKey(workspace.keypair, clock), workspace.rye().verifier)

    with pytest.raises(FileChangedError):
        signer.sign(workspace.project.target(path))

    assert lines(path) == ["# an edit that comes between reading and writing"]


# --- many files -----------------------------------------------------------------------------------


def test_a_failure_does_not_stop_signing_of_other_files(workspace: Workspace) -> None:
    paths = [workspace.project.tool("a"), workspace.project.write("tools/b.py", "(")]
    paths.append(workspace.project.tool("c"))
    targets = [workspace.project.target(path) for path in paths]

    reports = list(workspace.signer().sign_all(targets, force=False))

    assert [report.signature is not None for report in reports] == [True, False, True]
    assert [type(report.error) for report in reports] == [type(None), MetadataError, type(None)]


def test_very_many_files_are_signed_in_their_order(
    workspace: Workspace,
) -> None:
    paths = [workspace.project.tool(f"many/t{number}") for number in range(300)]
    targets = [workspace.project.target(path) for path in paths]

    reports = list(workspace.signer().sign_all(targets, force=False))

    assert [report.target for report in reports] == targets
    assert all(report.signature for report in reports)
    assert {path.suffix for path in paths[0].parent.iterdir()} == {".py"}


def test_after_an_interrupt_each_file_is_signed_or_unchanged(workspace: Workspace) -> None:
    paths = [workspace.project.tool(f"many/t{number}") for number in range(3)]
    targets = [workspace.project.target(path) for path in paths]
    before = [path.read_bytes() for path in paths]

    def interrupt(item: ReadItem, _: ValidItem) -> None:
        if item.target is targets[2]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(workspace.signer().sign_all(targets, force=False, require=interrupt))

    assert [path.read_bytes() == text for path, text in zip(paths, before, strict=True)] == [
        False,  # signed, and on the disk, before the others were begun
        True,
        True,
    ]
    assert sorted(paths[0].parent.iterdir()) == sorted(paths)


# --- modules, warnings ----------------------------------------------------------------------------


def test_a_module_beside_a_tool_without_a_header_is_signed_with_a_warning(
    workspace: Workspace,
) -> None:
    path = workspace.project.write("tools/a/__init__.py", "")

    report = workspace.project.sign(path)

    assert report.warnings == (
        f"{path} has no header: signed as a module, not as a tool that can be run",
    )


@posix
def test_a_world_writable_file_gives_a_warning(workspace: Workspace) -> None:
    path = workspace.project.tool("x")
    path.chmod(0o666)

    report = workspace.project.sign(path)

    assert report.warnings == (f"{path} can be written by every user of this machine",)


def test_a_data_file_is_signed_without_parsing(workspace: Workspace) -> None:
    path = workspace.project.write("tools/a/data.json", "not json")

    valid = validate_item(workspace.project.target(path), b"not json")

    assert valid == ValidItem(None, Identity("tool", "a/data", "json"))


def test_the_clock_is_read_once_for_each_signature(workspace: Workspace) -> None:
    times = iter([datetime(2030, 1, 1, tzinfo=UTC)])
    path = workspace.project.directive("x")
    signer = Signer(SigningKey(workspace.keypair, lambda: next(times)), workspace.rye().verifier)

    report = signer.sign(workspace.project.target(path))

    assert report.signature
    assert report.signature.timestamp == "2030-01-01T00:00:00Z"
