"""Checks: the functions that a schema becomes, and the report of what they find.

Each call counts: a value leads them as deep as it is nested.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any, NoReturn, TypeAlias

Place: TypeAlias = tuple[Any, str | int] | None
"""A place in a value: the place above it and the last step, None for the value itself."""


class Report:
    """All that breaks a schema; `lillux.schema_words` finds the words for it.

    findings  each: its place, whether it is about the name of the key there, its kind and what
              there is to say about that
    """

    def __init__(self) -> None:
        self.findings: list[tuple[Place, bool, str, tuple[Any, ...]]] = []
        self._is_of_name = False

    def add(self, place: Place, kind: str, *details: object) -> None:
        """Note a finding."""
        self.findings.append((place, self._is_of_name, kind, details))

    def add_name(self, place: Place, names: "Check", key: str) -> None:
        """Note what is wrong with the name of a key."""
        self._is_of_name = True
        names(key, place, self)
        self._is_of_name = False


class Unfit(Exception):  # noqa: N818 - a verdict
    """A value does not fit."""


class _Probe:
    """The report of who asks only whether a value fits: the first finding ends the pass."""

    def add(self, *_: object) -> NoReturn:
        """Note a finding."""
        raise Unfit

    def add_name(self, place: Place, names: "Check", key: str) -> None:
        """Note what is wrong with the name of a key."""
        names(key, place, self)


PROBE = _Probe()

Check: TypeAlias = Callable[[Any, Place, Report | _Probe], None]
"""Reports each way in which a value, which is at a place, breaks a schema."""

Fits: TypeAlias = Callable[[Any], bool]
"""A rule of one keyword: True if a value fits."""

ARRAY, NUMBER = (list, tuple), (int, float)  # `|` would make a new type for each value


def composite_checks(schema: dict[str, Any], read: dict[str, Any]) -> Iterator[Check]:
    """All that a schema asks for beside its rules, from what has been read of its keywords."""
    for name in ("contains", "anyOf", "oneOf", "not"):
        if name in read:
            yield _check_fitting(name, schema[name], read[name])
    older, names = read.get("dependencies", {}), read.get("dependentRequired", {})
    names = {key: one for key, one in older.items() if isinstance(one, list)} | names
    if read.get("required") or names:
        yield _check_missing(schema, read.get("required", ()), names)
    if "$ref" in read:
        yield read["$ref"]
    yield from read.get("allOf", ())
    if "if" in read:
        yield _check_condition(
            read["if"], read.get("then", accept_all), read.get("else", accept_all)
        )
    checks = {key: one for key, one in older.items() if not isinstance(one, list)}
    if checks := checks | read.get("dependentSchemas", {}):
        yield _check_dependents(checks)
    if not read.keys().isdisjoint(_OF_KEYS):
        yield _check_keys(read, is_closed=schema.get("additionalProperties") is False)
    if not read.keys().isdisjoint(_OF_ITEMS):
        yield _check_items(read)


_OF_KEYS = ("properties", "patternProperties", "additionalProperties", "propertyNames")
_OF_ITEMS = ("items", "prefixItems")


def accept_all(_: object, __: Place, ___: Report | _Probe) -> None:
    """Accept every value."""


def refuse_all(value: object, place: Place, report: Report | _Probe) -> None:
    """Report every value."""
    report.add(place, "nothing", value)


def check_all(parts: list[Check]) -> Check:
    """The check that makes all of these, also those that are added to the list later."""

    def check(value: object, place: Place, report: Report | _Probe) -> None:
        for part in parts:
            part(value, place, report)

    return check


def check_rules(rules: list[tuple[Fits, str, Any]]) -> Check:
    """The check of rules that have no schemas in them."""

    def check(value: object, place: Place, report: Report | _Probe) -> None:
        for fits, keyword, rule in rules:
            if not fits(value):
                report.add(place, "rule", keyword, rule, value)

    return check


def _check_fitting(keyword: str, rule: object, read: Any) -> Check:  # noqa: ANN401
    """Counts the schemas that a value fits, or the items that fit a schema."""
    is_of_items = keyword == "contains"
    wanted, enough = int(keyword != "not"), 1 + (keyword == "oneOf")
    checks = read if isinstance(read, list) else [read]

    def check(value: Any, place: Place, report: Report | _Probe) -> None:  # noqa: ANN401
        if is_of_items and not isinstance(value, ARRAY):
            return
        fitting = 0
        for inner, one in product(checks, value if is_of_items else (value,)):
            try:
                inner(one, None, PROBE)
            except Unfit:
                continue
            fitting += 1
            if fitting == enough:
                break
        if fitting != wanted:
            report.add(place, "rule", keyword, rule, value)

    return check


def _check_missing(
    schema: dict[str, Any], required: Sequence[str], dependents: dict[str, list[str]]
) -> Check:
    def check(value: object, place: Place, report: Report | _Probe) -> None:
        if not isinstance(value, dict):
            return
        for name in required:
            if name not in value:
                report.add((place, name), "missing", name, schema)
        for key, names in dependents.items():
            for name in names if key in value else ():
                if name not in value:
                    report.add((place, name), "dependent", key)

    return check


def _check_condition(condition: Check, then: Check, otherwise: Check) -> Check:
    def check(value: object, place: Place, report: Report | _Probe) -> None:
        chosen = then
        try:
            condition(value, None, PROBE)
        except Unfit:
            chosen = otherwise
        chosen(value, place, report)

    return check


def _check_dependents(checks: dict[str, Check]) -> Check:
    def check(value: object, place: Place, report: Report | _Probe) -> None:
        for key, dependent in checks.items():
            if isinstance(value, dict) and key in value:
                dependent(value, place, report)

    return check


def _check_keys(read: dict[str, Any], *, is_closed: bool) -> Check:
    properties: dict[str, Check] = read.get("properties", {})
    patterns, names = read.get("patternProperties", ()), read.get("propertyNames", accept_all)
    rest = read.get("additionalProperties", accept_all)

    def refuse(key: str, taken: dict[str, Any]) -> Check:
        return lambda child, place, report: report.add(place, "key", key, child, properties, taken)

    def name(key: str) -> Check:
        return lambda _, place, report: report.add_name(place, names, key)

    def checks_of(key: str, taken: dict[str, Any]) -> Sequence[Check]:
        declared = [check for search, check in patterns if search(key)]
        if key in properties:
            declared.append(properties[key])
        if not declared:
            declared.append(refuse(key, taken) if is_closed else rest)
        return [name(key), *declared] if names is not accept_all else declared

    # The keys of most objects: nothing else has a say about them.
    is_simple = not patterns and names is accept_all
    alone = {key: (check,) for key, check in properties.items() if is_simple}

    def check(value: object, place: Place, report: Report | _Probe) -> None:
        if isinstance(value, dict):
            for key, child in value.items():
                for inner in alone.get(key) or checks_of(key, value):
                    inner(child, (place, key), report)

    return check


def _check_items(read: dict[str, Any]) -> Check:
    first, rest = read.get("prefixItems", []), read.get("items", accept_all)
    if isinstance(rest, list):
        first, rest = rest, read.get("additionalItems", accept_all)

    def check(value: object, place: Place, report: Report | _Probe) -> None:
        if isinstance(value, ARRAY):
            for index, item in enumerate(value):
                inner = first[index] if index < len(first) else rest
                inner(item, (place, index), report)

    return check
