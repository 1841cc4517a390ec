"""Item files as a manifest names them: kind, reference, signature line. Pure.

The rules are shared with other programs, whose digests of the same file must be ours. They are
not those by which Rye finds and verifies items. They are in ``docs/store.md``, Items.
"""

import re
from collections.abc import Mapping

from lillux.digests import sha256_hex
from lillux.patterns import pattern
from ryeos.items.refs import AI_DIRECTORY, Kind, kind_of_directory
from ryeos.sync.objects import ItemSource
from ryeos.trust.signature import CORE_PATTERN

_AI = f"{AI_DIRECTORY}/"
_MARKDOWN = pattern(f"<!-- {CORE_PATTERN} -->")
_HASH = pattern(f"# {CORE_PATTERN}")
_HASH_OR_BELOW_SHEBANG = pattern(rf"(?:#!/[^\n]*\n)?# {CORE_PATTERN}")
_SLASHES = pattern(f"// {CORE_PATTERN}")

_ANY_SUFFIX = ""
_LINES: Mapping[Kind, Mapping[str, re.Pattern[str]]] = {
    Kind.DIRECTIVE: {_ANY_SUFFIX: _MARKDOWN},
    Kind.KNOWLEDGE: {_ANY_SUFFIX: _MARKDOWN},
    Kind.TOOL: {
        **dict.fromkeys((".py", ".yaml", ".yml", ".json", ".sh", ".toml"), _HASH_OR_BELOW_SHEBANG),
        **dict.fromkeys((".js", ".ts", ".mjs", ".cjs"), _SLASHES),
    },
    Kind.CONFIG: dict.fromkeys((".yaml", ".yml", ".toml"), _HASH),
}
_ASCII_LOWER = str.maketrans("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz")


def kind_of(path: str) -> Kind | None:
    """The kind of the item at a relative path like ``.ai/tools/a/b.py``; None for no item."""
    if not path.startswith(_AI):
        return None
    directory, slash, rest = path[len(_AI) :].partition("/")
    return kind_of_directory(directory) if slash and rest else None


def item_ref(kind: Kind, path: str) -> str:
    """Name of an item: its kind, and its path below the kind's folder without a suffix."""
    below = path[len(_AI) + len(kind.directory) + 1 :]
    suffix = suffix_of(below)
    return f"{kind.value}:{below[: -len(suffix)] if suffix else below}"


def suffix_of(path: str) -> str:
    """The last suffix with its dot; ``""`` for ``.gitkeep`` and for ``name.``."""
    name = path[path.rfind("/") + 1 :]
    dot = name.rfind(".")
    return name[dot:] if 0 < dot < len(name) - 1 else ""


def signature_info(kind: Kind, path: str, text: str) -> dict[str, str] | None:
    """The fields of the signature line at the top of a text, unverified, or None."""
    lines = _LINES[kind]
    line = lines.get(_ANY_SUFFIX) or lines.get(suffix_of(path).translate(_ASCII_LOWER))
    match = line.match(text) if line else None
    if match is None:
        return None
    timestamp, digest, value, fingerprint, provenance = match.groups()
    fields = {
        "timestamp": timestamp,
        "hash": digest,
        "ed25519_sig": value,
        "pubkey_fp": fingerprint,
    }
    if provenance:
        provider, _, username = provenance[1:].partition("@")
        fields |= {"registry_provider": provider, "registry_username": username}
    return fields


def item_source(path: str, data: bytes, digest: str = "") -> ItemSource | None:
    """The item that a file is; None for one that is no item, by its path or as it is no UTF-8.

    ``digest`` is that of the data, where it is known.
    """
    kind = kind_of(path)
    if kind is None:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    content = digest or sha256_hex(data)
    return ItemSource(item_ref(kind, path), content, signature_info(kind, path, text))
