"""Whether what was pulled is still what is here. Nothing is asked of a registry."""

from enum import StrEnum
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import read_bytes, safe_join
from lillux.signing import verify_signature
from lillux.values import dataclass
from ryeos.items import Space
from ryeos.registry.lock import LockEntry
from ryeos.registry.pins import RegistryPin
from ryeos.registry.placing import FileState, file_state
from ryeos.signature import MAX_ITEM_BYTES, content_hash, hashed_text
from ryeos.verify import Target, Verifier


class State(StrEnum):
    """What became of a pulled item."""

    VALID = "valid"
    SIGNED_HERE = "signed-here"
    UNTRUSTED = "untrusted-key"
    EDITED = "edited"
    TAMPERED = "tampered"
    MISSING = "missing"
    UNPINNED = "unpinned"


FINE = frozenset({State.VALID, State.SIGNED_HERE, State.UNTRUSTED})
"""The text is what was pulled, and one says so whose word can be checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledState:
    """An entry of a lock, and its file.

    runs  whether the item's key counts where it is, so that it may be run
    """

    entry: LockEntry
    path: Path
    state: State
    runs: bool = False


def state_of(
    entry: LockEntry, space: Space, pins: tuple[RegistryPin, ...], verifier: Verifier
) -> PulledState:
    """How the file of an entry is now. ``pins`` are all of the user's. Raises UnsafePathError."""
    path = safe_join(space.ai, entry.path)
    try:
        data = read_bytes(path, MAX_ITEM_BYTES)
    except FileNotFoundError:
        return PulledState(entry=entry, path=path, state=State.MISSING)
    found = file_state(data, entry.ref, path)
    if found is None or found.text_hash != entry.text_hash:
        return PulledState(entry=entry, path=path, state=State.EDITED)
    runs = _runs(Target(path=path, kind=entry.ref.kind, space=space), verifier)
    state = _signed(entry, found, path, pins, runs=runs)
    return PulledState(entry=entry, path=path, state=state, runs=runs)


def _signed(
    entry: LockEntry, found: FileState, path: Path, pins: tuple[RegistryPin, ...], *, runs: bool
) -> State:
    """Who says that the text is the one that was pulled."""
    signature = found.signed.signature
    if signature is None or signature.fingerprint != entry.fingerprint:
        return State.SIGNED_HERE if runs else State.TAMPERED
    pin = next((one for one in pins if one.fingerprint == entry.fingerprint), None)
    if pin is None:
        return State.VALID if runs else State.UNPINNED
    try:
        covered = content_hash(hashed_text(entry.ref.kind, found.signed, str(path)))
    except LilluxError:
        return State.TAMPERED
    is_whole = covered == signature.content_hash
    if not is_whole or not verify_signature(covered, signature.value, pin.public_pem):
        return State.TAMPERED
    return State.VALID if runs else State.UNTRUSTED


def _runs(target: Target, verifier: Verifier) -> bool:
    try:
        return verifier.verify(target).verified
    except LilluxError:
        return False
