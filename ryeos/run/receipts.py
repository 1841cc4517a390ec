"""Receipts: signed records of what ran, with which rights, for whom, and with what result.

A receipt is an in-toto Statement v1 in a DSSE envelope; its predicate is ``https://rye.dev/run/v1``.
Receipts are lines of one log in user space. Each names the one before by digest and has the next
number, and a signed head says which is the last: a line that is edited, moved, taken out or cut off
shows. The key signs no items (`ryeos.run.receipt_key`); no tool reads it. Page:
``docs/rights.md``.
"""

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux import dsse
from lillux.attempts import Attempts
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import file_system_error, locked, make_directory, read_bytes
from lillux.signing import KeyPair, compute_key_digest
from lillux.values import dataclass, field
from ryeos.items.context import CONFINE_VARIABLE, Context, utc_now
from ryeos.items.errors import Answer, ItemNotFoundError, RyeError
from ryeos.run.heard_refusals import refusals_of_receipt
from ryeos.run.programs import Program, ProgramDigests
from ryeos.run.receipt_key import ReceiptKey
from ryeos.run.written_files import Look, WrittenFiles, written_files
from ryeos.trust.keys import require_user_space

if TYPE_CHECKING:
    from lillux.sandbox import Confinement

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE, START_TYPE = "https://rye.dev/run/v1", "https://rye.dev/run-start/v1"
THREAD_TYPE, MODEL_CALL_TYPE = "https://rye.dev/thread/v1", "https://rye.dev/model-call/v1"
"""A thread that a model carried out, and one call of the model (`ryeos.agent.receipts`)."""
PAYLOAD_TYPE, HEAD_TYPE = "application/vnd.in-toto+json", "application/vnd.rye.receipts-head+json"
SLSA_TYPE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "https://rye.dev/run/v1"
_ENDS = frozenset({PREDICATE_TYPE, THREAD_TYPE, MODEL_CALL_TYPE})
GRAPH, THREAD = "graph", "thread"
LOG, HEAD, BROKEN, PROGRAMS = "log.jsonl", "head.json", "broken.jsonl", "programs.json"
ID_CHARACTERS = 16
MAX_LINE_BYTES = 4 * 1024 * 1024
_MAX_HEAD_BYTES = 16 * 1024


# --- evidence -------------------------------------------------------------------------------------


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


