"""Validates an item from a registry before it is written or used. Pure.

(1) it is the item and the version that were asked for
(2) its file type is one of its kind, with a signature line of its own
(3) it is signed: by the pinned key, for the account that is named as its author
(4) the hash is that of its text, the signature and the covers line hold
(5) the registry attests that it is that item, by that author: `verify_item_attestation`
(6) its own header names the same category, name and version, so that nothing else's signature and
    no older version passes for it
"""

from pathlib import Path
from typing import Protocol

from lillux.errors import LilluxError
from lillux.signing import verify_signature
from lillux.values import dataclass, field
from ryeos.items.errors import ItemValidationError, UnsupportedError
from ryeos.items.refs import PROJECT, SYSTEM, ItemRef, Kind, Reference, Resolution, Space
from ryeos.items.shell_headers import own_version
from ryeos.remote.attestations import verify_item_attestation
from ryeos.remote.pins import Pin
from ryeos.remote.registry_errors import RegistryIdError, pulled_item_error
from ryeos.remote.registry_ids import published_ref, valid_version
from ryeos.remote.replies import PulledReply
from ryeos.trust.extractors import extract
from ryeos.trust.item_rules import validate_item
from ryeos.trust.sign_targets import SignTarget
from ryeos.trust.signature import (
    DETACHED_SUFFIXES,
    FORMS,
    MAX_ITEM_BYTES,
    Covers,
    Signature,
    SignedText,
    content_hash,
    hashed_text,
    needs_covers,
)
from ryeos.trust.verify import VerifiedItem

PROVIDER = "rye-registry"
_NOWHERE = Space(PROJECT, Path())
_GUESSED = {Kind.DIRECTIVE: (".md",), Kind.KNOWLEDGE: (".md",), Kind.TOOL: (".py", ".yaml", ".sh")}


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledItem:
    """An item that the pinned registry signed.

    text_hash   of the text without signature lines, for any signer: what a lock keeps
    covers_all  whether the signature covers all of it
    """

    ref: ItemRef
    version: str
    suffix: str
    data: bytes = field(repr=False)
    text_hash: str
    author: str
    fingerprint: str
    covers_all: bool
    created_at: str = ""
    description: str = ""


def verify_pulled(reply: PulledReply, ref: ItemRef, pin: Pin, *, version: str = "") -> PulledItem:
    """The item of a reply. ``version`` is the one that was asked for, if any.

    Raises RyeError `INTEGRITY`, whatever is wrong with it.
    """
    what = f"{ref} {reply.version[:20]!a} from {pin.netloc}"
    if (reply.item_type, reply.item_id) != (ref.kind.value, ref.id):  # (1)
        found = f"{reply.item_type[:20]}:{reply.item_id[:200]}"
        raise pulled_item_error(what, f"expected that item, found {found!a}")
    if version and reply.version != version:
        raise pulled_item_error(what, f"expected version {version}")
    data = reply.content.encode()
    if len(data) > MAX_ITEM_BYTES:
        raise pulled_item_error(what, f"expected at most {MAX_ITEM_BYTES} bytes, found {len(data)}")
    suffix, signed = _split_signature(reply, ref, what)  # (2)
    signature = _signature(signed, reply, pin, what)  # (3)
    try:
        covered = content_hash(hashed_text(ref.kind, signed, what))
    except LilluxError as error:
        raise pulled_item_error(what, str(error)) from error
    if signature.content_hash != covered:  # (4)
        raise pulled_item_error(what, "changed since the registry signed it")
    _verify_value(covered, signature.value, pin, what)
    covers_all = _verify_covers(signed, ref, pin, what)
    verify_item_attestation(reply, ref, pin, what)  # (5)
    header = _checked_header(ref, suffix, signed, reply.version, what)  # (6)
    description = header.get("description") or header.get("title")
    return PulledItem(
        ref=ref,
        version=reply.version,
        suffix=suffix,
        data=data,
        text_hash=text_hash(signed),
        author=reply.author,
        fingerprint=pin.fingerprint,
        covers_all=covers_all,
        created_at=reply.created_at,
        description=description if isinstance(description, str) else "",
    )


