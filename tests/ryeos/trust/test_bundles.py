import logging
import os
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lillux.signing import KeyPair, compute_key_fingerprint, generate_keypair
from lillux.values import replace
from ryeos.items.errors import IntegrityError, RyeError
from ryeos.items.refs import Kind, Space
from ryeos.trust.bundles import (
    EMBEDDED_ID,
    MANIFEST_FORM,
    discover,
    dump_manifest,
    embedded_bundle,
    manifest_path,
    manifest_signer,
    read_manifest,
)
from ryeos.trust.signature import split
from ryeos.trust.signing_key import SigningKey
from tests.support.errors import coded
from tests.support.workspace import BUNDLE_SOURCE, fixed_clock, publish

INSTALL_AGAIN = "install the bundle (or rye.pyz) again"


@pytest.fixture
def keypair() -> KeyPair:
    return generate_keypair()


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return Space("system:acme", tmp_path / "acme")


def write_manifest(space: Space, keypair: KeyPair, text: str) -> None:
    """A manifest with any text, validly signed."""
    path = manifest_path(space)
    path.parent.mkdir(parents=True, exist_ok=True)
    signed = split(text, MANIFEST_FORM, "manifest")
    key = SigningKey(keypair, fixed_clock)
    path.write_text(key.signed_text(Kind.CONFIG, signed, MANIFEST_FORM, "manifest"), "utf-8")


def folder_with_ai(path: Path) -> Path:
    (path / ".ai").mkdir(parents=True)
    return path


# --- manifests ------------------------------------------------------------------------------------


def test_a_manifest_is_one_line_of_sorted_json() -> None:
    files: dict[str, dict[str, Any]] = {
        "tools/b.py": {"sha256": "2"},
        "tools/a.py": {"sha256": "1", "header": {"é": 1}},
    }

    assert dump_manifest("acme", "1.2.3", files) == (
        '{"bundle":{"id":"acme","version":"1.2.3"},"files":{'
        '"tools/a.py":{"header":{"é":1},"sha256":"1"},"tools/b.py":{"sha256":"2"}}}\n'
    )


def test_a_manifest_holds_the_listed_bytes_and_itself(space: Space, keypair: KeyPair) -> None:
    files = {"tools/a.py": {"sha256": sha256(b"x").hexdigest(), "header": {"version": "1.0.0"}}}
    write_manifest(space, keypair, dump_manifest("acme", "1.0.0", files))

    manifest = read_manifest(space, keypair.public_pem)

    assert manifest
    assert manifest.holds("tools/a.py", b"x")
    assert not manifest.holds("tools/a.py", b"y")
    assert not manifest.holds("tools/b.py", b"x")
    assert manifest.holds("bundles/acme/files.manifest", manifest_path(space).read_bytes())
    assert manifest.header("tools/a.py") == {"version": "1.0.0"}
    assert manifest.header("bundles/acme/files.manifest") is None


def test_a_missing_manifest_is_read_as_none(space: Space, keypair: KeyPair) -> None:
    assert read_manifest(space, keypair.public_pem) is None
    assert manifest_signer(space) == ""


def test_a_manifest_names_its_signer(space: Space, keypair: KeyPair) -> None:
    write_manifest(space, keypair, dump_manifest("acme", "1.0.0", {}))

    assert manifest_signer(space) == compute_key_fingerprint(keypair.public_pem)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not json",
        "[]",
        "{}",
        '{"bundle":{"id":"acme"}}',
        '{"bundle":{"id":"acme"},"files":[]}',
        '{"bundle":{"id":"acme"},"files":{"a":"b"}}',
        '{"bundle":"acme","files":{}}',
        '{"bundle":{},"files":{}}',
        "[" * 100_000,
    ],
)
def test_a_signed_text_that_is_not_a_manifest_is_refused(
    space: Space, keypair: KeyPair, text: str
) -> None:
    write_manifest(space, keypair, text)

    with pytest.raises(IntegrityError) as error:
        read_manifest(space, keypair.public_pem)

    assert error.value.path == str(manifest_path(space))


def test_an_entry_without_a_digest_matches_no_file(space: Space, keypair: KeyPair) -> None:
    text = '{"bundle":{"id":"acme"},"files":{"a":{},"b":{"sha256":5,"header":[]}}}'
    write_manifest(space, keypair, text)

    manifest = read_manifest(space, keypair.public_pem)

    assert manifest
    assert not manifest.holds("a", b"")
    assert not manifest.holds("b", b"")
    assert manifest.header("b") is None


