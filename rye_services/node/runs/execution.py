"""One execution from the head of a project, decided step by step. No HTTP here."""

import json
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from random import SystemRandom
from typing import Any, Literal, Protocol

from sqlalchemy import Connection

import ryeos
from lillux import dsse
from lillux.cancellation import Cancellation
from lillux.canonical_json import CanonicalJsonError
from lillux.errors import LilluxError
from lillux.redaction import Redaction
from lillux.signing import compute_key_digest
from lillux.store import Durability
from lillux.values import dataclass, field, replace
from rye_services.node.runs.outputs import CollectedOutputs, OutputCollector, WorkerRun
from rye_services.node.runs.spending import Spending
from rye_services.node.secrets import Vault, open_for_execution, open_for_hook
from rye_services.node.storage import SyncServices
from rye_services.node.store.heads import Head, valid_project_path
from rye_services.node.store.objects import DurableStores, KnownManifests, StoresOfUsers
from rye_services.node.webhooks import WebhookFieldError, valid_vault_keys
from rye_services.node.worker.fork_server import ForkServer
from rye_services.node.worker.isolation import Isolation
from rye_services.node.worker.jobs import (
    Job,
    JobAction,
    RecordedInputs,
    WorkerAnswer,
    failed,
    given_to,
    read_report,
    read_spend,
)
from rye_services.node.worker.process import Go, WorkerDiedError, WorkerLaunch, do_job
from rye_services.node.worker.redaction import presentable, without_places
from rye_services.node.worker.workspaces import (
    Checkout,
    CheckoutRequest,
    Checkouts,
)
from rye_services.people.callers import WebhookDelivery
from rye_services.people.credentials import Role
from rye_services.people.teams import RoleError, Teams, TeamSpaces, require_role
from rye_services.process.keys import NodeKeys
from rye_services.refusal import RefusedError
from rye_services.settings import Settings
from rye_services.storage.database import stamp
from rye_services.web.http import is_full, is_read_only
from ryeos.agent.limits import read_limits
from ryeos.items.context import Clock
from ryeos.items.errors import InvalidRefError, RyeError, SpecError
from ryeos.items.refs import EXECUTABLE_KINDS, Kind, parse_reference
from ryeos.remote.identity import encode_public_key
from ryeos.remote.secret_names import injectable
from ryeos.remote.signed_documents import RECEIPT_KEY_KIND, sign_document
from ryeos.run.receipt_statements import (
    PAYLOAD_TYPE,
    PREDICATE_TYPE,
    THREAD_TYPE,
    result_digest,
    statement,
    subject_of,
)
from ryeos.sync.checkout import read_manifest
from ryeos.sync.contents import ContentStore
from ryeos.sync.merge import MergeResult, conflict_record, three_way_merge
from ryeos.sync.objects import EXECUTION, MERGE, ProjectSnapshot, SourceManifest
from ryeos.sync.rules import ManifestRules, read_rules

# --- fold back ------------------------------------------------------------------------------------
# What an execution has changed, made part of the project's history. Rules: docs/node.md.
#
# HEAD may have moved since the execution started. What it changed is merged into where HEAD is
# then, and HEAD moves there only if it still is where it was merged; else all of that is done
# again.

MAX_FOLD_BACK_RETRIES = 5
FOLD_BACK_BASE_JITTER_MS = 50

