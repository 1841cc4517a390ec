import errno
import os
import stat
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.archives import archive_part
from zipboot.layout import Layout
from zipboot.places import digest_of

FILES = {
    "public_key.pem": b"a key",
    ".ai/bundles/some/files.manifest": b"a manifest",
    ".ai/tools/deep/er/tool.sh": b"echo hi",
    ".ai/tools/empty.py": b"",
}
ANCHORS = ("public_key.pem", ".ai/bundles/some/files.manifest")
NAME = "0123456789abcdef"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache of the user who runs the tests."""
    monkeypatch.setenv("RYE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bundle"


def new_layout(folder: Path) -> Layout:
    """The layout of a process that starts now, with an archive of its own."""
    entries: dict[str, tuple[int, int, int, str]] = {}
    data = b""
    for name, content in FILES.items():
        packed = min(zlib.compress(content), content, key=len)
        entries[name] = (len(data), len(packed), len(content), digest_of(content))
        data += packed
    part = archive_part(folder / f"{uuid4()}.pyz", data)
    return Layout(part, NAME, entries, ANCHORS)


def contents(root: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


def test_the_folder_is_named_after_the_content_of_its_files(tmp_path: Path, cache: Path) -> None:
    folder = Path(new_layout(tmp_path).folder())

    assert folder == cache / NAME
    assert contents(cache) == {f"{NAME}/{name}": data for name, data in FILES.items()}


def test_a_file_is_named_with_its_own_content_alone(tmp_path: Path) -> None:
    layout = new_layout(tmp_path)
    first, second = ANCHORS

    assert layout.names(first, FILES[first])
    assert not layout.names(first, FILES[second])
    assert not layout.names("another", FILES[first])


def test_a_second_start_writes_no_file(tmp_path: Path, cache: Path) -> None:
    new_layout(tmp_path).folder()
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}

    new_layout(tmp_path).folder()

    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no modes")
def test_folders_are_private_with_any_umask(tmp_path: Path, cache: Path) -> None:
    before = os.umask(0)
    try:
        new_layout(tmp_path).folder()
    finally:
        os.umask(before)

    modes = {stat.S_IMODE(path.stat().st_mode) for path in (cache.parent, cache, *cache.rglob("*"))}
    assert modes == {0o700, 0o600}


def test_simultaneous_first_starts_use_one_folder(tmp_path: Path, cache: Path) -> None:
    layouts = [new_layout(tmp_path) for _ in range(8)]

    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(lambda layout: layout.folder(), layouts))

    assert folders == {str(cache / NAME)}
    assert contents(cache / NAME) == FILES


# --- repaired at the next start ------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["missing", "cut", "longer", "folder", "link"])
def test_a_file_that_power_loss_or_a_stranger_damaged_is_written_again(
    name: str, damage: str, tmp_path: Path, cache: Path
) -> None:
    new_layout(tmp_path).folder()
    path = cache / NAME / name
    path.unlink()
    if damage == "cut" and FILES[name]:
        path.write_bytes(FILES[name][:-1])
    elif damage == "longer":
        path.write_bytes(FILES[name] + b"!")
    elif damage == "link":
        path.symlink_to(tmp_path / "elsewhere that has another length")

    new_layout(tmp_path).folder()

    assert contents(cache / NAME) == FILES
    assert not path.is_symlink()


def settled(root: Path) -> None:
    """Give the folders old times."""
    for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
        os.utime(folder, (1_000_000_000, 1_000_000_000))


@pytest.mark.parametrize("damage", ["file", "folder", "everything"])
def test_removed_files_are_written_again_at_the_next_start(
    damage: str, tmp_path: Path, cache: Path
) -> None:
    root = Path(new_layout(tmp_path).folder())
    settled(root)
    new_layout(tmp_path).folder()  # looks at all, and notes when the folders changed
    gone = {"file": ".ai/tools/empty.py", "folder": ".ai/tools/deep", "everything": ".ai"}[damage]
    (root / gone).rename(tmp_path / "gone")

    new_layout(tmp_path).folder()

    assert contents(root) == FILES


def test_an_unwritable_cache_is_used(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = new_layout(tmp_path).folder()
    settled(Path(root))

    def utime(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "read-only file system")

    monkeypatch.setattr("zipboot.layout.os.utime", utime)

    assert new_layout(tmp_path).folder() == root


def test_a_later_start_checks_only_folders_and_anchors(tmp_path: Path, cache: Path) -> None:
    root = Path(new_layout(tmp_path).folder())
    settled(root)
    new_layout(tmp_path).folder()
    looked_at: list[str] = []
    real = os.lstat

    def lstat(path: str) -> os.stat_result:
        looked_at.append(os.path.relpath(path, root).replace(os.sep, "/"))
        return real(path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("zipboot.layout.os.lstat", lstat)
        new_layout(tmp_path).folder()

    assert {path for path in looked_at if path in FILES} == set(ANCHORS)


@pytest.mark.parametrize("name", ANCHORS)
def test_an_anchor_of_the_right_size_with_another_content_is_written_again(
    name: str, tmp_path: Path, cache: Path
) -> None:
    new_layout(tmp_path).folder()
    (cache / NAME / name).write_bytes(FILES[name][::-1])

    new_layout(tmp_path).folder()

    assert contents(cache / NAME) == FILES


def test_any_other_file_is_restored_on_request(tmp_path: Path, cache: Path) -> None:
    layout = new_layout(tmp_path)
    tool = Path(layout.folder(), ".ai/tools/deep/er/tool.sh")
    tool.write_bytes(b"echo ho")

    restored = layout.restore(".ai/tools/deep/er/tool.sh")

    assert restored
    assert tool.read_bytes() == b"echo hi"


def test_a_file_outside_of_the_bundle_cannot_be_restored(tmp_path: Path) -> None:
    assert not new_layout(tmp_path).restore(".ai/tools/stranger.sh")


def test_a_file_that_is_damaged_in_the_archive_is_not_written(
    tmp_path: Path, cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    layout = new_layout(tmp_path)
    place = layout.files["public_key.pem"][:3]
    layout.files["public_key.pem"] = (*place, digest_of(b"what was packed"))

    with pytest.raises(SystemExit) as ended:
        layout.folder()

    assert ended.value.code == 78
    assert " is damaged (public_key.pem): " in capsys.readouterr().err
    assert not (cache / NAME / "public_key.pem").exists()


# --- caches that do not work ----------------------------------------------------------------------


def test_a_file_in_place_of_the_folder_leads_to_a_temporary_folder(
    tmp_path: Path, cache: Path
) -> None:
    cache.mkdir(parents=True, mode=0o700)
    (cache / NAME).write_text("in the way", "utf-8")

    folder = Path(new_layout(tmp_path).folder())

    assert folder.name == NAME
    assert not folder.is_relative_to(tmp_path)
    assert contents(folder) == FILES


@pytest.mark.parametrize("inner", ["", ".ai", ".ai/tools"])
def test_a_link_in_place_of_a_folder_is_not_written_through(
    inner: str, tmp_path: Path, cache: Path
) -> None:
    elsewhere, link = tmp_path / "elsewhere", cache / NAME / inner
    elsewhere.mkdir(mode=0o700)
    cache.mkdir(parents=True, mode=0o700)
    link.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    link.symlink_to(elsewhere)

    folder = Path(new_layout(tmp_path).folder())

    assert contents(folder) == FILES
    assert list(elsewhere.iterdir()) == []


def test_a_new_layout_triggers_a_sweep_of_old_ones(tmp_path: Path, cache: Path) -> None:
    old = cache / "fedcba9876543210"
    old.mkdir(parents=True, mode=0o700)
    cache.chmod(0o700)
    os.utime(old, (1_000_000_000, 1_000_000_000))

    new_layout(tmp_path).folder()

    assert [path.name for path in cache.iterdir()] == [NAME]
