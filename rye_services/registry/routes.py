"""Routes of a registry: items, accounts, bundles: publish, pull, search, change.

What each answers is in `rye_services.registry.answers`.
"""

import json
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field
from sqlalchemy import select
from sqlalchemy.dialects import postgresql, sqlite

from lillux.canonical_json import compute_integrity
from lillux.shapes import of_attributes, write
from rye_services.names import namespace_name
from rye_services.people.credentials import (
    REGISTRY_READ,
    REGISTRY_WRITE,
    AuthorizedKey,
    Principal,
    valid_scopes,
)
from rye_services.registry.accounts import (
    AnyCaller,
    Keeper,
    Reader,
    Sent,
    Writer,
    allowed_bytes,
    claimed_key,
)
from rye_services.registry.answers import (
    AccountAnswer,
    ApiKeyFacts,
    ApiKeysAnswer,
    BundleAnswer,
    BundleVisibilityAnswer,
    ChangedSigningKeyAnswer,
    ClaimedNamespaceAnswer,
    DeletedBundleAnswer,
    DeletedItemAnswer,
    FoundBundlesAnswer,
    FoundItemsAnswer,
    FoundManifestsAnswer,
    ItemAnswer,
    ItemVisibilityAnswer,
    ListedApiKey,
    ListedManifest,
    ManifestItemAnswer,
    ManifestVersionAnswer,
    NamespaceClaimAnswer,
    NamespacesAnswer,
    NewAccountAnswer,
    NewApiKeyAnswer,
    PublishedManifestAnswer,
    PulledBundleAnswer,
    PulledItemAnswer,
    PushedBundleAnswer,
    PushedItemAnswer,
    RegisteredIdentityAnswer,
    RevokedApiKeyAnswer,
    SigningKeyFacts,
    SigningKeysAnswer,
    bundle_attestation,
    pulled,
    pushed,
)
from rye_services.registry.bundles import SentFile, bundle_publication
from rye_services.registry.items import publication
from rye_services.registry.manifests import PublishedManifest, refusing
from rye_services.registry.names import bundle_name, item_name, place, version_of
from rye_services.registry.search_index import MAX_QUERY_CHARACTERS, IndexQuery, words_of
from rye_services.registry.services import RegistryServices
from rye_services.storage.database import require_texts, stamp
from rye_services.storage.registry_tables import identities
from rye_services.web.http import RequestProblem, described, parse_body
from rye_services.web.openapi import answers, refuses
from ryeos.remote.identity import read_identity
from ryeos.remote.requests import principal_id
from ryeos.remote.signed_documents import verify_document

MAX_METADATA_CHARACTERS = 16 * 1024


class Push(BaseModel):
    """An item that is to be published.

    ``suffix`` is that of its file; it may be in ``metadata``, and is guessed where it is missing.
    """

    item_type: str
    item_id: str
    content: str
    version: str
    suffix: str | None = None
    changelog: str = Field(default="", max_length=10_000)
    metadata: dict[str, Any] | None = None


class NewVisibility(BaseModel):
    """Whether lists show an item."""

    visibility: Literal["public", "unlisted"]


def item_router(services: RegistryServices) -> APIRouter:
    """The routes of items."""
    routes = APIRouter(prefix="/v1", tags=["registry"])
    _add_publishing(routes, services)
    _add_reading(routes, services)
    return routes


def _add_reading(routes: APIRouter, services: RegistryServices) -> None:
    @routes.get("/pull/{item_type}/{item_id:path}", responses=answers(PulledItemAnswer, 404))
    @refusing
    def pull(
        item_type: str, item_id: str, version: Annotated[str | None, Query()] = None
    ) -> dict[str, Any]:
        """An item as the registry signed it: a version, or the highest one."""
        named = None if version is None else version_of(version).text
        found = services.items.pull(item_name(item_type, item_id), named)
        services.items.downloads.note(found.item)
        versions = services.items.live_versions(found.item)
        return write(pulled(found, services, versions))

    @routes.get("/items/{item_type}/{item_id:path}", responses=answers(ItemAnswer, 404))
    @refusing
    def info(item_type: str, item_id: str) -> dict[str, Any]:
        """What there is to know of an item, without its content; all its versions."""
        item, versions = services.items.info(item_name(item_type, item_id))
        return write(ItemAnswer(item=item, versions=versions))


