"""Scope strings: ``tool``, ``tool.rye.core.*``, ``rye.fetch.tool.rye.core.*``. Pure."""

from lillux.values import dataclass
from ryeos.items.errors import VerbArgumentError
from ryeos.items.refs import EXECUTABLE_KINDS, Kind

_VERBS = frozenset({"fetch", "search", "load"})


@dataclass(frozen=True, slots=True)
class SearchScope:
    """A kind, None for all of them, and the id that items have or lie below, ``""`` for any."""

    kind: Kind | None = None
    prefix: str = ""


def parse_scope(text: str) -> SearchScope:
    """The scope that a text names. Raises VerbArgumentError for a kind that there is not.

    ``rye.`` and a verb in front are left out, ``.*`` or ``*`` at the end too; dots and slashes
    separate alike. ``*`` instead of a kind means all of them.
    """
    parts = [part for part in text.strip().replace("/", ".").replace(":", ".").split(".") if part]
    if len(parts) > 1 and parts[0] == "rye" and parts[1] in {"*", *_VERBS, *_kind_names()}:
        parts = parts[1:]
    if len(parts) > 1 and (
        parts[0] in _VERBS or (parts[0] == "*" and parts[1] in {"*", *_kind_names()})
    ):
        parts = parts[1:]
    if not parts:
        return SearchScope()
    first, *rest = parts
    while rest and rest[-1] == "*":
        rest.pop()
    if rest:
        rest[-1] = rest[-1].removesuffix("*")
    return SearchScope(_kind(first, text), "/".join(rest))


def _kind(word: str, text: str) -> Kind | None:
    if word == "*":
        return None
    if word not in _kind_names():
        known = ", ".join(_kind_names())
        raise VerbArgumentError(
            "scope", f"expected a kind ({known}) or * in {text[:60]!r}, found {word[:60]!r}"
        )
    return Kind(word)


def _kind_names() -> tuple[str, ...]:
    return tuple(kind.value for kind in EXECUTABLE_KINDS)
