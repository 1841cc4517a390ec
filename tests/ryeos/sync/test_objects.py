import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lillux.canonical_json import compute_integrity
from ryeos.graph.run_objects import RunSnapshot, run_snapshot_object, run_snapshot_of
from ryeos.sync.object_shapes import CasObjectError
from ryeos.sync.objects import (
    ExecutionSnapshot,
    ItemSource,
    OutputsBundle,
    ProjectSnapshot,
    SourceManifest,
    execution_snapshot_of,
    item_source_of,
    manifest_of,
    outputs_bundle_of,
    snapshot_of,
)

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "cas.json").read_text("utf-8"))
A, B, C = "a" * 64, "b" * 64, "c" * 64

READERS: Mapping[str, Callable[[object, str], Any]] = {
    "item_source": item_source_of,
    "source_manifest": manifest_of,
    "project_snapshot": snapshot_of,
    "execution_snapshot": execution_snapshot_of,
    "runtime_outputs_bundle": outputs_bundle_of,
}
SIGNATURE = {
    "timestamp": "2026-02-14T00:27:54Z",
    "hash": A,
    "ed25519_sig": "x" * 86,
    "pubkey_fp": "0123456789abcdef",
}
VALUES: list[Any] = [
    ItemSource("tool:a/b", A),
    ItemSource("tool:a/b", A, SIGNATURE),
    SourceManifest("project", {".ai/tools/a.py": A}, {"src/x": B}),
    SourceManifest("user"),
    ProjectSnapshot(project_manifest_hash=A, source="push", timestamp="2026-01-01T00:00:00+00:00"),
    ProjectSnapshot(
        project_manifest_hash=A,
        user_manifest_hash=B,
        parent_hashes=(A, C),
        source="merge",
        timestamp="2026-01-01T00:00:00.000001+00:00",
        source_detail="tool:a/b",
        metadata={"base": C, "thread_id": "t"},
    ),
    ExecutionSnapshot(graph_run_id="t", graph_id="tool:a/b", status="success"),
    ExecutionSnapshot(
        graph_run_id="t",
        graph_id="tool:a/b",
        status="error",
        project_manifest_hash=A,
        user_manifest_hash=B,
        system_version="0.1.0",
        step=3,
        state_hash=C,
        node_receipts=(A, B),
        errors=({"message": "no", "phase": "execution"},),
        unknown={"previous": C},
    ),
    OutputsBundle("t", A, {".ai/state/x": B}),
]


@pytest.mark.parametrize(
    "vector", [one for one in VECTORS["objects"] if "object" in one], ids=lambda one: one["hash"]
)
def test_a_known_object_is_read_and_written_under_its_known_digest(vector: dict[str, Any]) -> None:
    value = READERS[vector["object"]["kind"]](vector["object"], "vector")

    assert compute_integrity(value.as_object()) == vector["hash"]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_written_object_is_read_back(value: Any) -> None:  # noqa: ANN401 - of five kinds
    written = json.loads(json.dumps(value.as_object()))

    assert READERS[written["kind"]](written, "here") == value


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(
    ("value", "found"),
    [(None, "nothing"), ([], "a list"), ("x", "'x'"), (3, "3")],
)
def test_a_value_that_is_not_an_object_is_reported(kind: str, value: object, found: str) -> None:
    with pytest.raises(CasObjectError) as error:
        READERS[kind](value, "object 1f")

    assert str(error.value) == f"object 1f: expected an object, found {found}"


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("schema", [1, 3, None, "2", 2.0, True])
def test_another_schema_is_another_format(kind: str, schema: object) -> None:
    with pytest.raises(CasObjectError, match="schema: expected 2"):
        READERS[kind]({"kind": kind, "schema": schema}, "here")


@pytest.mark.parametrize("kind", READERS)
def test_another_kind_is_refused(kind: str) -> None:
    with pytest.raises(CasObjectError) as error:
        READERS[kind]({"kind": "other", "schema": 2}, "here")

    assert str(error.value) == f"here: kind: expected \"{kind}\", found 'other'"


