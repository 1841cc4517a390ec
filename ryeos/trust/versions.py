"""The highest version of each item that was signed or has run, by signer: against rollback.

An older text with a good signature stays good for ever. So user space, out of a project's reach,
keeps the highest version for each item and signer, across projects; a lower one is refused until
the user accepts it for that project (``rye trust --older``) or signs it there.

A file for each item, ``.ai/state/versions/<digest of the ref>.json``::

    {"version": 1, "ref": "tool:shop/total",
     "highest": {"<digest of the key>": "1.2.0"},
     "older": {"<real path of a project>": "1.1.0"},
     "texts": {"<real path of a project, or user>":
               {"newest": "<content hash>", "replaced": ["<content hash>"], "accepted": []}}}

``older`` is the lowest version that was accepted in a project. ``texts`` is for files without a
version that can be compared, and for modules beside a tool, whose versions are mostly left as they
are: which text is new is known by what was signed or has run after it, in one place. The file is
one of its own because a run reads those of its own files and no other.
"""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import is_directory, make_directory, read_bytes, write_atomic
from lillux.values import dataclass
from ryeos.items.errors import IntegrityError
from ryeos.items.refs import PROJECT, USER, ItemRef, Space, user_lock
from ryeos.trust.store import FINGERPRINT_DIGITS

if TYPE_CHECKING:
    from ryeos.trust.verify import VerifiedItem

VERSIONS_FOLDER = "state/versions"
MAX_RECORD_BYTES = 256 * 1024
_PARTS, _MAX_DIGITS, _MAX_TEXTS = 3, 9, 64


_NEWER_TEXT = "a newer text of it"


class RollbackError(IntegrityError):
    """A version that is lower than one by the same signer that was signed or has run."""

    code = "ROLLBACK"
    state = "rollback"

    def __init__(self, path: str, edition: "Edition", before: str) -> None:
        ref, version = edition.ref, edition.version
        is_older_text = before == _NEWER_TEXT
        found = "an older text" if is_older_text else f"version {version}"
        super().__init__(
            path,
            f"{ref} is {found}, and {before} by the same signer was here before",
            hint=f"if you want the older one in this project: rye trust --older {ref}",
        )


@dataclass(frozen=True, slots=True)
class Edition:
    """One text of an item: what is compared with those that were here before.

    signer   digest of its key
    version  as it is written, ``""`` where there is none
    text     its content hash
    space    the label of the space that it lies in
    is_module  it lies beside a tool: a text that was replaced is older in whatever version
    """

    ref: ItemRef
    signer: str
    version: str
    text: str
    space: str
    is_module: bool = False

    @classmethod
    def of(
        cls, ref: ItemRef, item: "VerifiedItem", version: str, *, is_module: bool = False
    ) -> "Edition":
        """That of verified bytes."""
        label = item.target.space.label
        return cls(ref, item.signer, version, item.content_hash, label, is_module)

    @property
    def goes_by_text(self) -> bool:
        """True if its text says what is older."""
        return self.is_module or _parse_version(self.version) is None


class VersionRecord:
    """The records of one user space, as one project sees them. Thread-safe."""

    def __init__(self, user: Space, project: Path | None) -> None:
        self._folder = user.ai / VERSIONS_FOLDER
        self._lock = user_lock(user.ai, "versions")
        self._has_place = user.ai
        self._place = os.path.realpath(project) if project else USER

    def require_newest(self, edition: Edition, path: Path) -> None:
        """Raise RollbackError for what is older than what was here, unless it was accepted here.

        Older is a version below the highest; of a module, and without a version, a text that
        another has replaced.
        """
        record = self._read(edition.ref)
        found, highest = _parse_version(edition.version), _highest(record, edition.signer)
        is_replaced = edition.text in self._texts(record, edition)["replaced"]
        if edition.goes_by_text and is_replaced:
            raise RollbackError(str(path), edition, _NEWER_TEXT)
        if not found or not highest or found >= highest:
            return
        accepted = _parse_version(record.get("older", {}).get(self._place, ""))
        if accepted is None or found < accepted:
            raise RollbackError(str(path), edition, ".".join(map(str, highest)))

    def note(self, edition: Edition) -> None:
        """Keep what has run, if it is a new highest. A record that fails is no error."""
        record = self._read(edition.ref)
        found, highest = _parse_version(edition.version), _highest(record, edition.signer)
        more: dict[str, Mapping[str, Any]] = {}
        if edition.goes_by_text:
            texts = self._texts(record, edition)
            # An accepted text replaces none: who changes between branches is asked once for each.
            if edition.text != texts["newest"] and edition.text not in texts["accepted"]:
                more |= self._with_newest(texts, edition)
        if found and (highest is None or found > highest):
            more["highest"] = {edition.signer: edition.version}
        if more and is_directory(self._has_place):
            with suppress(LilluxError, OSError):
                self._write(edition.ref, more)

    def note_signed(self, edition: Edition) -> None:
        """Keep what was signed here: whatever was here before, it counts now.

        Raises FileSystemError.
        """
        texts = self._texts(self._read(edition.ref), edition)
        if edition.text != texts["newest"]:
            texts["replaced"] = [one for one in texts["replaced"] if one != edition.text]
            self._write(edition.ref, self._with_newest(texts, edition))
        if _parse_version(edition.version) and not self.accept(edition):
            self.note(edition)

    def accept(self, edition: Edition) -> bool:
        """Accept what is older in this project; False if it counted already.

        Raises FileSystemError.
        """
        record = self._read(edition.ref)
        found, highest = _parse_version(edition.version), _highest(record, edition.signer)
        texts = self._texts(record, edition)
        is_replaced = edition.text in texts["replaced"]
        if is_replaced:
            texts["replaced"].remove(edition.text)
            texts["accepted"] = [*texts["accepted"], edition.text][-_MAX_TEXTS:]
            self._write(edition.ref, {"texts": {self._place_of(edition): texts}})
        accepted = _parse_version(record.get("older", {}).get(self._place, ""))
        if not found or not highest or found >= highest or (accepted and found >= accepted):
            return is_replaced
        self._write(edition.ref, {"older": {self._place: edition.version}})
        return True

    def _with_newest(self, texts: Mapping[str, Any], edition: Edition) -> dict[str, dict[str, Any]]:
        """The entry of a record in which a text has replaced the newest."""
        before, replaced = texts["newest"], texts["replaced"]
        if before and before not in texts["accepted"]:
            replaced = [*replaced, before][-_MAX_TEXTS:]
        noted = {**texts, "newest": edition.text, "replaced": replaced}
        return {"texts": {self._place_of(edition): noted}}

    def _texts(self, record: Mapping[str, Mapping[str, Any]], edition: Edition) -> dict[str, Any]:
        kept = record.get("texts", {}).get(self._place_of(edition))
        kept = kept if isinstance(kept, dict) else {}
        named = {name: kept.get(name) for name in ("replaced", "accepted")}
        lists = {name: found if isinstance(found, list) else [] for name, found in named.items()}
        return {"newest": str(kept.get("newest") or ""), **lists}

    def _place_of(self, edition: Edition) -> str:
        return self._place if edition.space == PROJECT else USER

    def _write(self, ref: ItemRef, more: Mapping[str, Mapping[str, Any]]) -> None:
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
        named = {name: document.get(name) for name in ("highest", "older", "texts")}
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
