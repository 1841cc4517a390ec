import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.signing import KeyPair, compute_key_fingerprint, generate_keypair
from rye_services.credentials import (
    AuthorizedKey,
    AuthorizedKeyError,
    AuthorizedKeyMissingError,
    AuthorizedKeys,
    LastManagerError,
    PublicKeyError,
    ScopeError,
)
from rye_services.keys import NodeKeys, open_keys
from ryeos.items.refs import Kind
from ryeos.remote.requests import encode_public_key
from ryeos.trust.signature import SignedText, form_for
from tests.support.workspace import NOW, fixed_clock

ADA, BOB = generate_keypair(), generate_keypair()


def fingerprint(pair: KeyPair) -> str:
    """What names a key."""
    return compute_key_fingerprint(pair.public_pem)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> NodeKeys:
    """The keys of a node."""
    return open_keys(tmp_path_factory.mktemp("node") / "signing", fixed_clock)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where keys are let in."""
    return tmp_path / "authorized_keys"


@pytest.fixture
def authorized(folder: Path, keys: NodeKeys) -> AuthorizedKeys:
    """The authorised keys of the node: none yet."""
    return AuthorizedKeys(folder, keys, fixed_clock)


def let_in(authorized: AuthorizedKeys, pair: KeyPair, *scopes: str, **more: str) -> AuthorizedKey:
    """Let a key in for these scopes."""
    label = more.pop("label", "")
    return authorized.authorize(
        pair.public_pem, label=label, scopes=scopes, via="command", expires_at=more.get("until")
    )


def signed_by(keys: NodeKeys, text: str) -> bytes:
    """A document with the node's signature, whatever it says."""
    body = SignedText(shebang="", signature=None, covers=None, body=text)
    signed = keys.signing.signed_text(Kind.TOOL, body, form_for(Kind.TOOL, ".toml"), "x.toml")
    return signed.encode()


def test_a_key_that_was_let_in_is_found(authorized: AuthorizedKeys) -> None:
    added = let_in(authorized, ADA, "remote:push", label="Ada's laptop")

    found = authorized.find(fingerprint(ADA))

    assert found == added
    assert (added.label, added.scopes) == ("Ada's laptop", ("remote:push",))
    assert added.created_at == "2026-01-02T03:04:05Z"
    assert authorized.find(fingerprint(BOB)) is None
    assert authorized.all() == (added,)


def test_the_document_is_signed_by_the_node_on_its_first_line(
    authorized: AuthorizedKeys, folder: Path, keys: NodeKeys
) -> None:
    let_in(authorized, ADA, "*")

    first, *rest = (folder / f"{fingerprint(ADA)}.toml").read_text("utf-8").splitlines()

    assert first.startswith("# rye:signed:2026-01-02T03:04:05Z:")
    assert first.endswith(f":{keys.fingerprint}")
    assert rest[0] == f'fingerprint = "{fingerprint(ADA)}"'
    assert rest[3] == 'scopes = ["*"]'


@given(label=st.text(st.characters(exclude_categories=["C", "Z"]), max_size=50))
def test_any_visible_label_comes_back(
    tmp_path_factory: pytest.TempPathFactory, keys: NodeKeys, label: str
) -> None:
    authorized = AuthorizedKeys(tmp_path_factory.mktemp("keys"), keys, fixed_clock)

    let_in(authorized, ADA, "remote:push", label=label)

    found = authorized.find(fingerprint(ADA))
    assert found is not None
    assert (found.label, found.scopes) == (label, ("remote:push",))


@pytest.mark.parametrize("label", ['x"\nscopes = ["*"]', "a\tb", "x" * 201, "\ud800"])
def test_a_label_is_one_short_visible_line(authorized: AuthorizedKeys, label: str) -> None:
    with pytest.raises(AuthorizedKeyError):
        let_in(authorized, ADA, "remote:push", label=label)


def test_a_scope_that_is_none_is_refused(authorized: AuthorizedKeys) -> None:
    with pytest.raises(ScopeError):
        let_in(authorized, ADA, 'remote:push"]')


def test_a_key_counts_until_it_expires(folder: Path, keys: NodeKeys) -> None:
    now = NOW
    authorized = AuthorizedKeys(folder, keys, lambda: now)
    let_in(authorized, ADA, "*", until="2026-01-02T03:04:10Z")
    assert authorized.find(fingerprint(ADA)) is not None

    now = NOW + timedelta(seconds=5)

    with pytest.raises(AuthorizedKeyError) as error:
        authorized.find(fingerprint(ADA))
    assert str(error.value).endswith(": expired at 2026-01-02T03:04:10Z")
    assert authorized.all() == ()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data.replace(b"remote:push", b"*"), "changed since this node signed it"),
        (lambda data: data.split(b"\n", 1)[1], "expected the signature of this node"),
        (lambda data: data + b"\n", "changed since this node signed it"),
    ],
    ids=["another scope", "no signature", "a line more"],
)
def test_a_changed_document_lets_no_one_in(
    authorized: AuthorizedKeys, folder: Path, change: object, problem: str
) -> None:
    let_in(authorized, ADA, "remote:push")
    path = folder / f"{fingerprint(ADA)}.toml"
    path.write_bytes(change(path.read_bytes()))  # type: ignore[operator]

    with pytest.raises(AuthorizedKeyError) as error:
        authorized.find(fingerprint(ADA))

    assert str(error.value).startswith(f"{path}: {problem}")


