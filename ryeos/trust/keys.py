"""The user's signing key, and key documents (``docs/trust.md``).

What ``rye keys`` and ``rye init`` do, without printing anything. Only public halves are ever part
of a document; a private key stays in the file it was written to.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from lillux.digests import sha256_hex
from lillux.errors import FileSystemError, LilluxError
from lillux.files import file_system_error, make_directory, read_bytes, write_atomic
from lillux.patterns import pattern
from lillux.signing import (
    PRIVATE_KEY_FILE,
    PUBLIC_KEY_FILE,
    KeyExistsError,
    KeyLockedError,
    KeyPair,
    PemError,
    canonical_public_pem,
    compute_key_fingerprint,
    load_keypair,
    load_public,
    save_keypair,
    sign_hash,
    verify_signature,
)
from lillux.values import dataclass, replace
from ryeos.items.context import Clock, Context, utc_now
from ryeos.items.errors import RyeError, key_document_error
from ryeos.items.refs import AI_DIRECTORY, PROJECT, Kind, Space
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
from ryeos.trust.store import (
    MAX_DOCUMENT_BYTES,
    PIN_OWNER,
    Approvals,
    KeyDocument,
    TrustedKey,
    TrustStore,
    document_path,
    has_expired,
    parse_key_document,
    write_key_document,
)

# --- signing key ----------------------------------------------------------------------------------
# A private key at work: makes signature lines. Pure but for the clock it is given.


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
        from lillux.signing import decode_public
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
    """What says that an ssh-agent holds the key; None where a file does.

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


# --- keys -----------------------------------------------------------------------------------------

OWN_OWNER, UNKNOWN_OWNER = "local", "unknown"
_PEM_START = b"-----BEGIN "


def signing_key_exists_error(path: str, fingerprint: str, command: str) -> RyeError:
    """The error of a new key with a file in its way. ``command`` is what the user typed."""
    named = f" ({fingerprint})" if fingerprint else ""
    return RyeError(
        f"{path}: a signing key is already there{named}",
        code="CONFLICT",
        hint=f"use it; or replace it, the old one is kept as .bak: {command} --force",
        path=path,
    )


def require_user_space(context: Context) -> Space:
    """User space, if it may be written to: never the root of the file system.

    Raises RyeError `CONFIG_ERROR`.
    """
    user = context.spaces.user
    if user.base == user.base.parent:
        raise RyeError(
            f"no user space: expected a home folder, found {user.base!s}: neither HOME nor the"
            " system's entry of this user names another",
            code="CONFIG_ERROR",
            hint="name a folder: USER_SPACE=DIR in the environment, or --user-space DIR",
        )
    return user


# --- the user's own pair --------------------------------------------------------------------------


def install_keypair(directory: Path, keypair: KeyPair, command: str) -> None:
    """Write a pair where there is none. ``command`` is what the user typed, for the hint.

    Raises RyeError `CONFLICT`, FileSystemError.
    """
    try:
        save_keypair(directory, keypair)
    except KeyExistsError as error:
        raise signing_key_exists_error(error.path, own_fingerprint(directory), command) from None


def replace_keypair(directory: Path, keypair: KeyPair) -> tuple[Path, ...]:
    """Write a pair; the files that were there are kept under the names that come back.

    Nothing is overwritten: the first replaced key is ``private_key.pem.bak``, the next
    ``private_key.pem.2.bak``. When the new pair cannot be written the old one is back in its place.

    Raises FileSystemError.
    """
    moved: list[tuple[Path, Path]] = []
    try:
        moved.extend(_move_aside(directory))
        save_keypair(directory, keypair)
    except BaseException:  # an interrupt too gives the old pair back
        for path, backup in reversed(moved):
            with suppress(OSError):
                backup.rename(path)
        raise
    return tuple(backup for _, backup in moved)


