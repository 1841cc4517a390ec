"""Calls of tools of MCP servers, over a pipe and over HTTP. See ``docs/mcp.md``.

Everything is resolved and verified when a call is made; before it starts, the bytes are looked at
once more.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.errors import ConfigurationError, LilluxError
from lillux.fields import ABSENT
from lillux.mcp_client.session import (
    ClientInfo,
    McpClientError,
    McpServerEndedError,
    ToolAnswer,
    ToolCall,
    ToolListing,
)
from lillux.mcp_client.versions import PROBE_S, START_S, AllowedVersions, wanted
from lillux.templating import Names, as_text, fill
from lillux.values import dataclass, field, replace
from lillux.variables import read_dotenv
from ryeos import __version__
from ryeos.items.errors import ExecutorNotFoundError, SpecError
from ryeos.items.refs import AI_DIRECTORY, PROJECT, Kind, tier_of
from ryeos.items.specs import type_name
from ryeos.run.calls import (
    STDERR_TAIL_CHARACTERS,
    Call,
    MappedResult,
    Materials,
    OnStderr,
    Services,
    network_env,
)
from ryeos.run.chain import companion_error
from ryeos.run.command import (
    command_of,
    companion_named,
    filled_arguments,
    held_start,
    masked,
    max_output_bytes,
    opened,
)
from ryeos.run.held import STARTER, HeldStart, in_environment
from ryeos.run.model import ChainElement, Invocation
from ryeos.run.parameters import valid_limit
from ryeos.run.server_command import files_of_config, server_folder
from ryeos.run.server_pins import (
    NPM,
    ServerInstaller,
    ServerPackage,
    ServerPins,
    approved_tool,
    read_package,
    read_pins,
    require_files,
    required_tools,
)
from ryeos.run.silent_servers import SilentServer
from ryeos.trust.approvals import not_approved, path_in_project
from ryeos.trust.verify import DependencyRules, VerifiedItem, dependency_rules, unchanged

if TYPE_CHECKING:
    from lillux.http.model import Address
    from lillux.sandbox import Confinement
    from ryeos.run.confinement import CallRights


# --- mcp results ----------------------------------------------------------------------------------
# From the answer of an MCP server to a result. Pure. Shapes: ``docs/mcp.md``.


def map_answer(tool_name: str, answer: ToolAnswer, metadata: Mapping[str, Any]) -> MappedResult:
    """``{success, tool, content, isError, structuredContent?}``; a lone JSON text is lifted."""
    result = answer.result
    content = result.get("content", [])
    is_error = result.get("isError", False)
    data: dict[str, Any] = {
        "success": not is_error,
        "tool": tool_name,
        "content": content,
        "isError": is_error,
    }
    if "structuredContent" in result:
        data["structuredContent"] = result["structuredContent"]
    parsed = _only_json(content)
    if parsed is not None:
        data["parsed"] = parsed
        if isinstance(parsed, dict):
            data = {**parsed, **data}
    error = None
    if is_error:
        error = _text(content) or f"{tool_name} reported a failure and gave no reason"
        data["error"] = error
    return MappedResult(
        success=not is_error,
        data=data,
        error=error,
        code="EXECUTION_FAILED" if is_error else "",
        metadata={**metadata, "protocol_version": answer.version},
    )


def map_listing(answer: ToolAnswer, metadata: Mapping[str, Any]) -> MappedResult:
    """``{success, tools, truncated}``, the tools as the server describes them."""
    return MappedResult(
        success=True,
        data={"success": True, **answer.result},
        error=None,
        code="",
        metadata={**metadata, "protocol_version": answer.version},
    )


def map_failure(
    tool_name: str, error: LilluxError, where: Mapping[str, Any], metadata: Mapping[str, Any]
) -> MappedResult:
    """A conversation that gave no answer: ``{success, tool, error, error_type, url|command}``."""
    kind = error.kind if isinstance(error, McpClientError) else "transport"
    data = {
        "success": False,
        "tool": tool_name,
        "error": str(error),
        "error_type": kind,
        **where,
    }
    return MappedResult(
        success=False, data=data, error=str(error), code=error.code, metadata=dict(metadata)
    )


def stderr_tail(text: str) -> dict[str, str]:
    """What the end of a standard error adds to the metadata."""
    return {"stderr": text[-STDERR_TAIL_CHARACTERS:]} if text else {}


def _only_json(content: list[Mapping[str, Any]]) -> Any:  # noqa: ANN401 - JSON passes through
    """The JSON in the only block of a content, None where it is something else."""
    if len(content) != 1 or content[0].get("type") != "text":
        return None
    text = content[0].get("text")
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        return None


def _text(content: list[Mapping[str, Any]]) -> str:
    texts = (block.get("text") for block in content if block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str)).strip()


# --- mcp variables --------------------------------------------------------------------------------
# What ``${NAME}`` stands for in the config of an MCP server.
#
# Later ones win: ``.ai/.env`` of the user, ``.ai/.env``, ``.env`` and ``.env.local`` of the
# project, over what the process has; and over all of them what the chain itself sets. The files are
# unsigned: what `lillux.variables` never takes from one, it does not take here either.

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


# --- mcp config -----------------------------------------------------------------------------------
# Which MCP server a chain talks to, with nothing left to resolve. Forms: ``docs/mcp.md``.
#
# (1) the server item that the tool names, verified, from a space that the tool may use
# (2) configs laid over each other: runtime, server item, tool
# (3) names for templates: variables, and the engine's names; never what the caller says
# (4) for a pipe: the command, or a server file, which is verified like a tool; for HTTP: the
#     address
#
# Every string comes from a signed file. What the caller says goes to the server as arguments of the
# tool and nowhere else, but for `mcp_server_path` where the tool's schema has it: the file of a
# space, which is verified.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerProgram:
    """A server's program. ``files`` are those of its files that lie in a space, verified.

    ``installed`` is the folder of its package, None for one that is no package.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str] = field(repr=False)
    files: tuple[VerifiedItem, ...] = ()
    installed: Path | None = None


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


