from pathlib import Path

import pytest

from lillux.signing import KeyPair, compute_key_fingerprint, generate_keypair
from lillux.values import replace
from ryeos.items.errors import RyeError
from ryeos.items.refs import PROJECT, USER
from ryeos.trust.store import (
    MAX_DOCUMENT_BYTES,
    MAX_VOUCHERS,
    TrustStore,
    document_path,
    parse_key_document,
    write_key_document,
)
from tests.support.errors import coded
from tests.support.signed_files import (
    SEED_FINGERPRINT,
    put_key_document,
    seed_keypair,
    sign_text,
)
from tests.support.workspace import Workspace

SEED = seed_keypair()
SYSTEM_LABEL = "system:ryeos"
DOCUMENT = f'''\
version = "1.0.0"
category = "keys/trusted"
fingerprint = "{SEED_FINGERPRINT}"
owner = "local"
attestation = ""
coverage = "all"

[public_key]
pem = """
-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=
-----END PUBLIC KEY-----
"""
'''


@pytest.fixture
def store(workspace: Workspace) -> TrustStore:
    return workspace.rye().trust


@pytest.fixture
def friend() -> KeyPair:
    return generate_keypair()


def fingerprint(keypair: KeyPair) -> str:
    return compute_key_fingerprint(keypair.public_pem)


# --- documents ------------------------------------------------------------------------------------


def test_a_document_is_written_with_all_known_fields() -> None:
    assert write_key_document(SEED.public_pem, "local", covers_all=True) == DOCUMENT


@pytest.mark.parametrize("owner", ["local", "a person", "pem = x", "#", "remote:https://a/b", "ä"])
@pytest.mark.parametrize("valid_until", ["", "2027-01-01T00:00:00Z"])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_document_as_rye_writes_it_says_the_same_without_a_parser_of_toml(
    owner: str, valid_until: str, *, is_whole: bool
) -> None:
    text = write_key_document(
        SEED.public_pem,
        owner,
        covers_all=is_whole,
        binds_identity=is_whole,
        valid_until=valid_until,
    )
    parsed = parse_key_document(f"{text}# so it is not as Rye writes it\n".encode(), "x.toml")

    plain = parse_key_document(text.encode(), "x.toml")

    assert replace(plain, signed_text="") == replace(parsed, signed_text="")
    assert (plain.owner, plain.valid_until, plain.covers_all) == (owner, valid_until, is_whole)


@pytest.mark.parametrize(
    ("written", "changed"),
    [
        ('owner = "local"', 'owner = "lo\\u0063al"'),
        ('owner = "local"\n', 'owner = "local"\n\n'),
        ('owner = "local"', "owner = 'local'"),
        ('attestation = ""\n', 'attestation = ""\r\n'),
    ],
)
def test_a_document_of_another_form_is_read_as_toml(written: str, changed: str) -> None:
    document = parse_key_document(DOCUMENT.replace(written, changed).encode(), "x.toml")

    assert (document.owner, document.fingerprint) == ("local", SEED_FINGERPRINT)
    assert document.covers_all


def test_a_field_twice_is_refused_also_where_the_rest_is_as_rye_writes_it() -> None:
    twice = DOCUMENT.replace('owner = "local"\n', 'owner = "local"\nowner = "local"\n')

    with pytest.raises(RyeError):
        parse_key_document(twice.encode(), "x.toml")


def test_a_document_without_the_coverage_mark_has_no_such_line() -> None:
    text = write_key_document(SEED.public_pem, "local", covers_all=False)

    assert text == DOCUMENT.replace('coverage = "all"\n', "")


def test_a_document_is_read_back() -> None:
    document = parse_key_document(DOCUMENT.encode(), "x.toml")

    assert (document.fingerprint, document.owner) == (SEED_FINGERPRINT, "local")
    assert document.public_pem == SEED.public_pem
    assert (document.covers_all, document.version, document.attestation) == (True, "1.0.0", "")
    assert document.signature is None


def test_an_old_document_needs_only_the_key() -> None:
    pem = SEED.public_pem.decode()

    document = parse_key_document(f'\n[public_key]\npem = """{pem}"""'.encode(), "x.toml")

    assert document.fingerprint == SEED_FINGERPRINT
    assert (document.owner, document.version, document.covers_all) == ("unknown", "1.0.0", False)


def test_the_fingerprint_is_computed_from_the_key() -> None:
    lie = DOCUMENT.replace(SEED_FINGERPRINT, "0" * 16)

    assert parse_key_document(lie.encode(), "x.toml").fingerprint == SEED_FINGERPRINT


