"""Runs an item of the project on a node.

(1) what is here is pushed   (2) secrets are sealed to the node that was verified   (3) the run
(4) what it made is fetched, each piece hashed again   (5) what it left behind is written
(6) what it changed in the project is merged in   (7) pages are signed anew, if that is asked for.

After (3) nothing that goes wrong takes the result away: it becomes a warning beside it.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.foreign_text import printable
from lillux.http.client import wait_for
from lillux.http.model import ExchangeCancelledError
from lillux.patterns import pattern
from lillux.signing import KeyNotFoundError, load_keypair
from lillux.store import MAX_BYTES
from lillux.store_files import is_digest
from lillux.values import dataclass, field
from ryeos.items.errors import (
    Answer,
    RyeError,
    UsageError,
    failed_run_status,
    no_project_error,
)
from ryeos.items.refs import SYSTEM, ItemRef, Kind, Reference, Space
from ryeos.remote.errors import RemoteError, RemoteUnreachableError
from ryeos.remote.link import Link, RemoteEnvironment, open_link
from ryeos.remote.node import Node
from ryeos.remote.pull import pull
from ryeos.remote.push import PushResult, naming_merged, push
from ryeos.remote.replies import RemoteExecution
from ryeos.remote.secrets import LocalSecrets
from ryeos.remote.transfer import fetch, fetch_available
from ryeos.run.engine import parameters_for
from ryeos.run.model import Chain, ExecutionRequest
from ryeos.run.primitives import is_graph
from ryeos.run.workspace import Workspace
from ryeos.sync.objects import OutputsBundle, outputs_bundle_of
from ryeos.sync.paths import UnsafeManifestError, fold, safe_target, why_never

if TYPE_CHECKING:
    from ryeos.trust.sign import Signer

# --- options --------------------------------------------------------------------------------------
# How an item is to be run on a node, besides what a run here has too.


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """What a caller may choose.

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


# --- sent parameters ------------------------------------------------------------------------------
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


# --- waiting --------------------------------------------------------------------------------------
# Waiting for a run on a node: it is asked again and again, less often the longer it takes.

RUN_COMPLETED, CANCELLED = "completed", "cancelled"
_RUNNING = "running"
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _GROWTH = 0.2, 15.0, 1.5
_LONGEST_LOG_PAUSE_S = 2.0


def wait_for_run(
    node: Node,
    thread_id: str,
    timeout_s: float | None,
    cancellation: Cancellation | None = None,
) -> dict[str, Any]:
    """The row of a run once it has ended, well or not; ``timeout_s`` of None waits for ever.

    Raises RyeError `TIMEOUT`, ExchangeCancelledError, and as `Node.thread`.
    """
    began, pause_s = time.monotonic(), _FIRST_PAUSE_S
    while True:
        row = node.thread(thread_id)
        if row.get("state") != _RUNNING:
            return row
        left_s = pause_s if timeout_s is None else began + timeout_s - time.monotonic()
        if timeout_s is not None and left_s <= 0:
            raise RyeError(
                f"remote {node.name}: {thread_id} is still running after {timeout_s:g} s; it goes"
                " on there",
                code="TIMEOUT",
            )
        wait_for(min(pause_s, left_s), cancellation)
        if cancellation is not None and cancellation.is_set:
            raise ExchangeCancelledError(f"remote {node.name}: {thread_id}")
        pause_s = min(pause_s * _GROWTH, _LONGEST_PAUSE_S)


