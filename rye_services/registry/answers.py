"""The answers of a registry, as shapes: what is answered, and described. Pure but for its key.

Tests hold real answers to the description: ``tests/rye_services/web/test_openapi.py``,
``tests/rye_services/web/test_schemathesis.py``.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from lillux.shapes import FLAT, LEFT_OUT
from lillux.values import dataclass
from rye_services.process.keys import NodeKeys
from rye_services.registry.accounts import NamespaceFacts
from rye_services.registry.bundles import ListedBundle, PulledBundle
from rye_services.registry.items import (
    ListedItem,
    ListedVersion,
    PublishedVersion,
    shown_rights,
)
from rye_services.registry.names import ItemFacts
from rye_services.registry.services import RegistryServices
from ryeos.remote.signed_documents import sign_document
from ryeos.sync.item_files import signature_info

ATTESTATION, BUNDLE_ATTESTATION = "registry-item/v1", "registry-bundle/v1"


def pushed(
    kept: PublishedVersion, services: RegistryServices, *, skipped: bool
) -> "PushedItemAnswer":
    """The answer to the publisher. ``skipped``: it was there already, with the same content."""
    return PushedItemAnswer(
        facts=_version_facts(kept, services),
        status="published",
        skipped=skipped,
        signed_content=kept.content,
    )


def pulled(
    found: PublishedVersion, services: RegistryServices, versions: tuple[str, ...]
) -> "PulledItemAnswer":
    """An item, as who pulls it gets it."""
    return PulledItemAnswer(
        facts=_version_facts(found, services),
        content=found.content,
        changelog=found.changelog,
        metadata=found.metadata or {},
        created_at=found.created_at,
        versions=versions,
    )


def _version_facts(found: PublishedVersion, services: RegistryServices) -> "VersionFacts":
    path = f".ai/{found.name.kind.directory}/{found.name.id}{found.suffix}"
    return VersionFacts(
        facts=found.name.facts,
        version=found.version,
        suffix=found.suffix,
        author=found.author,
        publisher=found.publisher,
        sha256=found.sha256,
        signature=signature_info(found.name.kind, path, found.content),
        sandbox=shown_rights(found),
        attestation=attestation(found, services),
    )


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


# --- items ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFacts:
    """A version of an item. ``publisher``: the key that it was sent signed with."""

    facts: Annotated[ItemFacts, FLAT]
    version: str
    suffix: str
    author: str
    publisher: str | None
    sha256: str
    signature: Mapping[str, str] | None
    sandbox: Mapping[str, Any] | None
    attestation: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedItemAnswer:
    """A version that was published; ``skipped``: it was there already, with the same content."""

    facts: Annotated[VersionFacts, FLAT]
    status: Literal["published"]
    skipped: Annotated[bool, LEFT_OUT] = False
    signed_content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledItemAnswer:
    """A version as the registry signed it, and which versions there are."""

    facts: Annotated[VersionFacts, FLAT]
    content: str
    changelog: str
    metadata: Mapping[str, Any]
    created_at: str
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemAnswer:
    """An item without its content, and all its versions."""

    item: Annotated[ListedItem, FLAT]
    versions: tuple[ListedVersion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundItemsAnswer:
    """A part of what was found, and how much there is."""

    results: tuple[ListedItem, ...]
    total: int
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedItemAnswer:
    """The versions that are gone; ``version`` as it was asked for."""

    status: Literal["deleted"]
    item_type: str
    item_id: str
    version: str | None
    deleted_versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemVisibilityAnswer:
    """Whether lists show an item now, and before."""

    facts: Annotated[ItemFacts, FLAT]
    status: Literal["updated"]
    visibility: str
    previous_visibility: str


# --- bundles --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PushedBundleAnswer:
    """A bundle that was published; ``skipped``: it was there already, the same."""

    status: Literal["pushed"]
    skipped: Annotated[bool, LEFT_OUT] = False
    bundle_id: str
    version: str
    file_count: int
    author: str
    publisher: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledBundleAnswer:
    """A bundle with all its files, by path."""

    bundle_id: str
    version: str
    manifest: str
    files: Mapping[str, Mapping[str, Any]]
    author: str
    created_at: str
    attestation: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleAnswer:
    """A bundle without its files, and all its versions."""

    bundle: Annotated[ListedBundle, FLAT]
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBundlesAnswer:
    """A part of what was found, and how much there is."""

    results: tuple[ListedBundle, ...]
    total: int
    limit: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedBundleAnswer:
    """The versions that are gone."""

    status: Literal["deleted"]
    bundle_id: str
    deleted_versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleVisibilityAnswer:
    """Whether lists show a bundle now, and before."""

    status: Literal["updated"]
    bundle_id: str
    visibility: str
    previous_visibility: str


# --- accounts -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeyFacts:
    """What is known of an API key."""

    name: str
    key_prefix: str
    scopes: tuple[str, ...] | None
    expires_at: str | None
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewApiKeyAnswer:
    """A new API key; its text, ``key``, is shown this once."""

    facts: Annotated[ApiKeyFacts, FLAT]
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccountAnswer:
    """A new account and its first API key."""

    made: Annotated[NewApiKeyAnswer, FLAT]
    account: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedApiKey:
    """An API key in a list."""

    facts: Annotated[ApiKeyFacts, FLAT]
    revoked_at: str | None
    last_used_at: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKeysAnswer:
    """The API keys of an account, without their texts."""

    api_keys: tuple[ListedApiKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RevokedApiKeyAnswer:
    """An API key that counts no longer."""

    status: Literal["revoked"]
    name: str
    key_prefix: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeyFacts:
    """A key that an account signs with."""

    fingerprint: str
    public_key_pem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKeysAnswer:
    """The keys that an account signs with."""

    signing_keys: tuple[SigningKeyFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedSigningKeyAnswer:
    """A key that was added or taken back."""

    status: Literal["added", "removed"]
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountAnswer:
    """Who one is to the registry, and what one has."""

    name: str
    created_at: str
    stored_bytes: int
    max_bytes: int
    namespaces: tuple[str, ...]
    signing_keys: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespacesAnswer:
    """The namespaces of an account."""

    namespaces: tuple[NamespaceFacts, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedNamespaceAnswer:
    """A namespace that one has now; ``skipped``: one had it before."""

    status: Literal["claimed"]
    name: str
    owner: str
    skipped: Annotated[bool, LEFT_OUT] = False


# --- manifests ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedManifestAnswer:
    """The digest of the version; ``skipped``: it was there already, the same."""

    ok: Literal[True]
    head: str
    skipped: Annotated[bool, LEFT_OUT] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestVersionAnswer:
    """One version of an item."""

    manifest_hash: str
    published_at: str
    publisher: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestItemAnswer:
    """An item with all its versions; the latest is the highest."""

    namespace: str
    owner: str
    latest_version: str
    versions: Mapping[str, ManifestVersionAnswer]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedManifest:
    """An item in a list."""

    kind: str
    item_id: str
    namespace: str
    latest_version: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundManifestsAnswer:
    """What was found, and how much there is."""

    results: tuple[ListedManifest, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredIdentityAnswer:
    """The digest of an identity document."""

    ok: Literal[True]
    identity_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceClaimAnswer:
    """The digest of a claim; ``skipped``: the namespace was the caller's before."""

    ok: Literal[True]
    claim_hash: str
    skipped: Annotated[bool, LEFT_OUT] = False
