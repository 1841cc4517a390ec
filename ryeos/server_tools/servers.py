"""The items of servers: written, listed, removed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lillux.errors import LilluxError
from lillux.values import dataclass
from ryeos.app import Rye
from ryeos.errors import RyeError, UsageError
from ryeos.extractors import extract
from ryeos.items import SYSTEM, ItemRef, Kind, Location
from ryeos.resolver import locations
from ryeos.server_tools.documents import FIRST_VERSION, generated
from ryeos.server_tools.names import SERVER_FOLDER, check_server_name

RUNTIMES = {"stdio": "rye/core/runtimes/mcp/stdio", "http": "rye/core/runtimes/mcp/http"}
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")


class ServerNotFoundError(RyeError):
    """An MCP server that no space has written down."""

    code, exit_status = "ITEM_NOT_FOUND", 3

    def __init__(self, name: str, known: Sequence[str]) -> None:
        from difflib import get_close_matches

        self.name = name
        self.suggestions = tuple(get_close_matches(name, known, 2))
        meant = f"did you mean {' or '.join(self.suggestions)}? or " if self.suggestions else ""
        super().__init__(
            f"MCP server {name!r}: not found; written down: {', '.join(known) or 'none'}",
            hint=f"{meant}add it: rye mcp add {name} -- PROGRAM",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """How a server is reached: a program and its words, or an address.

    env      names of variables that the program gets
    headers  header -> name of the variable that holds it
    bearer   the variable that holds a token, "" for none
    """

    words: Sequence[str] = ()
    url: str = ""
    env: Sequence[str] = ()
    headers: Mapping[str, str] = {}
    bearer: str = ""
    timeout_s: float = 0


def server_text(name: str, options: ServerOptions) -> str:
    """The text of a server's item. Raises UsageError, InvalidUrlError."""
    check_server_name(name)
    if bool(options.words) == bool(options.url):
        hint = f"rye mcp add {name} -- python3 server.py, or: rye mcp add {name} --url URL"
        found = "both" if options.url else "neither"
        raise UsageError(f"expected the program of a server or --url, found {found}", hint=hint)
    config = _stdio(options) if options.words else _http(options)
    if options.timeout_s:
        config["timeout"] = options.timeout_s
    values = {
        "version": FIRST_VERSION,
        "tool_type": "mcp_server",
        "executor_id": RUNTIMES[config["transport"]],
        "category": SERVER_FOLDER,
        "description": f"The MCP server {name}; run it, and it says which tools it has",
        "config": config,
    }
    return generated("Written by rye mcp add.", values)


def server_location(rye: Rye, name: str) -> Location:
    """Where the item of a server is, in a space that can be written.

    Raises UsageError, ServerNotFoundError.
    """
    ref = ItemRef(Kind.TOOL, check_server_name(name))
    found = rye.resolver.find(ref)
    if found is None or found.location.space.tier == SYSTEM:
        raise ServerNotFoundError(name, sorted(one["name"] for one in described_servers(rye)))
    return found.location


def described_servers(rye: Rye) -> Iterator[dict[str, Any]]:
    """Every server there is, with what keeps it from being used."""
    seen: set[ItemRef] = set()
    for space in rye.context.spaces:
        for location in locations(space, Kind.TOOL, SERVER_FOLDER):
            if location.ref not in seen:
                seen.add(location.ref)
                yield _described(rye, location)


def _described(rye: Rye, location: Location) -> dict[str, Any]:
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
    told = config if isinstance(config, dict) else {}
    shown = {key: told[key] for key in ("transport", "command", "args", "url") if key in told}
    tools = sum(1 for _ in locations(location.space, Kind.TOOL, f"mcp/{name}"))
    return described | shown | {"tools": tools}


def _stdio(options: ServerOptions) -> dict[str, Any]:
    if options.headers or options.bearer:
        raise UsageError("--header, --bearer: expected with --url, found a program")
    command, *args = options.words
    env = {_variable(name): f"${{{name}}}" for name in options.env}
    config: dict[str, Any] = {"transport": "stdio", "command": command, "args": args}
    return config | ({"env": env} if env else {})


def _http(options: ServerOptions) -> dict[str, Any]:
    from lillux.http.model import parse_address

    if options.env:
        raise UsageError("--env: expected with a program, found --url")
    parse_address(options.url)
    headers = {}
    for name, variable in options.headers.items():
        if not _HEADER.fullmatch(name):
            raise UsageError(f"--header: expected NAME=VARIABLE, found {name[:80]!r}")
        headers[name] = f"${{{_variable(variable)}}}"
    if options.bearer:
        headers["Authorization"] = f"Bearer ${{{_variable(options.bearer)}}}"
    config: dict[str, Any] = {"transport": "http", "url": options.url}
    return config | ({"headers": headers} if headers else {})


def _variable(name: str) -> str:
    """Never its value: what is written here is read by everybody who reads the project."""
    if not _VARIABLE.fullmatch(name):
        raise UsageError(
            f"expected the name of a variable, found {name[:80]!r}",
            hint="set the variable to the secret, and name the variable here",
        )
    return name
