"""What a registry sent for an item, checked before anything of it is written or believed. Pure.

(1) it is the item and the version that were asked for
(2) its file type is one of its kind, with a signature line of its own
(3) it is signed: by the pinned key, for the account that is named as its author
(4) the hash is that of its text, the signature and the covers line hold
(5) the registry attests that it is that item, by that author; see `ryeos.registry.attestations`
(6) its own header names the same category, name and version, so that nothing else's signature and
    no older version passes for it
"""

from pathlib import Path

from lillux.errors import LilluxError
from lillux.signing import verify_signature
from lillux.values import dataclass, field
from ryeos.errors import ItemValidationError
from ryeos.extractors import extract
from ryeos.items import PROJECT, ItemRef, Kind, Space
from ryeos.registry.attestations import check_item_attestation
from ryeos.registry.errors import PulledItemError
from ryeos.registry.pins import RegistryPin
from ryeos.registry.replies import PulledReply
from ryeos.sign import check_item
from ryeos.sign_targets import SignTarget
from ryeos.signature import (
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

PROVIDER = "rye-registry"
_NOWHERE = Space(PROJECT, Path())
_GUESSED = {Kind.DIRECTIVE: (".md",), Kind.KNOWLEDGE: (".md",), Kind.TOOL: (".py", ".yaml", ".sh")}


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledItem:
    """An item that the pinned registry signed.

    text_hash   of the text without signature lines, whoever signs it: what a lock keeps
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


def check_pulled(
    reply: PulledReply, ref: ItemRef, pin: RegistryPin, *, version: str = ""
) -> PulledItem:
    """The item of a reply. ``version`` is the one that was asked for, if any.

    Raises PulledItemError, whatever is wrong with it.
    """
    what = f"{ref} {reply.version[:20]!a} from {pin.netloc}"
    if (reply.item_type, reply.item_id) != (ref.kind.value, ref.id):  # (1)
        found = f"{reply.item_type[:20]}:{reply.item_id[:200]}"
        raise PulledItemError(what, f"expected that item, found {found!a}")
    if version and reply.version != version:
        raise PulledItemError(what, f"expected version {version}")
    data = reply.content.encode()
    if len(data) > MAX_ITEM_BYTES:
        raise PulledItemError(what, f"expected at most {MAX_ITEM_BYTES} bytes, found {len(data)}")
    suffix, signed = _taken_apart(reply, ref, what)  # (2)
    signature = _signature(signed, reply, pin, what)  # (3)
    try:
        covered = content_hash(hashed_text(ref.kind, signed, what))
    except LilluxError as error:
        raise PulledItemError(what, str(error)) from error
    if signature.content_hash != covered:  # (4)
        raise PulledItemError(what, "changed since the registry signed it")
    _check_value(covered, signature.value, pin, what)
    covers_all = _check_covers(signed, ref, pin, what)
    check_item_attestation(reply, ref, pin, what)  # (5)
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


def _taken_apart(reply: PulledReply, ref: ItemRef, what: str) -> tuple[str, SignedText]:
    """The type of its file, and its text; a registry that names none leaves it to be found out."""
    known = [one for one in FORMS[ref.kind] if one not in DETACHED_SUFFIXES]
    if reply.suffix and reply.suffix not in known:
        raise PulledItemError(
            what, f"suffix: expected one of {', '.join(known)}, found {reply.suffix[:20]!a}"
        )
    problem: LilluxError | None = None
    for suffix in (reply.suffix,) if reply.suffix else _GUESSED[ref.kind]:
        target = _target(ref, suffix)
        try:
            signed = check_item(target, reply.content.encode())
        except LilluxError as error:
            problem = problem or error
            continue
        if signed is not None:
            return suffix, signed
    said = "; ".join(problem.details) if isinstance(problem, ItemValidationError) else problem
    raise PulledItemError(what, f"not such an item: {said}")


def _target(ref: ItemRef, suffix: str) -> SignTarget:
    path = Path(".ai", ref.kind.directory, f"{ref.id}{suffix}")
    return SignTarget(path=path, kind=ref.kind, space=_NOWHERE, ref=ref)


def _signature(signed: SignedText, reply: PulledReply, pin: RegistryPin, what: str) -> Signature:
    signature = signed.signature
    if signature is None:
        raise PulledItemError(what, "expected the registry's signature, found none")
    if signature.fingerprint != pin.fingerprint:
        raise PulledItemError(
            what, f"expected the registry's key {pin.fingerprint}, found {signature.fingerprint}"
        )
    provider, _, author = signature.provenance.partition("@")
    if provider != PROVIDER or author != reply.author:
        found = signature.provenance or "none"
        raise PulledItemError(
            what, f"expected the provenance {PROVIDER}@{reply.author[:60]}, found {found}"
        )
    return signature


def _check_covers(signed: SignedText, ref: ItemRef, pin: RegistryPin, what: str) -> bool:
    """Whether all of the text is covered: by the one line, or by two."""
    if not needs_covers(ref.kind, signed.body):
        return True
    covers: Covers | None = signed.covers
    if covers is None:
        return False
    if covers.fingerprint != pin.fingerprint or covers.content_hash != content_hash(signed.body):
        raise PulledItemError(what, "changed since the registry signed it (outside of the block)")
    _check_value(covers.content_hash, covers.value, pin, what)
    return True


def _check_value(covered: str, value: str, pin: RegistryPin, what: str) -> None:
    if not verify_signature(covered, value, pin.public_pem):
        raise PulledItemError(what, f"the signature of {pin.fingerprint} does not hold")


def _checked_header(
    ref: ItemRef, suffix: str, signed: SignedText, version: str, what: str
) -> dict[str, object]:
    """Its metadata, which `check_item` has compared with its place already."""
    header = extract(ref.kind, suffix, signed.shebang + signed.body, what)
    own = header.get("version")
    if own != version and not (own is None and suffix == ".sh"):
        raise PulledItemError(what, f"its own text says version {own!r:.40}")
    return header


def text_hash(signed: SignedText) -> str:
    """SHA-256 of a text without its signature lines: all of it, and the same for every signer."""
    return content_hash(signed.shebang + signed.body)
