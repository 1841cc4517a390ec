"""Headers of shell scripts: the comments at the top, and assignments that need no shell."""

import re
from typing import Any

from ryeos.metadata.header_tags import TAGS
from ryeos.metadata.values import check_header_text

_TAG = re.compile(r"#[ \t]*@(\w+)[ \t]+(.+)")
_FIELD = re.compile(r"#[ \t]*(\w+):[ \t]+(.+)")
_DUNDER = re.compile(r"#[ \t]*(__\w+__)[ \t]*=[ \t]*(.+)")
_ASSIGNMENT = re.compile(
    r"""
    ^(__\w+__)= (?: "([^"\\$`\n]*)" | '([^'\n]*)' | ([\w./:@%+,-]*) )
    (?: [\ \t]*;.* | [\ \t]+\#.* | [\ \t]* )$
    """,
    re.MULTILINE | re.VERBOSE,
)


def parse_shell(text: str) -> dict[str, Any]:
    """What a shell script says about itself, under the names that Python files use.

    Comments above the first command: ``# version: 1.0.0`` and ``# @version 1.0.0`` for the known
    words (`ryeos.metadata.header_tags.TAGS`), ``# __version__ = "1.0.0"`` for any name. Below,
    assignments at the beginning of a line: ``__version__="1.0.0"``, unless the value needs a
    shell. Later in this list wins over earlier, and the last of a kind over those before it.
    Every value is a string. Examples: docs/metadata.md.

    Raises MetadataError.
    """
    check_header_text("shell", text)
    fields: dict[str, Any] = {}
    tags: dict[str, Any] = {}
    dunders: dict[str, Any] = {}
    for line in _leading_comments(text):
        if (field := _FIELD.fullmatch(line)) and field[1] in TAGS:
            fields[TAGS[field[1]]] = _unquoted(field[2])
        elif (tag := _TAG.fullmatch(line)) and tag[1] in TAGS:
            tags[TAGS[tag[1]]] = _unquoted(tag[2])
        elif dunder := _DUNDER.fullmatch(line):
            dunders[dunder[1]] = _unquoted(dunder[2])
    return fields | tags | dunders | _assignments(text)


def _leading_comments(text: str) -> list[str]:
    comments: list[str] = []
    for line in text.split("\n"):
        if line.startswith("#"):
            comments.append(line)
        elif line.strip():
            break
    return comments


def _assignments(text: str) -> dict[str, str]:
    return {
        found[1]: found[2] or found[3] or found[4] or "" for found in _ASSIGNMENT.finditer(text)
    }


def _unquoted(words: str) -> str:
    value = words.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return value
