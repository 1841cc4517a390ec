"""The items of a registry: versions never change, their visibility may.

A version that was deleted leaves its row without the content: no other one is published in its
place, so all users pull the same text under a version.
"""

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Lock
from typing import Annotated, Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    RowMapping,
    Table,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    update,
)

from lillux.digests import sha256_hex
from lillux.errors import LilluxError
from lillux.shapes import FLAT, of_values
from lillux.signing import verify_signature
from lillux.values import dataclass, field, replace
from rye_services.names import folded_namespace
from rye_services.people.audit import Audit
from rye_services.refusal import RefusedError
from rye_services.registry.accounts import claim_in, name_lock, namespace_error, reserve
from rye_services.registry.names import ItemFacts, ItemName, Version, version_of
from rye_services.registry.search_index import (
    PUBLIC,
    IndexedItem,
    IndexQuery,
    SearchIndex,
    words_of,
)
from rye_services.storage.database import Database, stamp, storable
from rye_services.storage.registry_tables import items, namespaces, versions
from ryeos.items.context import Clock, utc_now
from ryeos.items.errors import ItemValidationError, RyeError, SpecError
from ryeos.items.headers import parse_header
from ryeos.items.refs import PROJECT, Kind, Space
from ryeos.items.shell_headers import own_version
from ryeos.items.specs import tool_spec
from ryeos.trust.extractors import extract
from ryeos.trust.item_rules import ValidItem, is_module, validate_item
from ryeos.trust.sign_targets import SignTarget
from ryeos.trust.signature import (
    DETACHED_SUFFIXES,
    FORMS,
    Signature,
    SignedText,
    compose,
    content_hash,
    form_for,
    hashed_text,
    split,
)
from ryeos.trust.signing_key import SigningKey

# --- item values ----------------------------------------------------------------------------------
# What a registry says of an item, and of one that is not there. Values only.


class ItemGoneError(RyeError):
    """There is no such item, or no such version of it."""

    code = "ITEM_NOT_FOUND"

    def __init__(self, what: str, problem: str = "not found") -> None:
        self.what = what
        super().__init__(f"{what}: {problem}", hint="look for it with: rye registry search")


