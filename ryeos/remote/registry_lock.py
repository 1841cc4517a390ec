"""The lock of what a space has pulled from registries.

File: ``.ai/lockfiles/registry.lock.json``. An entry pins an item to a version, the hash of the text
that the registry signed, and the key that signed it. It travels with the project; what it says is
compared and shown, never obeyed: an address in it is spoken to only if the user's own
configuration names it too. Format: docs/registry.md.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from lillux.file_locks import locked
from lillux.files import make_directory, read_bytes, write_atomic
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.items.refs import ItemRef, Space, parse_reference
from ryeos.remote.registry_ids import published_ref, valid_version

LOCK_NAME = "lockfiles/registry.lock.json"
LOCK_VERSION = 1
MAX_LOCK_BYTES = 4 * 1024 * 1024
_HASH = re.compile(r"[0-9a-f]{64}")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEntry:
    """The pulled item.

    path         of the file, below ``.ai``
    registry     the address it came from
    text_hash    of the text without signature lines, so that signing again changes nothing
    fingerprint  of the registry's key
    author       the account that published it
    """

    ref: ItemRef
    version: str
    path: str
    registry: str
    text_hash: str
    fingerprint: str
    author: str
    pulled_at: str

    def as_json(self) -> dict[str, str]:
        """The entry's values, in the order of the file."""
        return {
            "version": self.version,
            "path": self.path,
            "registry": self.registry,
            "integrity": self.text_hash,
            "fingerprint": self.fingerprint,
            "author": self.author,
            "pulled_at": self.pulled_at,
        }


class RegistryLock:
    """The file of one space."""

    def __init__(self, space: Space) -> None:
        self.path, self._within = space.ai / LOCK_NAME, space.within
        self._guard = space.ai / "state" / "registry-lock.lock"

    def entries(self) -> dict[str, LockEntry]:
        """By reference. Raises RyeError `LOCKFILE_INVALID`."""
        return {str(entry.ref): entry for entry in self._read()}

    def put(self, entry: LockEntry) -> None:
        """Add an entry, or replace the one of the same item. Raises RyeError `LOCKFILE_INVALID`."""
        with locked(self._guard, within=self._within):
            self._write({**self.entries(), str(entry.ref): entry})

    def remove(self, ref: ItemRef) -> bool:
        """Take an entry out; False if absent. Raises RyeError `LOCKFILE_INVALID`."""
        with locked(self._guard, within=self._within):
            entries = self.entries()
            if entries.pop(str(ref), None) is None:
                return False
            self._write(entries)
        return True

    def _read(self) -> list[LockEntry]:
        where = str(self.path)
        try:
            document = json.loads(read_bytes(self.path, MAX_LOCK_BYTES))
        except FileNotFoundError:
            return []
        except (ValueError, RecursionError) as error:
            raise _lock_error(where, f"expected JSON, found: {error}") from error
        items = document.get("items") if isinstance(document, dict) else None
        if not isinstance(items, dict) or document.get("registry_lock_version") != LOCK_VERSION:
            raise _lock_error(where, f"expected a registry lock of version {LOCK_VERSION}")
        return [_entry(where, name, values) for name, values in items.items()]

    def _write(self, entries: Mapping[str, LockEntry]) -> None:
        items = {name: entries[name].as_json() for name in sorted(entries)}
        document = {"registry_lock_version": LOCK_VERSION, "items": items}
        data = json.dumps(document, indent=2).encode() + b"\n"
        make_directory(self.path.parent, within=self._within)
        write_atomic(self.path, data, within=self._within)


def _lock_error(path: str, problem: str) -> RyeError:
    """The list of what was pulled cannot be read; as an empty list it would lose its pins."""
    return RyeError(
        f"{path}: {problem}",
        code="LOCKFILE_INVALID",
        hint="take it from version control, or remove it and pull again",
        path=path,
    )


def _entry(where: str, name: str, values: Any) -> LockEntry:  # noqa: ANN401 - JSON
    if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
        raise _lock_error(where, f"{name[:200]!a}: expected a mapping of texts")
    said: dict[str, str] = values
    try:
        ref = published_ref(parse_reference(name))
        valid_version(said.get("version", ""))
    except RyeError as error:
        raise _lock_error(where, str(error)) from error
    path = said.get("path", "")
    stem = f"{ref.kind.directory}/{ref.id}."
    if not path.startswith(stem) or f".{path[len(stem) :]}" not in ref.kind.suffixes:
        raise _lock_error(where, f"{name}: expected its path below .ai, found {path[:200]!a}")
    for key, shape in (("integrity", _HASH), ("fingerprint", _FINGERPRINT)):
        if not shape.fullmatch(said.get(key, "")):
            raise _lock_error(where, f"{name}: {key}: expected hex digits")
    return LockEntry(
        ref=ref,
        version=said["version"],
        path=path,
        registry=said.get("registry", ""),
        text_hash=said["integrity"],
        fingerprint=said["fingerprint"],
        author=said.get("author", ""),
        pulled_at=said.get("pulled_at", ""),
    )
