import sys
from pathlib import Path

import pytest

from lillux.errors import FileSystemError
from lillux.signing import generate_keypair
from ryeos.items.errors import (
    IntegrityError,
    NoSignatureFormError,
    SignatureFormatError,
    UnsignedError,
    UntrustedKeyError,
)
from ryeos.items.refs import PROJECT, ItemRef, Kind, Location
from ryeos.trust.signature import MAX_ITEM_BYTES
from ryeos.trust.verify import Coverage, Target, VerifiedItem, Verifier, unchanged
from tests.support.signed_files import Shelf, sign_partly, sign_text
from tests.support.workspace import Workspace

posix = pytest.mark.skipif(sys.platform == "win32", reason="links, FIFOs and permissions")


@pytest.fixture
def verifier(workspace: Workspace) -> Verifier:
    return workspace.rye().verifier


@pytest.fixture
def shelf(workspace: Workspace) -> Shelf:
    return Shelf(workspace.project.space)


def target_of(workspace: Workspace, path: Path) -> Target:
    return workspace.project.target(path).verify_target


def refusal(verifier: Verifier, target: Target) -> IntegrityError:
    with pytest.raises(IntegrityError) as error:
        verifier.verify(target)
    return error.value


# --- verified items -------------------------------------------------------------------------------


def test_a_verified_item_has_bytes_signature_and_key(
    workspace: Workspace, verifier: Verifier
) -> None:
    path = workspace.project.signed_tool("x", "print()\n")

    item = verifier.verify(target_of(workspace, path))

    assert item.verified
    assert item.data == path.read_bytes()
    assert item.text == path.read_text(encoding="utf-8")
    assert item.coverage is Coverage.FULL
    assert item.header is None
    assert item.key
    assert item.signature
    assert item.key.fingerprint == item.signature.fingerprint == workspace.fingerprint
    assert item.content_hash == item.signature.content_hash


def test_the_digest_of_an_item_is_that_of_its_very_bytes(
    workspace: Workspace, verifier: Verifier
) -> None:
    from hashlib import sha256

    path = workspace.project.signed_tool("x")

    item = verifier.verify(target_of(workspace, path))

    assert item.sha256 == sha256(path.read_bytes()).hexdigest()


def test_a_resolved_location_can_be_verified(workspace: Workspace, verifier: Verifier) -> None:
    path = workspace.project.signed_tool("x")
    ref = ItemRef(Kind.TOOL, "x")

    item = verifier.verify_location(Location(ref=ref, space=workspace.project.space, path=path))

    assert item.target == target_of(workspace, path)


def test_the_private_parts_of_an_item_stay_out_of_its_repr(
    workspace: Workspace, verifier: Verifier
) -> None:
    path = workspace.project.signed_tool("x", "SECRET = 1\n")

    assert "SECRET" not in repr(verifier.verify(target_of(workspace, path)))


# --- refusals, in the order of the steps ----------------------------------------------------------


def test_a_missing_file_is_reported(workspace: Workspace, verifier: Verifier) -> None:
    path = workspace.project.space.ai / "tools" / "x.py"

    error = refusal(verifier, target_of(workspace, path))

    assert str(error) == f"the file is no longer there: {path}"


def test_a_file_that_is_too_large_is_refused(shelf: Shelf, verifier: Verifier) -> None:
    target = shelf.put(Kind.TOOL, ".py", b"#" * (MAX_ITEM_BYTES + 1))

    error = refusal(verifier, target)

    size = MAX_ITEM_BYTES + 1
    assert str(error) == f"item larger than {MAX_ITEM_BYTES} bytes ({size}): {target.path}"
    assert error.hint == "keep data out of item files; read it from the project at run time"