def version_taken(what: str, problem: str) -> RefusedError:
    """The error of a version that is there already, published with another content."""
    return RefusedError(
        f"{what}: {problem}", code="CONFLICT", hint="publish it under a new version"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedVersion:
    """One version, as it is pulled. ``publisher``: the key that it was sent signed with."""

    item: int
    name: ItemName
    version: str
    suffix: str
    content: str = field(repr=False)
    sha256: str
    author: str
    publisher: str | None
    changelog: str
    metadata: Mapping[str, Any] | None
    created_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedItem:
    """An item in a list."""

    facts: Annotated[ItemFacts, FLAT]
    title: str
    description: str
    version: str  # the highest that was not deleted
    author: str
    visibility: str
    download_count: int
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVersion:
    """A version in the list of an item's."""

    version: str
    author: str
    created_at: str
    changelog: str
    sha256: str
    deleted: bool


def version_in(row: RowMapping, name: ItemName) -> PublishedVersion:
    """The version in a row of them; one that was deleted has no content."""
    return of_values(PublishedVersion, {**row, "name": name, "content": row["content"] or ""})


# --- downloads ------------------------------------------------------------------------------------
# How often something was pulled: counted in memory, written now and then.
#
# A pull must not wait for a disk because it is counted; a server that is killed forgets the last
# few.


class Downloads:
    """The counts of the rows of one table, which has a ``download_count``. Thread-safe."""

    def __init__(self, database: Database, table: Table, key: Column[int] | Column[str]) -> None:
        self._database, self._table, self._key = database, table, key
        self._counted: Counter[int | str] = Counter()
        self._lock = Lock()

    def note(self, row: int | str) -> None:
        """Something was pulled."""
        with self._lock:
            self._counted[row] += 1

    def since(self, row: int | str) -> int:
        """How often since the last writing: to be added to what the row says."""
        with self._lock:
            return self._counted[row]

    def write(self) -> None:
        """Write what was counted."""
        with self._lock:
            counted, self._counted = self._counted, Counter()
        if not counted:
            return
        columns = self._table.c
        change = (
            update(self._table)
            .where(self._key == bindparam("row"))
            .values(download_count=columns.download_count + bindparam("more"))
        )
        with self._database.writing() as connection:
            # In one order, so that no two servers wait for a row that the other one has.
            rows = sorted(counted.items(), key=lambda one: str(one[0]))
            connection.execute(change, [{"row": row, "more": more} for row, more in rows])


# --- publication ----------------------------------------------------------------------------------
# From what a publisher sends to what the registry signs. Pure but for the clock of the key.
#
# (1) take the signature lines off, and check them where they are there
# (2) validate as ``rye sign`` does, with the id for the place of the file
# (3) sign with the registry's key, and say who published it on the same line

MAX_CONTENT_BYTES = 1024 * 1024
PROVIDER = "rye-registry"
_NOWHERE = Space(PROJECT, Path())
_FIRST_SUFFIX = {Kind.DIRECTIVE: ".md", Kind.KNOWLEDGE: ".md"}


class PublicationError(LilluxError):
    """What was sent cannot be published; ``issues`` are all that is wrong with it."""

    code, exit_status = "VALIDATION_FAILED", 6

    def __init__(self, problem: str, issues: tuple[str, ...] = ()) -> None:
        self.problem = problem
        self.issues = issues or (problem,)
        super().__init__(problem, hint="rye sign says the same before anything is sent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """An item as it will be kept.

    suffix       of its file, which decides the comment form and the parser
    content      with the signature of the registry and the provenance
    source_hash  of what was sent without its signature lines: what a version stands for
    publisher    the fingerprint of the key that it was sent signed with, or None
    title        what its metadata call it; "" where they do not
    """

    suffix: str
    content: str
    signature: Signature
    source_hash: str
    publisher: str | None
    title: str
    description: str

    @property
    def sha256(self) -> str:
        """Of the bytes that will be pulled."""
        return sha256_hex(self.content.encode())


def publication(
    name: ItemName,
    version: Version,
    content: str,
    *,
    suffix: str | None,
    account: str,
    keys: Mapping[str, bytes],
    signer: SigningKey,
) -> Publication:
    """The item that an account publishes. ``keys``: the PEMs of its own keys by fingerprint.

    Raises PublicationError for everything that is wrong with the content.
    """
    data = content.encode("utf-8", "surrogatepass")
    if len(data) > MAX_CONTENT_BYTES:
        raise PublicationError(f"expected at most {MAX_CONTENT_BYTES} bytes, found {len(data)}")
    found = suffix or guessed_suffix(name.kind, content)
    target = _target(name, found)
    try:
        valid = validate_item(target, data)
        signed = valid.signed
        assert signed is not None  # noqa: S101 - only of detached suffixes, refused by `_target`
        text = signed.shebang + signed.body
        header = extract(name.kind, found, text, str(target.path))
        own = own_version(header, found, text)
        hashed = hashed_text(name.kind, signed, str(target.path))
        publisher = verify_sender(signed, hashed, keys)
    except ItemValidationError as error:
        raise PublicationError("Validation failed", error.details) from error
    except PublicationError:
        raise
    except LilluxError as error:
        raise PublicationError(str(error)) from error
    _validate_header(target, header, own, version)
    text, signature = _resigned(name.kind, found, valid, signer, account)
    return Publication(
        suffix=found,
        content=text,
        signature=signature,
        source_hash=sha256_hex(f"{found}\n{signed.shebang}{signed.body}".encode()),
        publisher=publisher,
        title=_text(header, "title"),
        description=_text(header, "description"),
    )


def guessed_suffix(kind: Kind, content: str) -> str:
    """What a file with this content is called, for publishers who send no suffix."""
    if kind is not Kind.TOOL:
        return _FIRST_SUFFIX[kind]
    first = content.partition("\n")[0]
    if first.startswith("#!"):
        return ".py" if "python" in first else ".sh"
    if first.startswith(("//", "/*", "export ", "const ")):
        return ".js"
    return ".py" if _header(".py", content) or not _header(".yaml", content) else ".yaml"


def _header(suffix: str, content: str) -> Mapping[str, object]:
    try:
        return parse_header(suffix, content, "content")
    except LilluxError:
        return {}


def _target(name: ItemName, suffix: str) -> SignTarget:
    """The place that the item would have in a project."""
    forms = {one for one in FORMS[name.kind] if one not in DETACHED_SUFFIXES}
    if suffix not in forms:
        expected = f"expected {', '.join(sorted(forms))}"
        raise PublicationError(f"suffix: {expected}, found {suffix[:20]!a}")
    path = Path(".ai", name.kind.directory, f"{name.id}{suffix}")
    return SignTarget(path=path, kind=name.kind, space=_NOWHERE, ref=name.ref)


def _validate_header(
    target: SignTarget, header: Mapping[str, object], own: object, version: Version
) -> None:
    """What `validate_item` does not look at: that it is an item, and its declared version."""
    if is_module(target, header) and target.path.suffix != ".sh":
        raise PublicationError("expected an item, found a module: there is no header in it")
    if own is not None and own != version.text:
        issue = f"Field 'version' must be the version it is published as ({version}), got {own!a}"
        raise PublicationError("Validation failed", (issue,))
    try:
        declared_rights(target.kind, target.path.suffix, header)
    except SpecError as error:
        raise PublicationError("Validation failed", (str(error),)) from error


def shown_rights(found: PublishedVersion) -> Mapping[str, object] | None:
    """The declared rights of a published tool; None if it has none, or they are not readable."""
    try:
        header = parse_header(found.suffix, found.content, str(found.name))
        return declared_rights(found.name.kind, found.suffix, header)
    except LilluxError:
        return None


def declared_rights(
    kind: Kind, suffix: str, header: Mapping[str, object]
) -> Mapping[str, object] | None:
    """The declared rights of a tool; None without a block. Raises SpecError."""
    if kind is not Kind.TOOL:
        return None
    rights = tool_spec(header, suffix).sandbox
    return rights.describe() if rights else None


def verify_sender(signed: SignedText, hashed: str, keys: Mapping[str, bytes]) -> str | None:
    """Whose signature a text was sent with, or None. ``hashed`` is what it covers.

    Where the account has no keys there is nothing to check a signature by, but that it was made
    for this text. Raises PublicationError for one that is not good.
    """
    signature = signed.signature
    if signature is None:
        return None
    again = "sign it again: rye sign"
    if signature.content_hash != content_hash(hashed):
        raise PublicationError(f"the content changed since it was signed; {again}")
    if signed.covers and signed.covers.content_hash != content_hash(signed.covered):
        raise PublicationError(f"the text below the covers line changed; {again}")
    if not keys:
        return None
    lines = [(signature.content_hash, signature.value, signature.fingerprint)]
    if signed.covers:
        lines.append((signed.covers.content_hash, signed.covers.value, signed.covers.fingerprint))
    for covered, value, fingerprint in lines:
        pem = keys.get(fingerprint)
        if pem is None:
            known = ", ".join(sorted(keys))
            raise PublicationError(f"signed by {fingerprint}: expected a key of yours ({known})")
        if not verify_signature(covered, value, pem):
            raise PublicationError(f"the signature of {fingerprint} is not good; {again}")
    return signature.fingerprint


def _resigned(
    kind: Kind,
    suffix: str,
    valid: ValidItem,
    signer: SigningKey,
    account: str,
) -> tuple[str, Signature]:
    form = form_for(kind, suffix)
    assert valid.signed is not None  # noqa: S101 - as in `publication`
    text = signer.signed_text(kind, valid.signed, form, suffix, valid.identity)
    made = split(text, form, suffix)
    assert made.signature is not None  # noqa: S101 - just made
    signature = replace(made.signature, provenance=f"{PROVIDER}@{account}")
    return compose(replace(made, signature=signature), form), signature


def _text(header: Mapping[str, object], field: str) -> str:
    value = header.get(field)
    return str(storable(value)) if isinstance(value, str) else ""


# --- items ----------------------------------------------------------------------------------------

SIGNATURE_LINES = re.compile(r"^.{0,8}rye:(signed|covers):.*$", re.MULTILINE)
_MOST_DEPENDANTS = 50


class Items:
    """The items in the database. Thread-safe, and so across processes."""

    def __init__(self, database: Database, index: SearchIndex, clock: Clock = utc_now) -> None:
        self._database, self._index, self._clock = database, index, clock
        self.downloads = Downloads(database, items, items.c.id)

    def publish(
        self,
        name: ItemName,
        version: Version,
        sent: Publication,
        *,
        account: str,
        changelog: str,
        metadata: Mapping[str, Any] | None,
        max_bytes: int,
    ) -> tuple[PublishedVersion, bool]:
        """Keep a version; False where it was there already, with the same content.

        Raises RefusedError `PERMISSION_DENIED`, `CONFLICT`, `RESOURCE_EXCEEDED`.
        """
        now = stamp(self._clock())
        with self._namespace_transaction(name) as connection:
            claim_in(connection, name.namespace, account, now)
            item = self._item(connection, name, account, now)
            known = _version_row(connection, item, version.text)
            if known is None:
                reserve(connection, account, _size(sent), max_bytes=max_bytes)
                row = {
                    **_row(item, version, sent, account),
                    "changelog": changelog,
                    "metadata": None if metadata is None else dict(metadata),
                    "created_at": now,
                }
                connection.execute(insert(versions).values(**row))
                self._refresh(connection, item, now)
                known = _version_row(connection, item, version.text)
                assert known is not None  # noqa: S101 - just written
                return version_in(known, name), True
        if known["deleted_at"]:
            problem = "this version was deleted, and is not given away again"
            raise version_taken(f"{name}@{version}", problem)
        if known["source_hash"] != sent.source_hash:
            raise version_taken(f"{name}@{version}", "it is there with another content")
        return version_in(known, name), False

    def live_versions(self, item: int) -> tuple[str, ...]:
        """The versions that were not deleted, the highest first."""
        columns = versions.c
        live = select(columns.version).where(columns.item == item, columns.deleted_at.is_(None))
        with self._database.reading() as connection:
            found = connection.scalars(live).all()
        return tuple(sorted(found, key=version_of, reverse=True))

    def pull(self, name: ItemName, version: str | None) -> PublishedVersion:
        """A version, the highest where none is named. Raises ItemGoneError."""
        with self._database.reading() as connection:
            row = self._row_named(connection, name)
            if row is None or row["latest_version"] is None:
                raise ItemGoneError(str(name))
            found = _version_row(connection, row["id"], version or row["latest_version"])
        if found is None or found["content"] is None:
            was = "was deleted" if found else "not found"
            raise ItemGoneError(f"{name}@{version}", was)
        return version_in(found, ItemName(name.kind, row["item_id"]))

    def info(self, name: ItemName) -> tuple[ListedItem, tuple[ListedVersion, ...]]:
        """An item and its versions, the highest first. Raises ItemGoneError."""
        with self._database.reading() as connection:
            row = self._row_named(connection, name)
            if row is None or row["latest_version"] is None:
                raise ItemGoneError(str(name))
            found = (
                connection.execute(
                    select(*(column for column in versions.c if column.name != "content")).where(
                        versions.c.item == row["id"]
                    )
                )
                .mappings()
                .all()
            )
        ordered = sorted(found, key=lambda one: version_of(one["version"]), reverse=True)
        shown = [{**one, "deleted": one["deleted_at"] is not None} for one in ordered]
        return self._listed(row), tuple(of_values(ListedVersion, one) for one in shown)

    def delete(self, name: ItemName, version: str | None, *, account: str) -> tuple[str, ...]:
        """Delete a version, or every one; which ones. Raises ItemGoneError, RefusedError."""
        with self._namespace_transaction(name) as connection:
            return self._delete(connection, name, version, self._own_row(connection, name, account))

    def take_down(self, name: ItemName, version: str | None) -> tuple[str, ...]:
        """As `delete`, for operators of the registry. Raises ItemGoneError."""
        with self._namespace_transaction(name) as connection:
            row = self._row_named(connection, name)
            if row is None:
                raise ItemGoneError(str(name))
            gone = self._delete(connection, name, version, int(row["id"]))
            details = {"versions": list(gone)}
            Audit(self._database).write(connection, "items.take-down", str(name), details)
        return gone

    def _delete(
        self, connection: Connection, name: ItemName, version: str | None, item: int
    ) -> tuple[str, ...]:
        now = stamp(self._clock())
        live = (versions.c.item == item) & versions.c.deleted_at.is_(None)
        rows = connection.execute(
            select(versions.c.version, versions.c.size, versions.c.author).where(live)
        ).all()
        gone = [row for row in rows if version in (None, row.version)]
        if not gone:
            raise ItemGoneError(f"{name}@{version}" if version else str(name))
        connection.execute(
            update(versions)
            .where(live, versions.c.version.in_([row.version for row in gone]))
            .values(deleted_at=now, content=None, changelog="", metadata=None)
        )
        for row in gone:
            reserve(connection, row.author, -row.size, max_bytes=0)
        self._refresh(connection, item, now)
        return tuple(sorted((row.version for row in gone), key=version_of))

    def set_visibility(self, name: ItemName, visibility: str, *, account: str) -> str:
        """Show an item in lists, or not; what it was. Raises ItemGoneError, RefusedError."""
        with self._namespace_transaction(name) as connection:
            item = self._own_row(connection, name, account)
            before = connection.scalar(select(items.c.visibility).where(items.c.id == item))
            change = update(items).where(items.c.id == item).values(visibility=visibility)
            connection.execute(change)
            self._index_item(connection, item)
        return str(before)

    def search(
        self, wanted: IndexQuery, *, limit: int, offset: int
    ) -> tuple[tuple[ListedItem, ...], int]:
        """One page of what is found, the best first, and how many there are in all.

        What nothing narrows is everything, what changed last first.
        """
        with self._database.reading() as connection:
            if wanted.is_everything:
                return self._listed_page(connection, wanted, limit, offset)
            found, total = self._index.find(connection, wanted, limit=limit, offset=offset)
            rows = connection.execute(select(items).where(items.c.id.in_(found))).mappings()
            by_id = {row["id"]: row for row in rows}
        return tuple(self._listed(by_id[item]) for item in found if item in by_id), total

    def published_by(self, account: str, *, limit: int) -> tuple[ListedItem, ...]:
        """The public items whose highest version is an account's, what changed last first."""
        columns = items.c
        wanted = select(items).where(
            columns.author == account,
            columns.visibility == PUBLIC,
            columns.latest_version.is_not(None),
        )
        newest = wanted.order_by(columns.updated_at.desc(), columns.id.desc()).limit(limit)
        with self._database.reading() as connection:
            return tuple(self._listed(row) for row in connection.execute(newest).mappings())

    def dependants(self, name: ItemName) -> tuple[ListedItem, ...]:
        """Public items whose highest version names an item, as far as the search finds them."""
        words = IndexQuery(words=words_of(name.id))
        named = re.compile(rf"(?<![\w/.-]){re.escape(name.id)}(?![\w/-]|\.\w)")
        with self._database.reading() as connection:
            found, _ = self._index.find(connection, words, limit=_MOST_DEPENDANTS, offset=0)
            wanted = (
                select(items, versions.c.content)
                .join(versions, versions.c.item == items.c.id)
                .where(items.c.id.in_(found), versions.c.version == items.c.latest_version)
                .order_by(items.c.item_id)
            )
            rows = connection.execute(wanted).mappings().all()
        return tuple(
            self._listed(row)
            for row in rows
            if (row["item_type"], row["item_id"]) != (name.kind.value, name.id)
            and named.search(SIGNATURE_LINES.sub("", row["content"] or ""))
        )

    def owned(self, account: str) -> tuple[str, ...]:
        """The namespaces of an account, as ids spell them."""
        wanted = select(namespaces.c.name).where(namespaces.c.owner == account)
        with self._database.reading() as connection:
            return tuple(connection.scalars(wanted))

    # --- within a transaction ---

    def _namespace_transaction(self, name: ItemName) -> AbstractContextManager[Connection]:
        """A transaction that alone changes what is below the namespace of an item."""
        return self._database.writing(lock=name_lock(name.namespace))

    def _item(self, connection: Connection, name: ItemName, account: str, now: str) -> int:
        """The row of an item, which is made where there is none."""
        known = self._row_named(connection, name)
        if known is not None and known["item_id"] != name.id:
            problem = f"differs from {known['item_id']} by case alone"
            raise version_taken(str(name), problem)
        if known is not None:
            return int(known["id"])
        row = {
            "item_type": name.kind.value,
            "item_id": name.id,
            "folded_id": name.folded,
            "namespace": name.namespace,
            "category": name.category,
            "name": name.name,
            "visibility": PUBLIC,
            "author": account,
            "created_at": now,
            "updated_at": now,
        }
        made = connection.execute(insert(items).values(**row))
        (item,) = made.inserted_primary_key or (0,)
        return int(item)

    def _row_named(self, connection: Connection, name: ItemName) -> RowMapping | None:
        same = and_(items.c.item_type == name.kind.value, items.c.folded_id == name.folded)
        return connection.execute(select(items).where(same)).mappings().first()

    def _own_row(self, connection: Connection, name: ItemName, account: str) -> int:
        """The row of an item in a namespace of the account's."""
        same = namespaces.c.folded == folded_namespace(name.namespace)
        owner = connection.scalar(select(namespaces.c.owner).where(same))
        if owner is not None and owner != account:
            raise namespace_error(name.namespace, "it belongs to another account")
        row = self._row_named(connection, name)
        if owner is None or row is None or row["latest_version"] is None:
            raise ItemGoneError(str(name))
        return int(row["id"])

    def _refresh(self, connection: Connection, item: int, now: str) -> None:
        """Have an item show its highest version, now that there is one more, or fewer."""
        columns = versions.c
        shown_columns = (columns.version, columns.author, columns.title, columns.description)
        live = select(*shown_columns).where(columns.item == item, columns.deleted_at.is_(None))
        rows = connection.execute(live).mappings().all()
        latest = max(rows, key=lambda row: version_of(row["version"]), default=None)
        shown: dict[str, Any] = {"latest_version": None, "updated_at": now}
        if latest is not None:
            shown |= {"latest_version": latest["version"], "author": latest["author"]}
            shown |= {"title": latest["title"], "description": latest["description"]}
        connection.execute(update(items).where(items.c.id == item).values(**shown))
        self._index_item(connection, item)

    def _index_item(self, connection: Connection, item: int) -> None:
        row = connection.execute(select(items).where(items.c.id == item)).mappings().one()
        if row["latest_version"] is None:
            self._index.remove(connection, item)
            return
        found = _version_row(connection, item, row["latest_version"])
        assert found is not None  # noqa: S101 - the item names it
        self._index.put(connection, [_document(row, found["content"])])

    def _listed_page(
        self, connection: Connection, wanted: IndexQuery, limit: int, offset: int
    ) -> tuple[tuple[ListedItem, ...], int]:
        columns = items.c
        conditions: list[ColumnElement[bool]] = [
            columns.latest_version.is_not(None),
            or_(columns.visibility == PUBLIC, columns.namespace.in_(wanted.mine))
            if wanted.mine
            else columns.visibility == PUBLIC,
        ]
        order = (columns.updated_at.desc(), columns.id.desc())
        page = select(items).where(*conditions).order_by(*order).limit(limit).offset(offset)
        rows = connection.execute(page).mappings().all()
        total = connection.scalar(select(func.count()).select_from(items).where(*conditions))
        return tuple(self._listed(row) for row in rows), int(total or 0)

    def _listed(self, row: RowMapping) -> ListedItem:
        count = row["download_count"] + self.downloads.since(row["id"])
        version = row["latest_version"] or ""
        return of_values(ListedItem, {**row, "version": version, "download_count": count})


def _row(item: int, version: Version, sent: Publication, account: str) -> dict[str, Any]:
    return {
        "item": item,
        "version": version.text,
        "suffix": sent.suffix,
        "content": sent.content,
        "source_hash": sent.source_hash,
        "sha256": sent.sha256,
        "author": account,
        "publisher": sent.publisher,
        "title": sent.title,
        "description": sent.description,
        "size": _size(sent),
    }


def _size(sent: Publication) -> int:
    return len(sent.content.encode())


def _version_row(connection: Connection, item: int, version: str) -> RowMapping | None:
    same = and_(versions.c.item == item, versions.c.version == version)
    return connection.execute(select(versions).where(same)).mappings().first()


def index_all(connection: Connection, index: SearchIndex) -> int:
    """Index every item of a database whose index is empty; how many there are."""
    shown = items.c.latest_version.is_not(None)
    numbers = connection.scalars(select(items.c.id).where(shown)).all()
    for item in numbers:
        row = connection.execute(select(items).where(items.c.id == item)).mappings().one()
        found = _version_row(connection, item, row["latest_version"])
        if found is not None and found["content"] is not None:
            index.put(connection, [_document(row, found["content"])])
    return len(numbers)


def _document(row: RowMapping, content: str) -> IndexedItem:
    body = SIGNATURE_LINES.sub("", content[: 64 * 1024])
    return of_values(IndexedItem, {**row, "item": row["id"], "body": body})
