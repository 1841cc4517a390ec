"""The job that a worker gets, what it reports meanwhile, and its answer: JSON documents. Pure.

A job goes to the worker's standard input, which no other process can read: it holds secrets.
"""

import hmac
import json
from collections.abc import Callable, Collection, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from lillux.secret_names import says_secret
from lillux.values import dataclass, field
from ryeos.run.model import Chain
from ryeos.run.primitives import is_graph


class JobAction(StrEnum):
    """What is done with the items of a checkout.

    EXECUTE  one item is run
    FETCH    one is loaded, or they are searched
    SIGN     one or more are signed with the node's key for items; nothing of the checkout is run
    """

    EXECUTE = "execute"
    FETCH = "fetch"
    SIGN = "sign"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One execution, for a worker.

    item_ref            ``tool:a/b``; of a fetch and of a sign it says nothing
    project_id          what the caller calls the project, for approvals made there
    project, user       folders that hold ``.ai``; they are the job's own
    home, temporary     empty folders of the job's own
    bundle              the folder of the system bundle
    environ             what tools have as their environment, and Rye as its own
    secrets             further environment variables of the tools
    agent               how a model carries a directive out: ``model``, ``limits``, what was
                        ``granted`` in nano-dollars, the ``thread_spend`` of the node, its
                        ``thread_id``, and the ``seal_key`` of what it tells of its cost; None for
                        no model
    operator            the user space whose providers and credentials count then
    signing_pem         the node's private key for items, for `Action.SIGN` only
    memory_bytes        of each process; 0 for no limit
    file_bytes          of each file that is written; 0 for no limit
    disk_bytes          of all files in the job's folders; 0 for no limit
    unix_sockets        whether tools may open local sockets
    network             whether they may open others
    policy              what the operator lets tools do at most, as `Settings.sandbox`
    isolation           what keeps it apart from others, as `Isolation.dump` has it
    uid                 the user id that the run has for itself, 0 for none: that of the node
    owner               whose run it is, for shares of the machine
    run_memory_bytes    of all its processes together, where groups hold it; 0 for no limit
    run_processes       how many it may have at a time, where the system holds it; 0 for no limit
    hidden              what nothing of the job may read, wherever it lies
    parent_pid          the process that ends with this job: when it is gone, so is the job
    asks_first          whether it begins only when the server says so: a byte on standard input
    """

    action: JobAction
    item_ref: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    project_id: str = ""
    project: Path
    user: Path
    home: Path
    temporary: Path
    bundle: Path
    bundle_version: str
    environ: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    agent: Mapping[str, Any] | None = field(default=None, repr=False)
    operator: str = ""
    signing_pem: str = field(default="", repr=False)
    time_limit_s: float
    memory_bytes: int = 0
    file_bytes: int = 0
    disk_bytes: int = 0
    unix_sockets: bool = False
    network: bool = True
    policy: Mapping[str, Any] = field(default_factory=dict)
    isolation: Mapping[str, Any] = field(default_factory=dict)
    uid: int = 0
    owner: str = "nobody"
    run_memory_bytes: int = 0
    run_processes: int = 0
    hidden: tuple[Path, ...] = ()
    parent_pid: int
    asks_first: bool = False

    def dump(self) -> bytes:
        """The job as the worker reads it: one line, behind which the word to begin may come."""
        values = {name: getattr(self, name) for name in _FIELDS}
        return json.dumps(values, default=_plain).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """What a worker answers: the envelope of the run, and what a person should learn of it.

    ``spend`` is what a thread of a model cost, as `sealed_spend` has it; None for none.
    """

    envelope: Mapping[str, Any]
    warnings: tuple[str, ...] = ()
    spend: Mapping[str, Any] | None = None

    def dump(self) -> bytes:
        """The answer as the server reads it."""
        values = {name: getattr(self, name) for name in ("envelope", "warnings", "spend")}
        return json.dumps(values).encode()


_FIELDS = tuple(Job.__annotations__)
_PATHS = ("project", "user", "home", "temporary", "bundle")


def read_job(data: bytes) -> Job:
    """The job in a document that `Job.dump` made."""
    values = json.loads(data)
    values |= {name: Path(values[name]) for name in _PATHS}
    values["action"] = JobAction(values["action"])
    values["hidden"] = tuple(map(Path, values["hidden"]))
    return Job(**values)


def read_finished(data: bytes) -> WorkerAnswer | None:
    """The answer in a document that `WorkerAnswer.dump` made; None when it is not whole.

    A tool can write to where the answer goes: nothing is taken for granted.
    """
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match values:
        case {"envelope": dict(envelope), "warnings": list(warnings), **rest}:
            spend = rest.get("spend")
            spend = spend if isinstance(spend, dict) else None
            return WorkerAnswer(envelope, tuple(map(str, warnings)), spend)
    return None


def failed(action: JobAction, item_ref: str, error: str, *, code: str, hint: str) -> WorkerAnswer:
    """The answer of a run that could not give one itself."""
    kind, _, item_id = item_ref.partition(":")
    envelope = {"status": "error", "type": kind or action.value, "item_id": item_id}
    return WorkerAnswer({**envelope, "error": error, "code": code, "hint": hint})


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


# --- what a thread cost ---------------------------------------------------------------------------
# The process that asks the models knows what they cost, and no tool reads its memory: it seals the
# figure with a key of this run alone, which it got with its job. So a tool that could write to
# where the answer goes gives no other figure; without one all that was granted stays charged.

_SPEND_PURPOSE = b"rye/thread-spend/v1\n"


def sealed_spend(amount: int, key: str) -> dict[str, Any]:
    """What a thread cost, in nano-dollars, with its seal. Pure."""
    return {"amount": amount, "seal": _seal(amount, key)}


def read_spend(spend: Mapping[str, Any] | None, key: str) -> int | None:
    """The nano-dollars that a thread cost; None where the seal is another. Pure."""
    match spend:
        case {"amount": int(amount), "seal": str(seal)} if type(amount) is int and amount >= 0:
            expected = _seal(amount, key)
            return (
                amount if hmac.compare_digest(seal.encode(*_ANY_TEXT), expected.encode()) else None
            )
    return None


def _seal(amount: int, key: str) -> str:
    return hmac.digest(bytes.fromhex(key), _SPEND_PURPOSE + b"%d" % amount, "sha256").hex()


_ANY_TEXT = ("utf-8", "backslashreplace")


# --- leaked limits --------------------------------------------------------------------------------
# Limits of graphs that public clients send along with the parameters of every tool.
#
# They read ``max_steps`` and ``max_concurrency`` from their ``execution.yaml``, so no one asked for
# them: a tool that takes nothing but what it lists would refuse every such call (ADR 0021).

LEAKED = ("max_steps", "max_concurrency", "timeout")


def without_leaked_limits(
    parameters: Mapping[str, Any], chain: Chain
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The parameters without those limits that the tool would refuse, and their names. Pure.

    Nothing is left out for a graph, which has them, nor for a tool that lists them or that takes
    what it does not list; but public clients always send a ``timeout``, which is for the process.
    """
    schema = chain.tool.spec.config_schema or {}
    if is_graph(chain):
        return dict(parameters), ()
    listed = schema.get("properties") or {}
    is_open = schema.get("additionalProperties", True) is not False
    names = LEAKED[-1:] if is_open else LEAKED
    leaked = tuple(name for name in names if name in parameters and name not in listed)
    return {name: value for name, value in parameters.items() if name not in leaked}, leaked