def follow_log(
    node: Node,
    thread_id: str,
    *,
    goes_on: bool,
    after: int = 0,
    until_s: float | None = None,
    cancellation: Cancellation | None = None,
) -> Iterator[dict[str, Any]]:
    """The pieces of a run's log behind one: those that there are, or with ``goes_on`` to its end.

    ``until_s``, of the monotonic clock, is when that is given up. Raises RyeError `TIMEOUT`,
    ExchangeCancelledError, and as `Node.thread`.
    """
    pause_s = _FIRST_PAUSE_S
    while True:
        found = node.log_of(thread_id, after)
        pieces = [one for one in found.get("pieces") or () if isinstance(one, dict)]
        yield from pieces
        after = max([after, *(int(one["number"]) for one in pieces if "number" in one)])
        if not pieces and (not goes_on or found.get("state") != _RUNNING):
            return
        if pieces:
            pause_s = _FIRST_PAUSE_S
            continue
        left_s = pause_s if until_s is None else until_s - time.monotonic()
        if left_s <= 0:
            raise RyeError(
                f"remote {node.name}: no result in time; {thread_id} continues there",
                code="TIMEOUT",
                hint=f"wait for it with: rye remote thread {thread_id} --wait --remote {node.name}",
            )
        wait_for(min(pause_s, left_s), cancellation)
        if cancellation is not None and cancellation.is_set:
            raise ExchangeCancelledError(f"remote {node.name}: {thread_id}")
        pause_s = min(pause_s * _GROWTH, _LONGEST_LOG_PAUSE_S)


# --- outputs --------------------------------------------------------------------------------------
# What a run on a node left behind, written into the project: transcripts, pages, refs.
#
# A node says which files there are, so it is said here which may be: those below ``.ai/state/`` and
# ``.ai/knowledge/state/``, but nothing that decides what this machine does. Refs come last, when
# what they name is here.

PAGES = ".ai/knowledge/state/"
STATE = ".ai/state/"
OBJECTS = ".ai/state/objects/"
REFS = (".ai/state/objects/refs/graphs/", ".ai/state/objects/refs/artifacts/")
OWN = (".ai/state/remote/", ".ai/state/approvals")
# What says which processes may be ended, what runs may do, and which runs there are.
_DECIDING = frozenset({"runner.json", "grants.json", "cancel", "run.lock", ".gitignore"})
_OWN_SUFFIXES = (".lock", ".tmp", ".db-wal", ".db-shm", ".key", ".pem")
_SHORT_NAME = pattern(r"[^/]{1,6}~[0-9]")  # what Windows may call a file of another name
# Of those, what every run leaves behind where it runs: no report says that it stays there.
_OF_EVERY_RUN = frozenset({"runner.json", "grants.json", "run.lock", ".gitignore"})
_DATABASE = ".ai/state/threads/registry.db"
# The store of a run, which the public node lists among what it left behind.
_CONTENTS = tuple(f"{OBJECTS}{name}/" for name in ("blobs", "objects", "cache"))
_MAX_BOOK_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Outputs:
    """The paths that were written, and those that were not, with the reason.

    ``pages`` are the pages of knowledge among them, with the bytes that were verified and written.
    """

    written: tuple[str, ...] = ()
    kept: Mapping[str, str] | None = None
    pages: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def problems(self) -> tuple[str, ...]:
        """What a person should hear about files that were not written."""
        kept = self.kept or {}
        return tuple(problem for path, problem in kept.items() if not _is_of_every_run(path))


def why_refused(path: str) -> str:
    """Why a node may not write there, ``""`` if it may. Pure; says nothing of the path's form."""
    if not path.startswith((STATE, PAGES)):
        return "expected a path below .ai/state/ or .ai/knowledge/state/"
    folded = fold(path)  # a file system that does not tell case apart has one file for both
    if folded.startswith(OBJECTS) and not path.startswith(REFS):
        return "of the store, only refs of graphs and artifacts come from a node"
    if folded.startswith(OWN):
        return "this is what this machine keeps about its remotes and approvals"
    return _why_its_name(folded) or why_never(path, is_item=True)


def _why_its_name(folded: str) -> str:
    name = folded.rpartition("/")[2]
    if name in _DECIDING or folded.startswith(_DATABASE):
        return "this file decides what this machine does"
    if name.endswith(_OWN_SUFFIXES):
        return "keys, locks and temporary files do not come from a node"
    if _SHORT_NAME.search(folded):
        return "it looks like a short name of another file"
    return ""


def _is_of_every_run(path: str) -> bool:
    is_record = path.rpartition("/")[2] in _OF_EVERY_RUN
    return path.startswith(STATE) and (is_record or path.startswith((_DATABASE, *_CONTENTS)))