MergeType = Literal["no-op", "fast-forward", "merge", "conflict", "retry_exhausted", "refused"]
REFUSED: MergeType = "refused"
"""Its starter may run items of a team and not change its projects: the change is kept apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldResult:
    """How the change of an execution ended.

    snapshot_hash  the project as it is now
    conflicts      by path, of a merge that is for a person to make
    unmerged       the snapshot of the execution, where it is not part of that
    new_objects    digests of what was made for it
    """

    snapshot_hash: str
    merge_type: MergeType
    conflicts: Mapping[str, Any] | None = None
    unmerged: str | None = None
    new_objects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectChange:
    """What an execution made of a project.

    base                the head it started from
    manifest_hash       the project's manifest afterwards, in the store with all it names
    user_manifest_hash  the user space that it ran with
    """

    thread_id: str
    item_ref: str
    base: Head
    manifest_hash: str
    user_manifest_hash: str | None = None


class ProjectHead(Protocol):
    """The head of one project."""

    def read(self) -> Head:
        """Where it is now. Raises ProjectNotFoundError."""
        ...

    def advance(self, expected: Head, snapshot_hash: str, manifest_hash: str) -> bool:
        """Move it; False where it is no longer there."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FoldBack:
    """Folds changes into the head of one project."""

    head: ProjectHead
    store: ContentStore
    durable: DurableStores
    clock: Clock
    sleep: Callable[[float], None] = field(repr=False)

    def fold(self, change: ProjectChange) -> FoldResult:
        """How it ended.

        (1) The snapshot of the execution, whose parent is the head that it started from. (2) HEAD
        as it is now. (3) Still that one: HEAD becomes the snapshot. (4) Else what both sides
        changed is merged, or is a conflict. (5) HEAD becomes the merge, unless it moved again:
        after a while from (2) on.

        Raises CasObjectError, ObjectMissingError, FileSystemError, ProjectNotFoundError.
        """
        base = change.base
        ours = self._put_snapshot(  # (1)
            change.manifest_hash,
            (base.snapshot_hash,),
            EXECUTION,
            user_manifest_hash=change.user_manifest_hash,
            source_detail=change.item_ref,
            metadata={"thread_id": change.thread_id},
        )
        for attempt in range(MAX_FOLD_BACK_RETRIES):
            head = self.head.read()  # (2)
            if head.snapshot_hash == base.snapshot_hash:
                if self._advance(head, ours, change.manifest_hash):  # (3)
                    return FoldResult(
                        snapshot_hash=ours, merge_type="fast-forward", new_objects=(ours,)
                    )
            elif folded := self._merge(change, head, ours):
                return folded
            self.sleep(pause_s(attempt))
        return FoldResult(
            snapshot_hash=self.head.read().snapshot_hash,
            merge_type="retry_exhausted",
            conflicts={"retry_exhausted": True, "attempts": MAX_FOLD_BACK_RETRIES},
            unmerged=ours,
            new_objects=(ours,),
        )

    def keep_apart(self, change: ProjectChange) -> FoldResult:
        """The change as a snapshot that no head leads to: a user who may can take it over."""
        kept = self._put_snapshot(
            change.manifest_hash,
            (change.base.snapshot_hash,),
            EXECUTION,
            user_manifest_hash=change.user_manifest_hash,
            source_detail=change.item_ref,
            metadata={"thread_id": change.thread_id},
        )
        self.durable.force(self.store)
        return FoldResult(
            snapshot_hash=self.head.read().snapshot_hash,
            merge_type=REFUSED,
            unmerged=kept,
            new_objects=(kept,),
        )

    def _merge(self, change: ProjectChange, head: Head, theirs: str) -> FoldResult | None:
        """The end of this attempt; None where HEAD moved meanwhile."""
        merged = self._merged_trees(change, head)  # (4)
        if merged.manifest is None:
            return FoldResult(
                snapshot_hash=head.snapshot_hash,
                merge_type="conflict",
                conflicts=conflict_record(merged.conflicts),
                unmerged=theirs,
                new_objects=(theirs,),
            )
        manifest_hash = self.store.put_object(merged.manifest.as_object(), Durability.AT_SYNC)
        snapshot = self._put_snapshot(
            manifest_hash,
            (head.snapshot_hash, theirs),
            MERGE,
            user_manifest_hash=head.user_manifest_hash,
            metadata={"base": change.base.snapshot_hash, "thread_id": change.thread_id},
        )
        if not self._advance(head, snapshot, manifest_hash):  # (5)
            return None
        return FoldResult(
            snapshot_hash=snapshot,
            merge_type="merge",
            new_objects=(theirs, snapshot, manifest_hash),
        )

    def _merged_trees(self, change: ProjectChange, head: Head) -> MergeResult:
        base, ours, theirs = (
            read_manifest(digest, "project", self.store)
            for digest in (
                change.base.project_manifest_hash,
                head.project_manifest_hash,
                change.manifest_hash,
            )
        )
        return three_way_merge(base, ours, theirs, self.store)

    def _advance(self, expected: Head, snapshot_hash: str, manifest_hash: str) -> bool:
        self.durable.force(self.store)
        return self.head.advance(expected, snapshot_hash, manifest_hash)

    def _put_snapshot(
        self,
        manifest_hash: str,
        parents: tuple[str, ...],
        source: str,
        *,
        user_manifest_hash: str | None,
        metadata: Mapping[str, Any],
        source_detail: str = "",
    ) -> str:
        snapshot = ProjectSnapshot(
            project_manifest_hash=manifest_hash,
            user_manifest_hash=user_manifest_hash,
            parent_hashes=parents,
            source=source,
            source_detail=source_detail,
            timestamp=stamp(self.clock()),
            metadata=metadata,
        )
        return self.store.put_object(snapshot.as_object(), Durability.AT_SYNC)


def pause_s(attempt: int) -> float:
    """How long to wait after a lost attempt, counted from 0: longer each time, never the same."""
    pause_ms: float = FOLD_BACK_BASE_JITTER_MS * 2**attempt + SystemRandom().uniform(
        0, FOLD_BACK_BASE_JITTER_MS
    )
    return pause_ms / 1000


# --- orders ---------------------------------------------------------------------------------------
# What a request wants executed, checked field by field. Pure. ``docs/node.md``.

