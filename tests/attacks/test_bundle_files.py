"""An attacker who may write into a bundle's folder, but does not have its key."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from lillux.errors import LilluxError
from lillux.signing import generate_keypair
from lillux.values import replace
from ryeos.items.errors import IntegrityError, UntrustedKeyError
from ryeos.items.refs import Kind, Space
from ryeos.trust.bundles import manifest_path, verify_manifest
from ryeos.trust.verify import Target, VerifiedItem
from tests.support.signed_files import put_key_document, sign_text
from tests.support.workspace import Workspace

TOOL = "tools/rye/bash/bash.yaml"
INSTALL_AGAIN = "install the bundle (or rye.pyz) again"
posix = pytest.mark.skipif(sys.platform == "win32", reason="links and FIFOs")


@pytest.fixture
def bundle(tmp_path: Path, bundle: Space) -> Space:
    """A copy of the bundle for each test."""
    return replace(bundle, base=shutil.copytree(bundle.base, tmp_path / "ryeos"))


@pytest.fixture
def unpinned(bundle: Space) -> Space:
    """The same, as `RYE_BUNDLE_PATH` names it: only the bundle itself vouches for its key."""
    return Space(bundle.label, bundle.base)


def verify(workspace: Workspace, space: Space, relative: str = TOOL) -> VerifiedItem:
    workspace.bundles = (space,)
    kind = Kind.TOOL if relative.startswith("tools") else Kind.CONFIG
    return workspace.rye().verifier.verify(Target(path=space.ai / relative, kind=kind, space=space))


def assert_not_published(workspace: Workspace, space: Space, relative: str = TOOL) -> None:
    with pytest.raises(IntegrityError) as error:
        verify(workspace, space, relative)
    path = space.ai / relative
    assert str(error.value) == (f"not the file that the bundle ryeos was published with: {path}")
    assert error.value.hint == INSTALL_AGAIN


@pytest.fixture(params=["pinned", "unpinned"])
def space(request: pytest.FixtureRequest, bundle: Space, unpinned: Space) -> Space:
    """Both kinds of bundle."""
    return bundle if request.param == "pinned" else unpinned


def test_an_untouched_file_is_valid(workspace: Workspace, space: Space) -> None:
    item = verify(workspace, space)

    assert item.verified
    assert item.key
    assert item.key.source == "system:ryeos"


def test_an_edited_file_is_refused(workspace: Workspace, space: Space) -> None:
    path = space.ai / TOOL
    path.write_bytes(path.read_bytes() + b"\n")

    assert_not_published(workspace, space)


def test_other_line_ends_are_an_edit_too(workspace: Workspace, space: Space) -> None:
    path = space.ai / TOOL
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    assert_not_published(workspace, space)


def test_a_new_time_in_the_signature_line_is_an_edit_too(
    workspace: Workspace, space: Space
) -> None:
    path = space.ai / TOOL
    path.write_bytes(path.read_bytes().replace(b"2026-01-02T", b"2026-01-03T", 1))

    assert_not_published(workspace, space)


def test_a_file_dropped_into_the_bundle_is_refused_for_every_signer(
    workspace: Workspace, space: Space
) -> None:
    text = (space.ai / TOOL).read_text(encoding="utf-8")
    dropped = space.ai / "tools/rye/bash/evil.yaml"
    dropped.write_text(sign_text(Kind.TOOL, ".yaml", text, workspace.keypair), encoding="utf-8")

    assert_not_published(workspace, space, "tools/rye/bash/evil.yaml")


def test_a_published_file_under_another_name_is_refused(workspace: Workspace, space: Space) -> None:
    shutil.copy(space.ai / TOOL, space.ai / "tools/rye/bash/copy.yaml")

    assert_not_published(workspace, space, "tools/rye/bash/copy.yaml")


@posix
def test_a_link_to_a_published_file_is_not_that_file(workspace: Workspace, space: Space) -> None:
    (space.ai / "tools/rye/bash/link.yaml").symlink_to("bash.yaml")

    assert_not_published(workspace, space, "tools/rye/bash/link.yaml")


@posix
def test_a_link_out_of_the_bundle_is_refused_for_every_signer(
    workspace: Workspace, space: Space
) -> None:
    outside = workspace.project.signed_tool("mine")
    (space.ai / "tools/rye/bash/link.py").symlink_to(outside)

    assert_not_published(workspace, space, "tools/rye/bash/link.py")


@posix
def test_a_bundle_reached_through_a_link_is_the_same_bundle(
    workspace: Workspace, tmp_path: Path, bundle: Space
) -> None:
    link = tmp_path / "link"
    link.symlink_to(bundle.base)
    linked = Space(bundle.label, link, bundle.version, bundle.pinned_pem)
    workspace.bundles = (linked,)
    verifier = workspace.rye().verifier

    for path in (link / ".ai" / TOOL, bundle.ai / TOOL):
        assert verifier.verify(Target(path=path, kind=Kind.TOOL, space=linked)).verified
    (bundle.ai / TOOL).write_bytes(b"changed: true\n")
    with pytest.raises(IntegrityError, match="not the file that the bundle"):
        verifier.verify(Target(path=bundle.ai / TOOL, kind=Kind.TOOL, space=linked))


# --- the manifest ---------------------------------------------------------------------------------


def edit_manifest(space: Space, old: str, new: str) -> None:
    path = manifest_path(space)
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_an_edited_manifest_is_refused(workspace: Workspace, space: Space) -> None:
    edit_manifest(space, '"version":"0.1.0"', '"version":"0.1.1"')

    with pytest.raises(IntegrityError) as error:
        verify(workspace, space)

    assert str(error.value) == (
        f"the bundle's manifest is not what its publisher signed: {manifest_path(space)}"
    )
    assert error.value.hint == INSTALL_AGAIN


def test_a_manifest_counts_without_its_signature_only_as_the_program_brought_it(
    space: Space,
) -> None:
    path = manifest_path(space)
    brought = path.read_bytes()
    name = path.relative_to(space.base).as_posix()
    known = replace(space, vouches=lambda found, data: (found, data) == (name, brought))
    stranger = generate_keypair().public_pem

    assert verify_manifest(known, brought, stranger).own_data == brought
    for other in (brought.replace(b'"sha256":"', b'"sha256":"0', 1), brought + b"\n"):
        with pytest.raises(IntegrityError):
            verify_manifest(known, other, stranger)
    with pytest.raises(IntegrityError):
        verify_manifest(space, brought, stranger)


def test_a_manifest_signed_by_a_key_that_counts_elsewhere_is_refused(
    workspace: Workspace, bundle: Space
) -> None:
    text = manifest_path(bundle).read_text(encoding="utf-8").partition("\n")[2]
    signed = sign_text(Kind.CONFIG, ".toml", text, workspace.keypair)
    manifest_path(bundle).write_text(signed, encoding="utf-8")

    with pytest.raises(IntegrityError, match="not what its publisher signed"):
        verify(workspace, bundle)


def test_a_manifest_of_another_bundle_of_the_same_publisher_is_refused(
    workspace: Workspace, bundle: Space
) -> None:
    """The publisher's signature holds, the list is that of something else."""
    moved = Space("system:other", bundle.base, pinned_pem=bundle.pinned_pem)
    manifest_path(moved).parent.mkdir()
    manifest_path(bundle).rename(manifest_path(moved))

    with pytest.raises(IntegrityError) as error:
        verify(workspace, moved)

    assert str(error.value) == (
        f"the manifest is that of another bundle, 'ryeos': {manifest_path(moved)}"
    )


