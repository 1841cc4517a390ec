import json
import logging
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from shutil import rmtree

import pytest

from lillux.key_files import load_keypair
from lillux.sealing import box_public, decode_box_key
from lillux.signing import compute_key_fingerprint
from rye_services.process.health import probe_keys
from rye_services.process.keys import exported_files, open_keys, open_pair
from ryeos.items.errors import RyeError
from ryeos.remote.identity import identity_document, read_identity
from tests.support.errors import coded

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


def test_the_identity_document_has_the_keys_of_the_node(tmp_path: Path) -> None:
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


def test_of_many_simultaneous_first_starts_one_makes_the_keys(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: open_keys(tmp_path / "signing").node_id, range(16)))

    assert len(set(found)) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["signing"]


def test_of_many_simultaneous_starts_one_makes_the_key_for_items(tmp_path: Path) -> None:
    """The node has keys of a version that had no key for items."""
    node_id = open_keys(tmp_path / "signing").node_id
    rmtree(tmp_path / "signing" / "items")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: open_keys(tmp_path / "signing"), range(16)))

    assert {keys.node_id for keys in found} == {node_id}
    assert len({keys.items.fingerprint for keys in found}) == 1
    assert sorted(path.name for path in (tmp_path / "signing").iterdir()) == FILES


def test_items_are_signed_with_a_separate_key(tmp_path: Path) -> None:
    keys = open_keys(tmp_path / "signing")

    assert keys.items.fingerprint != keys.fingerprint
    assert keys.items.fingerprint == open_keys(tmp_path / "signing").items.fingerprint


def test_keys_are_made_in_an_empty_folder(tmp_path: Path) -> None:
    (tmp_path / "signing").mkdir()

    assert open_keys(tmp_path / "signing").node_id.startswith("fp:")


def test_no_private_key_is_shown(tmp_path: Path) -> None:
    keys = open_keys(tmp_path / "signing")

    assert "PRIVATE" not in repr(keys)
    assert repr(keys.box_private) not in repr(keys)


def test_a_missing_key_is_not_made_beside_existing_ones(tmp_path: Path) -> None:
    open_keys(tmp_path / "signing")
    (tmp_path / "signing" / "box_key.pem").unlink()

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        open_keys(tmp_path / "signing")

    path = tmp_path / "signing" / "box_key.pem"
    assert str(error.value) == f"{path}: expected the X25519 key, found no file"


def test_an_invalid_box_key_is_reported(tmp_path: Path) -> None:
    open_keys(tmp_path / "signing")
    path = tmp_path / "signing" / "box_key.pem"
    path.write_bytes(b"short")

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        open_keys(tmp_path / "signing")

    assert str(error.value).startswith(f"{path}: ")
    assert "43 base64url characters" in str(error.value)


# --- a read-only folder ---------------------------------------------------------------------------


def mounted(folder: Path, files: dict[str, bytes]) -> Path:
    """These files as Kubernetes mounts a secret: links to a folder that it replaces as a whole."""
    content = folder / "..2026_11_24_08_00_00.1"
    for path, data in files.items():
        written = content / path
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(data)
        written.chmod(0o440)
    (folder / "..data").symlink_to(content.name)
    for name in {path.partition("/")[0] for path in files}:
        (folder / name).symlink_to(Path("..data", name))
    return folder


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """What is in a folder, and when it was changed."""
    return {
        str(path): (path.lstat().st_mtime_ns, path.lstat().st_ino) for path in folder.rglob("*")
    }


needs_links = pytest.mark.skipif(sys.platform == "win32", reason="a link needs a right of its own")


@needs_links
def test_a_mounted_secret_is_read_and_not_changed(tmp_path: Path) -> None:
    own = tmp_path / "signing"
    files = exported_files(own)
    folder = mounted(tmp_path / "mount", files)
    os.utime(folder / "..data" / "private_key.pem", (1, 1))  # of the mount, not of the key
    before = listing(folder)

    keys, again = open_keys(folder), open_keys(own)

    assert (keys.node_id, keys.created_at) == (again.node_id, again.created_at)
    assert keys.items_keypair == again.items_keypair
    assert keys.receipts == again.receipts
    assert keys.box_private == again.box_private
    assert open_pair(folder / "registry") == open_pair(own / "registry")
    probe_keys(folder)
    assert listing(folder) == before


def test_former_keys_are_exported_too(tmp_path: Path) -> None:
    own = tmp_path / "signing"
    open_keys(own)
    previous = [{"kind": "succession/v1", "ended_at": "2026-01-02T03:04:05Z"}]
    (own / "previous.json").write_text(json.dumps(previous), "utf-8")

    files = exported_files(own)

    assert json.loads(files["previous.json"]) == previous
    assert not [name for name in files if "pub" in name]


def test_a_time_of_another_form_is_refused(tmp_path: Path) -> None:
    open_keys(tmp_path / "signing")
    (tmp_path / "signing" / "created_at").write_text("yesterday", "utf-8")

    with pytest.raises(RyeError, match="expected a moment like", check=coded("CONFIG_ERROR")):
        open_keys(tmp_path / "signing")


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="gives files to another user"
)
@pytest.mark.parametrize(("mode", "is_warned"), [(0o440, False), (0o444, True)])
def test_a_root_owned_key_is_exposed_if_others_can_read_it(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    mode: int,
    is_warned: bool,  # noqa: FBT001 - of a table
) -> None:
    folder = mounted(tmp_path / "mount", exported_files(tmp_path / "signing"))
    for path in (folder / "..data").resolve().rglob("*.pem"):
        path.chmod(mode)
    monkeypatch.setattr("os.geteuid", lambda: 10001)

    with caplog.at_level(logging.WARNING):
        open_keys(folder)

    assert ("can be read by others" in caplog.text) is is_warned
