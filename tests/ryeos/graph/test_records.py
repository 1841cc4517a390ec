from typing import Any

import pytest

from lillux.values import replace
from ryeos.graph.errors import RecordError
from ryeos.graph.run_objects import (
    NodeInput,
    Receipt,
    RunSnapshot,
    node_input_object,
    receipt_object,
    receipt_of,
    result_object,
    result_of,
    run_snapshot_object,
    run_snapshot_of,
    state_object,
    state_of,
)

SNAPSHOT = RunSnapshot(
    graph_run_id="g-1-00aa",
    graph_id="mine/g",
    step=3,
    status="running",
    state_hash="a" * 64,
    node_receipts=("b" * 64,),
    errors=({"message": "bad", "phase": "action"},),
    errors_suppressed=4,
    current_node="next",
    graph_hash="c" * 64,
    previous="d" * 64,
    system_version="0.1.0",
    unknown={"foreign": [1]},
)
RECEIPT = Receipt(node_input_hash="a" * 64, node_result_hash="b" * 64, elapsed_ms=7, error="no")
INPUT = NodeInput(
    graph_id="mine/g", graph_hash="a" * 64, node_name="n", interpolated_action={"item_id": "x"}
)


def test_a_snapshot_is_read_back_with_keys_of_other_programs() -> None:
    assert run_snapshot_of(run_snapshot_object(SNAPSHOT), "x") == SNAPSHOT


def test_a_receipt_is_read_back() -> None:
    assert receipt_of(receipt_object(RECEIPT), "x") == RECEIPT


def test_a_state_and_a_result_are_read_back() -> None:
    assert state_of(state_object({"a": [1]}), "x") == {"a": [1]}
    assert result_of(result_object(None), "x") is None


def test_a_snapshot_without_errors_has_no_key_for_them() -> None:
    assert "errors" not in run_snapshot_object(replace(SNAPSHOT, errors=()))


def test_a_snapshot_of_another_program_does_not_need_our_keys() -> None:
    value = {
        "schema": 2,
        "kind": "execution_snapshot",
        "graph_run_id": "rye-remote-1",
        "graph_id": "tool:probe/write",
        "project_manifest_hash": "",
        "user_manifest_hash": None,
        "system_version": "0.1.27",
        "step": 0,
        "status": "success",
        "state_hash": "",
        "node_receipts": [],
    }

    snapshot = run_snapshot_of(value, "x")

    assert (snapshot.state_hash, snapshot.current_node, snapshot.previous) == ("", None, "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "x"}, "snapshot s: kind: expected \"execution_snapshot\", found 'x'"),
        ({"schema": 1}, "snapshot s: schema: expected 2, found 1"),
        ({"step": -1}, "snapshot s: step: expected a whole number from 0, found -1"),
        ({"step": True}, "snapshot s: step: expected a whole number from 0, found True"),
        ({"status": []}, "snapshot s: status: expected a string, found a list"),
        ({"state_hash": "../x"}, "snapshot s: state_hash: expected a digest, found '../x'"),
        (
            {"node_receipts": ["x"]},
            "snapshot s: node_receipts: expected a list of digests, found a list",
        ),
        ({"errors": {}}, "snapshot s: errors: expected a list of objects, found an object"),
    ],
)
def test_a_wrong_type_is_named_with_its_object_and_key(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecordError) as error:
        run_snapshot_of(run_snapshot_object(SNAPSHOT) | change, "snapshot s")

    assert str(error.value) == message


def test_a_value_that_is_no_object_is_refused() -> None:
    with pytest.raises(RecordError):
        receipt_of([], "x")
    with pytest.raises(RecordError):
        state_of({"schema": 2, "kind": "state_snapshot"}, "x")


@pytest.mark.parametrize(
    "change",
    [
        {"graph_id": "mine/other"},
        {"graph_hash": "b" * 64},
        {"node_name": "m"},
        {"interpolated_action": {"item_id": "y"}},
        {"config_snapshot_hash": "b" * 64},
        {"chain": ("b" * 64,)},
        {"remote": "there"},
    ],
)
def test_every_part_of_an_input_changes_its_digest(change: dict[str, Any]) -> None:
    assert replace(INPUT, **change).digest() != INPUT.digest()


def test_an_input_is_a_node_input_object() -> None:
    assert node_input_object(INPUT)["kind"] == "node_input"
