"""The trust store: which keys are trusted for which space (``docs/trust.md``).

A key document is ``.ai/config/keys/trusted/<fingerprint>.toml``. It counts

- in user space at once,
- in a bundle at once, but only for that bundle's items,
- in project space only after the user approved that fingerprint for that project, because a
  cloned repository may carry any document it likes.
"""

import json
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.file_locks import locked
from lillux.files import file_state, make_directory, read_bytes, write_atomic
from lillux.signing import (
    canonical_public_pem,
    compute_key_digest,
    compute_key_fingerprint,
    verify_signature,
)
from lillux.values import dataclass, field
from ryeos.items.context import utc_now
from ryeos.items.errors import SignatureFormatError, key_document_error
from ryeos.items.refs import PROJECT, SYSTEM, USER, Kind, Space, Spaces, user_lock
from ryeos.trust.signature import Signature, content_hash, decode, form_for, split

# Keys carried by a project that the user approved, kept in user space.
#
# File: ``<user>/.ai/config/keys/approved.json``, ``{"version": 1, "projects": {PATH: [KEY]}}``.
# PATH is the real path of the project folder, KEY the 64 digits of the key's digest, of which
# earlier versions wrote the first 16, the fingerprint.

MAX_APPROVALS_BYTES = 1024 * 1024
FINGERPRINT_DIGITS = 16
APPROVALS_VERSION = 1


def typed_fingerprint(text: str) -> str:
    """The fingerprint that a person typed: as a list shows it, as a node does, or all 64 digits.

    Other text comes back as it is, in small letters: the caller says what it expected.
    """
    found = text.strip().lower().removeprefix("fp:")
    is_whole = len(found) == _DIGEST_DIGITS and not found.strip("0123456789abcdef")
    return found[:FINGERPRINT_DIGITS] if is_whole else found


_DIGEST_DIGITS = 64


class Approvals:
    """The approvals file of one user space; read when first asked."""

    def __init__(self, user_ai: Path) -> None:
        self.path = user_ai / "config" / "keys" / "approved.json"
        self._lock = user_lock(user_ai, "approvals")
        self._projects: dict[str, list[str]] = {}
        self._originals: dict[str, str] = {}
        self._state: tuple[int, ...] = ()

    def is_approved(self, project: Path, digest: str) -> bool:
        """True if the user approved this key for this project. Raises RyeError `CONFIG_ERROR`."""
        real = os.path.realpath(project)
        known = self._load().get(self._originals.get(real, real), [])
        return digest in known or digest[:FINGERPRINT_DIGITS] in known

    def count_as(self, copy: Path, original: Path) -> None:
        """Let what is approved for a project hold in a copy of it, for this object's life."""
        self._originals[os.path.realpath(copy)] = os.path.realpath(original)

    def all(self) -> tuple[tuple[str, str], ...]:
        """Each approval: a project's real path, and a key's digest.

        Raises RyeError `CONFIG_ERROR`.
        """
        projects = self._load().items()
        return tuple((path, digest) for path, keys in projects for digest in keys)

    def approve(self, project: Path, digest: str) -> None:
        """Trust a key that the project carries there from now on."""
        key = os.path.realpath(project)
        with locked(self._lock):
            projects = self._load()
            approved = {*projects.get(key, ()), digest}
            self._save(projects | {key: sorted(approved)})

    def withdraw(self, project: Path, fingerprint: str) -> bool:
        """Take back what begins with a fingerprint, or is this digest; False if there was none."""
        key = os.path.realpath(project)
        if not self._load().get(key):
            return False
        with locked(self._lock):
            projects = self._load()
            known = projects.get(key, [])
            kept = [digest for digest in known if not digest.startswith(fingerprint)]
            if kept != known:
                self._save(projects | {key: kept})
        return kept != known

    def _load(self) -> dict[str, list[str]]:
        """The file's content; a long-lived process must notice that an approval was taken back."""
        state = file_state(self.path)
        if state != self._state:
            self._projects, self._state = self._read(), state
        return self._projects

    def _read(self) -> dict[str, list[str]]:
        try:
            document = json.loads(read_bytes(self.path, MAX_APPROVALS_BYTES))
        except FileNotFoundError:
            return {}
        except (ValueError, RecursionError) as error:
            raise key_document_error(str(self.path), f"expected JSON, found: {error}") from error
        projects = document.get("projects") if isinstance(document, dict) else None
        if not isinstance(projects, dict) or document.get("version") != APPROVALS_VERSION:
            raise key_document_error(
                str(self.path), f"expected an approvals file of version {APPROVALS_VERSION}"
            )
        return {
            path: [digest for digest in keys if isinstance(digest, str)]
            for path, keys in projects.items()
            if isinstance(keys, list)
        }

    def _save(self, projects: dict[str, list[str]]) -> None:
        document = {
            "version": APPROVALS_VERSION,
            "projects": {path: keys for path, keys in sorted(projects.items()) if keys},
        }
        make_directory(self.path.parent, mode=0o700)
        write_atomic(self.path, json.dumps(document, indent=2).encode() + b"\n", mode=0o600)


