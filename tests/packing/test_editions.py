from pathlib import Path, PurePosixPath

import pytest

from lillux.signing import generate_keypair
from packing.signed_bundle import Edition, selected, stage_bundle
from ryeos.trust.bundles import CORE_ID, EMBEDDED_ID, embedded_bundle
from ryeos.trust.signing_key import SigningKey
from tests.support.workspace import BUNDLE_SOURCE, ROOT, fixed_clock


def listed(folder: Path) -> set[str]:
    """The files below a folder."""
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return {path.as_posix() for path in files if "__pycache__" not in path.parts}


@pytest.mark.parametrize(
    ("path", "is_core"),
    [
        ("tools/rye/core/runtimes/bash/bash.yaml", True),
        ("directives/rye/core/create_tool.md", True),
        ("knowledge/rye/core/signing.md", True),
        ("config/execution/execution.yaml", True),
        ("tools/rye/bash/bash.yaml", False),
        ("tools/rye/core.yaml", False),
        ("tools/rye/core-extras/x.py", False),
        ("directives/rye/examples/approve.md", False),
    ],
)
def test_the_core_holds_the_files_of_its_folders_and_its_configuration(
    path: str,
    is_core: bool,  # noqa: FBT001
) -> None:
    assert Edition.CORE.holds(PurePosixPath(path)) == is_core
    assert Edition.FULL.holds(PurePosixPath(path))


def test_the_full_edition_is_the_source_as_it_is(tmp_path: Path) -> None:
    assert selected(BUNDLE_SOURCE, tmp_path / "copy", Edition.FULL) == BUNDLE_SOURCE
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize(("edition", "bundle_id"), [("core", CORE_ID), ("full", EMBEDDED_ID)])
def test_each_edition_is_a_bundle_of_its_own(edition: str, bundle_id: str, tmp_path: Path) -> None:
    key = SigningKey(generate_keypair(), fixed_clock)

    stage_bundle(ROOT, tmp_path / "bundle", key, Edition(edition))

    space = embedded_bundle(tmp_path / "bundle", "1.2.3")
    assert space.label == f"system:{bundle_id}"
    source = listed(BUNDLE_SOURCE)
    expected = {path for path in source if Edition(edition).holds(PurePosixPath(path))}
    assert listed(space.ai) & source == expected
    assert (tmp_path / "bundle" / ".ai" / "bundles" / bundle_id / "files.manifest").is_file()
