"""Heads that a project and a remote last had in common.

``refs/remotes/NAME`` of the project's store is the base of the next merge, and nothing else
depends on it: a lost one costs a merge without base, where every difference is a conflict.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.store import Store
from lillux.store_errors import RefUnreadableError
from lillux.store_layout import is_digest
from lillux.values import dataclass

_FOLDER, _ATTEMPTS = "remotes", "remote-attempts"
_MAX_BYTES = 64 * 1024
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHead:
    """The state of a remote when it was last pushed to or pulled from.

    project_path  what the project is called there
    url           of the node; a head of another address is no base
    updated_at    UTC, ISO 8601
    """

    snapshot_hash: str
    project_manifest_hash: str
    project_path: str
    url: str
    updated_at: str
    user_manifest_hash: str = ""

    def as_ref(self) -> dict[str, str]:
        """The value of the ref."""
        return {name: getattr(self, name) for name in _FIELDS}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A push that was sent, and whose answer this project has not seen yet."""

    project_manifest_hash: str
    project_path: str
    url: str


_FIELDS = (
    *("snapshot_hash", "project_manifest_hash", "project_path", "url", "updated_at"),
    "user_manifest_hash",
)


class LocalHeads:
    """The heads in a project's store. Names of remotes are checked where they are configured."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def read(self, remote: str) -> LocalHead | None:
        """The head of a remote; None if it is absent or invalid.

        Raises RefNameError, StoreLinkError, FileSystemError.
        """
        try:
            value = self._store.read_ref(f"{_FOLDER}/{remote}")
        except RefUnreadableError as error:
            _LOG.warning("the head of remote %s cannot be read: %s", remote, error)
            return None
        return _head_of(self._elsewhere(remote) if value is None else value)

    def write(self, remote: str, head: LocalHead) -> None:
        """Replace the head of a remote, and have it on disk. Raises as `Store.write_ref`."""
        self._store.write_ref(f"{_FOLDER}/{remote}", head.as_ref())

    def forget(self, remote: str) -> None:
        """Remove the head of a remote, if there is one. Raises as `Store.remove_ref`."""
        self._store.remove_ref(f"{_FOLDER}/{remote}")
        self.forget_attempt(remote)

    def attempt(self, remote: str) -> Attempt | None:
        """The push that was sent last, None where its answer came. Raises as `read`."""
        try:
            value = self._store.read_ref(f"{_ATTEMPTS}/{remote}")
        except RefUnreadableError as error:
            _LOG.warning("the last push to remote %s cannot be read: %s", remote, error)
            return None
        if not isinstance(value, Mapping) or not is_digest(value.get("project_manifest_hash")):
            return None
        return Attempt(
            value["project_manifest_hash"], _text(value, "project_path"), _text(value, "url")
        )

    def write_attempt(self, remote: str, attempt: Attempt) -> None:
        """Remember a push before it is sent. Raises as `Store.write_ref`."""
        value = {
            "project_manifest_hash": attempt.project_manifest_hash,
            "project_path": attempt.project_path,
            "url": attempt.url,
        }
        self._store.write_ref(f"{_ATTEMPTS}/{remote}", value)

    def forget_attempt(self, remote: str) -> None:
        """Forget the push whose answer came, if there is one. Raises as `Store.remove_ref`."""
        self._store.remove_ref(f"{_ATTEMPTS}/{remote}")

    def _elsewhere(self, remote: str) -> object:
        """The head that another program wrote: it left heads where its store was before."""
        path = self._store.root.parent.parent / "objects" / "refs" / _FOLDER / f"{remote}.json"
        try:
            return json.loads(read_bytes(path, _MAX_BYTES))
        except (OSError, LilluxError, ValueError, RecursionError):
            return None


def _head_of(value: object) -> LocalHead | None:
    if not isinstance(value, Mapping) or not is_digest(value.get("snapshot_hash")):
        return None
    return LocalHead(**{name: _text(value, name) for name in _FIELDS})


def _text(value: Mapping[str, Any], name: str) -> str:
    text = value.get(name)
    return text if isinstance(text, str) else ""
