import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.remote.errors import RemoteError, RemoteReplyError
from ryeos.remote.replies import (
    RemoteHead,
    UserSpaceHead,
    actual_head,
    detail_of,
    parse_reply,
    read_executed,
    read_head,
    read_health,
    read_user_space,
)

A, B, C = "a" * 64, "b" * 64, "c" * 64
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.just(A),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        *("status", "version", "engine_version", "head", "snapshots", "_hash", "revision"),
        *("project_manifest_hash", "user_manifest_hash", "thread_id", "result", "async"),
        *("snapshot_hash", "new_object_hashes", "conflicts", "unmerged_snapshot"),
    ]
)
READERS = (read_health, read_head, read_user_space, read_executed)


@given(reply=st.dictionaries(KEYS, ANY_JSON), reader=st.sampled_from(READERS))
def test_any_reply_is_read_or_refused(reply: dict[str, Any], reader: Any) -> None:  # noqa: ANN401
    try:
        reader(reply, "remote x: /route")
    except RemoteReplyError as error:
        assert str(error).startswith("remote x: /route: ")  # noqa: PT017 - either is fine


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"\xff", b"[" * 100_000])
def test_a_reply_that_is_not_an_object_is_refused(body: bytes) -> None:
    with pytest.raises(RemoteReplyError, match="remote x: expected"):
        parse_reply(body, "remote x")


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b'{"detail": "no"}', "no"),
        (b'{"detail": {"error": "no"}}', {"error": "no"}),
        (b'{"other": 1}', {"other": 1}),
        (b"Internal Server Error", "Internal Server Error"),
        (b"", "no reason given"),
    ],
)
def test_the_reason_of_a_refusal_is_read(body: bytes, detail: object) -> None:
    assert detail_of(body) == detail


def test_a_refusal_is_reported_in_one_line_without_control_characters() -> None:
    error = RemoteError(500, "one\n\x1b[31mtwo" + "x" * 1000, what="remote x: /push")

    assert "\n" not in str(error)
    assert "\x1b" not in str(error)
    assert len(str(error)) < 600


def test_the_head_is_that_of_the_newest_snapshot() -> None:
    snapshot = {"_hash": A, "project_manifest_hash": B, "user_manifest_hash": C}

    head = read_head({"head": A, "snapshots": [snapshot]}, "x")

    assert head == RemoteHead(snapshot_hash=A, project_manifest_hash=B, user_manifest_hash=C)
    with pytest.raises(RemoteReplyError, match="expected the snapshot"):
        read_head({"head": B, "snapshots": [snapshot]}, "x")


@pytest.mark.parametrize("key", ["revision", "snapshot_revision"])
def test_the_counter_of_a_user_space_has_two_names(key: str) -> None:
    assert read_user_space({"user_manifest_hash": A, key: 3}, "x") == UserSpaceHead(A, 3)


@pytest.mark.parametrize(
    ("detail", "found"),
    [
        ({"error": "HEAD has moved", "expected": None, "actual": A}, (True, A)),
        ({"error": "HEAD has moved", "actual": None}, (True, None)),
        ({"error": "other", "actual": "x"}, (False, "x")),
        ("the head moved", (False, None)),
    ],
)
def test_only_a_refusal_with_a_head_means_that_the_head_moved(
    detail: object, found: tuple[bool, str | None]
) -> None:
    assert actual_head(detail) == found


def test_a_run_of_an_older_node_is_read() -> None:
    reply = {
        "status": "error",
        "thread_id": "t",
        "snapshot_hash": A,
        "merge_type": "no-op",
        "execution_snapshot_hash": B,
        "runtime_outputs_bundle_hash": None,
        "new_object_hashes": [C],
        "result": {"status": "error", "error": "no"},
        "system_version": "0.1.27",
    }

    executed = read_executed(json.loads(json.dumps(reply)), "x")

    assert (executed.status, executed.new_objects, executed.outputs_bundle_hash) == (
        *("error", (C,)),
        "",
    )
