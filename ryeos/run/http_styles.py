"""How lists and objects are written into an address, a header or a cookie (OpenAPI's styles). Pure.

A config names the style of a parameter: ``styles: {ids: {style: form, explode: false}}``. What a
style has no form for is an error: a server would read something else than the caller said.
Page: ``docs/http.md``.
"""

import json
from collections.abc import Callable, Mapping

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
_BETWEEN = {SPACES: "%20", PIPES: "%7C"}
_KEYS = frozenset({"style", "explode", "name"})
Encode = Callable[[str], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a parameter is written. ``name`` is what it is called in the request."""

    where: str
    style: str
    explode: bool
    name: str

    def pairs(self, value: object, encode: Encode) -> list[tuple[str, str]]:
        """Names and encoded values of a query or of cookies. Raises SpecError."""
        own = encode(self.name)
        if self.style == JSON or not isinstance(value, list | dict):
            return [(own, encode(_json(value) if self.style == JSON else self._plain_only(value)))]
        if self.style == DEEP_OBJECT:
            rows = self._members(value)
            return [(encode(f"{self.name}[{key}]"), encode(text)) for key, text in rows]
        if isinstance(value, dict):
            rows = self._members(value)
            if self.explode:
                return [(encode(key), encode(text)) for key, text in rows]
            return self._joined([part for row in rows for part in row], encode)
        texts = [self._plain(one) for one in value if one is not None]
        return (
            [(own, encode(one)) for one in texts] if self.explode else self._joined(texts, encode)
        )

    def _joined(self, texts: list[str], encode: Encode) -> list[tuple[str, str]]:
        between = _BETWEEN.get(self.style, ",")
        return [(encode(self.name), between.join(map(encode, texts)))] if texts else []

    def text(self, value: object, encode: Encode) -> str:
        """What stands in the place of a path or of a header. Raises SpecError."""
        if self.style == JSON:
            return encode(_json(value))
        between = {LABEL: ".", MATRIX: ";"}.get(self.style, ",") if self.explode else ","
        name = encode(self.name) if self.style == MATRIX else ""
        if isinstance(value, dict):
            rows = [(encode(key), encode(text)) for key, text in self._members(value)]
            if self.explode:
                inner = between.join("=".join(row) for row in rows)
                return self._start("", inner)
            return self._start(name, ",".join(part for row in rows for part in row))
        if isinstance(value, list):
            texts = [encode(self._plain(one)) for one in value if one is not None]
            if self.explode and name:
                return "".join(f";{name}={text}" if text else f";{name}" for text in texts)
            return self._start(name, between.join(texts))
        return self._start(name, encode(as_text(value)))

    def _start(self, name: str, inner: str) -> str:
        if self.style == LABEL:
            return f".{inner}"
        if self.style == MATRIX:
            return f";{name}={inner}" if name and inner else f";{name or inner}"
        return inner

    def _members(self, value: object) -> list[tuple[str, str]]:
        if not isinstance(value, dict):
            raise self._error("an object", value)
        return [(str(key), self._plain(one)) for key, one in value.items() if one is not None]

    def _plain_only(self, value: object) -> str:
        if self.style == DEEP_OBJECT:
            raise self._error("an object", value)
        return as_text(value)

    def _plain(self, value: object) -> str:
        if isinstance(value, list | dict):
            raise self._error("plain values in it", value)
        return as_text(value)

    def _error(self, expected: str, value: object) -> SpecError:
        found = "an object" if isinstance(value, dict) else "a plain value"
        found = "a list" if isinstance(value, list) else found
        problem = f"expected {expected}, found {found}; the style {self.style} has no form for it"
        return SpecError(self.name, problem)


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
    explode = said.get("explode", style == FORM)
    if not isinstance(explode, bool) or not isinstance(said.get("name", ""), str):
        raise SpecError(at, "explode, name: expected true or false, and a text")
    return Style(where=where, style=style, explode=explode, name=said.get("name") or name)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str, allow_nan=False)
