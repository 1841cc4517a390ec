"""MCP servers in the settings of a client, read as server items. Nothing is started."""

import json
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from lillux.json_edits import Dialect, TextSyntaxError, parse
from ryeos.imports.plan import (
    ImportPlan,
    ImportSource,
    ImportSourceError,
    MovedSecret,
    ProposedItem,
    plain_name,
    shown_path,
    source_text,
)
from ryeos.imports.server_items import (
    FIRST_VERSION,
    RUNTIMES,
    SERVER_FOLDER,
    generated,
)
from ryeos.items.errors import RyeError
from ryeos.items.refs import ItemRef, Kind

CONTAINERS = ("mcpServers", "servers", "context_servers", "mcp_servers", "mcp", "amp.mcpServers")
SUFFIX = ".yaml"


class EntryError(RyeError):
    """An entry that no server item can be made of. The others are read all the same."""

    code, exit_status = "IMPORT_UNREADABLE", 6


def read_servers(source: ImportSource) -> ImportPlan:
    """A server item for each entry. Raises ImportSourceError."""
    settings = _settings(source)
    origin = shown_path(source.path, source.project)
    items = []
    for container in CONTAINERS:
        entries = settings.get(container)
        if isinstance(entries, Mapping):
            items += [
                _item(str(name), entry, f"{origin}: {container}.{name}")
                for name, entry in entries.items()
            ]
    if items:
        return ImportPlan(tuple(items))
    return ImportPlan((), (f"{origin}: no MCP servers in it",))


def _settings(source: ImportSource) -> Mapping[str, Any]:
    text, where = source_text(source.path), str(source.path)
    if source.path.suffix == ".toml":
        import tomllib

        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ImportSourceError(where, f"expected TOML: {error}") from None
    try:
        value = parse(text, Dialect.JSONC).value
    except TextSyntaxError as error:
        raise ImportSourceError(where, str(error)) from None
    if not isinstance(value, dict):
        raise ImportSourceError(where, "expected an object")
    return value


def _item(name: str, entry: object, origin: str) -> ProposedItem:
    plain = plain_name(name)
    secrets: list[MovedSecret] = []
    problems = []
    config: dict[str, Any] = {}
    try:
        config = _config(plain, entry, secrets)
    except EntryError as error:
        problems.append(str(error))
    values = {
        "version": FIRST_VERSION,
        "tool_type": "mcp_server",
        "executor_id": RUNTIMES[config.get("transport", "stdio")],
        "category": SERVER_FOLDER,
        "description": f"The MCP server {plain}; run it, and it says which tools it has",
        "config": config,
    }
    words = [config.get("url") or config.get("command", ""), *config.get("args", ())]
    return ProposedItem(
        name=name,
        ref=ItemRef(Kind.TOOL, f"{SERVER_FOLDER}/{plain}"),
        suffix=SUFFIX,
        data=generated(f"Written by rye import from {PurePath(origin).name}.", values).encode(),
        origin=origin,
        shown=" ".join(map(str, words)),
        secrets=tuple(secrets),
        problems=tuple(problems),
    )


def _config(name: str, entry: object, secrets: list[MovedSecret]) -> dict[str, Any]:
    if not isinstance(entry, Mapping):
        raise EntryError(f"expected an object, found {json.dumps(entry)[:40]}")
    command, url = entry.get("command"), entry.get("url")
    if isinstance(command, str) and command:
        args = entry.get("args", [])
        if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
            raise EntryError("args: expected a list of texts")
        config: dict[str, Any] = {"transport": "stdio", "command": command, "args": args}
        env = dict(_moved(name, entry.get("env"), "env", secrets))
        return config | ({"env": env} if env else {})
    if isinstance(url, str) and url:
        headers = dict(_moved(name, entry.get("headers"), "headers", secrets))
        config = {"transport": "http", "url": url}
        return config | ({"headers": headers} if headers else {})
    raise EntryError("expected a command or a url, found neither")


def _moved(
    server: str, values: object, where: str, secrets: list[MovedSecret]
) -> Iterator[tuple[str, str]]:
    if not isinstance(values, Mapping | None):
        raise EntryError(f"{where}: expected an object")
    for name, value in (values or {}).items():
        if not isinstance(value, str):
            raise EntryError(f"{where}.{name}: expected a text")
        variable = "MCP_" + "".join(
            character if character.isascii() and character.isalnum() else "_"
            for character in f"{server}_{name}".upper()
        )
        secrets.append(MovedSecret(variable, value))
        yield str(name), f"${{{variable}}}"
