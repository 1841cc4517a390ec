"""Names in a registry: types, item ids, namespaces, versions, bundle ids. Pure.

Ids are places in a space of the user who pulls them, so a name is safe as a file on each system,
and no two of them differ by case alone. The rules are in ``docs/registry.md``.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from time import monotonic
from typing import Protocol

from sqlalchemy import text

from lillux.values import dataclass
from rye_services.names import RegistryNameError, found_words, is_plain, namespace_name
from rye_services.storage.database import Database
from rye_services.web.http import RequestProblem
from ryeos.items.refs import EXECUTABLE_KINDS, ItemRef, Kind

ITEM_TYPES = tuple(kind.value for kind in EXECUTABLE_KINDS)
MAX_ID_CHARACTERS = 256
_FEWEST_SEGMENTS, _MOST_SEGMENTS = 2, 12
_SEGMENT = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
_BUNDLE = re.compile(r"(?=.{2,63}\Z)[a-z0-9]+(?:[_-][a-z0-9]+)*")
_VERSION = re.compile(r"(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemFacts:
    """Which item it is."""

    item_type: str
    item_id: str
    namespace: str
    category: str
    name: str

    def __str__(self) -> str:
        return f"{self.item_type}:{self.item_id}"


@dataclass(frozen=True, slots=True)
class ItemName:
    """Which item: its kind, and its id of at least two segments."""

    kind: Kind
    id: str

    @property
    def namespace(self) -> str:
        """The first segment."""
        return self.id.partition("/")[0]

    @property
    def category(self) -> str:
        """What stands between the namespace and the name, ``""`` where nothing does."""
        return "/".join(self.id.split("/")[1:-1])

    @property
    def name(self) -> str:
        """The last segment."""
        return self.id.rpartition("/")[2]

    @property
    def facts(self) -> ItemFacts:
        """The same in every way that clients ask for it."""
        return ItemFacts(
            item_type=self.kind.value,
            item_id=self.id,
            namespace=self.namespace,
            category=self.category,
            name=self.name,
        )

    @property
    def ref(self) -> ItemRef:
        """The same for everything that knows spaces: the id is its place below its kind."""
        return ItemRef(self.kind, self.id)

    @property
    def folded(self) -> str:
        """The same text for all ids that some file system takes for one."""
        return self.id.casefold()

    def __str__(self) -> str:
        return str(self.ref)


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version, which compares by its numbers."""

    numbers: tuple[int, int, int]

    @property
    def text(self) -> str:
        """As it is written: there is one way, without zeros before a number."""
        return ".".join(map(str, self.numbers))

    def __str__(self) -> str:
        return self.text


def item_name(item_type: str, item_id: str) -> ItemName:
    """The name of an item. Raises RegistryNameError."""
    if item_type not in ITEM_TYPES:
        raise RegistryNameError(
            "item_type", f"expected {_one_of(ITEM_TYPES)}, {found_words(item_type)}"
        )
    place(item_id)
    return ItemName(Kind(item_type), item_id)


def place(item_id: str) -> str:
    """The id itself, whose first segment is a namespace. Raises RegistryNameError."""
    segments = item_id.split("/")
    if len(item_id) > MAX_ID_CHARACTERS or not (
        _FEWEST_SEGMENTS <= len(segments) <= _MOST_SEGMENTS and all(map(_is_segment, segments))
    ):
        expected = f"expected namespace/name of letters, digits and . _ -, at most {_MOST_SEGMENTS}"
        problem = f"{expected} segments and {MAX_ID_CHARACTERS} characters, {found_words(item_id)}"
        raise RegistryNameError("item_id", problem)
    namespace_name(segments[0], "namespace of item_id")
    return item_id


def version_of(text: str) -> Version:
    """The version that a text is. Raises RegistryNameError."""
    match = _VERSION.fullmatch(text)
    if not match:
        expected = "expected three numbers like 1.4.0, without zeros before them"
        raise RegistryNameError("version", f"{expected}, {found_words(text)}")
    major, minor, patch = map(int, match.groups())
    return Version((major, minor, patch))


def bundle_name(text: str) -> str:
    """The id of a bundle, itself. Raises RegistryNameError: one word, ``ryeos...`` is our own."""
    if not _BUNDLE.fullmatch(text) or not is_plain(text):
        expected = "expected 2 to 63 of a-z, 0-9, and single - and _ between them"
        raise RegistryNameError("bundle_id", f"{expected}, {found_words(text)}")
    if text.startswith("ryeos"):
        raise RegistryNameError("bundle_id", f"ryeos... is reserved, {found_words(text)}")
    return text


def _is_segment(text: str) -> bool:
    return bool(_SEGMENT.fullmatch(text)) and is_plain(text)


def _one_of(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


# --- rates ----------------------------------------------------------------------------------------
# Rate limits: how often a caller may do something in a minute, and at once.

_MOST_CALLERS = 10_000
_MINUTE_S = 60.0
_LONGEST_NAME = 200


class RateLimit(Protocol):
    """A bucket for each caller, filled as time passes. Thread-safe."""

    def use(self, caller: str) -> None:
        """Count a use. Raises RequestProblem, 429 with ``Retry-After``, for one too many."""
        ...


class LocalRateLimit:
    """The buckets of this process. See `RateLimit`."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = monotonic) -> None:
        self._per_minute = per_minute
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = Lock()

    def use(self, caller: str) -> None:
        """See `RateLimit`."""
        now_s, a_second = self._clock(), self._per_minute / _MINUTE_S
        with self._lock:
            left, since_s = self._buckets.pop(caller, (float(self._per_minute), now_s))
            left = min(self._per_minute, left + (now_s - since_s) * a_second)
            self._buckets[caller] = (max(0.0, left - 1), now_s) if left >= 1 else (left, now_s)
            if len(self._buckets) > _MOST_CALLERS:
                self._buckets.popitem(last=False)
        if left < 1:
            raise _too_often(self._per_minute, left)


_USE = text(
    "INSERT INTO rates AS kept (name, tokens, is_allowed, since_s)"
    " VALUES (:name, :most - 1, true, extract(epoch FROM clock_timestamp()))"
    " ON CONFLICT (name) DO UPDATE SET (tokens, is_allowed, since_s) ="
    " (SELECT CASE WHEN now.tokens >= 1 THEN now.tokens - 1 ELSE now.tokens END,"
    "  now.tokens >= 1, excluded.since_s FROM (SELECT least(:most, kept.tokens"
    "   + greatest(0, excluded.since_s - kept.since_s) * :most / 60.0) AS tokens) AS now)"
    " RETURNING tokens, is_allowed"
)


class SharedRateLimit:
    """The buckets of all servers, in PostgreSQL and by its clock. See `RateLimit`."""

    def __init__(self, database: Database, name: str, per_minute: int) -> None:
        self._database, self._name, self._per_minute = database, name, per_minute

    def use(self, caller: str) -> None:
        """See `RateLimit`."""
        values = {"name": f"{self._name}:{caller}"[:_LONGEST_NAME], "most": self._per_minute}
        with self._database.writing() as connection:
            tokens, is_allowed = connection.execute(_USE, values).one()
        if not is_allowed:
            raise _too_often(self._per_minute, float(tokens))


def _too_often(per_minute: int, left: float) -> RequestProblem:
    wait_s = int((1 - left) / (per_minute / _MINUTE_S)) + 1
    detail = f"too many requests: at most {per_minute} a minute"
    return RequestProblem(429, detail, {"Retry-After": str(wait_s)})
