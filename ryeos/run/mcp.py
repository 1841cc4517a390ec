"""Calls of tools of MCP servers, over a pipe and over HTTP. See ``docs/mcp.md``.

Everything is resolved and verified when a call is made; before it starts, the bytes are looked at
once more.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lillux.cancellation import Cancellation
from lillux.mcp_client.errors import McpClientError, McpServerEndedError
from lillux.mcp_client.session import ClientInfo, ToolAnswer, ToolCall, ToolListing
from lillux.mcp_client.versions import PROBE_S
from lillux.templating import as_text, fill
from lillux.values import dataclass, field, replace
from ryeos import __version__
from ryeos.items.refs import AI_DIRECTORY
from ryeos.run.calls import Call, Materials, OnStderr, Services, network_env
from ryeos.run.command import max_output_bytes
from ryeos.run.held import STARTER, HeldStart, in_environment
from ryeos.run.mcp_config import SERVER_PATH, ServerConfig, address
from ryeos.run.mcp_program import ServerProgram, chosen_path, program
from ryeos.run.mcp_results import map_answer, map_failure, map_listing, stderr_tail
from ryeos.run.model import Invocation
from ryeos.run.outcomes import MappedResult
from ryeos.run.process_call import command_of, companion_named, held_start, masked, opened
from ryeos.run.server_command import files_of_config
from ryeos.run.server_pins import require_files
from ryeos.run.silent_servers import SilentServer
from ryeos.trust.verify import VerifiedItem, unchanged

if TYPE_CHECKING:
    from lillux.http.urls import Address
    from lillux.sandbox import Confinement
    from ryeos.run.confinement import CallRights


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
    """The starter of a server file of Python; empty without one, or where its runtime has none."""
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
    from lillux.http.urls import parse_address

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
    if chosen_path(materials) is not None:
        del given[SERVER_PATH]
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
        """The limits of the server."""
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
        _require_unchanged(self.found, self.server.files)
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
        from lillux.http.errors import HttpClientError
        from lillux.mcp_client.http import call_over_http
        from lillux.mcp_client.http_line import HttpServer

        _require_unchanged(self.found, ())
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
    """A note that a server that failed got less time than usual."""
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


def _require_unchanged(found: ServerConfig, files: tuple[VerifiedItem, ...]) -> None:
    own = (found.server.item,) if found.server else ()
    for item in (*own, *files):
        if item and item.verified:
            unchanged(item)