def test_the_signature_of_another_node_lets_no_one_in(
    authorized: AuthorizedKeys, folder: Path, tmp_path: Path
) -> None:
    other = AuthorizedKeys(folder, open_keys(tmp_path / "other"), fixed_clock)
    let_in(other, ADA, "*")

    with pytest.raises(AuthorizedKeyError) as error:
        authorized.find(fingerprint(ADA))

    assert "expected the signature of this node" in str(error.value)


def test_a_document_under_the_name_of_another_key_lets_no_one_in(
    authorized: AuthorizedKeys, folder: Path
) -> None:
    let_in(authorized, ADA, "*")
    (folder / f"{fingerprint(ADA)}.toml").rename(folder / f"{fingerprint(BOB)}.toml")

    with pytest.raises(AuthorizedKeyError) as error:
        authorized.find(fingerprint(BOB))

    assert str(error.value).endswith(f": holds the key {fingerprint(ADA)}")


def test_a_document_of_an_older_node_is_foreverything(
    authorized: AuthorizedKeys, folder: Path, keys: NodeKeys
) -> None:
    folder.mkdir()
    text = f'public_key = "{encode_public_key(ADA.public_pem)}"\nowner = "ada"\n'
    (folder / f"{fingerprint(ADA)}.toml").write_bytes(signed_by(keys, text))

    found = authorized.find(fingerprint(ADA))

    assert found is not None
    assert (found.label, found.scopes, found.may_manage) == ("ada", ("*",), True)


def test_what_does_not_count_is_logged_and_hides_no_other(
    authorized: AuthorizedKeys, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    let_in(authorized, ADA, "*")
    (folder / f"{fingerprint(BOB)}.toml").write_text("nonsense", "utf-8")

    with caplog.at_level(logging.WARNING):
        found = authorized.all()

    assert [key.fingerprint for key in found] == [fingerprint(ADA)]
    assert fingerprint(BOB) in caplog.text


@pytest.mark.parametrize("name", ["", "../x", "A" * 16, "0" * 15, "0" * 16 + ".toml"])
def test_what_is_no_fingerprint_names_no_file(authorized: AuthorizedKeys, name: str) -> None:
    assert authorized.find(name) is None
    with pytest.raises(AuthorizedKeyMissingError):
        authorized.revoke(name)


def test_a_revoked_key_is_gone(authorized: AuthorizedKeys) -> None:
    let_in(authorized, ADA, "*")

    authorized.revoke(fingerprint(ADA))

    assert authorized.find(fingerprint(ADA)) is None
    with pytest.raises(AuthorizedKeyMissingError):
        authorized.revoke(fingerprint(ADA))


def test_the_last_key_that_manages_keys_stays(authorized: AuthorizedKeys) -> None:
    let_in(authorized, ADA, "*")
    let_in(authorized, BOB, "remote:*")

    with pytest.raises(LastManagerError):
        authorized.revoke_unless_last(fingerprint(ADA))
    let_in(authorized, BOB, "node.auth.manage")
    authorized.revoke_unless_last(fingerprint(ADA))

    assert [key.fingerprint for key in authorized.all()] == [fingerprint(BOB)]


def test_the_first_key_may_come_from_the_environment(authorized: AuthorizedKeys) -> None:
    first = authorized.bootstrap(encode_public_key(ADA.public_pem), "first")
    second = authorized.bootstrap(encode_public_key(BOB.public_pem), "second")

    assert first is not None
    assert (first.fingerprint, first.label, first.scopes) == (fingerprint(ADA), "first", ("*",))
    assert first.created_via == "bootstrap"
    assert second is None


def test_a_first_key_that_is_none_is_refused(authorized: AuthorizedKeys) -> None:
    with pytest.raises(PublicKeyError, match="BOOTSTRAP_PUBLIC_KEY: "):
        authorized.bootstrap("ed25519:nonsense", "first")


def test_a_moment_without_a_zone_is_in_utc(folder: Path, keys: NodeKeys) -> None:
    moment = datetime(2026, 1, 2, 3, 4, 6, tzinfo=UTC)
    authorized = AuthorizedKeys(folder, keys, lambda: moment)
    let_in(authorized, ADA, "*", until="2026-01-02T03:04:07")

    assert authorized.find(fingerprint(ADA)) is not None


def test_an_expiry_that_is_no_moment_is_refused(authorized: AuthorizedKeys) -> None:
    with pytest.raises(AuthorizedKeyError) as error:
        let_in(authorized, ADA, "*", until="tomorrow")

    assert str(error.value) == (
        "the new key: expires_at: expected a moment like 2027-01-31T00:00:00Z, found 'tomorrow'"
    )
