from pathlib import Path
from typing import Any, cast

import pytest

from lillux.errors import FileSystemError
from lillux.key_files import load_keypair
from lillux.signing import KeyPair, generate_keypair
from ryeos.items.errors import RyeError
from ryeos.trust.keys import install_keypair, own_fingerprint, replace_keypair
from tests.support.errors import coded


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A folder with a key pair."""
    install_keypair(tmp_path / "keys", generate_keypair(), "")
    return tmp_path / "keys"


def test_a_replaced_key_pair_is_kept_as_a_backup(directory: Path) -> None:
    old, new = load_keypair(directory), generate_keypair()

    backups = replace_keypair(directory, new)

    assert load_keypair(directory) == new
    assert sorted(path.name for path in backups) == ["private_key.pem.bak", "public_key.pem.bak"]
    assert (directory / "private_key.pem.bak").read_bytes() == old.private_pem
    assert (directory / "public_key.pem.bak").read_bytes() == old.public_pem


def test_a_pair_that_cannot_be_written_leaves_the_old_one_in_its_place(directory: Path) -> None:
    old = load_keypair(directory)
    unwritable = KeyPair(generate_keypair().private_pem, cast("Any", None))

    with pytest.raises(TypeError):
        replace_keypair(directory, unwritable)

    assert load_keypair(directory) == old
    assert sorted(path.name for path in directory.iterdir()) == [
        "private_key.pem",
        "public_key.pem",
    ]


def test_replacing_follows_no_link_of_an_old_backup(directory: Path, tmp_path: Path) -> None:
    (directory / "private_key.pem.bak").symlink_to(tmp_path / "elsewhere")

    backups = replace_keypair(directory, generate_keypair())

    assert directory / "private_key.pem.2.bak" in backups
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_cannot_be_made_is_a_file_system_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(FileSystemError):
        install_keypair(tmp_path / "file" / "keys", generate_keypair(), "")


def test_a_public_key_alone_is_in_the_way_too(tmp_path: Path) -> None:
    (tmp_path / "public_key.pem").write_bytes(b"another user's")

    with pytest.raises(RyeError, check=coded("CONFLICT")) as error:
        install_keypair(tmp_path, generate_keypair(), "rye keys generate")

    assert str(error.value) == f"{tmp_path / 'public_key.pem'}: a signing key is already there"
    assert not (tmp_path / "private_key.pem").exists()


def test_a_broken_pair_has_no_fingerprint(directory: Path) -> None:
    (directory / "private_key.pem").write_bytes(b"broken")

    assert own_fingerprint(directory) == ""
