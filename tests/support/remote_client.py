"""The client of a node in a separate process, which may be killed, and its files."""

import json
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.key_files import save_keypair
from ryeos.items.refs import Space
from ryeos.remote.conflicts import project_store
from ryeos.remote.link import RemoteEnvironment, open_link
from ryeos.remote.local_heads import LocalHead, LocalHeads
from ryeos.remote.pull import PullResult, pull
from ryeos.remote.push import PushResult, push
from ryeos.sync.objects import item_source_of, manifest_of
from tests.support.node import Node, User
from tests.support.workspace import ROOT, Workspace

RYE = (sys.executable, str(ROOT / "rye.py"))
RULES = "sync: {include: ['src/']}\n"
PROJECT = "project"
_BATCH = 200
_END_S = 40.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended; a negative status is the signal that killed it."""

    status: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON
        """The one document on standard output."""
        return json.loads(self.stdout)


class Running:
    """A command under way."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def kill(self) -> None:
        """Kill it."""
        self._process.kill()

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def ended(self) -> Ended:
        """How it ended, once it has."""
        stdout, stderr = self._process.communicate(timeout=_END_S)
        return Ended(self._process.returncode, stdout, stderr)


class Client:
    """A user's machine whose default remote is at ``url``: a project with files below ``src/``."""

    def __init__(self, folder: Path, bundle: Space, user: User, url: str) -> None:
        folder.mkdir(exist_ok=True)
        self.workspace = Workspace(folder, (bundle,))
        self.user = user
        self.command: Sequence[str] = RYE
        save_keypair(self.workspace.context().key_directory, user.keypair)
        self.workspace.user.trust(user.keypair, owner="local", covers_all=True)
        text = f"remotes:\n  default: {{url: '{url}', key_env: NODE_KEY}}\n"
        self.workspace.user.write("config/remotes/remotes.yaml", text)
        self.workspace.project.write("config/cas/manifest.yaml", RULES)

    @property
    def root(self) -> Path:
        """The project."""
        return self.workspace.project_path

    def start(self, *argv: str, **env: str) -> Running:
        """Start ``rye ...``."""
        return Running(
            subprocess.Popen(
                [*self.command, *argv],
                cwd=self.root,
                env={**self.workspace.env, **env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
            )
        )

    def __call__(self, *argv: str, **env: str) -> Ended:
        """Run ``rye ...`` to its end."""
        return self.start(*argv, **env).ended()

    def push(self) -> PushResult:
        """As ``rye remote push``, in this process."""
        return push(open_link(RemoteEnvironment(workspace=self.workspace.rye()), None))

    def pull(self) -> PullResult:
        """As ``rye remote pull``, in this process."""
        return pull(open_link(RemoteEnvironment(workspace=self.workspace.rye()), None))

    def write(self, files: Mapping[str, str]) -> None:
        """Write files of the project."""
        for path, text in files.items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")

    def files(self) -> dict[str, bytes]:
        """Every file of the project but its state: also those that should not be there."""
        return {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and not path.is_relative_to(self.root / ".ai" / "state")
        }

    def recorded(self) -> LocalHead | None:
        """The head of the node that the project has recorded."""
        return LocalHeads(project_store(self.root / ".ai")).read("default")


def history(user: User) -> list[str]:
    """The snapshots of the project on the node, the newest first."""
    reply = user.ask("GET", f"/history?project_path={PROJECT}&limit=200")
    if reply.status == 404:
        return []
    assert reply.status == 200, reply.json
    return [row["_hash"] for row in reply.json["snapshots"]]


def files_there(user: User, snapshot_hash: str | None = None) -> dict[str, bytes]:
    """The files of a snapshot, of HEAD by default: each piece is there, and hashes right."""
    return _Snapshot(user, snapshot_hash or history(user)[0]).files()


@dataclass(frozen=True, slots=True)
class _Snapshot:
    user: User
    digest: str

    def files(self) -> dict[str, bytes]:
        snapshot = self._object(self.digest)
        where = snapshot["project_manifest_hash"]
        manifest = manifest_of(self._object(where), where)
        if snapshot.get("user_manifest_hash"):
            user_hash = snapshot["user_manifest_hash"]
            self._blobs_of(manifest_of(self._object(user_hash), user_hash).items)
        return {**self._blobs_of(manifest.items), **self._blobs({**manifest.files})}

    def _blobs_of(self, items: Mapping[str, str]) -> dict[str, bytes]:
        found = self._get(items.values())
        return self._blobs(
            {
                path: item_source_of(json.loads(found[digest]), path).content_blob_hash
                for path, digest in items.items()
            }
        )

    def _blobs(self, digests: Mapping[str, str]) -> dict[str, bytes]:
        found = self._get(digests.values())
        return {path: found[digest] for path, digest in digests.items()}

    def _object(self, digest: str) -> Any:  # noqa: ANN401 - JSON
        return json.loads(self._get([digest])[digest])

    def _get(self, digests: Iterable[str]) -> dict[str, bytes]:
        wanted = sorted({*digests})
        found: dict[str, bytes] = {}
        for start in range(0, len(wanted), _BATCH):
            requested = wanted[start : start + _BATCH]
            reply = self.user.ask("POST", "/objects/get", {"hashes": requested})
            assert reply.status == 200, reply.json
            found |= {one["hash"]: b64decode(one["data"]) for one in reply.json["entries"]}
        assert [digest for digest in wanted if digest not in found] == []
        assert all(sha256_hex(data) == digest for digest, data in found.items())
        return found


def client_of(
    folder: Path, bundle: Space, node: Node, url: str, user: User | None = None
) -> Client:
    """A machine of a user who is new, or known."""
    return Client(folder, bundle, user or node.user(), url)
