"""The bundles of a registry: a manifest in the database, its files in a content-addressed store.

The files are on the disk before the database names them.
"""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    false,
    func,
    insert,
    or_,
    select,
    update,
)

from lillux.canonical_json import compute_integrity
from lillux.contained_paths import require_plain_path
from lillux.digests import sha256_hex
from lillux.errors import LilluxError, UnsafePathError
from lillux.shapes import of_values
from lillux.store import Durability
from lillux.store_layout import ObjectKind
from lillux.values import dataclass, field
from rye_services.names import folded_namespace, is_reserved
from rye_services.people.audit import Audit
from rye_services.registry.accounts import name_lock, namespace_error, require_room, reserve
from rye_services.registry.items import (
    Downloads,
    ItemGoneError,
    PublicationError,
    verify_sender,
    version_taken,
)
from rye_services.registry.names import version_of
from rye_services.registry.search_index import PUBLIC, IndexQuery
from rye_services.storage.database import Database, stamp, storable
from rye_services.storage.registry_tables import (
    accounts,
    bundle_files,
    bundle_versions,
    bundles,
    namespaces,
)
from ryeos.items.context import Clock, utc_now
from ryeos.items.refs import AI_DIRECTORY, kind_of_directory
from ryeos.items.yaml import parse_yaml
from ryeos.sync.contents import ContentStore
from ryeos.sync.item_files import item_source
from ryeos.trust.bundles import MANIFEST_FORM
from ryeos.trust.signature import decode, split

# --- bundle publication ---------------------------------------------------------------------------
# A bundle as it is sent, checked against its own manifest. Pure.
#
# The manifest stays as its publisher signed it: who installs the bundle pins the publisher's key,
# so the registry changes not a byte. Format: docs/bundles.md, docs/registry.md.

