"""One execution from the head of a project, decided step by step. Nothing here knows of HTTP."""

import logging
import os
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import ryeos
from lillux.digests import CanonicalJsonError
from lillux.errors import LilluxError
from lillux.process.cancellation import Cancellation
from lillux.store import Store
from lillux.values import dataclass, field, replace
from rye_services.keys import NodeKeys
from rye_services.node.fold_back import Change, FoldBack, Folded
from rye_services.node.harvest import Harvest, Harvester, Ran
from rye_services.node.heads import Head
from rye_services.node.jobs import Action, Finished, Job, failed
from rye_services.node.orders import Order
from rye_services.node.presentable import presentable, without_places
from rye_services.node.redaction import Redaction
from rye_services.node.stores import UserStores
from rye_services.node.sync_services import SyncServices
from rye_services.node.vault import Vault
from rye_services.node.worker import Launch, WorkerDiedError, do_job
from rye_services.node.workspaces import Wanted, Workspace, Workspaces
from rye_services.problems import is_full
from rye_services.settings import Settings
from ryeos.items.context import Clock
from ryeos.items.errors import SpecError
from ryeos.remote.secrets import injectable, open_envelope
from ryeos.sync.checkout import read_manifest
from ryeos.sync.objects import SourceManifest
from ryeos.sync.rules import ManifestRules, read_rules

SUCCESS = "success"
MOST_CONFLICTS = 1000
"""Paths in conflict that a row holds: it is outside of every quota."""

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
class Executed:
    """What an execution has left, and what it answered."""

    thread_id: str
    envelope: Mapping[str, Any]
    harvest: Harvest
    folded: Folded

    @property
    def is_good(self) -> bool:
        """Whether the run succeeded; a tool that failed is an execution that did not."""
        return self.envelope.get("status") in _GOOD

    def answer(self) -> dict[str, Any]:
        """The answer to the request."""
        always = (self.harvest.execution_snapshot_hash, *self.folded.new_objects)
        answer = {
            "status": SUCCESS if self.is_good else self.envelope.get("status", "error"),
            "thread_id": self.thread_id,
            "callee_thread_id": None,
            "snapshot_hash": self.folded.snapshot_hash,
            "merge_type": self.folded.merge_type,
            "execution_snapshot_hash": self.harvest.execution_snapshot_hash,
            "runtime_outputs_bundle_hash": self.harvest.outputs_bundle_hash,
            "new_object_hashes": list(dict.fromkeys((*self.harvest.new_objects, *always))),
            "result": dict(self.envelope),
            "system_version": ryeos.__version__,
        }
        if self.folded.conflicts is not None:
            answer["conflicts"] = dict(self.folded.conflicts)
        if self.folded.unmerged is not None:
            answer["unmerged_snapshot"] = self.folded.unmerged
        if self.harvest.masked:
            answer["masked_paths"] = list(self.harvest.masked)
        if self.harvest.left_out:
            answer["left_out"] = [
                {"path": one.path, "problem": one.problem} for one in self.harvest.left_out
            ]
        if self.harvest.warnings:
            answer["warnings"] = list(self.harvest.warnings)
        return answer

    def row(self) -> dict[str, Any]:
        """The same as columns of the thread."""
        error = None if self.is_good else str(self.envelope.get("error") or "the run failed")
        return {
            "snapshot_hash": self.folded.snapshot_hash,
            "execution_snapshot_hash": self.harvest.execution_snapshot_hash,
            "runtime_outputs_bundle_hash": self.harvest.outputs_bundle_hash,
            "merge_type": self.folded.merge_type,
            **_conflict_columns(self.folded),
            "unmerged_snapshot_hash": self.folded.unmerged,
            "result_hash": self.harvest.result_hash,
            "error_message": error,
            "error_phase": None if self.is_good else "execution",
        }


