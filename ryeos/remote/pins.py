"""Pinned keys of nodes: trust on first use.

A pin is a key document below ``<user>/.ai/node/pins``, of the form that trusted keys have, and no
trusted key: it is not trusted to sign items (ADR 0007). Its owner is ``remote:NAME:HOST:PORT``.
Pins that other programs wrote among the trusted keys are read too. Format: docs/remote.md.
"""

import logging
import os
import re
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from lillux.digests import sha256_hex
from lillux.errors import FileSystemError, LilluxError
from lillux.files import file_system_error, locked, make_directory, read_bytes, write_atomic
from lillux.patterns import pattern
from lillux.sealing import decode_box_key, encode_box_key
from lillux.values import dataclass
from ryeos.items.errors import RyeError
from ryeos.items.refs import AI_DIRECTORY, USER, Space, user_lock
from ryeos.remote.errors import pin_error
from ryeos.remote.requests import NodeIdentity
from ryeos.trust.keys import SigningKey, verifies_with
from ryeos.trust.store import (
    FINGERPRINT_DIGITS,
    MAX_DOCUMENT_BYTES,
    TRUSTED_FOLDER,
    KeyDocument,
    document_path,
    parse_key_document,
    write_key_document,
)

PINS_FOLDER = "node/pins"
_OWNER = pattern(r"remote:([A-Za-z0-9][A-Za-z0-9._-]{0,63}):(\S+)")
_NAME_DIGITS = 16
_LOG = logging.getLogger(__name__)


class PinState(StrEnum):
    """What was known of a node before it was asked."""

    NEW = "new"
    KNOWN = "known"