MAX_FILES = 5000
MAX_FILE_BYTES = 8 * 1024 * 1024
MAX_MANIFEST_BYTES = 8 * 1024 * 1024
_MAX_PATH_CHARACTERS = 512
_MOST_ISSUES = 20


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file of a bundle. ``object_hash`` is that of its ``item_source``."""

    content: str = field(repr=False)
    object_hash: str
    inline_signed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class BundlePublication:
    """A bundle that can be kept. ``publisher``: the key that signed its manifest, or None."""

    bundle_id: str
    version: str
    description: str
    manifest: str = field(repr=False)
    files: Mapping[str, SentFile] = field(repr=False)
    publisher: str | None

    @property
    def content_hash(self) -> str:
        """Of everything that is pulled; what its version stands for."""
        listed = {path: sha256_hex(one.content.encode()) for path, one in self.files.items()}
        return compute_integrity({"manifest": self.manifest, "files": listed})

    @property
    def size(self) -> int:
        """Bytes of the manifest and the files."""
        files = sum(len(one.content.encode()) for one in self.files.values())
        return len(self.manifest.encode()) + files


def bundle_publication(
    bundle_id: str,
    version: str | None,
    manifest: str,
    files: Mapping[str, SentFile],
    *,
    keys: Mapping[str, bytes],
) -> BundlePublication:
    """The bundle that an account publishes. ``keys``: the PEMs of its own keys by fingerprint.

    Raises PublicationError for everything that is wrong with it, RegistryNameError.
    """
    where = "manifest"
    try:
        text = decode(manifest.encode(), where)
        signed = split(text, MANIFEST_FORM, where)
        publisher = verify_sender(signed, signed.body, keys)
        document = parse_yaml(signed.body, where)
    except PublicationError:
        raise
    except LilluxError as error:
        raise PublicationError(str(error)) from error
    said = document.get("bundle")
    said = said if isinstance(said, dict) else {}
    listed = document.get("files")
    if not isinstance(listed, dict):
        raise PublicationError("manifest: files: expected a mapping of paths")
    found = version or said.get("version")
    if not isinstance(found, str):
        raise PublicationError("version: expected one, beside the manifest or in it")
    issues = [*_identity(said, bundle_id, found), *_files(listed, files, bundle_id)]
    if issues:
        raise PublicationError("Validation failed", tuple(issues[:_MOST_ISSUES]))
    return BundlePublication(
        bundle_id=bundle_id,
        version=version_of(found).text,
        description=_declared_description(said),
        manifest=manifest,
        files=files,
        publisher=publisher,
    )


def description_in(manifest: str) -> str:
    """What a manifest that was published says of its bundle."""
    where = "manifest"
    document = parse_yaml(split(decode(manifest.encode(), where), MANIFEST_FORM, where).body, where)
    return _declared_description(document["bundle"])


def _declared_description(said: Mapping[str, Any]) -> str:
    found = said.get("description")
    return str(storable(found)) if isinstance(found, str) else ""


def _identity(said: Mapping[str, Any], bundle_id: str, version: str) -> list[str]:
    expected = {"id": bundle_id, "version": version}
    return [
        f"manifest: bundle.{field}: expected {value}, found {str(said.get(field))[:80]!a}"
        for field, value in expected.items()
        if said.get(field) != value
    ]


def _files(listed: Mapping[Any, Any], sent: Mapping[str, SentFile], bundle_id: str) -> list[str]:
    """What is wrong with the files, in the order of their paths."""
    if not 0 < len(sent) <= MAX_FILES:
        return [f"files: expected 1 to {MAX_FILES}, found {len(sent)}"]
    issues = [f"{str(path)[:200]!a}: listed, but not sent" for path in listed if path not in sent]
    seen: dict[str, str] = {}
    for path, one in sorted(sent.items()):
        problem = _path_problem(path) or _clash(path, seen)
        problem = problem or _file_problem(path, one, listed.get(path), bundle_id)
        if problem:
            issues.append(f"{path[:200]!a}: {problem}")
    return issues


def _path_problem(path: str) -> str:
    if len(path) > _MAX_PATH_CHARACTERS:
        return f"expected at most {_MAX_PATH_CHARACTERS} characters"
    try:
        require_plain_path(path)
    except UnsafePathError as error:
        return error.problem
    return ""


def _clash(path: str, seen: dict[str, str]) -> str:
    """Some file systems have one file where two paths differ by case alone."""
    other = seen.setdefault(path.casefold(), path)
    return "" if other == path else f"differs from {other!a} by case alone"


def _file_problem(path: str, sent: SentFile, entry: object, bundle_id: str) -> str:
    data = sent.content.encode("utf-8", "surrogatepass")
    if len(data) > MAX_FILE_BYTES:
        return f"expected at most {MAX_FILE_BYTES} bytes, found {len(data)}"
    if not isinstance(entry, dict):
        return "" if _is_of_the_bundle(path, bundle_id) else "sent, but not listed in the manifest"
    if entry.get("object_hash") != sent.object_hash:
        return "object_hash: expected that of the manifest"
    if bool(entry.get("inline_signed", sent.inline_signed)) != sent.inline_signed:
        return "inline_signed: expected that of the manifest"
    return _content_problem(path, sent, data)


def _content_problem(path: str, sent: SentFile, data: bytes) -> str:
    source = item_source(_below_a_project(path), data)
    if source is None:
        return "" if sent.object_hash in {"", sha256_hex(data)} else "object_hash: not its own"
    if compute_integrity(source.as_object()) != sent.object_hash:
        return "object_hash: not that of the content"
    if (source.signature_info is not None) != sent.inline_signed:
        return "inline_signed: expected whether there is a signature line"
    return ""


def _is_of_the_bundle(path: str, bundle_id: str) -> bool:
    """Whether a file is about the bundle, and so in no list of what the bundle holds."""
    below = path.removeprefix(f"{AI_DIRECTORY}/")
    about = (f"bundles/{bundle_id}/", "config/keys/trusted/")
    return below == "public_key.pem" or below.startswith(about)


def _below_a_project(path: str) -> str:
    """Manifests name paths below ``.ai`` or beside it; items are known by the longer ones."""
    is_short = kind_of_directory(path.partition("/")[0]) is not None
    return f"{AI_DIRECTORY}/{path}" if is_short else path


# --- bundles --------------------------------------------------------------------------------------

_BEING_PUBLISHED_S = 3600.0
_A_QUERY = 500  # values; every database takes so many


@dataclass(frozen=True, slots=True, kw_only=True)
class PulledBundle:
    """A version of a bundle, as it was pushed. ``files``: what is sent of each, by path."""

    bundle_id: str
    version: str
    manifest: str = field(repr=False)
    files: dict[str, dict[str, Any]] = field(repr=False)
    author: str
    content_hash: str
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedBundle:
    """A bundle in a list."""

    bundle_id: str
    description: str
    version: str  # its highest
    author: str
    visibility: str
    download_count: int
    created_at: str
    updated_at: str


class Bundles:
    """The bundles in the database and the store. Thread-safe, and so across processes."""

    def __init__(self, database: Database, store: ContentStore, clock: Clock = utc_now) -> None:
        self._database, self._store, self._clock = database, store, clock
        self.downloads = Downloads(database, bundles, bundles.c.bundle_id)

    def publish(self, sent: BundlePublication, *, account: str, max_bytes: int) -> bool:
        """Keep a version; False where it was there already, with the same content.

        Raises RefusedError `PERMISSION_DENIED`, `CONFLICT`, `RESOURCE_EXCEEDED`; FileSystemError.
        """
        with self._database.reading() as connection:
            self._require_owner(connection, sent.bundle_id, account)
            if self._is_there(connection, sent):
                return False
            require_room(
                connection, account, sent.size, max_bytes=max_bytes
            )  # nothing lies here yet
        contents = [one.content.encode() for one in sent.files.values()]
        self._store.keep_all(
            [(ObjectKind.BLOB, sha256_hex(data), data) for data in contents], Durability.AT_SYNC
        )
        self._store.sync()
        with self._database.writing(lock=name_lock(sent.bundle_id)) as connection:
            return self._write(connection, sent, account, max_bytes)

    def pull(self, bundle_id: str, version: str | None, owner: str = "") -> PulledBundle:
        """A version, the highest where none is named. Raises ItemGoneError."""
        what = f"bundle {bundle_id}"
        with self._database.reading() as connection:
            row = self._row(connection, bundle_id)
            if row is None or row["latest_version"] is None or owner not in {"", row["owner"]}:
                raise ItemGoneError(what)
            named = version or row["latest_version"]
            found = _version_row(connection, row["bundle_id"], named)
            if found is None or found["deleted_at"]:
                raise ItemGoneError(f"{what}@{named}", "was deleted" if found else "not found")
            listed = connection.execute(
                select(bundle_files).where(
                    bundle_files.c.bundle_id == row["bundle_id"], bundle_files.c.version == named
                )
            ).all()
        files = {
            one.path: {
                "content": self._store.get_blob(one.blob_hash).decode(),
                "object_hash": one.object_hash,
                "inline_signed": one.inline_signed,
            }
            for one in listed
        }
        return PulledBundle(
            bundle_id=row["bundle_id"],
            version=named,
            manifest=found["manifest"],
            files=files,
            author=found["author"],
            content_hash=found["content_hash"],
            created_at=found["created_at"],
        )

    def info(self, bundle_id: str) -> tuple[ListedBundle, tuple[str, ...]]:
        """A bundle and its versions, the highest first. Raises ItemGoneError."""
        with self._database.reading() as connection:
            row = self._row(connection, bundle_id)
            if row is None or row["latest_version"] is None:
                raise ItemGoneError(f"bundle {bundle_id}")
            found = _live_versions(connection, row["bundle_id"])
        return self._bundle_of_row(row), found

    def paths(self, bundle_id: str, version: str) -> tuple[str, ...]:
        """The files of a version, sorted."""
        columns = bundle_files.c
        of_it = and_(columns.bundle_id == bundle_id, columns.version == version)
        wanted = select(columns.path).where(of_it).order_by(columns.path)
        with self._database.reading() as connection:
            return tuple(connection.scalars(wanted))

    def text(self, bundle_id: str, version: str, path: str) -> str:
        """One file of a version. Raises ItemGoneError."""
        columns = bundle_files.c
        of_it = and_(columns.bundle_id == bundle_id, columns.version == version)
        wanted = select(columns.blob_hash).where(of_it, columns.path == path)
        with self._database.reading() as connection:
            digest = connection.scalar(wanted)
        if digest is None:
            raise ItemGoneError(f"bundle {bundle_id}@{version}", f"no file {path[:200]!a}")
        return self._store.get_blob(digest).decode()

    def delete(self, bundle_id: str, version: str | None, *, account: str) -> tuple[str, ...]:
        """Delete a version, or every one; which ones. Raises ItemGoneError, RefusedError."""
        with self._database.writing(lock=name_lock(bundle_id)) as connection:
            if self._row(connection, bundle_id) is not None:
                self._require_owner(connection, bundle_id, account)
            gone, blobs = self._delete(connection, bundle_id, version)
        self._remove(blobs)
        return gone

    def take_down(self, bundle_id: str, version: str | None) -> tuple[str, ...]:
        """As `delete`, for operators of the registry. Raises ItemGoneError."""
        with self._database.writing(lock=name_lock(bundle_id)) as connection:
            gone, blobs = self._delete(connection, bundle_id, version)
            details = {"versions": list(gone)}
            Audit(self._database).write(connection, "bundles.take-down", bundle_id, details)
        self._remove(blobs)
        return gone

    def sweep(self) -> int:
        """Remove the files of no bundle; how many.

        Such are left by pushes that were refused or ended in between, and by what was deleted soon
        after it was published.
        """
        before_s = self._clock().timestamp() - _BEING_PUBLISHED_S
        old = [
            one.digest for one in self._store.stored(ObjectKind.BLOB) if one.modified_s < before_s
        ]
        with self._database.reading() as connection:
            unnamed = set(old) - _still_named(connection, set(old))
        removed = self._store.remove_all_older(ObjectKind.BLOB, sorted(unnamed), before_s)
        self._store.remove_leftovers(before_s)
        return len(removed)

    def set_visibility(self, bundle_id: str, visibility: str, *, account: str) -> str:
        """Show a bundle in lists, or not; what it was. Raises ItemGoneError, RefusedError."""
        with self._database.writing(lock=name_lock(bundle_id)) as connection:
            row = self._row(connection, bundle_id)
            if row is None:
                raise ItemGoneError(f"bundle {bundle_id}")
            self._require_owner(connection, bundle_id, account)
            change = update(bundles).where(bundles.c.bundle_id == row["bundle_id"])
            connection.execute(change.values(visibility=visibility))
        return str(row["visibility"])

    def search(
        self, wanted: IndexQuery, *, limit: int, offset: int, owner: str = ""
    ) -> tuple[tuple[ListedBundle, ...], int]:
        """Bundles with every word in their id or description, what is pulled most first.

        ``owner``: whose unlisted ones are found as well.
        """
        columns = bundles.c
        is_there = columns.latest_version.is_not(None)
        seen = or_(columns.visibility == PUBLIC, columns.owner == owner if owner else false())
        conditions: list[ColumnElement[bool]] = [is_there, seen]
        if wanted.namespace:
            conditions.append(columns.owner == wanted.namespace)
        conditions += [
            or_(
                columns.bundle_id.icontains(word, autoescape=True),
                columns.description.icontains(word, autoescape=True),
            )
            for word in wanted.words
        ]
        page = (
            select(bundles)
            .where(*conditions)
            .order_by(columns.download_count.desc(), columns.bundle_id)
        )
        with self._database.reading() as connection:
            rows = connection.execute(page.limit(limit).offset(offset)).mappings().all()
            total = connection.scalar(select(func.count()).select_from(bundles).where(*conditions))
        return tuple(self._bundle_of_row(row) for row in rows), int(total or 0)

    # --- within a transaction ---

    def _write(
        self, connection: Connection, sent: BundlePublication, account: str, max_bytes: int
    ) -> bool:
        self._require_owner(connection, sent.bundle_id, account)
        if self._is_there(connection, sent):
            return False
        reserve(connection, account, sent.size, max_bytes=max_bytes)
        now = stamp(self._clock())
        known = self._row(connection, sent.bundle_id)
        facts = {"description": sent.description, "updated_at": now}
        if known is None:
            row = {
                "bundle_id": sent.bundle_id,
                "folded": folded_namespace(sent.bundle_id),
                "owner": account,
                "visibility": PUBLIC,
                "latest_version": sent.version,
                "created_at": now,
            }
            connection.execute(insert(bundles).values(**row, **facts))
        elif _is_higher(sent.version, known["latest_version"]):
            change = update(bundles).where(bundles.c.bundle_id == sent.bundle_id)
            connection.execute(change.values(latest_version=sent.version, **facts))
        connection.execute(
            insert(bundle_versions).values(
                bundle_id=sent.bundle_id,
                version=sent.version,
                content_hash=sent.content_hash,
                manifest=sent.manifest,
                author=account,
                file_count=len(sent.files),
                size=sent.size,
                created_at=now,
            )
        )
        connection.execute(insert(bundle_files), _file_rows(sent))
        return True

    def _delete(
        self, connection: Connection, bundle_id: str, version: str | None
    ) -> tuple[tuple[str, ...], set[str]]:
        """The versions that are gone, and the hashes of files that no version has any more."""
        row = self._row(connection, bundle_id)
        live = () if row is None else _live_versions(connection, row["bundle_id"])
        gone = [one for one in live if version in {None, one}]
        if row is None or not gone:
            what = f"bundle {bundle_id}"
            raise ItemGoneError(f"{what}@{version}" if version else what)
        of_it = bundle_versions.c.bundle_id == row["bundle_id"]
        these = of_it & bundle_versions.c.version.in_(gone)
        for one in connection.execute(select(bundle_versions).where(these)).all():
            reserve(connection, one.author, -one.size, max_bytes=0)
        now = stamp(self._clock())
        connection.execute(
            update(bundle_versions).where(these).values(deleted_at=now, manifest="", size=0)
        )
        columns = bundle_files.c
        files = (columns.bundle_id == row["bundle_id"]) & columns.version.in_(gone)
        blobs = set(connection.scalars(select(columns.blob_hash).where(files)))
        connection.execute(bundle_files.delete().where(files))
        latest = next(iter(_live_versions(connection, row["bundle_id"])), None)
        shown = {"latest_version": latest, "updated_at": now}
        shown["description"] = _description(connection, row["bundle_id"], latest)
        change = update(bundles).where(bundles.c.bundle_id == row["bundle_id"])
        connection.execute(change.values(**shown))
        return tuple(reversed(gone)), blobs - _still_named(connection, blobs)

    def _remove(self, blobs: set[str]) -> None:
        """Remove files from the store, but those that were stored again only just now.

        A publisher of a bundle stores its files first; what is young may be about to be named.
        """
        before_s = self._clock().timestamp() - _BEING_PUBLISHED_S
        self._store.remove_all_older(ObjectKind.BLOB, blobs, before_s)

    def _require_owner(self, connection: Connection, bundle_id: str, account: str) -> None:
        """Raises RefusedError where the bundle is not the account's, and cannot become so."""
        row = self._row(connection, bundle_id)
        if row is not None and (row["owner"], row["bundle_id"]) == (account, bundle_id):
            return
        if row is not None:
            raise namespace_error(bundle_id, "a bundle of this name belongs to another account")
        folded = folded_namespace(bundle_id)
        claimed = select(namespaces.c.owner).where(namespaces.c.folded == folded)
        named = select(accounts.c.name).where(accounts.c.folded == folded)
        owners = {connection.scalar(claimed), connection.scalar(named)} - {None}
        if owners - {account} or (is_reserved(bundle_id) and not owners):
            problem = "this name is reserved, or belongs to another account"
            raise namespace_error(bundle_id, problem)

    def _is_there(self, connection: Connection, sent: BundlePublication) -> bool:
        found = _version_row(connection, sent.bundle_id, sent.version)
        what = f"bundle {sent.bundle_id}@{sent.version}"
        if found is not None and found["deleted_at"]:
            problem = "this version was deleted, and is not given away again"
            raise version_taken(what, problem)
        if found is not None and found["content_hash"] != sent.content_hash:
            raise version_taken(what, "it is there with another content")
        return found is not None

    def _row(self, connection: Connection, bundle_id: str) -> RowMapping | None:
        same = bundles.c.folded == folded_namespace(bundle_id)
        return connection.execute(select(bundles).where(same)).mappings().first()

    def _bundle_of_row(self, row: RowMapping) -> ListedBundle:
        count = row["download_count"] + self.downloads.since(row["bundle_id"])
        shown = {"author": row["owner"], "version": row["latest_version"] or ""}
        return of_values(ListedBundle, {**row, **shown, "download_count": count})