def _own_public(directory: Path) -> bytes:
    """The public key of the own pair; where its private half cannot be read here, by its file."""
    if agent_settings(directory) is not None:
        return load_public(directory)
    try:
        return load_keypair(directory).public_pem
    except KeyLockedError:
        return load_public(directory)


def set_aside(directory: Path) -> tuple[Path, ...]:
    """Rename the files of the own key; their new names. Raises FileSystemError."""
    return tuple(backup for _, backup in _move_aside(directory))


def _move_aside(directory: Path) -> Iterator[tuple[Path, Path]]:
    # The public half first: a private key alone is still a usable pair.
    for name in (PUBLIC_KEY_FILE, AGENT_FILE, PRIVATE_KEY_FILE):
        path = directory / name
        if os.path.lexists(path):
            yield path, _set_aside(path)


def own_fingerprint(directory: Path) -> str:
    """The fingerprint of the user's own key; ``""`` without one that can be used."""
    try:
        return compute_key_fingerprint(_own_public(directory))
    except LilluxError:
        return ""


def _set_aside(path: Path) -> Path:
    backup = next(name for name in _backup_names(path) if not os.path.lexists(name))
    try:
        path.rename(backup)
    except OSError as error:
        raise file_system_error(path, error) from error
    return backup


def _backup_names(path: Path) -> Iterator[Path]:
    yield path.with_name(f"{path.name}.bak")
    for number in count(2):
        yield path.with_name(f"{path.name}.{number}.bak")


# --- documents ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedKey:
    """A public key that another person gives.

    owner       as its document says, ``""`` when it says nothing of use
    covers_all  its own document, signed by the key itself, says that it signs texts whole
    binds_identity  as above, that it signs each text for one item
    """

    fingerprint: str
    public_pem: bytes
    owner: str = ""
    covers_all: bool = False
    binds_identity: bool = False


def read_offered_key(path: Path) -> OfferedKey:
    """The public key in a PEM file or in a key document.

    Raises FileNotFoundError, RyeError `CONFIG_ERROR`, PemError, FileSystemError, FileTooLargeError.
    """
    data = read_bytes(path, MAX_DOCUMENT_BYTES)
    if data.lstrip().startswith(_PEM_START):
        return _offered_pem(data, str(path))
    document = parse_key_document(data, str(path))
    is_self_signed = _is_self_signed(document, str(path))
    return OfferedKey(
        fingerprint=document.fingerprint,
        public_pem=document.public_pem,
        # Every user calls the own key `local`: under that name it would look like the reader's.
        owner="" if document.owner in {OWN_OWNER, UNKNOWN_OWNER} else document.owner,
        covers_all=document.covers_all and is_self_signed,
        binds_identity=document.binds_identity and is_self_signed,
    )


def trust_own_key(key: SigningKey, user: Space, owner: str = "") -> tuple[Path, bool]:
    """Trust the own key; the document's path, and whether it was there already.

    The document is signed by the key itself and marks it as one that signs texts whole, and each
    for one item; a document from before that mark keeps without it (`upgrade_own_key`). Raises
    RyeError `CONFIG_ERROR` for an owner that cannot be stored, FileSystemError.
    """
    path = document_path(user, key.fingerprint)
    known = _read_own_document(path, key)
    if known and owner in {"", known.owner}:
        return path, True
    binds_identity = known is None or known.binds_identity
    return _write_own_document(path, key, owner, binds_identity=binds_identity), False


def binds_identity(key: SigningKey, user: Space) -> bool:
    """Whether the own key's document says that it signs each text for one item."""
    known = _read_own_document(document_path(user, key.fingerprint), key)
    return known is not None and known.binds_identity


def upgrade_own_key(key: SigningKey, user: Space) -> Path:
    """Write the mark into the own key's document: what it signed for no item no longer counts."""
    path = document_path(user, key.fingerprint)
    known = _read_own_document(path, key)
    return _write_own_document(path, key, known.owner if known else "", binds_identity=True)


