import json
from pathlib import Path

import pytest

from lillux.store import Store
from lillux.store_errors import RefNameError
from ryeos.remote.local_heads import LocalHead, LocalHeads

SNAPSHOT, MANIFEST = "a" * 64, "b" * 64
HEAD = LocalHead(
    snapshot_hash=SNAPSHOT,
    project_manifest_hash=MANIFEST,
    project_path="demo",
    url="https://gpu.example",
    updated_at="2026-01-01T00:00:00+00:00",
    user_manifest_hash="c" * 64,
)


@pytest.fixture
def heads(tmp_path: Path) -> LocalHeads:
    return LocalHeads(Store(tmp_path / ".ai/state/objects"))


def test_a_head_is_read_back(heads: LocalHeads, tmp_path: Path) -> None:
    heads.write("gpu", HEAD)

    assert heads.read("gpu") == HEAD
    path = tmp_path / ".ai/state/objects/refs/remotes/gpu.json"
    assert json.loads(path.read_text("utf-8"))["snapshot_hash"] == SNAPSHOT


def test_a_missing_head_is_read_as_none(heads: LocalHeads) -> None:
    assert heads.read("gpu") is None
    heads.forget("gpu")


def test_a_forgotten_head_is_read_as_none(heads: LocalHeads) -> None:
    heads.write("gpu", HEAD)
    heads.forget("gpu")

    assert heads.read("gpu") is None


def test_a_head_of_another_program_is_read_until_ours_is_written(
    heads: LocalHeads, tmp_path: Path
) -> None:
    path = tmp_path / ".ai/objects/refs/remotes/gpu.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"snapshot_hash": "d" * 64}), encoding="utf-8")

    found = heads.read("gpu")
    heads.write("gpu", HEAD)

    assert found == LocalHead(
        snapshot_hash="d" * 64, project_manifest_hash="", project_path="", url="", updated_at=""
    )
    assert heads.read("gpu") == HEAD


@pytest.mark.parametrize(
    "text", ["", "[]", "null", "{}", '{"snapshot_hash": 5}', '{"snapshot_hash": "../../etc"}']
)
def test_an_invalid_file_is_read_as_no_head(heads: LocalHeads, tmp_path: Path, text: str) -> None:
    for folder in (".ai/state/objects/refs/remotes", ".ai/objects/refs/remotes"):
        path = tmp_path / folder / "gpu.json"
        path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")

    assert heads.read("gpu") is None


def test_an_unsafe_name_is_refused(heads: LocalHeads) -> None:
    with pytest.raises(RefNameError):
        heads.read("../../x")
