"""Metadata filters: conditions that an item's header must meet, all of them. Pure.

``"x"``                 equal, ignoring case; contained where the value is a list
``"!x"``                not so; true of an item without the field
``">=1.2"`` ``"<2"``    versions, by PEP 440, else semver
``["x", "y"]``          any of these
``date_from`` ``date_to``  ISO 8601, inclusive, in UTC; items without a date are left out
``signed``              true or false
``category``            ``"a/b"``; ``"a/b/*"`` also for all below
"""

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time

from ryeos.items.errors import VerbArgumentError
from ryeos.items.version_order import COMPARISONS, compare_versions
from ryeos.search.records import Record

DATE_FIELDS = ("updated_at", "created_at")
_MAX_FILTERS = 32

Filter = Callable[[Record], bool]


def conditions(filters: Mapping[str, object]) -> tuple[Filter, ...]:
    """Conditions of the filters, ready to apply. Raises VerbArgumentError for a value of no use."""
    if len(filters) > _MAX_FILTERS:
        raise VerbArgumentError("filters", f"expected at most {_MAX_FILTERS}, found {len(filters)}")
    return tuple(_condition(name, value) for name, value in filters.items() if name != "verify")


def wants_verification(filters: Mapping[str, object]) -> bool:
    """True if the filters ask to check the Ed25519 signature of each hit."""
    value = filters.get("verify", False)
    if not isinstance(value, bool):
        raise _wrong("verify", value, "true or false")
    return value


def date_of(record: Record) -> datetime | None:
    """When an item was changed or made, as its header says; None if it does not."""
    for name in DATE_FIELDS:
        value = record.value(name)
        utc_time = _utc_time(value) if isinstance(value, str | date) else None
        if utc_time:
            return utc_time
    return None


def _condition(name: str, value: object) -> Filter:
    match name:
        case "signed":
            if not isinstance(value, bool):
                raise _wrong(name, value, "true or false")
            return lambda record: record.signed is value
        case "date_from":
            start = _limit(name, value, time.min)
            return lambda record: (utc_time := date_of(record)) is not None and utc_time >= start
        case "date_to":
            end = _limit(name, value, time.max)
            return lambda record: (utc_time := date_of(record)) is not None and utc_time <= end
        case "category" if isinstance(value, str) and value.endswith("/*"):
            above = value.removesuffix("/*").casefold()
            return lambda record: _is_below(record.location.ref.category.casefold(), above)
    if isinstance(value, list):
        choices = [_single(name, one) for one in value]
        return lambda record: any(choice(record) for choice in choices)
    return _single(name, value)


def _single(name: str, value: object) -> Filter:
    if isinstance(value, dict | list) or value is None:
        raise _wrong(name, value, "a text, a number, true or false, or a list of these")
    text = _plain(value)
    operator = next((sign for sign in COMPARISONS if text.startswith(sign)), "")
    if operator:
        return _comparison(name, operator, text.removeprefix(operator).strip())
    if text.startswith("!"):
        unwanted = text[1:]
        return lambda record: unwanted not in _values(record, name)
    return lambda record: text in _values(record, name)


def _comparison(name: str, operator: str, wanted: str) -> Filter:
    try:
        compare_versions(wanted, wanted)
    except ValueError:
        raise _wrong(name, f"{operator}{wanted}", "a version like >=1.2") from None
    fits = COMPARISONS[operator]

    def condition(record: Record) -> bool:
        found = _value(record, name)
        try:
            return found is not None and fits(compare_versions(str(found), wanted))
        except ValueError:
            return False

    return condition


def _value(record: Record, name: str) -> object:
    """Fields of the header; id, name and category are those of the file, whatever it says."""
    ref = record.location.ref
    match name:
        case "id":
            return ref.id
        case "name":
            return ref.name
        case "category":
            return ref.category
        case "type":
            return ref.kind.value
        case "tags":
            return list(record.tags)
    return record.value(name)


def _values(record: Record, name: str) -> tuple[str, ...]:
    value = _value(record, name)
    if value is None:
        return ()
    return tuple(map(_plain, value)) if isinstance(value, list) else (_plain(value),)


def _plain(value: object) -> str:
    return str(value).casefold()


def _is_below(category: str, above: str) -> bool:
    return category == above or category.startswith(f"{above}/")


def _limit(name: str, value: object, end: time) -> datetime:
    expected = "a date like 2026-01-31 or 2026-01-31T12:00:00Z"
    if not isinstance(value, str):
        raise _wrong(name, value, expected)
    utc_time = _utc_time(value, end)
    if utc_time is None:
        raise _wrong(name, value, expected)
    return utc_time


def _utc_time(value: str | date, of_day: time = time.min) -> datetime | None:
    """A time in UTC; a bare date is this time of its day, a time without zone is UTC."""
    try:
        if isinstance(value, datetime):
            utc_time = value
        elif isinstance(value, date):
            utc_time = datetime.combine(value, of_day)
        elif len(value.strip()) <= len("2026-01-31"):
            utc_time = datetime.combine(date.fromisoformat(value.strip()), of_day)
        else:
            utc_time = datetime.fromisoformat(value.strip())
        return utc_time.replace(tzinfo=UTC) if utc_time.tzinfo is None else utc_time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _wrong(name: str, value: object, expected: str) -> VerbArgumentError:
    return VerbArgumentError(
        f"filters.{name}",
        f"expected {expected}, found {str(value)[:60]!r}",
        field=name,
        value=value,
        expected=expected,
    )
