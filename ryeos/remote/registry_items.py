"""Validates an item from a registry before it is written or used. Pure.

(1) it is the item and the version that were asked for
(2) its file type is one of its kind, with a signature line of its own
(3) it is signed: by the pinned key, for the account that is named as its author
(4) the hash is that of its text, the signature and the covers line hold
(5) the registry attests that it is that item, by that author: `verify_item_attestation`
(6) its own header names the same category, name and version, so that nothing else's signature and
    no older version passes for it
"""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from lillux.digests import compute_integrity, sha256_hex
from lillux.errors import LilluxError
from lillux.files import create_file, locked, make_directory, read_bytes, safe_join, write_atomic
from lillux.signing import compute_key_fingerprint, verify_signature
from lillux.values import dataclass, field
from ryeos.items.errors import ItemValidationError, RyeError, UnsupportedError
from ryeos.items.headers import own_version
from ryeos.items.refs import (
    PROJECT,
    SYSTEM,
    ItemRef,
    Kind,
    Reference,
    Resolution,
    Space,
    parse_reference,
)
from ryeos.items.replaced import keep_replaced
from ryeos.remote.pins import Pin
from ryeos.remote.registry_settings import (
    LocalEditError,
    RegistryIdError,
    published_ref,
    pulled_item_error,
    valid_version,
)
from ryeos.remote.replies import BundleReply, PulledReply
from ryeos.remote.requests import verify_document
from ryeos.trust.file_types import extract
from ryeos.trust.keys import SigningKey
from ryeos.trust.sign import SignTarget, validate_item
from ryeos.trust.signature import (
    DETACHED_SUFFIXES,
    FORMS,
    MAX_ITEM_BYTES,
    Covers,
    Signature,
    SignedText,
    content_hash,
    decode,
    form_for,
    hashed_text,
    needs_covers,
    split,
)
from ryeos.trust.verify import Target, VerifiedItem, Verifier

# --- pulled ---------------------------------------------------------------------------------------

PROVIDER = "rye-registry"
_NOWHERE = Space(PROJECT, Path())
_GUESSED = {Kind.DIRECTIVE: (".md",), Kind.KNOWLEDGE: (".md",), Kind.TOOL: (".py", ".yaml", ".sh")}


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledItem:
    """An item that the pinned registry signed.

    text_hash   of the text without signature lines, for any signer: what a lock keeps
    covers_all  whether the signature covers all of it
    """

    ref: ItemRef
    version: str
    suffix: str
    data: bytes = field(repr=False)
    text_hash: str
    author: str
    fingerprint: str
    covers_all: bool
    created_at: str = ""
    description: str = ""


def verify_pulled(reply: PulledReply, ref: ItemRef, pin: Pin, *, version: str = "") -> PulledItem:
    """The item of a reply. ``version`` is the one that was asked for, if any.

    Raises RyeError `INTEGRITY`, whatever is wrong with it.
    """
    what = f"{ref} {reply.version[:20]!a} from {pin.netloc}"
    if (reply.item_type, reply.item_id) != (ref.kind.value, ref.id):  # (1)
        found = f"{reply.item_type[:20]}:{reply.item_id[:200]}"
        raise pulled_item_error(what, f"expected that item, found {found!a}")
    if version and reply.version != version:
        raise pulled_item_error(what, f"expected version {version}")
    data = reply.content.encode()
    if len(data) > MAX_ITEM_BYTES:
        raise pulled_item_error(what, f"expected at most {MAX_ITEM_BYTES} bytes, found {len(data)}")
    suffix, signed = _taken_apart(reply, ref, what)  # (2)
    signature = _signature(signed, reply, pin, what)  # (3)
    try:
        covered = content_hash(hashed_text(ref.kind, signed, what))
    except LilluxError as error:
        raise pulled_item_error(what, str(error)) from error
    if signature.content_hash != covered:  # (4)
        raise pulled_item_error(what, "changed since the registry signed it")
    _verify_value(covered, signature.value, pin, what)
    covers_all = _verify_covers(signed, ref, pin, what)
    verify_item_attestation(reply, ref, pin, what)  # (5)
    header = _checked_header(ref, suffix, signed, reply.version, what)  # (6)
    description = header.get("description") or header.get("title")
    return PulledItem(
        ref=ref,
        version=reply.version,
        suffix=suffix,
        data=data,
        text_hash=text_hash(signed),
        author=reply.author,
        fingerprint=pin.fingerprint,
        covers_all=covers_all,
        created_at=reply.created_at,
        description=description if isinstance(description, str) else "",
    )


