"""An attacker who may write key documents into a project or a bundle tries to become trusted."""

from pathlib import Path

import pytest

from lillux.signing import KeyPair, compute_key_digest, compute_key_fingerprint, generate_keypair
from ryeos.items.errors import IntegrityError, UntrustedKeyError
from ryeos.items.refs import PROJECT, USER, Space
from ryeos.trust.store import document_path, has_expired, parse_key_document, write_key_document
from ryeos.trust.verify import VerifiedItem
from tests.support.signed_files import put_key_document, seed_keypair, sign_partly, sign_text
from tests.support.workspace import Workspace


@pytest.fixture
def attacker() -> KeyPair:
    return generate_keypair()


@pytest.fixture
def tool(workspace: Workspace, attacker: KeyPair) -> Path:
    """A tool of the project that the attacker signed."""
    path = workspace.project.tool("evil")
    text = path.read_text(encoding="utf-8")
    from ryeos.items.refs import Kind

    path.write_text(sign_text(Kind.TOOL, ".py", text, attacker), encoding="utf-8")
    return path


def fingerprint(keypair: KeyPair) -> str:
    return compute_key_fingerprint(keypair.public_pem)


def verify(workspace: Workspace, path: Path) -> VerifiedItem:
    return workspace.rye().verifier.verify(workspace.project.target(path).verify_target)


def assert_untrusted(workspace: Workspace, path: Path) -> UntrustedKeyError:
    with pytest.raises(UntrustedKeyError) as error:
        verify(workspace, path)
    return error.value


@pytest.mark.parametrize("signed", [True, False], ids=["self-signed", "unsigned"])
def test_a_key_that_comes_with_the_project_does_not_count(
    workspace: Workspace, tool: Path, attacker: KeyPair, signed: object
) -> None:
    put_key_document(workspace.project.space, attacker, attacker if signed else None)

    error = assert_untrusted(workspace, tool)

    assert str(error) == f"signed by the untrusted key {fingerprint(attacker)}: {tool}"
    assert error.hint == (
        "this project carries the key; if you know whose it is:"
        f" rye keys trust {fingerprint(attacker)}"
    )


def test_an_approval_holds_for_no_other_project(
    workspace: Workspace, tool: Path, attacker: KeyPair
) -> None:
    put_key_document(workspace.project.space, attacker, attacker)
    workspace.rye().approvals.approve(workspace.folder / "elsewhere", fingerprint(attacker))

    assert_untrusted(workspace, tool)


def test_an_approval_is_for_all_64_digits_of_a_key(
    workspace: Workspace, tool: Path, attacker: KeyPair
) -> None:
    put_key_document(workspace.project.space, attacker, attacker)
    digest = compute_key_digest(attacker.public_pem)
    another = digest[:16] + digest[16:][::-1]
    workspace.rye().approvals.approve(workspace.project_path, another)
    assert_untrusted(workspace, tool)

    workspace.rye().approvals.approve(workspace.project_path, digest)

    assert verify(workspace, tool).verified


def test_a_withdrawn_key_counts_no_longer(
    workspace: Workspace, tool: Path, attacker: KeyPair
) -> None:
    put_key_document(workspace.project.space, attacker, attacker)
    approvals = workspace.rye().approvals
    approvals.approve(workspace.project_path, fingerprint(attacker))
    assert verify(workspace, tool).verified

    approvals.withdraw(workspace.project_path, fingerprint(attacker))

    assert_untrusted(workspace, tool)


def test_a_document_under_the_name_of_a_trusted_key_does_not_replace_it(
    workspace: Workspace, tool: Path, attacker: KeyPair
) -> None:
    own = workspace.fingerprint
    workspace.rye().approvals.approve(workspace.project_path, own)
    put_key_document(workspace.project.space, attacker, attacker, name=own)
    good = workspace.project.signed_tool("good")

    assert_untrusted(workspace, tool)
    assert verify(workspace, good).key == workspace.rye().trust.get_key(own, PROJECT)


def test_an_approved_name_with_another_key_inside_does_not_count(
    workspace: Workspace, attacker: KeyPair
) -> None:
    friend = generate_keypair()
    workspace.rye().approvals.approve(workspace.project_path, fingerprint(friend))
    put_key_document(workspace.project.space, attacker, attacker, name=fingerprint(friend))

    assert workspace.rye().trust.get_key(fingerprint(friend), PROJECT) is None
    assert workspace.rye().trust.get_key(fingerprint(attacker), PROJECT) is None


def test_a_fingerprint_field_has_no_effect(workspace: Workspace, attacker: KeyPair) -> None:
    text = write_key_document(attacker.public_pem, "me", covers_all=True)
    lie = text.replace(fingerprint(attacker), workspace.fingerprint)
    document_path(workspace.user.space, "0" * 16).write_text(lie, encoding="utf-8")

    trust = workspace.rye().trust

    assert trust.get_key("0" * 16, USER) is None
    own = trust.get_key(workspace.fingerprint, USER)
    assert own
    assert own.public_pem == workspace.keypair.public_pem


def test_a_signed_document_cannot_be_edited(workspace: Workspace) -> None:
    friend = generate_keypair()
    path = put_key_document(workspace.user.space, friend, friend, owner="friend")
    path.write_text(path.read_text(encoding="utf-8").replace('"friend"', '"boss"'), "utf-8")

    assert workspace.rye().trust.get_key(fingerprint(friend), PROJECT) is None


