"""A certificate authority of a test's own, and servers that it vouches for."""

import ssl
from functools import cache
from pathlib import Path

import trustme


@cache
def authority() -> trustme.CA:
    """One authority for all tests of a process: making keys takes a while."""
    return trustme.CA()


@cache
def context_for(*names: str) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate for these names."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(*names).configure_cert(context)
    return context


def authority_file(folder: Path) -> Path:
    """A file with the authority, for ``SSL_CERT_FILE``."""
    path = folder / "authority.pem"
    path.write_bytes(authority().cert_pem.bytes())
    return path
