"""Names that people, teams, accounts and namespaces have: safe as files, no two alike. Pure.

A file of its own because a node and a registry give names, and neither knows the other. The rules
are in ``docs/registry.md``.
"""

import re

from lillux.contained_paths import require_plain_path
from lillux.errors import UnsafePathError
from ryeos.items.errors import RyeError

# One - or _ at a time, and none at the end: a reader cannot count more.
_NAMESPACE = re.compile(r"(?=.{2,39}\Z)[a-z0-9]+(?:[_-][a-z0-9]+)*")
# Names that people would take for the registry's own, or for a part of Rye.
_RESERVED = frozenset(
    word
    for words in (
        ("admin", "api", "bundle", "bundles", "config", "core", "directive", "directives"),
        ("knowledge", "lillux", "mcp", "node", "official", "project", "public", "registry"),
        ("root", "rye", "rye-node", "rye-registry", "ryeos", "security", "support", "system"),
        ("tool", "tools", "user", "users"),
    )
    for word in words
)


class RegistryNameError(RyeError):
    """A name that nothing in a registry can have. ``field`` is what it was to name."""

    code = "INVALID_PARAMS"

    def __init__(self, field: str, problem: str) -> None:
        self.field, self.problem = field, problem
        super().__init__(f"{field}: {problem}", hint="the rules are in docs/registry.md")


def namespace_name(text: str, field: str = "namespace") -> str:
    """The name itself, lower case. Raises RegistryNameError; `is_reserved` is another question."""
    if not _NAMESPACE.fullmatch(text) or not is_plain(text):
        expected = "expected 2 to 39 of a-z, 0-9, and single - and _ between them"
        raise RegistryNameError(field, f"{expected}, {found_words(text)}")
    return text


def folded_namespace(name: str) -> str:
    """The same text for all names that people would take for one."""
    return name.casefold().replace("_", "-")


def is_reserved(name: str) -> bool:
    """Whether only who runs the registry gives this namespace, or account, to a user."""
    return folded_namespace(name) in _RESERVED


def is_plain(text: str) -> bool:
    """Whether every system can have a file of this name."""
    try:
        require_plain_path(text)
    except UnsafePathError:
        return False
    return True


def found_words(text: str) -> str:
    """What was found, as messages show it."""
    return f"found {text[:80]!a}"
