"""The program of an MCP server over a pipe: its words, its folder, its variables and its files.

Step (4) of `ryeos.run.mcp_config`.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lillux.fields import ABSENT
from lillux.templating import Names, as_text, fill
from lillux.values import dataclass, field, replace
from ryeos.items.errors import SpecError
from ryeos.items.refs import AI_DIRECTORY, PROJECT, Kind, tier_of
from ryeos.items.specs import type_name
from ryeos.run.calls import Materials, Services
from ryeos.run.chain import companion_error
from ryeos.run.command import filled_arguments
from ryeos.run.mcp_config import SERVER_PATH, STDIO, ServerConfig, server_config
from ryeos.run.server_command import server_folder
from ryeos.run.server_packages import NPM, ServerInstaller, ServerPackage, read_package
from ryeos.trust.dependencies import DependencyRules, dependency_rules
from ryeos.trust.verify import VerifiedItem


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


def program(materials: Materials, services: Services) -> tuple[ServerConfig, ServerProgram]:
    """Step (4) for a pipe. Raises SpecError, ChainError, IntegrityError and similar."""
    found = server_config(materials, services, STDIO)
    names, config = found.names, found.config
    files: tuple[VerifiedItem, ...] = ()
    installed = None
    package = read_package(config, (found.server or materials.chain.tool).item_id)
    if package:
        started, installed = _install_package(found, package, materials, services)
        words: tuple[object, ...] = (*started, *_arguments_of(config))
    elif config.get(SERVER_PATH) is not None or chosen_path(materials) is not None:
        path, files = _server_file(found, materials, services)
        names = Names(variables=names.variables, fixed={**names.fixed, SERVER_PATH: path})
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
    """The words with which the runtime starts a file of this suffix; the file alone without any."""
    launchers = config.get("launchers") or {}
    if not isinstance(launchers, dict):
        raise SpecError("config.launchers", f"expected a mapping, got {type_name(launchers)}")
    words = launchers.get(Path(path).suffix.lower(), [f"{{{SERVER_PATH}}}"])
    if not isinstance(words, list) or not words:
        raise SpecError("config.launchers", "expected a list of words for each suffix")
    return (*words, *_arguments_of(config))


def _server_file(
    found: ServerConfig, materials: Materials, services: Services
) -> tuple[str, tuple[VerifiedItem, ...]]:
    """The path of the server's file, and what of it was verified. Raises ChainError."""
    template, chosen = found.config.get(SERVER_PATH), chosen_path(materials)
    path = Path(materials.anchor.names["tool_dir"], found.filled(SERVER_PATH))
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


def chosen_path(materials: Materials) -> str | None:
    """The server file that the caller chose, where the tool's schema lets it and no file says."""
    schema = materials.chain.tool.spec.config_schema or {}
    properties = schema.get("properties")
    value = materials.values.tool.get(SERVER_PATH)
    is_declared = isinstance(properties, Mapping) and SERVER_PATH in properties
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