def test_a_document_that_says_another_key_signed_it_needs_that_keys_signature(
    workspace: Workspace, attacker: KeyPair
) -> None:
    path = put_key_document(workspace.user.space, attacker, attacker)
    text = path.read_text(encoding="utf-8")
    line, newline, rest = text.partition("\n")
    forged = line.replace(fingerprint(attacker), workspace.fingerprint)
    path.write_text(f"{forged}{newline}{rest}", encoding="utf-8")

    assert workspace.rye().trust.get_key(fingerprint(attacker), PROJECT) is None


def test_two_keys_that_vouch_for_each_other_are_not_trusted(workspace: Workspace) -> None:
    one, two = generate_keypair(), generate_keypair()
    put_key_document(workspace.user.space, one, two)
    put_key_document(workspace.user.space, two, one)

    trust = workspace.rye().trust

    assert trust.get_key(fingerprint(one), PROJECT) is None
    assert trust.get_key(fingerprint(two), PROJECT) is None


def test_a_circle_of_three_keys_is_not_trusted(workspace: Workspace) -> None:
    keys = [seed_keypair(number) for number in (1, 2, 3)]
    for key, signer in zip(keys, keys[1:] + keys[:1], strict=True):
        put_key_document(workspace.user.space, key, signer)

    trust = workspace.rye().trust

    assert [trust.get_key(fingerprint(key), PROJECT) for key in keys] == [None, None, None]


def test_thousands_of_documents_that_vouch_for_each_other_are_given_up_soon(
    workspace: Workspace,
) -> None:
    """A bundle may bring any number of documents; without a limit this is a stack overflow."""
    bundle = Space("system:evil", workspace.folder / "evil")
    keys = [generate_keypair() for _ in range(1200)]
    for key, signer in zip(keys, keys[1:] + keys[:1], strict=True):
        put_key_document(bundle, key, signer)
    workspace.bundles = (bundle,)

    assert workspace.rye().trust.get_key(fingerprint(keys[0]), "system:evil") is None


def test_documents_in_two_spaces_do_not_double_the_work_at_each_step(workspace: Workspace) -> None:
    """Two documents a step are 2 to the power of 31 lookups, if nothing ends them."""
    bundle = Space("system:evil", workspace.folder / "evil")
    keys = [seed_keypair(number) for number in range(1, 32)]
    for key, signer in zip(keys, keys[1:] + keys[:1], strict=True):
        put_key_document(bundle, key, signer)
        put_key_document(workspace.user.space, key, signer)
    workspace.bundles = (bundle,)

    assert workspace.rye().trust.get_key(fingerprint(keys[0]), "system:evil") is None


# --- the coverage mark ----------------------------------------------------------------------------


@pytest.fixture
def half_covered(workspace: Workspace) -> tuple[Path, KeyPair]:
    """A directive whose covers line was removed, and the friend who signed it."""
    from ryeos.items.refs import Kind

    friend = generate_keypair()
    path = workspace.project.directive("greet", body="Say hello.")
    text = path.read_text(encoding="utf-8")
    signed = sign_partly(Kind.DIRECTIVE, text, friend).replace("Say hello.", "Say goodbye.")
    path.write_text(signed, encoding="utf-8")
    return path, friend


def assert_coverage_missing(workspace: Workspace, path: Path) -> None:
    with pytest.raises(IntegrityError) as error:
        verify(workspace, path)
    assert str(error.value) == (
        f"the rye:covers line is missing, and this key signs nothing without it: {path}"
    )


def test_a_second_document_cannot_take_the_mark_back(
    workspace: Workspace, half_covered: tuple[Path, KeyPair]
) -> None:
    path, friend = half_covered
    put_key_document(workspace.user.space, friend, friend, covers_all=True)
    put_key_document(workspace.project.space, friend, friend, covers_all=False)
    workspace.rye().approvals.approve(workspace.project_path, fingerprint(friend))

    assert_coverage_missing(workspace, path)


def test_an_approved_document_without_its_signature_has_not_lost_the_mark(
    workspace: Workspace, half_covered: tuple[Path, KeyPair]
) -> None:
    """An attacker who may write into the project could have removed the signature and the mark."""
    path, friend = half_covered
    put_key_document(workspace.project.space, friend, signer=None, covers_all=False)
    workspace.rye().approvals.approve(workspace.project_path, fingerprint(friend))

    assert_coverage_missing(workspace, path)


def test_a_signed_document_without_the_mark_says_that_less_is_covered(
    workspace: Workspace, half_covered: tuple[Path, KeyPair]
) -> None:
    path, friend = half_covered
    put_key_document(workspace.project.space, friend, friend, covers_all=False)
    workspace.rye().approvals.approve(workspace.project_path, fingerprint(friend))

    assert verify(workspace, path).coverage == "partial"


def test_the_mark_cannot_be_edited_out_of_a_signed_document(
    workspace: Workspace, half_covered: tuple[Path, KeyPair]
) -> None:
    path, friend = half_covered
    document = put_key_document(workspace.project.space, friend, friend, covers_all=True)
    workspace.rye().approvals.approve(workspace.project_path, fingerprint(friend))
    text = document.read_text(encoding="utf-8")
    document.write_text(text.replace('coverage = "all"\n', ""), encoding="utf-8")

    assert_untrusted(workspace, path)


@pytest.mark.parametrize("last_day", ['\\u0032020-01-01"', '2020-01-01" # "', '2020-01-01"\t#"'])
def test_a_last_day_means_what_toml_says_also_where_the_rest_is_as_rye_writes_it(
    last_day: str,
) -> None:
    written = write_key_document(
        seed_keypair().public_pem, "me", covers_all=True, valid_until="2020-01-01"
    )
    text = written.replace('2020-01-01"', last_day)

    document = parse_key_document(text.encode(), "x.toml")

    assert document.valid_until == "2020-01-01"
    assert has_expired(document)
