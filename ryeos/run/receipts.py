"""Receipts: signed records of what ran, with which rights, for whom, and with what result.

A receipt is an in-toto Statement v1 in a DSSE envelope; its predicate is ``https://rye.dev/run/v1``.
Receipts are lines of one log in user space. Each names the one before by digest and has the next
number, and a signed head says which is the last: a line that is edited, moved, taken out or cut off
shows. The key signs no items (`ryeos.run.receipt_key`); no tool reads it. Page:
``docs/rights.md``.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from lillux.errors import LilluxError
from ryeos.items.context import CONFINE_VARIABLE, Context, utc_now
from ryeos.items.errors import Answer, RyeError
from ryeos.run.heard_refusals import refusals_of_receipt
from ryeos.run.programs import ProgramDigests
from ryeos.run.receipt_key import ReceiptKey
from ryeos.run.receipt_log import ENDS, ID_CHARACTERS, PROGRAMS, ReceiptLog
from ryeos.run.receipt_statements import (
    GRAPH,
    PREDICATE_TYPE,
    START_TYPE,
    THREAD,
    Evidence,
    digest_of,
    predicate_of,
    start_of,
    subject_of,
)
from ryeos.run.written_files import WrittenFiles, written_files
from ryeos.trust.keys import require_user_space

ALL, SOME, NONE = "all", "some", "none"
_MAX_STEPS = 1000
_MAX_RUNS = 16
FULL = "full"
_WITH_STEPS = frozenset({GRAPH, THREAD})
"""Kinds of callers whose own receipt names those of what they called."""


class Receipts:
    """Writes receipts to the log of user space; on a node, into the answer for the node to sign."""

    def __init__(self, context: Context) -> None:
        ai = context.spaces.user.ai
        folder = ai / "state" / "receipts"
        self._context = context
        key = ReceiptKey(ai / "config" / "keys" / "receipts", context.key_directory)
        self.log = ReceiptLog(folder, key)
        self._programs = ProgramDigests(folder / PROGRAMS)
        self._has_place = context.spaces.user.base != context.spaces.user.base.parent
        self._steps: dict[str, list[Any]] = {}

    def begin(
        self, evidence: Evidence, started_ns: int, caller: Mapping[str, Any]
    ) -> tuple[str, str]:
        """Record that a run is about to start, so that it cannot keep its receipt from being there.

        The digest of the record, ``""`` on a node, whose database has each execution before it
        starts; and a warning for a person at a shell, whose run goes on without it. Raises
        RyeError for any other caller: nothing may start then.
        """
        started_at = datetime.fromtimestamp(started_ns / 1e9, UTC)
        return self.reserve(start_of(evidence, caller=caller, started_at=started_at))

    def reserve(self, said: Mapping[str, Any]) -> tuple[str, str]:
        """Record what is about to start: as `begin`, of anything that has a receipt.

        ``said`` is its predicate, with the digest of its ``parameters`` and its ``caller``.
        """
        if self._context.on_node:
            return "", ""
        caller = said["caller"]
        subject = [subject_of("parameters", said["parameters"]["sha256"])]
        try:
            require_user_space(self._context)
            return self.log.append(said, subject, START_TYPE), ""
        except LilluxError as error:
            problem = f"no receipt can be written: {error}"
            is_person = caller.get("kind") == "cli" and not self._context.confines
            if is_person or self._is_inner(error):
                return "", problem
            raise RyeError(
                f"{problem}; nothing was started",
                code="FILE_SYSTEM_ERROR",
                hint=error.hint or f"make {self.log.folder} writable, with space on its disk",
                path=str(self.log.folder),
            ) from error

    def _is_inner(self, error: LilluxError) -> bool:
        """True if this program runs inside of a confined run, whose own receipt covers it.

        The kernel keeps it from the log; no run can take that right from a program outside.
        """
        is_confined = self._context.process_env.get(CONFINE_VARIABLE) == "1"
        return is_confined and isinstance(error.__cause__, PermissionError)

    def leave(
        self,
        evidence: Evidence,
        answer: Answer,
        started_ns: int,
        caller: Mapping[str, Any],
        start: str = "",
    ) -> Answer:
        """The answer with the id of the run's receipt, or a warning that writing it failed.

        ``start`` is what `begin` gave.
        """
        envelope = dict(answer.envelope)
        metadata = envelope["metadata"] = dict(envelope.get("metadata") or {})
        data = envelope.get("data")
        run_id = data.get("graph_run_id") if isinstance(data, dict) else None
        steps = self.steps_of(run_id) if isinstance(run_id, str) else []
        written = written_files(evidence.before) if evidence.before else WrittenFiles()
        predicate = predicate_of(
            evidence,
            caller=caller,
            started_at=datetime.fromtimestamp(started_ns / 1e9, UTC),
            finished_at=utc_now(),
            outcome=self._outcome(evidence, envelope),
            is_full=self._context.receipts == FULL,
            steps=steps,
        )
        predicate["filesObserved"] = _observed(evidence, is_complete=written.is_complete)
        if written.changes:
            predicate["changes"] = [dict(one) for one in written.changes]
        if start:
            predicate["start"] = start
        if isinstance(run_id, str):
            predicate["run"] = run_id
        subject = [subject_of("result", predicate["result"]["sha256"])]
        subject += [subject_of(path, digest) for path, digest in written.files]
        try:
            receipt = self.finish(predicate, subject, envelope)
        except LilluxError as error:
            warnings = [*metadata.get("warnings", ()), f"no receipt was written: {error}"]
            metadata["warnings"] = warnings
        else:
            metadata |= {"receipt": receipt} if receipt else {}
        return Answer(envelope, answer.exit_status)

    def finish(
        self,
        predicate: Mapping[str, Any],
        subject: Sequence[Mapping[str, Any]],
        envelope: dict[str, Any],
        predicate_type: str = PREDICATE_TYPE,
    ) -> str:
        """Write the receipt of what has ended; its id. Raises LilluxError.

        On a node there is no id yet: the envelope gets it for the node to sign, or what called it
        keeps it among its steps.
        """
        caller = predicate["caller"]
        parent = caller.get("run") if caller.get("kind") in _WITH_STEPS else None
        if not self._context.on_node:
            require_user_space(self._context)
            receipt = self.log.append(predicate, subject, predicate_type)[:ID_CHARACTERS]
            self._note_step(parent, receipt)
            return receipt
        if parent is not None:
            self._note_step(parent, {**predicate, "subject": list(subject)})
        else:
            envelope["receipt"] = {
                "predicate": dict(predicate),
                "subject": list(subject),
                "type": predicate_type,
            }
        return ""

    def steps_of(self, run_id: str) -> list[Any]:
        """The receipts of what a run or a thread called, which are given once."""
        return self._steps.pop(run_id, [])

    def _note_step(self, run_id: object, step: object) -> None:
        if not isinstance(run_id, str):
            return
        while len(self._steps) >= _MAX_RUNS and run_id not in self._steps:
            del self._steps[next(iter(self._steps))]
        steps = self._steps.setdefault(run_id, [])
        if len(steps) < _MAX_STEPS:
            steps.append(step)

    def keep(
        self,
        predicate: Mapping[str, Any],
        subject: Sequence[Mapping[str, Any]],
        predicate_type: str = PREDICATE_TYPE,
    ) -> str:
        """Add a node's receipt to the log; return its id. Raises LilluxError."""
        require_user_space(self._context)
        known = predicate_type if predicate_type in ENDS else PREDICATE_TYPE
        return self.log.append(predicate, subject, known)[:ID_CHARACTERS]

    def _outcome(self, evidence: Evidence, envelope: Mapping[str, Any]) -> dict[str, Any]:
        metadata = envelope.get("metadata") or {}
        outcome: dict[str, Any] = {
            "status": envelope["status"],
            "result": {"sha256": digest_of(envelope.get("data"))},
        }
        if "return_code" in metadata:
            outcome["exitCode"] = metadata["return_code"]
        if envelope["status"] == "error":
            outcome["error"] = envelope.get("code", "EXECUTION_FAILED")
        known = metadata.get("refused") or ()
        outcome |= refusals_of_receipt(evidence.attempts, evidence.confinement, known)
        if evidence.program and self._has_place:
            digest = self._programs.digest(evidence.program)
            outcome["interpreter"] = {"path": evidence.program.path, "sha256": digest}
        return outcome


def _observed(evidence: Evidence, *, is_complete: bool) -> str:
    """The number of files, of those that a run wrote, that its receipt names."""
    if evidence.before is None:
        return NONE
    return ALL if is_complete else SOME
