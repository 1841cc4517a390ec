"""Literals inside expressions: ``'text'``, ``"text"``, numbers, true, false, null. Pure."""

import re
from typing import Any

from lillux.values import dataclass

_WORDS = {"true": True, "false": False, "null": None}
_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"'}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_INTEGER = re.compile(r"-?[0-9]{1,300}")
_DECIMAL = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,2})?")


class LiteralSyntaxError(ValueError):
    """A number or a quoted text that cannot be read; its words say why."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that stands in the expression itself."""

    value: Any


def parse_literal(text: str) -> Literal | None:
    """The literal that a text without blanks around it is, or None. Raises LiteralSyntaxError."""
    if text in _WORDS:
        return Literal(_WORDS[text])
    if _INTEGER.fullmatch(text):
        return Literal(int(text))
    if _DECIMAL.fullmatch(text):
        return Literal(_decimal(text))
    if text[:1] in {"'", '"'}:
        return Literal(_unquoted(text))
    return None


def _decimal(text: str) -> float:
    number = float(text)
    if number in {float("inf"), -float("inf")}:
        raise LiteralSyntaxError(f"expected a number that float can hold, found {text[:40]}")
    return number


def _unquoted(text: str) -> str:
    inner = text[1:-1]
    bare = _ESCAPE.sub("", inner)
    if len(text) < len("''") or text[-1] != text[0] or text[0] in bare or "\\" in bare:
        raise LiteralSyntaxError(f"expected one quoted text, found {text[:40]!r}")
    return _ESCAPE.sub(_escaped, inner)


def _escaped(match: re.Match[str]) -> str:
    try:
        return _ESCAPES[match[1]]
    except KeyError:
        raise LiteralSyntaxError(
            f"unknown escape {match.group()!r}, known are \\n \\t \\\\ \\' \\\""
        ) from None
