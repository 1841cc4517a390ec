"""Sealed boxes (X25519) and secret boxes (a shared key). Uses PyNaCl.

Two things: `seal` and `open_sealed` (a fresh key pair for each message, no sender), and `encrypt`
and `decrypt` under a derived key. Both are ChaCha20-Poly1305 (RFC 8439) under a key from
HKDF-SHA256 (RFC 5869). Formats: docs/remote.md. No message of this module shows a secret.
"""

import os
from collections.abc import Callable
from typing import Any

from lillux.digests import decode_base64url, encode_base64url, sha256_hex
from lillux.errors import LilluxError

BOX_KEY_BYTES = 32
NONCE_BYTES = 12
TAG_BYTES = 16
BOX_FINGERPRINT_DIGITS = 16

_DERIVED_KEY_BYTES = 32
# Each sealed message has a key of its own, so its nonce may be the same.
_ONE_TIME_NONCE = bytes(NONCE_BYTES)


class SealingError(LilluxError):
    """An invalid box key, or a ciphertext that this key does not open."""

    code, exit_status = "INTEGRITY", 4

    def __init__(self, problem: str, *, hint: str = "") -> None:
        self.problem = problem
        super().__init__(problem, hint=hint)


def generate_box_pair() -> tuple[bytes, bytes]:
    """A new X25519 key pair: the private and the public half, 32 bytes each."""
    private = os.urandom(BOX_KEY_BYTES)
    return private, box_public(private)


def box_public(private: bytes) -> bytes:
    """The public half of a private box key. Raises SealingError for anything but 32 bytes."""
    _require_size("private box key", private)
    from nacl.bindings import crypto_scalarmult_base

    return _bytes(crypto_scalarmult_base, private)


def box_fingerprint(public: bytes) -> str:
    """The 16 hex digits that name a box key: SHA-256 of its 32 public bytes."""
    _require_size("public box key", public)
    return sha256_hex(public)[:BOX_FINGERPRINT_DIGITS]


def encode_box_key(key: bytes) -> str:
    """The text of ``box_key.pem`` and ``box_pub.pem``: 43 characters, no armour, no line end."""
    _require_size("box key", key)
    return encode_base64url(key)


def decode_box_key(text: str, subject: str = "box key") -> bytes:
    """The 32 bytes in the text of a box key file. Raises SealingError that names the subject."""
    key = decode_base64url(text.strip())
    if key is None or len(key) != BOX_KEY_BYTES:
        raise SealingError(f"{subject}: expected 43 base64url characters, found something else")
    return key


def seal(
    plaintext: bytes, recipient_public: bytes, *, aad: bytes, info: bytes
) -> tuple[bytes, bytes]:
    """A fresh public key (32 bytes) and the ciphertext that only the recipient opens.

    ``aad`` is authenticated, not hidden. ``info`` names the purpose: a message sealed for one
    purpose does not open for another. Raises SealingError for an invalid recipient key.
    """
    private, public = generate_box_pair()
    key = hkdf_sha256(_shared(private, recipient_public), info)
    return public, _encrypt(key, _ONE_TIME_NONCE, plaintext, aad)


def open_sealed(
    enc: bytes, ciphertext: bytes, recipient_private: bytes, *, aad: bytes, info: bytes
) -> bytes:
    """The sealed text. Raises SealingError when another key, ``aad``, ``info`` or text was used."""
    key = hkdf_sha256(_shared(recipient_private, enc), info)
    return _decrypt(key, _ONE_TIME_NONCE, ciphertext, aad)


def encrypt(secret: bytes, plaintext: bytes, *, info: bytes) -> bytes:
    """A random nonce of 12 bytes and the ciphertext, under the key that ``info`` derives."""
    nonce = os.urandom(NONCE_BYTES)
    return nonce + _encrypt(hkdf_sha256(secret, info), nonce, plaintext, b"")


def decrypt(secret: bytes, data: bytes, *, info: bytes) -> bytes:
    """The text given to `encrypt`. Raises SealingError for another secret, or changed bytes."""
    nonce, ciphertext = data[:NONCE_BYTES], data[NONCE_BYTES:]
    return _decrypt(hkdf_sha256(secret, info), nonce, ciphertext, b"")


def hkdf_sha256(secret: bytes, info: bytes) -> bytes:
    """A key of 32 bytes from a secret, without salt: HKDF's extract and one block of expand."""
    import hmac

    extracted = hmac.digest(bytes(_DERIVED_KEY_BYTES), secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


def _shared(private: bytes, public: bytes) -> bytes:
    _require_size("private box key", private)
    _require_size("public box key", public)
    from nacl.bindings import crypto_scalarmult

    try:
        return _bytes(crypto_scalarmult, private, public)
    except RuntimeError:  # one of the few points that give the same secret with every key
        raise SealingError(
            "public box key: expected a point of full order, found another"
        ) from None


def _encrypt(key: bytes, nonce: bytes, plaintext: bytes, aad: bytes) -> bytes:
    from nacl.bindings import crypto_aead_chacha20poly1305_ietf_encrypt

    return _bytes(crypto_aead_chacha20poly1305_ietf_encrypt, plaintext, aad, nonce, key)


def _decrypt(key: bytes, nonce: bytes, ciphertext: bytes, aad: bytes) -> bytes:
    from nacl.bindings import crypto_aead_chacha20poly1305_ietf_decrypt
    from nacl.exceptions import CryptoError

    if len(nonce) != NONCE_BYTES or len(ciphertext) < TAG_BYTES:
        raise SealingError("sealed bytes: cut short")
    try:
        return _bytes(crypto_aead_chacha20poly1305_ietf_decrypt, ciphertext, aad, nonce, key)
    except CryptoError:
        raise SealingError("sealed bytes: made for another key, or changed since") from None


def _bytes(function: Callable[..., Any], *arguments: bytes) -> bytes:
    """A call of libsodium, whose binding says nothing of types."""
    return bytes(function(*arguments))


def _require_size(subject: str, key: bytes) -> None:
    if len(key) != BOX_KEY_BYTES:
        raise SealingError(f"{subject}: expected {BOX_KEY_BYTES} bytes, found {len(key)}")