def _taken_apart(reply: PulledReply, ref: ItemRef, what: str) -> tuple[str, SignedText]:
    """The type of its file, and its text; a registry that names none leaves it to be found out."""
    known = [one for one in FORMS[ref.kind] if one not in DETACHED_SUFFIXES]
    if reply.suffix and reply.suffix not in known:
        raise pulled_item_error(
            what, f"suffix: expected one of {', '.join(known)}, found {reply.suffix[:20]!a}"
        )
    problem: LilluxError | None = None
    for suffix in (reply.suffix,) if reply.suffix else _GUESSED[ref.kind]:
        target = _target(ref, suffix)
        try:
            signed = validate_item(target, reply.content.encode()).signed
        except LilluxError as error:
            problem = problem or error
            continue
        if signed is not None:
            return suffix, signed
    said = "; ".join(problem.details) if isinstance(problem, ItemValidationError) else problem
    raise pulled_item_error(what, f"not such an item: {said}")


def _target(ref: ItemRef, suffix: str) -> SignTarget:
    path = Path(".ai", ref.kind.directory, f"{ref.id}{suffix}")
    return SignTarget(path=path, kind=ref.kind, space=_NOWHERE, ref=ref)


def _signature(signed: SignedText, reply: PulledReply, pin: Pin, what: str) -> Signature:
    signature = signed.signature
    if signature is None:
        raise pulled_item_error(what, "expected the registry's signature, found none")
    if signature.fingerprint != pin.fingerprint:
        raise pulled_item_error(
            what, f"expected the registry's key {pin.fingerprint}, found {signature.fingerprint}"
        )
    provider, _, author = signature.provenance.partition("@")
    if provider != PROVIDER or author != reply.author:
        found = signature.provenance or "none"
        raise pulled_item_error(
            what, f"expected the provenance {PROVIDER}@{reply.author[:60]}, found {found}"
        )
    return signature


def _verify_covers(signed: SignedText, ref: ItemRef, pin: Pin, what: str) -> bool:
    """Whether all of the text is covered: by the one line, or by two."""
    if not needs_covers(ref.kind, signed.body):
        return True
    covers: Covers | None = signed.covers
    if covers is None:
        return False
    is_whole = covers.content_hash == content_hash(signed.covered)
    if covers.fingerprint != pin.fingerprint or not is_whole:
        raise pulled_item_error(what, "changed since the registry signed it (outside of the block)")
    _verify_value(covers.content_hash, covers.value, pin, what)
    return True


def _verify_value(covered: str, value: str, pin: Pin, what: str) -> None:
    if not verify_signature(covered, value, pin.public_pem):
        raise pulled_item_error(what, f"the signature of {pin.fingerprint} does not hold")


def _checked_header(
    ref: ItemRef, suffix: str, signed: SignedText, version: str, what: str
) -> dict[str, object]:
    """Its metadata, which `validate_item` has compared with its place already."""
    text = signed.shebang + signed.body
    header = extract(ref.kind, suffix, text, what)
    own = own_version(header, suffix, text)
    if own != version and not (own is None and suffix == ".sh"):
        raise pulled_item_error(what, f"its own text says version {own!r:.40}")
    return header


def text_hash(signed: SignedText) -> str:
    """SHA-256 of a text without its signature lines: all of it, and the same for every signer."""
    return content_hash(signed.shebang + signed.body)


# --- publishing -----------------------------------------------------------------------------------
# An item of the user's own, as it is sent to a registry.