def retire_key(public_pem: bytes, user: Space, key: SigningKey, valid_until: str) -> Path:
    """Trust a replaced key of one's own until a day (``YYYY-MM-DD``), for what it signed."""
    fingerprint = compute_key_fingerprint(public_pem)
    path = document_path(user, fingerprint)
    try:
        known = parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
        is_bound = known.binds_identity
    except (FileNotFoundError, LilluxError):
        is_bound = False
    text = write_key_document(
        public_pem, "replaced", covers_all=True, binds_identity=is_bound, valid_until=valid_until
    )
    return _write_document(path, text, key)


def _write_own_document(path: Path, key: SigningKey, owner: str, *, binds_identity: bool) -> Path:
    text = write_key_document(
        key.public_pem, owner or OWN_OWNER, covers_all=True, binds_identity=binds_identity
    )
    return _write_document(path, text, key)


def trust_key(
    offered: OfferedKey, space: Space, key: SigningKey, *, owner: str, known: TrustedKey | None
) -> Path:
    """Write the document of another's key, signed by the own one; its path.

    ``known`` is the key as it counts already: what its document says must not get lost.
    Raises RyeError `CONFIG_ERROR`, FileSystemError.
    """
    said = owner or offered.owner or (known.owner if known else "")
    text = write_key_document(
        offered.public_pem,
        said if said not in {"", OWN_OWNER} else UNKNOWN_OWNER,
        covers_all=offered.covers_all or (known is not None and known.covers_all),
        binds_identity=offered.binds_identity or (known is not None and known.binds_identity),
    )
    path = document_path(space, offered.fingerprint)
    return _write_document(path, text, key, space.within)


def verifies_with(document: KeyDocument, public_pem: bytes) -> bool:
    """Whether a document is signed, unchanged since, by the key of ``public_pem``."""
    signature = document.signature
    return (
        signature is not None
        and signature.content_hash == content_hash(document.signed_text)
        and verify_signature(signature.content_hash, signature.value, public_pem)
    )


def _offered_pem(data: bytes, where: str) -> OfferedKey:
    try:
        public_pem = canonical_public_pem(data)
    except PemError as error:
        raise PemError(where, error.problem, hint=error.hint) from None
    return OfferedKey(fingerprint=compute_key_fingerprint(public_pem), public_pem=public_pem)


def _is_self_signed(document: KeyDocument, where: str) -> bool:
    """Whether the key itself signed the document. Raises RyeError `CONFIG_ERROR` if changed."""
    signature = document.signature
    if signature is None:
        return False
    if signature.fingerprint != document.fingerprint:
        changed = signature.content_hash != content_hash(document.signed_text)
    else:
        changed = not verifies_with(document, document.public_pem)
    if changed:
        raise key_document_error(where, "changed since it was signed")
    return signature.fingerprint == document.fingerprint


def _read_own_document(path: Path, key: SigningKey) -> KeyDocument | None:
    """The document at the path, if nothing about it needs to be written again."""
    try:
        document = parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
    except (FileNotFoundError, LilluxError):
        return None
    is_whole = document.covers_all and document.fingerprint == key.fingerprint
    return document if is_whole and verifies_with(document, key.public_pem) else None


def _write_document(path: Path, text: str, key: SigningKey, within: Path | None = None) -> Path:
    make_directory(path.parent, within=within)
    write_atomic(path, key.signed_config(text, path).encode(), within=within)
    return path