def _add_publishing(routes: APIRouter, services: RegistryServices) -> None:
    @routes.post(
        "/push", openapi_extra=described(Push), responses=answers(PushedItemAnswer, 404, 409, 429)
    )
    @refusing
    def push(writer: Writer, sent: Sent) -> dict[str, Any]:
        """Validate an item, sign it, keep it: a version is never changed afterwards."""
        account = services.account_of(writer)
        services.pushes.use(account)
        return _push(services, account, parse_body(sent, Push))

    @routes.delete("/delete/{item_type}/{item_id:path}", responses=answers(DeletedItemAnswer, 404))
    @refusing
    def delete(
        writer: Writer,
        item_type: str,
        item_id: str,
        version: Annotated[str | None, Query()] = None,
    ) -> dict[str, Any]:
        """Delete a version, or every one. It can never be published again."""
        name = item_name(item_type, item_id)
        named = None if version is None else version_of(version).text
        gone = services.items.delete(name, named, account=services.account_of(writer))
        return write(
            DeletedItemAnswer(
                status="deleted",
                item_type=item_type,
                item_id=item_id,
                version=version,
                deleted_versions=gone,
            )
        )

    @routes.post(
        "/visibility/{item_type}/{item_id:path}", responses=answers(ItemVisibilityAnswer, 404)
    )
    @refusing
    def set_visibility(
        writer: Writer, item_type: str, item_id: str, new: NewVisibility
    ) -> dict[str, Any]:
        """Show an item in lists, or hide it; users who know its id pull it either way."""
        name = item_name(item_type, item_id)
        account = services.account_of(writer)
        before = services.items.set_visibility(name, new.visibility, account=account)
        return write(
            ItemVisibilityAnswer(
                status="updated",
                facts=name.facts,
                visibility=new.visibility,
                previous_visibility=before,
            )
        )


def _push(services: RegistryServices, account: str, sent: Push) -> dict[str, Any]:
    name, version = item_name(sent.item_type, sent.item_id), version_of(sent.version)
    metadata = sent.metadata
    if metadata is not None and len(str(metadata)) > MAX_METADATA_CHARACTERS:
        raise RequestProblem(
            413, f"metadata: expected at most {MAX_METADATA_CHARACTERS} characters"
        )
    made = publication(
        name,
        version,
        sent.content,
        suffix=sent.suffix or _suffix_in(metadata),
        account=account,
        keys=services.accounts.keys_of(account),
        signer=services.signer,
    )
    kept, is_new = services.items.publish(
        name,
        version,
        made,
        account=account,
        changelog=sent.changelog,
        metadata=metadata,
        max_bytes=services.settings.max_user_storage_bytes,
    )
    return write(pushed(kept, services, skipped=not is_new))


def _suffix_in(metadata: dict[str, Any] | None) -> str | None:
    found = (metadata or {}).get("suffix")
    return found if isinstance(found, str) else None


# --- search routes --------------------------------------------------------------------------------
# Finding items: ``/v1/search``.

MAX_RESULTS = 100
MAX_OFFSET = 10_000


class SearchFields(BaseModel):
    """What is searched for. ``include_mine``: what the caller does not list, too."""

    query: str = Field(default="", max_length=MAX_QUERY_CHARACTERS)
    item_type: Literal["", "tool", "directive", "knowledge"] = ""
    namespace: str = Field(default="", max_length=256)
    category: str = Field(default="", max_length=256)
    include_mine: bool = False
    limit: int = Field(default=20, ge=0, le=MAX_RESULTS)
    offset: int = Field(default=0, ge=0, le=MAX_OFFSET)


def search_router(services: RegistryServices) -> APIRouter:
    """The route of searches."""
    routes = APIRouter(prefix="/v1", tags=["registry"])

    @routes.get("/search", responses=answers(FoundItemsAnswer))
    @refusing
    def search(caller: AnyCaller, fields: Annotated[SearchFields, Query()]) -> dict[str, Any]:
        """Items that have every word, the best first; all of them without a word."""
        mine = own_namespaces(services, caller) if fields.include_mine else ()
        page = {"limit": fields.limit, "offset": fields.offset}
        wanted = IndexQuery(
            words=words_of(fields.query),
            item_type=fields.item_type,
            namespace=fields.namespace,
            category=fields.category,
            mine=mine,
        )
        if fields.query.strip() and not wanted.words:
            return write(FoundItemsAnswer(results=(), total=0, **page))
        found, total = services.items.search(wanted, **page)
        return write(FoundItemsAnswer(results=found, total=total, **page))

    return routes