@pytest.mark.parametrize("data", [b"", b"\xff", b"# rye:signed:x\n{}"])
def test_an_unsigned_manifest_is_refused(space: Space, keypair: KeyPair, data: bytes) -> None:
    manifest_path(space).parent.mkdir(parents=True)
    manifest_path(space).write_bytes(data)

    with pytest.raises(IntegrityError):
        read_manifest(space, keypair.public_pem)


# --- discovery ------------------------------------------------------------------------------------


def test_the_bundle_of_the_program_brings_its_key(tmp_path: Path) -> None:
    root = publish(tmp_path / "ryeos").base

    space = embedded_bundle(root, "1.2.3")

    assert (space.label, space.version) == (f"system:{EMBEDDED_ID}", "1.2.3")
    assert space.pinned_pem == (root / "public_key.pem").read_bytes()


def test_a_program_without_the_key_of_its_bundle_is_incomplete(tmp_path: Path) -> None:
    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        embedded_bundle(tmp_path, "1.2.3")

    assert str(error.value) == (
        f"bundle {tmp_path}: no public_key.pem; this copy of rye is incomplete"
    )


def test_bundles_are_sorted_by_id(tmp_path: Path) -> None:
    two = folder_with_ai(tmp_path / "two")
    one = folder_with_ai(tmp_path / "one")

    found = discover(None, {"RYE_BUNDLE_PATH": os.pathsep.join([str(two), "", str(one)])})

    assert [(space.label, space.base) for space in found] == [
        ("system:one", one),
        ("system:two", two),
    ]


def test_the_id_is_that_of_the_only_manifest(tmp_path: Path, keypair: KeyPair) -> None:
    root = folder_with_ai(tmp_path / "folder")
    write_manifest(Space("system:acme", root), keypair, "x")

    assert [s.label for s in discover(None, {"RYE_BUNDLE_PATH": str(root)})] == ["system:acme"]

    write_manifest(Space("system:more", root), keypair, "x")

    assert [s.label for s in discover(None, {"RYE_BUNDLE_PATH": str(root)})] == ["system:folder"]


def test_of_two_bundles_with_one_id_the_first_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    embedded = replace(publish(tmp_path / "ours"), label="system:ryeos")
    other = publish(tmp_path / "other", BUNDLE_SOURCE).base

    with caplog.at_level(logging.WARNING):
        found = discover(embedded, {"RYE_BUNDLE_PATH": str(other)})

    assert found == (embedded,)
    assert caplog.messages == [f"bundle ryeos: {other} is hidden by another"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("relative", "expected an absolute path"),
        ("", "expected a folder that holds .ai/"),
        ("/" + "x" * 5000, "expected a folder that holds .ai/"),
    ],
)
def test_a_folder_that_is_not_a_bundle_is_an_error(tmp_path: Path, name: str, problem: str) -> None:
    path = name or str(tmp_path)

    with pytest.raises(RyeError, check=coded("CONFIG_ERROR")) as error:
        discover(None, {"RYE_BUNDLE_PATH": path})

    assert str(error.value) == f"bundle {path}: {problem}"
    assert error.value.hint == (
        "a bundle is an absolute folder that holds .ai/ (see RYE_BUNDLE_PATH)"
    )


ENTRY_POINT = """\
def good():
    return {"root_path": %r, "bundle_id": "installed", "version": "3.2.1"}

def relative():
    return {"root_path": "."}

def broken():
    raise SystemError("boom")
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with three bundle entry points, one of them good."""
    root = folder_with_ai(tmp_path / "root")
    site = tmp_path / "site"
    info = site / "acme_bundles-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "acme_bundles.py").write_text(ENTRY_POINT % str(root), encoding="utf-8")
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: acme-bundles\nVersion: 1.0\n", "utf-8"
    )
    names = "".join(f"{name} = acme_bundles:{name}\n" for name in ("good", "relative", "broken"))
    (info / "entry_points.txt").write_text(f"[rye.bundles]\n{names}", encoding="utf-8")
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "acme_bundles", raising=False)
    return root


def test_code_of_installed_packages_runs_only_on_request(package: Path) -> None:
    assert discover(None, {}) == ()
    assert "acme_bundles" not in sys.modules


def test_an_entry_point_that_fails_is_skipped_with_a_warning(
    package: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        found = discover(None, {"RYE_BUNDLE_ENTRY_POINTS": "1"})

    assert found == (Space("system:installed", package, "3.2.1"),)
    assert [message.split(":")[0] for message in caplog.messages] == [
        "bundle entry point broken skipped",
        "bundle entry point relative skipped",
    ]
