"""Keys carried by a project that the user approved, kept in user space.

File: ``<user>/.ai/config/keys/approved.json``, ``{"version": 1, "projects": {PATH: [FP, ...]}}``,
where PATH is the real path of the project folder.
"""

import json
import os
from pathlib import Path

from lillux.files import locked, make_directory, read_bytes, write_atomic
from ryeos.errors import KeyDocumentError

MAX_APPROVALS_BYTES = 1024 * 1024
APPROVALS_VERSION = 1


class Approvals:
    """The approvals file of one user space; read when first asked."""

    def __init__(self, user_ai: Path) -> None:
        self.path = user_ai / "config" / "keys" / "approved.json"
        self._lock = user_ai / "state" / "approvals.lock"
        self._projects: dict[str, list[str]] = {}
        self._originals: dict[str, str] = {}
        self._state: tuple[int, ...] = ()

    def is_approved(self, project: Path, fingerprint: str) -> bool:
        """Whether the user approved this key for this project. Raises KeyDocumentError."""
        real = os.path.realpath(project)
        return fingerprint in self._load().get(self._originals.get(real, real), [])

    def count_as(self, copy: Path, original: Path) -> None:
        """Let what is approved for a project hold in a copy of it, for this object's life."""
        self._originals[os.path.realpath(copy)] = os.path.realpath(original)

    def all(self) -> tuple[tuple[str, str], ...]:
        """Each approval: a project's real path, and a fingerprint. Raises KeyDocumentError."""
        projects = self._load().items()
        return tuple((path, fingerprint) for path, keys in projects for fingerprint in keys)

    def approve(self, project: Path, fingerprint: str) -> None:
        """Let a key that the project carries count there from now on."""
        key = os.path.realpath(project)
        with locked(self._lock):
            projects = self._load()
            approved = {*projects.get(key, ()), fingerprint}
            self._save(projects | {key: sorted(approved)})

    def withdraw(self, project: Path, fingerprint: str) -> bool:
        """Take an approval back; False if there was none."""
        if not self.is_approved(project, fingerprint):
            return False
        key = os.path.realpath(project)
        with locked(self._lock):
            projects = self._load()
            approved = [known for known in projects.get(key, ()) if known != fingerprint]
            self._save(projects | {key: approved})
        return True

    def _load(self) -> dict[str, list[str]]:
        """The file's content; a long-lived process must notice that an approval was taken back."""
        state = _state(self.path)
        if state != self._state:
            self._projects, self._state = self._read(), state
        return self._projects

    def _read(self) -> dict[str, list[str]]:
        try:
            document = json.loads(read_bytes(self.path, MAX_APPROVALS_BYTES))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            raise KeyDocumentError(str(self.path), f"expected JSON, found: {error}") from error
        projects = document.get("projects") if isinstance(document, dict) else None
        if not isinstance(projects, dict) or document.get("version") != APPROVALS_VERSION:
            raise KeyDocumentError(
                str(self.path), f"expected an approvals file of version {APPROVALS_VERSION}"
            )
        return {
            path: [fingerprint for fingerprint in keys if isinstance(fingerprint, str)]
            for path, keys in projects.items()
            if isinstance(keys, list)
        }

    def _save(self, projects: dict[str, list[str]]) -> None:
        document = {
            "version": APPROVALS_VERSION,
            "projects": {path: keys for path, keys in sorted(projects.items()) if keys},
        }
        make_directory(self.path.parent, mode=0o700)
        write_atomic(self.path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)


def _state(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns
