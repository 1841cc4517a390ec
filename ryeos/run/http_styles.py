"""Styles of values in an address, a header, a cookie or a form (OpenAPI's styles). Pure.

A config names the style of a parameter: ``styles: {ids: {style: form, explode: false}}``. Two
values are never written alike: what a style has no form of its own for is an error, because a
server would read something else than the caller said. Page: ``docs/http.md``.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

from lillux.templating import as_text
from lillux.values import dataclass
from ryeos.items.errors import SpecError

PATH, QUERY, HEADER, COOKIE = "path", "query", "header", "cookie"
FORM, SIMPLE, LABEL, MATRIX, JSON = "form", "simple", "label", "matrix", "json"
DEEP_OBJECT, SPACES, PIPES = "deepObject", "spaceDelimited", "pipeDelimited"
PLACES: Mapping[str, tuple[str, ...]] = {
    PATH: (SIMPLE, LABEL, MATRIX, JSON),
    QUERY: (FORM, SPACES, PIPES, DEEP_OBJECT, JSON),
    HEADER: (SIMPLE, JSON),
    COOKIE: (FORM, JSON),
}
"""The styles of each place, the first where none is named."""
# The delimiter as it is written, and what a part may therefore not hold: it is encoded alike.
_BETWEEN = {SPACES: ("%20", " "), PIPES: ("%7C", "|")}
_KEYS = frozenset({"style", "explode", "name", "reserved"})
# Of the reserved characters those that a query may hold and that separate nothing in it.
_RESERVED = ":/?@!$'()*,;"
_MAX_EXACT = 2**53
SAY_ANOTHER = "say it in another way, or leave it out"
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The style of a parameter. ``name`` is what it is called in the request.

    reserved  whether reserved characters of a query stay as they are
    """

    where: str
    style: str
    explode: bool
    name: str
    reserved: bool = False

    def pairs(self, value: object) -> list[Pair]:
        """Names and encoded values of a query, of cookies or of a form. Raises SpecError."""
        own = self.name if self.where == COOKIE else quoted(self.name, self.name)
        if self.style == JSON:
            return [(own, quoted(_json(value), self.name))]
        self._require_form(value)
        if self.style == DEEP_OBJECT:
            rows = self._members(value)
            return [
                (quoted(f"{self.name}[{key}]", self.name), self._part(one)) for key, one in rows
            ]
        if self.explode and isinstance(value, dict):
            return [(self._part(key), self._part(one)) for key, one in self._members(value)]
        parts = [self._part(one, is_joined=not self.explode) for one in self._texts(value)]
        if self.explode:
            return [(own, part) for part in parts]
        return [(own, _BETWEEN.get(self.style, (",", ""))[0].join(parts))]

    def text(self, value: object) -> str:
        """The text in the place of a path or of a header. Raises SpecError."""
        if self.style == JSON:
            return self._part(_json(value, is_ascii=self.where == HEADER))
        self._require_form(value)
        between = {LABEL: ".", MATRIX: ";"}.get(self.style, ",") if self.explode else ","
        name = quoted(self.name, self.name) if self.style == MATRIX else ""
        if self.explode and isinstance(value, dict):
            rows = [(self._part(key), self._part(one)) for key, one in self._members(value)]
            return self._start("", between.join("=".join(row) for row in rows))
        parts = [self._part(one) for one in self._texts(value)]
        if self.explode and name:
            return "".join(self._start(name, part) for part in parts)
        return self._start(name, between.join(parts))

    def entry(self, value: object) -> "Entry":
        """The same as `pairs`, to be joined with those of other parameters. Raises SpecError."""
        is_free = self.style == FORM and self.explode and isinstance(value, dict)
        name = self.name if self.where == COOKIE else quoted(self.name, self.name)
        return Entry(name=name, pairs=self.pairs(value), is_styled=True, is_free=is_free)

    def _start(self, name: str, inner: str) -> str:
        if self.style == LABEL:
            return f".{inner}"
        if self.style == MATRIX:
            return f";{name}={inner}" if name and inner else f";{name or inner}"
        return inner

    def _part(self, text: str, *, is_joined: bool = False) -> str:
        """A text, encoded where its place has an encoding: a header has none."""
        if self.where == HEADER:
            return text
        safe = _RESERVED if self.reserved else ""
        return quoted(text, self.name, safe.replace(",", "") if is_joined else safe)

    def _require_form(self, value: object) -> None:
        if value is None:
            raise self._error("a value", "null")
        if isinstance(value, list | dict) and not value:
            raise self._error("at least one value in it", _kind(value))
        if self.style == DEEP_OBJECT and not isinstance(value, dict):
            raise self._error("an object", _kind(value))

    def _texts(self, value: object) -> list[str]:
        """The parts of a value that stand side by side: an object's are names and values."""
        if isinstance(value, dict):
            return [part for row in self._members(value) for part in row]
        if isinstance(value, list):
            return [self._plain(one, is_one_of_many=True) for one in value]
        return [self._plain(value, is_one_of_many=False)]

    def _members(self, value: object) -> list[Pair]:
        rows = value.items() if isinstance(value, dict) else ()
        return [(self._name(str(key)), self._plain(one, is_one_of_many=True)) for key, one in rows]

    def _name(self, name: str) -> str:
        """The name of a member, if the style can tell where it ends."""
        has_brackets = self.style == DEEP_OBJECT and (not name or set("[]") & set(name))
        if has_brackets or (self.where == HEADER and self.explode and "=" in name):
            ends = "a name without [ and ]" if has_brackets else "a name without ="
            raise self._error(ends, f"{name[:40]!r}")
        return self._plain(name, is_one_of_many=True)

    def _plain(self, value: object, *, is_one_of_many: bool) -> str:
        if value is None or isinstance(value, list | dict):
            raise self._error("plain values in it", _kind(value))
        text = wire_text(value)
        mark = _BETWEEN.get(self.style, ("", ""))[1]
        if is_one_of_many and self.style == LABEL and self.explode:
            mark = "."
        if is_one_of_many and self.where == HEADER:
            mark = ","
            if not text.strip() or text != text.strip(" \t"):
                raise self._error("values with no blanks around them", f"{text[:40]!r}")
        if mark and mark in text:
            what = {",": "comma", " ": "blank"}.get(mark, repr(mark))
            raise self._error(f"no {what} in {text[:40]!r}", "one")
        return text

    def _error(self, expected: str, found: str) -> SpecError:
        problem = f"expected {expected}, found {found}; the style {self.style} has no form for it"
        return SpecError(self.name, problem, hint=SAY_ANOTHER)


