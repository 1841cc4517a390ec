"""Pinned keys of nodes and registries: trust on first use.

A pin is a key document in a folder of its own in user space, of the form that trusted keys have,
and no trusted key: it is not trusted to sign items (ADR 0007). Its owner is
``remote:NAME:HOST:PORT`` or ``registry:HOST:PORT``. Pins of nodes that other programs wrote among
the trusted keys are read too. What is different between nodes and registries is in
`ryeos.remote.peers`. Format: docs/remote.md, docs/registry.md.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from re import escape

from lillux.digests import sha256_hex
from lillux.errors import FileSystemError, LilluxError
from lillux.file_locks import locked
from lillux.files import file_system_error, make_directory, read_bytes, write_atomic
from lillux.patterns import pattern
from lillux.sealing import decode_box_key, encode_box_key
from lillux.signing import canonical_public_pem, compute_key_digest
from lillux.values import dataclass, field, replace
from ryeos.items.errors import RyeError
from ryeos.items.refs import AI_DIRECTORY, USER, Space, user_lock
from ryeos.remote.errors import pin_error
from ryeos.remote.identity import NodeIdentity, decode_public_key, encode_public_key
from ryeos.remote.peers import NODE, REGISTRY, PeerRules
from ryeos.trust.keys import verifies_with
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.store import (
    FINGERPRINT_DIGITS,
    MAX_DOCUMENT_BYTES,
    TRUSTED_FOLDER,
    KeyDocument,
    document_path,
    parse_key_document,
    write_key_document,
)

_OWNER = pattern(r"remote:(?P<name>[A-Za-z0-9][A-Za-z0-9._-]{0,63}):(?P<node>\S+)|registry:(.*)")
_UNSAFE = pattern(r"[^A-Za-z0-9.-]")
_NAME_DIGITS = 16
_LOG = logging.getLogger(__name__)


class PinState(StrEnum):
    """What was known of a peer before it was asked."""

    NEW = "new"
    KNOWN = "known"


class PinMismatchError(RyeError):
    """A peer is not the one that it was, or not the one that the configuration names.

    ``pinned`` and ``found`` are fingerprints, or box keys in the form of ``box_pub.pem`` where the
    node is the same and its box key another; nothing but the question who it is was sent.
    ``followed_at`` is when the pinned key signed that the found one takes its place, or "".
    """

    code = "PIN_MISMATCH"

    def __init__(
        self,
        peer: PeerRules,
        name: str,
        netloc: str,
        *,
        pinned: str,
        found: str,
        by: str,
        part: str = "",
        followed_at: str = "",
    ) -> None:
        self.name, self.netloc, self.pinned, self.found = name, netloc, pinned, found
        self.facts = {"pinned": pinned, "found": found}
        if peer is NODE:
            self.facts["pin"] = by
        if followed_at:
            self.facts["followed_at"] = followed_at
        doubt = (
            f"the pinned key signed on {followed_at} that this one takes its place; unless that"
            " key was stolen, accept it:"
            if followed_at
            else f"{peer.doubt}; if you know that it has a new key:"
        )
        part = part or peer.key_word
        way_out = peer.repin.format(name=name, found=found)
        if by == "node_id":
            way_out = f"change node_id of {name} in remotes.yaml"
        super().__init__(
            f"{peer.word} {name} ({netloc}): expected the {part}{pinned},"
            f" found {part.rpartition(' ')[2]}{found}",
            hint=f"{doubt} {way_out}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A peer that was spoken to at an address.

    name        that a node was spoken to under; ``""`` where names share a pin
    public_pem  its key, as canonical PEM; ``digest`` is 64 hex digits of it, ``fingerprint`` the
                first 16 of them
    second_key  its other key on the wire: what is sealed for a node is sealed to, or what a
                registry is known by; ``""`` where the pin was written without one
    """

    name: str = ""
    netloc: str
    public_pem: bytes = field(repr=False)
    second_key: str = ""
    path: Path
    state: PinState = PinState.KNOWN

    @property
    def digest(self) -> str:
        """What a pin is compared by."""
        return compute_key_digest(self.public_pem)

    @property
    def fingerprint(self) -> str:
        """To be shown."""
        return self.digest[:FINGERPRINT_DIGITS]

    @property
    def identity_pem(self) -> bytes:
        """The key that a registry is known by; ``b""`` for one that has shown none."""
        return decode_public_key(self.second_key, "identity") if self.second_key else b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownKeys:
    """What a peer shows of itself. ``second_key`` may ask it for that one; see `Pin`.

    ``followed_at`` says when a former key signed that this one takes its place, "" for never.
    """

    public_pem: bytes
    second_key: Callable[[], str]
    followed_at: Callable[[str], str] = lambda _: ""