# --- key states -----------------------------------------------------------------------------------
# Every key document of every space, and why one that does not count does not.
#
# `ryeos.trust.store` decides; this only says in words what it decided, and goes through the same
# rules in the same way.


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyState:
    """One key document. ``problem`` is empty when its key counts, and ``hint`` says what to do."""

    fingerprint: str
    owner: str
    space: str
    path: Path
    digest: str = ""
    covers_all: bool = False
    problem: str = ""
    hint: str = ""

    @property
    def counts(self) -> bool:
        """Whether items of the document's space may be signed by this key."""
        return not self.problem

    def describe(self, own: str = "") -> dict[str, Any]:
        """The state as ``keys list --json`` shows it. ``own`` is the user's own fingerprint."""
        described: dict[str, Any] = {
            "fingerprint": self.fingerprint,
            "owner": self.owner,
            "space": self.space,
            "path": str(self.path),
            "covers_all": self.covers_all,
            "counts": self.counts,
            "own": self.fingerprint == own,
        }
        if self.problem:
            described["problem"] = self.problem
        if self.hint:
            described["hint"] = self.hint
        return described


def key_states(trust: TrustStore, approvals: Approvals) -> tuple[KeyState, ...]:
    """The state of every document, space by space.

    Raises RyeError `CONFIG_ERROR` for bad approvals.
    """
    return tuple(_state(space, path, trust, approvals) for space, path in trust.documents())


def document_problem(document: KeyDocument, space: Space, trust: TrustStore) -> str:
    """What is wrong with a document itself, its approval aside; ``""`` for nothing."""
    signature = document.signature
    if signature is None:
        return ""
    if signature.content_hash != content_hash(document.signed_text):
        return "changed since it was signed"
    if signature.fingerprint == document.fingerprint:
        signer_pem = document.public_pem
    else:
        signer = trust.get_key(signature.fingerprint, space.label)
        if signer is None:
            return _lost_signer(document, trust)
        signer_pem = signer.public_pem
    if not verifies_with(document, signer_pem):
        return f"its signature by {signature.fingerprint} does not hold"
    return ""


def _state(space: Space, path: Path, trust: TrustStore, approvals: Approvals) -> KeyState:
    try:
        document = parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
    except (OSError, LilluxError) as error:
        problem = str(error).removeprefix(f"{path}: ")
        return KeyState(
            fingerprint=path.stem, owner="", space=space.label, path=path, problem=problem
        )
    problem, hint = _problem(space, path, document, trust, approvals)
    return KeyState(
        fingerprint=document.fingerprint,
        owner=document.owner,
        space=space.label,
        path=path,
        digest=document.digest,
        covers_all=document.covers_all,
        problem=problem,
        hint=hint,
    )


def _problem(
    space: Space, path: Path, document: KeyDocument, trust: TrustStore, approvals: Approvals
) -> tuple[str, str]:
    if path.name != document_path(space, document.fingerprint).name:
        return (
            f"the file is named {path.stem}, but its key is {document.fingerprint}",
            "get the document again from its sender",
        )
    if has_expired(document):
        return f"replaced, and valid until {document.valid_until}", ""
    if document.owner.startswith(PIN_OWNER):
        return "the pin of a remote node, which signs no items", ""
    problem = document_problem(document, space, trust)
    if problem:
        return problem, "get the document again from its sender"
    if space.tier == PROJECT and not approvals.is_approved(space.base, document.digest):
        return (
            "not approved for this project",
            f"if you know whose key it is: rye keys trust {document.fingerprint}",
        )
    return "", ""


def _lost_signer(document: KeyDocument, trust: TrustStore) -> str:
    signers = dict(_signers(trust))
    seen = {document.fingerprint}
    fingerprint = document.signature.fingerprint if document.signature else ""
    signer = fingerprint
    while signer and signer not in seen:
        seen.add(signer)
        signer = signers.get(signer, "")
    if signer:
        return f"signed by {fingerprint} in a circle of keys that vouch for each other"
    return f"signed by {fingerprint}, which is not trusted"


def _signers(trust: TrustStore) -> Iterator[tuple[str, str]]:
    """Pairs of a key and the key that signed its document."""
    for _, path in trust.documents():
        try:
            document = parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
        except (OSError, LilluxError):
            continue
        if document.signature:
            yield document.fingerprint, document.signature.fingerprint
