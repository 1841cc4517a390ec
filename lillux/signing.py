"""Ed25519 signatures, key fingerprints, PEM files and key pairs on disk. The door of PyNaCl.

Formats, each with an example: docs/trust.md. A private key is never copied to a temporary file,
and no ``repr`` or message shows it.
"""

from __future__ import annotations

import binascii
import os
import stat
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from threading import Lock

from lillux import ed25519
from lillux.digests import decode_base64url, encode_base64url, sha256_hex
from lillux.errors import ConfigurationError, LilluxError
from lillux.files import create_file, make_directory, read_bytes
from lillux.values import dataclass, field

PRIVATE_KEY_FILE = "private_key.pem"
PUBLIC_KEY_FILE = "public_key.pem"
BOX_KEY_FILE = "box_key.pem"
"""The X25519 private key of a node, which may lie beside a signing key."""

FINGERPRINT_DIGITS = 16

PURE_VERIFICATIONS = 4
"""Signatures that a process verifies in pure Python before it loads libsodium.

In pure Python one takes 0.9 ms, with libsodium 0.04 ms; but importing `nacl.bindings` takes 2 to
4 ms more than this module does, and 2 ms again where the library has to be unpacked first. Most
processes verify a handful: with this limit none pays much more than twice its cheaper route.
"""

_HASH_LENGTH, _SIGNATURE_LENGTH = 64, 88
_HASH_DIGITS = frozenset("0123456789abcdef")


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