def own_namespaces(services: RegistryServices, caller: Principal | None) -> tuple[str, ...]:
    """The namespaces of a caller. Raises Problem for an unknown caller."""
    if caller is None:
        raise RequestProblem(
            401, "include_mine: expected an API key", {"WWW-Authenticate": "Bearer"}
        )
    return services.items.owned(services.account_of(caller))


# --- manifest routes ------------------------------------------------------------------------------
# The registry as a node's client knows it: ``/registry/...``, for requests that are signed.
#
# The identity of a caller comes only from the key that signed the request: a name in a body that
# is not that key's is refused.

CLAIM = "namespace-claim/v1"
MAX_DOCUMENT_CHARACTERS = 16 * 1024
_MAX_RESULTS = 100


class ManifestPublication(BaseModel):
    """A manifest in the caller's store that is to be a version of an item."""

    kind: Literal["tool", "directive", "knowledge", "bundle"]
    item_id: str
    version: str
    manifest_hash: str = Field(pattern=r"^[0-9a-f]{64}$")


class Identity(BaseModel):
    """The caller's own identity document, signed by itself."""

    identity: dict[str, Any]


class NamespaceClaim(BaseModel):
    """A claim that the caller's key signed."""

    claim: dict[str, Any]


class ManifestQuery(BaseModel):
    """What is searched for; any other kind stands for all of them."""

    query: str = Field(default="", max_length=256)
    kind: str = Field(default="", max_length=40)
    namespace: str = Field(default="", max_length=64)
    limit: int = Field(default=20, ge=0, le=_MAX_RESULTS)


def manifest_router(services: RegistryServices) -> APIRouter:
    """The routes below ``/registry``."""
    routes = APIRouter(prefix="/registry", tags=["registry"])
    _add_items(routes, services)
    _add_names(routes, services)
    return routes


def _add_items(routes: APIRouter, services: RegistryServices) -> None:
    manifests = services.manifests

    @routes.post("/publish", responses=answers(PublishedManifestAnswer, 404, 409, 429))
    @refusing
    def publish(writer: Writer, sent: ManifestPublication) -> dict[str, Any]:
        """Have a manifest be a version of an item. It has to be in the caller's store, whole."""
        key = _key(services, writer)
        wanted = PublishedManifest(
            kind=sent.kind,
            item_id=place(sent.item_id),
            version=version_of(sent.version).text,
            manifest_hash=sent.manifest_hash,
            publisher=key.fingerprint,
            published_at="",
        )
        _require_allowed_namespace(key, sent.item_id.partition("/")[0])
        services.pushes.use(key.fingerprint)
        owner = services.accounts.name_of(key.fingerprint)
        store = services.stores.of(key.fingerprint)
        services.durable.force(store)
        kept, is_new = manifests.publish(wanted, owner=owner, store=store)
        head = compute_integrity(write(_manifest_version(kept)))
        return write(PublishedManifestAnswer(ok=True, head=head, skipped=not is_new))

    @routes.get("/search", responses=answers(FoundManifestsAnswer))
    @refusing
    def search(_: Reader, fields: Annotated[ManifestQuery, Query()]) -> dict[str, Any]:
        """Items with this text in their ids, by id."""
        found, total = manifests.search(fields.query, fields.kind, fields.namespace, fields.limit)
        results = tuple(
            ListedManifest(
                kind=one.kind,
                item_id=one.item_id,
                namespace=one.namespace,
                latest_version=one.versions[0].version,
                owner=_owner(one.owner),
            )
            for one in found
        )
        return write(FoundManifestsAnswer(results=results, total=total))

    @routes.get(
        "/items/{kind}/{item_id:path}/versions/{version}",
        responses=answers(ManifestVersionAnswer, 404),
    )
    @refusing
    def version(_: Reader, kind: str, item_id: str, version: str) -> dict[str, Any]:
        """One version of an item."""
        for one in manifests.item(kind, item_id).versions:
            if one.version == version:
                return write(_manifest_version(one))
        raise RequestProblem(404, "no such version")

    @routes.get("/items/{kind}/{item_id:path}", responses=answers(ManifestItemAnswer, 404))
    @refusing
    def item(_: Reader, kind: str, item_id: str) -> dict[str, Any]:
        """An item with all its versions; the latest is the highest."""
        found = manifests.item(kind, item_id)
        return write(
            ManifestItemAnswer(
                namespace=found.namespace,
                owner=_owner(found.owner),
                latest_version=found.versions[0].version,
                versions={one.version: _manifest_version(one) for one in found.versions},
            )
        )


