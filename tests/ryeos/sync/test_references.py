from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lillux.store_layout import ObjectKind
from ryeos.sync.objects import (
    ExecutionSnapshot,
    ItemSource,
    OutputsBundle,
    ProjectSnapshot,
    SourceManifest,
)
from ryeos.sync.references import ObjectReference, references_of

A, B, C, D = "a" * 64, "b" * 64, "c" * 64, "d" * 64


def named(value: object) -> list[tuple[str, ObjectKind | None]]:
    """The references of an object, as pairs."""
    return [(one.digest, one.space) for one in references_of(value)]


BLOB, OBJECT = ObjectKind.BLOB, ObjectKind.OBJECT


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ItemSource("tool:a", A).as_object(), [(A, BLOB)]),
        (SourceManifest("user", {"i": A}, {"f": B}).as_object(), [(A, OBJECT), (B, BLOB)]),
        (
            ProjectSnapshot(
                project_manifest_hash=A,
                user_manifest_hash=B,
                parent_hashes=(C, D),
                source="merge",
                timestamp="",
            ).as_object(),
            [(A, OBJECT), (B, OBJECT), (C, OBJECT), (D, OBJECT)],
        ),
        (
            ProjectSnapshot(project_manifest_hash=A, source="push", timestamp="").as_object(),
            [(A, OBJECT)],
        ),
        (
            ExecutionSnapshot(
                graph_run_id="",
                graph_id="",
                status="",
                project_manifest_hash=A,
                state_hash=B,
                node_receipts=(C,),
                unknown={"previous": D},
            ).as_object(),
            [(A, OBJECT), (B, OBJECT), (D, OBJECT), (C, OBJECT)],
        ),
        (OutputsBundle("t", A, {"x": B}).as_object(), [(A, OBJECT), (B, BLOB)]),
        (
            {"kind": "node_receipt", "node_input_hash": A, "node_result_hash": B},
            [(A, OBJECT), (B, OBJECT)],
        ),
        (
            {"kind": "node_input", "graph_hash": A, "config_snapshot_hash": ""},
            [(A, OBJECT)],
        ),
        (
            {"kind": "artifact_index", "entries": {"c": {"blob_hash": A, "content_hash": B}}},
            [(A, BLOB)],
        ),
        ({"kind": "state_snapshot", "state": {"x_hash": A}}, []),
        ({"kind": "node_result", "result": A, "x_hash": A}, []),
        (
            {"kind": "later", "x_hash": A, "y_hashes": [B, "x"], "note": C, "z_hash": None},
            [(A, None), (B, None)],
        ),
        ({"x_hash": A}, [(A, None)]),
    ],
)
def test_the_references_of_an_object_depend_on_its_kind(
    value: dict[str, Any], expected: list[tuple[str, ObjectKind | None]]
) -> None:
    assert named(value) == expected


@pytest.mark.parametrize("value", [None, [], [A], A, 3, {"kind": ["source_manifest"]}])
def test_a_value_that_is_not_an_object_has_no_references(value: object) -> None:
    assert named(value) == []


JSON = st.recursive(
    st.none() | st.integers() | st.text() | st.just(A),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
KEYS = ["items", "files", "entries", "parent_hashes", "node_receipts", "state_hash", "x_hashes"]
KINDS = ["source_manifest", "project_snapshot", "execution_snapshot", "artifact_index", "x"]


@pytest.mark.property
@given(kind=st.sampled_from(KINDS), fields=st.dictionaries(st.sampled_from(KEYS), JSON))
def test_a_malformed_object_references_only_digests(kind: str, fields: dict[str, Any]) -> None:
    references = list(references_of({"kind": kind, **fields}))

    assert {one.digest for one in references} <= {A}
    assert all(isinstance(one, ObjectReference) for one in references)