class KeyMismatchError(LilluxError):
    """A public key is not that of the private key it is kept with. Both are fingerprints."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, subject: str, expected: str, found: str) -> None:
        self.subject, self.expected, self.found = subject, expected, found
        super().__init__(
            f"{subject}: expected the public key {expected} of the private key, found {found}",
            hint="these are halves of different pairs: restore the one that was replaced",
        )


class NativeCryptoMissingError(LilluxError):
    """Private keys are used through libsodium only, and it cannot be loaded here."""

    code, exit_status = "UNSUPPORTED", 1

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f"private keys need libsodium, which cannot be loaded: {problem}",
            hint="install PyNaCl, or sign on a platform it was built for; verifying works here too",
        )


@dataclass(frozen=True, slots=True)
class KeyPair:
    """An Ed25519 key pair as PEM. The private text is kept as it was made or read."""

    private_pem: bytes = field(repr=False)
    public_pem: bytes


# --- signatures -----------------------------------------------------------------------------------


def sign_hash(content_hash: str, private_pem: bytes) -> str:
    """The signature of a content hash: 86 base64url characters and ``==``.

    What is signed are the 64 ASCII characters of the hash, not the 32 bytes they stand for. The
    same key and hash give the same signature every time.

    Raises ConfigurationError for anything but 64 lower-case hex digits, PemError,
    KeyMismatchError, NativeCryptoMissingError.
    """
    if not _is_content_hash(content_hash):
        raise ConfigurationError("content_hash", "expected 64 lower-case hex digits")
    _, secret = _derive(private_pem)
    from nacl.bindings import crypto_sign

    signed = crypto_sign(content_hash.encode("ascii"), secret)
    return encode_base64url(signed[: ed25519.SIGNATURE_BYTES]) + "=="


def verify_signature(content_hash: str, signature: str, public_pem: bytes) -> bool:
    """Whether ``signature`` is one of the key over the hash. Never raises.

    False also for what is no hash, no signature or no key. Of each signature there is one text,
    with or without its two ``=``: the alphabet is base64url, and unused bits must be zero.
    """
    raw = decode_base64url(signature[: _SIGNATURE_LENGTH + 1])
    if raw is None or not _is_content_hash(content_hash):
        return False
    try:
        public_key = decode_public(public_pem)
    except PemError:
        return False
    return _verifier.verify(public_key, content_hash.encode("ascii"), raw)


def sign_bytes(message: bytes, private_pem: bytes) -> bytes:
    """The signature of a message itself: 64 bytes.

    For formats that say in the message what it is for (`lillux.dsse`). Raises PemError,
    KeyMismatchError, NativeCryptoMissingError.
    """
    _, secret = _derive(private_pem)
    from nacl.bindings import crypto_sign

    return bytes(crypto_sign(message, secret)[: ed25519.SIGNATURE_BYTES])


def verify_bytes(message: bytes, signature: bytes, public_pem: bytes) -> bool:
    """Whether a signature is one of the key over the message. Raises PemError for a broken key."""
    return _verifier.verify(decode_public(public_pem), message, signature)


class SignatureVerifier:
    """Verifies Ed25519 signatures by the route that is cheaper for this process; thread-safe.

    The first ``pure_verifications`` are made in Python, the rest by libsodium, or all in Python
    where that cannot be loaded. Where it is loaded already, it is used at once. Both routes give
    the same verdict on every input.
    """

    def __init__(self, *, pure_verifications: int = PURE_VERIFICATIONS) -> None:
        self._pure_left = pure_verifications
        self._settled: Callable[[bytes, bytes, bytes], bool] | None = None
        self._lock = Lock()

    def verify(self, public_key: bytes, message: bytes, signature: bytes) -> bool:
        """Whether ``signature`` over ``message`` is by ``public_key``; see `ed25519.verify`."""
        route = self._settled or self._next_route()
        return route(public_key, message, signature)

    def _next_route(self) -> Callable[[bytes, bytes, bytes], bool]:
        with self._lock:
            if self._pure_left > 0 and "nacl.bindings" not in sys.modules:
                self._pure_left -= 1
                return ed25519.verify
            self._settled = self._settled or _fastest_route()
            return self._settled


_verifier = SignatureVerifier()


def _fastest_route() -> Callable[[bytes, bytes, bytes], bool]:
    try:
        _require_libsodium()
    except NativeCryptoMissingError:
        return ed25519.verify
    return _verify_with_libsodium


def _verify_with_libsodium(public_key: bytes, message: bytes, signature: bytes) -> bool:
    from nacl.bindings import crypto_sign_open
    from nacl.exceptions import BadSignatureError

    # PyNaCl hands over the key without looking at its size.
    if len(public_key) != ed25519.PUBLIC_KEY_BYTES or len(signature) != ed25519.SIGNATURE_BYTES:
        return False
    try:
        crypto_sign_open(signature + message, public_key)
    except BadSignatureError:
        return False
    return True


def _is_content_hash(text: str) -> bool:
    return len(text) == _HASH_LENGTH and _HASH_DIGITS.issuperset(text)


# --- keys -----------------------------------------------------------------------------------------


def generate_keypair() -> KeyPair:
    """A new key pair. Raises NativeCryptoMissingError."""
    _require_libsodium()
    from nacl.bindings import crypto_sign_keypair

    public_key, secret = crypto_sign_keypair()
    return KeyPair(encode_private(secret[:SEED_BYTES]), encode_public(public_key))


def public_pem_of(private_pem: bytes) -> bytes:
    """The canonical PEM of the public key that belongs to a private one.

    Raises PemError, KeyMismatchError (a version 2 text that stores another public key),
    NativeCryptoMissingError.
    """
    public_key, _ = _derive(private_pem)
    return encode_public(public_key)


def canonical_public_pem(public_pem: bytes) -> bytes:
    """The one text of a public key: LF line ends, one final newline. Raises PemError."""
    return encode_public(decode_public(public_pem))


def compute_key_fingerprint(public_pem: bytes) -> str:
    """The 16 hex digits that name a public key: SHA-256 of its canonical PEM. Raises PemError."""
    return compute_key_digest(public_pem)[:FINGERPRINT_DIGITS]


@lru_cache(maxsize=16)
def compute_key_digest(public_pem: bytes) -> str:
    """The 64 hex digits that a fingerprint is the start of. Raises PemError."""
    return sha256_hex(canonical_public_pem(public_pem))


@lru_cache(maxsize=2)  # who signs much does so with one key, whose text is in memory anyway
def _derive(private_pem: bytes) -> tuple[bytes, bytes]:
    """The public key, and the 64 bytes (seed and public key) that libsodium signs with."""
    seed, stored = decode_private(private_pem), stored_public_half(private_pem)
    _require_libsodium()
    from nacl.bindings import crypto_sign_seed_keypair

    public_key, secret = crypto_sign_seed_keypair(seed)
    if stored is not None:
        _require_same_key("private key", public_key, stored)
    return public_key, secret


def _require_same_key(subject: str, expected: bytes, found: bytes) -> None:
    if expected != found:
        expected_pem, found_pem = encode_public(expected), encode_public(found)
        raise KeyMismatchError(
            subject, compute_key_fingerprint(expected_pem), compute_key_fingerprint(found_pem)
        )


def _require_libsodium() -> None:
    """Import `nacl.bindings`. Raises NativeCryptoMissingError where that cannot be done."""
    try:
        import nacl.bindings  # noqa: F401 - callers import from it what they need
    except (ImportError, RuntimeError) as error:  # RuntimeError: libsodium does not initialise
        raise NativeCryptoMissingError(str(error)) from error


# --- key pairs on disk ----------------------------------------------------------------------------


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
    _require_same_key(str(public), decode_public(public_pem), stored)
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


# --- protected keys -------------------------------------------------------------------------------
# A private key under a passphrase: Argon2id makes a key of it, XSalsa20-Poly1305 seals the PEM.
#
# The file is an armour around ``salt (16) | operations (8) | memory (8) | nonce and box``, numbers
# big-endian. Both limits are libsodium's "moderate": about half a second, 256 MiB.

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
    """Whether the text of a private key is under a passphrase."""
    return text.lstrip().startswith(_PROTECTED[0])


def protected(private_pem: bytes, passphrase: bytes) -> bytes:
    """The text of a private key under a passphrase. Raises NativeCryptoMissingError."""
    _require_libsodium()
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
    _require_libsodium()
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
    """What ``read`` makes of the text, its PemError naming the file."""
    try:
        return read(text)
    except PemError as error:
        raise PemError(str(path), error.problem, hint=error.hint) from None


# --- pem ------------------------------------------------------------------------------------------
# Ed25519 keys as PEM text, in the forms that OpenSSL reads and writes (RFC 7468, 8410, 5958).
#
# A key is 44 to 83 bytes of DER, all constant but the key bytes themselves: so a prefix is compared
# instead of DER being parsed. The forms, with examples: docs/trust.md.
#
# No message of this module shows anything that stood between two armour lines, or a line that only
# looks like one: it may be private. On the start-up path: imports `binascii` and our errors.

SEED_BYTES = 32
PUBLIC_KEY_BYTES = 32
MAX_PEM_BYTES = 4096
"""An Ed25519 key has at most 168; what is larger than this is not looked at."""

_COLUMNS = 64
_PRIVATE, _PUBLIC = "PRIVATE KEY", "PUBLIC KEY"

_SPKI = bytes.fromhex("302a300506032b6570032100")
_PKCS8_V1 = bytes.fromhex("302e020100300506032b657004220420")
_PKCS8_V2 = bytes.fromhex("3051020101300506032b657004220420")
_PUBLIC_HALF = bytes.fromhex("812100")  # in version 2, between the seed and the public key

_SPKI_BYTES = len(_SPKI) + PUBLIC_KEY_BYTES
_PKCS8_V1_BYTES = len(_PKCS8_V1) + SEED_BYTES
_PKCS8_V2_BYTES = len(_PKCS8_V2) + SEED_BYTES + len(_PUBLIC_HALF) + PUBLIC_KEY_BYTES

_NAMEABLE = frozenset(
    {
        _PRIVATE,
        _PUBLIC,
        "CERTIFICATE",
        "EC PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
        "OPENSSH PRIVATE KEY",
        "RSA PRIVATE KEY",
        "RSA PUBLIC KEY",
    }
)
_HINTS = {
    _PRIVATE: "openssl genpkey -algorithm ed25519 writes what is expected",
    _PUBLIC: "openssl pkey -in private_key.pem -pubout writes what is expected",
}


class PemError(LilluxError):
    """A text is not the PEM of an Ed25519 key. ``subject`` names the text: its role or file."""

    code, exit_status = "CONFIG_ERROR", 6

    def __init__(self, subject: str, problem: str, *, hint: str = "") -> None:
        self.subject, self.problem = subject, problem
        super().__init__(f"{subject}: {problem}", hint=hint)


def encode_private(seed: bytes) -> bytes:
    """The PEM of a private key: PKCS#8 version 1, unencrypted, which every reader knows.

    Raises PemError if the seed is not 32 bytes long.
    """
    if len(seed) != SEED_BYTES:
        raise _error(_PRIVATE, f"expected a seed of {SEED_BYTES} bytes, found {len(seed)}")
    return _armoured(_PRIVATE, _PKCS8_V1 + seed)


def encode_public(key: bytes) -> bytes:
    """The PEM of a public key (SubjectPublicKeyInfo): the text that fingerprints are made of.

    Raises PemError if the key is not 32 bytes long.
    """
    if len(key) != PUBLIC_KEY_BYTES:
        raise _error(_PUBLIC, f"expected a key of {PUBLIC_KEY_BYTES} bytes, found {len(key)}")
    return _armoured(_PUBLIC, _SPKI + key)


def decode_private(pem: bytes) -> bytes:
    """The seed (32 bytes) in the PEM of a private key, PKCS#8 version 1 or 2.

    What version 2 stores beside the seed is not used: see `stored_public_half`. Raises PemError.
    """
    return _private_der(pem)[len(_PKCS8_V1) : _PKCS8_V1_BYTES]


def stored_public_half(pem: bytes) -> bytes | None:
    """The public key (32 bytes) that a version 2 private key carries; None in version 1.

    Only stored: whether it is the public key of the seed can be said where that can be derived.
    Raises PemError.
    """
    der = _private_der(pem)
    return der[-PUBLIC_KEY_BYTES:] if len(der) == _PKCS8_V2_BYTES else None


@lru_cache(maxsize=16)
def decode_public(pem: bytes) -> bytes:
    """The public key (32 bytes) in its PEM. Raises PemError."""
    der = _der(pem, _PUBLIC)
    if len(der) != _SPKI_BYTES or not der.startswith(_SPKI):
        raise _error(_PUBLIC, _another_key(f"{_SPKI_BYTES}", der))
    return der[len(_SPKI) :]


def _private_der(pem: bytes) -> bytes:
    der = _der(pem, _PRIVATE)
    is_v1 = len(der) == _PKCS8_V1_BYTES and der.startswith(_PKCS8_V1)
    is_v2 = (
        len(der) == _PKCS8_V2_BYTES
        and der.startswith(_PKCS8_V2)
        and der.startswith(_PUBLIC_HALF, _PKCS8_V1_BYTES)
    )
    if not is_v1 and not is_v2:
        raise _error(_PRIVATE, _another_key(f"{_PKCS8_V1_BYTES} or {_PKCS8_V2_BYTES}", der))
    return der


def _der(pem: bytes, label: str) -> bytes:
    """The bytes between the armour lines.

    Forgiving about what editors, mail and Windows change: CRLF, blank lines and blanks around the
    text, a missing final newline. Strict about the rest, so that a key has one text.
    """
    if len(pem) > MAX_PEM_BYTES:
        raise _error(label, f"expected at most {MAX_PEM_BYTES} bytes of PEM, found {len(pem)}")
    begin, end = _armour(label)
    text = pem.replace(b"\r\n", b"\n").strip(b" \t\n")
    first, _, rest = text.partition(b"\n")
    body, _, last = rest.rpartition(b"\n")
    if first != begin:
        raise _error(label, f"expected {begin.decode()}, found {_nameable(first)}")
    if last != end:
        raise _error(label, f"expected {end.decode()} at the end, found {_nameable(last)}")
    try:
        der = binascii.a2b_base64(body.replace(b"\n", b""), strict_mode=True)
    except binascii.Error:
        der = b""
    if _armoured(label, der) != text + b"\n":
        raise _error(label, f"expected base64 in lines of {_COLUMNS}, found something else")
    return der


def _armoured(label: str, der: bytes) -> bytes:
    begin, end = _armour(label)
    base64 = binascii.b2a_base64(der, newline=False)
    lines = [base64[start : start + _COLUMNS] for start in range(0, len(base64), _COLUMNS)]
    return b"\n".join([begin, *lines, end, b""])


def _armour(label: str) -> tuple[bytes, bytes]:
    return f"-----BEGIN {label}-----".encode(), f"-----END {label}-----".encode()


def _nameable(line: bytes) -> str:
    """The line, if it is armour known to hold no secret; else a description of it."""
    if any(line in _armour(label) for label in _NAMEABLE):
        return line.decode()
    return "a line that is not PEM armour" if line else "nothing"


def _another_key(sizes: str, der: bytes) -> str:
    return f"expected the DER of an Ed25519 key, {sizes} bytes, found {len(der)} bytes of other DER"


def _error(label: str, problem: str) -> PemError:
    return PemError(label.lower(), problem, hint=_HINTS[label])
