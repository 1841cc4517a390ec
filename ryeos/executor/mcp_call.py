"""Calls of tools of MCP servers, over a pipe and over HTTP. See ``docs/mcp-tools.md``.

Everything is resolved and verified when a call is made; before it starts, the bytes are looked at
once more.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lillux.mcp_client.session import Answer, ClientInfo, McpClientError, ToolCall, ToolListing
from lillux.process.cancellation import Cancellation
from lillux.process.model import Command
from lillux.values import dataclass, field
from ryeos import __version__
from ryeos.executor.calls import Call, Materials, OnStderr, Services, network_env
from ryeos.executor.invocation import max_output_bytes
from ryeos.executor.mcp_config import Program, ServerConfig, address, program
from ryeos.executor.mcp_results import map_answer, map_failure, map_listing, stderr_tail
from ryeos.executor.process_call import masked
from ryeos.executor.results import MappedResult
from ryeos.verify import VerifiedItem, unchanged

if TYPE_CHECKING:  # HTTP is for those who use it
    from lillux.http.model import Address

CLIENT = ClientInfo("rye", __version__)


def mcp_stdio_call(materials: Materials, services: Services) -> Call:
    """The call for a server that is started. Raises SpecError, CompanionError and kin."""
    found, server = program(materials, services)
    return McpStdioCall(
        found=found,
        program=server,
        arguments=_arguments(materials),
        contributed=materials.env.contributed,
        max_bytes=max_output_bytes(found.config),
    )


def mcp_http_call(materials: Materials, services: Services) -> Call:
    """The call for a server at an address. Raises SpecError, InvalidUrlError and kin."""
    from lillux.http.model import parse_address

    found, url, headers = address(materials, services)
    place = parse_address(url)
    return McpHttpCall(
        found=found,
        url=url,
        shown_url=place.shown,
        headers=headers,
        arguments=_arguments(materials),
        schema=materials.chain.tool.spec.config_schema,
        network_env=network_env(materials, services),
        max_bytes=max_output_bytes(found.config),
        warnings=_plain_text_warnings(place, headers),
    )


def _plain_text_warnings(place: "Address", headers: Mapping[str, str]) -> tuple[str, ...]:
    from lillux.http.model import is_loopback

    if place.scheme == "https" or not headers or is_loopback(place.host):
        return ()
    return (f"{place.shown}: its headers go over the network unencrypted; use https",)


def _arguments(materials: Materials) -> Mapping[str, Any]:
    return dict(materials.values.tool)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpStdioCall:
    """A call of a server that lives as long as the call. See `ryeos.executor.calls.Call`."""

    found: ServerConfig
    program: Program
    arguments: Mapping[str, Any] = field(repr=False)
    contributed: tuple[str, ...]
    max_bytes: int

    def describe(self) -> dict[str, Any]:
        """The server's command, and which of its tools."""
        return {
            **_described(self.found),
            "transport": "stdio",
            "command": self._shown_command(),
            "cwd": str(self.program.cwd),
            "env_keys": sorted({*self.contributed, *self.found.mapping("env")}),
        }

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Start the server, call the tool, end the server. Raises SpawnError, IntegrityError."""
        from lillux.mcp_client.stdio import StdioServer, call_over_stdio

        _look_again(self.found, self.program.files)
        words = self._shown_command()
        command = Command(
            argv=self.program.argv,
            env=self.program.env,
            cwd=self.program.cwd,
            timeout_s=self.found.timeout_s,
            max_output_bytes=self.max_bytes,
        )
        name = self.found.tool_name
        try:
            answered = call_over_stdio(
                StdioServer(command=command, name=_label(self.found, words[0])),
                _asked(self.found, self.arguments),
                CLIENT,
                self.found.wanted,
                cancellation=cancellation,
                on_text=on_stderr,
            )
        except McpClientError as error:
            return map_failure(name, error, {"command": words}, _metadata(self.found))
        metadata = {**_metadata(self.found), **stderr_tail(answered.stderr)}
        return _mapped(self.found, answered.answer, metadata)

    def _shown_command(self) -> list[str]:
        known = {**self.found.variables.values, **self.program.env}
        return [masked(word, known) for word in self.program.argv]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpHttpCall:
    """A call of a server at an address. See `ryeos.executor.calls.Call`."""

    found: ServerConfig
    url: str = field(repr=False)
    shown_url: str
    headers: Mapping[str, str] = field(repr=False)
    arguments: Mapping[str, Any] = field(repr=False)
    schema: Mapping[str, Any] | None
    network_env: Mapping[str, str] = field(repr=False)
    max_bytes: int
    warnings: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """The server's address, and which of its tools."""
        return {
            **_described(self.found),
            **_told(self.found, self.warnings),
            "transport": "http",
            "url": self._shown(),
            "headers": sorted(self.headers),
        }

    def run(
        self, *, cancellation: Cancellation | None = None, on_stderr: OnStderr | None = None
    ) -> MappedResult:
        """Call the tool. Raises IntegrityError for a server item that has changed."""
        from lillux.http.client import HttpClient
        from lillux.http.model import HttpClientError
        from lillux.mcp_client.http import HttpServer, call_over_http

        _look_again(self.found, ())
        name = self.found.tool_name
        server = HttpServer(
            url=self.url,
            headers=self.headers,
            name=_label(self.found, self._shown()),
            schema=self.schema,
            timeout_s=self.found.timeout_s,
            max_message_bytes=self.max_bytes,
        )
        metadata = {**_metadata(self.found), **_told(self.found, self.warnings)}
        with HttpClient(self.network_env, user_agent=f"rye/{__version__}") as client:
            try:
                answer = call_over_http(
                    client,
                    server,
                    _asked(self.found, self.arguments),
                    CLIENT,
                    self.found.wanted,
                    cancellation=cancellation,
                    on_text=on_stderr,
                )
            except (McpClientError, HttpClientError) as error:
                return map_failure(name, error, {"url": self._shown()}, metadata)
        return _mapped(self.found, answer, metadata)

    def _shown(self) -> str:
        return masked(self.shown_url, self.found.variables.values)


def _asked(found: ServerConfig, arguments: Mapping[str, Any]) -> ToolCall | ToolListing:
    return ToolCall(found.tool_name, arguments) if found.tool_name else ToolListing()


def _mapped(found: ServerConfig, answer: Answer, metadata: Mapping[str, Any]) -> MappedResult:
    if found.tool_name:
        return map_answer(found.tool_name, answer, metadata)
    return map_listing(answer, metadata)


def _described(found: ServerConfig) -> dict[str, Any]:
    description: dict[str, Any] = {
        "protocol": "mcp",
        "tool": found.tool_name,
        "timeout_s": found.timeout_s,
    }
    return {**description, **_metadata(found)}


def _told(found: ServerConfig, warnings: tuple[str, ...]) -> dict[str, Any]:
    everything = [*found.variables.warnings, *warnings]
    return {"warnings": everything} if everything else {}


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