def _add_names(routes: APIRouter, services: RegistryServices) -> None:
    database, clock = services.database, services.clock

    @routes.post("/identity", responses=answers(RegisteredIdentityAnswer))
    @refusing
    def register(writer: Writer, sent: Identity) -> dict[str, Any]:
        """Have others find the caller's identity document, in place of an older one."""
        key, found = _key(services, writer), read_identity(sent.identity)
        _validate_size(sent.identity, "identity")
        if found.fingerprint != key.fingerprint:
            raise RequestProblem(403, "identity: expected that of the key that signed the request")
        values = {"document": sent.identity, "registered_at": stamp(clock())}
        with database.writing() as connection:
            dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
            row = dialect.insert(identities).values(fingerprint=key.fingerprint, **values)
            same = [identities.c.fingerprint]
            connection.execute(row.on_conflict_do_update(index_elements=same, set_=values))
            services.audit.write(connection, "identities.register", key.fingerprint)
        digest = compute_integrity(sent.identity)
        return write(RegisteredIdentityAnswer(ok=True, identity_hash=digest))

    @routes.get("/identity/{fingerprint}", responses=refuses(404))
    def identity(_: Reader, fingerprint: str) -> dict[str, Any]:
        """The identity document of a key."""
        bare = fingerprint.removeprefix("fp:")
        with database.reading() as connection:
            found = connection.scalar(
                select(identities.c.document).where(identities.c.fingerprint == bare)
            )
        if found is None:
            raise RequestProblem(404, "no such identity")
        return dict(found)

    @routes.post("/namespaces/claim", responses=answers(NamespaceClaimAnswer, 409))
    @refusing
    def claim(writer: Writer, sent: NamespaceClaim) -> dict[str, Any]:
        """Claim a free namespace. The claim is signed by its sender."""
        key, document = _key(services, writer), sent.claim
        _validate_size(document, "claim")
        expected = {"kind": CLAIM, "owner": principal_id(key.fingerprint)}
        for field, value in expected.items():
            if document.get(field) != value:
                raise RequestProblem(400, f"claim: {field}: expected {value}")
        verify_document(document, key.public_pem)
        name = namespace_name(str(document.get("namespace")))
        _require_allowed_namespace(key, name)
        owner = services.accounts.name_of(key.fingerprint)
        is_new = services.namespaces.claim(name, owner, claim=document)
        digest = compute_integrity(document)
        return write(NamespaceClaimAnswer(ok=True, claim_hash=digest, skipped=not is_new))


def _validate_size(document: dict[str, Any], field: str) -> None:
    if len(str(document)) > MAX_DOCUMENT_CHARACTERS:
        problem = f"{field}: expected at most {MAX_DOCUMENT_CHARACTERS} characters"
        raise RequestProblem(413, problem)


def _key(services: RegistryServices, principal: Principal) -> AuthorizedKey:
    """The key that signed a request. Raises Problem for a caller with an API key."""
    found = None
    if principal.kind == "signed":
        found = services.authorized_keys.find(principal.user_id)
    if found is None:
        raise RequestProblem(403, "expected a signed request, found an API key")
    return found


def _require_allowed_namespace(key: AuthorizedKey, namespace: str) -> None:
    if not any(fnmatchcase(namespace, pattern) for pattern in key.publish_namespaces):
        raise RequestProblem(403, f"this key may not publish below {namespace[:40]}")


def _owner(owner: str) -> str:
    is_key = len(owner) == 16 and not set(owner) - set("0123456789abcdef")  # noqa: PLR2004 - a fingerprint
    return principal_id(owner) if is_key else owner


def _manifest_version(one: PublishedManifest) -> ManifestVersionAnswer:
    return ManifestVersionAnswer(
        manifest_hash=one.manifest_hash,
        published_at=one.published_at,
        publisher=principal_id(one.publisher),
    )


# --- accounts -------------------------------------------------------------------------------------
# Sign-up, API keys, signing keys, namespaces.

OWN_SCOPES = (REGISTRY_READ, REGISTRY_WRITE)
_LONGEST_DAYS = 36_500


