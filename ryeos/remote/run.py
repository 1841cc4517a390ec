"""Runs an item of the project on a node.

(1) what is here is pushed   (2) secrets are sealed to the node that was verified   (3) the run
(4) what it made is fetched, each piece hashed again   (5) what it left behind is written
(6) what it changed in the project is merged in   (7) pages are signed anew, if that is asked for.

After (3) nothing that goes wrong takes the result away: it becomes a warning beside it.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.foreign_text import printable
from lillux.http.errors import ExchangeCancelledError
from lillux.values import dataclass, field
from ryeos.items.errors import RyeError
from ryeos.items.refs import SYSTEM
from ryeos.remote.errors import RemoteError, RemoteUnreachableError
from ryeos.remote.link import Link
from ryeos.remote.node import Node
from ryeos.remote.pull import pull
from ryeos.remote.push import PushResult, naming_merged, push
from ryeos.remote.replies import RemoteExecution
from ryeos.remote.run_outputs import Outputs, write_outputs
from ryeos.remote.run_waits import CANCELLED, RUN_COMPLETED, follow_log, wait_for_run
from ryeos.remote.transfer import fetch, fetch_available
from ryeos.run.engine import parameters_for
from ryeos.run.model import Chain, ExecutionRequest
from ryeos.run.primitives import is_graph
from ryeos.sync.objects import outputs_bundle_of

# How an item is to be run on a node, besides what a run here has too.


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """The choices of a caller.

    thread         ``inline`` or ``fork``, ``""`` for what the kind asks for
    is_async       do not wait for its end
    vault_keys     names of secrets on the node that the run may see
    sends_secrets  whether it sees the user's own secrets too
    agent          how a model is to carry a directive out: ``model`` and ``limits``; None not to
    applies        whether what it changes in the project is merged in here
    resigns        whether pages of knowledge that come back are signed with the user's key
    """

    thread: str = ""
    is_async: bool = False
    vault_keys: tuple[str, ...] = ()
    sends_secrets: bool = True
    agent: Mapping[str, Any] | None = None
    applies: bool = True
    resigns: bool = False


# What a node is sent as the parameters of a run, for those that fill in nothing themselves.
#
# The public node knows no defaults of a tool's schema, and refuses a graph without ``max_steps``
# and ``max_concurrency``. So what would hold here is said. Page: ``docs/remote.md``, Runs.

LIMITS = ("max_steps", "max_concurrency")


def sent_parameters(
    chain: Chain, request: ExecutionRequest, described: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The caller's parameters of a tool, and what its schema or the configuration has beside them.

    ``described`` is what a check of the call said. A tool of a bundle gets the caller's only: a
    node runs the one of its own bundle, which may list others. Raises ParameterError.
    """
    if chain.tool.space.startswith(SYSTEM):
        return request.parameters
    if not is_graph(chain):
        return parameters_for(chain, request)
    declared = (chain.tool.spec.config_schema or {}).get("properties") or {}
    held = {name: described[name] for name in LIMITS if name in described}
    said = {name: value for name, value in held.items() if name not in declared}
    return {**said, **request.parameters}


BOOK = "outputs.json"
_SHOWN_PATHS = 5
_REFUSED = "refused"  # in a project of a team: who may only run changes nothing
_UNMERGED = ("conflict", "retry_exhausted", _REFUSED)

