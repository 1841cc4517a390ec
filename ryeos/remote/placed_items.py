"""Pulled items as files of a space: placed, and compared with the lock.

What a user changed here is never replaced silently. Nothing is asked of a registry.
"""

from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from lillux.contained_paths import safe_join
from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import create_file, make_directory, read_bytes, write_atomic
from lillux.signing import verify_signature
from lillux.values import dataclass
from ryeos.items.refs import ItemRef, Space
from ryeos.items.replaced import keep_replaced
from ryeos.remote.pins import Pin
from ryeos.remote.registry_errors import LocalEditError
from ryeos.remote.registry_items import PulledItem, text_hash
from ryeos.remote.registry_lock import LockEntry, RegistryLock
from ryeos.trust.item_rules import validate_item
from ryeos.trust.sign_targets import SignTarget
from ryeos.trust.signature import (
    MAX_ITEM_BYTES,
    SignedText,
    content_hash,
    decode,
    form_for,
    hashed_text,
    split,
)
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.verify import Target, Verifier


class PlacementState(StrEnum):
    """The outcome for the file."""

    WRITTEN = "written"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


class Replace(StrEnum):
    """The files at the item's place that may be replaced."""

    NOTHING = "nothing"
    UNTOUCHED = "untouched"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it is here: the hash of its text without signature lines, and that taken apart."""

    text_hash: str
    signed: SignedText


class ItemPlacer:
    """Writes pulled items to a space, and into its lock. ``key`` signs them anew, if given."""

    def __init__(self, space: Space, user: Space, key: SigningKey | None = None) -> None:
        """``user`` is the user space, which keeps what is replaced."""
        self.space, self._user, self._key = space, user, key
        self.lock = RegistryLock(space)
        self.kept: Path | None = None
        """The place of user space for what `place` replaced last."""

    def place(
        self, item: PulledItem, *, registry: str, now: str, replace: Replace
    ) -> PlacementState:
        """Write the file and its lock entry. ``registry`` is the address, ``now`` a stamp.

        Raises LocalEditError, UnsafePathError, FileSystemError, RyeError `LOCKFILE_INVALID`.
        """
        entries = self.lock.entries()  # one that cannot be read keeps the file from being written
        path, within = self.path(item), self.space.within
        make_directory(path.parent, within=within)
        with locked(self.space.lock("sign"), within=within):
            placed = self._write(item, path, entries.get(str(item.ref)), replace)
        self.lock.put(
            LockEntry(
                ref=item.ref,
                version=item.version,
                path=path.relative_to(self.space.ai).as_posix(),
                registry=registry,
                text_hash=item.text_hash,
                fingerprint=item.fingerprint,
                author=item.author,
                pulled_at=now,
            )
        )
        return placed

    def path(self, item: PulledItem) -> Path:
        """The path of the item. Raises UnsafePathError."""
        return safe_join(self.space.directory(item.ref.kind), f"{item.ref.id}{item.suffix}")

    def _write(
        self, item: PulledItem, path: Path, entry: LockEntry | None, replace: Replace
    ) -> PlacementState:
        other = _of_other_type(item, path)
        if other:
            raise LocalEditError(str(other), f"another file that is {item.ref} is here")
        data = self._data(item, path)
        try:
            existing = read_bytes(path, MAX_ITEM_BYTES, within=self.space.within)
        except FileNotFoundError:
            with suppress(FileExistsError):
                create_file(path, data, within=self.space.within)
                return PlacementState.WRITTEN
            raise LocalEditError(str(path), "appeared just now") from None
        if existing == data:
            return PlacementState.UNCHANGED
        state = file_state(existing, item.ref, path)
        is_same_text = state is not None and state.text_hash == item.text_hash
        if is_same_text and self._key is None:
            return PlacementState.UNCHANGED  # a user here signed the same text: that stays
        was_pulled = state is not None and entry and state.text_hash == entry.text_hash
        may = is_same_text or (was_pulled and replace is not Replace.NOTHING)
        if not may and replace is not Replace.ANYTHING:
            problem = "expected to find what was pulled, or nothing; found another text"
            raise LocalEditError(str(path), problem)
        if not may:
            self.kept = keep_replaced(self._user, path, existing)
        write_atomic(path, data, expected=existing, within=self.space.within)
        return PlacementState.REPLACED

    def _data(self, item: PulledItem, path: Path) -> bytes:
        """The bytes of the file: as they came, or signed with the user's own key."""
        if self._key is None:
            return item.data
        kind = item.ref.kind
        target = SignTarget(path=path, kind=kind, space=self.space, ref=item.ref)
        valid = validate_item(target, item.data)
        assert valid.signed is not None  # noqa: S101 - `verify_pulled` took no file without a line
        form, where = form_for(kind, item.suffix), str(path)
        return self._key.signed_text(kind, valid.signed, form, where, valid.identity).encode()


