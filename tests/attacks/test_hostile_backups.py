"""A changed backup: nothing outside of the restored folder is written or read."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lillux.digests import sha256_hex
from lillux.store_layout import ObjectKind
from rye_services.node.store.objects import UserStores
from rye_services.operations.cli import main

USER = "3d4c030534b1c1c6"
SECRET = b"secret of somebody else"

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need a privilege there")


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sound backup of a node with one stored file."""
    for name in ("PORT", "DATABASE_URL", "RYE_NODE_DATA", "CAS_BASE_PATH"):
        monkeypatch.delenv(name, raising=False)
    data, target = tmp_path / "data", tmp_path / "backup"
    assert main(["init", "-q", "--data", str(data)]) == 0
    (data / "config").mkdir(exist_ok=True)
    (data / "config" / "node.yaml").write_text("name: garden\n", encoding="utf-8")
    UserStores(data / "cas").of(USER).put_blob(b"content")
    assert main(["backup", "-q", str(target), "--data", str(data)]) == 0
    return target


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A folder of another user."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "secret").write_bytes(SECRET)
    (folder / sha256_hex(SECRET)).write_bytes(SECRET)
    return folder


def state_of(backup: Path) -> Path:
    """The folder of its keys, settings and database."""
    (state,) = backup.glob("state-*")
    return state


def stored_file(backup: Path) -> Path:
    """Where the one stored file is."""
    store = UserStores(backup / "cas").of(USER)
    (one,) = store.stored(ObjectKind.BLOB)
    return store.path_of(ObjectKind.BLOB, one.digest)


def link_settings(backup: Path, elsewhere: Path) -> None:
    """The settings are a link."""
    path = state_of(backup) / "config" / "node.yaml"
    path.unlink()
    path.symlink_to(elsewhere / "secret")


def link_config(backup: Path, elsewhere: Path) -> None:
    """The folder of settings is a link."""
    path = state_of(backup) / "config"
    path.rename(path.with_name("old"))
    path.symlink_to(elsewhere)


def link_key(backup: Path, elsewhere: Path) -> None:
    """A key is a link."""
    path = state_of(backup) / "signing" / "private_key.pem"
    path.unlink()
    path.symlink_to(elsewhere / "secret")


def link_keys_below(backup: Path, elsewhere: Path) -> None:
    """A folder among the keys is a link."""
    (state_of(backup) / "signing" / "more").symlink_to(elsewhere)


def link_database(backup: Path, elsewhere: Path) -> None:
    """The database is a link."""
    path = state_of(backup) / "node.db"
    path.unlink()
    path.symlink_to(elsewhere / "secret")


def link_facts(backup: Path, elsewhere: Path) -> None:
    """Its description is a link."""
    path = state_of(backup) / "backup.json"
    path.unlink()
    path.symlink_to(elsewhere / "secret")


def link_stores(backup: Path, elsewhere: Path) -> None:
    """The stores are a link."""
    (backup / "cas").rename(backup / "old")
    (backup / "cas").symlink_to(elsewhere)


def link_user(backup: Path, elsewhere: Path) -> None:
    """The folder of a user is a link."""
    path = backup / "cas" / USER
    path.rename(elsewhere / "user")
    path.symlink_to(elsewhere / "user")


def link_shard(backup: Path, elsewhere: Path) -> None:
    """A folder of stored files is a link."""
    path = stored_file(backup).parent
    path.rename(elsewhere / "shard")
    path.symlink_to(elsewhere / "shard")


def link_stored_file(backup: Path, elsewhere: Path) -> None:
    """A stored file is a link."""
    path = stored_file(backup)
    path.rename(elsewhere / path.name)
    path.symlink_to(elsewhere / path.name)


def pipe_in_settings(backup: Path, _: Path) -> None:
    """Something that is no file lies among the settings."""
    os.mkfifo(state_of(backup) / "config" / "pipe")


def huge_settings(backup: Path, _: Path) -> None:
    """The settings are larger than any."""
    os.truncate(state_of(backup) / "config" / "node.yaml", 2**40)


