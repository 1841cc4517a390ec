"""Manifests that users of a node publish from their own stores: the index below ``/registry``.

What is published has to be there, whole and sound; from then on no sweep takes it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Annotated, Any, ParamSpec, TypeVar

from sqlalchemy import Connection, Row, func, insert, select

from lillux.errors import LilluxError
from lillux.shapes import Key, write
from lillux.values import dataclass
from rye_services.names import RegistryNameError
from rye_services.node.store.objects import KnownItems
from rye_services.node.store.push import ManifestGraphError, verify_pushed_objects
from rye_services.people.credentials import (
    ApiKeyMissingError,
    UserIdError,
)
from rye_services.refusal import RefusedError
from rye_services.registry.accounts import (
    claim_in,
    name_lock,
)
from rye_services.registry.items import ItemGoneError, PublicationError, version_taken
from rye_services.registry.names import version_of
from rye_services.storage.database import Database, from_row, published_manifests, stamp
from rye_services.storage.registry_tables import namespaces
from rye_services.web.http import RequestProblem
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import http_status_of
from ryeos.remote.identity import IdentityError
from ryeos.remote.signed_documents import SignedDocumentError
from ryeos.sync.contents import ContentStore
from ryeos.sync.objects import manifest_of

KINDS = ("tool", "directive", "knowledge", "bundle")
_columns = published_manifests.c


def _manifest_missing(digest: str, problem: str) -> RefusedError:
    """The error of what was to be published and is not in the publisher's store, or not whole.

    The request names it in its body, so the status is not 404.
    """
    return RefusedError(
        f"manifest {digest[:64]!a}: {problem}",
        code="ITEM_NOT_FOUND",
        hint="push it first",
        status=400,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedManifest:
    """One version. ``publisher``: the fingerprint of the key that signed the request."""

    kind: str
    item_id: str
    version: str
    manifest_hash: str
    publisher: Annotated[str, Key("user_id")]
    published_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedItem:
    """An item and its versions, the highest first."""

    kind: str
    item_id: str
    namespace: str
    owner: str
    versions: tuple[PublishedManifest, ...]


class PublishedManifests:
    """The published manifests in the database. Thread-safe, and so across processes."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database, self._clock = database, clock

    def publish(
        self, sent: PublishedManifest, *, owner: str, store: ContentStore
    ) -> tuple[PublishedManifest, bool]:
        """Keep a version; False where it was there with the same manifest.

        Raises RefusedError `ITEM_NOT_FOUND`, `PERMISSION_DENIED`, `CONFLICT`.
        """
        _verify_manifest(sent.manifest_hash, store)
        namespace, now = sent.item_id.partition("/")[0], stamp(self._clock())
        what = f"{sent.kind}:{sent.item_id}@{sent.version}"
        with self._database.writing(lock=name_lock(namespace)) as connection:
            claim_in(connection, namespace, owner, now)
            known = _version(connection, sent)
            if known is None:
                row = {**write(sent), "namespace": namespace, "published_at": now}
                connection.execute(insert(published_manifests).values(**row))
                return _published(connection.execute(_same(sent)).one()), True
        if known.manifest_hash != sent.manifest_hash:
            raise version_taken(what, "it is there with another manifest")
        return known, False

    def item(self, kind: str, item_id: str) -> PublishedItem:
        """An item with all its versions. Raises ItemGoneError."""
        same = (_columns.kind == kind) & (_columns.item_id == item_id)
        with self._database.reading() as connection:
            rows = connection.execute(select(published_manifests).where(same)).all()
            if not rows:
                raise ItemGoneError(f"{kind[:20]}:{item_id[:256]}")
            owner = _owner(connection, rows[0].namespace)
        found = sorted(map(_published, rows), key=lambda one: version_of(one.version), reverse=True)
        return PublishedItem(
            kind=kind,
            item_id=item_id,
            namespace=rows[0].namespace,
            owner=owner,
            versions=tuple(found),
        )

    def search(
        self, query: str, kind: str, namespace: str, limit: int
    ) -> tuple[tuple[PublishedItem, ...], int]:
        """Items whose id has this text in it, by id, and how many there are in all."""
        conditions = [_columns.item_id.icontains(query, autoescape=True)]
        if kind in KINDS:
            conditions.append(_columns.kind == kind)
        if namespace:
            conditions.append(_columns.namespace == namespace)
        names = select(_columns.kind, _columns.item_id).where(*conditions).distinct()
        with self._database.reading() as connection:
            page = names.order_by(_columns.item_id, _columns.kind).limit(limit)
            rows = connection.execute(page).all()
            total = connection.scalar(select(func.count()).select_from(names.subquery()))
        return tuple(self.item(row.kind, row.item_id) for row in rows), int(total or 0)


def _verify_manifest(digest: str, store: ContentStore) -> None:
    try:
        manifest = manifest_of(store.get_object(digest), digest)
        verify_pushed_objects(digest, manifest.space, store, KnownItems())
    except ManifestGraphError as error:
        raise _manifest_missing(digest, str(error)) from error
    except LilluxError as error:
        problem = "expected a manifest in your store, found none that can be read"
        raise _manifest_missing(digest, problem) from error


def _version(connection: Connection, sent: PublishedManifest) -> PublishedManifest | None:
    """The version that is there. Raises RefusedError for an id that differs by case alone."""
    alike = (_columns.kind == sent.kind) & (func.lower(_columns.item_id) == sent.item_id.lower())
    for spelled in connection.scalars(select(_columns.item_id).where(alike).distinct()):
        if spelled != sent.item_id:
            problem = f"differs from {spelled} by case alone"
            raise version_taken(f"{sent.kind}:{sent.item_id}", problem)
    row = connection.execute(_same(sent)).first()
    return None if row is None else _published(row)


def _same(sent: PublishedManifest) -> Any:  # noqa: ANN401 - SQLAlchemy's
    return select(published_manifests).where(
        _columns.kind == sent.kind,
        _columns.item_id == sent.item_id,
        _columns.version == sent.version,
    )


def _owner(connection: Connection, namespace: str) -> str:
    named = select(namespaces.c.owner).where(namespaces.c.name == namespace)
    return str(connection.scalar(named) or "")


def _published(row: Row[Any]) -> PublishedManifest:
    return from_row(PublishedManifest, row)


# --- refusals -------------------------------------------------------------------------------------
# What a registry refuses: ``{"detail": {"status": "error", "code", "error", ...}}``.

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

_REFUSED: tuple[type[LilluxError], ...] = (
    RefusedError,
    RegistryNameError,
    UserIdError,
    PublicationError,
    ItemGoneError,
    ApiKeyMissingError,
    IdentityError,
    SignedDocumentError,
)


@contextmanager
def answered() -> Iterator[None]:
    """Errors of a registry become refusals. Raises Problem."""
    try:
        yield
    except _REFUSED as error:
        raise RequestProblem(http_status_of(error), detail_of(error)) from error


def refusing(route: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """A route whose errors are answered."""

    @wraps(route)
    def refusing_route(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with answered():
            return route(*args, **kwargs)

    return refusing_route


def detail_of(error: LilluxError) -> dict[str, object]:
    """The answer to the caller; ``issues`` is everything that is wrong with what they sent."""
    detail: dict[str, object] = {"status": "error", "code": error.code, "error": str(error)}
    if error.hint:
        detail["hint"] = error.hint
    if isinstance(error, PublicationError):
        detail["issues"] = list(error.issues)
    return detail