def write_outputs(
    project: Path,
    bundle: OutputsBundle,
    get_blob: Callable[[str], bytes],
    book: Path,
    through: Path,
) -> Outputs:
    """Write the files of a bundle. One that holds something else here is left alone.

    book     where it is kept what was written last time, which may be replaced
    through  where files are written before they come to their places
    """
    ours = _read_book(book)
    written: list[str] = []
    pages: dict[str, bytes] = {}
    kept: dict[str, str] = {}
    for path in sorted(bundle.files, key=lambda path: (path.startswith(REFS), path)):
        digest = bundle.files[path]
        try:
            data = _wanted_content(project, path, digest, get_blob, ours.get(path))
            if data is not None:
                target = project / path
                make_directory(target.parent, within=project)
                write_atomic(target, data, through=through, within=project)
                written.append(path)
                if path.startswith(PAGES):
                    pages[path] = data
            ours[path] = digest
        except LilluxError as error:
            kept[path] = str(error)
    _write_book(book, ours, project)
    return Outputs(tuple(written), kept, pages)


def _wanted_content(
    project: Path, path: str, digest: str, get_blob: Callable[[str], bytes], last: str | None
) -> bytes | None:
    """What is to be written there, None where that is what is there."""
    problem = why_refused(path)
    if problem:
        raise _output_error(path, problem)
    root, relative = project / ".ai", path.removeprefix(".ai/")
    try:
        target = safe_target(root, relative)
    except UnsafeManifestError as error:
        raise _output_error(path, error.problem) from None
    current = _digest_of(target)
    if current == digest:
        return None
    data = get_blob(digest)
    is_ref = path.startswith(REFS)
    if is_ref:
        _validate_ref(path, data)
    elif current not in {None, last}:
        raise _output_error(path, "another file is here, and stays")
    return data


def _output_error(path: str, problem: str) -> RyeError:
    """A node names a file, among what a run wrote, that no run may write here."""
    return RyeError(
        f"output {path[:200]!r}: {problem}",
        code="INTEGRITY",
        hint="nothing was written there",
        path=path,
    )


def _validate_ref(path: str, data: bytes) -> None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or not is_digest(value.get("hash")):
        raise _output_error(path, "expected a ref: an object with a hash")


def _digest_of(target: Path) -> str | None:
    try:
        return sha256_hex(read_bytes(target, MAX_BYTES))
    except FileNotFoundError:
        return None