INLINE, FORK = "inline", "fork"
_FETCH = ("item_id", "item_type", "query", "scope", "source", "destination", "version", "limit")
_SIGN = ("item_id", "item_type", "source")


def _order_error(where: str, problem: str) -> RefusedError:
    """The error of a field of a request that is not what it has to be."""
    return RefusedError(f"{where}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is to be executed, for whom.

    item_ref     ``tool:a/b``; what fetches and signatures are listed as for those
    vault_keys   names of secrets of the user's; None for all of them
    envelope     further secrets, sealed to the node
    is_awaited   a request waits on another machine for the answer, or its caller fetches it later
    hook_id      of the webhook that asks for it, with the id of its delivery and what its signature
                 is remembered by; ``""`` if absent
    started_by   the member of a team who asks for it; "" for the user itself
    may_change   whether what it changes may become part of the project
    agent        how a model is to carry a directive out: ``model``, ``limits``; None not to
    """

    user_id: str
    project_path: str
    action: JobAction
    item_ref: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    is_async: bool = False
    is_awaited: bool = False
    vault_keys: tuple[str, ...] | None = None
    envelope: Mapping[str, Any] | None = field(default=None, repr=False)
    hook_id: str = ""
    delivery_id: str = ""
    signed_once: str = ""
    started_by: str = ""
    may_change: bool = True
    agent: Mapping[str, Any] | None = None

    def job(self) -> dict[str, Any]:
        """What another server needs to begin it, without its parameters and secrets."""
        keys = None if self.vault_keys is None else list(self.vault_keys)
        return {
            "action": self.action.value,
            "vault_keys": keys,
            "may_change": self.may_change,
            **({"awaited": True} if self.is_awaited else {}),
            **({"agent": dict(self.agent)} if self.agent is not None else {}),
        }

    @property
    def payers(self) -> tuple[str, ...]:
        """Who pays for a thread of it: the user or the team, and the member who asks."""
        return (self.user_id, self.started_by) if self.started_by else (self.user_id,)

    def recorded_inputs(
        self, secret: Collection[str], mask: Callable[[str], str]
    ) -> RecordedInputs | None:
        """What is kept of it, as `jobs.given_to`; None for a fetch and a sign."""
        if self.action is not JobAction.EXECUTE:
            return None
        keys, is_sealed = self.vault_keys, self.envelope is not None
        return given_to(self.parameters, secret, mask, vault_keys=keys, is_sealed=is_sealed)


def read_order(action: JobAction, body: Mapping[str, Any], user_id: str) -> Order:
    """What a request of a user wants. Raises RefusedError."""
    match action:
        case JobAction.EXECUTE:
            return execute_order(body, user_id)
        case JobAction.FETCH:
            parameters = _only(body, _FETCH)
            item_ref = "tool:rye/fetch"
        case JobAction.SIGN:
            parameters = _only(body, _SIGN)
            item_ref = "tool:rye/sign"
            _text(body, "item_id")
    return Order(
        user_id=user_id,
        project_path=_project(body),
        action=action,
        item_ref=item_ref,
        parameters=_with_canonical_item(parameters),
        vault_keys=(),
    )


def execute_order(body: Mapping[str, Any], user_id: str) -> Order:
    """What a request to execute an item wants: a canonical reference, or its kind apart."""
    body = _with_known_keys(body)
    item_ref, kind = _item(body)
    _validate_thread(body, kind)
    return Order(
        user_id=user_id,
        project_path=_project(body),
        action=JobAction.EXECUTE,
        item_ref=item_ref,
        parameters=_object(body, "parameters") or {},
        is_async=_flag(body, "async"),
        is_awaited=_awaited(body),
        vault_keys=_vault_keys(body),
        envelope=_object(body, "secret_envelope"),
        agent=_agent(body, kind),
    )


_EXECUTE_KEYS = frozenset(
    {
        *("item_id", "item_type", "project_path", "parameters", "thread", "async"),
        *("secret_envelope", "vault_keys", "hook_id", "awaited", "agent"),
    }
)


def _with_known_keys(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body, ``params`` counting as ``parameters``. Raises RefusedError for an unknown key."""
    if "params" in body:
        if "parameters" in body:
            raise _order_error("params", "expected parameters alone, found both")
        body = {"parameters" if key == "params" else key: value for key, value in body.items()}
    for key in body:
        if key not in _EXECUTE_KEYS:
            from difflib import get_close_matches

            close = get_close_matches(key[:80], _EXECUTE_KEYS, 1, 0.6)
            meant = f"did you mean {close[0]}?" if close else f"known: {', '.join(_KNOWN)}"
            raise _order_error(f"{key!a:.80}", f"no such key of /execute; {meant}")
    return body


_KNOWN = sorted(_EXECUTE_KEYS)


def delivery_order(delivery: WebhookDelivery, body: Mapping[str, Any]) -> Order:
    """What a delivery of a webhook wants: the item is the binding's, and so are the secrets."""
    _, kind = _item({"item_id": delivery.item_id})
    _validate_thread(body, kind)
    return Order(
        user_id=delivery.principal.user_id,
        project_path=delivery.project_path,
        action=JobAction.EXECUTE,
        item_ref=delivery.item_id,
        parameters=_object(body, "parameters") or {},
        is_async=_flag(body, "async"),
        vault_keys=delivery.vault_keys,
        envelope=delivery.secret_envelope,
        hook_id=delivery.hook_id,
        delivery_id=delivery.delivery_id,
        signed_once=delivery.signed_once,
    )


def _item(body: Mapping[str, Any]) -> tuple[str, Kind]:
    """The canonical reference and its kind."""
    text, item_type = _text(body, "item_id"), body.get("item_type")
    if item_type is not None and not isinstance(item_type, str):
        raise _order_error("item_type", "expected a text")
    try:
        reference = parse_reference(text, item_type or None)
    except InvalidRefError as error:
        raise _order_error("item_id", str(error)) from error
    if reference.kind is None:
        raise _order_error("item_id", f"expected a kind before it, like tool:{reference.id}")
    if reference.kind not in EXECUTABLE_KINDS:
        raise _order_error("item_id", f"{reference.kind.value} items cannot be executed")
    return f"{reference.kind.value}:{reference.id}", reference.kind


def _validate_thread(body: Mapping[str, Any], kind: Kind) -> None:
    """A directive forks, all else is inline; a fork of a tool is taken for that too."""
    thread = body.get("thread")
    if thread is None:
        return
    if thread not in (INLINE, FORK):
        raise _order_error("thread", f"expected {INLINE} or {FORK}, found {str(thread)[:40]!a}")
    if thread == INLINE and kind is Kind.DIRECTIVE:
        raise _order_error("thread", f"expected {FORK} for a directive, found {INLINE}")


def _project(body: Mapping[str, Any]) -> str:
    try:
        return valid_project_path(_text(body, "project_path"))
    except ValueError as error:
        raise _order_error("project_path", str(error)) from error


def _vault_keys(body: Mapping[str, Any]) -> tuple[str, ...] | None:
    keys = body.get("vault_keys")
    if keys is None:
        return None
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise _order_error("vault_keys", "expected a list of names")
    try:
        return valid_vault_keys(keys)
    except WebhookFieldError as error:
        raise _order_error("vault_keys", str(error)) from error


def _with_canonical_item(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters with the kind of the item before its id."""
    item_id, kind = parameters.get("item_id"), parameters.pop("item_type", None)
    if isinstance(item_id, str) and isinstance(kind, str) and ":" not in item_id:
        return parameters | {"item_id": f"{kind}:{item_id}"}
    return parameters


def _only(body: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: body[name] for name in names if body.get(name) is not None}


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise _order_error(name, "expected a text")
    return value


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    value = body.get(name)
    if value is not None and not isinstance(value, dict):
        raise _order_error(name, "expected a JSON object")
    return value


def _agent(body: Mapping[str, Any], kind: Kind) -> Mapping[str, Any] | None:
    """How a model is to carry a directive out. Raises RefusedError."""
    said = _object(body, "agent")
    if said is None:
        return None
    if kind is not Kind.DIRECTIVE:
        raise _order_error("agent", f"expected a directive to carry out, found a {kind.value}")
    unknown = sorted(said.keys() - {"model", "limits"})
    if unknown:
        raise _order_error(f"agent.{unknown[0][:80]}", "expected model or limits")
    model, limits = said.get("model", ""), said.get("limits") or {}
    if not isinstance(model, str) or len(model) > _LONGEST_MODEL:
        raise _order_error("agent.model", "expected PROVIDER/MODEL, or a tier")
    if not isinstance(limits, dict):
        raise _order_error("agent.limits", "expected a JSON object")
    try:
        read_limits(limits, "agent.limits")
    except RyeError as error:
        raise _order_error("agent.limits", str(error)) from error
    return {"model": model, "limits": limits}


def _awaited(body: Mapping[str, Any]) -> bool:
    """Whether the answer is to be kept for its caller. Raises RefusedError."""
    is_awaited = _flag(body, "awaited")
    if is_awaited and not _flag(body, "async"):
        raise _order_error("awaited", "expected async beside it: this request is answered itself")
    return is_awaited


def _flag(body: Mapping[str, Any], name: str) -> bool:
    value = body.get(name)
    if value is not None and not isinstance(value, bool):
        raise _order_error(name, "expected true or false")
    return bool(value)


# --- execution ------------------------------------------------------------------------------------

SUCCESS = "success"
MOST_CONFLICTS = 1000
"""Paths in conflict that a row holds: it is outside of every quota."""

_LONGEST_MODEL = 300
_SAID = 4000
_GOOD = frozenset({SUCCESS, "completed", "signed", "unchanged", "validation_passed"})
_log = logging.getLogger(__name__)


class ProjectNotFoundError(LilluxError):
    """The user has pushed no project of this name."""

    code, exit_status = "NO_PROJECT", 2

    def __init__(self, project_path: str) -> None:
        self.project_path = project_path
        super().__init__(
            f"no project {project_path!r} was pushed yet", hint="push it with: rye remote push"
        )


class PushedRulesError(LilluxError):
    """A ``cas/manifest.yaml`` that was pushed has a wrong value."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(problem, hint="correct it and push again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What an execution starts from: the head, the user space, and the secrets it may have."""

    head: Head
    user_manifest_hash: str | None
    secrets: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedExecution:
    """What an execution has left, and what it answered."""

    thread_id: str
    envelope: Mapping[str, Any]
    collected: CollectedOutputs
    folded: FoldResult

    @property
    def is_good(self) -> bool:
        """Whether the run succeeded; a tool that failed is an execution that did not."""
        return self.envelope.get("status") in _GOOD

    def answer(self) -> dict[str, Any]:
        """The answer to the request."""
        always = (self.collected.execution_snapshot_hash, *self.folded.new_objects)
        answer = {
            "status": SUCCESS if self.is_good else self.envelope.get("status", "error"),
            "thread_id": self.thread_id,
            "callee_thread_id": None,
            "snapshot_hash": self.folded.snapshot_hash,
            "merge_type": self.folded.merge_type,
            "execution_snapshot_hash": self.collected.execution_snapshot_hash,
            "runtime_outputs_bundle_hash": self.collected.outputs_bundle_hash,
            "new_object_hashes": list(dict.fromkeys((*self.collected.new_objects, *always))),
            "result": dict(self.envelope),
            "system_version": ryeos.__version__,
        }
        if self.folded.conflicts is not None:
            answer["conflicts"] = dict(self.folded.conflicts)
        if self.folded.unmerged is not None:
            answer["unmerged_snapshot"] = self.folded.unmerged
        if self.collected.masked:
            answer["masked_paths"] = list(self.collected.masked)
        if self.collected.left_out:
            answer["left_out"] = [
                {"path": one.path, "problem": one.problem} for one in self.collected.left_out
            ]
        if self.collected.warnings:
            answer["warnings"] = list(self.collected.warnings)
        return answer

    def row(self) -> dict[str, Any]:
        """The same as columns of the thread."""
        error = None if self.is_good else str(self.envelope.get("error") or "the run failed")
        return {
            "snapshot_hash": self.folded.snapshot_hash,
            "execution_snapshot_hash": self.collected.execution_snapshot_hash,
            "runtime_outputs_bundle_hash": self.collected.outputs_bundle_hash,
            "merge_type": self.folded.merge_type,
            **_conflict_columns(self.folded),
            "unmerged_snapshot_hash": self.folded.unmerged,
            "result_hash": self.collected.result_hash,
            "error_message": error,
            "error_phase": None if self.is_good else "execution",
            "warnings": list(self.collected.warnings) or None,
        }


def _conflict_columns(folded: FoldResult) -> dict[str, Any]:
    """The first paths in conflict, and how many there are; where no path is, what there is."""
    conflicts = folded.conflicts
    if conflicts is None or folded.merge_type != "conflict":
        return {"merge_conflicts": conflicts}
    first = dict(islice(sorted(conflicts.items()), MOST_CONFLICTS))
    return {"merge_conflicts": first, "merge_conflict_count": len(conflicts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One time that an execution is begun.

    hold    raises ExecutionLostError, in the caller's transaction, where it is others' by now
    listen  what hears its worker, for a function that masks secrets and one that has the worker
            begin; what hears raises ExecutionLostError and SQLAlchemyError instead of that
    """

    thread_id: str
    number: int
    cancellation: Cancellation
    hold: Callable[[Connection], None]
    listen: Callable[[Callable[[str], str], Go], Callable[[bytes], None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Executes orders on the data of a node. Thread-safe."""

    settings: Settings
    keys: NodeKeys
    stores: StoresOfUsers
    sync: SyncServices
    vault: Vault
    teams: Teams
    team_spaces: TeamSpaces
    workspaces: Checkouts
    launch: WorkerLaunch
    workers: ForkServer
    bundle: Path
    clock: Clock
    spending: Spending
    isolation: Isolation = Isolation()
    manifests: KnownManifests = field(default_factory=KnownManifests, repr=False)

    def basis(self, order: Order) -> Basis:
        """What the execution starts from.

        Raises ProjectNotFoundError, SecretNotFoundError, SealedRowError, EnvelopeError; RoleError
        where who asked for it may not run it any more.
        """
        if order.started_by:
            self.teams.require_role(order.user_id, order.started_by, Role.RUN)
        head = self.head_of(order).read()
        space = self.sync.user_spaces.read(order.user_id, self.settings.name)
        return Basis(
            head=head,
            user_manifest_hash=space.user_manifest_hash if space else None,
            secrets=self._secrets(order),
        )

    def execute(self, order: Order, basis: Basis, attempt: "Attempt") -> FinishedExecution:
        """Execute from HEAD.

        (1) Both manifests. (2) A workspace that holds them. (3) Which files are the project's.
        (4) A worker runs the item; nothing that it started runs any more. (5) What it has left is
        stored, no secret in it. (6) All of that is on the disk. (7) What changed becomes part of
        HEAD. (8) The workspace is given back.

        Raises ObjectMissingError, CasObjectError, UnsafeManifestError, PushedRulesError for what
        was pushed; WorkerEndedError; ExecutionLostError where it is no longer this server's, and
        then HEAD is where it was; QuotaExceededError; what a store raises; FileSystemError.
        """
        store, thread_id = self.stores.of(order.user_id), attempt.thread_id
        wanted = self._checkout_request(order, basis, store)  # (1)
        with self.workspaces.checkout(wanted) as workspace:  # (2) and (8)
            self.manifests.keep(basis.head.project_manifest_hash, wanted.project)
            rules = self._rules(workspace)  # (3)
            redaction = Redaction(basis.secrets)
            answered = self._paid_run(order, basis, workspace, redaction, attempt)  # (4)
            envelope = self._with_receipt(answered, order, basis, thread_id)
            ran = WorkerRun(
                thread_id=thread_id,
                item_ref=order.item_ref,
                workspace=workspace,
                base=wanted.project,
                base_hash=basis.head.project_manifest_hash,
                user_manifest_hash=basis.user_manifest_hash,
                rules=rules,
                envelope=envelope,
                system_version=ryeos.__version__,
            )
            ran, collected = self._collect_outputs(ran, order, store, redaction)  # (5)
        self.sync.durable.force(store)  # (6)
        folded = self._fold(order, basis, collected, store, attempt)  # (7)
        return FinishedExecution(
            thread_id=thread_id, envelope=ran.envelope, collected=collected, folded=folded
        )

    def _with_receipt(
        self, envelope: Mapping[str, Any], order: Order, basis: Basis, thread_id: str
    ) -> dict[str, Any]:
        """The envelope with the receipt of the run, signed; as it is where there is none.

        What ran, and with which rights, is what the worker says; by whom, on what and what came of
        it is what this process knows.
        """
        reported = envelope.get("receipt")
        rest = {name: value for name, value in envelope.items() if name != "receipt"}
        if not isinstance(reported, Mapping) or not isinstance(reported.get("predicate"), Mapping):
            return rest
        result = result_digest(rest)
        caller = {"kind": "node", "node": self.keys.node_id, "user": order.user_id}
        caller |= {"member": order.started_by} if order.started_by else {}
        kind = str(reported.get("type", PREDICATE_TYPE))
        kind = THREAD_TYPE if kind == THREAD_TYPE and order.agent is not None else PREDICATE_TYPE
        predicate = {
            **reported["predicate"],
            "item": order.item_ref,
            "caller": {**caller, "thread": thread_id},
            "snapshot": basis.head.snapshot_hash,
            "result": {"sha256": result},
        }
        pair = self.keys.receipts
        subject = [subject_of("result", result)]
        said = json.dumps(statement(predicate, subject, kind), default=str)
        key_id = compute_key_digest(pair.public_pem)
        document = {
            "kind": RECEIPT_KEY_KIND,
            "public_key": encode_public_key(pair.public_pem),
        }
        signed_at = self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        receipt = {
            "envelope": dsse.signed(PAYLOAD_TYPE, said.encode(), pair.private_pem, key_id),
            "key": sign_document(document, self.keys.signing, signed_at),
        }
        return {**rest, "receipt": receipt}

    def _rules(self, workspace: Checkout) -> ManifestRules:
        try:
            return read_rules(bundles=[self.bundle], user=workspace.user, project=workspace.project)
        except SpecError as error:
            raise PushedRulesError(without_places(str(error), workspace, self.bundle)) from error

    def _collect_outputs(
        self, ran: WorkerRun, order: Order, store: ContentStore, redaction: Redaction
    ) -> tuple[WorkerRun, CollectedOutputs]:
        """What a run has left, stored. One that left what cannot be read is one that failed."""

        def collector() -> OutputCollector:
            return OutputCollector(
                user_id=order.user_id,
                store=store,
                usage=self.sync.usage,
                max_bytes=self.settings.max_user_storage_bytes,
                key=self.keys.items,
                redaction=redaction,
            )

        try:
            return ran, collector().collect_outputs(ran)
        except (LilluxError, RecursionError) as error:
            if not _is_of_the_run(error, ran.workspace):
                raise
            _log.info("%s: nothing was taken of it: %s", ran.thread_id, error)
            finished = failed(
                order.action,
                order.item_ref,
                f"what the run left cannot be stored: {error}",
                code=error.code if isinstance(error, LilluxError) else "TOO_DEEP",
                hint="nothing of it was taken, and the project is as it was",
            )
        envelope = presentable(finished.envelope, ran.workspace, redaction, self.bundle)
        refused = replace(ran, envelope=envelope)
        return refused, collector().keep_result(refused)

    def require_model(self, order: Order, basis: Basis) -> None:
        """Refuse a thread of a model that this node cannot ask. Raises RefusedError.

        Of the model that a directive names its worker decides, as nothing of a project is read
        here; so it does where the configuration of the node itself is wrong.
        """
        name = str(order.agent.get("model") or "") if order.agent is not None else ""
        if not name:
            return
        from rye_services.node.worker.providers import (
            SAYS_WHAT_IS_WRONG,
            operator_config,
            require_model,
            words_of,
        )

        settings = self.settings
        try:
            found = operator_config(
                self.launch.environ,
                settings.data_dir,
                str(settings.operator_space),
                self.bundle,
                ryeos.__version__,
            )
            require_model(name, basis.secrets, found)
        except RyeError as error:
            if error.code in SAYS_WHAT_IS_WRONG:
                raise RefusedError(words_of(error), code=error.code, status=400) from error
            _log.warning("the model of a thread was not looked at: %s", error)

    def head_of(self, order: Order) -> "OwnHead":
        """The head that the order is about."""
        return OwnHead(self.sync, order.user_id, self.settings.name, order.project_path, self.clock)

    def hold_head(self, connection: Connection, order: Order) -> bool:
        """Keep the project its owner's to the end of a transaction."""
        name = self.settings.name
        return self.sync.heads.hold(connection, order.user_id, name, order.project_path)

    def _own_head(self, order: Order, attempt: "Attempt") -> "OwnHead":
        """The head, for one who still may move it when it moves. ``advance`` raises RoleError."""

        def hold(connection: Connection) -> None:
            attempt.hold(connection)
            if order.started_by:
                require_role(connection, order.user_id, order.started_by, Role.PUSH)

        return replace(self.head_of(order), hold=hold)

    def _secrets(self, order: Order) -> dict[str, str]:
        """The secrets that the tools get: those of the vault, and an envelope's above them."""
        values = self.vault.values(order.user_id, order.vault_keys)
        user, box_private = order.user_id, self.keys.box_private
        if order.envelope is not None and order.hook_id:
            values |= open_for_hook(order.envelope, box_private, user=user, hook_id=order.hook_id)
        elif order.envelope is not None:
            values |= open_for_execution(order.envelope, box_private, user=user)
        safe, skipped = injectable(values)
        if skipped:
            _log.warning("not injected for %s: %s", order.user_id, ", ".join(skipped))
        return safe

    def _checkout_request(self, order: Order, basis: Basis, store: ContentStore) -> CheckoutRequest:
        digest = basis.user_manifest_hash
        team = self.team_spaces.of(order.user_id, store)
        if team is not None:
            user = team.manifest
        else:
            user = read_manifest(digest, "user", store) if digest else SourceManifest("user")
        project_hash = basis.head.project_manifest_hash
        known = self.manifests.get(project_hash) if store.has_object(project_hash) else None
        return CheckoutRequest(
            user_id=order.user_id,
            remote_name=self.settings.name,
            project_path=order.project_path,
            project=known or read_manifest(project_hash, "project", store),
            is_checked=known is not None,
            user=user,
            contents=store if team is None else team.contents,
        )

    def _paid_run(
        self,
        order: Order,
        basis: Basis,
        workspace: Checkout,
        redaction: Redaction,
        attempt: "Attempt",
    ) -> dict[str, Any]:
        """As `_run`; a thread of a model is paid from the day of its user and team."""
        if order.agent is None:
            return dict(self._run(order, basis, workspace, redaction, attempt).envelope)
        asked = read_limits(order.agent.get("limits") or {}, "agent.limits").get("spend")
        grant = self.spending.reserve(order.payers, attempt.thread_id, attempt.number, asked)
        agent = {
            **order.agent,
            "granted": grant.amount,
            "thread_spend": self.spending.most,
            "thread_id": attempt.thread_id,
            "seal_key": grant.seal_key,
        }
        answered = self._run(order, basis, workspace, redaction, attempt, agent=agent)
        self.spending.settle(grant, read_spend(answered.spend, grant.seal_key))
        return dict(answered.envelope)

    def _run(
        self,
        order: Order,
        basis: Basis,
        workspace: Checkout,
        redaction: Redaction,
        attempt: "Attempt",
        *,
        agent: Mapping[str, Any] | None = None,
    ) -> WorkerAnswer:
        """What the worker answers, without secrets and places of the server."""
        is_sign = order.action is JobAction.SIGN
        job = Job(
            action=order.action,
            item_ref=order.item_ref,
            parameters=order.parameters,
            project_id=order.project_path,
            project=workspace.project,
            user=workspace.user,
            home=workspace.home,
            temporary=workspace.temporary,
            bundle=self.bundle,
            bundle_version=ryeos.__version__,
            secrets=basis.secrets,
            agent=agent,
            operator=str(self.settings.operator_space) if agent is not None else "",
            signing_pem=self.keys.items_keypair.private_pem.decode() if is_sign else "",
            time_limit_s=float(self.settings.worker_timeout_s),
            memory_bytes=self.settings.worker_memory_bytes,
            file_bytes=self.settings.largest_file_bytes,
            disk_bytes=self.settings.largest_workspace_bytes,
            unix_sockets=self.settings.allow_unix_sockets,
            network=self.settings.allow_network,
            policy=self.settings.sandbox,
            isolation=self.isolation.dump(),
            uid=workspace.uid,
            owner=order.user_id,
            run_memory_bytes=self.settings.largest_run_bytes,
            run_processes=self.settings.run_processes,
            hidden=self._hidden_paths(),
            parent_pid=os.getpid(),
        )
        finished = self._run_job(job, attempt, redaction)
        for warning in finished.warnings:
            _log.info("%s: %s", attempt.thread_id, redaction.text(warning))
        envelope = presentable(finished.envelope, workspace, redaction, self.bundle)
        return replace(finished, envelope=envelope)

    def _run_job(self, job: Job, attempt: "Attempt", redaction: Redaction) -> WorkerAnswer:
        try:
            return do_job(
                job,
                self.launch,
                cancellation=attempt.cancellation,
                listen=partial(attempt.listen, redaction.text),
                runner=self.workers,
            )
        except WorkerDiedError as error:  # as any tool can have it
            lines = error.said.splitlines()
            said = "\n".join(line for line in lines if not read_report(line.encode()))
            _log.warning("%s: %s; it said: %s", attempt.thread_id, error, said[-_SAID:])
            hint = "it was killed, or wrote where its answer goes; or it had too little memory"
            return failed(job.action, job.item_ref, str(error), code=error.code, hint=hint)

    def _hidden_paths(self) -> tuple[Path, ...]:
        """What belongs to the node alone."""
        settings = self.settings
        own = (settings.data_dir, settings.config_dir, settings.signing_key_dir)
        return (*own, settings.cas_base_path)

    def _fold(
        self,
        order: Order,
        basis: Basis,
        collected: CollectedOutputs,
        store: ContentStore,
        attempt: "Attempt",
    ) -> FoldResult:
        if collected.manifest_hash == basis.head.project_manifest_hash:
            return FoldResult(snapshot_hash=basis.head.snapshot_hash, merge_type="no-op")
        fold_back = FoldBack(
            head=self._own_head(order, attempt),
            store=store,
            durable=self.sync.durable,
            clock=self.clock,
            sleep=time.sleep,
        )
        change = ProjectChange(
            thread_id=attempt.thread_id,
            item_ref=order.item_ref,
            base=basis.head,
            manifest_hash=collected.manifest_hash,
            user_manifest_hash=basis.user_manifest_hash,
        )
        if not order.may_change:
            return fold_back.keep_apart(change)
        try:
            return fold_back.fold(change)
        except RoleError as error:
            _log.info("%s: kept apart: %s", attempt.thread_id, error)
            return fold_back.keep_apart(change)


def _is_of_the_run(error: Exception, workspace: Checkout) -> bool:
    """Whether something cannot be taken for what it is, and not for want of room or of rights."""
    if is_full(error) or is_read_only(error):
        return False
    return isinstance(error, RecursionError | CanonicalJsonError) or str(workspace.project) in str(
        error
    )


@dataclass(frozen=True, slots=True)
class OwnHead:
    """The head of one project, moved by what executions change. See `fold_back.ProjectHead`."""

    sync: SyncServices
    user_id: str
    remote_name: str
    project_path: str
    clock: Clock
    hold: Callable[[Connection], None] = lambda _: None

    def read(self) -> Head:
        """Where it is now. Raises ProjectNotFoundError."""
        head = self.sync.heads.read(self.user_id, self.remote_name, self.project_path)
        if head is None:
            raise ProjectNotFoundError(self.project_path)
        return head

    def advance(self, expected: Head, snapshot_hash: str, manifest_hash: str) -> bool:
        """Move it; False where it is no longer there."""
        moved = self.sync.heads.advance(
            self.user_id,
            self.remote_name,
            self.project_path,
            expected=expected,
            snapshot_hash=snapshot_hash,
            project_manifest_hash=manifest_hash,
            user_manifest_hash=expected.user_manifest_hash,
            system_version=ryeos.__version__,
            now=self.clock(),
            first=self.hold,
        )
        return moved is not None
