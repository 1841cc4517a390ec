"""Names that seem to declare a field of a header, as `ryeos.items.declarations` looks for them.

A file of its own, below the search for them and the readers of headers.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from lillux.values import dataclass
from ryeos.items.header_names import SANDBOX, seems_right, seems_rights, seems_sandbox, squashed
from ryeos.items.refs import Kind
from ryeos.items.specs import SPELLINGS

FIELDS: Mapping[str, str] = {name: field for field, names in SPELLINGS.items() for name in names}
_CONSTANTS = frozenset(name for name in FIELDS if name.isupper() or name.startswith("__"))
# Constants of many programs: declarations at the top level only, and not in a module of a tool.
PLAIN_CONSTANTS = frozenset({"ANCHOR", "CONFIG", "INPUTS", "OUTPUTS", "PARAMETERS", "VARIANTS"})
# Variables of many programs: no declarations in code, whatever is assigned to them.
_VARIABLES = frozenset({"anchor", "config", "description", "inputs", "name", "outputs"}) | {
    "parameters",
    "variants",
}
DATA_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".toml"})
_KNOWLEDGE_FIELDS = ("name", "title", "version", "entry_type", "category")
_CONFIG_FIELDS = ("version", "category")

SQUASHED: Mapping[str, str] = {squashed(name): field for name, field in FIELDS.items()}


def field_in_code(name: str, *, is_inner: bool) -> str | None:
    """The field that a name in a program seems to declare; ``is_inner``: below the top level."""
    if name in _CONSTANTS:
        return None if is_inner and name in PLAIN_CONSTANTS else FIELDS[name]
    is_constant = name.upper() == name or name.startswith("__")
    if is_constant and not is_inner and seems_right(name):
        return SANDBOX
    if seems_sandbox(name):
        is_private = name.startswith("_") and not name.startswith("__") and not is_constant
        return None if is_private or (is_inner and not is_constant) else SANDBOX
    if is_inner or name in _VARIABLES:
        return None
    is_spelt = "_" in name.strip("_") or name.startswith("__") or name == "executorId"
    return SQUASHED.get(squashed(name)) if is_spelt else None


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a kind's header: their spellings, and these in small letters without lines."""

    spellings: Mapping[str, tuple[str, ...]]
    known: Mapping[str, str]
    near: Mapping[str, str]
    is_tool: bool


@lru_cache(maxsize=4)
def fields_of(kind: Kind) -> Fields:
    """The fields of a kind's header."""
    plain = {Kind.KNOWLEDGE: _KNOWLEDGE_FIELDS, Kind.CONFIG: _CONFIG_FIELDS}.get(kind)
    spellings = {name: (name,) for name in plain} if plain else SPELLINGS
    known = {name: field for field, names in spellings.items() for name in names}
    near = {squashed(name): field for name, field in known.items()}
    return Fields(spellings, known, near, plain is None)


def doubtful_keys(keys: Iterable[str], fields: Fields) -> Iterator[tuple[str, str, bool]]:
    """Keys of a mapping that are nearly a field's, or a second spelling of one.

    Each with its field, and whether it is the second.
    """
    seen: dict[str, list[str]] = {}
    for key in keys:
        if field := fields.known.get(key):
            seen.setdefault(field, []).append(key)
            continue
        is_block = fields.is_tool and not key.startswith("x-") and seems_rights(key)
        field = SANDBOX if is_block else fields.near.get(squashed(key))
        if field:
            yield key, field, False
    for field, found in seen.items():
        found.sort(key=fields.spellings[field].index)
        yield from ((key, field, True) for key in found[1:])