MAX_DOCUMENT_BYTES = 64 * 1024
TRUSTED_FOLDER = "config/keys/trusted"
COVERAGE_ALL = "all"
IDENTITY_REQUIRED = "required"
PIN_OWNER = "remote:"
"""With this begins the owner in a pin of a node: other programs keep those among trusted keys."""
# Honest documents are signed by their own key or by one that is; a bundle may bring any number.
MAX_VOUCHERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """A public key that counts in some space.

    fingerprint   16 hex digits of SHA-256 over the canonical PEM
    digest        all 64 of them; ``""`` for a bundle's key
    owner         free text: ``local``, a person, ``github-ci``
    source        the label of the space whose document made it count
    covers_all    every text this key signs is covered whole; less is a removed line
    binds_identity  every item this key signs names itself; one that does not is no item of its
    """

    fingerprint: str
    owner: str
    public_pem: bytes
    source: str
    digest: str = ""
    covers_all: bool = False
    binds_identity: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDocument:
    """A parsed key document; says nothing yet about whether it counts.

    digest       SHA-256 over the canonical PEM, 64 hex digits
    fingerprint  the first 16 of them
    """

    digest: str
    fingerprint: str
    owner: str
    public_pem: bytes
    covers_all: bool
    binds_identity: bool
    valid_until: str
    version: str
    attestation: str
    signature: Signature | None
    signed_text: str = field(repr=False)


def document_path(space: Space, fingerprint: str) -> Path:
    """The path of the document of a key in a space."""
    return _document_in(space.ai, fingerprint)


@lru_cache(maxsize=256)
def _document_in(ai: Path, fingerprint: str) -> Path:
    return ai / TRUSTED_FOLDER / f"{fingerprint}.toml"


def parse_key_document(data: bytes, where: str) -> KeyDocument:
    """Parse a key document, signed or not. Raises RyeError `CONFIG_ERROR` with the reason."""
    try:
        signed = split(decode(data, where), form_for(Kind.TOOL, ".toml"), where)
        header = _own_header(signed.body) or _parsed_header(signed.body)
        public_pem = canonical_public_pem(_pem_of(header, where))
        digest = compute_key_digest(public_pem)
        owner = _text(header, "owner", "unknown")
        if not owner.isprintable():
            raise SignatureFormatError(where, "expected the owner's name in visible characters")
    except LilluxError as error:
        raise key_document_error(where, f"not a key document: {error}") from error
    return KeyDocument(
        digest=digest,
        fingerprint=digest[:FINGERPRINT_DIGITS],
        owner=owner,
        public_pem=public_pem,
        covers_all=header.get("coverage") == COVERAGE_ALL,
        binds_identity=header.get("identity") == IDENTITY_REQUIRED,
        valid_until=_text(header, "valid_until", ""),
        version=_text(header, "version", "1.0.0"),
        attestation=_text(header, "attestation", ""),
        signature=signed.signature,
        signed_text=signed.covered,
    )


