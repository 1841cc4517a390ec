r"""Text of strangers as it may be shown: it ends no line, moves no cursor and hides nothing.

What is not seen becomes an escape like ``\u202e`` and is never left out, so that a reader sees that
something is there.
A file of its own because every start imports it, and nothing with it.
"""

from __future__ import annotations

_LAST_OF_FOUR_DIGITS = 0xFFFF
_OF_LINES = frozenset("\n\t\u00a0\u1680\u202f\u205f\u3000") | set(map(chr, range(0x2000, 0x200B)))
"""Not printable for Python, and part of texts: ends of lines, tabs, spaces of many languages."""


def one_line(text: str, most: int = 0) -> str:
    """A text in words, on one line: white space is one blank, what is not seen an escape.

    At most ``most`` characters, the last of them an ellipsis where it was cut; 0 is no limit.
    """
    return printable(" ".join(text.split()), most)


def printable(text: str, most: int = 240) -> str:
    """A name or a value on one line, each blank of it kept: what is not seen is an escape.

    At most ``most`` characters, as of `one_line`.
    """
    if most:
        text = text[: most + 1]  # no more is looked at
    if not text.isprintable():
        text = "".join(one if one.isprintable() else _escape(one) for one in text)
    return text if not most or len(text) <= most else f"{text[: max(most - 1, 0)]}…"


def without_control_characters(text: str) -> str:
    """A text with its lines, tabs and spaces: what else is not seen is an escape.

    A character at a time, so that it holds for a text that comes in pieces, and for one that was
    shown like this before.
    """
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c in _OF_LINES else _escape(c) for c in text)


def escaped(text: str) -> str:
    """JSON that says the same, with escapes for what is not seen in it."""
    if text.isascii() and "\x7f" not in text:  # JSON itself escapes all before the space
        return text
    return "".join(c if c.isprintable() or c in _OF_LINES else _escape_of_json(c) for c in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= _LAST_OF_FOUR_DIGITS else f"\\U{code:08x}"


def _escape_of_json(character: str) -> str:
    code = ord(character)
    if code <= _LAST_OF_FOUR_DIGITS:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
