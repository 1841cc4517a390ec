"""Which key a registry had the first time it was spoken to: trust on first use.

A pin is a key document below ``<user>/.ai/node/registry-pins``, of the form that trusted keys have,
and no trusted key: it makes nobody a signer of items. Its owner is ``registry:HOST:PORT``, so that
two names for one address share it. Format: docs/registries.md.
"""

import os
import re
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.files import file_system_error, locked, make_directory, read_bytes, write_atomic
from lillux.signing import canonical_public_pem, compute_key_fingerprint
from lillux.values import dataclass, field
from ryeos.items import AI_DIRECTORY, USER, Kind, Space
from ryeos.keys import verifies_with
from ryeos.registry.errors import RegistryPinMismatchError, RegistryPinUnreadableError
from ryeos.remote.identity import decode_public_key, encode_public_key
from ryeos.signature import SignedText, form_for
from ryeos.signing_key import SigningKey
from ryeos.trust import (
    MAX_DOCUMENT_BYTES,
    KeyDocument,
    document_path,
    parse_key_document,
    write_key_document,
)

PINS_FOLDER = "node/registry-pins"
_OWNER = "registry:"
_NAME_DIGITS = 16
_UNSAFE = re.compile(r"[^A-Za-z0-9.-]")


class PinState(StrEnum):
    """What was known of a registry before it was asked."""

    NEW = "new"
    KNOWN = "known"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPin:
    """The keys that a registry has, as canonical PEM.

    public_pem    signs what is published
    identity_pem  is what the registry is known by, and signs what it says about that; ``b""`` for
                  one that has shown none
    """

    netloc: str
    fingerprint: str
    public_pem: bytes = field(repr=False)
    path: Path
    identity_pem: bytes = field(default=b"", repr=False)
    state: PinState = PinState.KNOWN


class RegistryPins:
    """The pins of a user. ``user_space`` holds ``.ai``; ``key`` signs new pins, if there is one."""

    def __init__(self, user_space: Path, key: SigningKey | None = None) -> None:
        self._user = Space(USER, user_space)
        self._key = key
        self._folder = user_space / AI_DIRECTORY / PINS_FOLDER

    def check(
        self,
        name: str,
        netloc: str,
        public_pem: bytes,
        expected: str = "",
        *,
        identity: Callable[[], bytes] = lambda: b"",
    ) -> RegistryPin:
        """The pin of a registry that shows this key; one that is new is pinned.

        ``expected`` is the fingerprint that the configuration or a person names, if any.
        ``identity`` asks for the other key, where the pin has none yet. Raises
        RegistryPinMismatchError, RegistryPinUnreadableError, PemError, FileSystemError.
        """
        found = compute_key_fingerprint(public_pem)
        if expected and expected != found:
            raise RegistryPinMismatchError(name, netloc, pinned=expected, found=found)
        known = self.find(name, netloc)  # without a write, which a read-only home would refuse
        if known and known.fingerprint != found:
            raise RegistryPinMismatchError(name, netloc, pinned=known.fingerprint, found=found)
        pin = known or self._pinned(name, netloc, public_pem, identity())
        if pin.fingerprint != found:  # somebody else was faster
            raise RegistryPinMismatchError(name, netloc, pinned=pin.fingerprint, found=found)
        return pin

    def find(self, name: str, netloc: str) -> RegistryPin | None:
        """What is pinned for an address. Raises RegistryPinUnreadableError."""
        path = self._path(netloc)
        try:
            data = read_bytes(path, MAX_DOCUMENT_BYTES)
        except FileNotFoundError:
            return None
        try:
            document = parse_key_document(data, str(path))
            pin = _pin(document, netloc, path)
        except LilluxError as error:
            raise RegistryPinUnreadableError(str(path), str(error), name) from error
        if document.owner != _OWNER + netloc:
            raise RegistryPinUnreadableError(str(path), "the pin of another registry", name)
        if not self._holds(document):
            raise RegistryPinUnreadableError(str(path), "changed since it was signed", name)
        return pin

    def forget(self, netloc: str) -> Path | None:
        """Remove the pin of an address; None if there is none. Raises FileSystemError."""
        path = self._path(netloc)
        try:
            path.unlink()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise file_system_error(path, error) from error
        return path

    def list(self) -> tuple[RegistryPin, ...]:
        """Every pin that can be read, by address."""
        pins = []
        try:
            names = sorted(entry.name for entry in os.scandir(self._folder))
        except OSError:
            names = []
        for name in names:
            path = self._folder / name
            try:
                document = parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
                pin = _pin(document, document.owner.removeprefix(_OWNER), path)
            except (OSError, LilluxError):
                continue
            if document.owner.startswith(_OWNER):
                pins.append(pin)
        return tuple(sorted(pins, key=lambda pin: pin.netloc))

    def _pinned(
        self, name: str, netloc: str, public_pem: bytes, identity_pem: bytes
    ) -> RegistryPin:
        make_directory(self._folder, mode=0o700)
        with locked(self._folder / ".lock"):
            known = self.find(name, netloc)
            if known:
                return known
            self._write(netloc, public_pem, identity_pem)
        return RegistryPin(
            netloc=netloc,
            fingerprint=compute_key_fingerprint(public_pem),
            public_pem=canonical_public_pem(public_pem),
            path=self._path(netloc),
            identity_pem=identity_pem,
            state=PinState.NEW,
        )

    def _holds(self, document: KeyDocument) -> bool:
        """Whether its signature, if it has one, is right and by a key of the user's own space."""
        if document.signature is None:
            return True
        if self._key and document.signature.fingerprint == self._key.fingerprint:
            return verifies_with(document, self._key.public_pem)
        path = document_path(self._user, document.signature.fingerprint)
        try:
            signer = parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
        except (OSError, LilluxError):
            return False
        return verifies_with(document, signer.public_pem)

    def _write(self, netloc: str, public_pem: bytes, identity_pem: bytes) -> None:
        text = write_key_document(public_pem, _OWNER + netloc, covers_all=False)
        text = text.replace('"keys/trusted"', '"registry/pins"', 1)
        if identity_pem:
            line = f'identity = "{encode_public_key(identity_pem)}"'
            text = text.replace("\n[public_key]", f"{line}\n\n[public_key]", 1)
        path = self._path(netloc)
        if self._key:
            body = SignedText(shebang="", signature=None, covers=None, body=text)
            form = form_for(Kind.CONFIG, ".toml")
            text = self._key.signed_text(Kind.CONFIG, body, form, str(path))
        write_atomic(path, text.encode(), mode=0o600)

    def _path(self, netloc: str) -> Path:
        digest = sha256_hex(netloc.encode())[:_NAME_DIGITS]
        return self._folder / f"{_UNSAFE.sub('-', netloc)[:80]}-{digest}.toml"


def _pin(document: KeyDocument, netloc: str, path: Path) -> RegistryPin:
    """The pin in a document. Raises IdentityError for another key that is none."""
    from ryeos.metadata.toml import parse_toml

    identity = parse_toml(document.signed_text).get("identity")
    return RegistryPin(
        identity_pem=b"" if identity is None else decode_public_key(identity, "identity"),
        netloc=netloc,
        fingerprint=document.fingerprint,
        public_pem=document.public_pem,
        path=path,
    )
