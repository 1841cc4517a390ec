"""What is asked of a search, and what it gives. Values only."""

from collections.abc import Mapping
from enum import StrEnum

from lillux.values import dataclass, field
from ryeos.items import EXECUTABLE_KINDS, PROJECT, SYSTEM, USER, Kind, Location
from ryeos.search.pool import Document

LOCAL_TIERS = frozenset({PROJECT, USER, SYSTEM})
MAX_LIMIT = 100
DEFAULT_LIMIT = 10


class SortBy(StrEnum):
    """What the hits are in the order of."""

    SCORE = "score"
    DATE = "date"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """A search, its texts not parsed yet.

    prefix         the id that items have or lie below, ``""`` for any
    fields         field -> a query of its own; all must hold
    filters        see `ryeos.search.filters`
    max_slips      fuzzy: how many slips a word may be away, 0 to 2
    max_distance   proximity: how many words may stand between the terms; None for any number
    """

    query: str = ""
    kinds: tuple[Kind, ...] = EXECUTABLE_KINDS
    tiers: frozenset[str] = LOCAL_TIERS
    prefix: str = ""
    limit: int = DEFAULT_LIMIT
    offset: int = 0
    sort_by: SortBy = SortBy.SCORE
    fields: Mapping[str, str] = field(default_factory=dict)
    filters: Mapping[str, object] = field(default_factory=dict)
    max_slips: int = 0
    max_distance: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """An item that matches, and how well: from 0 to 1, to four places."""

    document: Document
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What was found.

    hits         the asked page of them
    total        how many there are
    relaxed      ``or`` or ``fuzzy`` when nothing matched as it was typed, else ``""``
    skipped      items that could not be read
    suggestions  references that look like what was typed, when nothing matched at all
    """

    hits: tuple[Hit, ...]
    total: int
    relaxed: str = ""
    skipped: tuple[Location, ...] = ()
    suggestions: tuple[str, ...] = ()
