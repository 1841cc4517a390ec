"""A node in memory: the seam `Transport`, over a real store.

It verifies requests like a node: digests, the content of manifests, the expected head.
Runs of items are functions of a test, which may change the project as a tool would.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from lillux.sealing import generate_box_pair
from lillux.signing import generate_keypair
from lillux.store import Store
from lillux.store_errors import ObjectMissingError
from lillux.store_layout import ObjectKind
from ryeos.remote.identity import identity_document
from ryeos.remote.transport import NodeReply, QueryPairs
from ryeos.sync.contents import LayeredContents
from ryeos.sync.entries import decode, encode, export_entries
from ryeos.sync.merge import conflict_record, three_way_merge
from ryeos.sync.object_shapes import EntryError
from ryeos.sync.objects import (
    ItemSource,
    ManifestChanges,
    OutputsBundle,
    ProjectSnapshot,
    SourceManifest,
    item_source_of,
    manifest_of,
)
from ryeos.trust.signing_key import SigningKey

STAMP = "2026-01-02T03:04:05.000000+00:00"
Run = Callable[["MemoryNode", Mapping[str, Any], dict[str, bytes]], Mapping[str, Any]]
"""Is given the node, the body of the request, and the files of the head, which it may change."""


class Refusal(Exception):  # noqa: N818 - an answer
    """A refusal with a status and a reason."""

    def __init__(self, status: int, detail: object) -> None:
        self.status, self.detail = status, detail
        super().__init__(str(detail))


def echo(_: "MemoryNode", body: Mapping[str, Any], __: dict[str, bytes]) -> Mapping[str, Any]:
    """A run that changes nothing, and answers with its parameters."""
    return {"status": "success", "type": "tool", "data": body.get("parameters")}


class MemoryNode:
    """See `ryeos.remote.transport.Transport`.

    requests  every request, as method and path
    before    called with the method and path of each request; what it returns is the reply
    outputs   what the next run leaves behind, by path
    masked    files in which the next run's secrets are found

    takes_changes  whether a push may bring what has changed alone, as to a node of this version
    """

    name = "default"
    netloc = "node.test"
    sender = ""

    def __init__(self, folder: Path, run: Run = echo) -> None:
        self.store = Store(folder)
        self.key = SigningKey(generate_keypair())
        self.box_private, box_public = generate_box_pair()
        self.document = identity_document(self.key, box_public, "2026-01-02T03:04:05Z")
        self.heads: dict[str, str] = {}
        self.user: tuple[str, int] | None = None
        self.threads: list[dict[str, Any]] = []
        self.requests: list[str] = []
        self.bodies: list[Any] = []
        self.run = run
        self.outputs: dict[str, bytes] = {}
        self.masked: list[str] = []
        self.takes_changes = False
        self.before: Callable[[str, str], NodeReply | None] = lambda *_: None
        self.audience = ""

    def outlive_cancellation(self) -> None:
        """Nothing ends a request."""

    def identify(self, fingerprint: str) -> None:
        """Later requests carry credentials."""
        self.audience = fingerprint

    def exchange(
        self,
        method: str,
        path: str,
        query: QueryPairs,
        body: bytes | None,
        *,
        timeout_s: float | None,  # noqa: ARG002 - the seam
        max_response_bytes: int,  # noqa: ARG002
        may_repeat: bool = True,  # noqa: ARG002
    ) -> NodeReply:
        """The reply, as JSON of a node."""
        route = f"{method} {path}"
        self.requests.append(route)
        early = self.before(method, path)
        if early is not None:
            return early
        given = json.loads(body) if body else dict(query)
        self.bodies.append(given)
        try:
            answer = self._answer(route, given)
        except Refusal as refusal:
            return reply({"detail": refusal.detail}, refusal.status)
        return reply(answer)

    def count(self, route: str) -> int:
        """The number of requests to a route."""
        return self.requests.count(route)

    # ------------------------------------------------------------------ state for tests

    def files(self, project: str = "project") -> dict[str, bytes]:
        """The files of a head."""
        snapshot = self.store.get_object(self.heads[project])
        manifest = manifest_of(self.store.get_object(snapshot["project_manifest_hash"]), "head")
        return self._files_of(manifest)

    def edit(self, changes: Mapping[str, bytes | None], project: str = "project") -> str:
        """Move the head like a push of another user; the snapshot."""
        files = self.files(project) if project in self.heads else {}
        for path, data in changes.items():
            if data is None:
                del files[path]
            else:
                files[path] = data
        return self._advance(project, self._manifest(files), "push")

    # ------------------------------------------------------------------ routes

    def _answer(self, route: str, given: Any) -> Any:  # noqa: ANN401 - JSON
        if route == "GET /public-key":
            return self.document
        if route == "GET /health":
            return {"status": "ok", "version": "0.1.0", "engine_version": "0.1.27"}
        return self._known(route, given)

    def _known(self, route: str, given: Any) -> Any:  # noqa: ANN401 - JSON
        if not self.audience:
            raise Refusal(401, "not authenticated")
        routes: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "POST /objects/has": self._has,
            "POST /objects/put": self._put,
            "POST /objects/get": self._get,
            "GET /history": self._history,
            "POST /push": self._push,
            "GET /user-space": self._user_space,
            "POST /push/user-space": self._push_user_space,
            "POST /execute": self._execute,
            "GET /threads": lambda _: {"threads": self.threads[: int(given["limit"])]},
        }
        answer = routes.get(route)
        return answer(given) if answer else self._thread(route)

    def _get(self, given: dict[str, Any]) -> dict[str, Any]:
        entries = export_entries(given["hashes"], self.store)
        return {"entries": [encode(entry) for entry in entries]}

    def _has(self, given: dict[str, Any]) -> dict[str, list[str]]:
        hashes = given["hashes"]
        has = {h for h in hashes if self.store.has_blob(h) or self.store.has_object(h)}
        return {
            "present": [h for h in hashes if h in has],
            "missing": [h for h in hashes if h not in has],
        }

    def _put(self, given: dict[str, Any]) -> dict[str, list[str]]:
        stored: list[str] = []
        errors: list[dict[str, str]] = []
        for sent in given["entries"]:
            try:
                entry = decode(sent)
            except EntryError as error:
                errors.append({"hash": error.digest, "error": error.problem})
                continue
            self.store.keep(ObjectKind(entry.kind), entry.digest, entry.data)
            stored.append(entry.digest)
        if errors:
            raise Refusal(400, {"stored": stored, "errors": errors})
        return {"stored": stored}

    def _history(self, given: dict[str, Any]) -> dict[str, Any]:
        project, limit = given["project_path"], int(given["limit"])
        head: str | None = self.heads.get(project)
        if head is None:
            raise Refusal(404, f"no project {project}")
        snapshots: list[dict[str, Any]] = []
        at: str | None = head
        while at and len(snapshots) < limit:
            snapshot = self.store.get_object(at)
            snapshots.append({**snapshot, "_hash": at})
            at = next(iter(snapshot["parent_hashes"]), None)
        answer = {"project_path": project, "head": head, "snapshots": snapshots}
        if self.takes_changes:
            answer["push_terms"] = {
                "takes_changes": True,
                "engine_version": "0.1.27",
                "user_manifest_hash": self.user[0] if self.user else None,
            }
        return answer

    def _push(self, given: dict[str, Any]) -> dict[str, Any]:
        project, manifest_hash = given["project_path"], given["project_manifest_hash"]
        if self.takes_changes and "changes" in given:
            self._put(given)
            base = self.store.get_object(self.heads[project])["project_manifest_hash"]
            changes = ManifestChanges(given["changes"]["items"], given["changes"]["files"])
            made = changes.applied_to(manifest_of(self.store.get_object(base), "base"))
            self.store.put_object(made.as_object())
        if not self.store.has_object(manifest_hash):
            raise Refusal(400, f"no manifest {manifest_hash}")
        manifest = manifest_of(self.store.get_object(manifest_hash), "pushed")
        try:
            self._files_of(manifest)
        except ObjectMissingError as error:
            raise Refusal(400, str(error)) from error
        expected, actual = given["expected_snapshot_hash"], self.heads.get(project)
        if expected != actual:
            moved = {"error": "HEAD has moved", "expected": expected, "actual": actual}
            raise Refusal(409, moved)
        return {"status": "ok", "snapshot_hash": self._advance(project, manifest, "push")}

    def _user_space(self, _: object) -> dict[str, Any]:
        if self.user is None:
            raise Refusal(404, "no user space")
        return {"user_manifest_hash": self.user[0], "revision": self.user[1]}

    def _push_user_space(self, given: dict[str, Any]) -> dict[str, Any]:
        revision = self.user[1] if self.user else None
        if given["expected_revision"] != revision:
            raise Refusal(409, "the user space has moved")
        self.user = (given["user_manifest_hash"], (revision or 0) + 1)
        return {"status": "ok"}

    def _execute(self, given: dict[str, Any]) -> dict[str, Any]:
        project = given["project_path"]
        if project not in self.heads:
            raise Refusal(404, f"no project {project}")
        thread_id = f"rye-remote-{len(self.threads)}"
        base = self.heads[project]
        before = self.files(project)
        files = dict(before)
        result = self.run(self, given, files)
        if given.get("async"):
            return {"status": "accepted", "thread_id": thread_id, "async": True, "message": ""}
        self.threads.insert(0, {"thread_id": thread_id, "state": "completed"})
        outcome: dict[str, Any] = {"snapshot_hash": self.heads[project], "merge_type": "no-op"}
        if files != before:
            outcome = self._fold_back(project, base, self._manifest(files))
            self.threads[0]["unmerged_snapshot_hash"] = outcome.get("unmerged_snapshot")
        bundle_hash, new = self._bundle(thread_id)
        return {
            "status": result.get("status", "success"),
            "thread_id": thread_id,
            "result": dict(result),
            "execution_snapshot_hash": None,
            "runtime_outputs_bundle_hash": bundle_hash,
            "new_object_hashes": new,
            **({"masked_paths": self.masked} if self.masked else {}),
            **outcome,
        }

    def _thread(self, route: str) -> dict[str, Any]:
        thread_id = unquote(route.removeprefix("GET /threads/"))
        for row in self.threads:
            if row["thread_id"] == thread_id:
                return row
        raise Refusal(404, f"{route} is nothing here")

    # ------------------------------------------------------------------ snapshots

    def _fold_back(self, project: str, base: str, manifest: SourceManifest) -> dict[str, Any]:
        head = self.heads[project]
        if head == base:
            snapshot = self._advance(project, manifest, "execution")
            return {"snapshot_hash": snapshot, "merge_type": "fast-forward"}
        old, now = (
            manifest_of(
                self.store.get_object(self.store.get_object(one)["project_manifest_hash"]), one
            )
            for one in (base, head)
        )
        merged = three_way_merge(old, now, manifest, LayeredContents(self.store))
        if merged.manifest is None:
            return {
                "snapshot_hash": head,
                "merge_type": "conflict",
                "conflicts": conflict_record(merged.conflicts),
                "unmerged_snapshot": self._unmerged(base, manifest),
            }
        return {
            "snapshot_hash": self._advance(project, merged.manifest, "merge"),
            "merge_type": "merge",
        }

    def _unmerged(self, base: str, manifest: SourceManifest) -> str:
        snapshot = ProjectSnapshot(
            project_manifest_hash=self.store.put_object(manifest.as_object()),
            parent_hashes=(base,),
            source="execution",
            timestamp=STAMP,
        )
        return self.store.put_object(snapshot.as_object())

    def _bundle(self, thread_id: str) -> tuple[str | None, list[str]]:
        if not self.outputs:
            return None, []
        files = {path: self.store.put_blob(data) for path, data in self.outputs.items()}
        digest = self.store.put_object(OutputsBundle(thread_id, "", files).as_object())
        return digest, [digest, *files.values()]

    def _advance(self, project: str, manifest: SourceManifest, source: str) -> str:
        parent = self.heads.get(project)
        snapshot = ProjectSnapshot(
            project_manifest_hash=self.store.put_object(manifest.as_object()),
            user_manifest_hash=self.user[0] if self.user else None,
            parent_hashes=(parent,) if parent else (),
            source=source,
            timestamp=STAMP,
        )
        self.heads[project] = self.store.put_object(snapshot.as_object())
        return self.heads[project]

    def _manifest(self, files: Mapping[str, bytes]) -> SourceManifest:
        items, others = {}, {}
        for path, data in files.items():
            blob = self.store.put_blob(data)
            if path.startswith(".ai/"):
                kind, _, rest = path.removeprefix(".ai/").partition("/")
                ref = f"{kind.removesuffix('s')}:{rest.rpartition('.')[0]}"
                items[path] = self.store.put_object(ItemSource(ref, blob).as_object())
            else:
                others[path] = blob
        return SourceManifest("project", items, others)

    def _files_of(self, manifest: SourceManifest) -> dict[str, bytes]:
        files = {path: self.store.get_blob(digest) for path, digest in manifest.files.items()}
        for path, digest in manifest.items.items():
            source = item_source_of(self.store.get_object(digest), path)
            files[path] = self.store.get_blob(source.content_blob_hash)
        return files


def reply(value: object, status: int = 200) -> NodeReply:
    """A reply as a node makes it."""
    return NodeReply(status, {"content-type": "application/json"}, json.dumps(value).encode())
