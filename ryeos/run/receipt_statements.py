"""Statements of receipts: what a run was, in the words of in-toto."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lillux.attempts import Attempts
from lillux.digests import sha256_hex
from lillux.values import dataclass, field
from ryeos.run.programs import Program
from ryeos.run.written_files import Look

if TYPE_CHECKING:
    from lillux.sandbox import Confinement


STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE, START_TYPE = "https://rye.dev/run/v1", "https://rye.dev/run-start/v1"
THREAD_TYPE, MODEL_CALL_TYPE = "https://rye.dev/thread/v1", "https://rye.dev/model-call/v1"
"""A thread that a model carried out, and one call of the model (`ryeos.agent.receipts`)."""
PAYLOAD_TYPE, HEAD_TYPE = "application/vnd.in-toto+json", "application/vnd.rye.receipts-head+json"
GRAPH, THREAD = "graph", "thread"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Facts about one execution. All values are JSON.

    chain        id, kind, version, space, sha256 and signer of each element
    parameters   as they were checked
    environment  the names of the variables that the program got
    program      the program that is started, as it is before the start; None for none
    confinement  what the program may not do, as far as it is limited
    attempts     gets what it is refused while it runs
    before       the folders that it could write, before the start; None where none were named
    """

    item_id: str
    chain: tuple[Mapping[str, Any], ...]
    is_locked: bool
    parameters: Mapping[str, Any] = field(repr=False)
    environment: tuple[str, ...]
    rights: Mapping[str, Any]
    program: Program | None = None
    approvals: tuple[str, ...] = ()
    confinement: "Confinement | None" = field(default=None, repr=False)
    attempts: Attempts = field(default_factory=Attempts, repr=False, compare=False)
    before: Look | None = field(default=None, repr=False)


def digest_of(value: object) -> str:
    """The SHA-256 of a JSON value, its keys sorted."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return sha256_hex(text.encode())


def result_digest(envelope: Mapping[str, Any]) -> str:
    """The digest of what a run gave: its data, of a thread its text and its outputs."""
    if envelope.get("type") == THREAD:
        return digest_of({name: envelope.get(name) for name in ("text", "outputs")})
    return digest_of(envelope.get("data"))


def predicate_of(
    evidence: Evidence,
    *,
    caller: Mapping[str, Any],
    started_at: datetime,
    finished_at: datetime,
    outcome: Mapping[str, Any],
    is_full: bool,
    steps: Sequence[str] = (),
) -> dict[str, Any]:
    """The predicate of one execution, without its place in the log.

    ``outcome`` has ``status`` and what else is known of the end; with ``is_full`` the values of the
    parameters are in it too.
    """
    parameters: dict[str, Any] = {"sha256": digest_of(evidence.parameters)}
    if is_full:
        parameters["values"] = dict(evidence.parameters)
    said: dict[str, Any] = {
        "item": f"tool:{evidence.item_id}",
        "chain": [dict(one) for one in evidence.chain],
        "locked": evidence.is_locked,
        "parameters": parameters,
        "environment": list(evidence.environment),
        "rights": dict(evidence.rights),
        "caller": dict(caller),
        "approvals": list(evidence.approvals),
        "startedOn": stamp(started_at),
        "finishedOn": stamp(finished_at),
        **outcome,
    }
    return said | ({"steps": list(steps)} if steps else {})


def stamp(time: datetime) -> str:
    """A time as receipts have it."""
    return time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def start_of(
    evidence: Evidence, *, caller: Mapping[str, Any], started_at: datetime
) -> dict[str, Any]:
    """The predicate of an execution that is about to start, without its place in the log."""
    return {
        "item": f"tool:{evidence.item_id}",
        "sha256": evidence.chain[0]["sha256"],
        "parameters": {"sha256": digest_of(evidence.parameters)},
        "caller": dict(caller),
        "startedOn": stamp(started_at),
    }


def statement(
    predicate: Mapping[str, Any],
    subject: Sequence[Mapping[str, Any]],
    predicate_type: str = PREDICATE_TYPE,
) -> dict[str, Any]:
    """An in-toto statement of a run; ``subject`` are its outputs, of a start its inputs."""
    return {
        "_type": STATEMENT_TYPE,
        "subject": list(subject),
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }


def subject_of(name: str, digest: str) -> dict[str, Any]:
    """One output of a run."""
    return {"name": name, "digest": {"sha256": digest}}
