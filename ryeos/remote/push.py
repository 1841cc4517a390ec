"""Push: bring the project to the node.

(1) the node is the one that is pinned   (2) the project and the user space as they are   (3) where
the node's head moved since, what is there is merged in first, and it is (2) again   (4) the node
gets what it lacks; what its head leads to is there   (5) the user space, if it is another one
(6) the head is moved, if it is where it was; if not, it is (2) again   (7) the head is recorded.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import SystemRandom
from threading import Thread
from typing import Generic, TypeVar

from lillux.errors import LilluxError
from lillux.values import dataclass, field, replace
from ryeos.items.errors import RyeError
from ryeos.remote.apply import AppliedChanges
from ryeos.remote.difference import ReplacedHead, differences, excluded_paths
from ryeos.remote.errors import (
    ExcludedFilesError,
    HeadLostError,
    HeadMovedError,
    ProjectRenamedError,
    RemoteError,
)
from ryeos.remote.link import Link, is_same_head
from ryeos.remote.pull import finish_run, merge_head
from ryeos.remote.replies import RemoteHead
from ryeos.remote.transfer import exported, send
from ryeos.remote.working_tree import sized
from ryeos.sync.entries import MAX_ENTRIES, SizedContent
from ryeos.sync.objects import SourceManifest, changes_between
from ryeos.sync.tree import Tree

# A failure names what was merged into the project before it: files are no longer as they were.


@contextmanager
def naming_merged(link: Link) -> Iterator[Link]:
    """The link, for a block whose failures have the paths as the fact ``merged``."""
    came = AppliedChanges()

    def tell(remote: str, applied: AppliedChanges) -> None:
        nonlocal came
        came = came.followed_by(applied)
        link.report_merged(remote, applied)

    try:
        yield replace(link, report_merged=tell)
    except LilluxError as error:
        if came.paths:
            error.facts = {**(error.facts or {}), "merged": list(came.paths)}
        raise


ROUNDS = 5
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.25, 4.0
_CONFLICT, _REFUSED, _TOO_LARGE = 409, 400, 413
MAX_CHANGED_BYTES, MAX_CHANGED_PATHS = 512 * 1024, 2000
"""Of a push in one request: where more has changed, what it is can be asked for, and cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushResult:
    """The result of a push.

    objects_sent   pieces of content that the node did not have
    replaced       with ``force``, what others had brought there
    objects_total  pieces that project and user space are made of
    is_new         whether the head was moved: not where the node had all of it
    merged         what was changed here, as others had changed it
    digests        of the pieces
    """

    snapshot_hash: str
    project_manifest_hash: str
    user_manifest_hash: str
    objects_sent: int = 0
    objects_total: int = 0
    is_new: bool = False
    is_user_space_new: bool = False
    merged: AppliedChanges = AppliedChanges()
    replaced: ReplacedHead | None = None
    digests: frozenset[str] = field(default_factory=frozenset, repr=False)


_Answer = TypeVar("_Answer")


class _BackgroundAnswer(Generic[_Answer]):
    """The answer of a node, requested in another thread while this one works."""

    def __init__(self, ask: Callable[[], _Answer]) -> None:
        self._ask = ask
        self._answers: list[_Answer] = []
        self._failures: list[BaseException] = []
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def answer(self) -> _Answer:
        """The answer, waited for. Raises what asking raises."""
        self._thread.join()
        if self._failures:
            raise self._failures[0]
        return self._answers[0]

    def _work(self) -> None:
        try:
            self._answers.append(self._ask())
        except BaseException as error:  # noqa: BLE001 - raised again by `answer`
            self._failures.append(error)