def test_the_programs_own_bundle_must_have_its_manifest(
    workspace: Workspace, bundle: Space
) -> None:
    manifest_path(bundle).unlink()

    with pytest.raises(IntegrityError) as error:
        verify(workspace, bundle)

    assert str(error.value) == f"the bundle ryeos has no manifest: {bundle.ai}"


def test_without_a_manifest_each_file_of_another_bundle_speaks_for_itself(
    workspace: Workspace, unpinned: Space
) -> None:
    manifest_path(unpinned).unlink()
    assert verify(workspace, unpinned).verified
    path = unpinned.ai / TOOL

    path.write_bytes(path.read_bytes() + b"# more\n")

    with pytest.raises(IntegrityError, match="content modified since signing"):
        verify(workspace, unpinned)


@posix
def test_a_fifo_as_manifest_is_an_error_and_no_wait(workspace: Workspace, space: Space) -> None:
    manifest_path(space).unlink()
    os.mkfifo(manifest_path(space))

    with pytest.raises(LilluxError, match="expected a regular file"):
        verify(workspace, space)


def test_every_file_of_a_bundle_is_listed(workspace: Workspace, bundle: Space) -> None:
    from ryeos.trust.audit import counts, targets_in_spaces

    workspace.bundles = (bundle,)

    reports = workspace.rye().audit(list(targets_in_spaces([bundle])))

    listed = json.loads(manifest_path(bundle).read_text(encoding="utf-8").partition("\n")[2])
    assert counts(reports) == {"valid": len(listed["files"]) + 1}


