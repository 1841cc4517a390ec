"""A pulled item becomes a file of a space. What somebody changed here is never replaced unasked."""

from collections.abc import Iterator
from contextlib import suppress
from enum import StrEnum
from itertools import count
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import create_file, locked, make_directory, read_bytes, safe_join, write_atomic
from lillux.values import dataclass
from ryeos.items import ItemRef, Space
from ryeos.registry.errors import LocalEditError
from ryeos.registry.lock import LockEntry, RegistryLock
from ryeos.registry.pulled import PulledItem, text_hash
from ryeos.sign import check_item
from ryeos.sign_targets import SignTarget
from ryeos.signature import (
    MAX_ITEM_BYTES,
    SignedText,
    decode,
    form_for,
    split,
)
from ryeos.signing_key import SigningKey


class Placed(StrEnum):
    """What became of the file."""

    WRITTEN = "written"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"


class Replace(StrEnum):
    """Which file at the item's place may be replaced."""

    NOTHING = "nothing"
    UNTOUCHED = "untouched"
    ANYTHING = "anything"


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it is here: the hash of its text without signature lines, and that taken apart."""

    text_hash: str
    signed: SignedText


class Placing:
    """Writes pulled items to a space, and into its lock. ``key`` signs them anew, if given."""

    def __init__(self, space: Space, key: SigningKey | None = None) -> None:
        self.space, self._key = space, key
        self.lock = RegistryLock(space)

    def place(self, item: PulledItem, *, registry: str, now: str, replace: Replace) -> Placed:
        """Write the file and its lock entry. ``registry`` is the address, ``now`` a stamp.

        Raises LocalEditError, UnsafePathError, FileSystemError, RegistryLockError.
        """
        entries = self.lock.entries()  # one that cannot be read keeps the file from being written
        path = self.path(item)
        make_directory(path.parent)
        with locked(self.space.ai / "state" / "sign.lock"):
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
        """Where the item belongs. Raises UnsafePathError."""
        return safe_join(self.space.directory(item.ref.kind), f"{item.ref.id}{item.suffix}")

    def _write(
        self, item: PulledItem, path: Path, entry: LockEntry | None, replace: Replace
    ) -> Placed:
        other = _of_other_type(item, path)
        if other:
            raise LocalEditError(str(other), f"another file that is {item.ref} is here")
        data = self._data(item, path)
        try:
            existing = read_bytes(path, MAX_ITEM_BYTES)
        except FileNotFoundError:
            with suppress(FileExistsError):
                create_file(path, data)
                return Placed.WRITTEN
            raise LocalEditError(str(path), "appeared just now") from None
        if existing == data:
            return Placed.UNCHANGED
        state = file_state(existing, item.ref, path)
        is_same_text = state is not None and state.text_hash == item.text_hash
        if is_same_text and self._key is None:
            return Placed.UNCHANGED  # somebody here signed the same text: that stays
        was_pulled = state is not None and entry and state.text_hash == entry.text_hash
        may = is_same_text or (was_pulled and replace is not Replace.NOTHING)
        if not may and replace is not Replace.ANYTHING:
            problem = "expected to find what was pulled, or nothing; found another text"
            raise LocalEditError(str(path), problem)
        if not may:
            _keep(path, existing)
        write_atomic(path, data, expected=existing)
        return Placed.REPLACED

    def _data(self, item: PulledItem, path: Path) -> bytes:
        """The bytes of the file: as they came, or signed with the user's own key."""
        if self._key is None:
            return item.data
        kind = item.ref.kind
        target = SignTarget(path=path, kind=kind, space=self.space, ref=item.ref)
        signed = check_item(target, item.data)
        assert signed is not None  # noqa: S101 - `check_pulled` took no file without a line
        form = form_for(kind, item.suffix)
        return self._key.signed_text(kind, signed, form, str(path)).encode()


def file_state(data: bytes, ref: ItemRef, path: Path) -> FileState | None:
    """What an item file holds; None for one that is no item."""
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


def _keep(path: Path, data: bytes) -> None:
    """Keep a replaced file beside the new one, under a name that is free."""
    for name in _backup_names(path):
        with suppress(FileExistsError):
            create_file(name, data)
            return


def _backup_names(path: Path) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.bak")
    for number in count(2):
        yield path.with_name(f"{path.name}.{number}.bak")
