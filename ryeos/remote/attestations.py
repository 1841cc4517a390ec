"""Attestations of a registry: which item and version a text is, and whose.

The signature of a text covers neither its name nor its author. The key that the registry is known
by, another one, signs a document about each answer (docs/registry.md); the pin has that key too.
Pure.
"""

from collections.abc import Mapping
from typing import Any

from lillux.canonical_json import compute_integrity
from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.signing import compute_key_fingerprint
from ryeos.items.refs import ItemRef
from ryeos.remote.pins import Pin
from ryeos.remote.registry_errors import pulled_item_error
from ryeos.remote.replies import BundleReply, PulledReply
from ryeos.remote.signed_documents import verify_document

ITEM, BUNDLE = "registry-item/v1", "registry-bundle/v1"


def verify_item_attestation(reply: PulledReply, ref: ItemRef, pin: Pin, what: str) -> None:
    """Refuse an item that the registry does not say is this one. Raises RyeError `INTEGRITY`.

    A registry whose pin has no key for it attests nothing.
    """
    said = {
        "kind": ITEM,
        "item_type": ref.kind.value,
        "item_id": ref.id,
        "version": reply.version,
        "suffix": reply.suffix,
        "sha256": sha256_hex(reply.content.encode()),
        "author": reply.author,
        "signed_by": f"fp:{pin.fingerprint}",
    }
    _check(reply.attestation, said, pin, what)


def verify_bundle_attestation(reply: BundleReply, pin: Pin) -> None:
    """Verify the attestation of a bundle and all its files."""
    files = {path: sha256_hex(content.encode()) for path, content in reply.files.items()}
    said = {
        "kind": BUNDLE,
        "bundle_id": reply.bundle_id,
        "version": reply.version,
        "content_hash": compute_integrity({"manifest": reply.manifest, "files": files}),
        "author": reply.author,
    }
    what = f"bundle {reply.bundle_id[:80]} {reply.version[:20]!a} from {pin.netloc}"
    _check(reply.attestation, said, pin, what)


def _check(document: object, said: Mapping[str, str], pin: Pin, what: str) -> None:
    if not pin.identity_pem:
        return
    if not isinstance(document, Mapping):
        raise pulled_item_error(what, "expected what the registry attests, found nothing")
    attested: Mapping[str, Any] = document
    expected = {**said, "registry": f"fp:{compute_key_fingerprint(pin.identity_pem)}"}
    for name, value in expected.items():
        if attested.get(name) != value:
            raise pulled_item_error(
                what, f"the registry attests another {name}: {str(attested.get(name))[:80]!a}"
            )
    try:
        verify_document(attested, pin.identity_pem)
    except LilluxError as error:
        raise pulled_item_error(what, f"attestation: {error}") from error
