"""A workspace on this machine, and the same on a node: pushed, executed there, brought back."""

import os
from base64 import b64decode
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lillux.canonical_json import canonical_json
from ryeos.remote.envelopes import seal_secrets
from ryeos.sync.entries import ContentEntry, encode
from ryeos.sync.objects import SourceManifest, manifest_of
from ryeos.sync.rules import read_rules
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree import Tree, build_project_tree, build_user_tree
from tests.support.endings import wait_until
from tests.support.node import Reply, User
from tests.support.workspace import Workspace

FUNCTION = "rye/core/runtimes/python/function"
ECHO = "def execute(params, project_path):\n    return {'said': params.get('text')}\n"
WRITE = """
from pathlib import Path

def execute(params, project_path):
    path = Path(project_path, params["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(params["text"])
    return {"written": params["path"]}
"""
TEXT = "one\ntwo\nthree\n"
FILES_TRAVEL = "sync:\n  include: [src/, data/]\n"
BATCH = 500
_PATIENCE_S = 120.0
"""Until an execution is over. One that is lost ends after a lease and some beats of another server,
which takes several times as long on a loaded machine."""
_WAIT = "while ! [ -e $TMPDIR/go ]; do sleep 0.02; done"


def waiting_in(folder: Path) -> list[Path]:
    """The files `here` that runs have in their temporary folders, below this one.

    ``Path.glob`` fails when a folder goes while it looks; ``os.walk`` passes it over.
    """
    return [Path(at, "here") for at, _, names in os.walk(folder) if "here" in names]


