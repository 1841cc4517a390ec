"""A private key at work: makes signature lines. Pure but for the clock it is given."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import FileSystemError
from lillux.files import read_bytes
from lillux.key_files import load_keypair, load_public
from lillux.patterns import pattern
from lillux.signing import KeyPair, compute_key_fingerprint, sign_hash
from lillux.values import replace
from ryeos.items.context import Clock, Context, utc_now
from ryeos.items.errors import RyeError, key_document_error
from ryeos.items.refs import AI_DIRECTORY, Kind
from ryeos.trust.signature import (
    CommentForm,
    Covers,
    Identity,
    Signature,
    SignedText,
    compose,
    content_hash,
    form_for,
    hashed_text,
    needs_covers,
    split,
)
from ryeos.trust.store import MAX_DOCUMENT_BYTES

_VERSION = pattern(r"""^version\s*[:=]\s*["']?([0-9A-Za-z.+-]*)""", re.MULTILINE)


class SigningKey:
    """Signs texts and bytes with one key, in the forms of ``docs/signatures.md``."""

    def __init__(self, keypair: KeyPair, clock: Clock = utc_now) -> None:
        self._keypair = keypair
        self._clock = clock
        self.fingerprint = compute_key_fingerprint(keypair.public_pem)
        self.is_confirmed = True

    @property
    def public_pem(self) -> bytes:
        """The public half, as a key document holds it."""
        return self._keypair.public_pem

    def signed_text(
        self,
        kind: Kind,
        signed: SignedText,
        form: CommentForm,
        where: str,
        identity: Identity | None = None,
    ) -> str:
        """The text with fresh signature lines; the covers line first, so that the other covers it.

        ``identity`` is the item that it is signed as; without one it can be no item of ours. Raises
        SignatureFormatError for a directive without its block.
        """
        line = identity.line(form, where) if identity else ""
        bare = replace(
            signed, signature=None, covers=None, signature_first=False, identity_line=line
        )
        if needs_covers(kind, bare.body):
            covered = content_hash(bare.covered)
            bare = replace(bare, covers=Covers(covered, self._sign(covered), self.fingerprint))
        signature = self._signature(content_hash(hashed_text(kind, bare, where)))
        return compose(replace(bare, signature=signature), form)

    def detached_line(self, data: bytes, identity: Identity | None = None) -> str:
        """The content of the ``.sig`` file beside a file that cannot hold a line."""
        line = f"{identity.core()}\n" if identity else ""
        return f"{self._signature(sha256_hex(line.encode() + data)).core()}\n{line}"

    def signed_config(self, text: str, path: Path) -> str:
        """A configuration file that Rye writes itself, signed for its path below ``config/``."""
        suffix = path.suffix
        form = form_for(Kind.CONFIG, suffix)
        signed = split(text, form, str(path))
        _, is_config, below = path.as_posix().rpartition(
            f"/{AI_DIRECTORY}/{Kind.CONFIG.directory}/"
        )
        found = _VERSION.search(signed.body)
        version = found[1] if found else ""
        identity = Identity(Kind.CONFIG.value, below[: -len(suffix)], suffix[1:], version)
        return self.signed_text(
            Kind.CONFIG, signed, form, str(path), identity if is_config else None
        )

    def digest_signature(self, digest: str) -> str:
        """The signature of a digest over something that names its own purpose, not of a file's."""
        return self._sign(digest)

    def _signature(self, covered: str) -> Signature:
        return Signature(
            timestamp=self._clock().strftime("%Y-%m-%dT%H:%M:%SZ"),
            content_hash=covered,
            value=self._sign(covered),
            fingerprint=self.fingerprint,
        )

    def _sign(self, covered: str) -> str:
        return sign_hash(covered, self._keypair.private_pem)


class AgentSigningKey(SigningKey):
    """A key that an ssh-agent holds. ``socket`` is where the agent is.

    What an agent program (a model's) starts may reach that socket too: ``is_confirmed`` says that
    the user wants each signature confirmed by the ssh-agent, or by a touch.
    """

    def __init__(
        self, public_pem: bytes, socket: str, *, is_confirmed: bool, clock: Clock = utc_now
    ) -> None:
        super().__init__(KeyPair(b"", public_pem), clock)
        self._socket, self.is_confirmed = socket, is_confirmed

    def _sign(self, covered: str) -> str:
        from lillux.digests import encode_base64url
        from lillux.pem import decode_public
        from lillux.ssh_agent import sign

        value = sign(self._socket, decode_public(self.public_pem), covered.encode("ascii"))
        return f"{encode_base64url(value)}=="


AGENT_FILE = "agent.json"


def own_key(context: Context) -> SigningKey:
    """The user's own key: the pair in its folder, or the one that an ssh-agent holds.

    Raises KeyNotFoundError, KeyLockedError, PemError, KeyMismatchError, RyeError `CONFIG_ERROR`,
    FileSystemError, and RyeError, `NO_SIGNING_KEY`, in what an agent, a graph or a node started.
    """
    try:
        said = agent_settings(context.key_directory)
        if said is None:
            return SigningKey(load_keypair(context.key_directory, context.passphrase))
    except FileSystemError as error:
        if context.confines:
            raise RyeError(
                f"the signing key in {context.key_directory} is out of reach of what an agent, a"
                " graph or a node starts",
                code="NO_SIGNING_KEY",
                hint="what signs is a person's to run, at a terminal; an agent proposes with the"
                " MCP tool sign, and runs on a node with execute and target remote:NAME",
            ) from error
        raise
    public_pem = load_public(context.key_directory)
    socket = context.process_env.get("SSH_AUTH_SOCK", "")
    return AgentSigningKey(public_pem, socket, is_confirmed=said.get("confirms") is True)


def agent_settings(directory: Path) -> Mapping[str, Any] | None:
    """The settings of a key that an ssh-agent holds; None where a file does.

    Raises RyeError `CONFIG_ERROR`.
    """
    path = directory / AGENT_FILE
    try:
        said = json.loads(read_bytes(path, MAX_DOCUMENT_BYTES))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise key_document_error(str(path), f"expected JSON, found: {error}") from error
    if not isinstance(said, dict):
        raise key_document_error(str(path), "expected a JSON object")
    return said
