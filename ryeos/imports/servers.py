"""MCP servers in the settings of a client, read as server items. Nothing is started."""

import json
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from lillux.dotenv_files import NEVER_FROM_DOTENV
from lillux.errors import LilluxError
from lillux.jsonc import Dialect, JsonNode, TextSyntaxError, is_blank, parse
from ryeos.imports.clients import find_client, starts_rye
from ryeos.imports.entry_secrets import Secrets
from ryeos.imports.launches import EntryError, Launch, launch_of, words_of
from ryeos.imports.placeholders import own_folders, translated
from ryeos.imports.plan import (
    MAX_ITEMS,
    ImportPlan,
    ImportSource,
    ProposedItem,
    plain_name,
    shown_path,
    source_error,
    source_text,
)
from ryeos.imports.proposed_rights import proposed_rights, rights_of_address
from ryeos.imports.server_items import (
    FIRST_VERSION,
    RUNTIMES,
    SERVER_FOLDER,
    SUFFIX,
    VARIABLE,
    generated,
    valid_server_id,
)
from ryeos.items.errors import UsageError
from ryeos.items.refs import ItemRef, Kind
from ryeos.run.server_command import words_from_anywhere

CONTAINERS = (
    ("mcpServers",),
    ("servers",),
    ("context_servers",),
    ("mcp_servers",),
    ("mcp", "servers"),
    ("mcp",),
    ("amp.mcpServers",),
)
ADDRESS_KEYS = ("url", "httpUrl", "serverUrl", "endpoint")
_CHOICES = ("includeTools", "excludeTools", "enabled_tools", "disabled_tools", "alwaysAllow")


def read_servers(source: ImportSource) -> ImportPlan:
    """A server item for each entry. Raises RyeError `IMPORT_UNREADABLE`."""
    settings, twice = _settings(source)
    origin = shown_path(source.path, source.project)
    items, left_out = list[ProposedItem](), 0
    for path, entries in _containers(settings, source) or _flat(settings):
        left_out += max(0, len(entries) - MAX_ITEMS)
        for name, entry in list(entries.items())[:MAX_ITEMS]:
            where = ".".join((*path, str(name)))
            doubled = where in twice
            items.append(
                _Entry(str(name), entry, f"{origin}: {where}", source).item(doubled=doubled)
            )
    notes = () if items else (f"{origin}: no MCP servers in it",)
    return ImportPlan(tuple(items), notes, left_out)