@dataclass(frozen=True, slots=True)
class _Trees:
    """The trees that are pushed."""

    project: Tree
    user: Tree

    @property
    def digests(self) -> tuple[str, ...]:
        """Of all that the node must have."""
        return tuple(dict.fromkeys((*self._of(self.project), *self._of(self.user))))

    def surely_there(self, base: SourceManifest | None, *, has_user_space: bool) -> set[str]:
        """The digests on a node that has these: what ``base`` leads to, and this user space."""
        there = set(self._of(self.user)) if has_user_space else set()
        if base is None:
            return there
        there |= {*base.files.values(), *base.items.values()}
        for digest in there & self.project.item_sources.keys():
            there.add(self.project.item_sources[digest]["content_blob_hash"])
        return there

    def sized(self, digest: str) -> SizedContent:
        """The size of a piece, and what a person calls it."""
        return sized(self.project if self._is_in_project(digest) else self.user, digest)

    def get_blob(self, digest: str) -> bytes:
        """See `ryeos.sync.contents.ReadContents`."""
        return (self.project if self.project.has_blob(digest) else self.user).get_blob(digest)

    def get_object(self, digest: str) -> object:
        """See `ryeos.sync.contents.ReadContents`."""
        return (self.project if self.project.has_object(digest) else self.user).get_object(digest)

    def has_blob(self, digest: str) -> bool:
        """See `ryeos.sync.contents.ReadContents`."""
        return self.project.has_blob(digest) or self.user.has_blob(digest)

    def has_object(self, digest: str) -> bool:
        """See `ryeos.sync.contents.ReadContents`."""
        return self.project.has_object(digest) or self.user.has_object(digest)

    @staticmethod
    def _of(tree: Tree) -> tuple[str, ...]:
        return (*tree.item_sources, *tree.blobs, tree.manifest_hash)

    def _is_in_project(self, digest: str) -> bool:
        return self.project.has_blob(digest) or self.project.has_object(digest)


def push(
    link: Link,
    *,
    force: bool = False,
    drops_excluded: bool = False,
    is_new_project: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> PushResult:
    """Bring the project to the node. With ``force`` what others brought there is not merged in.

    With ``force`` the node also looks whether it has all of it unharmed, and gets what it has not.

    With ``drops_excluded`` files that are still here, but no longer travel, are removed there.
    With ``is_new_project`` the project may have another name than when it was last pushed.
    Raises ExcludedFilesError and ProjectRenamedError without, RemoteConflictError, RyeError
    `REMOTE_UNRELATED`, HeadMovedError where it moves all the time, RyeError `RESOURCE_EXCEEDED`
    or `CONFLICT`, RemoteError.
    """
    if not is_new_project:
        _require_same_name(link)
    with naming_merged(link) as naming:
        return _push_alone(naming, sleep, force=force, drops_excluded=drops_excluded)


def _push_alone(
    link: Link, sleep: Callable[[float], None], *, force: bool, drops_excluded: bool
) -> PushResult:
    """Steps 1 to 7. Before the first request, each thread asks who the node is (1)."""
    with link.alone():
        came = AppliedChanges() if force else _finish_run(link)
        for round_number in range(1, ROUNDS + 1):
            head_request = _BackgroundAnswer(lambda: _head_or_lost(link) if force else link.head())
            trees = _Trees(link.working_tree.project_tree(), link.user_tree())  # (2)
            head = head_request.answer()
            user_there = _user_space_there(link, head, trees.user)
            if not drops_excluded:
                _require_none_excluded(link, trees.project)
            if head and not force and _is_news(link, head, trees.project):
                applied = merge_head(link, head, trees.project).applied  # (3)
                if applied.paths:
                    came = came.followed_by(applied)
                    link.report_merged(link.node.name, applied)
                    trees = _Trees(link.working_tree.project_tree(), trees.user)
                    if not drops_excluded:  # what came may be what does not travel from here
                        _require_none_excluded(link, trees.project)
            replaced = _replaced_head(link, head, trees.project) if head and force else None
            try:
                pushed = (_send_all if force else _send)(link, head, trees, user_there)
            except HeadMovedError:
                if round_number == ROUNDS:
                    raise
                sleep(pause_s(round_number))
                continue
            link.record(  # (7)
                pushed.snapshot_hash,
                trees.project.manifest,
                pushed.user_manifest_hash,
                trees.project.manifest_data,
            )
            if force:
                link.conflicts.clear()
            return replace(pushed, merged=came, replaced=replaced)
    raise AssertionError("the last round returns or raises")


def pause_s(round_number: int) -> float:
    """The time to wait after a lost round, counted from 1.

    Many that push the same project would else keep each other from it: longer each time, by chance.
    """
    return SystemRandom().uniform(0, min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**round_number))


