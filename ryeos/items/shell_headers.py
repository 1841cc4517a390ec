"""Headers of shell scripts: the comments at the top, and assignments that need no shell."""

import re
from collections.abc import Mapping
from typing import Any

from lillux.patterns import pattern
from ryeos.items.comment_headers import parse_tags
from ryeos.items.header_values import MetadataError, require_parsable_text


def shell_assignments(line: str) -> dict[str, str]:
    """The assignment that `parse_shell` reads in a line, by its name."""
    return _assignments(line)


_ASSIGNMENT = pattern(
    r"""
    ^(__\w+__)= (?: "([^"\\$`\n]*)" | '([^'\n]*)' | ([\w./:@%+,-]*) )
    (?: [\ \t]*;.* | [\ \t]+\#.* | [\ \t]* )$
    """,
    re.MULTILINE | re.VERBOSE,
)


def parse_shell(text: str) -> dict[str, Any]:
    """Fields of a shell script, under the names that Python files use.

    Comments above the first command (`parse_tags`), and below, assignments
    at the beginning of a line: ``__version__="1.0.0"``, unless the value needs a shell. These win
    over comments, the last over those before it. Every value is a string. Examples:
    docs/items.md.

    Raises MetadataError.
    """
    require_parsable_text("shell", text)
    assigned = re.search(r"^(CONFIG_SCHEMA|SANDBOX|__sandbox__)=", text, re.MULTILINE)
    if assigned:
        line = text.count("\n", 0, assigned.start()) + 1
        name = "config_schema" if assigned[1] == "CONFIG_SCHEMA" else "sandbox"
        problem = f"expected it in the comments at the top, as # {name}: {{...}}"
        raise MetadataError("shell", problem, line)
    return parse_tags(text, "#") | _assignments(text)


BARE_SCRIPT = {
    "__version__": "0.0.0",
    "__tool_type__": "bash",
    "__executor_id__": "rye/core/runtimes/bash/bash",
}
"""Header of a shell script that begins with ``#!`` and does not say what it is.

No signature covers that line: the version does, which stands in the line of its identity.
"""
_DECLARING_FIELDS = frozenset({"tool_type", "executor_id", "__tool_type__", "__executor_id__"})


def is_bare_script(suffix: str, text: str) -> bool:
    """True if it is a shell script that does not say what it is. Raises MetadataError."""
    return suffix == ".sh" and is_undeclared_script(text, parse_shell(text))


def own_version(header: Mapping[str, Any], suffix: str, text: str) -> object:
    """The version that a text names by itself; None where it does not, as a bare script may not."""
    version = header.get("version")
    is_default = version == BARE_SCRIPT["__version__"] and is_bare_script(suffix, text)
    return None if is_default else version


def is_undeclared_script(text: str, header: Mapping[str, Any]) -> bool:
    """True if a text begins with ``#!`` and its header does not say what it is."""
    return text.startswith("#!") and _DECLARING_FIELDS.isdisjoint(header)


def _assignments(text: str) -> dict[str, str]:
    return {
        found[1]: found[2] or found[3] or found[4] or "" for found in _ASSIGNMENT.finditer(text)
    }