class NewApiKey(BaseModel):
    """An API key that is to be made."""

    name: str = Field(min_length=1, max_length=100, pattern=r"^[A-Za-z0-9._ -]+$")
    scopes: list[str] = Field(default_factory=lambda: list(OWN_SCOPES), max_length=20)
    expires_in_days: int | None = Field(default=None, ge=1, le=_LONGEST_DAYS)


class NewName(BaseModel):
    """A namespace, or an account, that is to be given away."""

    name: str


class KeyClaim(BaseModel):
    """A key that an account is going to sign with: a document that the key signed."""

    document: dict[str, Any]


def account_router(services: RegistryServices) -> APIRouter:
    """The routes of accounts about themselves."""
    routes = APIRouter(prefix="/v1", tags=["registry"])
    _add_api_keys(routes, services)
    _add_signing_keys(routes, services)
    _add_account_names(routes, services)
    return routes


def _add_api_keys(routes: APIRouter, services: RegistryServices) -> None:
    api_keys = services.api_keys

    @routes.post("/api-keys", responses=answers(NewApiKeyAnswer, 409))
    @refusing
    def create(writer: Keeper, new: NewApiKey) -> dict[str, Any]:
        """Make an API key; its text is shown this once. It has no scope that the caller lacks."""
        account = services.account_of(writer)
        for scope in valid_scopes(new.scopes):
            writer.require(scope)
        token, key = api_keys.create_named(
            account,
            name=new.name,
            scopes=tuple(new.scopes),
            expires_after=timedelta(days=new.expires_in_days) if new.expires_in_days else None,
        )
        return write(NewApiKeyAnswer(facts=of_attributes(ApiKeyFacts, key), key=token))

    @routes.get("/api-keys", responses=answers(ApiKeysAnswer))
    @refusing
    def list_keys(reader: Reader) -> dict[str, Any]:
        """The API keys of an account, without their texts."""
        found = api_keys.of(services.account_of(reader))
        listed = tuple(of_attributes(ListedApiKey, key) for key in found)
        return write(ApiKeysAnswer(api_keys=listed))

    @routes.delete("/api-keys/{name}", responses=answers(RevokedApiKeyAnswer, 404, 409))
    @refusing
    def revoke(writer: Keeper, name: str) -> dict[str, Any]:
        """Revoke an API key."""
        key = api_keys.revoke_named(services.account_of(writer), name)
        return write(
            RevokedApiKeyAnswer(status="revoked", name=key.name, key_prefix=key.key_prefix)
        )


def _add_signing_keys(routes: APIRouter, services: RegistryServices) -> None:
    @routes.get("/signing-keys", responses=answers(SigningKeysAnswer))
    @refusing
    def list_keys(reader: Reader) -> dict[str, Any]:
        """The keys that an account signs with."""
        found = services.accounts.keys_of(services.account_of(reader))
        keys = tuple(
            SigningKeyFacts(fingerprint=fingerprint, public_key_pem=pem.decode())
            for fingerprint, pem in found.items()
        )
        return write(SigningKeysAnswer(signing_keys=keys))

    @routes.post("/signing-keys", responses=answers(ChangedSigningKeyAnswer, 409))
    @refusing
    def add(writer: Keeper, claim: KeyClaim) -> dict[str, Any]:
        """Have what is sent signed with a key checked by it. From then on no other key will do."""
        account = services.account_of(writer)
        pem = claimed_key(claim.document, account=account, keys=services.keys)
        fingerprint = services.accounts.add_key(account, pem)
        return write(ChangedSigningKeyAnswer(status="added", fingerprint=fingerprint))

    @routes.delete("/signing-keys/{fingerprint}", responses=answers(ChangedSigningKeyAnswer, 404))
    @refusing
    def remove(writer: Keeper, fingerprint: str) -> dict[str, Any]:
        """Take a key back."""
        bare = fingerprint.removeprefix("fp:")
        if not services.accounts.remove_key(services.account_of(writer), bare):
            raise RequestProblem(404, f"expected a key of this account, found {bare[:80]!a}")
        return write(ChangedSigningKeyAnswer(status="removed", fingerprint=bare))