def _head_or_lost(link: Link) -> RemoteHead | None:
    """The node's head; also where it has lost what its head names."""
    try:
        return link.head()
    except HeadLostError as error:
        return RemoteHead(snapshot_hash=error.snapshot_hash, project_manifest_hash="")


def _user_space_there(link: Link, head: RemoteHead | None, user: Tree) -> str:
    """The user space that the node has; ``""`` too where there is none here."""
    if not user.manifest.items:
        return ""
    return head.terms.user_manifest_hash if head and head.terms else _user_space_hash(link)


def _finish_run(link: Link) -> AppliedChanges:
    applied = finish_run(link)
    if applied.paths:
        link.report_merged(link.node.name, applied)
    return applied


def _require_same_name(link: Link) -> None:
    """Raises ProjectRenamedError."""
    former = link.former_name()
    if former:
        raise ProjectRenamedError(link.node.name, former, link.name)


def _require_none_excluded(link: Link, tree: Tree) -> None:
    """Raises ExcludedFilesError."""
    paths = excluded_paths(link.working_tree.project, link.base(tree), tree.manifest)
    if paths:
        raise ExcludedFilesError(link.node.name, paths)


def _replaced_head(link: Link, head: RemoteHead, tree: Tree) -> ReplacedHead | None:
    """The content of others that a push over this head takes from it, None for nothing."""
    if is_same_head(link.recorded(), head):
        return None
    try:
        theirs = link.manifest(head.project_manifest_hash, tree)
        base = link.base(tree) or SourceManifest("project")
    except LilluxError:  # a node that lost what it had is what some push with force for
        return ReplacedHead(head.snapshot_hash, None)
    found = differences(base, tree.manifest, theirs)
    return ReplacedHead(head.snapshot_hash, tuple(one for one in found if one.there))


def _is_news(link: Link, head: RemoteHead, tree: Tree) -> bool:
    """True if the node has what this project has not seen. Raises RyeError `REMOTE_UNRELATED`."""
    recorded = link.recorded()
    if is_same_head(recorded, head):
        return False
    if recorded is None and head.project_manifest_hash != tree.manifest_hash:
        raise RyeError(
            f"remote {link.node.name}: it has a project {link.name!r} with other content,"
            " and this folder"
            " was never pushed to it",
            code="REMOTE_UNRELATED",
            hint="merge the two: rye remote pull; or name this one by project_path in"
            " .ai/config/remotes/remotes.yaml; or replace what is there: rye remote push --force",
        )
    return True


def _send(link: Link, head: RemoteHead | None, trees: _Trees, user_there: str) -> PushResult:
    """Steps 4 to 6. ``user_there`` is the user space that the node has."""
    user_hash = _user_hash(trees)
    has_project = head is not None and head.project_manifest_hash == trees.project.manifest_hash
    is_user_space_new = bool(user_hash) and user_there != user_hash
    expected = head.snapshot_hash if head else None
    if has_project and not is_user_space_new:
        return _pushed(trees, expected, 0, expected or "", is_user_space_new=False)
    new_user_hash = user_hash if is_user_space_new else ""
    takes_changes = head is not None and head.terms is not None and not new_user_hash
    attempt = _BackgroundAnswer(lambda: link.attempt(trees.project)) if takes_changes else None
    base = _base(link, head)
    there = trees.surely_there(base, has_user_space=bool(user_hash) and not is_user_space_new)
    digests = [digest for digest in trees.digests if digest not in there]
    if attempt:
        attempt.answer()
        changed = _push_changes(link, head, base, trees, digests)
        if changed:
            return _pushed(trees, expected, len(digests), changed, is_user_space_new=False)
    try:
        sent, snapshot_hash = _bring(link, trees, digests, head, new_user_hash)
    except RemoteError as error:
        if error.status != _REFUSED or not there:
            raise
        # The node has lost what its head leads to: each piece is asked for.
        sent, snapshot_hash = _bring(link, trees, trees.digests, head, new_user_hash)
    return _pushed(trees, expected, sent, snapshot_hash, is_user_space_new=is_user_space_new)


