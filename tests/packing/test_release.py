import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lillux.signing import generate_keypair
from packing import BuildError
from packing.build_time import BuildTime
from packing.release import SIGNATURES, SUMS, make_release, rebuild
from packing.release_build import Source, all_files, differences, source_of
from packing.release_number import prepare, released_version
from packing.signed_bundle import SIGNATURES_VARIABLE, publisher_key, read_signatures
from tests.support.built import ROOT

PLACES = (
    "CHANGELOG.md",
    "lillux_native/Cargo.lock",
    "lillux_native/Cargo.toml",
    "packing/rye-node/pyproject.toml",
    "ryeos/__init__.py",
)
CHANGES = "# Changelog\n\n## [0.2.0] - unreleased\n\n- a\n\n## [0.1.0] - 2026-01-01\n\n- b\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that hold the version, in a repository of their own."""
    folder = tmp_path / "checkout"
    for name in PLACES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    (folder / "CHANGELOG.md").write_text(CHANGES, "utf-8")
    git(folder, "init", "-q", "-b", "main")
    commit(folder)
    return folder


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=T", "-c", "user.email=t@example.org")
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "x")


# --- the version ---


def test_a_version_is_written_everywhere_with_its_date(checkout: Path) -> None:
    changed = prepare(checkout, "7.8.9", "2026-11-24")

    assert sorted(changed) == sorted(PLACES)
    assert '__version__ = "7.8.9"' in (checkout / "ryeos/__init__.py").read_text("utf-8")
    assert (checkout / "lillux_native/Cargo.lock").read_text("utf-8").count('"7.8.9"') == 2
    assert "## [7.8.9] - 2026-11-24\n\n- a\n" in (checkout / "CHANGELOG.md").read_text("utf-8")
    assert released_version(checkout) == "7.8.9"


@pytest.mark.parametrize(
    "version", ["", "1.0", "v1.0.0", "1.0.0rc1", "01.0.0", "1.0.0\n", "1.0.-1"]
)
def test_a_version_that_is_not_three_numbers_is_refused(checkout: Path, version: str) -> None:
    with pytest.raises(BuildError, match="version: expected three numbers, such as"):
        prepare(checkout, version, "2026-11-24")


@pytest.mark.parametrize("version", ["0.1.0", "0.0.9"])
def test_a_version_that_is_not_above_the_last_one_changes_no_file(
    checkout: Path, version: str
) -> None:
    with pytest.raises(BuildError, match=f"expected one above 0.1.0, found {version}"):
        prepare(checkout, version, "2026-11-24")

    source_of(checkout)  # which refuses changes


def test_a_changelog_without_unreleased_changes_is_refused(checkout: Path) -> None:
    prepare(checkout, "0.2.0", "2026-11-24")

    with pytest.raises(BuildError, match="expected the first heading to be unreleased"):
        prepare(checkout, "0.3.0", "2026-11-25")


def test_a_checkout_whose_version_has_no_date_is_no_release(checkout: Path) -> None:
    with pytest.raises(BuildError) as error:
        released_version(checkout)

    assert error.value.hint.startswith("scripts/release prepare ")


def test_a_checkout_with_changes_is_not_built(checkout: Path) -> None:
    (checkout / "new").touch()

    with pytest.raises(BuildError, match="expected a checkout without changes, found 1"):
        source_of(checkout)


# --- signatures ---


def test_recorded_signatures_replace_the_private_key(tmp_path: Path) -> None:
    pair, record, time = generate_keypair(), tmp_path / SIGNATURES, BuildTime(1_700_000_000)
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(pair.private_pem)
    public.write_bytes(pair.public_pem)
    environ = {SIGNATURES_VARIABLE: str(record)}

    signed = publisher_key(private, time, environ).detached_line(b"data")
    again = publisher_key(public, time, environ)

    assert again.detached_line(b"data") == signed
    assert again.detached_line(b"other data") != publisher_key(private, time, {}).detached_line(
        b"other data"
    )


def test_a_recorded_signature_of_another_key_is_refused(tmp_path: Path) -> None:
    pair, record = generate_keypair(), tmp_path / SIGNATURES
    private = tmp_path / "private.pem"
    private.write_bytes(pair.private_pem)
    publisher_key(private, BuildTime(0), {SIGNATURES_VARIABLE: str(record)}).detached_line(b"data")

    with pytest.raises(BuildError, match="expected signatures of this key, found another for"):
        read_signatures(record, generate_keypair().public_pem)


@pytest.mark.parametrize("text", ["x", "x y", "\n", "é"])
def test_a_damaged_record_of_signatures_is_refused(tmp_path: Path, text: str) -> None:
    record = tmp_path / SIGNATURES
    record.write_text(text, "utf-8")

    with pytest.raises(BuildError, match=SIGNATURES):
        read_signatures(record, generate_keypair().public_pem)


# --- comparing ---


def test_a_list_of_files_that_the_key_did_not_sign_is_refused(
    tmp_path: Path, checkout: Path
) -> None:
    release = tmp_path / "release"
    release.mkdir()
    (release / SUMS).write_text(f"{'0' * 64}  rye.pyz\n", "ascii")
    (release / f"{SUMS}.sig").write_text("rye:signed:x\n", "ascii")
    public = tmp_path / "public.pem"
    public.write_bytes(generate_keypair().public_pem)

    with pytest.raises(BuildError, match=f"expected a signature of this key over {SUMS}"):
        rebuild(checkout, release, public)


def test_files_that_differ_are_named_with_their_different_entries(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder, text in ((ours, "one"), (theirs, "two")):
        inside = folder / "inside"
        inside.mkdir(parents=True)
        (inside / "a").write_text(text, "utf-8")
        (inside / "b").write_text("same", "utf-8")
        shutil.make_archive(str(folder / "x"), "zip", inside)
        shutil.rmtree(inside)
        (folder / "same").write_text("same", "utf-8")
    (theirs / "more").touch()

    assert differences(ours, theirs) == (f"more: only in {theirs}", "x.zip: other bytes: a")


@pytest.mark.heavy
def test_a_release_is_built_twice_and_again_by_a_user_without_its_key(tmp_path: Path) -> None:
    mine, theirs, pair = tmp_path / "mine", tmp_path / "theirs", generate_keypair()
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    private.write_bytes(pair.private_pem)
    public.write_bytes(pair.public_pem)
    clone(ROOT, mine)
    prepare(mine, "999.0.0", "2026-11-24")
    commit(mine)
    clone(mine, theirs)

    release = make_release(mine, private, tmp_path / "out", node_and_wheels)

    assert rebuild(theirs, release, public, node_and_wheels) == ()


def node_and_wheels(python: str, target: str, key: str) -> Iterator[list[str]]:
    """The commands of a release without the longest: tests/e2e/test_builds.py builds that twice."""
    yield from list(all_files(python, target, key))[1:]


def clone(source: Path, target: Path) -> None:
    """A clone with the tools and downloads of this checkout."""
    git(source, "clone", "-q", str(source), str(target))
    (target / "build").mkdir()
    for name in ("venv", "zipapp"):
        (target / "build" / name).symlink_to(ROOT / "build" / name)


def test_a_source_is_a_commit_with_its_time(checkout: Path) -> None:
    source = source_of(checkout)

    assert isinstance(source, Source)
    assert len(source.commit) == 40
    assert source.epoch.isdigit()
