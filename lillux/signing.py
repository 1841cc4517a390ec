"""Ed25519 signatures and key fingerprints. A door of PyNaCl.

Formats, each with an example: docs/trust.md. No ``repr`` or message shows a private key.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from threading import Lock

from lillux import ed25519
from lillux.digests import decode_base64url, encode_base64url, sha256_hex
from lillux.errors import ConfigurationError, LilluxError
from lillux.pem import (
    SEED_BYTES,
    PemError,
    decode_private,
    decode_public,
    encode_private,
    encode_public,
    stored_public_half,
)
from lillux.values import dataclass, field

FINGERPRINT_DIGITS = 16

PURE_VERIFICATIONS = 4
"""Signatures that a process verifies in pure Python before it loads libsodium.

In pure Python one takes 0.9 ms, with libsodium 0.04 ms; but importing `nacl.bindings` takes 2 to
4 ms more than this module does, and 2 ms again where the library has to be unpacked first. Most
processes verify a handful: with this limit none pays much more than twice its cheaper route.
"""

_HASH_LENGTH, _SIGNATURE_LENGTH = 64, 88
_HASH_DIGITS = frozenset("0123456789abcdef")


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
    """True if ``signature`` is one of the key over the hash. Never raises.

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
    """True if a signature is one of the key over the message. Raises PemError for a broken key."""
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
        """True if ``signature`` over ``message`` is by ``public_key``; see `ed25519.verify`."""
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
        require_libsodium()
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


def generate_keypair() -> KeyPair:
    """A new key pair. Raises NativeCryptoMissingError."""
    require_libsodium()
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
    require_libsodium()
    from nacl.bindings import crypto_sign_seed_keypair

    public_key, secret = crypto_sign_seed_keypair(seed)
    if stored is not None:
        require_same_key("private key", public_key, stored)
    return public_key, secret


def require_same_key(subject: str, expected: bytes, found: bytes) -> None:
    """Raise KeyMismatchError for two public keys that differ."""
    if expected != found:
        expected_pem, found_pem = encode_public(expected), encode_public(found)
        raise KeyMismatchError(
            subject, compute_key_fingerprint(expected_pem), compute_key_fingerprint(found_pem)
        )


def require_libsodium() -> None:
    """Import `nacl.bindings`. Raises NativeCryptoMissingError where that cannot be done."""
    try:
        import nacl.bindings  # noqa: F401 - callers import from it what they need
    except (ImportError, RuntimeError) as error:  # RuntimeError: libsodium does not initialise
        raise NativeCryptoMissingError(str(error)) from error