# --- log ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Receipt:
    """A line of the log. ``digest`` is that of the line; ``id`` its beginning."""

    number: int
    digest: str
    envelope: Mapping[str, Any]
    statement: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The short id that people type."""
        return self.digest[:ID_CHARACTERS]

    @property
    def predicate(self) -> Mapping[str, Any]:
        """The predicate."""
        found = self.statement.get("predicate")
        return found if isinstance(found, Mapping) else {}

    @property
    def is_start(self) -> bool:
        """Whether it says that a run was about to start; another line says how that ended."""
        return self.statement.get("predicateType") == START_TYPE


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in the log, at a line; 0 for the whole log."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class _Head:
    """The state after the last line: number of lines, digest of the last, size of the log."""

    count: int = 0
    digest: str = ""
    size: int = 0


class ReceiptLog:
    """The log in a folder. Processes append to it one after the other."""

    def __init__(self, folder: Path, key: ReceiptKey) -> None:
        self.folder, self.key = folder, key
        self._written: tuple[bytes, _Head] | None = None  # the head as this process wrote it last

    def append(
        self,
        predicate: Mapping[str, Any],
        subject: Sequence[Mapping[str, Any]],
        predicate_type: str = PREDICATE_TYPE,
    ) -> str:
        """Write a receipt; its digest. Nothing half-written stays. Raises LilluxError."""
        make_directory(self.folder, mode=0o700)
        with locked(self.folder.parent / "locks" / "receipts.lock"):
            pair = self.key.pair()  # the first one makes it
            key_id = compute_key_digest(pair.public_pem)
            head = self._settled_head(pair.public_pem)
            placed = {"number": head.count + 1, "previous": head.digest or None, **predicate}
            payload = json.dumps(
                statement(placed, subject, predicate_type), ensure_ascii=True, default=str
            )
            envelope = dsse.signed(PAYLOAD_TYPE, payload.encode(), pair.private_pem, key_id)
            line = json.dumps(envelope, separators=(",", ":")).encode() + b"\n"
            if len(line) > MAX_LINE_BYTES:
                raise RyeError(
                    f"receipt: expected at most {MAX_LINE_BYTES} bytes, got {len(line)}",
                    code="RESOURCE_EXCEEDED",
                    hint="keep digests of the parameters alone: without --receipt full",
                )
            self._write(line, head, pair, key_id)
        return sha256_hex(line)

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """The lines as they are, with their numbers from 1. Raises FileSystemError."""
        try:
            with (self.folder / LOG).open("rb") as file:
                yield from enumerate(file, start=1)
        except FileNotFoundError:
            return
        except OSError as error:
            raise file_system_error(self.folder / LOG, error) from error

    def receipts(self) -> Iterator[Receipt]:
        """All readable receipts, the oldest first; `verify` reports the others."""
        for number, line in self.lines():
            with suppress(ValueError, TypeError, KeyError, RecursionError):
                yield _receipt(number, line)

    def runs(self) -> Iterator[Receipt]:
        """The receipts of runs, the oldest first, and the starts of which no end is recorded."""
        starts: dict[str, Receipt] = {}
        for receipt in self.receipts():
            if receipt.is_start:
                starts[receipt.digest] = receipt
                continue
            starts.pop(str(receipt.predicate.get("start", "")), None)
            yield receipt
        yield from starts.values()

    def find(self, receipt_id: str) -> Receipt:
        """The receipt of an id, or of its beginning. Raises ItemNotFoundError, RyeError."""
        found = [one for one in self.receipts() if one.digest.startswith(receipt_id.lower())]
        if not found or not receipt_id:
            raise ItemNotFoundError(f"receipt {receipt_id}", (str(self.folder / LOG),))
        if len(found) > 1:
            raise RyeError(
                f"receipt {receipt_id}: {len(found)} begin so",
                code="AMBIGUOUS_ITEM",
                hint="give more of its id: rye receipts list",
            )
        return found[0]

    def verify(self) -> tuple[int, list[Problem]]:
        """The number of runs in it, and all problems. Raises KeyNotFoundError."""
        public_pem = self.key.public_pem()
        problems: list[Problem] = []
        before, count = "", 0
        for number, line in self.lines():
            count = number
            problem = _problem_of(line, number, before, public_pem)
            if problem:
                problems.append(Problem(number, problem))
            before = sha256_hex(line)
        problems += self._head_problems(count, before, public_pem)
        unreadable = sum(1 for one in problems if one.line)
        return max(sum(1 for _ in self.runs()), unreadable), problems

    def _head_problems(self, count: int, last: str, public_pem: bytes) -> Iterator[Problem]:
        try:
            head = self._head(public_pem)
        except LilluxError as error:
            yield Problem(0, f"{HEAD}: {error}")
            return
        if head is None and count:
            yield Problem(0, f"{HEAD}: expected it beside the log, found none")
        elif head is not None and head.count > count:
            yield Problem(0, f"cut off: expected {head.count} receipts, found {count}")
        elif head is not None and (head.count, head.digest) != (count, last):
            yield Problem(0, f"{HEAD}: it names another line than the last one")

    # ------------------------------------------------------------------ writing

    def _head(self, public_pem: bytes) -> _Head | None:
        """The verified head; None without one. Raises LilluxError."""
        try:
            data = read_bytes(self.folder / HEAD, _MAX_HEAD_BYTES)
        except FileNotFoundError:
            return None
        if self._written and self._written[0] == data:
            return self._written[1]
        try:
            envelope = json.loads(data)
        except ValueError:
            raise RyeError("expected JSON", code="INTEGRITY") from None
        said = dsse.opened(envelope, HEAD_TYPE, public_pem)
        return _Head(int(said["count"]), str(said["sha256"]), int(said["size"]))

    def _settled_head(self, public_pem: bytes) -> _Head:
        """The head, after repair of what a killed process left incomplete."""
        head: _Head | None = None
        with suppress(LilluxError):  # `verify` reports the problem
            head = self._head(public_pem)
        path = self.folder / LOG
        size = path.stat().st_size if path.exists() else 0
        if head is None:
            return self._compute_head()
        if size <= head.size:
            return head
        with path.open("rb+") as file:
            file.seek(head.size)
            for line in file:  # whose head could not be written: the disk was full
                is_whole = line.endswith(b"\n")
                if not is_whole or _problem_of(line, head.count + 1, head.digest, public_pem):
                    break
                head = _Head(head.count + 1, sha256_hex(line), head.size + len(line))
            if head.size < size:
                file.seek(head.size)
                with (self.folder / BROKEN).open("ab") as broken:
                    broken.write(file.read())
                file.truncate(head.size)
        return head

    def _compute_head(self) -> _Head:
        """The head, computed from the log."""
        head = _Head()
        for number, line in self.lines():
            head = _Head(number, sha256_hex(line), head.size + len(line))
        return head

    def _write(self, line: bytes, head: _Head, pair: KeyPair, key_id: str) -> None:
        path = self.folder / LOG
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
        try:
            descriptor = os.open(path, flags, 0o600)
        except OSError as error:
            raise file_system_error(path, error) from error
        try:
            size = os.fstat(descriptor).st_size
            try:
                _write_whole(descriptor, line)
            except OSError as error:
                with suppress(OSError):  # the next append moves it aside
                    os.ftruncate(descriptor, size)
                raise file_system_error(path, error) from error
        finally:
            os.close(descriptor)
        now = _Head(head.count + 1, sha256_hex(line), size + len(line))
        said = {"count": now.count, "sha256": now.digest, "size": now.size}
        payload = json.dumps(said).encode()
        text = json.dumps(dsse.signed(HEAD_TYPE, payload, pair.private_pem, key_id)).encode()
        _replace(self.folder / HEAD, text)
        self._written = text, now


def _write_whole(descriptor: int, data: bytes) -> None:
    """Write all bytes. Raises OSError, also if a full disk took only a part."""
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _replace(path: Path, text: bytes) -> None:
    """Replace a file atomically, without fsync(), which takes 5 ms."""
    aside = path.with_suffix(".tmp")
    try:
        aside.write_bytes(text)
        aside.replace(path)
    except OSError as error:
        raise file_system_error(path, error) from error


def _receipt(number: int, line: bytes) -> Receipt:
    """A line, not verified. Raises ValueError, TypeError, KeyError."""
    from base64 import b64decode

    envelope = json.loads(line)
    said = json.loads(b64decode(envelope["payload"], validate=True))
    if not isinstance(said, dict):
        raise TypeError(said)
    return Receipt(number, sha256_hex(line), envelope, said)


def _problem_of(line: bytes, number: int, before: str, public_pem: bytes) -> str:
    """The problem of a line, ``""`` if it is valid."""
    try:
        said = dsse.opened(json.loads(line), PAYLOAD_TYPE, public_pem)
    except (ValueError, RecursionError):
        return "expected JSON"
    except LilluxError as error:
        return str(error)
    predicate = said.get("predicate") if isinstance(said, dict) else None
    if not isinstance(predicate, dict):
        return "expected a statement of a run"
    if predicate.get("number") != number:
        return f"expected number {number}, found {predicate.get('number')}: one is missing or moved"
    if (predicate.get("previous") or "") != before:
        return "it names another receipt as the one before"
    return ""


# --- slsa -----------------------------------------------------------------------------------------


def slsa_statement(receipt: Receipt, builder: str) -> dict[str, Any]:
    """A receipt as SLSA provenance v1. Raises RyeError for a run without output."""
    said = receipt.predicate
    if receipt.statement.get("predicateType") in {THREAD_TYPE, MODEL_CALL_TYPE}:
        raise RyeError(
            f"receipt {receipt.id}: provenance is of what a tool made, and this is"
            f" {said.get('item', 'a thread')!s:.80}",
            code="UNSUPPORTED",
            hint="export it as it is: --format in-toto",
        )
    if said.get("status") != "success":
        raise RyeError(
            f"receipt {receipt.id}: provenance is of what was made, and this run failed",
            code="UNSUPPORTED",
            hint="export it as it is: --format in-toto",
        )
    chain = said.get("chain") or []
    interpreter = said.get("interpreter") or {}
    materials = [
        {"name": one["id"], "digest": {"sha256": one["sha256"]}} for one in chain if one["sha256"]
    ]
    if interpreter.get("sha256"):
        program = {"sha256": interpreter["sha256"]}
        materials.append({"name": interpreter["path"], "digest": program})
    return {
        "_type": STATEMENT_TYPE,
        "subject": receipt.statement.get("subject") or [],
        "predicateType": SLSA_TYPE,
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": {"item": said["item"], "parameters": said["parameters"]},
                "internalParameters": {"rights": said["rights"], "locked": said["locked"]},
                "resolvedDependencies": materials,
            },
            "runDetails": {
                "builder": {"id": builder},
                "metadata": {
                    "invocationId": receipt.digest,
                    "startedOn": said["startedOn"],
                    "finishedOn": said["finishedOn"],
                },
            },
        },
    }


# --- the receipts of a user -----------------------------------------------------------------------
# Which runs get a receipt, and what it records.

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
        """Whether this program runs inside of a confined run, whose own receipt covers it.

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
        known = predicate_type if predicate_type in _ENDS else PREDICATE_TYPE
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
    """How many of the files that a run wrote its receipt names."""
    if evidence.before is None:
        return NONE
    return ALL if is_complete else SOME