def _send_all(link: Link, head: RemoteHead | None, trees: _Trees, user_there: str) -> PushResult:
    """Steps 4 to 6, for a node that may have lost anything: it reads each piece that it has."""
    user_hash = _user_hash(trees)
    is_user_space_new = bool(user_hash) and user_there != user_hash
    expected = head.snapshot_hash if head else None
    ask = link.node.missing_or_damaged
    sent = send(link.node, trees.digests, trees, trees.sized, link.progress, ask=ask)  # (4)
    if is_user_space_new:
        _push_user_space(link, user_hash)  # (5)
    link.attempt(trees.project)
    snapshot_hash = link.node.restore(  # (6)
        link.project_path, trees.project.manifest_hash, expected, link.node.system_version()
    )
    return _pushed(trees, expected, sent, snapshot_hash, is_user_space_new=is_user_space_new)


def _user_hash(trees: _Trees) -> str:
    return trees.user.manifest_hash if trees.user.manifest.items else ""


def _pushed(
    trees: _Trees, expected: str | None, sent: int, snapshot_hash: str, *, is_user_space_new: bool
) -> PushResult:
    digests = trees.digests
    return PushResult(
        snapshot_hash=snapshot_hash,
        project_manifest_hash=trees.project.manifest_hash,
        user_manifest_hash=_user_hash(trees),
        objects_sent=sent,
        objects_total=len(digests),
        is_new=snapshot_hash != expected,
        is_user_space_new=is_user_space_new,
        digests=frozenset(digests),
    )


def _push_changes(
    link: Link,
    head: RemoteHead | None,
    base: SourceManifest | None,
    trees: _Trees,
    digests: Sequence[str],
) -> str:
    """Steps 4 and 6 in one request, where little has changed; ``""`` where that cannot be."""
    if head is None or head.terms is None or base is None:
        return ""
    manifest_hash = trees.project.manifest_hash
    changes = changes_between(base, trees.project.manifest)
    sizes = {digest: trees.sized(digest).size for digest in digests if digest != manifest_hash}
    is_small = sum(sizes.values()) <= MAX_CHANGED_BYTES and len(sizes) <= MAX_ENTRIES
    if not is_small or len(changes) > MAX_CHANGED_PATHS:
        return ""
    link.progress("sending", 0, len(digests))
    try:
        snapshot_hash = link.node.push_changes(
            link.project_path,
            manifest_hash,
            head.snapshot_hash,
            link.node.system_version(head.terms.engine_version),
            changes=changes,
            entries=exported([*sizes], trees),
        )
    except RemoteError as error:
        if error.status not in {_REFUSED, _TOO_LARGE}:
            raise
        return ""  # the node has lost something, or takes less: step by step it may still go
    link.progress("sending", len(digests), len(digests))
    return snapshot_hash


def _base(link: Link, head: RemoteHead | None) -> SourceManifest | None:
    """The manifest of the node's head, if it is known here without asking."""
    if head is None or not link.store.has_object(head.project_manifest_hash):
        return None
    return link.manifest(head.project_manifest_hash)


def _bring(
    link: Link, trees: _Trees, digests: Sequence[str], head: RemoteHead | None, new_user_hash: str
) -> tuple[int, str]:
    """Steps 4 to 6: how many pieces were sent, and the snapshot that is the head now."""
    terms = head.terms if head else None
    engine_version = terms.engine_version if terms else ""
    version = _BackgroundAnswer(lambda: link.node.system_version(engine_version))
    sent = send(link.node, digests, trees, trees.sized, link.progress)  # (4)
    if new_user_hash:
        _push_user_space(link, new_user_hash)  # (5)
    manifest_hash = trees.project.manifest_hash
    link.attempt(trees.project)
    return sent, link.node.push(  # (6)
        link.project_path, manifest_hash, head.snapshot_hash if head else None, version.answer()
    )


def _user_space_hash(link: Link) -> str:
    found = link.node.user_space()
    return found.user_manifest_hash if found else ""


def _push_user_space(link: Link, user_hash: str) -> None:
    """Replace it, also where another client just did: it is one user's, and so it is here."""
    for round_number in range(1, ROUNDS + 1):
        found = link.node.user_space()
        if found and found.user_manifest_hash == user_hash:
            return
        try:
            link.node.push_user_space(user_hash, found.revision if found else None)
        except RemoteError as error:
            if error.status != _CONFLICT or round_number == ROUNDS:
                raise
        else:
            return
