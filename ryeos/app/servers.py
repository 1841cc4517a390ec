"""Items of MCP servers: found and listed."""

from collections.abc import Iterator, Sequence
from typing import Any

from lillux.errors import LilluxError
from ryeos.app.workspace import Rye
from ryeos.imports.server_items import SERVER_FOLDER, valid_server_id
from ryeos.items.errors import RyeError
from ryeos.items.refs import SYSTEM, ItemRef, Kind, Location
from ryeos.run.chain import PACKAGES_SUFFIX
from ryeos.run.server_packages import NPM, PACKAGE, PYPI
from ryeos.trust.extractors import extract
from ryeos.trust.resolver import locations


class ServerNotFoundError(RyeError):
    """An MCP server that is configured in no space."""

    code = "ITEM_NOT_FOUND"

    def __init__(self, name: str, known: Sequence[str]) -> None:
        from difflib import get_close_matches

        self.name = name
        self.suggestions = tuple(get_close_matches(name, known, 2))
        meant = f"did you mean {' or '.join(self.suggestions)}? or " if self.suggestions else ""
        super().__init__(
            f"MCP server {name!r}: not found; configured: {', '.join(known) or 'none'}",
            hint=f"{meant}add it: rye mcp add {name} -- PROGRAM",
        )


def server_location(rye: Rye, name: str) -> Location:
    """The location of a server's item, in a space that can be written.

    Raises UsageError, ServerNotFoundError.
    """
    ref = ItemRef(Kind.TOOL, valid_server_id(name))
    found = rye.resolver.find(ref)
    if found is None or found.location.space.tier == SYSTEM:
        raise ServerNotFoundError(name, sorted(one["name"] for one in described_servers(rye)))
    return found.location


def described_servers(rye: Rye) -> Iterator[dict[str, Any]]:
    """Every server there is, with what keeps it from being used."""
    seen: set[ItemRef] = set()
    for space in rye.context.spaces:
        for location in locations(space, Kind.TOOL, SERVER_FOLDER):
            if location.ref not in seen and not location.ref.id.endswith(PACKAGES_SUFFIX):
                seen.add(location.ref)
                yield _describe_server(rye, location)


def _describe_server(rye: Rye, location: Location) -> dict[str, Any]:
    name = location.ref.name
    described: dict[str, Any] = {
        "name": name,
        "ref": str(location.ref),
        "space": location.space.label,
        "path": str(location.path),
    }
    try:
        item = rye.verifier.verify_location(location)
        header = item.header or extract(Kind.TOOL, location.suffix, item.text, str(location.path))
    except LilluxError as error:
        return described | {"problem": str(error)}
    config = header.get("config")
    config = config if isinstance(config, dict) else {}
    shown = {key: config[key] for key in ("transport", "command", "args", "url") if key in config}
    package = config.get(PACKAGE)
    if isinstance(package, dict):
        shown["command"] = " ".join(
            f"{name} {package[name]}" for name in (NPM, PYPI) if name in package
        )
    tools = sum(1 for _ in locations(location.space, Kind.TOOL, f"mcp/{name}"))
    return described | shown | {"tools": tools}