def _is_higher(version: str, latest: str | None) -> bool:
    return latest is None or version_of(version) > version_of(latest)


def _live_versions(connection: Connection, bundle_id: str) -> tuple[str, ...]:
    """The versions that were not deleted, the highest first."""
    columns = bundle_versions.c
    live = and_(columns.bundle_id == bundle_id, columns.deleted_at.is_(None))
    found = connection.scalars(select(columns.version).where(live)).all()
    return tuple(sorted(found, key=version_of, reverse=True))


def _still_named(connection: Connection, blobs: set[str]) -> set[str]:
    """Those of these hashes that some bundle has a file of."""
    ordered, named = sorted(blobs), set()
    for start in range(0, len(ordered), _A_QUERY):
        some = bundle_files.c.blob_hash.in_(ordered[start : start + _A_QUERY])
        named |= set(connection.scalars(select(bundle_files.c.blob_hash).where(some)))
    return named


def _version_row(connection: Connection, bundle_id: str, version: str) -> RowMapping | None:
    columns = bundle_versions.c
    same = and_(columns.bundle_id == bundle_id, columns.version == version)
    return connection.execute(select(bundle_versions).where(same)).mappings().first()


def _description(connection: Connection, bundle_id: str, version: str | None) -> str:
    """What the manifest of a version says of the bundle; "" for no version."""
    row = None if version is None else _version_row(connection, bundle_id, version)
    return "" if row is None else description_in(row["manifest"])


def _file_rows(sent: BundlePublication) -> list[dict[str, Any]]:
    return [
        {
            "bundle_id": sent.bundle_id,
            "version": sent.version,
            "path": path,
            "blob_hash": sha256_hex(one.content.encode()),
            "object_hash": one.object_hash,
            "inline_signed": one.inline_signed,
        }
        for path, one in sorted(sent.files.items())
    ]
