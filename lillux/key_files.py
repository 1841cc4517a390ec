"""Files of key pairs, with or without a passphrase. A door of PyNaCl.

A private key is never copied to a temporary file, and no message shows it. With a passphrase
Argon2id makes a key of that, and XSalsa20-Poly1305 seals the PEM: the file is an armour around
``salt (16) | operations (8) | memory (8) | nonce and box``, numbers big-endian. Both limits are
libsodium's "moderate": about half a second, 256 MiB.
"""

from __future__ import annotations

import binascii
import os
import stat
from collections.abc import Callable
from pathlib import Path

from lillux.errors import LilluxError
from lillux.files import create_file, make_directory, read_bytes
from lillux.pem import MAX_PEM_BYTES, PemError, decode_public
from lillux.signing import (
    KeyPair,
    canonical_public_pem,
    public_pem_of,
    require_libsodium,
    require_same_key,
)

PRIVATE_KEY_FILE = "private_key.pem"
PUBLIC_KEY_FILE = "public_key.pem"
BOX_KEY_FILE = "box_key.pem"
"""The X25519 private key of a node, which may lie beside a signing key."""


class KeyExistsError(LilluxError):
    """A key file is already where a new one was to be written."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: expected no key file, found one",
            hint="move it to a safe place first: a lost private key cannot be made again",
        )


class KeyNotFoundError(LilluxError):
    """There is no private key where one was expected."""

    code, exit_status = "NO_SIGNING_KEY", 4

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: expected a private key, found no such file", hint="make a key pair first"
        )


def save_keypair(directory: Path, keypair: KeyPair) -> None:
    """Write a key pair to files that must not exist yet.

    Modes (POSIX, less the umask), from the first byte on: 0700 for a directory that is made,
    0600 for ``private_key.pem``, 0644 for ``public_key.pem``. On Windows the directory decides
    who can read. When one file cannot be written, neither stays.

    Raises KeyExistsError, FileSystemError.
    """
    make_directory(directory, mode=0o700)
    private, public = directory / PRIVATE_KEY_FILE, directory / PUBLIC_KEY_FILE
    _create_key_file(private, keypair.private_pem, mode=0o600)
    try:
        _create_key_file(public, keypair.public_pem, mode=0o644)
    except BaseException:  # an interrupt too leaves no half pair
        private.unlink(missing_ok=True)
        raise


def load_keypair(
    directory: Path, passphrase: Callable[[Path], bytes | None] = lambda _: None
) -> KeyPair:
    """The key pair in a directory. The public key is derived, then compared with its file, if any.

    The private text stays as it is in the file. Loose modes are no error: `exposed_key_files`.
    ``passphrase`` is asked for that of a protected key; None without a terminal.

    Raises KeyLockedError, KeyNotFoundError, PemError (its subject is the file), KeyMismatchError,
    FileTooLargeError, FileSystemError, NativeCryptoMissingError.
    """
    private, public = directory / PRIVATE_KEY_FILE, directory / PUBLIC_KEY_FILE
    try:
        private_pem = read_bytes(private, MAX_PEM_BYTES)
    except FileNotFoundError:
        raise KeyNotFoundError(str(private)) from None
    if is_protected(private_pem):
        given = passphrase(private)
        if given is None:
            raise KeyLockedError(str(private), "under a passphrase, and no terminal can ask for it")
        private_pem = unprotected(private_pem, given, str(private))
    public_pem = _about(private, public_pem_of, private_pem)
    try:
        stored_pem = read_bytes(public, MAX_PEM_BYTES)
    except FileNotFoundError:
        return KeyPair(private_pem, public_pem)
    stored = _about(public, decode_public, stored_pem)
    require_same_key(str(public), decode_public(public_pem), stored)
    return KeyPair(private_pem, public_pem)


def load_public(directory: Path) -> bytes:
    """The public key of the pair in a directory, whether its private half can be read or not.

    Raises KeyNotFoundError, PemError, FileSystemError.
    """
    public = directory / PUBLIC_KEY_FILE
    try:
        return _about(public, canonical_public_pem, read_bytes(public, MAX_PEM_BYTES))
    except FileNotFoundError:
        return load_keypair(directory).public_pem


_PROTECTED = (b"-----BEGIN RYE PROTECTED KEY-----", b"-----END RYE PROTECTED KEY-----")
_SALT_BYTES, _LIMIT_BYTES, _NONCE_BYTES, _BOX_KEY_BYTES = 16, 8, 24, 32
_ARGON2ID = 2  # libsodium's crypto_pwhash_ALG_ARGON2ID13
_MODERATE_OPERATIONS, _MODERATE_MEMORY = 3, 256 << 20
_MAX_MEMORY = 1 << 31
_MAX_OPERATIONS = 64


class KeyLockedError(LilluxError):
    """The private key is under a passphrase, which was not given or is wrong."""

    code, exit_status = "NO_SIGNING_KEY", 4

    def __init__(self, path: str, problem: str) -> None:
        self.path = path
        super().__init__(
            f"{path}: {problem}",
            hint="run the command at a terminal, and type the passphrase of your key",
        )


def is_protected(text: bytes) -> bool:
    """True if the text of a private key is under a passphrase."""
    return text.lstrip().startswith(_PROTECTED[0])


def protected(private_pem: bytes, passphrase: bytes) -> bytes:
    """The text of a private key under a passphrase. Raises NativeCryptoMissingError."""
    require_libsodium()
    from nacl.bindings import crypto_secretbox

    salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    key = _passphrase_key(passphrase, salt, _MODERATE_OPERATIONS, _MODERATE_MEMORY)
    limits = (_MODERATE_OPERATIONS, _MODERATE_MEMORY)
    numbers = b"".join(limit.to_bytes(_LIMIT_BYTES, "big") for limit in limits)
    sealed = salt + numbers + nonce + crypto_secretbox(private_pem, nonce, key)
    body = binascii.b2a_base64(sealed, newline=False)
    lines = (body[at : at + 64] for at in range(0, len(body), 64))
    return b"\n".join([_PROTECTED[0], *lines, _PROTECTED[1], b""])


def unprotected(text: bytes, passphrase: bytes, where: str) -> bytes:
    """The private key in a protected text. Raises KeyLockedError, NativeCryptoMissingError."""
    require_libsodium()
    from nacl.bindings import crypto_secretbox_open
    from nacl.exceptions import CryptoError

    body = text.strip().removeprefix(_PROTECTED[0]).removesuffix(_PROTECTED[1])
    try:
        sealed = binascii.a2b_base64(b"".join(body.split()))
    except ValueError:
        raise KeyLockedError(where, "expected a protected key, found a damaged one") from None
    at = _SALT_BYTES + 2 * _LIMIT_BYTES
    operations = int.from_bytes(sealed[_SALT_BYTES : _SALT_BYTES + _LIMIT_BYTES], "big")
    memory = int.from_bytes(sealed[_SALT_BYTES + _LIMIT_BYTES : at], "big")
    if operations > _MAX_OPERATIONS or memory > _MAX_MEMORY:
        raise KeyLockedError(where, "expected a protected key, found limits out of reason")
    try:
        key = _passphrase_key(passphrase, sealed[:_SALT_BYTES], operations, memory)
        nonce, box = sealed[at : at + _NONCE_BYTES], sealed[at + _NONCE_BYTES :]
        return bytes(crypto_secretbox_open(box, nonce, key))
    except (CryptoError, ValueError, TypeError):
        raise KeyLockedError(where, "this is not its passphrase") from None


def _passphrase_key(passphrase: bytes, salt: bytes, operations: int, memory: int) -> bytes:
    """The 32 bytes that Argon2id makes of a passphrase; ``memory`` in bytes."""
    from nacl.bindings import crypto_pwhash_alg

    return bytes(crypto_pwhash_alg(_BOX_KEY_BYTES, passphrase, salt, operations, memory, _ARGON2ID))


def exposed_key_files(directory: Path, *, platform: str = os.name) -> tuple[Path, ...]:
    """The private key files in a directory that other users of the machine may read or write.

    Empty on Windows (``platform`` is an ``os.name``), whose permissions are not in the mode.
    """
    if platform != "posix":
        return ()
    files = (directory / PRIVATE_KEY_FILE, directory / BOX_KEY_FILE)
    return tuple(path for path in files if _is_exposed(path))


def _is_exposed(path: Path) -> bool:
    try:
        return bool(path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO))
    except OSError:
        return False


def _create_key_file(path: Path, text: bytes, *, mode: int) -> None:
    try:
        create_file(path, text, mode=mode)
    except FileExistsError:
        raise KeyExistsError(str(path)) from None


def _about(path: Path, read: Callable[[bytes], bytes], text: bytes) -> bytes:
    """The result of ``read`` for the text, its PemError naming the file."""
    try:
        return read(text)
    except PemError as error:
        raise PemError(str(path), error.problem, hint=error.hint) from None
