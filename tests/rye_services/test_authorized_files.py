"""Files with authorised keys of an older node become rows once."""

import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import text, update

from lillux.signing import KeyPair, compute_key_fingerprint, generate_keypair
from rye_services.audit import Audit, AuditFilter
from rye_services.authorized_files import take_over_files
from rye_services.credentials import AuthorizedKeyMissingError, AuthorizedKeys
from rye_services.data_folder import open_database
from rye_services.database import Database, node_identity
from rye_services.keys import NodeKeys, open_keys
from rye_services.settings import Settings, read_settings
from ryeos.items.refs import Kind
from ryeos.remote.requests import encode_public_key
from ryeos.trust.signature import SignedText, form_for
from tests.support.databases import database_environ

ADA, BOB = generate_keypair(), generate_keypair()


def fingerprint(pair: KeyPair) -> str:
    """The fingerprint of a key."""
    return compute_key_fingerprint(pair.public_pem)


def signed(keys: NodeKeys, body: str) -> str:
    """A document with the node's signature, whatever it says."""
    unsigned = SignedText(shebang="", signature=None, covers=None, body=body)
    return keys.signing.signed_text(Kind.TOOL, unsigned, form_for(Kind.TOOL, ".toml"), "x.toml")


def document(pair: KeyPair, *lines: str) -> str:
    """The fields that a node with tables of version 0008 wrote."""
    own = (
        f'fingerprint = "{fingerprint(pair)}"',
        f'public_key = "{encode_public_key(pair.public_pem)}"',
    )
    return "\n".join((*own, *(lines or ('label = "Ada\'s"', 'scopes = ["remote:push"]')), ""))


class OlderNode:
    """The data folder of a node whose tables have no authorised keys yet."""

    def __init__(self, data: Path) -> None:
        self.environ = database_environ(data)
        self.settings: Settings = read_settings({"data_dir": str(data)}, self.environ, data)
        self.folder = self.settings.authorized_keys_dir
        self.folder.mkdir(parents=True)
        self.keys = open_keys(self.settings.signing_key_dir)
        database = open_database(self.settings, make=True)
        with database.writing() as connection:  # back to the tables of before
            connection.execute(text("DROP TABLE authorized_keys"))
            connection.execute(text("ALTER TABLE node_identity DROP COLUMN keys_taken_over_at"))
            connection.execute(text("UPDATE alembic_version SET version_num = '0008'"))
        database.close()

    def write(self, pair: KeyPair, text_of_file: str) -> Path:
        """Write the file of a key."""
        path = self.folder / f"{fingerprint(pair)}.toml"
        path.write_text(text_of_file, encoding="utf-8")
        return path


@pytest.fixture
def older(tmp_path: Path) -> OlderNode:
    return OlderNode(tmp_path / "node")


def upgraded(older: OlderNode) -> Database:
    """The database, as the first start of this version leaves it."""
    return open_database(older.settings, make=True)


def test_files_become_rows_at_the_upgrade_and_stay_as_they_are(older: OlderNode) -> None:
    path = older.write(ADA, signed(older.keys, document(ADA)))
    before = path.read_bytes()

    database = upgraded(older)

    (key,) = AuthorizedKeys(database).all()
    assert (key.fingerprint, key.label, key.scopes) == (fingerprint(ADA), "Ada's", ("remote:push",))
    assert path.read_bytes() == before
    (entry,) = Audit(database).entries(AuditFilter(action="keys.take-over"), limit=5)
    assert entry.details == {"keys": 1, "folder": str(older.folder)}
    database.close()


def test_all_fields_of_a_file_are_kept(older: OlderNode) -> None:
    lines = (
        'label = "ci"',
        'scopes = ["registry:*"]',
        'publish_namespaces = ["acme/*"]',
        'expires_at = "2999-01-31T00:00:00Z"',
        'created_via = "admin"',
        'created_at = "2026-01-02T03:04:05Z"',
        'created_by = "fp:07097e6443239d36"',
    )
    older.write(ADA, signed(older.keys, document(ADA, *lines)))

    database = upgraded(older)

    (key,) = AuthorizedKeys(database).all()
    assert (key.publish_namespaces, key.expires_at) == (("acme/*",), "2999-01-31T00:00:00Z")
    assert (key.created_via, key.created_at) == ("admin", "2026-01-02T03:04:05Z")
    assert key.created_by == "fp:07097e6443239d36"
    database.close()


