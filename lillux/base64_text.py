"""Base64 of both alphabets, read strictly: one text, but for its padding, stands for each value."""

from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable


def encode_base64(data: bytes) -> str:
    """The standard alphabet, padded."""
    return b64encode(data).decode("ascii")


def encode_base64url(data: bytes) -> str:
    """The alphabet for URLs, without padding."""
    return urlsafe_b64encode(data).decode("ascii").rstrip("=")


def decode_base64(text: str) -> bytes | None:
    """What a padded text of the standard alphabet stands for; None for any other text."""
    data = _decoded(text, b64decode)
    return data if data is not None and encode_base64(data) == text else None


def decode_base64url(text: str) -> bytes | None:
    """What a text of the alphabet for URLs stands for, padded or not; None for any other text."""
    bare = text.rstrip("=")
    data = _decoded(bare + "=" * (-len(bare) % 4), urlsafe_b64decode)
    if data is None or encode_base64url(data) != bare:
        return None
    return data if text in (bare, urlsafe_b64encode(data).decode("ascii")) else None


def _decoded(text: str, decode: Callable[[str], bytes]) -> bytes | None:
    try:
        # The decoder skips what is not in its alphabet; callers compare with the text it makes.
        return decode(text)
    except ValueError:
        return None