def _conflict_columns(folded: Folded) -> dict[str, Any]:
    """The first paths in conflict, and how many there are; where no path is, what there is."""
    conflicts = folded.conflicts
    if conflicts is None or folded.merge_type != "conflict":
        return {"merge_conflicts": conflicts}
    first = dict(islice(sorted(conflicts.items()), MOST_CONFLICTS))
    return {"merge_conflicts": first, "merge_conflict_count": len(conflicts)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """Executes orders on the data of a node. Thread-safe."""

    settings: Settings
    keys: NodeKeys
    stores: UserStores
    sync: SyncServices
    vault: Vault
    workspaces: Workspaces
    launch: Launch
    bundle: Path
    clock: Clock
    cancellation: Cancellation

    def basis(self, order: Order) -> Basis:
        """What the execution starts from.

        Raises ProjectNotFoundError, SecretNotFoundError, SealedRowError, EnvelopeError.
        """
        head = self.head_of(order).read()
        space = self.sync.user_spaces.read(order.user_id, self.settings.name)
        return Basis(
            head=head,
            user_manifest_hash=space.user_manifest_hash if space else None,
            secrets=self._secrets(order),
        )

    def execute(self, order: Order, basis: Basis, thread_id: str) -> Executed:
        """Execute from HEAD.

        (1) Both manifests. (2) A workspace that holds them. (3) Which files are the project's.
        (4) A worker runs the item; nothing that it started runs any more. (5) What it has left is
        stored, no secret in it. (6) All of that is on the disk. (7) What changed becomes part of
        HEAD. (8) The workspace is given back.

        Raises ObjectMissingError, CasObjectError, UnsafeManifestError, PushedRulesError for what
        was pushed; WorkerEndedError; QuotaExceededError; what a store raises; FileSystemError.
        """
        store = self.stores.of(order.user_id)
        wanted = self._wanted(order, basis, store)  # (1)
        with self.workspaces.checkout(wanted) as workspace:  # (2) and (8)
            rules = self._rules(workspace)  # (3)
            redaction = Redaction(basis.secrets)
            envelope = self._run(order, basis, workspace, redaction, thread_id)  # (4)
            ran = Ran(
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
            ran, harvest = self._harvested(ran, order, store, redaction)  # (5)
        self.sync.durable.force(store)  # (6)
        folded = self._fold(order, basis, harvest, store, thread_id)  # (7)
        return Executed(thread_id=thread_id, envelope=ran.envelope, harvest=harvest, folded=folded)

    def _rules(self, workspace: Workspace) -> ManifestRules:
        try:
            return read_rules(bundles=[self.bundle], user=workspace.user, project=workspace.project)
        except SpecError as error:
            raise PushedRulesError(without_places(str(error), workspace, self.bundle)) from error

    def _harvested(
        self, ran: Ran, order: Order, store: Store, redaction: Redaction
    ) -> tuple[Ran, Harvest]:
        """What a run has left, stored. One that left what cannot be read is one that failed."""

        def harvester() -> Harvester:
            return Harvester(
                user_id=order.user_id,
                store=store,
                usage=self.sync.usage,
                max_bytes=self.settings.max_user_storage_bytes,
                key=self.keys.items,
                redaction=redaction,
            )

        try:
            return ran, harvester().harvest(ran)
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
        return refused, harvester().refuse(refused)

    def head_of(self, order: Order) -> "OwnHead":
        """The head that the order is about."""
        return OwnHead(self.sync, order.user_id, self.settings.name, order.project_path, self.clock)

    def _secrets(self, order: Order) -> dict[str, str]:
        """The secrets that the tools get: those of the vault, and an envelope's above them."""
        values = self.vault.values(order.user_id, order.vault_keys)
        if order.envelope is not None:
            values |= open_envelope(order.envelope, self.keys.box_private)
        safe, skipped = injectable(values)
        if skipped:
            _log.warning("not injected for %s: %s", order.user_id, ", ".join(skipped))
        return safe

    def _wanted(self, order: Order, basis: Basis, store: Store) -> Wanted:
        digest = basis.user_manifest_hash
        return Wanted(
            user_id=order.user_id,
            remote_name=self.settings.name,
            project_path=order.project_path,
            project=read_manifest(basis.head.project_manifest_hash, "project", store),
            user=read_manifest(digest, "user", store) if digest else SourceManifest("user"),
            contents=store,
        )

    def _run(
        self,
        order: Order,
        basis: Basis,
        workspace: Workspace,
        redaction: Redaction,
        thread_id: str,
    ) -> dict[str, Any]:
        """What the worker answers, fit to be told."""
        is_sign = order.action is Action.SIGN
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
            signing_pem=self.keys.items_keypair.private_pem.decode() if is_sign else "",
            time_limit_s=float(self.settings.worker_timeout_s),
            memory_bytes=self.settings.worker_memory_bytes,
            file_bytes=self.settings.largest_file_bytes,
            unix_sockets=self.settings.allow_unix_sockets,
            hidden=self._hidden(),
            parent_pid=os.getpid(),
        )
        finished = self._finished(job, thread_id)
        for warning in finished.warnings:
            _log.info("%s: %s", thread_id, redaction.text(warning))
        return presentable(finished.envelope, workspace, redaction, self.bundle)

    def _finished(self, job: Job, thread_id: str) -> Finished:
        try:
            return do_job(job, self.launch, cancellation=self.cancellation)
        except WorkerDiedError as error:  # as any tool can have it
            _log.warning("%s: %s; it said: %s", thread_id, error, error.said[-_SAID:])
            hint = "it was killed, or wrote where its answer goes; or it had too little memory"
            return failed(job.action, job.item_ref, str(error), code=error.code, hint=hint)

    def _hidden(self) -> tuple[Path, ...]:
        """What belongs to the node alone."""
        settings = self.settings
        own = (settings.data_dir, settings.config_dir, settings.signing_key_dir)
        return (*own, settings.cas_base_path)

    def _fold(
        self, order: Order, basis: Basis, harvest: Harvest, store: Store, thread_id: str
    ) -> Folded:
        if harvest.manifest_hash == basis.head.project_manifest_hash:
            return Folded(snapshot_hash=basis.head.snapshot_hash, merge_type="no-op")
        fold_back = FoldBack(
            head=self.head_of(order),
            store=store,
            durable=self.sync.durable,
            clock=self.clock,
            sleep=time.sleep,
        )
        return fold_back.fold(
            Change(
                thread_id=thread_id,
                item_ref=order.item_ref,
                base=basis.head,
                manifest_hash=harvest.manifest_hash,
                user_manifest_hash=basis.user_manifest_hash,
            )
        )


def _is_of_the_run(error: Exception, workspace: Workspace) -> bool:
    """Whether something cannot be taken for what it is, and not for want of room or of rights."""
    if is_full(error):
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
        )
        return moved is not None
