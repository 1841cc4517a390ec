"""The answers of a registry, made and described. Pure but for the key that signs them.

The models describe, and make none. Tests hold real answers to them
(``tests/rye_services/web/test_openapi.py``, ``tests/rye_services/web/test_schemathesis.py``).
"""

from typing import Any, Literal

from pydantic import BaseModel

from rye_services.process.keys import NodeKeys
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
    """The answer to the publisher. ``skipped``: it was there already, with the same content."""
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
    that users write: ADR 0023, ADR 0025.
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


# --- as the OpenAPI document describes them: items ------------------------------------------------


class ItemFacts(BaseModel):
    """Which item it is."""

    item_type: str
    item_id: str
    namespace: str
    category: str
    name: str


class VersionFacts(ItemFacts):
    """A version of an item. ``publisher``: the key that it was sent signed with."""

    version: str
    suffix: str
    author: str
    publisher: str | None
    sha256: str
    signature: dict[str, str] | None
    sandbox: dict[str, Any] | None
    attestation: dict[str, Any]


class PushedItemAnswer(VersionFacts):
    """A version that was published; ``skipped``: it was there already, with the same content."""

    status: Literal["published"]
    skipped: bool = False
    signed_content: str


class PulledItemAnswer(VersionFacts):
    """A version as the registry signed it, and which versions there are."""

    content: str
    changelog: str
    metadata: dict[str, Any]
    created_at: str
    versions: list[str]


class ListedItem(ItemFacts):
    """An item in a list."""

    title: str
    description: str
    version: str
    author: str
    visibility: str
    download_count: int
    created_at: str
    updated_at: str


class ListedVersion(BaseModel):
    """A version in the list of an item's."""

    version: str
    author: str
    created_at: str
    changelog: str
    sha256: str
    deleted: bool


class ItemAnswer(ListedItem):
    """An item without its content, and all its versions."""

    versions: list[ListedVersion]


class FoundItemsAnswer(BaseModel):
    """A part of what was found, and how much there is."""

    results: list[ListedItem]
    total: int
    limit: int
    offset: int


class DeletedItemAnswer(BaseModel):
    """The versions that are gone; ``version`` as it was asked for."""

    status: Literal["deleted"]
    item_type: str
    item_id: str
    version: str | None
    deleted_versions: list[str]


class ItemVisibilityAnswer(ItemFacts):
    """Whether lists show an item now, and before."""

    status: Literal["updated"]
    visibility: str
    previous_visibility: str


# --- bundles --------------------------------------------------------------------------------------


class PushedBundleAnswer(BaseModel):
    """A bundle that was published; ``skipped``: it was there already, the same."""

    status: Literal["pushed"]
    skipped: bool = False
    bundle_id: str
    version: str
    file_count: int
    author: str
    publisher: str | None


class PulledBundleAnswer(BaseModel):
    """A bundle with all its files, by path."""

    bundle_id: str
    version: str
    manifest: str
    files: dict[str, dict[str, Any]]
    author: str
    created_at: str
    attestation: dict[str, Any]


class ListedBundle(BaseModel):
    """A bundle in a list."""

    bundle_id: str
    description: str
    version: str
    author: str
    visibility: str
    download_count: int
    created_at: str
    updated_at: str


class BundleAnswer(ListedBundle):
    """A bundle without its files, and all its versions."""

    versions: list[str]


class FoundBundlesAnswer(BaseModel):
    """A part of what was found, and how much there is."""

    results: list[ListedBundle]
    total: int
    limit: int
    offset: int


class DeletedBundleAnswer(BaseModel):
    """The versions that are gone."""

    status: Literal["deleted"]
    bundle_id: str
    deleted_versions: list[str]


class BundleVisibilityAnswer(BaseModel):
    """Whether lists show a bundle now, and before."""

    status: Literal["updated"]
    bundle_id: str
    visibility: str
    previous_visibility: str


# --- accounts -------------------------------------------------------------------------------------


class ApiKeyFacts(BaseModel):
    """What is known of an API key."""

    name: str
    key_prefix: str
    scopes: list[str] | None
    expires_at: str | None
    created_at: str


class NewApiKeyAnswer(ApiKeyFacts):
    """A new API key; its text, ``key``, is shown this once."""

    key: str


class NewAccountAnswer(NewApiKeyAnswer):
    """A new account and its first API key."""

    account: str


class ListedApiKey(ApiKeyFacts):
    """An API key in a list."""

    revoked_at: str | None
    last_used_at: str | None


class ApiKeysAnswer(BaseModel):
    """The API keys of an account, without their texts."""

    api_keys: list[ListedApiKey]


class RevokedApiKeyAnswer(BaseModel):
    """An API key that counts no longer."""

    status: Literal["revoked"]
    name: str
    key_prefix: str


class SigningKeyFacts(BaseModel):
    """A key that an account signs with."""

    fingerprint: str
    public_key_pem: str


class SigningKeysAnswer(BaseModel):
    """The keys that an account signs with."""

    signing_keys: list[SigningKeyFacts]


class ChangedSigningKeyAnswer(BaseModel):
    """A key that was added or taken back."""

    status: Literal["added", "removed"]
    fingerprint: str


class AccountAnswer(BaseModel):
    """Who one is to the registry, and what one has."""

    name: str
    created_at: str
    stored_bytes: int
    max_bytes: int
    namespaces: list[str]
    signing_keys: list[str]


class NamespaceFacts(BaseModel):
    """A namespace and whose it is."""

    name: str
    owner: str
    claimed_at: str


class NamespacesAnswer(BaseModel):
    """The namespaces of an account."""

    namespaces: list[NamespaceFacts]


class ClaimedNamespaceAnswer(BaseModel):
    """A namespace that one has now; ``skipped``: one had it before."""

    status: Literal["claimed"]
    name: str
    owner: str
    skipped: bool = False


# --- manifests ------------------------------------------------------------------------------------


class PublishedManifestAnswer(BaseModel):
    """The digest of the version; ``skipped``: it was there already, the same."""

    ok: Literal[True]
    head: str
    skipped: bool = False


class ManifestVersionAnswer(BaseModel):
    """One version of an item."""

    manifest_hash: str
    published_at: str
    publisher: str


class ManifestItemAnswer(BaseModel):
    """An item with all its versions; the latest is the highest."""

    namespace: str
    owner: str
    latest_version: str
    versions: dict[str, ManifestVersionAnswer]


class ListedManifest(BaseModel):
    """An item in a list."""

    kind: str
    item_id: str
    namespace: str
    latest_version: str
    owner: str


class FoundManifestsAnswer(BaseModel):
    """What was found, and how much there is."""

    results: list[ListedManifest]
    total: int


class RegisteredIdentityAnswer(BaseModel):
    """The digest of an identity document."""

    ok: Literal[True]
    identity_hash: str


class NamespaceClaimAnswer(BaseModel):
    """The digest of a claim; ``skipped``: the namespace was the caller's before."""

    ok: Literal[True]
    claim_hash: str
    skipped: bool = False
