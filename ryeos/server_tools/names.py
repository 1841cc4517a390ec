"""Names of items for the tools of a server, whatever the server calls them. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from lillux.digests import sha256_hex
from lillux.errors import UnsafePathError
from lillux.files import check_relative
from ryeos.errors import UsageError

SERVER_FOLDER = "mcp/servers"
_MAX_CHARACTERS = 64
_SERVER = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_OTHERS = re.compile(r"[^A-Za-z0-9_-]+")
_MARK_DIGITS = 8


def check_server_name(name: str) -> str:
    """The id of a server's item. Raises UsageError for a name that no folder should have."""
    if not _SERVER.fullmatch(name) or name == "servers" or not _is_file_name(name):
        raise UsageError(
            f"server {name[:80]!r}: expected small letters, digits, '-' and '_', at most 64",
            hint="choose a name of your own, like github; servers is the folder of them all",
        )
    return f"{SERVER_FOLDER}/{name}"


def item_names(tools: Sequence[str]) -> Mapping[str, str]:
    """A file name for each tool: its own where that is one, else with a mark made from its own.

    Names that differ only in the case of letters are all marked: some file systems do not tell
    them apart.
    """
    plain = {tool: _OTHERS.sub("_", tool).strip("_-")[:_MAX_CHARACTERS] for tool in tools}
    alike = Counter(name.lower() for name in plain.values())
    return {
        tool: name
        if name == tool and alike[name.lower()] == 1 and _is_file_name(name)
        # The mark says which tool it is, so that no other one can take its place.
        else f"{name[: _MAX_CHARACTERS - _MARK_DIGITS - 1] or 'tool'}-{_mark(tool)}"
        for tool, name in plain.items()
    }


def _mark(tool: str) -> str:
    return sha256_hex(tool.encode("utf-8", "surrogatepass"))[:_MARK_DIGITS]


def _is_file_name(name: str) -> bool:
    try:
        check_relative(name)
    except UnsafePathError:
        return False
    return bool(name)