def _add_account_names(routes: APIRouter, services: RegistryServices) -> None:
    namespaces = services.namespaces

    @routes.get("/account", responses=answers(AccountAnswer))
    @refusing
    def own(reader: Reader) -> dict[str, Any]:
        """Who one is to the registry, and what one has."""
        account = services.accounts.open_account(services.account_of(reader))
        with services.database.reading() as connection:
            default = services.settings.max_user_storage_bytes
            allowed = allowed_bytes(connection, account.name, default)
        return write(
            AccountAnswer(
                name=account.name,
                created_at=account.created_at,
                stored_bytes=account.stored_bytes,
                max_bytes=allowed,
                namespaces=tuple(one.name for one in namespaces.of(account.name)),
                signing_keys=tuple(services.accounts.keys_of(account.name)),
            )
        )

    @routes.get("/namespaces", responses=answers(NamespacesAnswer))
    @refusing
    def list_namespaces(reader: Reader) -> dict[str, Any]:
        """The namespaces of an account."""
        found = namespaces.of(services.account_of(reader))
        return write(NamespacesAnswer(namespaces=found))

    @routes.post("/namespaces", responses=answers(ClaimedNamespaceAnswer, 409))
    @refusing
    def claim(writer: Keeper, new: NewName) -> dict[str, Any]:
        """Claim a free namespace. The first publication below one does the same."""
        account = services.account_of(writer)
        is_new = namespaces.claim(new.name, account)
        return write(
            ClaimedNamespaceAnswer(
                status="claimed", name=new.name, owner=account, skipped=not is_new
            )
        )

    if not services.settings.open_sign_up:
        return

    @routes.post("/accounts", responses=answers(NewAccountAnswer, 409, 429))
    @refusing
    def sign_up(new: NewName) -> dict[str, Any]:
        """Make an account, and its first API key, which is shown this once."""
        services.signups.use("all")
        account = services.accounts.add(new.name)
        token, key = services.api_keys.create(account.name, name="first", scopes=OWN_SCOPES)
        made = NewApiKeyAnswer(facts=of_attributes(ApiKeyFacts, key), key=token)
        return write(NewAccountAnswer(made=made, account=account.name))


# --- bundles --------------------------------------------------------------------------------------
# ``/v1/bundle``.


class BundleFile(BaseModel):
    """A file of a bundle. ``object_hash``: that of the manifest; "" for what it does not list."""

    content: str
    object_hash: str = ""
    inline_signed: bool = False


class BundlePush(BaseModel):
    """A bundle that is to be published. Without ``version`` it is that of the manifest."""

    bundle_id: str
    manifest: str
    files: dict[str, BundleFile]
    version: str | None = None


class BundleSearch(BaseModel):
    """What is searched for. ``include_mine``: what the caller does not list, too."""

    query: str = Field(default="", max_length=MAX_QUERY_CHARACTERS)
    namespace: str = Field(default="", max_length=256)
    include_mine: bool = False
    limit: int = Field(default=20, ge=0, le=MAX_RESULTS)
    offset: int = Field(default=0, ge=0, le=MAX_OFFSET)


def bundle_router(services: RegistryServices) -> APIRouter:
    """The routes of bundles."""
    routes = APIRouter(prefix="/v1/bundle", tags=["registry"])
    _add_exchange(routes, services)
    _add_lists(routes, services)
    return routes


def _add_exchange(routes: APIRouter, services: RegistryServices) -> None:
    bundles = services.bundles

    @routes.post(
        "/push",
        openapi_extra=described(BundlePush),
        responses=answers(PushedBundleAnswer, 404, 409, 429),
    )
    @refusing
    def push(writer: Writer, sent: Sent) -> dict[str, Any]:
        """Keep a bundle as it was signed, once it is what its manifest says."""
        account = services.account_of(writer)
        services.pushes.use(account)
        return _push_bundle(services, account, parse_body(sent, BundlePush))

    @routes.get("/pull", response_class=Response, responses=answers(PulledBundleAnswer, 404))
    @refusing
    def pull_named(
        reader: Reader,
        bundle_id: Annotated[str, Query(max_length=128)],
        version: Annotated[str | None, Query()] = None,
        namespace: Annotated[str, Query(max_length=64)] = "",
    ) -> Response:
        """As ``/pull/{bundle_id}``, with the id in the query."""
        return _pull_response(reader, bundle_id, version, namespace)

    @routes.get(
        "/pull/{bundle_id}", response_class=Response, responses=answers(PulledBundleAnswer, 404)
    )
    @refusing
    def pull(
        reader: Reader,
        bundle_id: str,
        version: Annotated[str | None, Query()] = None,
        namespace: Annotated[str, Query(max_length=64)] = "",
    ) -> Response:
        """A bundle with all its files: a version, or the highest one; ``namespace``: its owner."""
        return _pull_response(reader, bundle_id, version, namespace)

    def _pull_response(_: Reader, bundle_id: str, version: str | None, namespace: str) -> Response:
        named = None if version is None else version_of(version).text
        found = bundles.pull(bundle_name(bundle_id), named, namespace)
        bundles.downloads.note(found.bundle_id)
        answer = write(
            PulledBundleAnswer(
                bundle_id=found.bundle_id,
                version=found.version,
                manifest=found.manifest,
                files=found.files,
                author=found.author,
                created_at=found.created_at,
                attestation=bundle_attestation(found, services.keys),
            )
        )
        # Made here, in a thread: it may be 50 MiB, and the event loop has others to serve.
        return Response(json.dumps(answer, ensure_ascii=False), media_type="application/json")


