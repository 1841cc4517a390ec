"""Signatures over content hashes, key fingerprints, and key pairs on disk. The door of PyNaCl.

Formats, each with an example: docs/keys.md. A private key is never copied to a temporary file,
and no ``repr`` or message shows it.
"""

import os
import stat
import sys
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from lillux import ed25519, pem
from lillux.digests import sha256_hex
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
    return urlsafe_b64encode(signed[: ed25519.SIGNATURE_BYTES]).decode("ascii")


def verify_signature(content_hash: str, signature: str, public_pem: bytes) -> bool:
    """Whether ``signature`` is one of the key over the hash. Never raises.

    False also for what is no hash, no signature or no key. Of each signature there is one text,
    with or without its two ``=``: the alphabet is base64url, and unused bits must be zero.
    """
    raw = _decode_signature(signature)
    if raw is None or not _is_content_hash(content_hash):
        return False
    try:
        public_key = pem.decode_public(public_pem)
    except pem.PemError:
        return False
    return _verifier.verify(public_key, content_hash.encode("ascii"), raw)


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


def _decode_signature(text: str) -> bytes | None:
    if len(text) > _SIGNATURE_LENGTH:
        return None
    try:
        raw = urlsafe_b64decode(text.rstrip("=") + "==")
    except ValueError:
        return None
    # The decoder skips what is not in its alphabet; only a signature encodes back to its text.
    padded = urlsafe_b64encode(raw).decode("ascii")
    return raw if text in (padded, padded.removesuffix("==")) else None


def _is_content_hash(text: str) -> bool:
    return len(text) == _HASH_LENGTH and _HASH_DIGITS.issuperset(text)


# --- keys -----------------------------------------------------------------------------------------


def generate_keypair() -> KeyPair:
    """A new key pair. Raises NativeCryptoMissingError."""
    _require_libsodium()
    from nacl.bindings import crypto_sign_keypair

    public_key, secret = crypto_sign_keypair()
    return KeyPair(pem.encode_private(secret[: pem.SEED_BYTES]), pem.encode_public(public_key))


def public_pem_of(private_pem: bytes) -> bytes:
    """The canonical PEM of the public key that belongs to a private one.

    Raises PemError, KeyMismatchError (a version 2 text that stores another public key),
    NativeCryptoMissingError.
    """
    public_key, _ = _derive(private_pem)
    return pem.encode_public(public_key)


def canonical_public_pem(public_pem: bytes) -> bytes:
    """The one text of a public key: LF line ends, one final newline. Raises PemError."""
    return pem.encode_public(pem.decode_public(public_pem))


def compute_key_fingerprint(public_pem: bytes) -> str:
    """The 16 hex digits that name a public key: SHA-256 of its canonical PEM. Raises PemError."""
    return sha256_hex(canonical_public_pem(public_pem))[:FINGERPRINT_DIGITS]


def _derive(private_pem: bytes) -> tuple[bytes, bytes]:
    """The public key, and the 64 bytes (seed and public key) that libsodium signs with."""
    seed, stored = pem.decode_private(private_pem), pem.stored_public_half(private_pem)
    _require_libsodium()
    from nacl.bindings import crypto_sign_seed_keypair

    public_key, secret = crypto_sign_seed_keypair(seed)
    if stored is not None:
        _require_same_key("private key", public_key, stored)
    return public_key, secret


def _require_same_key(subject: str, expected: bytes, found: bytes) -> None:
    if expected != found:
        expected_pem, found_pem = pem.encode_public(expected), pem.encode_public(found)
        raise KeyMismatchError(
            subject, compute_key_fingerprint(expected_pem), compute_key_fingerprint(found_pem)
        )


def _require_libsodium() -> None:
    """Nothing, when `nacl.bindings` can be imported. Raises NativeCryptoMissingError."""
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


def load_keypair(directory: Path) -> KeyPair:
    """The key pair in a directory. The public key is derived, then compared with its file, if any.

    The private text stays as it is in the file. Loose modes are no error: `exposed_key_files`.

    Raises KeyNotFoundError, PemError (its subject is the file), KeyMismatchError,
    FileTooLargeError, FileSystemError, NativeCryptoMissingError.
    """
    private, public = directory / PRIVATE_KEY_FILE, directory / PUBLIC_KEY_FILE
    try:
        private_pem = read_bytes(private, pem.MAX_PEM_BYTES)
    except FileNotFoundError:
        raise KeyNotFoundError(str(private)) from None
    public_pem = _about(private, public_pem_of, private_pem)
    try:
        stored_pem = read_bytes(public, pem.MAX_PEM_BYTES)
    except FileNotFoundError:
        return KeyPair(private_pem, public_pem)
    stored = _about(public, pem.decode_public, stored_pem)
    _require_same_key(str(public), pem.decode_public(public_pem), stored)
    return KeyPair(private_pem, public_pem)


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
    except pem.PemError as error:
        raise pem.PemError(str(path), error.problem, hint=error.hint) from None
