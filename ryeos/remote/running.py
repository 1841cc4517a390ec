"""A run on a node as an answer of this program: the same envelope as of a run here."""

from collections.abc import Mapping
from typing import Any

from ryeos.envelope import EXIT_BY_CODE, TOOL_FAILED, Answer
from ryeos.remote.execute import Ran

REMOTE = "remote"


def answer_of(ran: Ran, remote: str, item_ref: str) -> Answer:
    """The result of the run, flattened, and under ``remote`` what came of it besides."""
    executed = ran.executed
    kind, _, item_id = item_ref.partition(":")
    common = {
        "type": kind,
        "item_id": item_id,
        "execution_mode": REMOTE,
        "thread_id": executed.thread_id,
    }
    facts = {"name": remote, "snapshot_hash": ran.pushed.snapshot_hash}
    if executed.is_accepted_only:
        envelope = {"status": "success", "async": True, "state": "running", **common}
        return Answer({**envelope, "remote": {**facts, "objects_pushed": ran.pushed.objects_sent}})
    result = dict(executed.result)
    metadata = result.pop("metadata", None)
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    warnings = [*_texts(metadata.get("warnings")), *ran.warnings]
    if warnings:
        metadata["warnings"] = warnings
    envelope = {
        **result,
        "status": _status(result, executed.status),
        **common,
        "remote": facts | _outcome(ran),
        "metadata": metadata,
    }
    if envelope["status"] == "success":
        return Answer(envelope)
    envelope.setdefault("error", f"the run on {remote} failed")
    envelope.setdefault("code", "EXECUTION_FAILED")
    return Answer(envelope, EXIT_BY_CODE.get(str(envelope["code"]), TOOL_FAILED))


def _outcome(ran: Ran) -> dict[str, Any]:
    executed = ran.executed
    outcome: dict[str, Any] = {
        "snapshot_hash": executed.snapshot_hash or ran.pushed.snapshot_hash,
        "merge_type": executed.merge_type,
        "execution_snapshot_hash": executed.execution_snapshot_hash or None,
        "runtime_outputs_bundle_hash": executed.outputs_bundle_hash or None,
        "objects_pushed": ran.pushed.objects_sent,
        "objects_pulled": ran.fetched,
        "outputs_materialized": list(ran.outputs.written),
        "applied": list(ran.applied),
        "system_version": executed.system_version,
    }
    if executed.conflicts:
        outcome["conflicts"] = dict(executed.conflicts)
        outcome["unmerged_snapshot"] = executed.unmerged_snapshot
    return outcome


def _status(result: Mapping[str, Any], fallback: str) -> str:
    """``success`` or ``error``. Of texts and directives there is a status of their own."""
    status = str(result.get("status") or fallback)
    return "success" if status in {"success", "completed", "ok"} else status


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