def file_state(data: bytes, ref: ItemRef, path: Path) -> FileState | None:
    """The content of an item file; None for one that is no item."""
    where = str(path)
    try:
        form = form_for(ref.kind, path.suffix.lower(), where)
        signed = split(decode(data, where), form, where)
    except LilluxError:
        return None
    return FileState(text_hash(signed), signed)


def _of_other_type(item: PulledItem, path: Path) -> Path | None:
    """A file beside the path that has the same id, and would be found for it, or instead of it."""
    others = (path.with_name(f"{item.ref.name}{suffix}") for suffix in item.ref.kind.suffixes)
    return next((one for one in others if one != path and one.is_file()), None)


class PulledStatus(StrEnum):
    """The outcome for a pulled item."""

    VALID = "valid"
    SIGNED_HERE = "signed-here"
    UNTRUSTED = "untrusted-key"
    EDITED = "edited"
    TAMPERED = "tampered"
    MISSING = "missing"
    UNPINNED = "unpinned"


FINE = frozenset({PulledStatus.VALID, PulledStatus.SIGNED_HERE, PulledStatus.UNTRUSTED})
"""The text is what was pulled, and one says so whose word can be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledState:
    """An entry of a lock, and its file.

    runs  whether the item's key counts where it is, so that it may be run
    """

    entry: LockEntry
    path: Path
    state: PulledStatus
    runs: bool = False


def state_of(
    entry: LockEntry, space: Space, pins: tuple[Pin, ...], verifier: Verifier
) -> PulledState:
    """The state of an entry's file now. ``pins`` are all of the user's. Raises UnsafePathError."""
    path = safe_join(space.ai, entry.path)
    try:
        data = read_bytes(path, MAX_ITEM_BYTES)
    except FileNotFoundError:
        return PulledState(entry=entry, path=path, state=PulledStatus.MISSING)
    found = file_state(data, entry.ref, path)
    if found is None or found.text_hash != entry.text_hash:
        return PulledState(entry=entry, path=path, state=PulledStatus.EDITED)
    runs = _runs(Target(path=path, kind=entry.ref.kind, space=space), verifier)
    state = _attested_status(entry, found, path, pins, runs=runs)
    return PulledState(entry=entry, path=path, state=state, runs=runs)


def _attested_status(
    entry: LockEntry, found: FileState, path: Path, pins: tuple[Pin, ...], *, runs: bool
) -> PulledStatus:
    """The status of a text, by who attests that it is the one that was pulled."""
    signature = found.signed.signature
    if signature is None or signature.fingerprint != entry.fingerprint:
        return PulledStatus.SIGNED_HERE if runs else PulledStatus.TAMPERED
    pin = next((one for one in pins if one.fingerprint == entry.fingerprint), None)
    if pin is None:
        return PulledStatus.VALID if runs else PulledStatus.UNPINNED
    try:
        covered = content_hash(hashed_text(entry.ref.kind, found.signed, str(path)))
    except LilluxError:
        return PulledStatus.TAMPERED
    is_whole = covered == signature.content_hash
    if not is_whole or not verify_signature(covered, signature.value, pin.public_pem):
        return PulledStatus.TAMPERED
    return PulledStatus.VALID if runs else PulledStatus.UNTRUSTED


def _runs(target: Target, verifier: Verifier) -> bool:
    try:
        return verifier.verify(target).verified
    except LilluxError:
        return False