# --- the bundle's key -----------------------------------------------------------------------------


def test_the_bundles_key_signs_nothing_outside_the_bundle(
    workspace: Workspace, bundle: Space
) -> None:
    workspace.bundles = (bundle,)
    target = workspace.project.write("tools/rye/bash/other.yaml", (bundle.ai / TOOL).read_bytes())

    with pytest.raises(UntrustedKeyError):
        workspace.rye().verifier.verify(workspace.project.target(target).verify_target)


def test_an_untouched_copy_at_the_same_place_is_as_valid_as_the_original(
    workspace: Workspace, bundle: Space
) -> None:
    workspace.bundles = (bundle,)
    copy = workspace.project.write(TOOL, (bundle.ai / TOOL).read_bytes())
    target = workspace.project.target(copy).verify_target

    item = workspace.rye().verifier.verify(target)

    assert item.key
    assert item.key.source == "system:ryeos"
    copy.write_bytes(copy.read_bytes().replace(b"2026-01-02T", b"2026-01-03T", 1))
    with pytest.raises(UntrustedKeyError):
        workspace.rye().verifier.verify(target)


def test_a_copy_of_a_file_that_the_bundle_no_longer_vouches_for_is_refused(
    workspace: Workspace, bundle: Space
) -> None:
    """Both were changed in the same way: equal bytes alone prove nothing."""
    workspace.bundles = (bundle,)
    evil = (bundle.ai / TOOL).read_bytes().replace(b"2026-01-02T", b"2026-01-03T", 1)
    (bundle.ai / TOOL).write_bytes(evil)
    copy = workspace.project.write(TOOL, evil)

    with pytest.raises(UntrustedKeyError):
        workspace.rye().verifier.verify(workspace.project.target(copy).verify_target)


def test_a_key_document_dropped_into_the_programs_bundle_is_not_trusted(
    workspace: Workspace, bundle: Space
) -> None:
    attacker = generate_keypair()
    put_key_document(bundle, attacker, attacker)
    text = (bundle.ai / TOOL).read_text(encoding="utf-8")
    (bundle.ai / TOOL).write_text(sign_text(Kind.TOOL, ".yaml", text, attacker), encoding="utf-8")

    assert_not_published(workspace, bundle)


@pytest.mark.parametrize("found", ["folder", "large", "broken manifest"])
def test_a_problem_of_a_bundle_does_not_hide_the_problem_of_a_copy(
    workspace: Workspace, bundle: Space, found: str
) -> None:
    workspace.bundles = (bundle,)
    copy = workspace.project.write(TOOL, (bundle.ai / TOOL).read_bytes())
    if found == "broken manifest":
        manifest_path(bundle).write_bytes(b"")
    else:
        (bundle.ai / TOOL).unlink()
    if found == "folder":
        (bundle.ai / TOOL).mkdir()
    elif found == "large":
        (bundle.ai / TOOL).write_bytes(b"#" * (9 * 1024 * 1024))

    with pytest.raises(UntrustedKeyError) as error:
        workspace.rye().verifier.verify(workspace.project.target(copy).verify_target)

    assert error.value.path == str(copy)
