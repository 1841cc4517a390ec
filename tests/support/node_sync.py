"""A minimal sync client for a node: trees in memory, whole requests."""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any

from lillux.canonical_json import canonical_json
from lillux.digests import sha256_hex
from lillux.values import dataclass
from ryeos.sync.objects import ItemSource, ManifestSpace, SourceManifest
from tests.support.node import Reply, User

PROJECT = "ada/project"


def blob_entry(data: bytes) -> dict[str, Any]:
    """A blob as it is sent."""
    return {"hash": sha256_hex(data), "kind": "blob", "data": b64encode(data).decode()}


def object_entry(value: Mapping[str, Any]) -> dict[str, Any]:
    """An object as it is sent."""
    data = canonical_json(value)
    return {"hash": sha256_hex(data), "kind": "object", "data": b64encode(data).decode()}


@dataclass(frozen=True, slots=True)
class SentTree:
    """A tree as its entries, the manifest last."""

    manifest: SourceManifest
    manifest_hash: str
    entries: tuple[dict[str, Any], ...]

    @property
    def digests(self) -> list[str]:
        """Those of the entries, in that order."""
        return [entry["hash"] for entry in self.entries]


def tree(contents: Mapping[str, bytes], space: ManifestSpace = "project") -> SentTree:
    """A tree of these files; those below ``.ai/`` are items."""
    items, files, entries = {}, {}, []
    for path, content in contents.items():
        blob = blob_entry(content)
        entries.append(blob)
        if path.startswith(".ai/"):
            item = object_entry(ItemSource(f"tool:{path}", blob["hash"]).as_object())
            items[path] = item["hash"]
            entries.append(item)
        else:
            files[path] = blob["hash"]
    manifest = SourceManifest(space, items, files)
    sent = object_entry(manifest.as_object())
    return SentTree(manifest, sent["hash"], (*entries, sent))


def put(user: User, entries: Iterable[Mapping[str, Any]]) -> Reply:
    """Upload entries in one request."""
    return user.ask("POST", "/objects/put", {"entries": list(entries)})


def push(user: User, manifest_hash: str, expected: str | None = None, **more: Any) -> Reply:  # noqa: ANN401 - JSON
    """Push a manifest of `PROJECT`."""
    body = {
        "project_path": PROJECT,
        "project_manifest_hash": manifest_hash,
        "system_version": "0.1.27",
        "expected_snapshot_hash": expected,
        **more,
    }
    return user.ask("POST", "/push", body)


def push_tree(user: User, contents: Mapping[str, bytes], expected: str | None = None) -> str:
    """Upload and push a tree. The digest of its snapshot."""
    sent = tree(contents)
    assert put(user, sent.entries).status == 200
    reply = push(user, sent.manifest_hash, expected)
    assert reply.status == 200, reply.json
    return str(reply.json["snapshot_hash"])


def push_until_accepted(user: User, manifest_hash: str) -> str:
    """Push a manifest on the current head, again after each lost race."""
    expected: str | None = None
    while True:
        reply = push(user, manifest_hash, expected)
        if reply.status == 200:
            return str(reply.json["snapshot_hash"])
        assert reply.status == 409, reply.json
        expected = reply.json["detail"]["actual"]


def history(user: User, limit: int = 200) -> list[dict[str, Any]]:
    """The snapshots of `PROJECT`, the newest first."""
    reply = user.ask("GET", f"/history?project_path={PROJECT}&limit={limit}")
    assert reply.status == 200, reply.json
    return list(reply.json["snapshots"])


def contents_of(user: User, digests: Iterable[str]) -> dict[str, bytes]:
    """The contents of these digests on the node, each hashed again."""
    reply = user.ask("POST", "/objects/get", {"hashes": list(digests)})
    assert reply.status == 200, reply.json
    found = {entry["hash"]: b64decode(entry["data"]) for entry in reply.json["entries"]}
    assert all(sha256_hex(data) == digest for digest, data in found.items())
    return found
