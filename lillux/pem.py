"""PEM of Ed25519 keys, in the forms of OpenSSL (RFC 7468, 8410, 5958).

A key is 44 to 83 bytes of DER, all constant but the key bytes themselves: so a prefix is compared
instead of DER being parsed. The forms, with examples: docs/trust.md.

No message of this module shows anything that stood between two armour lines, or a line that only
looks like one: it may be private. On the start-up path: imports `binascii` and our errors.
"""

from __future__ import annotations

import binascii
from functools import lru_cache

from lillux.errors import LilluxError

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