def test_a_file_of_the_oldest_format_gets_all_scopes(older: OlderNode) -> None:
    body = f'public_key = "{encode_public_key(ADA.public_pem)}"\nowner = "ada"\n'
    older.write(ADA, signed(older.keys, body))

    database = upgraded(older)

    (key,) = AuthorizedKeys(database).all()
    assert (key.label, key.scopes, key.may_manage) == ("ada", ("*",), True)
    database.close()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data.replace("remote:push", "*"), "changed since this node signed it"),
        (lambda data: data.split("\n", 1)[1], "expected the signature of this node"),
        (lambda data: data + "\n", "changed since this node signed it"),
        (lambda _: "nonsense", "expected the signature of this node"),
    ],
    ids=["another scope", "no signature", "a line more", "nonsense"],
)
def test_a_file_without_a_valid_signature_authorises_no_key(
    older: OlderNode,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[str], str],
    problem: str,
) -> None:
    path = older.write(ADA, change(signed(older.keys, document(ADA))))
    older.write(BOB, signed(older.keys, document(BOB)))

    with caplog.at_level(logging.WARNING):
        database = upgraded(older)

    assert [key.fingerprint for key in AuthorizedKeys(database).all()] == [fingerprint(BOB)]
    assert f"not taken over: {path}: {problem}" in caplog.text
    database.close()


@pytest.mark.parametrize(
    "lines",
    [
        ("scopes = 3",),
        ('scopes = ["*"]', 'expires_at = "tomorrow"'),
        ('scopes = ["*"]', 'label = "a\\u0000b"'),
        ('scopes = ["*"',),
    ],
    ids=["scopes", "time", "nul", "no toml"],
)
def test_a_file_with_an_invalid_field_authorises_no_key(
    older: OlderNode, lines: tuple[str, ...]
) -> None:
    older.write(ADA, signed(older.keys, document(ADA, *lines)))
    older.write(BOB, signed(older.keys, document(BOB)))

    database = upgraded(older)

    assert [key.fingerprint for key in AuthorizedKeys(database).all()] == [fingerprint(BOB)]
    database.close()


def test_a_file_under_the_name_of_another_key_authorises_no_key(older: OlderNode) -> None:
    older.write(BOB, signed(older.keys, document(ADA)))

    database = upgraded(older)

    assert AuthorizedKeys(database).all() == ()
    database.close()


def test_a_file_signed_by_another_node_authorises_no_key(older: OlderNode, tmp_path: Path) -> None:
    older.write(ADA, signed(open_keys(tmp_path / "other"), document(ADA)))

    database = upgraded(older)

    assert AuthorizedKeys(database).all() == ()
    database.close()


def test_files_are_ignored_after_the_upgrade(older: OlderNode) -> None:
    path = older.write(ADA, signed(older.keys, document(ADA)))
    database = upgraded(older)
    kept = path.read_bytes()
    keys = AuthorizedKeys(database, former=older.folder)

    keys.revoke(fingerprint(ADA))
    assert not path.exists()  # also for servers of the older version beside this one
    path.write_bytes(kept)
    older.write(BOB, signed(older.keys, document(BOB)))
    database.close()
    database = upgraded(older)

    assert AuthorizedKeys(database).all() == ()
    with pytest.raises(AuthorizedKeyMissingError):
        AuthorizedKeys(database).revoke(fingerprint(BOB))
    database.close()


def test_files_are_taken_over_by_a_process_that_can_read_them(
    older: OlderNode, tmp_path: Path
) -> None:
    older.write(ADA, signed(older.keys, document(ADA)))
    away = older.folder.rename(tmp_path / "away")
    upgraded(older).close()  # a worker, for one, whose folder of settings is another one
    away.rename(older.folder)

    database = upgraded(older)

    assert [key.fingerprint for key in AuthorizedKeys(database).all()] == [fingerprint(ADA)]
    database.close()


def test_of_many_simultaneous_first_starts_one_takes_over_the_files(older: OlderNode) -> None:
    for pair in (ADA, BOB):
        older.write(pair, signed(older.keys, document(pair)))
    database = upgraded(older)
    with database.writing() as connection:
        connection.execute(text("DELETE FROM authorized_keys"))
        connection.execute(update(node_identity).values(keys_taken_over_at=None))

    with ThreadPoolExecutor(6) as pool:
        taken = [pool.submit(take_over_files, older.settings, database) for _ in range(6)]
        counts = sorted(one.result() for one in taken)

    assert counts == [0, 0, 0, 0, 0, 2]
    assert len(AuthorizedKeys(database).all()) == 2
    database.close()


@pytest.mark.skipif(os.name == "nt", reason="a link needs a right of its own on Windows")
def test_files_of_a_read_only_folder_are_taken_over(
    older: OlderNode, caplog: pytest.LogCaptureFixture
) -> None:
    path = older.write(ADA, signed(older.keys, document(ADA)))
    database = upgraded(older)
    path.unlink()
    path.mkdir()  # root may write anywhere: what cannot be removed is a folder here

    with caplog.at_level(logging.WARNING):
        AuthorizedKeys(database, former=older.folder).revoke(fingerprint(ADA))

    assert AuthorizedKeys(database).all() == ()
    assert str(path) in caplog.text
    database.close()