def program(materials: Materials, services: Services) -> tuple[ServerConfig, ServerProgram]:
    """Step (4) for a pipe. Raises SpecError, ChainError, IntegrityError and similar."""
    found = server_config(materials, services, _STDIO)
    names, config = found.names, found.config
    files: tuple[VerifiedItem, ...] = ()
    installed = None
    package = read_package(config, (found.server or materials.chain.tool).item_id)
    if package:
        started, installed = _install_package(found, package, materials, services)
        words: tuple[object, ...] = (*started, *_arguments_of(config))
    elif config.get(_SERVER_PATH) is not None or _chosen_path(materials) is not None:
        path, files = _server_file(found, materials, services)
        names = Names(variables=names.variables, fixed={**names.fixed, _SERVER_PATH: path})
        words = _words(config) if config.get("command") else _launch_words(config, path)
    else:
        words = _words(config)
    found = replace(found, names=names)
    server = started_server(
        found,
        words,
        tier=_tier_of_program(found, materials, files),
        env=server_environment(materials.child_env, _tier(found, materials)),
        caller_cwd=materials.caller_cwd,
        default=materials.anchor.cwd,
    )
    files = (*files, *_named_files(server.argv, server.cwd, materials, services))
    return found, replace(server, files=files, installed=installed)


def started_server(
    found: ServerConfig,
    words: tuple[object, ...],
    *,
    tier: str,
    env: Mapping[str, str],
    caller_cwd: object = None,
    default: str = "",
) -> ServerProgram:
    """The program of a server: its words, its folder, its variables.

    Every start is made here, that of a server that is only proposed as well. Raises SpecError.
    """
    command = as_text(fill(words[0], found.names))
    if not command.strip():
        raise SpecError("config.command", "expected a program, found nothing once it was filled in")
    return ServerProgram(
        argv=(command, *filled_arguments(command, list(words[1:]), found.names)),
        cwd=_cwd(found, tier, caller_cwd, default),
        env={**env, **found.filled_mapping("env")},
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


# ---------------------------------------------------------------- a server over a pipe


def _words(config: Mapping[str, Any]) -> tuple[object, ...]:
    command = config.get("command")
    if not isinstance(command, str) or not command.strip():
        raise SpecError(
            "config.command",
            "expected the program of an MCP server, found none",
            hint="write config.server, config.command or config.mcp_server_path into the tool",
        )
    return (command, *_arguments_of(config))


def _arguments_of(config: Mapping[str, Any]) -> tuple[object, ...]:
    args = config.get("args")
    if not isinstance(args, list | None):
        raise SpecError("config.args", f"expected a list, got {type_name(args)}")
    return tuple(args or ())


def _install_package(
    found: ServerConfig, package: ServerPackage, materials: Materials, services: Services
) -> tuple[tuple[str, ...], Path]:
    """The words that start a package, and its folder. Raises PackagesError, IntegrityError."""
    import sys

    from ryeos.run.packages import ENVIRONMENTS, PYTHON, PackageList, PackagesError, list_path

    element = found.server or materials.chain.tool

    def list_of_packages() -> PackageList:
        path = list_path(element.path) if element.path else None
        listed = services.companion_at(path, element) if path and path.is_file() else None
        lines = listed.spec.config.get("requirements") if listed else None
        if not (path and listed and listed.item and isinstance(lines, list)):
            raise PackagesError(
                f"{path or element.item_id}: the list of packages is not there",
                hint=f"to find it, and approve it: rye mcp refresh {package.server}",
            )
        made_for = str(listed.spec.config.get("made_for") or "")
        return PackageList(listed.item, tuple(map(str, lines)), made_for)

    variable = "RYE_NODE" if package.ecosystem == NPM else PYTHON
    place = Path(materials.anchor.names["user_space"], AI_DIRECTORY, ENVIRONMENTS)
    return ServerInstaller(services.runner, services.own_environment(), sys.platform).program(
        package,
        list_of_packages,
        materials.env.variables.get(variable, ""),
        place,
        make=not materials.request.dry_run,
    )


def _launch_words(config: Mapping[str, Any], path: str) -> tuple[object, ...]:
    """How the runtime starts a file of this suffix; by itself where it does not say."""
    launchers = config.get("launchers") or {}
    if not isinstance(launchers, dict):
        raise SpecError("config.launchers", f"expected a mapping, got {type_name(launchers)}")
    words = launchers.get(Path(path).suffix.lower(), [f"{{{_SERVER_PATH}}}"])
    if not isinstance(words, list) or not words:
        raise SpecError("config.launchers", "expected a list of words for each suffix")
    return (*words, *_arguments_of(config))


def _server_file(
    found: ServerConfig, materials: Materials, services: Services
) -> tuple[str, tuple[VerifiedItem, ...]]:
    """The path of the server's file, and what of it was verified. Raises ChainError."""
    template, chosen = found.config.get(_SERVER_PATH), _chosen_path(materials)
    path = Path(materials.anchor.names["tool_dir"], found.filled(_SERVER_PATH))
    if template is None and chosen is not None:
        path = Path(materials.anchor.names["project_path"], chosen)
    if not os.path.isfile(path):  # noqa: PTH113 - says no to names that no system takes
        raise companion_error(str(path), "expected the file of an MCP server, found none")
    companion = services.companion_at(path, materials.chain.tool)
    if companion is None:
        if template is None or not Path(template).is_absolute():
            raise companion_error(
                str(path),
                "expected a server file in a space, or an absolute path without placeholders",
                hint="put it below .ai/tools/ and sign it",
            )
        return str(path), ()
    if template is None and companion.spec.executor_id is ABSENT:
        # A module was signed to be imported: the caller does not make a program of it.
        raise companion_error(
            str(path),
            "expected a tool as the server file that a caller chooses, found a module",
            hint="write mcp_server_path into the config of the tool, or give the file a header",
        )
    rules = _file_rules(found.config)
    neighbours = services.neighbours(companion, rules) if rules.enabled else ()
    own = (companion.item,) if companion.item else ()
    return str(path), (*own, *neighbours)


def _chosen_path(materials: Materials) -> str | None:
    """The server file that the caller chose, where the tool's schema lets it and no file says."""
    schema = materials.chain.tool.spec.config_schema or {}
    properties = schema.get("properties")
    value = materials.values.tool.get(_SERVER_PATH)
    is_declared = isinstance(properties, Mapping) and _SERVER_PATH in properties
    return value if is_declared and isinstance(value, str) else None


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


def _tier(found: ServerConfig, materials: Materials) -> str:
    return tier_of((found.server or materials.chain.tool).space)


def server_environment(env: Mapping[str, str], tier: str) -> Mapping[str, str]:
    """The environment of a server; one of user space imports nothing of the working folder.

    ``python -m`` and ``-c`` look there first, and it is the project, where agents write (Python
    3.11 and later).
    """
    return env if tier == PROJECT else {"PYTHONSAFEPATH": "1", **env}


def _tier_of_program(
    found: ServerConfig, materials: Materials, files: tuple[VerifiedItem, ...]
) -> str:
    """The space of what is started: a file of the project, or what the server's item says."""
    is_projects = any(item.target.space.tier == PROJECT for item in files)
    return PROJECT if is_projects else _tier(found, materials)


def _cwd(found: ServerConfig, tier: str, caller_cwd: object, default: str) -> Path:
    """The folder of a server, by `server_folder`. Raises SpecError."""
    fixed = found.names.fixed
    chosen: object = found.filled("cwd")
    if tier == PROJECT:
        chosen = caller_cwd or chosen or default
    elif caller_cwd:
        raise SpecError(
            "cwd",
            "expected none from the caller: the item of a server of user space or of a bundle says"
            " where it is started",
            hint='a person can write into the config of its item: cwd: "{project_path}"',
        )
    if not isinstance(chosen, str):
        raise SpecError("cwd", f"expected a path, got {type_name(chosen)}")
    project, user = str(fixed["project_path"]), str(fixed["user_space"])
    path = server_folder(chosen, tier, project=project, user=user)
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


# --- mcp call -------------------------------------------------------------------------------------

CLIENT = ClientInfo("rye", __version__)
_OWN_VARIABLES = ("RYE_", "LILLUX_")


def mcp_stdio_call(materials: Materials, services: Services) -> Call:
    """The call for a server that is started. Raises SpecError, ChainError and similar."""
    found, server = program(materials, services)
    rights = materials.rights.narrowed(found.server.spec.sandbox if found.server else None)
    files = tuple(item.target.path for item in server.files)
    files += (server.installed,) if server.installed else ()
    allows = rights.allows_variable(materials.env)
    server = replace(server, env=server_variables(server.env, found, allows))
    program_path = rights.program(server.argv[0], server.env, str(server.cwd))
    rights = replace(rights, own_files=(*rights.own_files, *files))
    return McpStdioCall(
        found=found,
        server=server,
        arguments=_arguments(materials),
        contributed=materials.env.contributed,
        invocation=Invocation(
            argv=(program_path, *server.argv[1:]),
            env=server.env,
            cwd=server.cwd,
            stdin=b"",
            timeout_s=found.timeout_s,
            max_output_bytes=max_output_bytes(found.config),
            confinement=rights.confinement(program_path, server.env),
            attempts=materials.request.attempts,
        ),
        rights=rights,
        starter=_starter(found, server, materials, services),
        silent=SilentServer((*server.argv, str(server.cwd)), services.own_environment()),
        environment=_environment(program_path, found, server, materials, services),
    )


def _environment(
    program: str,
    found: ServerConfig,
    server: ServerProgram,
    materials: Materials,
    services: Services,
) -> HeldStart | None:
    """The approved environment that a server file is started in, None for none."""
    if not (found.pins.files or server.files):
        return None
    return held_start(program, materials, services)


def _starter(
    found: ServerConfig, server: ServerProgram, materials: Materials, services: Services
) -> bytes:
    """What starts a server file of Python; nothing where there is none, or its runtime has none."""
    has_files = bool(found.pins.files or server.files)
    if not has_files or not any(STARTER in one.spec.config for one in materials.chain.elements):
        return b""
    return companion_named(STARTER, materials, services).data


def server_variables(
    env: Mapping[str, str], found: ServerConfig, allows: Callable[[str], bool] | None
) -> dict[str, str]:
    """The variables that the rights of server and tool let through, and what ``env`` names.

    Words of Rye to its own tools are none of a server whose variables are listed.
    """
    if allows is None:
        return dict(env)
    named = found.mapping("env")
    return {
        name: value
        for name, value in env.items()
        if name in named or (allows(name) and not name.startswith(_OWN_VARIABLES))
    }


def mcp_http_call(materials: Materials, services: Services) -> Call:
    """The call for a server at an address. Raises SpecError, InvalidUrlError and similar."""
    from lillux.http.model import parse_address

    found, url, headers = address(materials, services)
    place = parse_address(url)
    rights = materials.rights.narrowed(found.server.spec.sandbox if found.server else None)
    rights.require_host(place.host, place.port)
    return McpHttpCall(
        found=found,
        url=url,
        shown_url=place.shown,
        headers=headers,
        arguments=_arguments(materials),
        schema=materials.chain.tool.spec.config_schema,
        network_env=network_env(materials, services),
        rights=rights,
        max_bytes=max_output_bytes(found.config),
        silent=SilentServer((url,), services.own_environment()),
        warnings=_plain_text_warnings(place, headers),
    )


def _plain_text_warnings(place: "Address", headers: Mapping[str, str]) -> tuple[str, ...]:
    from lillux.http.model import is_unencrypted

    if not headers or not is_unencrypted(place.text):
        return ()
    return (f"{place.shown}: its headers go over the network unencrypted; use https",)


def _arguments(materials: Materials) -> Mapping[str, Any]:
    """The caller's values, less the server file, which is for Rye."""
    given = dict(materials.values.tool)
    if _chosen_path(materials) is not None:
        del given[_SERVER_PATH]
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class McpStdioCall:
    """A call of a server that lives as long as the call. See `ryeos.run.calls.Call`."""

    found: ServerConfig
    server: ServerProgram
    arguments: Mapping[str, Any] = field(repr=False)
    contributed: tuple[str, ...]
    invocation: Invocation
    rights: "CallRights"
    starter: bytes = field(repr=False)
    silent: SilentServer
    environment: HeldStart | None = None

    @property
    def program(self) -> str:
        """The program that it starts."""
        return self.server.argv[0]

    @property
    def confinement(self) -> "Confinement | None":
        """What the server may not do."""
        return self.invocation.confinement

    def describe(self) -> dict[str, Any]:
        """The server's command, and which of its tools."""
        return {
            **_describe_call(self.found),
            "transport": "stdio",
            "command": self._shown_command(),
            "cwd": str(self.server.cwd),
            "env_keys": sorted({*self.contributed, *self.found.mapping("env")}),
            "sandbox": self.rights.describe(),
        }

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Start the server, call the tool, end the server. Raises SpawnError, IntegrityError."""
        _look_again(self.found, self.server.files)
        with opened(self.invocation, self.rights) as given:
            invocation = self._held(given)
            if invocation.folder is None:
                return self._talk(invocation, cancellation, on_stderr)
            from ryeos.run.held_servers import moved_server

            with invocation.folder.made():
                return self._talk(moved_server(invocation), cancellation, on_stderr)

    def _talk(
        self,
        invocation: Invocation,
        cancellation: Cancellation | None,
        on_stderr: OnStderr | None,
    ) -> MappedResult:
        from lillux.mcp_client.stdio import ServerProcess, call_over_stdio

        words, start_s = self._shown_command(), self.silent.start_s(self.found.start_s)
        command = replace(command_of(invocation), leaves_nothing=False)
        name = self.found.tool_name
        try:
            answered = call_over_stdio(
                ServerProcess(
                    command=command,
                    name=_label(self.found, words[0]),
                    probe_s=min(PROBE_S, start_s),
                    start_s=start_s,
                ),
                _request_of(self.found, self.arguments),
                CLIENT,
                self.silent.allowed(self.found.wanted),
                cancellation=cancellation,
                on_text=on_stderr,
            )
        except McpClientError as error:
            self.silent.forget_after(error)
            metadata = _metadata(self.found) | _short_wait(self.found, start_s)
            if isinstance(error, McpServerEndedError):
                metadata |= stderr_tail(error.stderr)
            failed = map_failure(name, error, {"command": words}, metadata)
            return _with_refusals(failed, invocation, self.rights)
        self.silent.answered()
        if answered.ignores_probe:
            self.silent.remember()
        metadata = {**_metadata(self.found), **stderr_tail(answered.stderr)}
        return _mapped(self.found, answered.answer, metadata)

    def _held(self, invocation: Invocation) -> Invocation:
        """The invocation on the bytes of the server's files, verified before or compared now.

        Raises ServerChangedError for a local server that is not the one that was approved.
        """
        pins, fixed = self.found.pins, self.found.names.fixed
        project, home = str(fixed["project_path"]), self.found.variables.values.get("HOME", "")
        named = files_of_config(self.found.config, self.server.cwd, project=project, home=home)
        paths = [
            self.server.cwd / as_text(fill(one, self.found.names))
            for one in (pins.file, *pins.also)
        ]
        label = _label(self.found, str(fixed["tool_id"]))
        pinned = require_files(label, pins, paths, named, Path(project))
        files = {os.path.normpath(path): data for path, data in pinned.items()}
        files |= {str(item.target.path): item.data for item in self.server.files}
        if not files:
            return invocation
        from ryeos.run.held_servers import ServerFiles, held_server

        user_ai = Path(str(fixed["user_space"]), AI_DIRECTORY)
        files_of_server = ServerFiles(files, named, self.starter)
        held = held_server(invocation, files_of_server, user_ai=user_ai, root=project)
        return in_environment(held, self.environment)

    def _shown_command(self) -> list[str]:
        known = {**self.found.variables.values, **self.server.env}
        return [masked(word, known) for word in self.server.argv]


def _with_refusals(
    failed: MappedResult, invocation: Invocation, rights: "CallRights"
) -> MappedResult:
    """The failure, with the accesses that its server was refused."""
    from ryeos.run.refusals import with_refusals

    return with_refusals(
        failed,
        invocation.confinement,
        rights,
        invocation.attempts,
        cwd=str(invocation.cwd),
        search_path=invocation.env.get("PATH", os.defpath),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class McpHttpCall:
    """A call of a server at an address. See `ryeos.run.calls.Call`."""

    found: ServerConfig
    url: str = field(repr=False)
    shown_url: str
    headers: Mapping[str, str] = field(repr=False)
    arguments: Mapping[str, Any] = field(repr=False)
    schema: Mapping[str, Any] | None
    network_env: Mapping[str, str] = field(repr=False)
    rights: "CallRights"
    max_bytes: int
    silent: SilentServer
    warnings: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """Empty: no program is started."""
        return ""

    @property
    def confinement(self) -> None:
        """None: no program is started."""
        return

    def describe(self) -> dict[str, Any]:
        """The server's address, and which of its tools."""
        return {
            **_describe_call(self.found),
            **_warnings_of(self.found, self.warnings),
            "transport": "http",
            "url": self._masked_url(),
            "headers": sorted(self.headers),
            "sandbox": self.rights.describe(),
        }

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Call the tool. Raises IntegrityError for a server item that has changed."""
        from lillux.http.client import HttpClient
        from lillux.http.model import HttpClientError
        from lillux.mcp_client.http import HttpServer, call_over_http

        _look_again(self.found, ())
        name, start_s = self.found.tool_name, self.silent.start_s(self.found.start_s)
        server = HttpServer(
            url=self.url,
            headers=self.headers,
            name=_label(self.found, self._masked_url()),
            schema=self.schema,
            timeout_s=self.found.timeout_s,
            max_message_bytes=self.max_bytes,
            probe_s=min(PROBE_S, start_s),
            start_s=start_s,
            on_ignored_probe=self.silent.remember,
        )
        metadata = {**_metadata(self.found), **_warnings_of(self.found, self.warnings)}
        env = self.rights.own_network(self.network_env)
        with HttpClient(env, user_agent=f"rye/{__version__}") as client:
            try:
                answer = call_over_http(
                    client,
                    server,
                    _request_of(self.found, self.arguments),
                    CLIENT,
                    self.silent.allowed(self.found.wanted),
                    cancellation=cancellation,
                    on_text=on_stderr,
                )
            except (McpClientError, HttpClientError) as error:
                if isinstance(error, McpClientError):
                    self.silent.forget_after(error)
                metadata |= _short_wait(self.found, start_s)
                return map_failure(name, error, {"url": self._masked_url()}, metadata)
        self.silent.answered()
        return _mapped(self.found, answer, metadata)

    def _masked_url(self) -> str:
        return masked(self.shown_url, self.found.variables.values)


def _request_of(found: ServerConfig, arguments: Mapping[str, Any]) -> ToolCall | ToolListing:
    if not found.tool_name:
        return ToolListing()
    return ToolCall(found.tool_name, arguments, found.requires)


def _mapped(found: ServerConfig, answer: ToolAnswer, metadata: Mapping[str, Any]) -> MappedResult:
    if found.tool_name:
        return map_answer(found.tool_name, answer, metadata)
    return map_listing(answer, metadata)


def _describe_call(found: ServerConfig) -> dict[str, Any]:
    description: dict[str, Any] = {
        "protocol": "mcp",
        "tool": found.tool_name,
        "timeout_s": found.timeout_s,
    }
    return {**description, **_metadata(found)}


def _warnings_of(found: ServerConfig, warnings: tuple[str, ...]) -> dict[str, Any]:
    everything = [*found.variables.warnings, *warnings]
    return {"warnings": everything} if everything else {}


def _short_wait(found: ServerConfig, start_s: float) -> dict[str, Any]:
    """What tells that a server that failed got less time than usual."""
    if start_s >= found.start_s:
        return {}
    note = (
        f"it answered nothing a moment ago, and got {start_s:g} s to begin this time;"
        f" within a minute it gets {found.start_s:g} s again"
    )
    return {"warnings": [*found.variables.warnings, note]}


def _metadata(found: ServerConfig) -> dict[str, Any]:
    """The server item, its hash too, and what its files were refused."""
    metadata: dict[str, Any] = {}
    if found.server:
        metadata["server"] = {
            "item_id": found.server.item_id,
            "space": found.server.space,
            "integrity": found.server.integrity,
        }
    if found.variables.warnings:
        metadata["warnings"] = list(found.variables.warnings)
    return metadata


def _label(found: ServerConfig, otherwise: str) -> str:
    return found.server.item_id if found.server else otherwise


def _look_again(found: ServerConfig, files: tuple[VerifiedItem, ...]) -> None:
    own = (found.server.item,) if found.server else ()
    for item in (*own, *files):
        if item and item.verified:
            unchanged(item)
