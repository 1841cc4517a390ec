"""SHA-256 without OpenSSL, whose library alone takes longer to load than a short command runs.

The interpreter's own implementation is several times slower per byte; items are small. Where
something else has loaded that library, as who speaks HTTP has, it is used for everything.
"""

import sys
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