class Loader(Protocol):
    """Finds items and verifies them. See `ryeos.app.workspace.Rye`."""

    def load(self, reference: Reference, *, source: str = "") -> tuple[Resolution, VerifiedItem]:
        """The verified item that a reference names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """What will be published: verified here, the registry validates it once more."""

    ref: ItemRef
    version: str
    suffix: str
    content: str = field(repr=False)
    path: str


def draft_of(
    loader: Loader, reference: Reference, *, source: str, version: str = ""
) -> Publication:
    """The item that a reference names. ``version`` must be what its own text says, if it is given.

    Raises RegistryIdError, ItemNotFoundError, IntegrityError, UnsupportedError.
    """
    resolution, item = loader.load(reference, source=source)
    location = resolution.location
    if location.space.tier == SYSTEM:
        raise UnsupportedError(
            f"{location.ref}: an item of the bundle {location.space.bundle_id} is not yours to"
            " publish",
            hint="copy it with: rye load REF --to project, and give it an id of your own",
        )
    ref = published_ref(Reference(location.ref.kind, location.ref.id))
    header = item.header or extract(ref.kind, location.suffix, item.text, str(location.path))
    own = header.get("version")
    if not isinstance(own, str) and not version:
        raise RegistryIdError(str(ref), "expected a version in its text, or --release, found none")
    if version and isinstance(own, str) and own != version:
        raise RegistryIdError(version, f"its own text says version {own}")
    return Publication(
        ref=ref,
        version=valid_version(version or str(own)),
        suffix=location.suffix,
        content=item.text,
        path=str(location.path),
    )


# --- lock -----------------------------------------------------------------------------------------
# What a space has pulled from registries: ``.ai/lockfiles/registry.lock.json``.
#
# An entry pins an item to a version, the hash of the text that the registry signed, and the key
# that signed it. It travels with the project; what it says is compared and shown, never obeyed: an
# address in it is spoken to only if the user's own configuration names it too. Format:
# docs/registry.md.

LOCK_NAME = "lockfiles/registry.lock.json"
LOCK_VERSION = 1
MAX_LOCK_BYTES = 4 * 1024 * 1024
_HASH = re.compile(r"[0-9a-f]{64}")
_FINGERPRINT = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEntry:
    """What was pulled.

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


# --- placing --------------------------------------------------------------------------------------
# A pulled item becomes a file of a space. What a user changed here is never replaced silently.


class PlacementState(StrEnum):
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


class ItemPlacer:
    """Writes pulled items to a space, and into its lock. ``key`` signs them anew, if given."""

    def __init__(self, space: Space, user: Space, key: SigningKey | None = None) -> None:
        """``user`` is the user space, which keeps what is replaced."""
        self.space, self._user, self._key = space, user, key
        self.lock = RegistryLock(space)
        self.kept: Path | None = None
        """Where user space keeps what `place` replaced last."""

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
        """Where the item belongs. Raises UnsafePathError."""
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


# --- states ---------------------------------------------------------------------------------------
# Whether what was pulled is still what is here. Nothing is asked of a registry.


class PulledStatus(StrEnum):
    """What became of a pulled item."""

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
    """How the file of an entry is now. ``pins`` are all of the user's. Raises UnsafePathError."""
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
    """Who attests that the text is the one that was pulled."""
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


# --- attestations ---------------------------------------------------------------------------------
# What a registry says about what it sends, signed: which item and version it is, and whose. Pure.
#
# The signature of a text covers neither its name nor its author. The key that the registry is known
# by, another one, signs a document about each answer (docs/registry.md); the pin has that key too.

ITEM, BUNDLE = "registry-item/v1", "registry-bundle/v1"


def verify_item_attestation(reply: PulledReply, ref: ItemRef, pin: Pin, what: str) -> None:
    """Refuse an item that the registry does not say is this one. Raises RyeError `INTEGRITY`.

    A registry whose pin has no key for it attests nothing.
    """
    said = {
        "kind": ITEM,
        "item_type": ref.kind.value,
        "item_id": ref.id,
        "version": reply.version,
        "suffix": reply.suffix,
        "sha256": sha256_hex(reply.content.encode()),
        "author": reply.author,
        "signed_by": f"fp:{pin.fingerprint}",
    }
    _check(reply.attestation, said, pin, what)


def verify_bundle_attestation(reply: BundleReply, pin: Pin) -> None:
    """As `verify_item_attestation`, for a bundle and all its files."""
    files = {path: sha256_hex(content.encode()) for path, content in reply.files.items()}
    said = {
        "kind": BUNDLE,
        "bundle_id": reply.bundle_id,
        "version": reply.version,
        "content_hash": compute_integrity({"manifest": reply.manifest, "files": files}),
        "author": reply.author,
    }
    what = f"bundle {reply.bundle_id[:80]} {reply.version[:20]!a} from {pin.netloc}"
    _check(reply.attestation, said, pin, what)


def _check(document: object, said: Mapping[str, str], pin: Pin, what: str) -> None:
    if not pin.identity_pem:
        return
    if not isinstance(document, Mapping):
        raise pulled_item_error(what, "expected what the registry attests, found nothing")
    attested: Mapping[str, Any] = document
    expected = {**said, "registry": f"fp:{compute_key_fingerprint(pin.identity_pem)}"}
    for name, value in expected.items():
        if attested.get(name) != value:
            raise pulled_item_error(
                what, f"the registry attests another {name}: {str(attested.get(name))[:80]!a}"
            )
    try:
        verify_document(attested, pin.identity_pem)
    except LilluxError as error:
        raise pulled_item_error(what, f"attestation: {error}") from error
