"""The highest version of each item that was signed or has run, by signer: against rollback.

An older text with a good signature stays good for ever. So user space, out of a project's reach,
keeps the highest version for each item and signer, across projects; a lower one is refused until
the user accepts it for that project (``rye trust --older``) or signs it there.

A file for each item, ``.ai/state/versions/<digest of the ref>.json``::

    {"version": 1, "ref": "tool:shop/total",
     "highest": {"<digest of the key>": "1.2.0"},
     "older": {"<real path of a project>": "1.1.0"}}

``older`` is the lowest version that was accepted in a project. The file is one of its own because a
run reads that of its tool and no other.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import is_directory, locked, make_directory, read_bytes, write_atomic
from ryeos.items.errors import IntegrityError
from ryeos.items.refs import ItemRef, Space, user_lock
from ryeos.trust.store import FINGERPRINT_DIGITS

VERSIONS_FOLDER = "state/versions"
MAX_RECORD_BYTES = 256 * 1024
_PARTS, _MAX_DIGITS = 3, 9


class RollbackError(IntegrityError):
    """A version that is lower than one by the same signer that was signed or has run."""

    code = "ROLLBACK"
    state = "rollback"

    def __init__(self, path: str, ref: str, found: str, highest: str) -> None:
        super().__init__(
            path,
            f"{ref} is version {found}, and {highest} by the same signer was here before",
            hint=f"if you want the older one in this project: rye trust --older {ref}",
        )


class VersionRecord:
    """The records of one user space, as one project sees them. Thread-safe."""

    def __init__(self, user: Space, project: Path | None) -> None:
        self._folder = user.ai / VERSIONS_FOLDER
        self._lock = user_lock(user.ai, "versions")
        self._has_place = user.ai
        self._place = os.path.realpath(project) if project else "user"

    def require_newest(self, ref: ItemRef, signer: str, version: str, path: Path) -> None:
        """Raise RollbackError for a version below the highest, unless it was accepted here."""
        found = _parse_version(version)
        record = self._read(ref) if found else {}
        highest = _highest(record, signer)
        if not found or not highest or found >= highest:
            return
        accepted = _parse_version(record.get("older", {}).get(self._place, ""))
        if accepted is None or found < accepted:
            raise RollbackError(str(path), str(ref), version, ".".join(map(str, highest)))

    def note(self, ref: ItemRef, signer: str, version: str) -> None:
        """Keep a version that has run, if it is a new highest. A record that fails is no error."""
        found = _parse_version(version)
        highest = _highest(self._read(ref), signer)
        if found and (highest is None or found > highest) and is_directory(self._has_place):
            with suppress(LilluxError, OSError):
                self._write(ref, {"highest": {signer: version}})

    def accept(self, ref: ItemRef, signer: str, version: str) -> bool:
        """Accept a version in this project, whatever the highest is; False if it did.

        Raises FileSystemError.
        """
        record = self._read(ref)
        found, highest = _parse_version(version), _highest(record, signer)
        accepted = _parse_version(record.get("older", {}).get(self._place, ""))
        if not found or not highest or found >= highest or (accepted and found >= accepted):
            return False
        self._write(ref, {"older": {self._place: version}})
        return True

    def _write(self, ref: ItemRef, more: Mapping[str, Mapping[str, str]]) -> None:
        path = self._path(ref)
        make_directory(path.parent, mode=0o700)
        with locked(self._lock):
            record = self._read(ref)
            for name, entries in more.items():
                record[name] = {**record.get(name, {}), **entries}
            document = {"version": 1, "ref": str(ref), **record}
            write_atomic(path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)

    def _read(self, ref: ItemRef) -> dict[str, dict[str, Any]]:
        """The mappings of a record; none where there is no file that can be read."""
        try:
            document = json.loads(read_bytes(self._path(ref), MAX_RECORD_BYTES))
        except (OSError, ValueError, RecursionError, LilluxError):
            return {}
        if not isinstance(document, dict):
            return {}
        named = {name: document.get(name) for name in ("highest", "older")}
        return {name: found for name, found in named.items() if isinstance(found, dict)}

    def _path(self, ref: ItemRef) -> Path:
        return self._folder / f"{sha256_hex(str(ref).encode())[:40]}.json"


def _highest(record: Mapping[str, Mapping[str, Any]], signer: str) -> tuple[int, ...] | None:
    """The highest version by a key; earlier records name it by the first 16 digits."""
    by_signer = record.get("highest", {})
    return _parse_version(by_signer.get(signer, by_signer.get(signer[:FINGERPRINT_DIGITS], "")))


def _parse_version(version: object) -> tuple[int, ...] | None:
    """A version as numbers; None for one that cannot be compared."""
    parts = version.split(".") if isinstance(version, str) and version.isascii() else []
    is_one = len(parts) == _PARTS and all(p.isdecimal() and len(p) <= _MAX_DIGITS for p in parts)
    return tuple(map(int, parts)) if is_one else None
