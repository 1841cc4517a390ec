"""Which key a registry had the first time it was spoken to: trust on first use.

A pin is a key document below ``<user>/.ai/node/registry-pins``, of the form that trusted keys have,
and no trusted key: it makes nobody a signer of items. Its owner is ``registry:HOST:PORT``, so that
two names for one address share it. Format: docs/registries.md.
"""

import os
import re
from enum import StrEnum
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import file_system_error, make_directory, read_bytes, write_atomic
from lillux.signing import canonical_public_pem, compute_key_fingerprint
from lillux.values import dataclass, field
from ryeos.items import AI_DIRECTORY, USER, Kind, Space
from ryeos.keys import verifies_with
from ryeos.registry.errors import RegistryPinMismatchError, RegistryPinUnreadableError
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
    """The key that a registry has. ``public_pem`` is canonical."""

    netloc: str
    fingerprint: str
    public_pem: bytes = field(repr=False)
    path: Path
    state: PinState = PinState.KNOWN


class RegistryPins:
    """The pins of a user. ``user_space`` holds ``.ai``; ``key`` signs new pins, if there is one."""

    def __init__(self, user_space: Path, key: SigningKey | None = None) -> None:
        self._user = Space(USER, user_space)
        self._key = key
        self._folder = user_space / AI_DIRECTORY / PINS_FOLDER

    def check(self, name: str, netloc: str, public_pem: bytes, expected: str = "") -> RegistryPin:
        """The pin of a registry that shows this key; one that is new is pinned.

        ``expected`` is the fingerprint that the configuration or a person names, if any. Raises
        RegistryPinMismatchError, RegistryPinUnreadableError, PemError, FileSystemError.
        """
        found = compute_key_fingerprint(public_pem)
        if expected and expected != found:
            raise RegistryPinMismatchError(name, netloc, pinned=expected, found=found)
        known = self.find(name, netloc)  # without a write, which a read-only home would refuse
        pin = known or self._pinned(name, netloc, public_pem)
        if pin.fingerprint != found:
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
        except LilluxError as error:
            raise RegistryPinUnreadableError(str(path), str(error), name) from error
        if document.owner != _OWNER + netloc:
            raise RegistryPinUnreadableError(str(path), "the pin of another registry", name)
        if not self._holds(document):
            raise RegistryPinUnreadableError(str(path), "changed since it was signed", name)
        return _pin(document, netloc, path)

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
            except (OSError, LilluxError):
                continue
            if document.owner.startswith(_OWNER):
                pins.append(_pin(document, document.owner.removeprefix(_OWNER), path))
        return tuple(sorted(pins, key=lambda pin: pin.netloc))

    def _pinned(self, name: str, netloc: str, public_pem: bytes) -> RegistryPin:
        make_directory(self._folder, mode=0o700)
        with locked(self._folder / ".lock"):
            known = self.find(name, netloc)
            if known:
                return known
            self._write(netloc, public_pem)
        return RegistryPin(
            netloc=netloc,
            fingerprint=compute_key_fingerprint(public_pem),
            public_pem=canonical_public_pem(public_pem),
            path=self._path(netloc),
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

    def _write(self, netloc: str, public_pem: bytes) -> None:
        text = write_key_document(public_pem, _OWNER + netloc, covers_all=False)
        text = text.replace('"keys/trusted"', '"registry/pins"', 1)
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
    return RegistryPin(
        netloc=netloc,
        fingerprint=document.fingerprint,
        public_pem=document.public_pem,
        path=path,
    )
