import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

import pytest

from lillux.sealing import box_public, decode_box_key
from lillux.signing import compute_key_fingerprint, load_keypair
from rye_services.keys import NodeKeysError, open_keys
from ryeos.remote.requests import identity_document, read_identity

FILES = ["box_key.pem", "box_pub.pem", "items", "private_key.pem", "public_key.pem", "receipts"]


def test_a_node_makes_its_keys_with_its_first_start(tmp_path: Path) -> None:
    keys = open_keys(tmp_path / "data" / "signing")

    folder = tmp_path / "data" / "signing"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert [path.name for path in folder.parent.iterdir()] == ["signing"]
    assert keys.node_id == f"fp:{compute_key_fingerprint(load_keypair(folder).public_pem)}"
    assert decode_box_key((folder / "box_pub.pem").read_text("ascii")) == keys.box_public
    assert box_public(keys.box_private) == keys.box_public


def test_the_next_start_has_the_same_keys(tmp_path: Path) -> None:
    first, second = open_keys(tmp_path / "signing"), open_keys(tmp_path / "signing")

    assert first.node_id == second.node_id
    assert first.box_private == second.box_private
    assert first.created_at == second.created_at


def test_a_node_shows_who_it_is(tmp_path: Path) -> None:
    keys = open_keys(tmp_path / "signing")

    identity = read_identity(identity_document(keys.signing, keys.box_public, keys.created_at))

    assert identity.node_id == keys.node_id
    assert identity.box_public == keys.box_public


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes")
def test_only_the_node_reads_its_private_keys(tmp_path: Path) -> None:
    open_keys(tmp_path / "signing")

    modes = {
        path.relative_to(tmp_path).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in tmp_path.rglob("*")
    }
    assert modes == {
        "signing": 0o700,
        "signing/private_key.pem": 0o600,
        "signing/public_key.pem": 0o644,
        "signing/box_key.pem": 0o600,
        "signing/box_pub.pem": 0o644,
        "signing/items": 0o700,
        "signing/items/private_key.pem": 0o600,
        "signing/items/public_key.pem": 0o644,
        "signing/receipts": 0o700,
        "signing/receipts/private_key.pem": 0o600,
        "signing/receipts/public_key.pem": 0o644,
    }


def test_of_many_first_starts_at_once_one_makes_the_keys(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: open_keys(tmp_path / "signing").node_id, range(16)))

    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["signing"]


def test_of_many_starts_at_once_one_makes_the_key_for_items(tmp_path: Path) -> None:
    """A node whose keys are of a version that had none."""
    node_id = open_keys(tmp_path / "signing").node_id
    rmtree(tmp_path / "signing" / "items")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: open_keys(tmp_path / "signing"), range(16)))

    assert {keys.node_id for keys in found} == {node_id}
    assert len({keys.items.fingerprint for keys in found}) == 1
    assert sorted(path.name for path in (tmp_path / "signing").iterdir()) == FILES


def test_what_users_make_is_signed_with_another_key(tmp_path: Path) -> None:
    keys = open_keys(tmp_path / "signing")

    assert keys.items.fingerprint != keys.fingerprint
    assert keys.items.fingerprint == open_keys(tmp_path / "signing").items.fingerprint


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "signing").mkdir()

    assert open_keys(tmp_path / "signing").node_id.startswith("fp:")


def test_no_private_key_is_shown(tmp_path: Path) -> None:
    keys = open_keys(tmp_path / "signing")

    assert "PRIVATE" not in repr(keys)
    assert repr(keys.box_private) not in repr(keys)


def test_keys_are_never_made_again_beside_others(tmp_path: Path) -> None:
    open_keys(tmp_path / "signing")
    (tmp_path / "signing" / "box_key.pem").unlink()

    with pytest.raises(NodeKeysError) as error:
        open_keys(tmp_path / "signing")

    path = tmp_path / "signing" / "box_key.pem"
    assert str(error.value) == f"{path}: expected the X25519 key, found no file"


def test_a_box_key_that_is_none_is_named(tmp_path: Path) -> None:
    open_keys(tmp_path / "signing")
    path = tmp_path / "signing" / "box_key.pem"
    path.write_bytes(b"short")

    with pytest.raises(NodeKeysError) as error:
        open_keys(tmp_path / "signing")

    assert str(error.value).startswith(f"{path}: ")
    assert "43 base64url characters" in str(error.value)
