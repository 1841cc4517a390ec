"""The job that a worker gets and the answer it gives: one JSON document each. Pure.

A job goes to the worker's standard input, which nobody else can read: it holds secrets.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

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
    signing_pem         the node's private key for items, for `Action.SIGN` only
    memory_bytes        of each process; 0 for no limit
    file_bytes          of each file that is written; 0 for no limit
    disk_bytes          of all files in the job's folders; 0 for no limit
    unix_sockets        whether tools may open local sockets
    network             whether they may open others
    hidden              what nothing of the job may read, wherever it lies
    parent_pid          the process that ends with this job: when it is gone, so is the job
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
    signing_pem: str = field(default="", repr=False)
    time_limit_s: float
    memory_bytes: int = 0
    file_bytes: int = 0
    disk_bytes: int = 0
    unix_sockets: bool = False
    network: bool = True
    hidden: tuple[Path, ...] = ()
    parent_pid: int

    def dump(self) -> bytes:
        """The job as the worker reads it."""
        values = {name: getattr(self, name) for name in _FIELDS}
        return json.dumps(values, default=_plain).encode()


@dataclass(frozen=True, slots=True)
class Finished:
    """What a worker answers: the envelope of the run, and what a person should hear of it."""

    envelope: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    def dump(self) -> bytes:
        """The answer as the server reads it."""
        return json.dumps({"envelope": self.envelope, "warnings": self.warnings}).encode()


_FIELDS = tuple(Job.__annotations__)
_PATHS = ("project", "user", "home", "temporary", "bundle")


def read_job(data: bytes) -> Job:
    """The job in a document that `Job.dump` made."""
    values = json.loads(data)
    values |= {name: Path(values[name]) for name in _PATHS}
    values["action"] = JobAction(values["action"])
    values["hidden"] = tuple(map(Path, values["hidden"]))
    return Job(**values)


def read_finished(data: bytes) -> Finished | None:
    """The answer in a document that `Finished.dump` made; None when it is not whole.

    A tool can write to where the answer goes: nothing is taken for granted.
    """
    try:
        values = json.loads(data)
    except (ValueError, RecursionError):
        return None
    match values:
        case {"envelope": dict(envelope), "warnings": list(warnings)}:
            return Finished(envelope, tuple(map(str, warnings)))
    return None


def failed(action: JobAction, item_ref: str, error: str, *, code: str, hint: str) -> Finished:
    """The answer of a run that could not give one itself."""
    kind, _, item_id = item_ref.partition(":")
    envelope = {"status": "error", "type": kind or action.value, "item_id": item_id}
    return Finished({**envelope, "error": error, "code": code, "hint": hint})


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


# --- leaked limits --------------------------------------------------------------------------------
# Limits of graphs that public clients send along with the parameters of every tool.
#
# They read ``max_steps`` and ``max_concurrency`` from their ``execution.yaml``, so nobody asked for
# them: a tool that takes nothing but what it lists would refuse every such call (ADR 0107).

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