def _flat(settings: Mapping[str, Any]) -> list[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Entries that stand at the top, as in the ``.mcp.json`` of a plugin, by what they have."""
    found = {name: entry for name, entry in settings.items() if _is_server(entry)}
    return [((), found)] if found else []


def _is_server(entry: object) -> bool:
    return isinstance(entry, Mapping) and any(
        isinstance(entry.get(key), str | list) for key in ("command", *ADDRESS_KEYS)
    )


def has_servers(settings: Mapping[str, Any]) -> bool:
    """True if settings, of any client, hold servers: in a place that is known, or nothing else."""
    for place in CONTAINERS:
        found: object = settings
        for name in place:
            found = found.get(name) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping) and any(map(_is_server, found.values())):
            return True
    return bool(settings) and all(map(_is_server, settings.values()))


def _settings(source: ImportSource) -> tuple[Mapping[str, Any], frozenset[str]]:
    """The content of a settings file, and the paths of members that it has twice."""
    text, where = source_text(source.path), str(source.path)
    if source.path.suffix == ".toml":
        import tomllib

        try:
            return tomllib.loads(text), frozenset()
        except tomllib.TOMLDecodeError as error:
            raise source_error(where, f"expected TOML: {error}") from None
    try:
        node = parse("{}" if is_blank(text, Dialect.JSONC) else text, Dialect.JSONC)
    except TextSyntaxError as error:
        raise source_error(where, str(error)) from None
    if not isinstance(node.value, dict):
        raise source_error(where, "expected an object")
    return node.value, frozenset(_duplicate_keys(node, ()))


def _duplicate_keys(node: JsonNode, path: tuple[str, ...], depth: int = 4) -> Iterator[str]:
    names = [member.name for member in node.members or ()]
    for member in node.members or ():
        if names.count(member.name) > 1:
            yield ".".join((*path, member.name))
        if depth:
            yield from _duplicate_keys(member.node, (*path, member.name), depth - 1)


def _containers(
    settings: Mapping[str, Any], source: ImportSource
) -> list[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """The place of the entries: the client's own, or every place that is known."""
    known = (find_client(source.client).container,) if source.client else CONTAINERS
    places = [*known]
    if source.project:  # Claude Code keeps what belongs to one project by its path
        places.append(("projects", str(source.project), "mcpServers"))
    listed: list[tuple[tuple[str, ...], Mapping[str, Any]]] = []
    for path in places:
        found: object = settings
        for name in path:
            found = found.get(name) if isinstance(found, Mapping) else None
        is_other = path == ("mcp",) and isinstance(settings.get("mcp"), Mapping)
        if is_other and "servers" in settings["mcp"]:
            continue  # of VS Code, and read above
        if isinstance(found, Mapping) and all(found is not one for _, one in listed):
            listed.append((path, found))
    return listed


class _Entry:
    """One entry of settings, on its way to an item."""

    def __init__(self, name: str, entry: object, origin: str, source: ImportSource) -> None:
        self._name, self._entry, self._origin, self._source = name, entry, origin, source
        self._plain = plain_name(name)
        self._secrets = Secrets(self._plain)
        self._notes: list[str] = []
        self._folders = own_folders(source)

    def item(self, *, doubled: bool) -> ProposedItem:
        """The item; what keeps it from being made is among its problems."""
        problems = ["another entry of this file has this name too"] if doubled else []
        values: dict[str, Any] = {}
        launch = Launch(words=(), held="tools only: what an address answers cannot be held")
        try:
            valid_server_id(self._plain)
            launch, values = self._values(launch)
        except (EntryError, UsageError) as error:
            problems.append(str(error))
        except LilluxError as error:
            problems.append(f"{self._name}: {error}")
        config = values.get("config", {})
        if self._plain != self._name:
            self._notes.append(f"it is called {json.dumps(self._name)[:80]} there")
        return ProposedItem(
            name=self._name,
            ref=ItemRef(Kind.TOOL, f"mcp/servers/{self._plain}"),
            suffix=SUFFIX,
            data=generated("Written by rye import.", values).encode() if values else b"",
            origin=self._origin,
            shown=_start_text(config),
            held="" if problems else launch.held,
            notes=(*launch.notes, *self._notes),
            secrets=self._secrets.moved,
            problems=tuple(problems),
        )

    def _values(self, launch: Launch) -> tuple[Launch, dict[str, Any]]:
        entry = self._entry
        if not isinstance(entry, Mapping):
            raise EntryError(f"expected an object, found {json.dumps(entry, default=str)[:40]}")
        started = self._command(entry)
        if started:
            launch, config, rights = started
        else:
            config, rights = self._address(entry)
        if entry.get("disabled") is True or entry.get("enabled") is False:
            self._notes.append("it is switched off there")
        if any(entry.get(key) for key in _CHOICES):
            self._notes.append("its client chooses among its tools; here: rye mcp refresh --only")
        for variable in self._secrets.prompted_variables:
            self._notes.append(f"its client asks for a value: set {variable} yourself")
        return launch, {
            "version": FIRST_VERSION,
            "tool_type": "mcp_server",
            "executor_id": RUNTIMES[config["transport"]],
            "category": SERVER_FOLDER,
            "description": f"The MCP server {self._plain}; run it, and it says which tools it has",
            "sandbox": rights,
            "config": config,
        }

    def _command(
        self, entry: Mapping[str, Any]
    ) -> tuple[Launch, dict[str, Any], dict[str, Any]] | None:
        command, args, env = entry.get("command"), entry.get("args"), entry.get("env")
        if isinstance(command, Mapping):  # of older settings of Zed
            args, env = command.get("args", args), command.get("env", env)
            command = command.get("path")
        if isinstance(command, list):
            command, args = (command[0] if command else ""), command[1:]
        if not command:
            return None
        given = [command, *(args or ())] if isinstance(args, list | None) else []
        texts = [text for text in given if isinstance(text, str)]
        if not given or len(texts) < len(given):
            raise EntryError("command, args: expected a text and a list of texts")
        filled = [self._text(text, f"args[{number - 1}]") for number, text in enumerate(texts)]
        words = words_of(filled[0].strip(), filled[1:])
        if self._source.project is None and not entry.get("cwd"):
            folder = self._source.path.absolute().parent
            written, words = words, words_from_anywhere(words, folder)
            if words != written:
                self._notes.append("relative paths are written whole: it starts in user space")
        if starts_rye(words):
            raise EntryError("it is Rye itself")
        launch = launch_of((words[0], *self._secrets.words(words[1:])))
        own = dict(self._env(env if env is not None else entry.get("environment"), entry))
        config: dict[str, Any] = {"transport": "stdio"}
        if launch.package:
            config["package"] = {launch.package.ecosystem: launch.package.spec}
            if launch.package.program:
                config["package"]["program"] = launch.package.program
            config["args"] = list(launch.words)
        else:
            config |= {"command": launch.words[0], "args": list(launch.words[1:])}
        config |= {"env": own} if own else {}
        cwd = entry.get("cwd")
        config |= {"cwd": self._text(cwd, "cwd")} if isinstance(cwd, str) and cwd else {}
        has_network = bool(self._secrets.moved or self._secrets.prompted_variables)
        has_network = has_network or any("${" in value or "://" in value for value in own.values())
        rights = proposed_rights(
            launch, list(own), has_network=has_network, project=self._source.project
        )
        return launch, config, rights

    def _env(self, env: object, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        if not isinstance(env, Mapping | None):
            raise EntryError("env: expected an object")
        for name, value in (env or {}).items():
            where = f"env.{name}"
            _require_variable(str(name), where)
            if any(fnmatchcase(str(name), pattern) for pattern in NEVER_FROM_DOTENV):
                self._notes.append(f"it sets {name}: programs load or run other code by it")
            if isinstance(value, bool | int | float):
                value = json.dumps(value)  # noqa: PLW2901
            if not isinstance(value, str):
                raise EntryError(f"{where}: expected a text")
            text = self._text(value, where, bare=True)
            yield str(name), self._secrets.variable_value(str(name), text, where)
        for forwarded in entry.get("env_vars") or ():
            if isinstance(forwarded, str):
                _require_variable(forwarded, "env_vars")
                yield forwarded, f"${{{forwarded}}}"
        if entry.get("envFile"):
            self._notes.append("its envFile is not read: name its variables under env")

    def _address(self, entry: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        url = next((entry[key] for key in ADDRESS_KEYS if isinstance(entry.get(key), str)), "")
        if not url:
            raise EntryError("expected a command or a url, found neither")
        address = self._secrets.address(self._text(url, "url"))
        if "${" in address.partition("://")[2].partition("/")[0]:
            raise EntryError("url: expected a host, found a variable in its place")
        rights = rights_of_address(address)
        headers = dict(self._headers(entry))
        config: dict[str, Any] = {"transport": "http", "url": address}
        return config | ({"headers": headers} if headers else {}), rights

    def _headers(self, entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        written = entry.get("headers") or entry.get("http_headers") or {}
        named = entry.get("env_http_headers") or {}
        if not isinstance(written, Mapping) or not isinstance(named, Mapping):
            raise EntryError("headers: expected an object")
        for name, value in written.items():
            if not isinstance(value, str):
                raise EntryError(f"headers.{name}: expected a text")
            text = self._text(value, f"headers.{name}")
            yield str(name), self._secrets.header_value(str(name), text, f"headers.{name}")
        for name, variable in named.items():
            _require_variable(variable, f"env_http_headers.{name}")
            yield str(name), f"${{{variable}}}"
        bearer = entry.get("bearer_token_env_var")
        if bearer:
            _require_variable(bearer, "bearer_token_env_var")
            yield "Authorization", f"Bearer ${{{bearer}}}"

    def _text(self, text: str, where: str, *, bare: bool = False) -> str:
        own = self._secrets.variable_for_prompt
        return translated(text, where, own, folders=self._folders, bare=bare)


def _require_variable(name: object, where: str) -> None:
    if not isinstance(name, str) or not VARIABLE.fullmatch(name):
        raise EntryError(f"{where[:80]}: expected the name of a variable")


def _start_text(config: Mapping[str, Any]) -> str:
    package = config.get("package") or {}
    first = next(iter(package.items()), None)
    start = f"{first[0]} {first[1]}" if first else config.get("url") or config.get("command", "")
    return " ".join([start, *config.get("args", ())])
