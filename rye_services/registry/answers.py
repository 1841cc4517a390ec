"""The answers of a registry. Pure but for the key that signs them."""

from typing import Any

from rye_services.keys import NodeKeys
from rye_services.registry.bundles import PulledBundle, ShownBundle
from rye_services.registry.items import (
    PublishedVersion,
    ShownItem,
    ShownVersion,
    shown_rights,
)
from rye_services.registry.names import ItemName
from rye_services.registry.services import RegistryServices
from ryeos.remote.requests import sign_document
from ryeos.sync.paths import signature_info

ATTESTATION, BUNDLE_ATTESTATION = "registry-item/v1", "registry-bundle/v1"


def item_facts(name: ItemName) -> dict[str, Any]:
    """Which item it is, in every way that clients ask for it."""
    return {
        "item_type": name.kind.value,
        "item_id": name.id,
        "namespace": name.namespace,
        "category": name.category,
        "name": name.name,
    }


def pushed(kept: PublishedVersion, services: RegistryServices, *, skipped: bool) -> dict[str, Any]:
    """What the publisher is told. ``skipped``: it was there already, with the same content."""
    return {
        "status": "published",
        **({"skipped": True} if skipped else {}),
        **_version_facts(kept),
        "signed_content": kept.content,
        "attestation": attestation(kept, services),
    }


def pulled(found: PublishedVersion, services: RegistryServices) -> dict[str, Any]:
    """An item, as who pulls it gets it."""
    return {
        **_version_facts(found),
        "content": found.content,
        "changelog": found.changelog,
        "metadata": found.metadata or {},
        "created_at": found.created_at,
        "attestation": attestation(found, services),
    }


def attestation(found: PublishedVersion, services: RegistryServices) -> dict[str, Any]:
    """What no signature of the content covers, signed: which item and version it is, and whose.

    It is signed with the key that the registry is known by (``/public-key``), which signs nothing
    that users write: docs/adr/0100, docs/adr/0122.
    """
    document = {
        "kind": ATTESTATION,
        "registry": services.keys.node_id,
        "item_type": found.name.kind.value,
        "item_id": found.name.id,
        "version": found.version,
        "suffix": found.suffix,
        "sha256": found.sha256,
        "author": found.author,
        "signed_by": f"fp:{services.signer.fingerprint}",
        "published_at": found.created_at,
    }
    return sign_document(document, services.keys.signing, found.created_at)


def bundle_attestation(found: PulledBundle, keys: NodeKeys) -> dict[str, Any]:
    """Which bundle and version a content is, and whose: `attestation` for bundles."""
    document = {
        "kind": BUNDLE_ATTESTATION,
        "registry": keys.node_id,
        "bundle_id": found.bundle_id,
        "version": found.version,
        "content_hash": found.content_hash,
        "author": found.author,
        "published_at": found.created_at,
    }
    return sign_document(document, keys.signing, found.created_at)


def shown_bundle(bundle: ShownBundle) -> dict[str, Any]:
    """A bundle in a list."""
    return {name: getattr(bundle, name) for name in ShownBundle.__slots__}


def shown_item(item: ShownItem) -> dict[str, Any]:
    """An item in a list."""
    return {
        **item_facts(item.name),
        "title": item.title,
        "description": item.description,
        "version": item.version,
        "author": item.author,
        "visibility": item.visibility,
        "download_count": item.download_count,
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }


def shown_version(version: ShownVersion) -> dict[str, Any]:
    """A version in the list of an item's."""
    return {
        "version": version.version,
        "author": version.author,
        "created_at": version.created_at,
        "changelog": version.changelog,
        "sha256": version.sha256,
        "deleted": version.is_deleted,
    }


def _version_facts(found: PublishedVersion) -> dict[str, Any]:
    path = f".ai/{found.name.kind.directory}/{found.name.id}{found.suffix}"
    return {
        **item_facts(found.name),
        "version": found.version,
        "suffix": found.suffix,
        "author": found.author,
        "publisher": found.publisher,
        "sha256": found.sha256,
        "signature": signature_info(found.name.kind, path, found.content),
        "sandbox": shown_rights(found),
    }