def _read_book(book: Path) -> dict[str, str]:
    """By path, what was written last; empty where the record cannot be read."""
    try:
        value = json.loads(read_bytes(book, _MAX_BOOK_BYTES))
    except (OSError, ValueError, RecursionError, LilluxError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {path: digest for path, digest in value.items() if is_digest(digest)}


def _write_book(book: Path, written: Mapping[str, str], project: Path) -> None:
    make_directory(book.parent, within=project)
    data = json.dumps(dict(written), sort_keys=True).encode()
    write_atomic(book, data, within=project)


# --- execute --------------------------------------------------------------------------------------

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
    """What is to be run.

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
    """What came of it.

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
        """What came of it. Raises RyeError `TIMEOUT`, and as `Node.thread`."""
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
    """What came of a run, by its row: as the answer says it, but for what it made anew."""
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
        from ryeos.remote.secrets import FOR_EXECUTION, seal_secrets

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
    """What is done with the result of a run, a step at a time."""

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
        """What the run made, but for what the project is made of itself."""
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
        """What the run changed, where the node could not merge it, and how it is merged here."""
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
        """What the run changed in the project."""
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


# --- running --------------------------------------------------------------------------------------
# A run on a node as an answer of this program: the same envelope as of a run here.

REMOTE, INLINE = "remote", "inline"
NO_LIMIT_S = 7 * 24 * 3600.0


def execute_on(
    around: RemoteEnvironment,
    remote: str | None,
    reference: Reference,
    request: ExecutionRequest,
    options: RemoteOptions,
    *,
    follower: RunFollower | None = None,
) -> Answer:
    """Run an item of the project on a remote, once nothing here would keep it from running.

    ``follower`` hears it while it runs, where the node lets runs be followed. Raises what finding
    it raises, as `ryeos.remote.link.open_link`, and as `execute`; UsageError for a directive that
    is not to be forked.
    """
    checked = around.workspace.check(reference, request)
    if checked.exit_status:
        return checked
    item_ref, chain = verified_item(around.workspace, reference)
    if options.thread == INLINE and item_ref.startswith(f"{Kind.DIRECTIVE}:"):
        raise UsageError(
            f"{item_ref}: thread inline: a directive is forked on a node",
            hint="leave it out, or render the directive here with: rye run",
        )
    link = open_link(around, remote)
    metadata = checked.envelope.get("metadata", {})
    run = RemoteRun(
        item_ref=item_ref,
        parameters=sent_parameters(chain, request, metadata) if chain else request.parameters,
        thread=options.thread,
        is_async=options.is_async,
        vault_keys=options.vault_keys,
        secrets=_secrets(around) if options.sends_secrets else {},
        agent=_agent(request) if options.agent is None else options.agent,
        applies=options.applies,
        timeout_s=_limit(request),
        follower=follower,
    )
    ran = execute(link, run, sign_page=_page_signer(around) if options.resigns else None)
    found = _texts(metadata.get("warnings"))
    answer = answer_of(ran, link.node.name, item_ref, found)
    receipt = ran.executed.result.get("receipt")
    return _with_receipt(around.workspace, link, ran, answer) if receipt else answer


def _agent(request: ExecutionRequest) -> Mapping[str, Any] | None:
    """How a model is to carry a directive out, as it was asked for here."""
    asked = request.thread
    if asked is None:
        return None
    limits, seconds = dict(asked.limits), request.timeout_s or request.at_most_s
    said = limits.get("duration_s")
    if seconds and (said is None or isinstance(said, int)):
        whole = max(int(seconds), 1)
        limits["duration_s"] = whole if said is None else min(whole, said)
    return {"model": asked.model, "limits": limits}


def _with_receipt(workspace: Workspace, link: Link, ran: FinishedRun, answer: Answer) -> Answer:
    """The answer with the id of the node's receipt in our log, or a warning if it is not valid."""
    envelope = dict(answer.envelope)
    metadata = envelope["metadata"] = dict(envelope.get("metadata") or {})
    try:
        statement = node_statement(ran.executed, link.node.verify().public_key_pem)
        said = {name: value for name, value in statement["predicate"].items() if name not in _PLACE}
        said["remote"] = {"name": link.node.name, "receipt": ran.executed.result["receipt"]}
        kind = str(statement.get("predicateType"))
        metadata["receipt"] = workspace.receipts.keep(said, statement["subject"], kind)
    except (LilluxError, KeyError, TypeError, AttributeError) as error:
        warning = f"remote {link.node.name}: its receipt is not kept: {error}"
        metadata["warnings"] = [*_texts(metadata.get("warnings")), warning]
    return Answer(envelope, answer.exit_status)


_PLACE = ("number", "previous")


def node_statement(executed: RemoteExecution, identity_pem: bytes) -> dict[str, Any]:
    """Verify a node's receipt: its receipt key signs it, and its pinned key signs that key.

    Raises SignedDocumentError, EnvelopeError, RyeError for one that is about another run.
    """
    from lillux import dsse
    from lillux.signing import compute_key_fingerprint
    from ryeos.remote.requests import RECEIPT_KEY_KIND, decode_public_key, verify_document
    from ryeos.run.receipts import PAYLOAD_TYPE, result_digest

    receipt = executed.result["receipt"]
    document = receipt["key"]
    verify_document(document, identity_pem)
    if document.get("kind") != RECEIPT_KEY_KIND:
        raise RyeError("expected the key of receipts, found another document", code="INTEGRITY")
    key_pem = decode_public_key(document.get("public_key"))
    statement: dict[str, Any] = dsse.opened(receipt["envelope"], PAYLOAD_TYPE, key_pem)
    predicate = statement["predicate"]
    node_id = f"fp:{compute_key_fingerprint(identity_pem)}"
    expected = {"node": node_id, "thread": executed.thread_id}
    for name, value in expected.items():
        if predicate["caller"].get(name) != value:
            raise RyeError(f"its receipt is of another {name}", code="INTEGRITY")
    if predicate["result"]["sha256"] != result_digest(executed.result):
        raise RyeError("its receipt is of another result", code="INTEGRITY")
    return statement


def verified_item(workspace: Workspace, reference: Reference) -> tuple[str, Chain | None]:
    """The canonical reference of an item, verified with what runs it; and the chain of a tool.

    Raises UsageError, ItemNotFoundError, IntegrityError, ChainError.
    """
    kind = reference.kind or workspace.resolver.resolve(reference).location.ref.kind
    if kind is Kind.CONFIG:
        raise UsageError(f"{reference}: configuration is read by tools, never run")
    if kind is Kind.TOOL:
        chain = workspace.executor.build_chain(reference.id)
        return f"{kind}:{chain.tool.item_id}", chain
    return str(workspace.load(Reference(kind, reference.id))[0].location.ref), None


def _limit(request: ExecutionRequest) -> float | None:
    """How long the reply may take; None for what the remote is configured with."""
    given = [seconds for seconds in (request.timeout_s, request.at_most_s) if seconds is not None]
    if not given:
        return None
    return min((seconds for seconds in given if seconds), default=NO_LIMIT_S)


def _secrets(around: RemoteEnvironment) -> Mapping[str, str]:
    """The user's own: all that the key at hand opens."""
    context = around.context
    try:
        private_pem = load_keypair(context.key_directory).private_pem
    except KeyNotFoundError:
        return {}
    return LocalSecrets(context.spaces.user.base, private_pem).values()


def _page_signer(around: RemoteEnvironment) -> SignPage:
    from ryeos.trust.sign import Signer

    space = around.context.spaces.project
    if space is None:
        raise no_project_error("there is no page to sign")
    return page_signer(space, Signer(around.workspace.signing_key(), around.workspace.verifier))


def page_signer(space: Space, signer: "Signer") -> SignPage:
    """What signs the bytes of a page of a project; refused where its file has others by then."""
    from ryeos.trust.sign import ReadItem, SignTarget

    def sign(path: Path, data: bytes) -> object:
        relative = path.relative_to(space.directory(Kind.KNOWLEDGE)).with_suffix("").as_posix()
        ref = ItemRef(Kind.KNOWLEDGE, relative)
        target = SignTarget(path=path, kind=Kind.KNOWLEDGE, space=space, ref=ref)
        return signer.sign(ReadItem(target, data), force=True)

    return sign


def answer_of(ran: FinishedRun, remote: str, item_ref: str, found: Sequence[str] = ()) -> Answer:
    """The result of the run, flattened, and under ``remote`` what came of it besides.

    ``found`` are warnings of the checks before it.
    """
    executed = ran.executed
    kind, _, item_id = item_ref.partition(":")
    is_thread = executed.result.get("type") == "thread"
    common = {
        "type": "thread" if is_thread else kind,
        "item_id": item_id,
        "execution_mode": REMOTE,
        "thread_id": executed.thread_id,
    }
    facts = {
        "name": remote,
        "snapshot_hash": ran.pushed.snapshot_hash,
        "merged": list(ran.pushed.merged.paths),
    }
    if executed.is_accepted_only:
        envelope = {"status": "success", "async": True, "state": "running", **common}
        return Answer({**envelope, "remote": {**facts, "objects_pushed": ran.pushed.objects_sent}})
    result = {name: value for name, value in executed.result.items() if name != "receipt"}
    metadata = result.pop("metadata", None)
    metadata = dict(metadata) if isinstance(metadata, Mapping) else {}
    warnings = [*found, *_texts(metadata.get("warnings")), *ran.warnings]
    if warnings:
        metadata["warnings"] = list(dict.fromkeys(warnings))
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
    return Answer(envelope, failed_run_status(str(envelope["code"])))


def _outcome(ran: FinishedRun) -> dict[str, Any]:
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
    if executed.masked_paths:
        outcome["masked_paths"] = list(executed.masked_paths)
    return outcome


def _status(result: Mapping[str, Any], fallback: str) -> str:
    """``success`` or ``error``. Of texts and directives there is a status of their own."""
    status = str(result.get("status") or fallback)
    return "success" if status in {"success", "completed", "ok"} else status


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []
