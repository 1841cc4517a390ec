"""Moves a project to another owner: its head and all of its history, in one step or not at all.

Runs stay with the owner who had them, as do secrets; what the new owner gets is the project. Page:
``docs/teams.md``.
"""

from collections.abc import Callable, Iterator

from sqlalchemy import Connection, and_, select, update
from sqlalchemy.exc import IntegrityError

from lillux.store import Durability
from lillux.store_layout import ObjectKind
from lillux.values import dataclass
from rye_services.node.queue.rows import RUNNING
from rye_services.node.store.heads import Head, Heads
from rye_services.node.store.objects import DurableStores, StoresOfUsers, Usage
from rye_services.people.audit import Audit
from rye_services.people.credentials import ensure_user
from rye_services.refusal import RefusedError
from rye_services.storage.database import (
    Database,
    project_refs,
    stamp,
    threads,
    webhook_bindings,
)
from ryeos.items.context import Clock
from ryeos.sync.contents import ContentStore
from ryeos.sync.garbage import MarkResult, Root, RootNeed, mark
from ryeos.sync.references import ObjectReference

_NAMED = 5


def _move_error(
    project_path: str, problem: str, *, hint: str = "nothing was moved"
) -> RefusedError:
    """The error of a project that cannot be moved now, or not there."""
    return RefusedError(f"project {project_path[:80]!a}: {problem}", code="CONFLICT", hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """What was moved. ``webhooks``: how many were revoked, as they are the former owner's."""

    project_path: str
    owner: str
    new_path: str
    new_owner: str
    snapshot_hash: str
    revision: int
    copied_bytes: int
    webhooks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectMoves:
    """Moves projects on the data of a node. Thread-safe, and so across processes."""

    database: Database
    heads: Heads
    stores: StoresOfUsers
    usage: Usage
    durable: DurableStores
    clock: Clock
    remote_name: str
    max_bytes: int

    def move(
        self,
        owner: str,
        project_path: str,
        new_owner: str,
        new_path: str,
        guard: Callable[[Connection], None] = lambda _: None,
    ) -> Move:
        """Give a project to another owner.

        1. the head, and all that it leads to
        2. what the new owner lacks of it is stored for them, within their quota
        3. all of it is on the disk
        4. one transaction: whether that is still allowed (``guard``); the head is where it was,
           and changes its owner; nothing runs on the project; no one has the new name; the former
           owner's webhooks for it end

        Raises RefusedError `ITEM_NOT_FOUND`, `CONFLICT`, QuotaExceededError, FileSystemError, and
        what the guard raises.
        """
        head = self.heads.read(owner, self.remote_name, project_path)  # (1)
        if head is None:
            raise RefusedError(
                f"project {project_path[:80]!a}: {owner} has none of this name",
                code="ITEM_NOT_FOUND",
                hint="list them with: rye remote projects",
            )
        if (owner, project_path) == (new_owner, new_path):
            raise _move_error(project_path, f"{owner} has it already")
        source, target = self.stores.of(owner), self.stores.of(new_owner)
        marked = mark(source, list(_roots_of(head)))
        if marked.gaps:
            problem = "part of its history is lost"
            raise _move_error(project_path, problem, hint="rye-node.pyz fsck names what is lost")
        copied = self._copy(marked, source, target, new_owner)  # (2)
        self.durable.force(target)  # (3)
        try:
            with self.database.writing(lock=f"move {project_path}") as connection:  # (4)
                guard(connection)
                self._hand_over(connection, head, (owner, project_path), (new_owner, new_path))
                webhooks = self._end_webhooks(connection, owner, project_path)
                facts = {"path": project_path, "to": new_owner, "new_path": new_path}
                Audit(self.database).write(connection, "projects.move", owner, facts)
        except IntegrityError as error:
            problem = f"{new_owner} has a project {new_path[:80]!a} already"
            hint = "give it another name there: rye remote move TEAM --as NAME"
            raise _move_error(project_path, problem, hint=hint) from error
        return Move(
            project_path=project_path,
            owner=owner,
            new_path=new_path,
            new_owner=new_owner,
            snapshot_hash=head.snapshot_hash,
            revision=head.revision,
            copied_bytes=copied,
            webhooks=webhooks,
        )

    def _copy(
        self, marked: MarkResult, source: ContentStore, target: ContentStore, new_owner: str
    ) -> int:
        """The bytes that the new owner lacked, stored for them."""
        if source is target:
            return 0
        with self.database.writing() as connection:
            ensure_user(connection, new_owner, stamp(self.clock()))
        wanted = [
            (kind, digest, size)
            for kind, digests in marked.reached.items()
            for digest in digests
            if not target.touch(kind, digest) and (size := source.size(kind, digest)) is not None
        ]
        size = sum(one for _, _, one in wanted)
        self.usage.reserve(new_owner, size, max_bytes=self.max_bytes, store=target)
        for kind, digest, _ in wanted:
            data = source.get_bytes(kind, digest)
            target.keep(kind, digest, data, Durability.AT_SYNC)
        return size

    def _hand_over(
        self, connection: Connection, head: Head, old: tuple[str, str], new: tuple[str, str]
    ) -> None:
        """The row of the head, with its new owner. It is held first: a run begins before or not."""
        columns = project_refs.c
        (owner, path), (new_owner, new_path) = old, new
        row = and_(
            columns.user_id == owner,
            columns.remote_name == self.remote_name,
            columns.project_path == path,
            columns.snapshot_hash == head.snapshot_hash,
            columns.snapshot_revision == head.revision,
        )
        moved = update(project_refs).where(row).values(user_id=new_owner, project_path=new_path)
        if connection.execute(moved).rowcount != 1:
            raise _move_error(path, "its head has moved meanwhile", hint="try again")
        running = select(threads.c.thread_id).where(
            threads.c.user_id == owner,
            threads.c.project_path == path,
            threads.c.remote_name == self.remote_name,
            threads.c.state == RUNNING,
        )
        found = connection.scalars(running.limit(_NAMED)).all()
        if found:
            hint = "wait for their end, or end them: rye remote cancel ID"
            raise _move_error(path, f"executions run on it: {', '.join(found)}", hint=hint)

    def _end_webhooks(self, connection: Connection, owner: str, path: str) -> int:
        columns = webhook_bindings.c
        ended = update(webhook_bindings).where(
            columns.user_id == owner, columns.project_path == path, columns.revoked_at.is_(None)
        )
        return connection.execute(ended.values(revoked_at=stamp(self.clock()))).rowcount


def _roots_of(head: Head) -> Iterator[Root]:
    digests = (head.snapshot_hash, head.project_manifest_hash, head.user_manifest_hash)
    for digest in digests:
        if digest:
            yield Root(ObjectReference(digest, ObjectKind.OBJECT), "the head", RootNeed.WHOLE)