@pytest.mark.parametrize(
    ("pem", "same"),
    [
        ("\\n" + SEED.public_pem.decode().replace("\n", "\\r\\n"), True),
        (SEED.public_pem.decode().strip().replace("\n", "\\n"), True),
        (SEED.public_pem.decode().replace("MCow", "MCox").replace("\n", "\\n"), False),
    ],
    ids=["other line ends", "no final newline", "another kind of key"],
)
def test_a_key_is_read_in_its_canonical_form(pem: str, same: object) -> None:
    data = f'[public_key]\npem = "{pem}"\n'.encode()

    if same:
        assert parse_key_document(data, "x.toml").public_pem == SEED.public_pem
    else:
        with pytest.raises(
            RyeError, check=coded("CONFIG_ERROR"), match=r"^x\.toml: not a key document: "
        ):
            parse_key_document(data, "x.toml")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not toml",
        b"\xff",
        b'public_key = "x"\n',
        b"[public_key]\npem = 5\n",
        b'[public_key]\npem = ""\n',
        b"[[public_key]]\n",
        b"x = " + b"[" * 20_000,
        DOCUMENT.encode().replace(b"-----BEGIN", b"----BEGIN"),
        DOCUMENT.encode().replace(b'"local"', b'"\\u001b[2J"'),
        DOCUMENT.encode().replace(b'"local"', b'"me\\nand others"'),
        DOCUMENT.encode().replace(b'"local"', b'"a\\u202eb"'),
    ],
)
def test_an_invalid_key_document_is_refused(data: bytes) -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        parse_key_document(data, "x.toml")

    assert str(error.value).startswith("x.toml: not a key document: ")


@pytest.mark.parametrize("owner", ["", 'a"b', "a\\b", "a\nb", "a\x7fb", "a\x1bb"])
def test_an_invalid_owner_is_refused(owner: str) -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        write_key_document(SEED.public_pem, owner, covers_all=False)

    assert str(error.value) == (
        "owner: expected a plain name without quotes, backslashes or control characters"
    )


# --- trusted keys ---------------------------------------------------------------------------------


def test_the_users_own_key_is_trusted_in_all_spaces(
    workspace: Workspace, store: TrustStore
) -> None:
    for label in (PROJECT, USER, SYSTEM_LABEL, "outside"):
        key = store.get_key(workspace.fingerprint, label)

        assert key
        assert (key.owner, key.source, key.covers_all) == ("local", USER, True)


def test_a_key_without_a_document_is_not_trusted(store: TrustStore) -> None:
    assert store.get_key("0" * 16, PROJECT) is None


