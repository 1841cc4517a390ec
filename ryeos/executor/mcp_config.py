"""Which MCP server a chain talks to, with nothing left to resolve. Forms: ``docs/mcp-tools.md``.

(1) the server item that the tool names, verified, from a space that the tool may use
(2) configs laid over each other: runtime, server item, tool
(3) names for templates: variables, and the engine's names; never what the caller says
(4) for a pipe: the command, or a server file, which is verified like a tool; for HTTP: the address

Every string comes from a signed file. What the caller says goes to the server as arguments of the
tool and nowhere else.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.errors import ConfigurationError
from lillux.mcp_client.versions import Wanted, wanted
from lillux.templating import Names, as_text, fill
from lillux.values import dataclass, field, replace
from ryeos.dependencies import DependencyRules, dependency_rules
from ryeos.errors import ExecutorNotFoundError, SpecError
from ryeos.executor.arguments import filled_arguments
from ryeos.executor.calls import Materials, Services, network_env
from ryeos.executor.chain import CompanionError
from ryeos.executor.limits import checked_limit
from ryeos.executor.mcp_variables import Variables, template_variables
from ryeos.executor.model import ChainElement
from ryeos.items import Kind
from ryeos.specs import type_name
from ryeos.verify import VerifiedItem

_STDIO = ("stdio",)
_HTTP = ("http", "streamable_http", "streamable-http", "sse")
_SERVER_PATH = "mcp_server_path"
SERVER_TYPE = "mcp_server"
_LONGEST_NAME = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """What both transports have in common.

    tool_name  empty where the server is asked for its list of tools
    config     the three configs, laid over each other
    variables  what ``${NAME}`` stands for, and warnings
    server     the server item, if the tool names one
    """

    tool_name: str
    config: Mapping[str, Any]
    names: Names
    variables: Variables
    wanted: Wanted
    timeout_s: float | None
    server: ChainElement | None = None

    def filled(self, key: str) -> str:
        """The text under a key, filled in; ``""`` where there is none. Raises SpecError."""
        value = self.config.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise SpecError(f"config.{key}", f"expected a string, got {type_name(value)}")
        return as_text(fill(value, self.names))

    def filled_mapping(self, key: str) -> dict[str, str]:
        """The mapping under a key, of the server item with the tool's over it, filled in."""
        return {name: as_text(fill(value, self.names)) for name, value in self.mapping(key).items()}

    def mapping(self, key: str) -> dict[str, Any]:
        """The mapping under a key, as it is written."""
        value = self.config.get(key) or {}
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
            raise SpecError(f"config.{key}", f"expected a mapping, got {type_name(value)}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A server's program. ``files`` are those of its files that lie in a space, verified."""

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    files: tuple[VerifiedItem, ...] = ()


def server_config(
    materials: Materials, services: Services, transports: tuple[str, ...]
) -> ServerConfig:
    """Steps (1) to (3). Raises SpecError, CompanionError, IntegrityError and kin."""
    tool = materials.chain.tool
    variables = template_variables(materials, services)
    names = Names(
        variables=variables.values,
        fixed={**materials.anchor.names, "tool_id": tool.item_id},
    )
    server = _server_item(materials, services, names)  # (1)
    config = _layered(materials, server)  # (2)
    _check_transport(config, server, transports)
    return ServerConfig(
        # A server that is run itself says which tools it has.
        tool_name="" if tool.spec.tool_type == SERVER_TYPE else _tool_name(config),
        config=config,
        names=names,  # (3)
        variables=variables,
        wanted=_wanted(config),
        timeout_s=_timeout_s(materials, server),
        server=server,
    )


def program(materials: Materials, services: Services) -> tuple[ServerConfig, Program]:
    """Step (4) for a pipe. Raises SpecError, CompanionError, IntegrityError and kin."""
    found = server_config(materials, services, _STDIO)
    names, config = found.names, found.config
    files: tuple[VerifiedItem, ...] = ()
    if config.get(_SERVER_PATH) is not None:
        path, files = _server_file(found, materials, services)
        names = Names(variables=names.variables, fixed={**names.fixed, _SERVER_PATH: path})
        words = _words(config) if config.get("command") else _launch_words(config, path)
    else:
        words = _words(config)
    command = as_text(fill(words[0], names))
    if not command.strip():
        raise SpecError("config.command", "expected a program, found nothing once it was filled in")
    argv = (command, *filled_arguments(command, list(words[1:]), names))
    cwd = _cwd(found, materials)
    files = (*files, *_named_files(argv, cwd, materials, services))
    own = found.filled_mapping("env")
    return found, Program(argv=argv, cwd=cwd, env={**materials.child_env, **own}, files=files)


def address(materials: Materials, services: Services) -> tuple[ServerConfig, str, dict[str, str]]:
    """Step (4) for HTTP: the config, the address and the headers. Raises SpecError and kin."""
    found = server_config(materials, services, _HTTP)
    url = _url(found)
    if not url:
        raise SpecError(
            "config.url",
            "expected the address of an MCP server, found none",
            hint="write config.url or config.server into the tool, or set MCP_ENDPOINT",
        )
    headers = _headers(found)
    if headers:
        _require_own_host(found, url, network_env(materials, services))
    return found, url, headers


# ---------------------------------------------------------------- the server item


def _server_item(materials: Materials, services: Services, names: Names) -> ChainElement | None:
    tool, config = materials.chain.tool, materials.config
    named, path = config.get("server"), config.get("server_config_path")
    for key, value in (("server", named), ("server_config_path", path)):
        if value is not None and not isinstance(value, str):
            raise SpecError(f"config.{key}", f"expected a string, got {type_name(value)}")
    server = _companion(named, tool, services) if named else None
    if path:
        by_path = services.companion_at(Path(as_text(fill(path, names))), tool)
        if by_path is None:
            raise CompanionError(
                str(path),
                "expected a server item of a space, found a file outside of all spaces",
                hint="put it below .ai/tools/ and sign it; then config.server can name it",
            )
        if server and server.item_id != by_path.item_id:
            raise SpecError(
                "config.server_config_path",
                f"expected the file of {server.item_id}, found that of {by_path.item_id}",
            )
        server = by_path
    if server and server.spec.tool_type != SERVER_TYPE:
        raise SpecError(
            "config.server",
            f"expected tool_type {SERVER_TYPE}, {server.item_id} is {server.spec.tool_type}",
        )
    return server


def _companion(item_id: str, tool: ChainElement, services: Services) -> ChainElement:
    try:
        return services.companion(item_id, tool)
    except ExecutorNotFoundError as error:
        raise CompanionError(
            f"server {item_id}",
            f"no such item in the spaces that {tool.item_id} may use",
            hint=error.hint,
        ) from None


def _layered(materials: Materials, server: ChainElement | None) -> dict[str, Any]:
    """The tool's own config over the server item's over the runtime's; mappings are joined."""
    own = materials.chain.tool.spec.config
    if server is None:
        return dict(materials.config)
    theirs = server.spec.config
    joined = {
        key: {**theirs[key], **own[key]}
        for key in ("env", "headers")
        if isinstance(theirs.get(key), dict) and isinstance(own.get(key), dict)
    }
    return {**materials.config, **theirs, **own, **joined}


def _check_transport(
    config: Mapping[str, Any], server: ChainElement | None, transports: tuple[str, ...]
) -> None:
    declared = (server.spec.config if server else config).get("transport")
    if declared is None or declared in transports:
        return
    known = {**dict.fromkeys(_STDIO, "stdio"), **dict.fromkeys(_HTTP, "http")}
    other = known.get(declared) if isinstance(declared, str) else None
    hint = f"a tool of this server has executor_id rye/core/runtimes/mcp/{other}" if other else ""
    raise SpecError(
        "config.transport", f"expected {transports[0]}, the server's is {declared!r}", hint=hint
    )


def _tool_name(config: Mapping[str, Any]) -> str:
    name = config.get("tool_name")
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME:
        raise SpecError(
            "config.tool_name",
            f"expected the name of a tool of the server, got {type_name(name)}",
        )
    return name


def _wanted(config: Mapping[str, Any]) -> Wanted:
    value = config.get("protocol_version", "auto")
    try:
        return wanted(str(value))
    except ConfigurationError as error:
        raise SpecError("config.protocol_version", str(error).partition(": ")[2]) from None


def _timeout_s(materials: Materials, server: ChainElement | None) -> float | None:
    """The chain's limit; a server item's own bounds it, unless caller or tool set one."""
    own = server.spec.config.get("timeout") if server else None
    is_set = materials.caller_timeout_s is not None
    if own is None or is_set or "timeout" in materials.chain.tool.spec.config:
        return materials.timeout_s
    limit_s = checked_limit("config.timeout", own)
    given = [seconds for seconds in (limit_s, materials.timeout_s) if seconds is not None]
    return min(given, default=None)


# ---------------------------------------------------------------- a server over a pipe


def _words(config: Mapping[str, Any]) -> tuple[object, ...]:
    command, args = config.get("command"), config.get("args")
    if not isinstance(command, str) or not command.strip():
        raise SpecError(
            "config.command",
            "expected the program of an MCP server, found none",
            hint="write config.server, config.command or config.mcp_server_path into the tool",
        )
    if not isinstance(args, list | None):
        raise SpecError("config.args", f"expected a list, got {type_name(args)}")
    return (command, *(args or ()))


def _launch_words(config: Mapping[str, Any], path: str) -> tuple[object, ...]:
    """How the runtime starts a file of this suffix; by itself where it does not say."""
    launchers = config.get("launchers") or {}
    if not isinstance(launchers, dict):
        raise SpecError("config.launchers", f"expected a mapping, got {type_name(launchers)}")
    words = launchers.get(Path(path).suffix.lower(), [f"{{{_SERVER_PATH}}}"])
    if not isinstance(words, list) or not words:
        raise SpecError("config.launchers", "expected a list of words for each suffix")
    args = config.get("args")
    if not isinstance(args, list | None):
        raise SpecError("config.args", f"expected a list, got {type_name(args)}")
    return (*words, *(args or ()))


def _server_file(
    found: ServerConfig, materials: Materials, services: Services
) -> tuple[str, tuple[VerifiedItem, ...]]:
    """The path of the server's file, and what of it was verified. Raises CompanionError."""
    template = found.config[_SERVER_PATH]
    path = Path(materials.anchor.names["tool_dir"], found.filled(_SERVER_PATH))
    if not path.is_file():
        raise CompanionError(str(path), "expected the file of an MCP server, found none")
    companion = services.companion_at(path, materials.chain.tool)
    if companion is None:
        if not Path(template).is_absolute():
            raise CompanionError(
                str(path),
                "expected a server file in a space, or an absolute path without placeholders",
                hint="put it below .ai/tools/ and sign it",
            )
        return str(path), ()
    rules = _file_rules(found.config)
    neighbours = services.neighbours(companion, rules) if rules.enabled else ()
    own = (companion.item,) if companion.item else ()
    return str(path), (*own, *neighbours)


def _named_files(
    argv: tuple[str, ...], cwd: Path, materials: Materials, services: Services
) -> Iterator[VerifiedItem]:
    """Files of spaces that the command itself names: they are code, or steer it."""
    excluded = set(_file_rules(materials.config).exclude_dirs)
    tool = materials.chain.tool.item
    suffixes = tool.target.space.suffixes(Kind.TOOL) if tool else Kind.TOOL.suffixes
    for word in argv:
        path = cwd / word
        if path.suffix.lower() not in suffixes or excluded & set(path.parts):
            continue
        if os.path.isfile(path):  # noqa: PTH113 - see `_cwd`
            element = services.companion_at(path, materials.chain.tool)
            if element and element.item:
                yield element.item


def _file_rules(config: Mapping[str, Any]) -> DependencyRules:
    declared = config.get("verify_files") or {}
    if not isinstance(declared, dict):
        raise SpecError("config.verify_files", f"expected a mapping, got {type_name(declared)}")
    return dependency_rules(declared)


def _cwd(found: ServerConfig, materials: Materials) -> Path:
    chosen = materials.values.steering.get("cwd") or found.filled("cwd") or materials.anchor.cwd
    if not isinstance(chosen, str):
        raise SpecError("cwd", f"expected a path, got {type_name(chosen)}")
    path = Path(materials.anchor.names["project_path"], chosen)
    if not os.path.isdir(path):  # noqa: PTH112 - says no to names that no system takes
        raise SpecError("cwd", f"expected a folder, found none at {str(path)[:200]}")
    return path


# ---------------------------------------------------------------- a server over HTTP


def _url(found: ServerConfig) -> str:
    url = found.filled("url") or found.filled("base_url")
    return (url or found.names.variables.get("MCP_ENDPOINT", "")).strip()


def _require_own_host(found: ServerConfig, url: str, variables: Mapping[str, str]) -> None:
    """Headers may hold secrets: they go to no host that an unsigned ``.env`` chooses."""
    from lillux.http.model import parse_address

    signed = _url(replace(found, names=replace(found.names, variables=variables)))
    if signed and parse_address(signed).origin == parse_address(url).origin:
        return
    raise SpecError(
        "config.url",
        "expected a host that no .env file chooses, as headers are sent to it",
        hint="write the host into the signed item, or set the variable in the environment",
    )


def _headers(found: ServerConfig) -> dict[str, str]:
    for name, template in found.mapping("headers").items():
        missing = found.variables.missing_in(template)
        if missing:
            raise SpecError(
                f"config.headers.{name}",
                f"expected the environment variable {missing}, which is not set",
                hint=f"set {missing} in the environment or in a .env file",
            )
    headers = found.filled_mapping("headers")
    for name, value in headers.items():
        if any(character < " " or character == "\x7f" for character in f"{name}{value}"):
            raise SpecError(
                f"config.headers.{name}", "expected one line, found a control character"
            )
    return headers