def test_a_file_of_exactly_the_limit_is_verified(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    signed = sign_text(Kind.TOOL, ".py", "", workspace.keypair)
    body = "#" * (MAX_ITEM_BYTES - len(signed))
    data = sign_text(Kind.TOOL, ".py", body, workspace.keypair).encode()
    assert len(data) == MAX_ITEM_BYTES

    assert verifier.verify(shelf.put(Kind.TOOL, ".py", data)).verified


def test_an_unsigned_file_says_how_to_sign_it(shelf: Shelf, verifier: Verifier) -> None:
    target = shelf.put(Kind.TOOL, ".py", b"x = 1\n")

    error = refusal(verifier, target)

    assert isinstance(error, UnsignedError)
    assert str(error) == f"unsigned item, expected a rye:signed line: {target.path}"
    assert error.hint == f"read it, and if you trust it: rye sign {target.path}"


def test_a_changed_file_says_how_to_sign_it_again(workspace: Workspace, verifier: Verifier) -> None:
    path = workspace.project.signed_tool("x")
    path.write_bytes(path.read_bytes() + b"\n")

    error = refusal(verifier, target_of(workspace, path))

    assert str(error) == f"content modified since signing: {path}"
    assert error.hint == f"if the change is yours: rye sign {path}"


def test_a_change_is_reported_before_an_unknown_key(shelf: Shelf, verifier: Verifier) -> None:
    signed = sign_text(Kind.TOOL, ".py", "x = 1\n", generate_keypair())

    error = refusal(verifier, shelf.put(Kind.TOOL, ".py", signed.encode() + b"\n"))

    assert "content modified since signing" in str(error)


def test_a_signature_of_another_key_under_a_trusted_name_does_not_hold(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    stranger = generate_keypair()
    signed = sign_text(Kind.TOOL, ".py", "x = 1\n", stranger)
    from lillux.signing import compute_key_fingerprint

    forged = signed.replace(compute_key_fingerprint(stranger.public_pem), workspace.fingerprint)
    target = shelf.put(Kind.TOOL, ".py", forged.encode())

    error = refusal(verifier, target)

    assert str(error) == (
        f"Ed25519 signature does not hold for key {workspace.fingerprint} (local): {target.path}"
    )
    assert error.hint == "possible tampering; get the file again from where it came"


def test_a_file_type_without_a_form_needs_a_signature_beside_it(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    target = shelf.put(Kind.TOOL, ".rs", b"fn main() {}")

    with pytest.raises(NoSignatureFormError):
        verifier.verify(target)
    workspace.project.sign(target.path)

    assert verifier.verify(target).verified


@pytest.mark.parametrize(
    "text", [b"", b"\xff", b"rye:signed:x", b"a" * 2000, b"# rye:signed:x\n", b"\n\n"]
)
def test_a_broken_signature_file_is_refused(shelf: Shelf, verifier: Verifier, text: bytes) -> None:
    target = shelf.put(Kind.TOOL, ".json", b"{}")
    beside = Path(f"{target.path}.sig")
    beside.write_bytes(text)

    error = refusal(verifier, target)

    assert isinstance(error, SignatureFormatError)
    assert str(error) == f"expected one rye:signed line: {beside}"


def test_a_json_file_may_hold_its_line_as_other_programs_write_it(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    signed = sign_text(Kind.TOOL, ".json", "{}\n", workspace.keypair)

    assert verifier.verify(shelf.put(Kind.TOOL, ".json", signed.encode())).verified


def test_a_signature_file_is_used_only_for_types_without_comments(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    data = b"x = 1\n"
    target = shelf.put(Kind.TOOL, ".py", data)
    from ryeos.trust.signing_key import SigningKey

    line = SigningKey(workspace.keypair).detached_line(data)
    Path(f"{target.path}.sig").write_text(line, encoding="ascii")

    assert isinstance(refusal(verifier, target), UnsignedError)


# --- coverage -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Kind.DIRECTIVE, Kind.KNOWLEDGE])
def test_a_foreign_signature_is_reported_as_partial(
    workspace: Workspace, shelf: Shelf, verifier: Verifier, kind: Kind
) -> None:
    friend = generate_keypair()
    workspace.user.trust(friend)
    text = '---\na: 1\n---\n<directive name="x">\n</directive>\nprose\n'
    signed = sign_partly(kind, text, friend)

    item = verifier.verify(shelf.put(kind, ".md", signed.encode()))

    assert (item.verified, item.coverage) == (True, Coverage.PARTIAL)


@pytest.mark.parametrize("kind", [Kind.DIRECTIVE, Kind.KNOWLEDGE])
def test_our_signature_covers_everything(
    workspace: Workspace, shelf: Shelf, verifier: Verifier, kind: Kind
) -> None:
    text = '---\na: 1\n---\n<directive name="x">\n</directive>\nprose\n'
    signed = sign_text(kind, ".md", text, workspace.keypair)

    assert verifier.verify(shelf.put(kind, ".md", signed.encode())).coverage is Coverage.FULL


# --- configuration --------------------------------------------------------------------------------


def test_unsigned_configuration_is_used_with_a_warning(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    target = shelf.put(Kind.CONFIG, ".yaml", b"a: 1\n")

    item = verifier.verify_unless_unsigned(target)

    assert (item.verified, item.text, item.key) == (False, "a: 1\n", None)
    assert workspace.warnings == [f"unsigned configuration is used: {target.path}"]


def test_tampered_configuration_is_refused(
    workspace: Workspace, shelf: Shelf, verifier: Verifier
) -> None:
    signed = sign_text(Kind.CONFIG, ".yaml", "a: 1\n", workspace.keypair)
    target = shelf.put(Kind.CONFIG, ".yaml", signed.replace("a: 1", "a: 2").encode())

    with pytest.raises(IntegrityError, match="content modified since signing"):
        verifier.verify_unless_unsigned(target)
    assert workspace.warnings == []


def test_configuration_by_an_unknown_key_is_refused(shelf: Shelf, verifier: Verifier) -> None:
    signed = sign_text(Kind.CONFIG, ".yaml", "a: 1\n", generate_keypair())

    with pytest.raises(UntrustedKeyError):
        verifier.verify_unless_unsigned(shelf.put(Kind.CONFIG, ".yaml", signed.encode()))


# --- after verification ---------------------------------------------------------------------------


@pytest.fixture
def item(workspace: Workspace, verifier: Verifier) -> VerifiedItem:
    return verifier.verify(target_of(workspace, workspace.project.signed_tool("x")))


def test_an_unchanged_file_may_start(item: VerifiedItem) -> None:
    unchanged(item)


@pytest.mark.parametrize("change", ["edit", "delete", "grow", "folder"])
def test_a_file_changed_after_its_verification_may_not_start(
    item: VerifiedItem, change: str
) -> None:
    path = item.target.path
    if change == "edit":
        path.write_bytes(path.read_bytes().replace(b"2026-01-02T", b"2026-01-03T", 1))
    elif change == "grow":
        path.write_bytes(b"#" * (MAX_ITEM_BYTES + 1))
    else:
        path.unlink()
    if change == "folder":
        path.mkdir()

    with pytest.raises(IntegrityError) as error:
        unchanged(item)

    assert str(error.value) == f"changed between its verification and its start: {path}"


def test_a_removed_key_is_no_longer_trusted(
    workspace: Workspace, verifier: Verifier, item: VerifiedItem
) -> None:
    assert verifier.key_counts(item)

    (workspace.user.space.ai / f"config/keys/trusted/{workspace.fingerprint}.toml").unlink()

    assert not verifier.key_counts(item)


def test_the_key_of_a_bundle_is_trusted_with_the_bundle(
    workspace: Workspace, verifier: Verifier
) -> None:
    space = workspace.bundles[0]
    path = space.ai / "tools" / "rye" / "bash" / "bash.yaml"

    assert verifier.key_counts(verifier.verify(Target(path=path, kind=Kind.TOOL, space=space)))


@posix
def test_a_file_that_cannot_be_opened_is_a_file_system_error(
    workspace: Workspace, verifier: Verifier
) -> None:
    path = workspace.project.space.ai / "tools" / "x.py"
    path.mkdir(parents=True)

    with pytest.raises(FileSystemError):
        verifier.verify(Target(path=path, kind=Kind.TOOL, space=workspace.project.space))


@posix
def test_a_project_reached_through_a_link_is_the_same_project(
    workspace: Workspace, verifier: Verifier
) -> None:
    path = workspace.project.signed_tool("x")
    link = workspace.folder / "link"
    link.symlink_to(workspace.project_path)
    from ryeos.items.refs import Space

    space = Space(PROJECT, link)
    through = link / path.relative_to(workspace.project_path)
    workspace.project.sign(path)

    assert verifier.verify(Target(path=through, kind=Kind.TOOL, space=space)).verified
    path.write_text(
        sign_text(Kind.TOOL, ".py", path.read_text("utf-8"), generate_keypair()), "utf-8"
    )
    with pytest.raises(UntrustedKeyError):
        verifier.verify(Target(path=path, kind=Kind.TOOL, space=space))
