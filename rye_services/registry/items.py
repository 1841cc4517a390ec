"""The items of a registry: versions that never change, whoever may change what is shown of them.

A version that was deleted leaves its row without the content: nobody publishes another one in its
place, so what somebody pulled under a version is what everybody pulled.
"""

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    and_,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.exc import IntegrityError

from rye_services.database import Database
from rye_services.moments import stamp
from rye_services.registry.accounts import reserve
from rye_services.registry.downloads import Downloads
from rye_services.registry.item_values import (
    ItemGoneError,
    PublishedVersion,
    ShownItem,
    ShownVersion,
    VersionTakenError,
    shown_version_in,
    version_in,
)
from rye_services.registry.names import ItemName, Version, folded_namespace, version_of
from rye_services.registry.namespaces import NamespaceError, claim_in
from rye_services.registry.publication import Publication
from rye_services.registry.search_index import PUBLIC, Document, SearchIndex, Wanted
from rye_services.registry.tables import items, namespaces, versions
from ryeos.items.context import Clock, utc_now
from ryeos.items.refs import Kind

_SIGNATURE_LINES = re.compile(r"^.{0,8}rye:(signed|covers):.*$", re.MULTILINE)


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

        Raises NamespaceError, VersionTakenError, AccountQuotaError.
        """
        now = stamp(self._clock())
        try:
            with self._database.writing() as connection:
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
        except IntegrityError:
            problem = "somebody publishes it at this very moment"
            raise VersionTakenError(f"{name}@{version}", problem) from None
        if known["deleted_at"]:
            problem = "this version was deleted, and is not given away again"
            raise VersionTakenError(f"{name}@{version}", problem)
        if known["source_hash"] != sent.source_hash:
            raise VersionTakenError(f"{name}@{version}", "it is there with another content")
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
            row = self._named(connection, name)
            if row is None or row["latest_version"] is None:
                raise ItemGoneError(str(name))
            found = _version_row(connection, row["id"], version or row["latest_version"])
        if found is None or found["content"] is None:
            was = "was deleted" if found else "not found"
            raise ItemGoneError(f"{name}@{version}", was)
        return version_in(found, ItemName(name.kind, row["item_id"]))

    def info(self, name: ItemName) -> tuple[ShownItem, tuple[ShownVersion, ...]]:
        """An item and its versions, the highest first. Raises ItemGoneError."""
        with self._database.reading() as connection:
            row = self._named(connection, name)
            if row is None or row["latest_version"] is None:
                raise ItemGoneError(str(name))
            found = connection.execute(
                select(*(column for column in versions.c if column.name != "content")).where(
                    versions.c.item == row["id"]
                )
            ).all()
        ordered = sorted(found, key=lambda one: version_of(one.version), reverse=True)
        return self._shown(row), tuple(shown_version_in(one) for one in ordered)

    def delete(self, name: ItemName, version: str | None, *, account: str) -> tuple[str, ...]:
        """Delete a version, or every one; which ones. Raises ItemGoneError, NamespaceError."""
        with self._database.writing() as connection:
            return self._delete(connection, name, version, self._own(connection, name, account))

    def take_down(self, name: ItemName, version: str | None) -> tuple[str, ...]:
        """As `delete`, for who runs the registry. Raises ItemGoneError."""
        with self._database.writing() as connection:
            row = self._named(connection, name)
            if row is None:
                raise ItemGoneError(str(name))
            return self._delete(connection, name, version, int(row["id"]))

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
        """Show an item in lists, or not; what it was. Raises ItemGoneError, NamespaceError."""
        with self._database.writing() as connection:
            item = self._own(connection, name, account)
            before = connection.scalar(select(items.c.visibility).where(items.c.id == item))
            change = update(items).where(items.c.id == item).values(visibility=visibility)
            connection.execute(change)
            self._index_item(connection, item)
        return str(before)

    def search(
        self, wanted: Wanted, *, limit: int, offset: int
    ) -> tuple[tuple[ShownItem, ...], int]:
        """One page of what is found, the best first, and how many there are in all.

        What nothing narrows is everything, what changed last first.
        """
        with self._database.reading() as connection:
            if wanted.is_everything:
                return self._listed(connection, wanted, limit, offset)
            found, total = self._index.find(connection, wanted, limit=limit, offset=offset)
            rows = connection.execute(select(items).where(items.c.id.in_(found))).mappings()
            by_id = {row["id"]: row for row in rows}
        return tuple(self._shown(by_id[item]) for item in found if item in by_id), total

    def owned(self, account: str) -> tuple[str, ...]:
        """The namespaces of an account, as ids spell them."""
        wanted = select(namespaces.c.name).where(namespaces.c.owner == account)
        with self._database.reading() as connection:
            return tuple(connection.scalars(wanted))

    # --- within a transaction ---

    def _item(self, connection: Connection, name: ItemName, account: str, now: str) -> int:
        """The row of an item, which is made where there is none."""
        known = self._named(connection, name)
        if known is not None and known["item_id"] != name.id:
            problem = f"differs from {known['item_id']} by case alone"
            raise VersionTakenError(str(name), problem)
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

    def _named(self, connection: Connection, name: ItemName) -> RowMapping | None:
        same = and_(items.c.item_type == name.kind.value, items.c.folded_id == name.folded)
        return connection.execute(select(items).where(same)).mappings().first()

    def _own(self, connection: Connection, name: ItemName, account: str) -> int:
        """The row of an item in a namespace of the account's."""
        same = namespaces.c.folded == folded_namespace(name.namespace)
        owner = connection.scalar(select(namespaces.c.owner).where(same))
        if owner is not None and owner != account:
            raise NamespaceError(name.namespace, "it belongs to somebody else")
        row = self._named(connection, name)
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

    def _listed(
        self, connection: Connection, wanted: Wanted, limit: int, offset: int
    ) -> tuple[tuple[ShownItem, ...], int]:
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
        return tuple(self._shown(row) for row in rows), int(total or 0)

    def _shown(self, row: RowMapping) -> ShownItem:
        return ShownItem(
            item=row["id"],
            name=ItemName(Kind(row["item_type"]), row["item_id"]),
            title=row["title"],
            description=row["description"],
            version=row["latest_version"] or "",
            author=row["author"],
            visibility=row["visibility"],
            download_count=row["download_count"] + self.downloads.since(row["id"]),
            created_at=row["created_at"],
            updated_at=row["updated_at"],
        )


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


def _document(row: RowMapping, content: str) -> Document:
    return Document(
        item=row["id"],
        item_type=row["item_type"],
        item_id=row["item_id"],
        namespace=row["namespace"],
        category=row["category"],
        title=row["title"],
        description=row["description"],
        body=_SIGNATURE_LINES.sub("", content[: 64 * 1024]),
        visibility=row["visibility"],
    )
