"""Masks the secrets of an execution in all of its output. Pure.

A value is found as it is, and as it stands in JSON, in URLs, in hex, and in base64, there within
longer values too, as in ``user:secret`` of HTTP. What a program makes of it in other ways cannot be
found. Shorter values than `SHORTEST` are not looked for: they would be
found everywhere.
"""

import json
import math
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

from lillux.digests import MAX_INTEGER_BITS
from rye_services.node.worker.workspaces import Checkout

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
        """Whether there is anything to be masked."""
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
    """What base64 of any longer value has of these bytes: the digits that nothing else decides."""
    for before in range(3):
        first, end = -(-before * 8 // 6), (before + len(encoded)) * 8 // 6
        for encode in (b64encode, urlsafe_b64encode):
            digits = encode(bytes(before) + encoded).decode()[first:end]
            if len(digits) >= SHORTEST:
                yield digits


def _long_lines(value: str) -> Iterable[str]:
    """The lines of a key or a certificate, which programs print one by one."""
    return (line for line in value.splitlines() if len(line) >= _SHORTEST_LINE)


# --- presentable ----------------------------------------------------------------------------------
# What a worker answered, as it can be answered and stored. Pure.

MAX_WORDS = 4096
"""Characters of an error that is kept apart from its answer."""

_MAX_DEPTH = 100
_DEEPER = "(nested too deep)"


def presentable(
    envelope: Mapping[str, Any], workspace: Checkout, redaction: Redaction, bundle: Path
) -> dict[str, Any]:
    """An answer without secrets, without places of the server, and such that JSON can hold it.

    The folders of the workspace are called ``/project``, ``/user``, ``/home`` and ``/tmp``.
    """
    places = _places(workspace, bundle)
    shallow = _shallow(dict(envelope), _MAX_DEPTH)  # first: the rest recurs
    value = _plain(redaction.value(shallow), places)
    return value if isinstance(value, dict) else {}


def without_places(text: str, workspace: Checkout, bundle: Path) -> str:
    """A text that names the folders of a workspace as `presentable` does."""
    return _text(text, _places(workspace, bundle))


def shortened(text: str, most: int = MAX_WORDS) -> str:
    """A text of at most so many characters, with an ellipsis where some are missing."""
    return text if len(text) <= most else f"{text[: most - 1]}\u2026"


def _places(workspace: Checkout, bundle: Path) -> dict[str, str]:
    return {
        str(workspace.project): "/project",
        str(workspace.user): "/user",
        str(workspace.home): "/home",
        str(workspace.temporary): "/tmp",  # noqa: S108 - a name for it
        str(bundle): "/system",
    }


def _shallow(value: Any, depth: int) -> Any:  # noqa: ANN401 - JSON
    match value:
        case dict() | list() if not depth:
            return _DEEPER
        case dict():
            return {key: _shallow(one, depth - 1) for key, one in value.items()}
        case list() | tuple():
            return [_shallow(one, depth - 1) for one in value]
        case _:
            return value


def _plain(value: Any, places: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    match value:
        case str():
            return _text(value, places)
        case float() if not math.isfinite(value):
            return str(value)
        case int() if value.bit_length() > MAX_INTEGER_BITS:
            return str(value)
        case dict():
            return {_text(str(key), places): _plain(one, places) for key, one in value.items()}
        case list() | tuple():
            return [_plain(one, places) for one in value]
        case _:
            return value


def _text(text: str, places: Mapping[str, str]) -> str:
    for place, name in places.items():
        if place in text:
            text = text.replace(place, name)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