def style_of(styles: object, parameter: str, where: str, name: str = "") -> Style | None:
    """The style of a parameter in a place; None where the config names none. Raises SpecError."""
    if styles is None:
        return None
    said = styles.get(parameter) if isinstance(styles, Mapping) else styles
    if said is None:
        return None
    at = f"config.styles.{parameter}"
    if not isinstance(said, Mapping) or said.keys() - _KEYS:
        raise SpecError(at, f"expected a mapping of {', '.join(sorted(_KEYS))}")
    style = said.get("style", PLACES[where][0])
    if style not in PLACES[where]:
        raise SpecError(at, f"style: expected one of {', '.join(PLACES[where])}, got {style!r}")
    explode, reserved = said.get("explode", style == FORM), said.get("reserved", False)
    if not isinstance(explode, bool) or not isinstance(reserved, bool):
        raise SpecError(at, "explode, reserved: expected true or false")
    if not isinstance(said.get("name", ""), str):
        raise SpecError(at, "name: expected a text")
    return Style(
        where=where,
        style=style,
        explode=explode,
        name=said.get("name") or name,
        reserved=reserved and where == QUERY,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry of a query, of cookies or of a form. ``name`` as it is sent.

    is_styled  whether it is written by a style, in place of the config's own text
    is_free    whether the caller chooses the names: those of an object's members
    """

    name: str
    pairs: Sequence[Pair]
    is_styled: bool = False
    is_free: bool = False


def joined_entries(entries: Sequence[Entry], names: Iterable[str], where: str) -> list[Pair]:
    """All pairs, those whose names the caller chooses last. ``names`` are of the config.

    Raises SpecError where two entries give one name: a server could not tell them apart.
    """
    known, seen = set(names), set[str]()
    for entry in entries:
        given = {name for name, _ in entry.pairs}
        if not entry.is_styled:
            continue
        taken = given & seen | (given & known if entry.is_free else given & known - {entry.name})
        if taken:
            problem = f"expected no member {min(taken)!r}, which has its own place"
            raise SpecError(where, problem, hint=SAY_ANOTHER)
        seen |= given
    ordered = sorted(entries, key=lambda entry: entry.is_free)
    return [pair for entry in ordered for pair in entry.pairs]


def wire_text(value: object) -> str:
    """A plain value in an address, a header or a form. 3.0 is the integer 3."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _MAX_EXACT:
        return str(int(value))
    return as_text(value)


def quoted(text: str, where: str, safe: str = "") -> str:
    """A text, percent-encoded. Raises SpecError for one that has no bytes in UTF-8."""
    try:
        return quote(text, safe=safe)
    except UnicodeEncodeError as error:
        found = ascii(error.object[error.start])
        raise SpecError(where, f"expected characters of Unicode, found {found}") from None


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "a list" if value else "an empty list"
        case dict():
            return "an object" if value else "an empty object"
    return "a plain value"


def _json(value: object, *, is_ascii: bool = False) -> str:
    return json.dumps(value, ensure_ascii=is_ascii, default=str, allow_nan=False)
