"""Verification: the only place that makes a `VerifiedItem`, which is all the executor takes.

Steps, in this order (``docs/signatures.md``):

(1) read at most 8 MiB of a regular file, once; these bytes are what is parsed and run later
(2) a bundle's file: its digest must be in the bundle's signed manifest
(3) decode as UTF-8, find the signature line of the file type
(4) the stated hash must be that of the covered text
(5) the key must count for the file's space
(6) the Ed25519 signature must hold
(7) a text that the first line leaves partly uncovered needs the covers line, if the key says so
(8) the identity line must name this very item; a key may say that it signs nothing without one
"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.contained_paths import path_inside
from lillux.digests import sha256_hex
from lillux.errors import LilluxError, as_word
from lillux.files import FileTooLargeError, read_bytes
from lillux.signing import compute_key_fingerprint, verify_signature
from lillux.values import dataclass, field
from ryeos.items.context import log_warning
from ryeos.items.errors import (
    IntegrityError,
    SignatureFormatError,
    UnboundSignatureError,
    UnsignedError,
    UntrustedKeyError,
)
from ryeos.items.refs import AI_DIRECTORY, SYSTEM, ItemRef, Kind, Location, Space, Spaces
from ryeos.trust.bundles import Manifest, manifest_signer, read_manifest
from ryeos.trust.signature import (
    DETACHED_SUFFIXES,
    FORMS,
    MAX_ITEM_BYTES,
    CommentForm,
    Covers,
    Identity,
    Signature,
    SignedText,
    content_hash,
    detached_path,
    form_for,
    form_of,
    hashed_text,
    needs_covers,
    parse_core,
    parse_identity,
    split,
    text_of,
)
from ryeos.trust.store import TrustedKey, TrustStore

if TYPE_CHECKING:
    from ryeos.items.refs import FileType


MAX_DETACHED_BYTES = 2048


class Coverage(StrEnum):
    """The part of the file that the signature covers."""

    FULL = "full"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A file to verify: where it is, as which kind, in which space."""

    path: Path
    kind: Kind
    space: Space

    @property
    def suffix(self) -> str:
        """The last suffix in lower case."""
        return self.path.suffix.lower()

    @property
    def file_type(self) -> "FileType | None":
        """The type of the file if a space has added it."""
        return self.space.file_type(self.kind, self.suffix)

    @property
    def form(self) -> CommentForm | None:
        """The form of its signature line; None for a type of files that has none."""
        known = FORMS[self.kind].get(self.suffix)
        added = None if known else self.file_type
        return form_of(added) if added else known

    @property
    def sign_command(self) -> str:
        """The command that a user types to sign this file."""
        return f"rye sign {as_word(self.path)}"

    def identity(self, version: str = "") -> Identity | None:
        """The item that the file is for its place; None for a file below no folder of a kind."""
        relative = _relative_to(self.path, self.space.directory(self.kind))
        if relative is None:
            return None
        item_id = relative[: -len(self.path.suffix)] if self.path.suffix else relative
        return Identity(self.kind.value, item_id, self.suffix[1:], version)


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedItem:
    """Bytes that a trusted key signed; made by `Verifier` only.

    content_hash  SHA-256 of the text that the first signature line covers
    identity      the item that the signature is for; None where the signer named none
    header        parsed metadata, when the bundle's manifest vouches for it
    verified      False only in dev mode, for bytes that failed the check
    """

    target: Target
    data: bytes = field(repr=False)
    text: str = field(repr=False)
    content_hash: str
    signature: Signature | None
    key: TrustedKey | None
    coverage: Coverage
    identity: Identity | None = None
    header: Mapping[str, Any] | None = field(default=None, repr=False)
    verified: bool = True

    @property
    def signer(self) -> str:
        """The key's digest; ``""`` for what a bundle lists, and for what dev mode let by."""
        key = self.key
        is_bundled = key is None or key.source.startswith(SYSTEM)
        return "" if key is None or is_bundled or not self.verified else key.digest

    @property
    def sha256(self) -> str:
        """Digest of the very bytes, for the check right before they run."""
        return sha256_hex(self.data)


