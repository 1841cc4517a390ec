"""Headers that stand in the comments at the top of a file, whatever the language.

A line counts if it begins with the language's mark for a comment to the end of the line; the first
line that is neither such a comment nor blank ends the header. Page: ``docs/metadata.md``.
"""

import re
from collections.abc import Iterator
from typing import Any

from ryeos.metadata.errors import MetadataError
from ryeos.metadata.header_tags import TAGS
from ryeos.metadata.values import check_header_text

_TAG = re.compile(r"[ \t]*@(\w+)[ \t]+(.+)")
_FIELD = re.compile(r"[ \t]*(\w+):[ \t]+(.+)")
_DUNDER = re.compile(r"[ \t]*(__\w+__)[ \t]*=[ \t]*(.+)")
_FENCE = "---"


def parse_tags(text: str, mark: str) -> dict[str, Any]:
    """What the comments say, under the names that Python files use; every value is a string.

    ``version: 1.0.0`` and ``@version 1.0.0`` for the known words
    (`ryeos.metadata.header_tags.TAGS`), ``__version__ = "1.0.0"`` for any name. Later in this list
    wins over earlier, and the last of a kind over those before it.

    Raises MetadataError.
    """
    check_header_text("comments", text)
    fields: dict[str, Any] = {}
    tags: dict[str, Any] = {}
    dunders: dict[str, Any] = {}
    for _, line in _comments(text, mark):
        if (field := _FIELD.fullmatch(line)) and field[1] in TAGS:
            fields[TAGS[field[1]]] = unquoted(field[2])
        elif (tag := _TAG.fullmatch(line)) and tag[1] in TAGS:
            tags[TAGS[tag[1]]] = unquoted(tag[2])
        elif dunder := _DUNDER.fullmatch(line):
            dunders[dunder[1]] = unquoted(dunder[2])
    return fields | tags | dunders


def parse_block(text: str, mark: str) -> dict[str, Any]:
    """The YAML mapping between the first two comments that say ``---``; nothing without the first.

    Raises MetadataError.
    """
    from ryeos.metadata.yaml_documents import parse_yaml

    check_header_text("comments", text)
    begun = 0
    lines: list[str] = []
    for number, line in _comments(text, mark):
        if line.strip() == _FENCE:
            if begun:
                # Blank lines above, so that messages count as editors do.
                return parse_yaml("\n" * begun + "\n".join(lines), "comments header")
            begun = number
        elif begun:
            lines += [""] * (number - begun - len(lines) - 1)
            lines.append(line.removeprefix(" "))
    if begun:
        problem = f"expected another comment {_FENCE} below, found none"
        raise MetadataError("comments", problem, begun)
    return {}


def without_first_lines(text: str, prefix: str, *, shebang: bool) -> str:
    """The text with a blank line for its signature, and with ``shebang`` for such a line."""
    lines = text.split("\n", 2)
    at = 1 if shebang and lines[0].startswith("#!/") else 0
    if at:
        lines[0] = ""
    if at < len(lines) and lines[at].startswith(f"{prefix} rye:signed:"):
        lines[at] = ""
    return "\n".join(lines)


def unquoted(words: str) -> str:
    """A value without the blanks around it and one pair of quotes."""
    value = words.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value


def _comments(text: str, mark: str) -> Iterator[tuple[int, str]]:
    """The lines of the header behind their marks, each with its number, counted from 1."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith(mark):
            yield number, line[len(mark) :]
        elif line.strip():
            return
