"""Headers of shell scripts: the comments at the top, and assignments that need no shell."""

import re
from typing import Any

from ryeos.metadata.comments import parse_tags
from ryeos.metadata.values import check_header_text

_ASSIGNMENT = re.compile(
    r"""
    ^(__\w+__)= (?: "([^"\\$`\n]*)" | '([^'\n]*)' | ([\w./:@%+,-]*) )
    (?: [\ \t]*;.* | [\ \t]+\#.* | [\ \t]* )$
    """,
    re.MULTILINE | re.VERBOSE,
)


def parse_shell(text: str) -> dict[str, Any]:
    """What a shell script says about itself, under the names that Python files use.

    Comments above the first command (`ryeos.metadata.comments.parse_tags`), and below, assignments
    at the beginning of a line: ``__version__="1.0.0"``, unless the value needs a shell. These win
    over comments, the last over those before it. Every value is a string. Examples:
    docs/metadata.md.

    Raises MetadataError.
    """
    check_header_text("shell", text)
    return parse_tags(text, "#") | _assignments(text)


def _assignments(text: str) -> dict[str, str]:
    return {
        found[1]: found[2] or found[3] or found[4] or "" for found in _ASSIGNMENT.finditer(text)
    }