class PeerPins:
    """The pins of a user. ``user_space`` holds ``.ai``; ``key`` signs new pins, if there is one."""

    def __init__(self, peer: PeerRules, user_space: Path, key: SigningKey | None = None) -> None:
        self._peer, self._key = peer, key
        self._user = Space(USER, user_space)
        self._folder = user_space / AI_DIRECTORY / peer.pins_folder
        self._lock = user_lock(user_space / AI_DIRECTORY, peer.pins_folder)

    def compare(
        self, name: str, netloc: str, shown: ShownKeys, expected: str = "", *, by: str = ""
    ) -> Pin:
        """The pin of a peer that shows these keys; one that is new is pinned.

        ``expected`` is the fingerprint that the configuration or a person names, ``by`` which of
        them. A pin of a node without a box key gets the one of now.

        Raises PinMismatchError, RyeError `INTEGRITY`, PemError, FileSystemError.
        """
        mismatch = partial(PinMismatchError, self._peer, name, netloc)
        digest = compute_key_digest(shown.public_pem)
        found = digest[:FINGERPRINT_DIGITS]
        if expected and expected != found:
            when = shown.followed_at(expected)
            raise mismatch(pinned=expected, found=found, by=by, followed_at=when)
        known = self.find(name, netloc)  # without a write, which a read-only home would refuse
        pin = known
        if pin is None or self._is_to_complete(pin, digest):
            is_certain = bool(expected or pin)
            pin = self._pinned(name, netloc, shown, is_certain=is_certain)
        if pin.digest != digest:
            when = shown.followed_at(pin.digest)
            by = str(pin.path)
            raise mismatch(pinned=pin.fingerprint, found=found, by=by, followed_at=when)
        second_key = shown.second_key() if self._peer.holds_second else pin.second_key
        if pin.second_key != second_key:
            by, part = str(pin.path), f"{self._peer.second_key.replace('_', ' ')} "
            raise mismatch(pinned=pin.second_key, found=second_key, by=by, part=part)
        return replace(pin, state=PinState.KNOWN if known else PinState.NEW)

    def find(self, name: str, netloc: str) -> Pin | None:
        """What is pinned: in a file of ours, else among the trusted keys.

        Raises RyeError `INTEGRITY`.
        """
        path = self._path(name, netloc)
        forget = f"rye {self._peer.word} forget {name}"
        try:
            data = read_bytes(path, MAX_DOCUMENT_BYTES)
        except FileNotFoundError:
            return next((one for one in self._foreign() if self._is_of(one, name, netloc)), None)
        try:
            document = parse_key_document(data, str(path))
            pin = self._pin(document, name, netloc, path)
        except LilluxError as error:
            raise pin_error(path, str(error), forget) from error
        if document.owner != self._owner(name, netloc):
            raise pin_error(path, f"the pin of another {self._peer.word}", forget)
        if not self._holds(document):
            raise pin_error(path, "changed since it was signed", forget)
        return pin

    def forget(self, name: str, netloc: str = "") -> tuple[Path, ...]:
        """Remove pins, also those that cannot be read; the files that were there.

        All of a name, or that of an address where names share one. Raises FileSystemError.
        """
        if self._peer.names_share:
            paths = [self._path(name, netloc)]
        else:
            own = pattern(rf"{escape(name)}-[0-9a-f]{{{_NAME_DIGITS}}}\.toml")
            paths = [path for path in _toml_files(self._folder) if own.fullmatch(path.name)]
            paths += [pin.path for pin in self._foreign() if pin.name == name]
        return tuple(path for path in paths if _remove(path))

    def list(self) -> tuple[Pin, ...]:
        """Every pin that can be read, by name and address."""
        found: dict[tuple[str, str], Pin] = {}
        for path in (*_toml_files(self._folder), *self._trusted_files()):
            pin = self._pin_in(path)
            if pin:
                found.setdefault((pin.name, pin.netloc), pin)
        return tuple(found[key] for key in sorted(found))

    def _pinned(self, name: str, netloc: str, shown: ShownKeys, *, is_certain: bool) -> Pin:
        """The pin of a peer that had none, or half a one: this one's, or an earlier process's.

        ``is_certain``: the configuration or half a pin says the same, so the pin of a node counts
        even where it cannot be written.
        """
        new = Pin(
            name="" if self._peer.names_share else name,
            netloc=netloc,
            public_pem=canonical_public_pem(shown.public_pem),
            second_key=shown.second_key(),
            path=self._path(name, netloc),
        )
        try:
            make_directory(self._folder, mode=0o700)
            with locked(self._lock):
                known = self.find(name, netloc)
                if known is None or self._is_to_complete(known, new.digest):
                    self._write(new, self._owner(name, netloc))
                # Read back: where no lock holds, another process may have been faster.
                return self.find(name, netloc) or new
        except FileSystemError as error:
            if self._peer.needs_pin_file or not is_certain:
                raise
            _LOG.warning("remote %s is not pinned, or not its box key: %s", name, error)
            return new

    def _is_to_complete(self, pin: Pin, digest: str) -> bool:
        """Whether it is this peer's and lacks a key: an older version's, or another program's."""
        return self._peer.holds_second and not pin.second_key and pin.digest == digest

    def _holds(self, document: KeyDocument) -> bool:
        """True if its signature, if it has one, is right and by a key of the user's own space."""
        if document.signature is None:
            return True
        if self._key and document.signature.fingerprint == self._key.fingerprint:
            return verifies_with(document, self._key.public_pem)
        signer = _read_document(document_path(self._user, document.signature.fingerprint))
        return signer is not None and verifies_with(document, signer.public_pem)

    def _foreign(self) -> Iterator[Pin]:
        """Those that other programs keep among the trusted keys."""
        for path in self._trusted_files():
            pin = self._pin_in(path)
            if pin and path.stem == pin.fingerprint:
                yield pin

    def _trusted_files(self) -> Sequence[Path]:
        """Where other programs keep pins of nodes; none keeps one of a registry there."""
        return () if self._peer.names_share else _toml_files(self._user.ai / TRUSTED_FOLDER)

    def _write(self, pin: Pin, owner: str) -> None:
        text = write_key_document(pin.public_pem, owner, covers_all=False)
        text = text.replace('"keys/trusted"', f'"{self._peer.pin_category}"', 1)
        if pin.second_key:
            line = f'{self._peer.second_key} = "{pin.second_key}"'
            text = text.replace("\n[public_key]", f"{line}\n\n[public_key]", 1)
        if self._key:
            text = self._key.signed_config(text, pin.path)
        write_atomic(pin.path, text.encode(), mode=0o600)

    def _path(self, name: str, netloc: str) -> Path:
        hashed = netloc if self._peer.names_share else self._owner(name, netloc)
        shown = _UNSAFE.sub("-", netloc)[:80] if self._peer.names_share else name
        return self._folder / f"{shown}-{sha256_hex(hashed.encode())[:_NAME_DIGITS]}.toml"

    def _owner(self, name: str, netloc: str) -> str:
        return f"{self._peer.word}:{netloc if self._peer.names_share else f'{name}:{netloc}'}"

    def _is_of(self, pin: Pin, name: str, netloc: str) -> bool:
        return self._owner(pin.name, pin.netloc) == self._owner(name, netloc)

    def _pin_in(self, path: Path) -> Pin | None:
        """The pin in a file, None where it is the document of something else."""
        document = _read_document(path)
        match = _OWNER.fullmatch(document.owner) if document else None
        if document is None or match is None:
            return None
        name, netloc = (match["name"], match["node"]) if match["name"] else ("", match[3])
        if self._owner(name, netloc) != document.owner:  # of the other kind
            return None
        try:
            return self._pin(document, name, netloc, path)
        except LilluxError:
            return None

    def _pin(self, document: KeyDocument, name: str, netloc: str, path: Path) -> Pin:
        """The pin in a document. Raises SealingError, IdentityError for an invalid second key."""
        from ryeos.items.toml import parse_toml

        second = parse_toml(document.signed_text).get(self._peer.second_key)
        return Pin(
            name="" if self._peer.names_share else name,
            netloc=netloc,
            public_pem=document.public_pem,
            second_key="" if second is None else _READERS[self._peer.second_key](second),
            path=path,
        )