MANIFEST = SourceManifest("project", {".ai/tools/a.py": A}).as_object()
ITEM = ItemSource("tool:a/b", A).as_object()
SNAPSHOT = VALUES[5].as_object()
EXECUTION = VALUES[7].as_object()
OUTPUTS = VALUES[8].as_object()
UPPER = "A" * 64
DIGEST = "expected a digest"
DIGESTS, TEXTS = "expected a list of digests", "expected an object of strings, or null"


@pytest.mark.parametrize(
    ("value", "change", "problem"),
    [
        (MANIFEST, {"space": "system"}, "space: expected project or user, found 'system'"),
        (MANIFEST, {"items": None}, "items: expected an object, found nothing"),
        (MANIFEST, {"files": []}, "files: expected an object, found a list"),
        (MANIFEST, {"items": {"a": "x"}}, "items['a']: expected a digest, found 'x'"),
        (MANIFEST, {"files": {"a": UPPER}}, f"files['a']: expected a digest, found '{UPPER}'"),
        (ITEM, {"content_blob_hash": ""}, "content_blob_hash: expected a digest, found ''"),
        (ITEM, {"item_ref": 3}, "item_ref: expected a string, found 3"),
        (ITEM, {"signature_info": {"a": 1}}, f"signature_info: {TEXTS}, found an object"),
        (ITEM, {"integrity": B}, f"integrity: expected {A}, as content_blob_hash, found '{B}'"),
        (SNAPSHOT, {"parent_hashes": ["x"]}, f"parent_hashes: {DIGESTS}, found a list"),
        (SNAPSHOT, {"project_manifest_hash": 1}, f"project_manifest_hash: {DIGEST}, found 1"),
        (SNAPSHOT, {"user_manifest_hash": "x"}, "user_manifest_hash: expected a digest, found 'x'"),
        (SNAPSHOT, {"metadata": []}, "metadata: expected an object, found a list"),
        (SNAPSHOT, {"timestamp": 1.5}, "timestamp: expected a string, found 1.5"),
        (EXECUTION, {"step": -1}, "step: expected a whole number from 0, found -1"),
        (EXECUTION, {"step": True}, "step: expected a whole number from 0, found True"),
        (EXECUTION, {"errors": ["x"]}, "errors: expected a list of objects, found a list"),
        (OUTPUTS, {"files": {"a": 1}}, "files['a']: expected a digest, found 1"),
    ],
)  # fmt: skip
def test_an_invalid_field_is_reported_with_the_expected_value(
    value: dict[str, Any], change: dict[str, Any], problem: str
) -> None:
    with pytest.raises(CasObjectError) as error:
        READERS[value["kind"]](value | change, "object 1f")

    assert str(error.value) == f"object 1f: {problem}"


@pytest.mark.parametrize("none", [None, ""])
def test_an_empty_digest_is_read_as_none(none: str | None) -> None:
    snapshot = execution_snapshot_of(EXECUTION | {"state_hash": none}, "here")

    assert snapshot.state_hash is None


def test_the_snapshot_of_a_graph_is_read_and_keeps_its_own_keys() -> None:
    graph = RunSnapshot(
        graph_run_id="r", graph_id="g", step=2, status="completed", state_hash=A, previous=B
    )
    value = run_snapshot_object(graph)

    read = execution_snapshot_of(value, "here")

    assert (read.state_hash, read.unknown["previous"]) == (A, B)
    assert read.as_object() == value


def test_a_snapshot_of_ours_is_read_by_graphs() -> None:
    read = run_snapshot_of(EXECUTION, "here")

    assert (read.graph_run_id, read.step, read.state_hash, read.previous) == ("t", 3, C, C)


def test_a_manifest_lists_all_its_paths_sorted() -> None:
    manifest = SourceManifest("project", {".ai/tools/b.py": A}, {"z": B, "a": B})

    assert manifest.paths() == [".ai/tools/b.py", "a", "z"]
