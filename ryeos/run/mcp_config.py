"""The config of a call to an MCP server, with nothing left to resolve. Forms: ``docs/mcp.md``.

(1) the server item that the tool names, verified, from a space that the tool may use
(2) configs laid over each other: runtime, server item, tool
(3) names for templates: variables, and the engine's names; never what the caller says
(4) for HTTP: the address; for a pipe: the command, or a server file, which is verified like a
    tool, see `ryeos.run.mcp_program`

Every string comes from a signed file. What the caller says goes to the server as arguments of the
tool and nowhere else, but for `mcp_server_path` where the tool's schema has it: the file of a
space, which is verified.

``${NAME}`` stands for a variable. Later ones win: ``.ai/.env`` of the user, ``.ai/.env``, ``.env``
and ``.env.local`` of the project, over what the process has; and over all of them what the chain
itself sets. The files are unsigned: what `lillux.variables` never takes from one, it does not take
here either.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lillux.dotenv_files import read_dotenv
from lillux.errors import ConfigurationError, LilluxError
from lillux.mcp_client.versions import START_S, AllowedVersions, wanted
from lillux.templating import Names, as_text, fill
from lillux.values import dataclass, field, replace
from ryeos.items.errors import ExecutorNotFoundError, SpecError
from ryeos.items.refs import AI_DIRECTORY
from ryeos.items.specs import type_name
from ryeos.run.calls import Materials, Services, network_env
from ryeos.run.chain import companion_error
from ryeos.run.limits import valid_limit
from ryeos.run.model import ChainElement
from ryeos.run.server_pins import ServerPins, approved_tool, read_pins, required_tools
from ryeos.trust.approvals import not_approved, path_in_project

_REQUIRED = re.compile(r"\$\{([A-Z_][A-Z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Variables:
    """The values by name, and warnings about the files they come from."""

    values: Mapping[str, str] = field(repr=False)
    warnings: tuple[str, ...] = ()

    def missing_in(self, template: object) -> str:
        """The first variable without default that a text asks for and that is empty, or ``""``."""
        names = _REQUIRED.findall(template) if isinstance(template, str) else []
        return next((name for name in names if not self.values.get(name)), "")


def template_variables(materials: Materials, services: Services) -> Variables:
    """The variables for one call."""
    project = Path(materials.anchor.names["project_path"])
    user = Path(materials.anchor.names["user_space"])
    files = (
        (user / AI_DIRECTORY, ".env"),
        (project / AI_DIRECTORY, ".env"),
        (project, ".env"),
        (project, ".env.local"),
    )
    set_by_chain = materials.env.contributed
    values = dict(materials.env.variables)
    warnings: list[str] = []
    for folder, name in files:
        relative = path_in_project(project, str(folder / name))
        is_projects = relative is not None and folder.parent != user

        def allows(data: bytes, path: str = relative or "", file: Path = folder / name) -> bool:
            if services.approves(path, data):
                return True
            if file != project / ".env":
                warnings.append(not_approved(str(file), "read"))
            return False

        found = read_dotenv(
            folder, services.own_environment(), name=name, allows=allows if is_projects else None
        )
        kept_out = {*set_by_chain, *services.withheld}
        values |= {key: text for key, text in found.variables.items() if key not in kept_out}
        # The project's own `.env` was read before, and its warnings reported.
        if (folder, name) != (project, ".env"):
            warnings.extend(found.warnings)
    return Variables(values, tuple(warnings))


STDIO = ("stdio",)
_HTTP = ("http", "streamable_http", "streamable-http", "sse")
SERVER_PATH = "mcp_server_path"
SERVER_TYPE = "mcp_server"
_LONGEST_NAME = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The config that both transports have in common.

    tool_name  empty where the server is asked for its list of tools
    config     the three configs, laid over each other
    variables  what ``${NAME}`` stands for, and warnings
    start_s    how long the server may take for everything but the call of a tool
    server     the server item, if the tool names one
    pins       what the server is held to
    requires   what a call requires of the server's list of tools
    """

    tool_name: str
    config: Mapping[str, Any]
    names: Names
    variables: Variables
    wanted: AllowedVersions
    timeout_s: float | None
    start_s: float = START_S
    server: ChainElement | None = None
    pins: ServerPins = ServerPins()
    requires: Callable[[Mapping[str, Any]], LilluxError | None] | None = None

    def filled(self, key: str) -> str:
        """The text under a key, filled in; ``""`` if absent. Raises SpecError."""
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


def server_config(
    materials: Materials, services: Services, transports: tuple[str, ...]
) -> ServerConfig:
    """Steps (1) to (3). Raises SpecError, ChainError, IntegrityError and similar."""
    tool = materials.chain.tool
    variables = template_variables(materials, services)
    names = Names(
        variables=variables.values,
        fixed={**materials.anchor.names, "tool_id": tool.item_id},
    )
    server = _server_item(materials, services, names)  # (1)
    config = _layered_config(materials, server)  # (2)
    _validate_transport(config, server, transports)
    # A server that is run itself says which tools it has.
    tool_name = "" if tool.spec.tool_type == SERVER_TYPE else _tool_name(config)
    pins = read_pins(server.spec.config if server else config)
    return ServerConfig(
        tool_name=tool_name,
        config=config,
        names=names,  # (3)
        variables=variables,
        wanted=_allowed_versions(config),
        timeout_s=_timeout_s(materials, server),
        start_s=valid_limit("config.start_timeout", config.get("start_timeout")) or START_S,
        server=server,
        pins=pins,
        requires=required_tools(
            (server or tool).item_id, pins, tool_name, approved_tool(tool.spec)
        ),
    )


def address(materials: Materials, services: Services) -> tuple[ServerConfig, str, dict[str, str]]:
    """Step (4) for HTTP: the config, the address and the headers. Raises SpecError and similar."""
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
            raise companion_error(
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
        found = server.spec.tool_type or "a module without a header"
        raise SpecError(
            "config.server",
            f"expected tool_type {SERVER_TYPE}, {server.item_id} is {found}",
            hint="the file of a server's program is named by config.mcp_server_path",
        )
    return server


def _companion(item_id: str, tool: ChainElement, services: Services) -> ChainElement:
    try:
        return services.companion(item_id, tool)
    except ExecutorNotFoundError as error:
        raise companion_error(
            f"server {item_id}",
            f"no such item in the spaces that {tool.item_id} may use",
            hint=error.hint,
        ) from None


def _layered_config(materials: Materials, server: ChainElement | None) -> dict[str, Any]:
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


def _validate_transport(
    config: Mapping[str, Any], server: ChainElement | None, transports: tuple[str, ...]
) -> None:
    declared = (server.spec.config if server else config).get("transport")
    if declared is None or declared in transports:
        return
    known = {**dict.fromkeys(STDIO, "stdio"), **dict.fromkeys(_HTTP, "http")}
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


def _allowed_versions(config: Mapping[str, Any]) -> AllowedVersions:
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
    limit_s = valid_limit("config.timeout", own)
    given = [seconds for seconds in (limit_s, materials.timeout_s) if seconds is not None]
    return min(given, default=None)


def _url(found: ServerConfig) -> str:
    url = found.filled("url") or found.filled("base_url")
    return (url or found.names.variables.get("MCP_ENDPOINT", "")).strip()


def _require_own_host(found: ServerConfig, url: str, variables: Mapping[str, str]) -> None:
    """Headers may hold secrets: they go to no host that an unsigned ``.env`` chooses."""
    from lillux.http.urls import parse_address

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