def _add_lists(routes: APIRouter, services: RegistryServices) -> None:
    bundles = services.bundles

    @routes.get("/search", responses=answers(FoundBundlesAnswer))
    @refusing
    def search(caller: AnyCaller, fields: Annotated[BundleSearch, Query()]) -> dict[str, Any]:
        """Bundles that have every word, those that are pulled most first."""
        page = {"limit": fields.limit, "offset": fields.offset}
        words = words_of(fields.query)
        if fields.query.strip() and not words:
            return write(FoundBundlesAnswer(results=(), total=0, **page))
        owner = _bundle_owner(services, caller) if fields.include_mine else ""
        wanted = IndexQuery(words=words, namespace=fields.namespace)
        found, total = bundles.search(wanted, **page, owner=owner)
        return write(FoundBundlesAnswer(results=found, total=total, **page))

    @routes.get("/info/{bundle_id}", responses=answers(BundleAnswer, 404))
    @refusing
    def info(bundle_id: str) -> dict[str, Any]:
        """What there is to know of a bundle, without its files; all its versions."""
        found, versions = bundles.info(bundle_name(bundle_id))
        return write(BundleAnswer(bundle=found, versions=versions))

    @routes.delete("/{bundle_id}", responses=answers(DeletedBundleAnswer, 404))
    @refusing
    def delete(
        writer: Writer, bundle_id: str, version: Annotated[str | None, Query()] = None
    ) -> dict[str, Any]:
        """Delete a version, or every one. It can never be published again."""
        named = None if version is None else version_of(version).text
        account = services.account_of(writer)
        gone = bundles.delete(bundle_name(bundle_id), named, account=account)
        return write(
            DeletedBundleAnswer(status="deleted", bundle_id=bundle_id, deleted_versions=gone)
        )

    @routes.post("/{bundle_id}/visibility", responses=answers(BundleVisibilityAnswer, 404))
    @refusing
    def set_visibility(writer: Writer, bundle_id: str, new: NewVisibility) -> dict[str, Any]:
        """Show a bundle in lists, or hide it; users who know its id pull it either way."""
        account = services.account_of(writer)
        before = bundles.set_visibility(bundle_name(bundle_id), new.visibility, account=account)
        return write(
            BundleVisibilityAnswer(
                status="updated",
                bundle_id=bundle_id,
                visibility=new.visibility,
                previous_visibility=before,
            )
        )


def _push_bundle(services: RegistryServices, account: str, sent: BundlePush) -> dict[str, Any]:
    names = {path: one.object_hash for path, one in sent.files.items()}
    require_texts({"manifest": sent.manifest, "files": names})
    files = {
        path: SentFile(one.content, one.object_hash, one.inline_signed)
        for path, one in sent.files.items()
    }
    made = bundle_publication(
        bundle_name(sent.bundle_id),
        None if sent.version is None else version_of(sent.version).text,
        sent.manifest,
        files,
        keys=services.accounts.keys_of(account),
    )
    is_new = services.bundles.publish(
        made, account=account, max_bytes=services.settings.max_user_storage_bytes
    )
    return write(
        PushedBundleAnswer(
            status="pushed",
            skipped=not is_new,
            bundle_id=made.bundle_id,
            version=made.version,
            file_count=len(made.files),
            author=account,
            publisher=made.publisher,
        )
    )


def _bundle_owner(services: RegistryServices, caller: Principal | None) -> str:
    if caller is None:
        raise RequestProblem(
            401, "include_mine: expected an API key", {"WWW-Authenticate": "Bearer"}
        )
    return services.account_of(caller)