def test_an_unsigned_document_is_trusted_in_user_space(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    put_key_document(workspace.user.space, friend)

    key = store.get_key(fingerprint(friend), PROJECT)

    assert key
    assert key.public_pem == friend.public_pem


def test_a_bundles_key_is_trusted_for_that_bundle_only(
    workspace: Workspace, store: TrustStore
) -> None:
    bundle = workspace.bundles[0]
    own = compute_key_fingerprint(bundle.pinned_pem)

    assert store.get_key(own, SYSTEM_LABEL)
    assert store.get_key(own, "system:other") is None
    assert store.get_key(own, PROJECT) is None
    assert store.get_key(own, USER) is None


def test_a_projects_key_is_trusted_only_if_approved_and_only_in_the_project(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    put_key_document(workspace.project.space, friend, friend)

    assert store.get_key(fingerprint(friend), PROJECT) is None
    assert store.unapproved_space(fingerprint(friend)) == workspace.project.space

    workspace.rye().approvals.approve(workspace.project_path, fingerprint(friend))

    assert store.get_key(fingerprint(friend), PROJECT)
    assert store.get_key(fingerprint(friend), USER) is None
    assert store.get_key(fingerprint(friend), SYSTEM_LABEL) is None
    assert store.unapproved_space(fingerprint(friend)) is None


def test_a_withdrawn_approval_is_effective_at_once(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    put_key_document(workspace.project.space, friend, friend)
    approvals = workspace.rye().approvals
    approvals.approve(workspace.project_path, fingerprint(friend))
    assert store.get_key(fingerprint(friend), PROJECT)

    approvals.withdraw(workspace.project_path, fingerprint(friend))

    assert store.get_key(fingerprint(friend), PROJECT) is None


def test_a_changed_document_is_read_again(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    path = put_key_document(workspace.user.space, friend, owner="before")
    assert store.get_key(fingerprint(friend), PROJECT)

    put_key_document(workspace.user.space, friend, owner="afterwards")
    changed = store.get_key(fingerprint(friend), PROJECT)
    path.unlink()

    assert changed
    assert changed.owner == "afterwards"
    assert store.get_key(fingerprint(friend), PROJECT) is None


def test_the_first_trusted_document_gives_the_owner(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    put_key_document(workspace.project.space, friend, friend, owner="in the project")
    put_key_document(workspace.user.space, friend, friend, owner="in user space")

    unapproved = store.get_key(fingerprint(friend), PROJECT)
    workspace.rye().approvals.approve(workspace.project_path, fingerprint(friend))
    approved = store.get_key(fingerprint(friend), PROJECT)

    assert unapproved
    assert (unapproved.owner, unapproved.source) == ("in user space", USER)
    assert approved
    assert (approved.owner, approved.source) == ("in the project", PROJECT)


def test_a_broken_document_does_not_hide_a_valid_one(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    workspace.rye().approvals.approve(workspace.project_path, fingerprint(friend))
    document_path(workspace.project.space, fingerprint(friend)).parent.mkdir(parents=True)
    document_path(workspace.project.space, fingerprint(friend)).write_bytes(b"broken")
    put_key_document(workspace.user.space, friend)

    assert store.get_key(fingerprint(friend), PROJECT)


@pytest.mark.parametrize(
    "data", [b"\xff", b"#" * (MAX_DOCUMENT_BYTES + 1)], ids=["no text", "too large"]
)
def test_an_unreadable_document_is_not_trusted(
    workspace: Workspace, store: TrustStore, data: bytes
) -> None:
    document_path(workspace.user.space, "0" * 16).write_bytes(data)

    assert store.get_key("0" * 16, PROJECT) is None
    assert store.get_key(workspace.fingerprint, PROJECT)


# --- documents signed by other keys ---------------------------------------------------------------


def test_a_trusted_key_can_vouch_for_another(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    put_key_document(workspace.user.space, friend, workspace.keypair)

    assert store.get_key(fingerprint(friend), PROJECT)


def test_an_unknown_key_cannot_vouch(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    put_key_document(workspace.user.space, friend, generate_keypair())

    assert store.get_key(fingerprint(friend), PROJECT) is None


def chain_of_documents(workspace: Workspace, length: int) -> list[KeyPair]:
    """Keys in user space, each vouched for by the next, the last by the user's own."""
    keys = [seed_keypair(number) for number in range(1, length + 1)]
    for key, signer in zip(keys, [*keys[1:], workspace.keypair], strict=True):
        put_key_document(workspace.user.space, key, signer)
    return keys


def test_vouching_is_limited_to_a_few_steps(workspace: Workspace, store: TrustStore) -> None:
    keys = chain_of_documents(workspace, MAX_VOUCHERS)

    assert store.get_key(fingerprint(keys[1]), PROJECT)
    assert store.get_key(fingerprint(keys[0]), PROJECT) is None


def test_vouching_ends_at_spaces_that_the_item_cannot_see(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    signer = generate_keypair()
    put_key_document(workspace.project.space, signer, signer)
    put_key_document(workspace.user.space, friend, signer)
    workspace.rye().approvals.approve(workspace.project_path, fingerprint(signer))

    assert store.get_key(fingerprint(friend), PROJECT)
    assert store.get_key(fingerprint(friend), USER) is None


# --- lists ----------------------------------------------------------------------------------------


def test_each_space_has_its_own_trusted_keys(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    bundle_key = compute_key_fingerprint(workspace.bundles[0].pinned_pem)
    put_key_document(workspace.project.space, friend, friend)
    keys = (workspace.fingerprint, bundle_key, fingerprint(friend))

    def counting(label: str) -> list[str]:
        return [one for one in keys if store.get_key(one, label)]

    assert counting(PROJECT) == [workspace.fingerprint]
    assert counting(SYSTEM_LABEL) == [workspace.fingerprint, bundle_key]


def test_trusted_and_untrusted_documents_are_listed(
    workspace: Workspace, store: TrustStore, friend: KeyPair
) -> None:
    carried = put_key_document(workspace.project.space, friend, friend)

    documents = {path: space.label for space, path in store.documents()}

    assert documents[carried] == PROJECT
    assert sorted(documents.values()) == [PROJECT, SYSTEM_LABEL, USER]


def test_a_space_without_a_folder_of_keys_has_no_documents(tmp_path: Path) -> None:
    bare = Workspace(tmp_path / "bare", ())

    assert [space.label for space, _ in bare.rye().trust.documents()] == [USER]


def test_a_document_signed_with_another_line_form_still_reads(friend: KeyPair) -> None:
    from ryeos.items.refs import Kind

    text = write_key_document(friend.public_pem, "friend", covers_all=False)
    signed = "#!/bin/x\n" + sign_text(Kind.CONFIG, ".toml", text, friend)

    document = parse_key_document(signed.encode(), "x.toml")

    assert document.signature
    assert document.signed_text == text