def _own_header(body: str) -> dict[str, Any] | None:
    """The fields of a document exactly as `write_key_document` writes it; None for any other text.

    Every start reads one, and importing a parser of TOML for it takes a tenth of a short run. That
    the fields are those of the text is known since they, written again, are this text.
    """
    head, found, rest = body.partition(_KEY_TABLE)
    fields = [line.partition(' = "') for line in head.split("\n") if line]
    header: dict[str, Any] = {name: value[:-1] for name, _, value in fields}
    pem = rest.removesuffix(_KEY_TABLE_END)
    try:
        written = write_key_document(
            pem.encode(),
            header.get("owner", ""),
            covers_all="coverage" in header,
            binds_identity="identity" in header,
            valid_until=header.get("valid_until", ""),
        )
    except LilluxError:
        return None
    return {**header, "public_key": {"pem": pem}} if found and written == body else None


def _parsed_header(body: str) -> dict[str, Any]:
    from ryeos.items.toml import parse_toml

    return parse_toml(body)


_KEY_TABLE, _KEY_TABLE_END = '\n[public_key]\npem = """\n', '"""\n'


def write_key_document(
    public_pem: bytes,
    owner: str,
    *,
    covers_all: bool,
    binds_identity: bool = False,
    valid_until: str = "",
) -> str:
    """The unsigned text of a key document, fields in the order that every reader knows.

    Raises RyeError `CONFIG_ERROR` for an owner or a last day that a reader would take for another.
    """
    valid_owner(owner)
    if not _needs_no_escape(valid_until):
        raise key_document_error("valid_until", "expected a day like 2027-01-31")
    fingerprint = compute_key_fingerprint(public_pem)
    marks = f'coverage = "{COVERAGE_ALL}"\n' if covers_all else ""
    validity = f'valid_until = "{valid_until}"\n' if valid_until else ""
    marks += f'identity = "{IDENTITY_REQUIRED}"\n' if binds_identity else ""
    return (
        'version = "1.0.0"\n'
        'category = "keys/trusted"\n'
        f'fingerprint = "{fingerprint}"\n'
        f'owner = "{owner}"\n'
        'attestation = ""\n'
        f"{marks}"
        f"{validity}"
        f"{_KEY_TABLE}{canonical_public_pem(public_pem).decode()}{_KEY_TABLE_END}"
    )


def valid_owner(owner: str) -> None:
    """Refuse a name that a key document could not hold as it is. Raises RyeError `CONFIG_ERROR`."""
    if not owner or not _needs_no_escape(owner):
        raise key_document_error(
            "owner", "expected a plain name without quotes, backslashes or control characters"
        )


def _needs_no_escape(text: str) -> bool:
    """True if a text between quotes is that text to every reader of TOML."""
    return text.isprintable() and {'"', "\\"}.isdisjoint(text)


