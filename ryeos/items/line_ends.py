"""Line ends that git changes in a clone (``core.autocrlf``): the same text, other bytes. Pure.

A pinned file has the digest of its text with LF. Only a text whose every line ends with CR and LF,
as git writes it, is taken for the other form of it. A file of its own: skills, scripts and tasks
are pinned by it.
"""

from lillux.digests import sha256_hex


def lf_bytes(data: bytes) -> bytes:
    """The bytes with LF for CR LF, where every line of a text ends so; else as they are."""
    ends = data.count(b"\r\n")
    if not ends or b"\0" in data or ends != data.count(b"\n") or ends != data.count(b"\r"):
        return data
    return data.replace(b"\r\n", b"\n")


def pinned_bytes(data: bytes, digest: str) -> bytes | None:
    """The bytes that have a digest: these, or their text with LF; None where neither has."""
    for one in (data, lf_bytes(data)):
        if sha256_hex(one) == digest:
            return one
    return None
