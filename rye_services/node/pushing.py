"""A push, decided: from what a client sends to a head that has moved, or the reason why not.

Format of requests and answers: ``docs/sync.md``. Nothing here knows of HTTP.
"""

from collections.abc import Sequence

import ryeos
from lillux.errors import LilluxError
from lillux.store import Durability, Store
from lillux.values import dataclass
from rye_services.moments import stamp
from rye_services.node.durable import Durable
from rye_services.node.heads import Head, Heads
from rye_services.node.known_items import KnownItems
from rye_services.node.user_space_refs import UserSpaceRef, UserSpaceRefs
from rye_services.node.validation import check_graph
from ryeos.items.context import Clock
from ryeos.sync.objects import PUSH, ProjectSnapshot


class HeadMovedError(LilluxError):
    """The head is not where the client thinks. None is "no such project"."""

    code, exit_status = "HEAD_MOVED", 7

    def __init__(self, expected: str | None, actual: Head | None) -> None:
        self.expected, self.actual = expected, actual
        super().__init__(
            f"HEAD has moved: expected {expected}, found {actual and actual.snapshot_hash}",
            hint="merge what is there, then push with its snapshot as the expected one",
        )


class RevisionMovedError(LilluxError):
    """The user space is not of the revision that the client thinks. None is "none yet"."""

    code, exit_status = "HEAD_MOVED", 7

    def __init__(self, expected: int | None, actual: int | None) -> None:
        self.expected, self.actual = expected, actual
        super().__init__(
            f"the user space has moved: expected revision {expected}, found {actual}",
            hint="read GET /user-space and push with its revision as the expected one",
        )


class SystemVersionError(LilluxError):
    """A client whose manifests may mean something else here."""

    code, exit_status = "VERSION_MISMATCH", 7

    def __init__(self, version: str, taken: Sequence[str]) -> None:
        self.version, self.taken = version, tuple(taken)
        super().__init__(
            f"system_version: expected {' or '.join(f'{one}.x' for one in dict.fromkeys(taken))}, "
            f"found {version[:80]!r}",
            hint="update the client, or this node",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectPush:
    """What a client asks for. ``expected_snapshot_hash`` None: there is no such project yet."""

    project_path: str
    project_manifest_hash: str
    system_version: str = ""
    expected_snapshot_hash: str | None = None


class Pushing:
    """Moves heads to what was uploaded, for the node called ``remote_name``. Thread-safe."""

    def __init__(
        self,
        *,
        heads: Heads,
        user_spaces: UserSpaceRefs,
        known: KnownItems,
        durable: Durable,
        clock: Clock,
        remote_name: str,
        compatible_versions: Sequence[str],
    ) -> None:
        self._heads, self._user_spaces = heads, user_spaces
        self._known, self._durable, self._clock = known, durable, clock
        self._remote_name = remote_name
        self._versions = (*compatible_versions,)

    def push_project(self, user_id: str, store: Store, push: ProjectPush) -> Head:
        """The head of the project, after the push.

        1. all that the manifest leads to is there and sound
        2. the client's version is one whose manifests mean the same here
        3. the head is where the client expects it
        4. nothing has changed: the present head, and history does not grow
        5. a snapshot with the present head as its parent
        6. all of it is on the disk
        7. the head moves, unless another was faster

        Raises ManifestGraphError, SystemVersionError, HeadMovedError, FileSystemError.
        """
        head = self._heads.read(user_id, self._remote_name, push.project_path)
        manifest_hash = push.project_manifest_hash
        if head is None or head.project_manifest_hash != manifest_hash:  # that of a head is sound
            check_graph(  # (1)
                manifest_hash,
                "project",
                store,
                self._known,
                head_manifest=head.project_manifest_hash if head else None,
            )
        self._check_version(push.system_version)  # (2)
        _check_head(push.expected_snapshot_hash, head)  # (3)
        space = self._user_spaces.read(user_id, self._remote_name)
        user_manifest_hash = space.user_manifest_hash if space else None
        if head and _is_same(head, manifest_hash, user_manifest_hash):  # (4)
            return head
        now = self._clock()
        snapshot = ProjectSnapshot(
            project_manifest_hash=manifest_hash,
            user_manifest_hash=user_manifest_hash,
            parent_hashes=(head.snapshot_hash,) if head else (),
            source=PUSH,
            timestamp=stamp(now),
        )
        snapshot_hash = store.put_object(snapshot.as_object(), Durability.AT_SYNC)  # (5)
        self._durable.force(store)  # (6)
        moved = self._heads.advance(  # (7)
            user_id,
            self._remote_name,
            push.project_path,
            expected=head,
            snapshot_hash=snapshot_hash,
            project_manifest_hash=manifest_hash,
            user_manifest_hash=user_manifest_hash,
            system_version=push.system_version,
            now=now,
        )
        if moved is None:
            present = self._heads.read(user_id, self._remote_name, push.project_path)
            raise HeadMovedError(push.expected_snapshot_hash, present)
        return moved

    def push_user_space(
        self, user_id: str, store: Store, manifest_hash: str, expected_revision: int | None
    ) -> UserSpaceRef:
        """The user space, after the push.

        1. all that the manifest leads to is there and sound
        2. all of it is on the disk
        3. it takes the place of the revision that the client expects

        Raises ManifestGraphError, RevisionMovedError, FileSystemError.
        """
        check_graph(manifest_hash, "user", store, self._known)  # (1)
        self._durable.force(store)  # (2)
        moved = self._user_spaces.advance(  # (3)
            user_id,
            self._remote_name,
            expected_revision=expected_revision,
            user_manifest_hash=manifest_hash,
            now=self._clock(),
        )
        if moved is None:
            present = self._user_spaces.read(user_id, self._remote_name)
            raise RevisionMovedError(expected_revision, present.revision if present else None)
        return moved

    def _check_version(self, version: str) -> None:
        own = _major_minor(ryeos.__version__)
        if version and _major_minor(version) not in {*self._versions, own}:
            raise SystemVersionError(version, (*self._versions, own))


def _check_head(expected: str | None, head: Head | None) -> None:
    if expected != (head.snapshot_hash if head else None):
        raise HeadMovedError(expected, head)


def _is_same(head: Head, manifest_hash: str, user_manifest_hash: str | None) -> bool:
    return (head.project_manifest_hash, head.user_manifest_hash) == (
        manifest_hash,
        user_manifest_hash,
    )


def _major_minor(version: str) -> str:
    return ".".join(version.split(".")[:2])
