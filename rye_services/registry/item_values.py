"""What a registry says of an item, and of one that is not there. Values only."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Row, RowMapping

from lillux.values import dataclass, field
from rye_services.registry.names import ItemName
from ryeos.items.errors import RyeError


class ItemGoneError(RyeError):
    """There is no such item, or no such version of it."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, what: str, problem: str = "not found") -> None:
        self.what = what
        super().__init__(f"{what}: {problem}", hint="look for it with: rye registry search")


class VersionTakenError(RyeError):
    """A version that is there already was published with another content."""

    code, exit_status = "CONFLICT", 1

    def __init__(self, what: str, problem: str) -> None:
        self.what, self.problem = what, problem
        super().__init__(f"{what}: {problem}", hint="publish it under a new version")


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
class ShownItem:
    """An item in a list; ``version`` is the highest that was not deleted."""

    item: int
    name: ItemName
    title: str
    description: str
    version: str
    author: str
    visibility: str
    download_count: int
    created_at: str
    updated_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownVersion:
    """A version in the list of an item's."""

    version: str
    author: str
    created_at: str
    changelog: str
    sha256: str
    is_deleted: bool


def version_in(row: RowMapping, name: ItemName) -> PublishedVersion:
    """The version in a row of them; one that was deleted has no content."""
    return PublishedVersion(
        item=row["item"],
        name=name,
        version=row["version"],
        suffix=row["suffix"],
        content=row["content"] or "",
        sha256=row["sha256"],
        author=row["author"],
        publisher=row["publisher"],
        changelog=row["changelog"],
        metadata=row["metadata"],
        created_at=row["created_at"],
    )


def shown_version_in(row: Row[Any]) -> ShownVersion:
    """The version in a row of them, without its content."""
    return ShownVersion(
        version=row.version,
        author=row.author,
        created_at=row.created_at,
        changelog=row.changelog,
        sha256=row.sha256,
        is_deleted=row.deleted_at is not None,
    )