class RemoteProject:
    """The project of a workspace on a node, under the name of its folder unless another is given.

    ``head`` is the snapshot that was pushed or seen last.
    """

    def __init__(self, workspace: Workspace, user: User, name: str = "project") -> None:
        self.workspace, self.user, self.name = workspace, user, name
        self.head: str | None = None

    @classmethod
    def with_tools(cls, workspace: Workspace, user: User) -> "RemoteProject":
        """A pushed project with ``src/x.txt`` and the tools ``echo``, ``write``, ``sh``.

        ``sh`` runs the script in the secret ``SCRIPT``.
        """
        remote = cls(workspace, user)
        workspace.project.signed_tool("echo", ECHO, executor=FUNCTION)
        workspace.project.signed_tool("write", WRITE, executor=FUNCTION)
        workspace.project.signed_yaml("sh", 'config: {command: "sh -c \\"$SCRIPT\\""}')
        remote.let_files_travel()
        remote.write("src/x.txt", TEXT)
        return remote.pushed()

    def tree(self) -> Tree:
        """The project as it is on this machine."""
        return build_project_tree(self.workspace.project_path, self._rules(), StatTable())

    def push_user_space(self) -> str:
        """Push the user space of the workspace. The digest of its manifest."""
        tree = build_user_tree(self.workspace.home, self._rules(), StatTable())
        self._put(tree)
        present = self.user.ask("GET", "/user-space")
        expected = present.json["revision"] if present.status == 200 else None
        body = {"user_manifest_hash": tree.manifest_hash, "expected_revision": expected}
        reply = self.user.ask("POST", "/push/user-space", body)
        assert reply.status == 200, reply.json
        return tree.manifest_hash

    def push(self) -> str:
        """Push the project. The digest of its snapshot."""
        tree = self.tree()
        self._put(tree)
        body = {
            "project_path": self.name,
            "project_manifest_hash": tree.manifest_hash,
            "system_version": "",
            "expected_snapshot_hash": self.head,
        }
        reply = self.user.ask("POST", "/push", body)
        assert reply.status == 200, reply.json
        self.head = str(reply.json["snapshot_hash"])
        return self.head

    def pushed(self) -> "RemoteProject":
        """Push both."""
        self.push_user_space()
        self.push()
        return self

    def ask(self, item_id: str, **body: Any) -> Reply:  # noqa: ANN401 - JSON
        """Ask the node to execute an item."""
        return self.user.ask(
            "POST", "/execute", {"item_id": item_id, "project_path": self.name, **body}
        )

    def execute(self, item_id: str, **body: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Execute an item; the answer. Fails the test unless the item succeeded."""
        reply = self.ask(item_id, **body)
        assert reply.status == 200, reply.json
        assert reply.json["status"] == "success", reply.json
        return dict(reply.json)

    def envelope(self, **secrets: str) -> dict[str, Any]:
        """Secrets sealed to the node."""
        return seal_secrets(secrets, self.user.node.keys.box_public)

    def script(self, text: str, **secrets: str) -> Reply:
        """Ask the node to run a shell script in the project."""
        return self.ask("tool:sh", secret_envelope=self.envelope(SCRIPT=text, **secrets))

    def begun(self, script: str) -> str:
        """Execute a script, and return when it waits for `release`. The thread's id."""
        waiting = f"{script}; echo > $TMPDIR/here; {_WAIT}"
        envelope = self.envelope(SCRIPT=waiting)
        reply = self.ask("tool:sh", **{"async": True}, secret_envelope=envelope)
        assert reply.status == 202, reply.json
        assert reply.json["status"] == "accepted"
        wait_until(lambda: bool(self.waiting()))
        return str(reply.json["thread_id"])

    def release(self, name: str = "go") -> None:
        """Let the scripts that wait go on: those for a file of this name."""
        for here in self.waiting():
            here.with_name(name).touch()

    def waiting(self) -> list[Path]:
        """Where the scripts wait that were begun and are not released."""
        return waiting_in(self.user.node.data / "workspaces" / self.user.user_id)

    def ended(self, thread_id: str) -> dict[str, Any]:
        """The row of an execution, once it is over."""
        wait_until(lambda: self.thread(thread_id)["state"] != "running", _PATIENCE_S)
        return self.thread(thread_id)

    def thread(self, thread_id: str) -> dict[str, Any]:
        """The row of an execution."""
        reply = self.user.ask("GET", f"/threads/{thread_id}")
        assert reply.status == 200, reply.json
        return dict(reply.json)

    def objects(self, digests: Iterable[str]) -> dict[str, bytes]:
        """Content of the user's store on the node."""
        reply = self.user.ask("POST", "/objects/get", {"hashes": list(digests)})
        return {entry["hash"]: b64decode(entry["data"]) for entry in reply.json["entries"]}

    def object(self, digest: str) -> Any:  # noqa: ANN401 - JSON
        """An object of the user's store on the node."""
        import json

        return json.loads(self.objects([digest])[digest])

    def manifest(self, snapshot_hash: str | None = None) -> SourceManifest:
        """The manifest of a snapshot, of HEAD by default."""
        digest = snapshot_hash or self.history()[0]["_hash"]
        manifest_hash = self.object(digest)["project_manifest_hash"]
        return manifest_of(self.object(manifest_hash), manifest_hash)

    def text(self, path: str, snapshot_hash: str | None = None) -> str:
        """The text of a file outside ``.ai`` in a snapshot, in HEAD by default."""
        digest = self.manifest(snapshot_hash).files[path]
        return self.objects([digest])[digest].decode("utf-8")

    def history(self) -> list[dict[str, Any]]:
        """The snapshots, the newest first."""
        reply = self.user.ask("GET", f"/history?project_path={self.name}&limit=200")
        assert reply.status == 200, reply.json
        return list(reply.json["snapshots"])

    def write(self, relative: str, text: str) -> Path:
        """Write a file of the project on this machine."""
        path = self.workspace.project_path / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def let_files_travel(self) -> None:
        """Include the files below ``src/`` and ``data/`` in the project."""
        self.workspace.project.write("config/cas/manifest.yaml", FILES_TRAVEL)

    def _rules(self) -> Any:  # noqa: ANN401 - of the trees
        workspace = self.workspace
        bundles = [bundle.base for bundle in workspace.bundles]
        return read_rules(bundles=bundles, user=workspace.home, project=workspace.project_path)

    def _put(self, tree: Tree) -> None:
        entries = [
            ContentEntry(digest, "object", canonical_json(dict(value)))
            for digest, value in tree.item_sources.items()
        ]
        manifest = canonical_json(tree.manifest.as_object())
        entries.append(ContentEntry(tree.manifest_hash, "object", manifest))
        entries += [ContentEntry(digest, "blob", tree.get_blob(digest)) for digest in tree.blobs]
        for start in range(0, len(entries), BATCH):
            body = {"entries": [encode(entry) for entry in entries[start : start + BATCH]]}
            reply = self.user.ask("POST", "/objects/put", body)
            assert reply.status == 200, reply.json
