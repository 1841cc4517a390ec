"""Contents for the status page: rows and objects like those of pushes and executions."""

from collections.abc import Mapping
from typing import Any

from lillux.store import Store
from rye_services.node.store.objects import UserStores
from rye_services.storage.database import Database, audit, project_refs, thread_logs, threads
from ryeos.sync.objects import SourceManifest
from tests.support.node import User

AT = "2026-11-21T12:00:00.000000+00:00"
PROJECT = "garden"
THREAD = "rye-remote-tool:garden-water-1795240720578-0a1b2c"


class Contents:
    """The data of one user on a node."""

    def __init__(self, user: User) -> None:
        settings = user.node.settings
        self.user_id, self._name = user.user_id, settings.name
        self._database_url = settings.database_url
        self.store: Store = UserStores(settings.cas_base_path).of(user.user_id)

    def snapshot(self, *parents: str, source: str = "push", at: str = AT, **more: Any) -> str:  # noqa: ANN401 - JSON
        """A snapshot in the store; its digest."""
        return self.store.put_object(
            {
                "schema": 2,
                "kind": "project_snapshot",
                "project_manifest_hash": self.manifest(more.get("files", {})),
                "user_manifest_hash": None,
                "parent_hashes": list(parents),
                "source": source,
                "source_detail": more.get("detail", ""),
                "timestamp": at,
                "metadata": {"thread_id": more["thread_id"]} if "thread_id" in more else {},
            }
        )

    def manifest(self, files: Mapping[str, str]) -> str:
        """A manifest of a project with these texts by path; its digest."""
        digests = {path: self.store.put_blob(text.encode()) for path, text in files.items()}
        return self.store.put_object(SourceManifest("project", {}, digests).as_object())

    def item(self, text: str) -> str:
        """An item in the store; the digest of its ``item_source``."""
        blob = self.store.put_blob(text.encode())
        return self.store.put_object(
            {
                "schema": 2,
                "kind": "item_source",
                "item_ref": "knowledge:garden/plan",
                "content_blob_hash": blob,
                "integrity": blob,
                "signature_info": None,
            }
        )

    def head(self, snapshot_hash: str, project_path: str = PROJECT) -> None:
        """A project whose HEAD is at a snapshot."""
        self._insert(
            project_refs,
            user_id=self.user_id,
            remote_name=self._name,
            project_path=project_path,
            project_manifest_hash="0" * 64,
            pushed_at=AT,
            snapshot_hash=snapshot_hash,
            snapshot_revision=3,
            head_updated_at=AT,
        )

    def thread(self, thread_id: str = THREAD, **more: Any) -> None:  # noqa: ANN401 - columns
        """An execution."""
        row = {
            "thread_id": thread_id,
            "user_id": self.user_id,
            "item_type": "tool",
            "item_id": "tool:garden/water",
            "remote_name": self._name,
            "project_path": PROJECT,
            "state": "running",
            "created_at": AT,
            "started_at": AT,
        }
        self._insert(threads, **row | more)

    def log(self, thread_id: str, text: str, *, stream: str = "stdout") -> None:
        """The log of an execution, as one piece."""
        self._insert(
            thread_logs, thread_id=thread_id, number=1, stream=stream, text=text, written_at=AT
        )

    def audit(self, text: str) -> None:
        """An entry of the audit, all of which is one text."""
        short = dict.fromkeys(("actor", "address", "action"), text[:40])
        self._insert(audit, at=AT, target=text, **short)

    def merged_history(self) -> str:
        """A history with a merge: base, a push and an execution beside each other, their merge."""
        plan, log = {"src/plan.md": "soil\n"}, {"src/log.md": "watered\n"}
        seeds = {"src/plan.md": "soil\nseeds\n"}
        base = self.snapshot(at="2026-11-21T12:00:00+00:00", files=plan)
        pushed = self.snapshot(base, at="2026-11-21T12:02:00+00:00", files=seeds)
        executed = self.snapshot(
            base, source="execution", detail="tool:garden/water", at="2026-11-21T12:01:00+00:00",
            thread_id=THREAD, files=plan | log,
        )  # fmt: skip
        merged = self.snapshot(
            pushed, executed, source="merge", at="2026-11-21T12:03:00+00:00", files=seeds | log
        )
        self.head(merged)
        return merged

    def _insert(self, table: Any, **values: Any) -> None:  # noqa: ANN401 - of SQLAlchemy
        database = Database(self._database_url)
        try:
            with database.writing() as connection:
                connection.execute(table.insert().values(**values))
        finally:
            database.close()
