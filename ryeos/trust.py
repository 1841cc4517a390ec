"""Which keys count, for which space. Documents, approvals and lookups (``docs/trust.md``).

A key document is ``.ai/config/keys/trusted/<fingerprint>.toml``. It counts

- in user space at once,
- in a bundle at once, but only for that bundle's items,
- in project space only after the user approved that fingerprint for that project, because a
  cloned repository may carry any document it likes.
"""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from lillux.errors import LilluxError
from lillux.files import read_bytes
from lillux.signing import canonical_public_pem, compute_key_fingerprint, verify_signature
from lillux.values import dataclass, field
from ryeos.approvals import Approvals
from ryeos.errors import KeyDocumentError, SignatureFormatError
from ryeos.items import PROJECT, SYSTEM, USER, Kind, Space, Spaces
from ryeos.signature import Signature, content_hash, decode, form_for, split

MAX_DOCUMENT_BYTES = 64 * 1024
TRUSTED_FOLDER = "config/keys/trusted"
COVERAGE_ALL = "all"
PIN_OWNER = "remote:"
"""With this begins the owner in a pin of a node: other programs keep those among trusted keys."""
# Honest documents are signed by their own key or by one that is; a bundle may bring any number.
MAX_VOUCHERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedKey:
    """A public key that counts in some space.

    fingerprint   16 hex digits of SHA-256 over the canonical PEM
    owner         free text: ``local``, a person, ``github-ci``
    source        the label of the space whose document made it count
    covers_all    every text this key signs is covered whole; less is a removed line
    """

    fingerprint: str
    owner: str
    public_pem: bytes
    source: str
    covers_all: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyDocument:
    """A parsed key document; says nothing yet about whether it counts."""

    fingerprint: str
    owner: str
    public_pem: bytes
    covers_all: bool
    version: str
    attestation: str
    signature: Signature | None
    signed_text: str = field(repr=False)


def document_path(space: Space, fingerprint: str) -> Path:
    """Where a space keeps the document of a key."""
    return space.ai / TRUSTED_FOLDER / f"{fingerprint}.toml"


def parse_key_document(data: bytes, where: str) -> KeyDocument:
    """Parse a key document, signed or not. Raises KeyDocumentError with the reason."""
    from ryeos.metadata.toml import parse_toml

    try:
        signed = split(decode(data, where), form_for(Kind.TOOL, ".toml"), where)
        header = parse_toml(signed.body)
        public_pem = canonical_public_pem(_pem_of(header, where))
        owner = _text(header, "owner", "unknown")
        if not owner.isprintable():
            raise SignatureFormatError(where, "expected the owner's name in visible characters")
    except LilluxError as error:
        raise KeyDocumentError(where, f"not a key document: {error}") from error
    return KeyDocument(
        fingerprint=compute_key_fingerprint(public_pem),
        owner=owner,
        public_pem=public_pem,
        covers_all=header.get("coverage") == COVERAGE_ALL,
        version=_text(header, "version", "1.0.0"),
        attestation=_text(header, "attestation", ""),
        signature=signed.signature,
        signed_text=signed.body,
    )


def write_key_document(public_pem: bytes, owner: str, *, covers_all: bool) -> str:
    """The unsigned text of a key document, fields in the order that every reader knows."""
    check_owner(owner)
    fingerprint = compute_key_fingerprint(public_pem)
    coverage = f'coverage = "{COVERAGE_ALL}"\n' if covers_all else ""
    return (
        'version = "1.0.0"\n'
        'category = "keys/trusted"\n'
        f'fingerprint = "{fingerprint}"\n'
        f'owner = "{owner}"\n'
        'attestation = ""\n'
        f"{coverage}"
        "\n[public_key]\n"
        f'pem = """\n{canonical_public_pem(public_pem).decode()}"""\n'
    )


def check_owner(owner: str) -> None:
    """Refuse a name that a key document could not hold as it is. Raises KeyDocumentError."""
    if not owner or not owner.isprintable() or not {'"', "\\"}.isdisjoint(owner):
        raise KeyDocumentError(
            "owner", "expected a plain name without quotes, backslashes or control characters"
        )


class TrustStore:
    """Looks keys up in the documents of the spaces; parsed documents are kept per file state."""

    def __init__(self, spaces: Spaces, approvals: Approvals) -> None:
        self._spaces = spaces
        self._approvals = approvals
        self._parsed: dict[Path, tuple[tuple[int, ...], KeyDocument | None]] = {}

    def get_key(self, fingerprint: str, label: str) -> TrustedKey | None:
        """The key that a signature in space ``label`` may be checked with, or None."""
        return self._lookup(fingerprint, label, frozenset())

    def keys_for(self, label: str) -> tuple[TrustedKey, ...]:
        """Every key that counts for items of space ``label``, by fingerprint."""
        names = {path.stem for space in self._sources(label) for path in _documents(space)}
        keys = (self.get_key(fingerprint, label) for fingerprint in sorted(names))
        return tuple(key for key in keys if key)

    def carried(self, fingerprint: str) -> Space | None:
        """The project space, if it carries a document of this key that is not approved."""
        project = self._spaces.project
        if not project or not self._document(project, fingerprint):
            return None
        approved = self._approvals.is_approved(project.base, fingerprint)
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
            and self._allowed(space, fingerprint)
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
            # One document that says so is enough: a second one must not be able to take it back.
            covers_all=any(_has_mark(space, found) for space, found in survivors),
        )

    def _sources(self, label: str) -> Iterator[Space]:
        """The spaces whose documents may speak for items of ``label``, in lookup order."""
        for space in self._spaces:
            own_bundle = space.tier == SYSTEM and space.label == label
            own_project = space.tier == PROJECT and label == PROJECT
            if own_project or space.tier == USER or own_bundle:
                yield space

    def _allowed(self, space: Space, fingerprint: str) -> bool:
        if space.tier != PROJECT:
            return True
        return self._approvals.is_approved(space.base, fingerprint)

    def _holds(self, document: KeyDocument, label: str, pending: frozenset[str]) -> bool:
        """Whether the document's own signature, if it has one, leads to a key that counts.

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


def _has_mark(space: Space, document: KeyDocument) -> bool:
    """Whether all that the key signs is covered whole, as far as anybody can know.

    Who may write into a project may take the signature off a document there, and then the mark.
    """
    return document.covers_all or (space.tier == PROJECT and document.signature is None)


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