class TrustStore:
    """Looks keys up in the documents of the spaces; parsed documents are kept per file state."""

    def __init__(self, spaces: Spaces, approvals: Approvals) -> None:
        self._spaces = spaces
        self._approvals = approvals
        self._parsed: dict[Path, tuple[tuple[int, ...], KeyDocument | None]] = {}

    def get_key(self, fingerprint: str, label: str) -> TrustedKey | None:
        """The key that a signature in space ``label`` may be checked with, or None."""
        return self._lookup(fingerprint, label, frozenset())

    def unapproved_space(self, fingerprint: str) -> Space | None:
        """The project space, if it carries a document of this key that is not approved."""
        project = self._spaces.project
        document = self._document(project, fingerprint) if project else None
        if not project or not document:
            return None
        approved = self._approvals.is_approved(project.base, document.digest)
        return None if approved else project

    def documents(self) -> Iterator[tuple[Space, Path]]:
        """Every key document of every space, whether it counts or not."""
        for space in self._spaces:
            for path in _documents(space):
                yield space, path

    def _lookup(self, fingerprint: str, label: str, pending: frozenset[str]) -> TrustedKey | None:
        survivors = [
            (space, document)
            for space in self._sources(label)
            if (document := self._document(space, fingerprint)) is not None
            and not document.owner.startswith(PIN_OWNER)
            and not has_expired(document)
            and self._is_allowed(space, document)
            and self._holds(document, label, pending | {fingerprint})
        ]
        if not survivors:
            return None
        space, document = survivors[0]
        return TrustedKey(
            fingerprint=fingerprint,
            owner=document.owner,
            public_pem=document.public_pem,
            source=space.label,
            digest=document.digest,
            # One document that says so is enough: a second one must not be able to take it back.
            covers_all=any(
                found.covers_all or _lost_marks(space, found) for space, found in survivors
            ),
            binds_identity=any(found.binds_identity for _, found in survivors),
        )

    def _sources(self, label: str) -> Iterator[Space]:
        """The spaces whose documents may speak for items of ``label``, in lookup order."""
        for space in self._spaces:
            own_bundle = space.tier == SYSTEM and space.label == label
            own_project = space.tier == PROJECT and label == PROJECT
            if own_project or space.tier == USER or own_bundle:
                yield space

    def _is_allowed(self, space: Space, document: KeyDocument) -> bool:
        if space.tier != PROJECT:
            return True
        return self._approvals.is_approved(space.base, document.digest)

    def _holds(self, document: KeyDocument, label: str, pending: frozenset[str]) -> bool:
        """True if the document's own signature, if it has one, leads to a key that counts.

        A circle of documents that vouch for each other leads nowhere and is refused.
        """
        signature = document.signature
        if signature is None:
            return True
        if signature.content_hash != content_hash(document.signed_text):
            return False
        if signature.fingerprint == document.fingerprint:
            return _verifies(signature, document.public_pem)
        if signature.fingerprint in pending or len(pending) == MAX_VOUCHERS:
            return False
        signer = self._lookup(signature.fingerprint, label, pending)
        return signer is not None and _verifies(signature, signer.public_pem)

    def _document(self, space: Space, fingerprint: str) -> KeyDocument | None:
        """The document in a space whose PEM really has this fingerprint, or None."""
        path = document_path(space, fingerprint)
        try:
            status = path.stat()
        except (OSError, ValueError):
            return None
        state = (status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns)
        known = self._parsed.get(path)
        if known and known[0] == state:
            return known[1]
        document = _read_document(path)
        if document and document.fingerprint != fingerprint:
            document = None
        self._parsed[path] = state, document
        return document


def has_expired(document: KeyDocument) -> bool:
    """True if a key that was replaced no longer counts: its last day, UTC, is over."""
    return bool(document.valid_until) and utc_now().strftime("%Y-%m-%d") > document.valid_until


def _lost_marks(space: Space, document: KeyDocument) -> bool:
    """True if marks may have been removed: from a document of a project, with its signature."""
    return space.tier == PROJECT and document.signature is None


def _read_document(path: Path) -> KeyDocument | None:
    """A document that cannot be read does not count; `doctor` and `keys list` say why."""
    try:
        return parse_key_document(read_bytes(path, MAX_DOCUMENT_BYTES), str(path))
    except (OSError, LilluxError):
        return None


def _documents(space: Space) -> list[Path]:
    try:
        return sorted((space.ai / TRUSTED_FOLDER).glob("*.toml"))
    except OSError:
        return []


@lru_cache(maxsize=1024)
def _verifies(signature: Signature, public_pem: bytes) -> bool:
    """The same document vouches for every item of its key: check its signature once."""
    return verify_signature(signature.content_hash, signature.value, public_pem)


def _pem_of(header: dict[str, Any], where: str) -> bytes:
    table = header.get("public_key")
    pem = table.get("pem") if isinstance(table, dict) else None
    if not isinstance(pem, str):
        raise SignatureFormatError(where, "expected the key in public_key.pem, found none")
    return pem.encode()


def _text(header: dict[str, Any], name: str, default: str) -> str:
    value = header.get(name, default)
    return value if isinstance(value, str) else default
