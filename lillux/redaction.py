"""Masks the secrets of a run in all of its output. Pure.

A value is found as it is, and as it stands in JSON, in URLs, in hex, and in base64, there within
longer values too, as in ``user:secret`` of HTTP. What a program makes of it in other ways cannot be
found. Shorter values than `SHORTEST` are not looked for: they would be
found everywhere.
"""

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

SHORTEST = 4
MASK = "***"
_SHORTEST_LINE = 16


class Redaction:
    """Masks the values of secrets."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        forms = {form for value in secrets.values() for form in _forms(value)}
        longest_first = sorted(forms, key=lambda form: (-len(form), form))
        self._text = re.compile("|".join(map(re.escape, longest_first))) if forms else None
        encoded = (re.escape(form.encode()) for form in longest_first)
        self._bytes = re.compile(b"|".join(encoded)) if forms else None

    @property
    def is_needed(self) -> bool:
        """True if there is anything to be masked."""
        return self._text is not None

    def text(self, text: str) -> str:
        """The text, masked."""
        return self._text.sub(MASK, text) if self._text else text

    def data(self, data: bytes) -> bytes:
        """The bytes, masked."""
        return self._bytes.sub(MASK.encode(), data) if self._bytes else data

    def value(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        """The JSON value, all texts in it masked, the names of its keys too."""
        if not self._text:
            return value
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(key): self.value(one) for key, one in value.items()}
            case list() | tuple():
                return [self.value(one) for one in value]
            case _:
                return value


def _forms(value: str) -> Iterable[str]:
    for text in {value, value.strip(), *_long_lines(value)}:
        if len(text) < SHORTEST:
            continue
        encoded = text.encode("utf-8", "surrogatepass")
        yield text
        yield json.dumps(text)[1:-1]
        yield json.dumps(text, ensure_ascii=False)[1:-1]
        yield quote(encoded, safe="")
        yield quote_plus(encoded)
        yield _lower_escapes(quote(encoded, safe=""))
        yield _lower_escapes(quote_plus(encoded))
        yield encoded.hex()
        yield encoded.hex().upper()
        yield b64encode(encoded).decode().rstrip("=")
        yield urlsafe_b64encode(encoded).decode().rstrip("=")
        yield from _within_base64(encoded)


def _lower_escapes(quoted: str) -> str:
    return re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), quoted)


def _within_base64(encoded: bytes) -> Iterable[str]:
    """Base64 of these bytes in that of any longer value: the digits that nothing else decides."""
    for before in range(3):
        first, end = -(-before * 8 // 6), (before + len(encoded)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            digits = encode(bytes(before) + encoded).decode()[first:end]
            if len(digits) >= SHORTEST:
                yield digits


def _long_lines(value: str) -> Iterable[str]:
    """The lines of a key or a certificate, which programs print one by one."""
    return (line for line in value.splitlines() if len(line) >= _SHORTEST_LINE)
