"""Keys of a tool's header that mean nothing to Rye, most likely misspelt.

A tool may carry any key of its own. What a runtime declares is all for the engine, and so is what
stands in the blocks below, wherever they are: there a slip changes what is run or verified.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from ryeos.items.specs import RUNTIME_TYPE, SPELLINGS, ToolSpec, type_name

BLOCKS: Mapping[str, tuple[str, ...]] = {
    "anchor": (
        "enabled",
        "mode",
        "markers_any",
        "siblings",
        "root",
        "lib",
        "cwd",
        "env_paths",
        "env",
    ),
    "verify_deps": (
        "enabled",
        "scope",
        "recursive",
        "extensions",
        "exclude_dirs",
        "unverified",
    ),
}
_ENV_CONFIG = ("interpreter", "env", "unset", "env_policy")
_VARIANT = ("suffixes", "when", "config")
# Said about a file, for people and registries, or for parts of Rye that are not the engine.
FOREIGN = frozenset(
    {"author", "authors", "license", "homepage", "repository", "tags", "keywords", "notes"}
    | {"created_at", "updated_at", "required_capabilities", "permissions", "capabilities"}
    | {"native_resume", "cache", "title", "id", "extends"}
)
_FOREIGN_PREFIXES = ("x-", "_")
_FOREIGN_IN_CODE = frozenset({"__docstring__", "__all__", "__author__", "__license__"})
_DATA_SUFFIXES = frozenset({".yaml", ".yml", ".json", ".toml"})
_CUTOFF, _CUTOFF_IN_CODE = 0.7, 0.8


def unknown_key_warnings(spec: ToolSpec, suffix: str, where: str) -> Iterator[str]:
    """A line for each unknown key of a file; ``where`` is its path or id."""
    if spec.tool_type == RUNTIME_TYPE:
        yield from _top_level(spec.unrecognized, suffix, where)
        yield from _unread(f"{where}: env_config", _plain_keys(spec.env_config), _ENV_CONFIG)
        for index, variant in enumerate(spec.variants):
            yield from _unread(f"{where}: variants[{index}]", variant, _VARIANT)
    for name, known in BLOCKS.items():
        yield from _unread(f"{where}: {name}", getattr(spec, name) or {}, known)


def misspelt_keys(spec: ToolSpec, suffix: str) -> Iterator[str]:
    """The problem of each key that is nearly one that means something."""
    known = tuple(name for names in SPELLINGS.values() for name in names)
    is_data = suffix in _DATA_SUFFIXES
    for key in spec.unrecognized:
        if key in {*known, *FOREIGN, *_FOREIGN_IN_CODE} or key.startswith(_FOREIGN_PREFIXES[0]):
            continue
        names = tuple(name for name in known if name[0].islower()) if is_data else known
        close = closest(key, names, _CUTOFF_IN_CODE)
        if close:
            yield f"unknown key {key[:80]!r}: did you mean {close}?"


def _top_level(keys: Mapping[str, Any], suffix: str, where: str) -> Iterator[str]:
    """In code every constant may look like a key, so only what comes close to one is reported."""
    if suffix in _DATA_SUFFIXES:
        known = tuple(name for names in SPELLINGS.values() for name in names if name[0].islower())
        foreign = (key for key in keys if key in FOREIGN or key.startswith(_FOREIGN_PREFIXES))
        yield from _unread(where, keys, (*known, *foreign))
        return
    known = tuple(name for names in SPELLINGS.values() for name in names)
    for key in keys:
        if key not in {*known, *_FOREIGN_IN_CODE} and closest(key, known, _CUTOFF_IN_CODE):
            yield from _unread(where, {key: keys[key]}, known)


def _plain_keys(env_config: Mapping[str, Any]) -> dict[str, Any]:
    """All but interpreter blocks, whose name is free."""
    blocks = {
        key
        for key, value in env_config.items()
        if isinstance(value, Mapping) and {"type", "var"} <= value.keys()
    }
    return {key: value for key, value in env_config.items() if key not in blocks}


def _unread(where: str, keys: Mapping[str, Any], known: tuple[str, ...]) -> Iterator[str]:
    for key, value in keys.items():
        if key not in known:
            yield _line(where, str(key), known, value)


def _line(where: str, key: str, known: tuple[str, ...], value: object) -> str:
    close = closest(key, known, _CUTOFF)
    meant = f": did you mean {close}?" if close else f" ({type_name(value)})"
    return f"{where}: unknown key {key[:80]!r} is not used{meant}"


def closest(key: str, known: tuple[str, ...], cutoff: float) -> str:
    """The known key that another one is most like, ``""`` where none is like it."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(key, known, 1, cutoff)), "")