def _split_signature(reply: PulledReply, ref: ItemRef, what: str) -> tuple[str, SignedText]:
    """The type of its file, and its text; a registry that names none leaves it to be found out."""
    known = [one for one in FORMS[ref.kind] if one not in DETACHED_SUFFIXES]
    if reply.suffix and reply.suffix not in known:
        raise pulled_item_error(
            what, f"suffix: expected one of {', '.join(known)}, found {reply.suffix[:20]!a}"
        )
    problem: LilluxError | None = None
    for suffix in (reply.suffix,) if reply.suffix else _GUESSED[ref.kind]:
        target = _target(ref, suffix)
        try:
            signed = validate_item(target, reply.content.encode()).signed
        except LilluxError as error:
            problem = problem or error
            continue
        if signed is not None:
            return suffix, signed
    said = "; ".join(problem.details) if isinstance(problem, ItemValidationError) else problem
    raise pulled_item_error(what, f"not such an item: {said}")


def _target(ref: ItemRef, suffix: str) -> SignTarget:
    path = Path(".ai", ref.kind.directory, f"{ref.id}{suffix}")
    return SignTarget(path=path, kind=ref.kind, space=_NOWHERE, ref=ref)


def _signature(signed: SignedText, reply: PulledReply, pin: Pin, what: str) -> Signature:
    signature = signed.signature
    if signature is None:
        raise pulled_item_error(what, "expected the registry's signature, found none")
    if signature.fingerprint != pin.fingerprint:
        raise pulled_item_error(
            what, f"expected the registry's key {pin.fingerprint}, found {signature.fingerprint}"
        )
    provider, _, author = signature.provenance.partition("@")
    if provider != PROVIDER or author != reply.author:
        found = signature.provenance or "none"
        raise pulled_item_error(
            what, f"expected the provenance {PROVIDER}@{reply.author[:60]}, found {found}"
        )
    return signature


def _verify_covers(signed: SignedText, ref: ItemRef, pin: Pin, what: str) -> bool:
    """True if all of the text is covered: by the one line, or by two."""
    if not needs_covers(ref.kind, signed.body):
        return True
    covers: Covers | None = signed.covers
    if covers is None:
        return False
    is_whole = covers.content_hash == content_hash(signed.covered)
    if covers.fingerprint != pin.fingerprint or not is_whole:
        raise pulled_item_error(what, "changed since the registry signed it (outside of the block)")
    _verify_value(covers.content_hash, covers.value, pin, what)
    return True


def _verify_value(covered: str, value: str, pin: Pin, what: str) -> None:
    if not verify_signature(covered, value, pin.public_pem):
        raise pulled_item_error(what, f"the signature of {pin.fingerprint} does not hold")


def _checked_header(
    ref: ItemRef, suffix: str, signed: SignedText, version: str, what: str
) -> dict[str, object]:
    """Its metadata, which `validate_item` has compared with its place already."""
    text = signed.shebang + signed.body
    header = extract(ref.kind, suffix, text, what)
    own = own_version(header, suffix, text)
    if own != version and not (own is None and suffix == ".sh"):
        raise pulled_item_error(what, f"its own text says version {own!r:.40}")
    return header


def text_hash(signed: SignedText) -> str:
    """SHA-256 of a text without its signature lines: all of it, and the same for every signer."""
    return content_hash(signed.shebang + signed.body)


# An item of the user's own, as it is sent to a registry.


class Loader(Protocol):
    """Finds items and verifies them. See `ryeos.app.workspace.Rye`."""

    def load(self, reference: Reference, *, source: str = "") -> tuple[Resolution, VerifiedItem]:
        """The verified item that a reference names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """The item to publish: verified here, the registry validates it once more."""

    ref: ItemRef
    version: str
    suffix: str
    content: str = field(repr=False)
    path: str


def draft_of(
    loader: Loader, reference: Reference, *, source: str, version: str = ""
) -> Publication:
    """The item that a reference names. ``version`` must be what its own text says, if it is given.

    Raises RegistryIdError, ItemNotFoundError, IntegrityError, UnsupportedError.
    """
    resolution, item = loader.load(reference, source=source)
    location = resolution.location
    if location.space.tier == SYSTEM:
        raise UnsupportedError(
            f"{location.ref}: an item of the bundle {location.space.bundle_id} is not yours to"
            " publish",
            hint="copy it with: rye load REF --to project, and give it an id of your own",
        )
    ref = published_ref(Reference(location.ref.kind, location.ref.id))
    header = item.header or extract(ref.kind, location.suffix, item.text, str(location.path))
    own = header.get("version")
    if not isinstance(own, str) and not version:
        raise RegistryIdError(str(ref), "expected a version in its text, or --release, found none")
    if version and isinstance(own, str) and own != version:
        raise RegistryIdError(version, f"its own text says version {own}")
    return Publication(
        ref=ref,
        version=valid_version(version or str(own)),
        suffix=location.suffix,
        content=item.text,
        path=str(location.path),
    )