SignPage = Callable[[Path, bytes], object]
"""Signs a page at a path, as these bytes that were verified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFollower:
    """Hears a run on a node while it runs, as a run here is heard.

    on_output     gets ``stdout`` or ``stderr``, and a text; whole lines, in order
    on_cancelled  gets the run's id once the node was asked to end it, and the run is waited for
    cancellation  asks the node to end the run
    """

    on_output: Callable[[str, str], None]
    on_cancelled: Callable[[str], None]
    cancellation: Cancellation


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRun:
    """The item to run, and how.

    item_ref    canonical, ``tool:a/b``
    thread      ``inline`` or ``fork``, ``""`` for what its kind asks for
    is_async    do not wait for its end
    vault_keys  names of secrets on the node that the run may see
    secrets     values that only this run sees; they travel sealed to the node's own key
    agent       how a model is to carry a directive out, None not to
    applies     whether what it changes in the project is merged in here
    timeout_s   of the run, None for what the remote is configured with
    follower    hears it, where the node lets runs be followed; never one that is not waited for
    """

    item_ref: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    thread: str = ""
    is_async: bool = False
    vault_keys: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    agent: Mapping[str, Any] | None = None
    applies: bool = True
    timeout_s: float | None = None
    follower: RunFollower | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedRun:
    """The outcome.

    fetched   pieces of content that came back
    applied   paths of the project that were changed as the run had changed them
    warnings  what could not be done with the result
    """

    executed: RemoteExecution
    pushed: PushResult
    fetched: int = 0
    outputs: Outputs = field(default_factory=Outputs)
    applied: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def execute(link: Link, run: RemoteRun, *, sign_page: SignPage | None = None) -> FinishedRun:
    """Run an item on the node. Raises what a push raises, and RemoteError."""
    with naming_merged(link) as naming:
        pushed = push(naming)  # (1)
        body = _body(link, run)  # (2)
        follower = None if run.is_async or not link.node.keeps_answers() else run.follower
        if follower is not None:
            body |= {"async": True, "awaited": True}
        executed = link.node.execute(body, timeout_s=run.timeout_s)  # (3)
    if follower is not None:
        executed = _FollowedRun(link.node, executed.thread_id, follower).end(run.timeout_s)
    if executed.is_accepted_only and not run.is_async:  # no place was free: it waits there
        row = wait_for_run(link.node, executed.thread_id, run.timeout_s)
        executed = execution_of_row(row)
    if executed.is_accepted_only:
        return FinishedRun(executed=executed, pushed=pushed)
    after = _RunFollowUp(link, executed, pushed)
    after.fetch()  # (4)
    after.write_outputs()  # (5)
    after.report_unmerged()
    if run.applies:
        after.apply()  # (6)
    if sign_page is not None:
        after.sign_pages(sign_page)  # (7)
    return after.ran()


class _FollowedRun:
    """A run that was begun on a node, and is followed to its end."""

    def __init__(self, node: Node, thread_id: str, follower: RunFollower) -> None:
        self._node, self._thread_id, self._follower = node, thread_id, follower
        self._cancellation: Cancellation | None = follower.cancellation
        self._last = 0

    def end(self, timeout_s: float | None) -> RemoteExecution:
        """The outcome. Raises RyeError `TIMEOUT`, and as `Node.thread`."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            while not self._hear(until_s):
                pass
        except RemoteUnreachableError as error:
            raise self._left_alone(str(error), error.code) from error
        except BrokenPipeError:  # its output has no reader any more, which ends a run here too
            self._ask_for_its_end()
            raise
        try:
            return self._node.take_answer(self._thread_id)
        except RemoteError:
            row = self._node.thread(self._thread_id)
            if row.get("state") not in {CANCELLED, RUN_COMPLETED}:
                raise
            return execution_of_row(row)

    def _hear(self, until_s: float | None) -> bool:
        """Hear what it writes: True once it has ended, False where its end was asked for."""
        try:
            pieces = follow_log(
                self._node,
                self._thread_id,
                goes_on=True,
                after=self._last,
                until_s=until_s,
                cancellation=self._cancellation,
            )
            for piece in pieces:
                self._last = int(piece.get("number", self._last))
                self._follower.on_output(str(piece.get("stream")), str(piece.get("text", "")))
        except ExchangeCancelledError:
            self._ask_for_its_end()
            self._follower.on_cancelled(self._thread_id)
            return False
        return True

    def _ask_for_its_end(self) -> None:
        self._cancellation = None
        self._node.outlive_cancellation()
        self._node.cancel(self._thread_id)

    def _left_alone(self, problem: str, code: str) -> RyeError:
        name = self._node.name
        return RyeError(
            f"{problem}; {self._thread_id} goes on there",
            code=code,
            hint=f"wait for it with: rye remote thread {self._thread_id} --wait --remote {name}",
        )


def execution_of_row(row: Mapping[str, Any]) -> RemoteExecution:
    """The outcome of a run, by its row: as the answer says it, but for what it made anew."""
    said = row.get("result")
    message = str(row.get("error_message") or f"the run ended as {row.get('state')}")
    code = "CANCELLED" if row.get("state") == CANCELLED else "EXECUTION_FAILED"
    failed = {"status": "error", "error": message, "code": code}
    conflicts = row.get("merge_conflicts")
    return RemoteExecution(
        thread_id=str(row["thread_id"]),
        status="success" if row.get("state") == RUN_COMPLETED else "error",
        result=said if isinstance(said, Mapping) else failed,
        snapshot_hash=str(row.get("snapshot_hash") or ""),
        merge_type=str(row.get("merge_type") or ""),
        execution_snapshot_hash=str(row.get("execution_snapshot_hash") or ""),
        outputs_bundle_hash=str(row.get("runtime_outputs_bundle_hash") or ""),
        conflicts=conflicts if isinstance(conflicts, Mapping) else {},
        unmerged_snapshot=str(row.get("unmerged_snapshot_hash") or ""),
        system_version=str(row.get("system_version") or ""),
    )


