"""Which runs that a node could not merge were merged here: so that nobody is asked about one twice.

``.ai/state/remote/<name>/merged-runs.json``: the digests of their snapshots, the newest last.
Nothing else depends on it: without the file a run is merged once more.
"""

import json
import logging
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.store_files import is_digest

MOST = 1000
_MAX_BYTES = 1024 * 1024
_LOG = logging.getLogger(__name__)


class MergedRuns:
    """The runs of one remote; ``folder`` is that of the remote in the state of the project."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "merged-runs.json"

    def all(self) -> frozenset[str]:
        """The snapshots of all that are remembered."""
        return frozenset(self._read())

    def has(self, snapshot_hash: str) -> bool:
        """Whether the run that left this snapshot was merged."""
        return snapshot_hash in self._read()

    def add(self, snapshot_hash: str) -> None:
        """Remember one, and of the rest the newest. Raises FileSystemError."""
        others = [one for one in self._read() if one != snapshot_hash]
        make_directory(self.path.parent)
        write_atomic(self.path, json.dumps([*others, snapshot_hash][-MOST:]).encode())

    def _read(self) -> list[str]:
        try:
            value = json.loads(read_bytes(self.path, _MAX_BYTES))
        except FileNotFoundError:
            return []
        except (LilluxError, ValueError, RecursionError) as error:
            _LOG.warning("%s cannot be read: %s", self.path, error)
            return []
        return [one for one in value if is_digest(one)] if isinstance(value, list) else []