@pytest.mark.parametrize(
    "change",
    [
        *(link_settings, link_config, link_key, link_keys_below, link_database, link_facts),
        *(link_stores, link_user, link_shard, link_stored_file, pipe_in_settings, huge_settings),
    ],
)
def test_a_special_file_is_not_restored(
    backup: Path,
    elsewhere: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Path, Path], None],
) -> None:
    change(backup, elsewhere)
    place = tmp_path / "restored" / "node"
    capsys.readouterr()

    status = main(["restore", str(backup), "--data", str(place)])

    said = "".join(capsys.readouterr())
    written = [path for path in place.parent.rglob("*") if path.is_file()]
    assert [path for path in written if SECRET in path.read_bytes()] == []
    assert SECRET.decode() not in said
    if change in {link_shard, link_stored_file}:  # a link in a store is passed over or refused
        assert status in {0, 4}
        assert not [path for path in place.rglob("*") if path.is_symlink()]
    else:
        assert (status, place.exists(), written) == (4, False, []), said


@pytest.mark.parametrize("name", ["..\\escaped", "a" * 63, "A" * 64, f"{'a' * 64}.json.json", "x"])
def test_a_name_that_no_store_gives_is_passed_over(backup: Path, tmp_path: Path, name: str) -> None:
    stored_file(backup).with_name(name).write_bytes(b"x")
    (backup / "cas" / name / ".ai" / "state" / "objects" / "blobs").mkdir(parents=True)
    (backup / name).write_bytes(b"x")
    place = tmp_path / "restored" / "node"

    status = main(["restore", str(backup), "--data", str(place)])

    stored = {path: path.read_bytes() for path in (place / "cas").rglob("*") if path.is_file()}
    assert (status, [*stored.values()]) == (0, [b"content"])
    assert not [path for path in place.rglob("*") if path.name == name and path.is_file()]


def test_content_under_another_digest_is_not_restored(
    backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = stored_file(backup)
    path.write_bytes(b"CONTENT")
    place = tmp_path / "restored" / "node"

    assert main(["restore", str(backup), "--data", str(place)]) == 4

    assert path.name in capsys.readouterr().err
    assert not [one for one in (place / "cas").rglob("*") if one.is_file()]


@pytest.mark.parametrize(
    "facts",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 5000,
        json.dumps({"format": 2}).encode(),
        json.dumps({"format": 1, "made_at": 1}).encode(),
        json.dumps(
            {"format": 1, "made_at": "", "version": "", "node": "", "database": "../x"}
        ).encode(),
        b"x" * 100_000,
    ],
)
def test_facts_that_no_backup_has_are_refused(
    backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], facts: bytes
) -> None:
    (state_of(backup) / "backup.json").write_bytes(facts)
    place = tmp_path / "restored" / "node"

    status = main(["restore", str(backup), "--data", str(place)])

    assert status in {4, 6}
    assert "internal error" not in capsys.readouterr().err
    assert not place.exists()


def test_a_database_of_another_node_is_not_taken_for_this_one(
    backup: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = state_of(backup) / "backup.json"
    said = json.loads(facts.read_bytes()) | {"node": "f" * 32}
    facts.write_bytes(json.dumps(said).encode())
    place = tmp_path / "restored" / "node"

    assert main(["restore", str(backup), "--data", str(place)]) == 6

    assert "expected the database of node ffff" in capsys.readouterr().err
    assert [*place.parent.iterdir()] == []


def test_a_backup_through_a_link_in_its_folder_is_refused(
    backup: Path, elsewhere: Path, tmp_path: Path
) -> None:
    (backup / "cas").rename(tmp_path / "old")
    (backup / "cas").symlink_to(elsewhere)

    assert main(["backup", str(backup), "--data", str(tmp_path / "data")]) != 0

    assert {path.name for path in elsewhere.iterdir()} == {"secret", sha256_hex(SECRET)}
