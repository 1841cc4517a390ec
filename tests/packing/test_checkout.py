import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from packing.checkout import source_digest, staged_bundle
from ryeos import __version__
from ryeos.trust.bundles import embedded_bundle, read_manifest
from tests.support.built import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with a real bundle, whose code is a single file."""
    shutil.copytree(ROOT / "bundle.ai", tmp_path / "bundle.ai")
    for package in ("lillux", "ryeos"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("", encoding="utf-8")
    return tmp_path


def test_the_staged_bundle_is_signed_by_a_discarded_key(checkout: Path) -> None:
    space = embedded_bundle(staged_bundle(checkout), __version__)

    manifest = read_manifest(space, space.pinned_pem)

    assert manifest is not None
    assert "tools/rye/bash/bash.yaml" in manifest.files
    assert [path for path in checkout.rglob("*") if path.name == "private_key.pem"] == []


def test_a_second_start_uses_the_staging_of_the_first_one(checkout: Path) -> None:
    first = staged_bundle(checkout)
    key = (first / "public_key.pem").read_bytes()

    second = staged_bundle(checkout)

    assert second == first
    assert (second / "public_key.pem").read_bytes() == key


@pytest.mark.heavy
def test_first_starts_at_once_agree_on_one_bundle(checkout: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        staged = set(pool.map(lambda _: staged_bundle(checkout), range(8)))

    assert list((checkout / "build" / "checkout").iterdir()) == list(staged)


def test_an_edit_of_the_bundle_or_of_the_code_is_another_state(checkout: Path) -> None:
    digests = {source_digest(checkout)}
    for edited in ("bundle.ai/config/rye/aliases.yaml", "ryeos/__init__.py", "lillux/new.py"):
        with (checkout / edited).open("a", encoding="utf-8") as file:
            file.write("# edited\n")
        digests.add(source_digest(checkout))

    assert len(digests) == 4


def test_bytecode_caches_are_no_change(checkout: Path) -> None:
    before = source_digest(checkout)

    (checkout / "ryeos" / "__pycache__").mkdir()
    (checkout / "ryeos" / "__pycache__" / "x.pyc").write_bytes(b"")

    assert source_digest(checkout) == before


def test_an_old_staging_is_removed_and_a_recent_one_stays_for_its_processes(checkout: Path) -> None:
    old, recent = checkout / "build/checkout/old", checkout / "build/checkout/recent"
    for folder in (old, recent):
        folder.mkdir(parents=True)
    os.utime(old, (time.time() - 2 * 24 * 3600,) * 2)

    staged = staged_bundle(checkout)

    assert set((checkout / "build" / "checkout").iterdir()) == {recent, staged}