# --- kept parameters ------------------------------------------------------------------------------
# What a node keeps of the parameters of an execution, so that a person sees what ran and runs it
# again. A secret is not kept: one that the item's schema marks (``writeOnly: true`` of JSON Schema,
# 2019-09 9.4, or ``format: password`` of OpenAPI), one whose name says so, or one whose value is in
# the vault. Bounded, as rows are outside of every quota.

MAX_KEPT_BYTES = 16 * 1024
"""Of the parameters of one execution, as JSON."""

_DEEPEST = 40


def secret_names(schema: Mapping[str, Any] | None, parameters: Mapping[str, Any]) -> list[str]:
    """The parameters that the schema of an item marks as secret, sorted. Pure.

    A mark anywhere below a property counts for the whole property. A mark that is of no property,
    as in ``$defs`` or ``allOf``, counts for all parameters.
    """
    if not schema:
        return []
    properties = schema.get("properties")
    named = properties if isinstance(properties, Mapping) else {}
    rest = {name: value for name, value in schema.items() if name != "properties"}
    if _is_marked(rest, _DEEPEST):
        return sorted(parameters)
    return sorted(name for name in parameters if _is_marked(named.get(name), _DEEPEST))


def _is_marked(schema: object, depth: int) -> bool:
    if not depth:
        return True  # deeper than any schema that a person wrote
    match schema:
        case Mapping():
            if schema.get("writeOnly") is True or schema.get("format") == "password":
                return True
            return any(_is_marked(one, depth - 1) for one in schema.values())
        case list() | tuple():
            return any(_is_marked(one, depth - 1) for one in schema)
        case _:
            return False


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedInputs:
    """What is kept of what an execution was given.

    parameters  without those that are left out; None where all together are too large
    left_out    the names of those that are secret, sorted
    vault_keys  the names of secrets of the vault that it got, None for all
    is_sealed   whether it got further secrets, sealed to the node, which are not kept
    """

    parameters: Mapping[str, Any] | None = field(repr=False)
    left_out: tuple[str, ...] = ()
    vault_keys: tuple[str, ...] | None = None
    is_sealed: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether the same can be run again with it."""
        return self.parameters is not None and not self.left_out and not self.is_sealed

    def dump(self) -> dict[str, Any]:
        """The value as its column has it."""
        return {
            "parameters": None if self.parameters is None else dict(self.parameters),
            "left_out": list(self.left_out),
            "vault_keys": None if self.vault_keys is None else list(self.vault_keys),
            "is_sealed": self.is_sealed,
        }


def read_given(value: object) -> RecordedInputs | None:
    """The value of a column; None where nothing is kept."""
    match value:
        case {"parameters": parameters, "left_out": list(left_out), "vault_keys": keys, **rest}:
            return RecordedInputs(
                parameters=parameters if isinstance(parameters, dict) else None,
                left_out=tuple(map(str, left_out)),
                vault_keys=tuple(map(str, keys)) if isinstance(keys, list) else None,
                is_sealed=bool(rest.get("is_sealed")),
            )
    return None


def given_to(
    parameters: Mapping[str, Any],
    secret: Collection[str],
    mask: Callable[[str], str],
    *,
    vault_keys: tuple[str, ...] | None,
    is_sealed: bool,
) -> RecordedInputs:
    """What is kept of these parameters. Pure.

    ``secret`` are the names that a schema marks, ``mask`` takes values of the vault out of a text.
    """
    left_out = sorted(
        name
        for name, value in parameters.items()
        if name in secret or says_secret(name) or _has_secret(value, mask)
    )
    kept = {name: value for name, value in parameters.items() if name not in left_out}
    is_large = len(json.dumps(kept, ensure_ascii=False).encode()) > MAX_KEPT_BYTES
    return RecordedInputs(
        parameters=None if is_large else kept,
        left_out=tuple(left_out),
        vault_keys=vault_keys,
        is_sealed=is_sealed,
    )


def _has_secret(value: object, mask: Callable[[str], str], depth: int = _DEEPEST) -> bool:
    """Whether a value, or one in it, has a name of a secret or a value of the vault."""
    if not depth:
        return True
    match value:
        case str():
            return mask(value) != value
        case Mapping():
            return any(
                says_secret(name) or mask(name) != name or _has_secret(one, mask, depth - 1)
                for name, one in value.items()
            )
        case list() | tuple():
            return any(_has_secret(one, mask, depth - 1) for one in value)
        case int() | float():
            return mask(str(value)) != str(value)
        case _:
            return False


# --- reports --------------------------------------------------------------------------------------
# What a worker reports to the server while it runs: a line of JSON for each, on standard error. A
# program that the worker runs may write such lines too, so the server decides nothing by them that
# concerns any other execution.

STDOUT, STDERR = "stdout", "stderr"
RETRYABLE = "retryable"
CONFIDENTIAL = "confidential"
BEGIN = "begin"
_STREAMS = frozenset({STDOUT, STDERR, RETRYABLE, CONFIDENTIAL, BEGIN})


def report(write: Callable[[bytes], object], stream: str, text: str) -> None:
    """Report a piece of output, or a fact about the item, before it runs.

    The facts: `RETRYABLE`, its item may run again; `CONFIDENTIAL`, the names of its secret
    parameters, as JSON; `BEGIN`, the last one: all was reported, and the worker waits for the word
    to begin.
    """
    write(json.dumps([stream, text]).encode() + b"\n")


def read_report(line: bytes) -> tuple[str, str] | None:
    """The stream and the text of a line; None for a line of another form."""
    try:
        match json.loads(line):
            case [str(stream), str(text)] if stream in _STREAMS:
                return stream, text
    except (ValueError, RecursionError):
        pass
    return None