_READERS: Mapping[str, Callable[[object], str]] = {
    "box_key": lambda found: encode_box_key(decode_box_key(str(found))),
    "identity": lambda found: encode_public_key(decode_public_key(found, "identity")),
}


class Pins(PeerPins):
    """The pins of nodes."""

    def __init__(self, user_space: Path, key: SigningKey | None = None) -> None:
        super().__init__(NODE, user_space, key)

    def check(
        self, name: str, netloc: str, identity: NodeIdentity, *, expected: str | None
    ) -> PinState:
        """Pin a node that is new; ``expected`` is the id that the configuration names, if any.

        Raises as `PeerPins.compare`.
        """
        box_key = encode_box_key(identity.box_public)
        shown = ShownKeys(
            public_pem=identity.public_key_pem,
            second_key=lambda: box_key,
            followed_at=identity.followed_at,
        )
        wanted = (expected or "").removeprefix("fp:")
        return self.compare(name, netloc, shown, wanted, by="node_id").state


class RegistryPins(PeerPins):
    """The pins of registries. Two names for one address share one."""

    def __init__(self, user_space: Path, key: SigningKey | None = None) -> None:
        super().__init__(REGISTRY, user_space, key)

    def check(
        self,
        name: str,
        netloc: str,
        public_pem: bytes,
        expected: str = "",
        *,
        identity: Callable[[], bytes] = lambda: b"",
    ) -> Pin:
        """The pin of a registry that shows this key; one that is new is pinned.

        ``identity`` asks for the other key, where the pin has none yet. Raises as
        `PeerPins.compare`.
        """

        def second_key() -> str:
            pem = identity()
            return encode_public_key(pem) if pem else ""

        shown = ShownKeys(public_pem=public_pem, second_key=second_key)
        return self.compare(name, netloc, shown, expected)


def _read_document(path: Path) -> KeyDocument | None:
    try:
        return parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
    except (OSError, LilluxError):
        return None


def _toml_files(folder: Path) -> list[Path]:
    try:
        return sorted(
            Path(entry.path) for entry in os.scandir(folder) if entry.name[-5:] == ".toml"
        )
    except OSError:
        return []


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise file_system_error(path, error) from error
    return True