class Verifier:
    """Checks files of the spaces against a trust store. Thread-safe: all state is memoised facts.

    ``warn`` gets one line per item that dev mode let through. ``restore`` writes a file of the own
    bundle anew from where it came; it gets the path below the folder that holds ``.ai``.
    """

    def __init__(
        self,
        spaces: Spaces,
        trust: TrustStore,
        *,
        dev_mode: bool = False,
        warn: Callable[[str], None] = log_warning,
        restore: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._spaces = spaces
        self.trust = trust
        self._dev_mode = dev_mode
        self._warn = warn
        self._restore = restore
        self._manifests = Manifests(trust)

    def verify_location(self, location: Location) -> VerifiedItem:
        """Verify a resolved item. Raises IntegrityError and similar."""
        return self.verify(Target(path=location.path, kind=location.ref.kind, space=location.space))

    def verify(self, target: Target, data: bytes | None = None) -> VerifiedItem:
        """Verify a file, or the bytes that were read from it.

        Raises IntegrityError and similar, NoSignatureFormError.
        """
        data = self._read(target) if data is None else data  # (1)
        try:
            return self._check(target, data)
        except IntegrityError as error:
            if not self._dev_mode or isinstance(error, SignatureFormatError):
                raise
            self._warn(f"RYE_DEV_MODE: {error}")
            return self._unverified(target, data)

    def key_counts(self, item: VerifiedItem) -> bool:
        """True if the key that an item was verified with still counts for its space."""
        key, space = item.key, item.target.space
        if key is None or key.source.startswith(SYSTEM):
            return key is not None
        return self.trust.get_key(key.fingerprint, space.label) is not None

    def verify_unless_unsigned(self, target: Target) -> VerifiedItem:
        """Verify as `verify`, but an unsigned file comes back ``verified`` false, with a warning.

        For configuration, which people edit by hand: unsigned is fine, tampered is not.
        """
        data = self._read(target)
        try:
            return self._check(target, data)
        except UnsignedError:
            self._warn(f"unsigned configuration is used: {target.path}")
            return self._unverified(target, data)

    def _check(self, target: Target, data: bytes) -> VerifiedItem:
        manifest = self._manifests.of(target.space)
        listed = _path_in_bundle(target) if manifest else None
        if manifest and listed:
            return self._verify_listed(target, data, manifest, listed)
        signed, detached = self._signed_text(target, data)
        signature = detached or signed.signature
        if signature is None:
            raise UnsignedError(str(target.path), target.sign_command)
        where = str(target.path)
        covered = (
            detached_hash(signed.identity_line, data) if detached else _covered_hash(target, signed)
        )
        if signature.content_hash != covered:  # (4)
            raise IntegrityError(
                where,
                "content modified since signing",
                hint=f"if the change is yours: {target.sign_command}",
            )
        key = self._key_for(target, signature, data)  # (5)
        _verify_value(where, signature.content_hash, signature.value, key)  # (6)
        coverage = Coverage.FULL if detached else self._verify_coverage(target, signed, key)  # (7)
        _verify_identity(target, signed.identity, key)  # (8)
        return VerifiedItem(
            target=target,
            data=data,
            text=_text(target, data),
            content_hash=covered,
            signature=signature,
            key=key,
            coverage=coverage,
            identity=signed.identity,
        )

    def _verify_listed(
        self, target: Target, data: bytes, manifest: Manifest, relative: str
    ) -> VerifiedItem:
        """(2) A file of a bundle that has a manifest: nothing that is not listed counts."""
        if not manifest.holds(relative, data):
            data = self._restore_file(target, relative, manifest)
        signed, _ = self._signed_text(target, data)
        key = self._manifests.key(target.space, manifest)
        return VerifiedItem(
            target=target,
            data=data,
            text=_text(target, data),
            content_hash=_covered_hash(target, signed),
            signature=signed.signature,
            key=key,
            coverage=Coverage.FULL,
            identity=signed.identity,
            header=manifest.header(relative),
        )

    def _restore_file(self, target: Target, relative: str, manifest: Manifest) -> bytes:
        """The published bytes of the own bundle's file, written anew. Raises IntegrityError."""
        if target.space.pinned_pem and self._restore(f"{AI_DIRECTORY}/{relative}"):
            data = self._read(target)
            if manifest.holds(relative, data):
                return data
        raise IntegrityError(
            str(target.path),
            f"not the file that the bundle {target.space.bundle_id} was published with",
            hint="install the bundle (or rye.pyz) again",
        )

    def _read(self, target: Target) -> bytes:
        try:
            return read_bytes(target.path, MAX_ITEM_BYTES)
        except FileNotFoundError:
            raise IntegrityError(str(target.path), "the file is no longer there") from None
        except FileTooLargeError as error:
            raise SignatureFormatError(
                str(target.path),
                f"item larger than {error.limit} bytes ({error.size})",
                hint="keep data out of item files; read it from the project at run time",
            ) from None

    def _signed_text(self, target: Target, data: bytes) -> tuple[SignedText, Signature | None]:
        """(3) The text taken apart, and the signature beside it where none can be inside."""
        where = str(target.path)
        form = target.form
        if form:
            signed = split(text_of(data, form, where), form, where)
            if signed.signature or target.suffix not in DETACHED_SUFFIXES:
                return signed, None
        detached, identity_line = _read_detached(target)
        if detached is None and not form:
            form_for(target.kind, target.suffix, where)
        text = data.decode("utf-8", "replace")
        beside = SignedText(
            shebang="", signature=None, covers=None, body=text, identity_line=identity_line
        )
        return beside, detached

    def _key_for(self, target: Target, signature: Signature, data: bytes) -> TrustedKey:
        fingerprint = signature.fingerprint
        key = self.trust.get_key(fingerprint, target.space.label)
        key = key or self._key_of_copied_item(target, fingerprint, data)
        if key:
            return key
        hint = self._trust_hint(fingerprint)
        if signature.provenance:
            hint = f"it came from a registry: read it, then: {target.sign_command}"
        raise UntrustedKeyError(str(target.path), fingerprint, hint)

    def _key_of_copied_item(
        self, target: Target, fingerprint: str, data: bytes
    ) -> TrustedKey | None:
        """A bundle's key counts elsewhere for an untouched copy of the bundle's own item."""
        relative = path_inside(target.path, target.space.ai)
        if target.space.tier == SYSTEM or relative is None:
            return None
        for bundle in self._spaces.bundles:
            original = Target(path=bundle.ai / relative, kind=target.kind, space=bundle)
            try:
                if read_bytes(original.path, MAX_ITEM_BYTES) == data:
                    verified = self._check(original, data)
                    if verified.key and verified.key.fingerprint == fingerprint:
                        return verified.key
            except (OSError, LilluxError):
                continue
        return None

    def _trust_hint(self, fingerprint: str) -> str:
        if self.trust.unapproved_space(fingerprint):
            return (
                "this project carries the key; if you know whose it is:"
                f" rye keys trust {fingerprint}"
            )
        return "if you know whose key it is: rye keys trust PEMFILE; or review and sign it yourself"

    def _verify_coverage(self, target: Target, signed: SignedText, key: TrustedKey) -> Coverage:
        if not needs_covers(target.kind, signed.body):
            return Coverage.FULL
        where, covers = str(target.path), signed.covers
        if covers:
            _verify_covers(where, covers, signed, key)
            return Coverage.FULL
        if key.covers_all:
            raise IntegrityError(
                where,
                "the rye:covers line is missing, and this key signs nothing without it",
                hint=f"the line was removed; review the text, then: {target.sign_command}",
            )
        return Coverage.PARTIAL

    def _unverified(self, target: Target, data: bytes) -> VerifiedItem:
        signed, _ = self._signed_text(target, data)
        return VerifiedItem(
            target=target,
            data=data,
            text=_text(target, data),
            content_hash=_covered_hash(target, signed),
            signature=signed.signature,
            key=None,
            coverage=Coverage.PARTIAL,
            verified=False,
        )


def _is_bare_script(item: VerifiedItem) -> bool:
    from ryeos.items.shell_headers import is_bare_script

    return is_bare_script(".sh", item.text)


def require_place(item: VerifiedItem, ref: ItemRef, header: Mapping[str, Any]) -> None:
    """Refuse an item whose header says that it is another one than its file is taken for.

    A signature with an identity line names the version too. One without, by a key that never names
    an item, leaves the header: its category is the folder, its name the file's, where it has them.
    Raises UnboundSignatureError.
    """
    if not item.verified or item.target.space.tier == SYSTEM:
        return
    named = item.identity.version if item.identity else ""
    if item.target.suffix == ".sh" and not named and _is_bare_script(item):
        raise UnboundSignatureError(
            str(item.target.path),
            "signed as a text that tools read, and begins with #! now, as a tool does",
            item.target.sign_command,
            fingerprint=item.key.fingerprint if item.key else "",
        )
    if item.identity:
        wanted = {"version": named} if named else {}
    else:
        wanted = {"category": ref.category, "name": ref.name}
    for name, expected in wanted.items():
        said = header.get(name)
        if isinstance(said, str) and said and said != expected:
            raise UnboundSignatureError(
                str(item.target.path),
                f"expected the {name} {expected!r} for this place, its header says {said[:60]!r}",
                item.target.sign_command,
                fingerprint=item.key.fingerprint if item.key else "",
            )


def unchanged(item: VerifiedItem) -> None:
    """Refuse to continue if the file no longer holds the verified bytes. Raises IntegrityError."""
    try:
        same = read_bytes(item.target.path, MAX_ITEM_BYTES) == item.data
    except (OSError, LilluxError):
        same = False
    if not same:
        raise IntegrityError(
            str(item.target.path),
            "changed between its verification and its start",
            hint="another program is writing to this file; run the command again when that is done",
        )


def _path_in_bundle(target: Target) -> str | None:
    """The path below ``.ai`` as it is spelled: a link is not the file that it leads to."""
    path, ai = target.path, target.space.ai
    return path.relative_to(ai).as_posix() if path.is_relative_to(ai) else path_inside(path, ai)


def _text(target: Target, data: bytes) -> str:
    """The whole text, signature lines included, so that parsers count lines as editors do."""
    form = target.form
    return text_of(data, form, str(target.path)) if form else data.decode("utf-8", "replace")


def _covered_hash(target: Target, signed: SignedText) -> str:
    return content_hash(hashed_text(target.kind, signed, str(target.path)))


def _verify_covers(where: str, covers: Covers, signed: SignedText, key: TrustedKey) -> None:
    is_whole = covers.content_hash == content_hash(signed.covered)
    if covers.fingerprint != key.fingerprint or not is_whole:
        raise IntegrityError(
            where,
            "content modified since signing (outside the signed block)",
            hint="review the whole text, then sign the file again",
        )
    _verify_value(where, covers.content_hash, covers.value, key)


def _verify_value(where: str, covered: str, value: str, key: TrustedKey) -> None:
    if not _holds(covered, value, key.public_pem):
        raise IntegrityError(
            where,
            f"Ed25519 signature does not hold for key {key.fingerprint} ({key.owner})",
            hint="possible tampering; get the file again from where it came",
        )


@lru_cache(maxsize=8192)
def _holds(covered: str, value: str, public_pem: bytes) -> bool:
    """Pure, so a long-lived process checks each signature once. Nothing is kept on disk."""
    return verify_signature(covered, value, public_pem)


def _verify_identity(target: Target, identity: Identity | None, key: TrustedKey) -> None:
    """(8) What was signed as one item is no other, wherever its file is put."""
    place = target.identity()
    if place is None:
        return
    if identity is None:
        if key.binds_identity:
            raise UnboundSignatureError(
                str(target.path),
                "the signature does not say which item it is for",
                target.sign_command,
                fingerprint=key.fingerprint,
                is_named=False,
            )
        return
    if not identity.is_for(place):
        raise UnboundSignatureError(
            str(target.path),
            f"signed as {identity.kind}:{identity.id}.{identity.suffix}, found in another place",
            target.sign_command,
            fingerprint=key.fingerprint,
        )


def detached_hash(identity_line: str, data: bytes) -> str:
    """The digest that a signature beside a file covers: the identity line, then its bytes."""
    return sha256_hex(identity_line.encode() + data)


def split_detached(text: str) -> tuple[Signature | None, str]:
    """The signature and the identity line of a ``.sig`` file; None for another text."""
    first, _, second = text.strip().partition("\n")
    identity = parse_identity(second)
    if second and (identity is None or identity.core() != second):
        return None, ""
    return parse_core(first.strip()), f"{second}\n" if second else ""


def _read_detached(target: Target) -> tuple[Signature | None, str]:
    beside = detached_path(target.path)
    try:
        text = read_bytes(beside, MAX_DETACHED_BYTES).decode("utf-8")
    except FileNotFoundError:
        return None, ""
    except (UnicodeDecodeError, FileTooLargeError):
        text = ""
    signature, identity_line = split_detached(text)
    if signature is None:
        raise SignatureFormatError(
            str(beside),
            "expected one rye:signed line",
            hint=f"read the item, and if you trust it: {target.sign_command}",
        )
    return signature, identity_line


def _relative_to(path: Path, root: Path) -> str | None:
    """The POSIX path below a folder. A link in the last place is not the file that it leads to."""
    if path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    folder = path_inside(path.parent, root)
    return None if folder is None else f"{folder}/{path.name}".removeprefix("./")


# The verified manifests of the bundles, each checked once, and the keys that signed them.


class Manifests:
    """Looks manifests up by their space and keeps them."""

    def __init__(self, trust: TrustStore) -> None:
        self._trust = trust
        self._kept: dict[str, Manifest | None] = {}

    def of(self, space: Space) -> Manifest | None:
        """The manifest of a bundle, None for a space that has none. Raises IntegrityError."""
        if space.tier != SYSTEM:
            return None
        if space.label not in self._kept:
            self._kept[space.label] = self._read(space)
        return self._kept[space.label]

    def key(self, space: Space, manifest: Manifest) -> TrustedKey | None:
        """The key that signed a bundle's manifest, and so every file it lists."""
        if not space.pinned_pem:
            return self._trust.get_key(manifest.signature.fingerprint, space.label)
        return TrustedKey(
            fingerprint=compute_key_fingerprint(space.pinned_pem),
            owner=space.bundle_id,
            public_pem=space.pinned_pem,
            source=space.label,
            covers_all=True,
        )

    def _read(self, space: Space) -> Manifest | None:
        if space.pinned_pem:
            manifest = read_manifest(space, space.pinned_pem)
            if manifest is None:
                raise IntegrityError(
                    str(space.ai),
                    f"the bundle {space.bundle_id} has no manifest",
                    hint="install the bundle (or rye.pyz) again",
                )
            return manifest
        fingerprint = manifest_signer(space)
        key = self._trust.get_key(fingerprint, space.label) if fingerprint else None
        return read_manifest(space, key.public_pem) if key else None
