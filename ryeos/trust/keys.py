"""The user's pair of keys, and key documents (``docs/trust.md``).

What ``rye keys`` and ``rye init`` do, without printing anything. Only public halves are ever part
of a document; a private key stays in the file it was written to.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import file_system_error, make_directory, read_bytes, write_atomic
from lillux.key_files import (
    PRIVATE_KEY_FILE,
    PUBLIC_KEY_FILE,
    KeyExistsError,
    KeyLockedError,
    load_keypair,
    load_public,
    save_keypair,
)
from lillux.pem import PemError
from lillux.signing import KeyPair, canonical_public_pem, compute_key_fingerprint, verify_signature
from lillux.values import dataclass
from ryeos.items.context import Context
from ryeos.items.errors import RyeError, key_document_error
from ryeos.items.refs import Space
from ryeos.trust.signature import content_hash
from ryeos.trust.signing_key import AGENT_FILE, SigningKey, agent_settings
from ryeos.trust.store import (
    MAX_DOCUMENT_BYTES,
    KeyDocument,
    TrustedKey,
    document_path,
    parse_key_document,
    write_key_document,
)

OWN_OWNER, UNKNOWN_OWNER = "local", "unknown"
_PEM_START = b"-----BEGIN "


def signing_key_exists_error(path: str, fingerprint: str, command: str) -> RyeError:
    """The error of a new key with a file in its way. ``command`` is what the user typed."""
    named = f" ({fingerprint})" if fingerprint else ""
    return RyeError(
        f"{path}: a signing key is already there{named}",
        code="CONFLICT",
        hint=f"use it; or replace it, the old one is kept as .bak: {command} --force",
        path=path,
    )


def require_user_space(context: Context) -> Space:
    """User space, if it may be written to: never the root of the file system.

    Raises RyeError `CONFIG_ERROR`.
    """
    user = context.spaces.user
    if user.base == user.base.parent:
        raise RyeError(
            f"no user space: expected a home folder, found {user.base!s}: neither HOME nor the"
            " system's entry of this user names another",
            code="CONFIG_ERROR",
            hint="name a folder: USER_SPACE=DIR in the environment, or --user-space DIR",
        )
    return user


def install_keypair(directory: Path, keypair: KeyPair, command: str) -> None:
    """Write a pair where there is none. ``command`` is what the user typed, for the hint.

    Raises RyeError `CONFLICT`, FileSystemError.
    """
    try:
        save_keypair(directory, keypair)
    except KeyExistsError as error:
        raise signing_key_exists_error(error.path, own_fingerprint(directory), command) from None


def replace_keypair(directory: Path, keypair: KeyPair) -> tuple[Path, ...]:
    """Write a pair; the files that were there are kept under the names that come back.

    Nothing is overwritten: the first replaced key is ``private_key.pem.bak``, the next
    ``private_key.pem.2.bak``. When the new pair cannot be written the old one is back in its place.

    Raises FileSystemError.
    """
    moved: list[tuple[Path, Path]] = []
    try:
        moved.extend(_move_aside(directory))
        save_keypair(directory, keypair)
    except BaseException:  # an interrupt too gives the old pair back
        for path, backup in reversed(moved):
            with suppress(OSError):
                backup.rename(path)
        raise
    return tuple(backup for _, backup in moved)


def _own_public(directory: Path) -> bytes:
    """The public key of the own pair; where its private half cannot be read here, by its file."""
    if agent_settings(directory) is not None:
        return load_public(directory)
    try:
        return load_keypair(directory).public_pem
    except KeyLockedError:
        return load_public(directory)


def set_aside(directory: Path) -> tuple[Path, ...]:
    """Rename the files of the own key; their new names. Raises FileSystemError."""
    return tuple(backup for _, backup in _move_aside(directory))


def _move_aside(directory: Path) -> Iterator[tuple[Path, Path]]:
    # The public half first: a private key alone is still a usable pair.
    for name in (PUBLIC_KEY_FILE, AGENT_FILE, PRIVATE_KEY_FILE):
        path = directory / name
        if os.path.lexists(path):
            yield path, _set_aside(path)


def own_fingerprint(directory: Path) -> str:
    """The fingerprint of the user's own key; ``""`` without one that can be used."""
    try:
        return compute_key_fingerprint(_own_public(directory))
    except LilluxError:
        return ""


def _set_aside(path: Path) -> Path:
    backup = next(name for name in _backup_names(path) if not os.path.lexists(name))
    try:
        path.rename(backup)
    except OSError as error:
        raise file_system_error(path, error) from error
    return backup


def _backup_names(path: Path) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.bak")
    for number in count(2):
        yield path.with_name(f"{path.name}.{number}.bak")


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedKey:
    """A public key that another person gives.

    owner       as its document says, ``""`` when it says nothing of use
    covers_all  its own document, signed by the key itself, says that it signs texts whole
    binds_identity  as above, that it signs each text for one item
    """

    fingerprint: str
    public_pem: bytes
    owner: str = ""
    covers_all: bool = False
    binds_identity: bool = False


