"""Signatures by an ssh-agent: the private key is never here, and may be in hardware.

A file of its own because only keys that an agent holds need it. Ed25519 keys sign the bytes they
are given, so such a signature is the same as one by the key itself. Wire format: the draft
``draft-miller-ssh-agent``; a message is its length in four bytes, its type in one, its content.
"""

import socket
import struct
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

from lillux.errors import LilluxError

SOCKET_VARIABLE = "SSH_AUTH_SOCK"
MAX_REPLY_BYTES = 256 * 1024
TIMEOUT_S = 60.0  # a person may have to touch or confirm
_REQUEST_IDENTITIES, _IDENTITIES, _SIGN_REQUEST, _SIGN_RESPONSE = 11, 12, 13, 14
_KIND = b"ssh-ed25519"
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64


class SshAgentError(LilluxError):
    """An ssh-agent cannot be asked, or refuses."""

    code, exit_status = "NO_SIGNING_KEY", 4

    def __init__(self, problem: str, *, hint: str = "") -> None:
        super().__init__(f"ssh-agent: {problem}", hint=hint)


def identities(path: str) -> tuple[tuple[bytes, str], ...]:
    """The Ed25519 keys that an agent holds: 32 bytes each, and their comments.

    Raises SshAgentError.
    """
    reply = _ask(path, _REQUEST_IDENTITIES, b"", _IDENTITIES)
    return tuple(_listed_keys(reply))


def sign(path: str, public_key: bytes, message: bytes) -> bytes:
    """The 64 bytes of the signature of a message. Raises SshAgentError where the agent refuses."""
    content = _text(_blob(public_key)) + _text(message) + struct.pack(">I", 0)
    reply = _ask(path, _SIGN_REQUEST, content, _SIGN_RESPONSE)
    signature, _ = _take_text(reply)
    kind, rest = _take_text(signature)
    value, _ = _take_text(rest)
    if kind != _KIND or len(value) != _SIGNATURE_BYTES:
        raise SshAgentError(f"expected an Ed25519 signature, found {kind[:40]!r}")
    return value


def typed_identity(line: str) -> bytes:
    """The key in a line like ``ssh-ed25519 AAAA... comment``. Raises SshAgentError."""
    words = line.split()
    try:
        return _key_of(b64decode(words[1], validate=True)) if len(words) > 1 else b""
    except ValueError:
        raise SshAgentError("expected a line like: ssh-ed25519 AAAA... name") from None


def _listed_keys(reply: bytes) -> Iterator[tuple[bytes, str]]:
    if len(reply) < 4:  # noqa: PLR2004 - the count
        raise SshAgentError("its list of keys breaks off")
    (count,), rest = struct.unpack(">I", reply[:4]), reply[4:]
    for _ in range(min(count, 1000)):
        blob, rest = _take_text(rest)
        comment, rest = _take_text(rest)
        key = _key_of(blob)
        if key:
            yield key, comment.decode("utf-8", "replace")


def _key_of(blob: bytes) -> bytes:
    """The key of a public blob; nothing for a key of another kind."""
    kind, rest = _take_text(blob)
    if kind != _KIND:
        return b""
    key, _ = _take_text(rest)
    return key if len(key) == _KEY_BYTES else b""


def _ask(path: str, kind: int, content: bytes, expected: int) -> bytes:
    if not Path(path).is_absolute():
        raise SshAgentError(
            f"expected {SOCKET_VARIABLE} to name its socket, found {path!r:.80}",
            hint='start one: eval "$(ssh-agent)"; ssh-add',
        )
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
            agent.settimeout(TIMEOUT_S)
            agent.connect(path)
            agent.sendall(_text(bytes([kind]) + content))
            (size,) = struct.unpack(">I", _read(agent, 4))
            if not 0 < size <= MAX_REPLY_BYTES:
                raise SshAgentError(f"a reply of {size} bytes")
            reply = _read(agent, size)
    except (OSError, struct.error) as error:
        raise SshAgentError(
            f"{path}: {error}", hint='is it running? eval "$(ssh-agent)"; ssh-add'
        ) from error
    if reply[0] != expected:
        raise SshAgentError(
            "it refused: the key is not there, it is locked, or its user said no",
            hint="ssh-add -l lists its keys; ssh-add -X unlocks it",
        )
    return reply[1:]


def _read(agent: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = agent.recv(size - len(data))
        if not chunk:
            raise OSError("it hung up")
        data += chunk
    return data


def _text(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data


def _blob(public_key: bytes) -> bytes:
    return _text(_KIND) + _text(public_key)


def _take_text(data: bytes) -> tuple[bytes, bytes]:
    """The first text of a message, and what follows. Raises SshAgentError."""
    if len(data) < 4:  # noqa: PLR2004 - the length
        raise SshAgentError("its reply breaks off")
    (size,) = struct.unpack(">I", data[:4])
    if size > len(data) - 4:
        raise SshAgentError("its reply breaks off")
    return data[4 : 4 + size], data[4 + size :]