def _body(link: Link, run: RemoteRun) -> dict[str, Any]:
    body: dict[str, Any] = {
        "item_id": run.item_ref,
        "project_path": link.project_path,
        "parameters": dict(run.parameters),
        "thread": run.thread or ("fork" if run.item_ref.startswith("directive:") else "inline"),
    }
    if run.agent is not None:
        body["agent"] = dict(run.agent)
    if run.is_async:
        body["async"] = True
    if run.vault_keys:
        body["vault_keys"] = list(run.vault_keys)
    if run.secrets:
        from ryeos.remote.envelopes import FOR_EXECUTION, seal_secrets

        box_public = link.node.verify().box_public
        body["secret_envelope"] = seal_secrets(
            run.secrets, box_public, user=link.node.sealed_for, purpose=FOR_EXECUTION
        )
    return body


def _masked(paths: Sequence[str]) -> str:
    shown = ", ".join(map(printable, paths[:_SHOWN_PATHS]))
    more = f" and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else ""
    return f"the run wrote a secret into {shown}{more}: there is *** in its place"


class _RunFollowUp:
    """The follow-up of a run's result, a step at a time."""

    def __init__(self, link: Link, executed: RemoteExecution, pushed: PushResult) -> None:
        self._link, self._executed, self._pushed = link, executed, pushed
        self._fetched = 0
        self._outputs = Outputs()
        self._applied: tuple[str, ...] = ()
        self._warnings = [f"not taken into the project: {one}" for one in executed.left_out]
        self._warnings += [f"the node: {one}" for one in executed.warnings]
        if executed.masked_paths:
            self._warnings.append(_masked(executed.masked_paths))

    def fetch(self) -> None:
        """Fetch what the run made, but for what the project is made of itself."""
        executed, link = self._executed, self._link
        named = [executed.execution_snapshot_hash, executed.outputs_bundle_hash]
        wanted = [digest for digest in named if digest]
        wanted += [one for one in executed.new_objects if one not in self._pushed.digests]
        try:
            self._fetched, missing = fetch_available(link.node, wanted, link.store, link.progress)
        except LilluxError as error:
            self._warn("what the run made was not fetched", error)
            return
        if missing:
            self._warnings.append(f"{len(missing)} pieces of what the run made are not there")

    def write_outputs(self) -> None:
        """Transcripts, pages, refs."""
        digest, link = self._executed.outputs_bundle_hash, self._link
        if not digest:
            return
        try:
            bundle = outputs_bundle_of(link.contents.get_object(digest), f"outputs {digest}")
            self._fetched += fetch(link.node, bundle.files.values(), link.store, link.progress)
            book = link.conflicts.folder.parent / BOOK
            self._outputs = write_outputs(
                link.working_tree.project, bundle, link.contents.get_blob, book, link.incoming()
            )
        except LilluxError as error:
            self._warn("what the run left behind was not written", error)
            return
        self._warnings += self._outputs.problems

    def report_unmerged(self) -> None:
        """Report what the node could not merge of the run's changes, and how it is merged here."""
        executed = self._executed
        if executed.merge_type not in _UNMERGED:
            return
        is_conflict = executed.merge_type == "conflict"
        paths = ", ".join(map(printable, sorted(executed.conflicts)[:5])) if is_conflict else ""
        # By its snapshot: the public node keeps that, but not the record of a conflict.
        named = executed.unmerged_snapshot or printable(executed.thread_id, 300)
        if executed.merge_type == _REFUSED:
            team = self._link.node.owner
            self._warnings.append(
                f"what the run changed is not part of the project: that takes the role push in"
                f" {team}; a member who has it takes it over with:"
                f" rye remote pull --thread {named} --remote {self._link.node.name}"
            )
            return
        self._warnings.append(
            f"the node could not merge what the run changed ({executed.merge_type}"
            f"{': ' + paths if paths else ''}); it is kept there; merge it here:"
            f" rye remote pull --thread {named} --remote {self._link.node.name}"
        )

    def apply(self) -> None:
        """Apply what the run changed in the project."""
        executed = self._executed
        if executed.snapshot_hash in {"", self._pushed.snapshot_hash}:
            return
        try:
            applied = pull(self._link).applied
        except LilluxError as error:
            self._warn("what the run changed was not merged in here", error)
            return
        self._applied = applied.paths
        if applied.paths:
            self._link.report_merged(self._link.node.name, applied)

    def sign_pages(self, sign_page: SignPage) -> None:
        """Pages count here under the user's key, not under the node's."""
        for path, data in self._outputs.pages.items():
            try:
                sign_page(self._link.working_tree.project / path, data)
            except LilluxError as error:
                self._warn(f"{path} was not signed", error)

    def ran(self) -> FinishedRun:
        """All of it."""
        return FinishedRun(
            executed=self._executed,
            pushed=self._pushed,
            fetched=self._fetched,
            outputs=self._outputs,
            applied=self._applied,
            warnings=tuple(self._warnings),
        )

    def _warn(self, what: str, error: LilluxError) -> None:
        hint = f" ({error.hint})" if error.hint else ""
        self._warnings.append(f"{what}: {error}{hint}")
