"""What nodes answer, as values. Pure. One of another shape is a RemoteReplyError."""

import json
from collections.abc import Mapping
from typing import Any

from lillux.store_files import is_digest
from lillux.values import dataclass, field
from ryeos.remote.errors import RemoteReplyError


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """Where a project is on a node. ``user_manifest_hash`` is ``""`` where none was ever pushed."""

    snapshot_hash: str
    project_manifest_hash: str
    user_manifest_hash: str = ""


@dataclass(frozen=True, slots=True)
class UserSpaceHead:
    """Which user space runs on a node see, and how often it was replaced."""

    user_manifest_hash: str
    revision: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """``GET /health``; ``engine_version`` is what a push has to fit."""

    status: str
    version: str
    engine_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Executed:
    """What came of a run on a node.

    result            the envelope of the run, as ``rye run --json`` gives it here
    merge_type        ``no-op``, ``fast-forward``, ``merge``, ``conflict`` or ``retry_exhausted``
    new_objects       what the run made that the node did not have before
    conflicts         by path, where the node could not merge what the run changed
    warnings          what the node has to say about what the run left
    left_out          files that the node did not take into the project, with the reason
    masked_paths      files of the project in which the node found a secret, and masked it
    is_accepted_only  it was started, and nothing of the result is known yet
    """

    thread_id: str
    status: str
    result: Mapping[str, Any] = field(default_factory=dict)
    snapshot_hash: str = ""
    merge_type: str = ""
    execution_snapshot_hash: str = ""
    outputs_bundle_hash: str = ""
    new_objects: tuple[str, ...] = ()
    conflicts: Mapping[str, Any] = field(default_factory=dict)
    unmerged_snapshot: str = ""
    masked_paths: tuple[str, ...] = ()
    system_version: str = ""
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_accepted_only: bool = False


def parse_reply(body: bytes, what: str) -> dict[str, Any]:
    """The JSON object of a body."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise RemoteReplyError(what, f"expected JSON, found {body[:60]!r}") from None
    if not isinstance(value, dict):
        raise RemoteReplyError(what, f"expected a JSON object, found {type(value).__name__}")
    return value


def detail_of(body: bytes) -> object:
    """What an error says: ``detail`` of its JSON, else its text."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body[:2000].decode("utf-8", "replace").strip() or "no reason given"
    return value.get("detail", value) if isinstance(value, dict) else value


def digests_at(value: Mapping[str, Any], key: str, what: str) -> tuple[str, ...]:
    """A list of digests."""
    found = value.get(key)
    if not isinstance(found, list) or not all(map(is_digest, found)):
        raise RemoteReplyError(what, f"{key}: expected a list of digests")
    return tuple(found)


def rows_at(value: Mapping[str, Any], key: str, what: str) -> tuple[dict[str, Any], ...]:
    """A list of objects."""
    found = value.get(key)
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise RemoteReplyError(what, f"{key}: expected a list of objects")
    return tuple(found)


def digest_at(value: Mapping[str, Any], key: str, what: str) -> str:
    """A digest."""
    found = value.get(key)
    if not is_digest(found):
        raise RemoteReplyError(what, f"{key}: expected a digest, found {found!r:.80}")
    return str(found)


def optional_digest_at(value: Mapping[str, Any], key: str, what: str) -> str:
    """A digest, ``""`` for null, nothing or none."""
    return digest_at(value, key, what) if value.get(key) else ""


def text_at(value: Mapping[str, Any], key: str, what: str) -> str:
    """A text."""
    found = value.get(key)
    if not isinstance(found, str):
        raise RemoteReplyError(what, f"{key}: expected text, found {found!r:.80}")
    return found


def read_health(value: Mapping[str, Any], what: str) -> Health:
    """``GET /health``; an older node has one version for all."""
    version = text_at(value, "version", what)
    engine = value.get("engine_version")
    return Health(
        status=text_at(value, "status", what),
        version=version,
        engine_version=engine if isinstance(engine, str) else version,
    )


def read_head(value: Mapping[str, Any], what: str) -> Head:
    """The head of ``GET /history``, by its newest snapshot."""
    snapshot_hash = digest_at(value, "head", what)
    rows = rows_at(value, "snapshots", what)
    if not rows or rows[0].get("_hash") != snapshot_hash:
        raise RemoteReplyError(what, f"expected the snapshot {snapshot_hash} first")
    return Head(
        snapshot_hash=snapshot_hash,
        project_manifest_hash=digest_at(rows[0], "project_manifest_hash", what),
        user_manifest_hash=optional_digest_at(rows[0], "user_manifest_hash", what),
    )


def read_user_space(value: Mapping[str, Any], what: str) -> UserSpaceHead:
    """``GET /user-space``; the counter has had two names."""
    revision = value.get("revision", value.get("snapshot_revision"))
    if not isinstance(revision, int) or isinstance(revision, bool):
        raise RemoteReplyError(what, f"revision: expected a number, found {revision!r:.80}")
    return UserSpaceHead(digest_at(value, "user_manifest_hash", what), revision)


def read_executed(value: Mapping[str, Any], what: str) -> Executed:
    """``POST /execute``."""
    thread_id, status = text_at(value, "thread_id", what), text_at(value, "status", what)
    if value.get("async") is True:
        return Executed(thread_id=thread_id, status=status, is_accepted_only=True)
    result = value.get("result")
    return Executed(
        thread_id=thread_id,
        status=status,
        result=result if isinstance(result, dict) else {"status": status, "data": result},
        snapshot_hash=optional_digest_at(value, "snapshot_hash", what),
        merge_type=str(value.get("merge_type") or ""),
        execution_snapshot_hash=optional_digest_at(value, "execution_snapshot_hash", what),
        outputs_bundle_hash=optional_digest_at(value, "runtime_outputs_bundle_hash", what),
        new_objects=digests_at({"new_object_hashes": [], **value}, "new_object_hashes", what),
        conflicts=_mapping(value.get("conflicts")),
        unmerged_snapshot=optional_digest_at(value, "unmerged_snapshot", what),
        masked_paths=_texts(value.get("masked_paths")),
        system_version=str(value.get("system_version") or ""),
        left_out=_left_out(value.get("left_out")),
        warnings=_texts(value.get("warnings")),
    )


def actual_head(detail: object) -> tuple[bool, str | None]:
    """Whether a refused push says that the head has moved, and where it is."""
    if not isinstance(detail, dict) or "actual" not in detail:
        return False, None
    actual = detail["actual"]
    return (actual is None or is_digest(actual)), actual


def _left_out(value: object) -> tuple[str, ...]:
    rows = value if isinstance(value, list) else []
    return tuple(f"{row.get('path')!a}: {row.get('problem')}" for row in rows if _mapping(row))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()