class PinMismatchError(RyeError):
    """A node is not the one that it was, or not the one that the configuration names.

    ``pinned`` and ``found`` are fingerprints, or box keys in the form of ``box_pub.pem`` where the
    node is the same and its box key another; nothing but the question who it is was sent.
    ``followed_at`` is when the pinned key signed that the found one takes its place, or "".
    """

    code = "PIN_MISMATCH"

    def __init__(
        self,
        name: str,
        netloc: str,
        *,
        pinned: str,
        found: str,
        by: str,
        part: str = "node fp:",
        followed_at: str = "",
    ) -> None:
        self.name, self.netloc, self.pinned, self.found = name, netloc, pinned, found
        self.facts = {"pinned": pinned, "found": found, "pin": by}
        if followed_at:
            self.facts["followed_at"] = followed_at
        doubt = (
            f"the pinned key signed on {followed_at} that this one takes its place; unless that"
            " key was stolen, accept it:"
            if followed_at
            else "an attacker may be between you and the node; if you know that it has a new key:"
        )
        super().__init__(
            f"remote {name} ({netloc}): expected the {part}{pinned},"
            f" found {part.rpartition(' ')[2]}{found}",
            hint=f"{doubt} {_way_out(name, by)}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """A node that was spoken to under a name, at an address.

    digest   of its key, 64 hex digits; ``fingerprint`` is the first 16 of them
    box_key  of the form of ``box_pub.pem``; empty where the pin was written without one
    """

    name: str
    netloc: str
    digest: str
    box_key: str
    path: Path

    @property
    def fingerprint(self) -> str:
        """To be shown."""
        return self.digest[:FINGERPRINT_DIGITS]


class Pins:
    """The pins of a user. ``user_space`` holds ``.ai``; ``key`` signs new pins, if there is one."""

    def __init__(self, user_space: Path, key: SigningKey | None = None) -> None:
        self._user = Space(USER, user_space)
        self._key = key
        self._folder = user_space / AI_DIRECTORY / PINS_FOLDER
        self._lock = user_lock(user_space / AI_DIRECTORY, PINS_FOLDER)

    def check(
        self, name: str, netloc: str, identity: NodeIdentity, *, expected: str | None
    ) -> PinState:
        """Pin a node that is new; ``expected`` is the id that the configuration names, if any.

        A pin without a box key gets the one of now.

        Raises PinMismatchError, RyeError `INTEGRITY`, FileSystemError.
        """
        wanted = (expected or "").removeprefix("fp:")
        if wanted and wanted != identity.fingerprint:
            raise PinMismatchError(
                name,
                netloc,
                pinned=wanted,
                found=identity.fingerprint,
                by="node_id",
                followed_at=identity.followed_at(wanted),
            )
        # Without a write, which a read-only home would refuse.
        known = self._known_pin(name, netloc)
        state = PinState.KNOWN if known else PinState.NEW
        if known is None or _is_to_complete(known, identity):
            is_certain = bool(wanted or known)
            known = self._pinned(name, netloc, identity, is_certain=is_certain)
        if known.digest != identity.digest:
            raise PinMismatchError(
                name,
                netloc,
                pinned=known.fingerprint,
                found=identity.fingerprint,
                by=str(known.path),
                followed_at=identity.followed_at(known.digest),
            )
        box_key = encode_box_key(identity.box_public)
        if known.box_key != box_key:
            raise PinMismatchError(
                name,
                netloc,
                pinned=known.box_key,
                found=box_key,
                by=str(known.path),
                part="box key ",
            )
        return state

    def forget(self, name: str, netloc: str) -> bool:
        """Remove the pin of a name and address, wherever it is; False if absent.

        Raises FileSystemError.
        """
        foreign = [pin.path for pin in self._foreign(_owner(name, netloc))]
        removed = [path for path in (self._path(name, netloc), *foreign) if _remove(path)]
        return bool(removed)

    def forget_all(self, name: str) -> tuple[Path, ...]:
        """Remove every pin of a name, also those that cannot be read; the files that were there.

        Raises FileSystemError.
        """
        own = re.compile(rf"{re.escape(name)}-[0-9a-f]{{{_NAME_DIGITS}}}\.toml")
        paths = [path for path in _toml_files(self._folder) if own.fullmatch(path.name)]
        paths += [pin.path for pin in self._foreign_pins() if pin.name == name]
        return tuple(path for path in paths if _remove(path))

    def list(self) -> tuple[Pin, ...]:
        """Every pin that can be read, by name and address."""
        paths = (*_toml_files(self._folder), *_toml_files(self._user.ai / TRUSTED_FOLDER))
        found: dict[tuple[str, str], Pin] = {}
        for path in paths:
            pin = _as_pin(path)
            if pin:
                found.setdefault((pin.name, pin.netloc), pin)
        return tuple(found[key] for key in sorted(found))

    def _pinned(self, name: str, netloc: str, identity: NodeIdentity, *, is_certain: bool) -> Pin:
        """The pin of a remote that had none, or half a one: this node's, or an earlier process's.

        ``is_certain``: the configuration or half a pin says the same, so the pin counts even
        where it cannot be written.
        """
        new = Pin(
            name=name,
            netloc=netloc,
            digest=identity.digest,
            box_key=encode_box_key(identity.box_public),
            path=self._path(name, netloc),
        )
        try:
            make_directory(self._folder, mode=0o700)
            with locked(self._lock):
                known = self._known_pin(name, netloc)
                if known is None or _is_to_complete(known, identity):
                    self._write(name, netloc, identity)
                # Read back: where no lock holds, another process may have been faster.
                return self._known_pin(name, netloc) or new
        except FileSystemError as error:
            if not is_certain:
                raise
            _LOG.warning("remote %s is not pinned, or not its box key: %s", name, error)
            return new

    def _known_pin(self, name: str, netloc: str) -> Pin | None:
        """Our own pin, else one among the trusted keys."""
        path = self._path(name, netloc)
        try:
            data = read_bytes(path, MAX_DOCUMENT_BYTES)
        except FileNotFoundError:
            return next(self._foreign(_owner(name, netloc)), None)
        try:
            document = parse_key_document(data, str(path))
            box_key = _box_key(document)
        except LilluxError as error:
            raise pin_error(path, str(error), f"rye remote forget {name}") from error
        if document.owner != _owner(name, netloc):
            raise pin_error(path, "the pin of another remote", f"rye remote forget {name}")
        if not self._holds(document):
            raise pin_error(path, "changed since it was signed", f"rye remote forget {name}")
        return Pin(
            name=name,
            netloc=netloc,
            digest=document.digest,
            box_key=box_key,
            path=path,
        )

    def _holds(self, document: KeyDocument) -> bool:
        """Whether its signature, if it has one, is right and by a key of the user's own space."""
        if document.signature is None:
            return True
        if self._key and document.signature.fingerprint == self._key.fingerprint:
            return verifies_with(document, self._key.public_pem)
        signer = _read_document(document_path(self._user, document.signature.fingerprint))
        return signer is not None and verifies_with(document, signer.public_pem)

    def _foreign(self, owner: str) -> Iterator[Pin]:
        return (pin for pin in self._foreign_pins() if _owner(pin.name, pin.netloc) == owner)

    def _foreign_pins(self) -> Iterator[Pin]:
        """Those that other programs keep among the trusted keys."""
        for path in _toml_files(self._user.ai / TRUSTED_FOLDER):
            pin = _as_pin(path)
            if pin and path.stem == pin.fingerprint:
                yield pin

    def _write(self, name: str, netloc: str, identity: NodeIdentity) -> None:
        owner = _owner(name, netloc)
        text = write_key_document(identity.public_key_pem, owner, covers_all=False)
        text = text.replace('"keys/trusted"', '"remotes/pins"', 1)
        box_key = f'box_key = "{encode_box_key(identity.box_public)}"'
        text = text.replace("\n[public_key]", f"{box_key}\n\n[public_key]", 1)
        path = self._path(name, netloc)
        if self._key:
            text = self._key.signed_config(text, path)
        write_atomic(path, text.encode(), mode=0o600)

    def _path(self, name: str, netloc: str) -> Path:
        digest = sha256_hex(_owner(name, netloc).encode())[:_NAME_DIGITS]
        return self._folder / f"{name}-{digest}.toml"


def _owner(name: str, netloc: str) -> str:
    return f"remote:{name}:{netloc}"


def _is_to_complete(pin: Pin, identity: NodeIdentity) -> bool:
    """Whether it is this node's and has no box key: an older version's, or another program's."""
    return not pin.box_key and pin.digest == identity.digest


def _box_key(document: KeyDocument) -> str:
    """The box key in a pin; empty if absent. Raises SealingError for anything else."""
    from ryeos.items.header_values import parse_toml

    found = parse_toml(document.signed_text).get("box_key")
    return "" if found is None else encode_box_key(decode_box_key(str(found)))


def _way_out(name: str, by: str) -> str:
    if by == "node_id":
        return f"change node_id of {name} in remotes.yaml"
    return f"rye remote forget {name}"


def _as_pin(path: Path) -> Pin | None:
    """The pin in a key document, None where it is the document of something else."""
    document = _read_document(path)
    match = _OWNER.fullmatch(document.owner) if document else None
    if document is None or match is None:
        return None
    try:
        box_key = _box_key(document)
    except LilluxError:
        return None
    return Pin(
        name=match[1],
        netloc=match[2],
        digest=document.digest,
        box_key=box_key,
        path=path,
    )


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