def read_offered_key(path: Path) -> OfferedKey:
    """The public key in a PEM file or in a key document.

    Raises FileNotFoundError, RyeError `CONFIG_ERROR`, PemError, FileSystemError, FileTooLargeError.
    """
    data = read_bytes(path, MAX_DOCUMENT_BYTES)
    if data.lstrip().startswith(_PEM_START):
        return _offered_pem(data, str(path))
    document = parse_key_document(data, str(path))
    is_self_signed = _is_self_signed(document, str(path))
    return OfferedKey(
        fingerprint=document.fingerprint,
        public_pem=document.public_pem,
        # Every user calls the own key `local`: under that name it would look like the reader's.
        owner="" if document.owner in {OWN_OWNER, UNKNOWN_OWNER} else document.owner,
        covers_all=document.covers_all and is_self_signed,
        binds_identity=document.binds_identity and is_self_signed,
    )


def trust_own_key(key: SigningKey, user: Space, owner: str = "") -> tuple[Path, bool]:
    """Trust the own key; the document's path, and whether it was there already.

    The document is signed by the key itself and marks it as one that signs texts whole, and each
    for one item; a document from before that mark keeps without it (`upgrade_own_key`). Raises
    RyeError `CONFIG_ERROR` for an owner that cannot be stored, FileSystemError.
    """
    path = document_path(user, key.fingerprint)
    known = _read_own_document(path, key)
    if known and owner in {"", known.owner}:
        return path, True
    binds_identity = known is None or known.binds_identity
    return _write_own_document(path, key, owner, binds_identity=binds_identity), False


def binds_identity(key: SigningKey, user: Space) -> bool:
    """True if the own key's document says that it signs each text for one item."""
    known = _read_own_document(document_path(user, key.fingerprint), key)
    return known is not None and known.binds_identity


def upgrade_own_key(key: SigningKey, user: Space) -> Path:
    """Write the mark into the own key's document: what it signed for no item no longer counts."""
    path = document_path(user, key.fingerprint)
    known = _read_own_document(path, key)
    return _write_own_document(path, key, known.owner if known else "", binds_identity=True)


def retire_key(public_pem: bytes, user: Space, key: SigningKey, valid_until: str) -> Path:
    """Trust a replaced key of one's own until a day (``YYYY-MM-DD``), for what it signed."""
    fingerprint = compute_key_fingerprint(public_pem)
    path = document_path(user, fingerprint)
    try:
        known = parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
        is_bound = known.binds_identity
    except (FileNotFoundError, LilluxError):
        is_bound = False
    text = write_key_document(
        public_pem, "replaced", covers_all=True, binds_identity=is_bound, valid_until=valid_until
    )
    return _write_document(path, text, key)


def _write_own_document(path: Path, key: SigningKey, owner: str, *, binds_identity: bool) -> Path:
    text = write_key_document(
        key.public_pem, owner or OWN_OWNER, covers_all=True, binds_identity=binds_identity
    )
    return _write_document(path, text, key)


def trust_key(
    offered: OfferedKey, space: Space, key: SigningKey, *, owner: str, known: TrustedKey | None
) -> Path:
    """Write the document of another's key, signed by the own one; its path.

    ``known`` is the key as it counts already: what its document says must not get lost.
    Raises RyeError `CONFIG_ERROR`, FileSystemError.
    """
    said = owner or offered.owner or (known.owner if known else "")
    text = write_key_document(
        offered.public_pem,
        said if said not in {"", OWN_OWNER} else UNKNOWN_OWNER,
        covers_all=offered.covers_all or (known is not None and known.covers_all),
        binds_identity=offered.binds_identity or (known is not None and known.binds_identity),
    )
    path = document_path(space, offered.fingerprint)
    return _write_document(path, text, key, space.within)


def verifies_with(document: KeyDocument, public_pem: bytes) -> bool:
    """True if a document is signed, unchanged since, by the key of ``public_pem``."""
    signature = document.signature
    return (
        signature is not None
        and signature.content_hash == content_hash(document.signed_text)
        and verify_signature(signature.content_hash, signature.value, public_pem)
    )


def _offered_pem(data: bytes, where: str) -> OfferedKey:
    try:
        public_pem = canonical_public_pem(data)
    except PemError as error:
        raise PemError(where, error.problem, hint=error.hint) from None
    return OfferedKey(fingerprint=compute_key_fingerprint(public_pem), public_pem=public_pem)


def _is_self_signed(document: KeyDocument, where: str) -> bool:
    """True if the key itself signed the document. Raises RyeError `CONFIG_ERROR` if changed."""
    signature = document.signature
    if signature is None:
        return False
    if signature.fingerprint != document.fingerprint:
        changed = signature.content_hash != content_hash(document.signed_text)
    else:
        changed = not verifies_with(document, document.public_pem)
    if changed:
        raise key_document_error(where, "changed since it was signed")
    return signature.fingerprint == document.fingerprint


def _read_own_document(path: Path, key: SigningKey) -> KeyDocument | None:
    """The document at the path, if nothing about it needs to be written again."""
    try:
        document = parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
    except (FileNotFoundError, LilluxError):
        return None
    is_whole = document.covers_all and document.fingerprint == key.fingerprint
    return document if is_whole and verifies_with(document, key.public_pem) else None


def _write_document(path: Path, text: str, key: SigningKey, within: Path | None = None) -> Path:
    make_directory(path.parent, within=within)
    write_atomic(path, key.signed_config(text, path).encode(), within=within)
    return path
