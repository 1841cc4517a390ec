"""An item of the project, run on a node.

(1) what is here is pushed   (2) secrets are sealed to the node that was verified   (3) the run
(4) what it made is fetched, each piece hashed again   (5) what it left behind is written
(6) what it changed in the project is merged in   (7) pages are signed anew, if that is asked for.

After (3) nothing that goes wrong takes the result away: it becomes a warning beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.values import dataclass, field
from ryeos.cas.objects import outputs_bundle_of
from ryeos.remote.link import Link
from ryeos.remote.naming_merged import naming_merged
from ryeos.remote.outputs import Outputs, write_outputs
from ryeos.remote.pull import pull
from ryeos.remote.push import Pushed, push
from ryeos.remote.replies import Executed
from ryeos.remote.transfer import fetch, fetch_available

BOOK = "outputs.json"
_SHOWN_PATHS = 5
_UNMERGED = ("conflict", "retry_exhausted")


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRun:
    """What is to be run.

    item_ref    canonical, ``tool:a/b``
    thread      ``inline`` or ``fork``, ``""`` for what its kind asks for
    is_async    do not wait for its end
    vault_keys  names of secrets on the node that the run may see
    secrets     values that only this run sees; they travel sealed to the node's own key
    applies     whether what it changes in the project is merged in here
    timeout_s   of the run, None for what the remote is configured with
    """

    item_ref: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    thread: str = ""
    is_async: bool = False
    vault_keys: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    applies: bool = True
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What came of it.

    fetched   pieces of content that came back
    applied   paths of the project that were changed as the run had changed them
    warnings  what could not be done with the result
    """

    executed: Executed
    pushed: Pushed
    fetched: int = 0
    outputs: Outputs = field(default_factory=Outputs)
    applied: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def execute(
    link: Link, run: RemoteRun, *, sign_page: Callable[[Path], object] | None = None
) -> Ran:
    """Run an item on the node. Raises what a push raises, and RemoteError."""
    with naming_merged(link) as naming:
        pushed = push(naming)  # (1)
        body = _body(link, run)  # (2)
        executed = link.node.execute(body, timeout_s=run.timeout_s)  # (3)
    if executed.is_accepted_only:
        return Ran(executed=executed, pushed=pushed)
    after = _Aftermath(link, executed, pushed)
    after.fetch()  # (4)
    after.write_outputs()  # (5)
    after.tell_unmerged()
    if run.applies:
        after.apply()  # (6)
    if sign_page is not None:
        after.sign_pages(sign_page)  # (7)
    return after.ran()


def _body(link: Link, run: RemoteRun) -> dict[str, Any]:
    body: dict[str, Any] = {
        "item_id": run.item_ref,
        "project_path": link.project_path,
        "parameters": dict(run.parameters),
        "thread": run.thread or ("fork" if run.item_ref.startswith("directive:") else "inline"),
    }
    if run.is_async:
        body["async"] = True
    if run.vault_keys:
        body["vault_keys"] = list(run.vault_keys)
    if run.secrets:
        from ryeos.remote.envelopes import seal_secrets

        box_public = link.node.verify().box_public
        body["secret_envelope"] = seal_secrets(run.secrets, box_public)
    return body


def _masked(paths: Sequence[str]) -> str:
    shown = ", ".join(ascii(path)[1:-1] for path in paths[:_SHOWN_PATHS])
    more = f" and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else ""
    return f"the run wrote a secret into {shown}{more}: there is *** in its place"


class _Aftermath:
    """What is done with the result of a run, a step at a time."""

    def __init__(self, link: Link, executed: Executed, pushed: Pushed) -> None:
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

    def tell_unmerged(self) -> None:
        """What the run changed, where the node could not merge it, and how it is merged here."""
        executed = self._executed
        if executed.merge_type not in _UNMERGED:
            return
        from lillux.schema_keywords import printable

        is_conflict = executed.merge_type == "conflict"
        paths = ", ".join(map(printable, sorted(executed.conflicts)[:5])) if is_conflict else ""
        # By its snapshot: the public node keeps that, but not the record of a conflict.
        named = executed.unmerged_snapshot or printable(executed.thread_id, 300)
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
            self._link.tell_merged(self._link.node.name, applied)

    def sign_pages(self, sign_page: Callable[[Path], object]) -> None:
        """Pages count here under the user's key, not under the node's."""
        for path in self._outputs.pages:
            try:
                sign_page(self._link.working_tree.project / path)
            except LilluxError as error:
                self._warn(f"{path} was not signed", error)

    def ran(self) -> Ran:
        """All of it."""
        return Ran(
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
