"""SHA-256 without loading OpenSSL, and base64, read strictly.

The interpreter's own implementation is several times slower per byte; items are small. Where
something else has loaded that library, as who speaks HTTP has, it is used for everything.

Base64 of both alphabets: one text, but for its padding, stands for each value.
"""

import sys
from binascii import a2b_base64, b2a_base64
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import _Hash, sha256
else:
    try:
        from _sha2 import sha256
    except ImportError:  # CPython before 3.12
        try:
            from _sha256 import sha256
        except ImportError:  # another implementation
            from hashlib import sha256


LARGE_BYTES = 1024 * 1024


def sha256_hex(data: bytes) -> str:
    """The lower-case hex SHA-256 of bytes."""
    hashlib = sys.modules.get("hashlib")
    if hashlib is None and len(data) >= LARGE_BYTES:
        import hashlib
    # (A module that another thread is just loading has nothing in it.)
    return getattr(hashlib, "sha256", sha256)(data).hexdigest()


def rolling_sha256() -> "_Hash":
    """A SHA-256 that takes its bytes part by part: ``update``, ``hexdigest``."""
    return sha256()


# On the way back the two signs of the other alphabet become one that is in neither place: refused.
_TO_URL, _FROM_URL = str.maketrans("+/", "-_"), str.maketrans("-_+/", "+/--")


def encode_base64(data: bytes) -> str:
    """The standard alphabet, padded."""
    return b2a_base64(data, newline=False).decode("ascii")


def encode_base64url(data: bytes) -> str:
    """The alphabet for URLs, without padding."""
    return encode_base64(data).translate(_TO_URL).rstrip("=")


def decode_base64(text: str) -> bytes | None:
    """The bytes of a padded text of the standard alphabet; None for any other text."""
    try:
        data = a2b_base64(text)
    except ValueError:
        return None
    # The decoder skips what is not in its alphabet, and bits that no byte has.
    return data if encode_base64(data) == text else None


def decode_base64url(text: str) -> bytes | None:
    """The bytes of a text of the alphabet for URLs, padded or not; None for any other text."""
    bare = text.rstrip("=")
    padded = bare + "=" * (-len(bare) % 4)
    return decode_base64(padded.translate(_FROM_URL)) if text in (bare, padded) else None
