"""Tools of MCP servers, from signed files to the result."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mcp_servers import ODD_SERVER, SDK_SERVER, sdk_over_http
from tests.support.workspace import SpaceFolder, Workspace

STDIO = "rye/core/runtimes/mcp/stdio"
HTTP = "rye/core/runtimes/mcp/http"


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    """A workspace whose Python has the SDK."""
    workspace.env["RYE_PYTHON"] = sys.executable
    return workspace


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server of the official SDK."""
    with sdk_over_http("stream") as url:
        yield url


def server_item(space: SpaceFolder, config: str, name: str = "test", *, sign: bool = True) -> Path:
    path = space.write(
        f"tools/mcp/servers/{name}.yaml",
        'version: "1.0.0"\ntool_type: mcp_server\nexecutor_id: null\n'
        f"category: mcp/servers\ndescription: test server\nconfig: {config}\n",
    )
    if sign:
        space.sign(path)
    return path


def tool(space: SpaceFolder, config: str, *, name: str = "tool", runtime: str = STDIO) -> Path:
    return space.signed_yaml(f"mcp/test/{name}", f"config: {config}\n", executor=runtime)


def sdk(name: str, **more: object) -> str:
    command = {"command": sys.executable, "args": ["-I", str(SDK_SERVER), "stdio"]}
    return json.dumps({**command, "tool_name": name, **more})


def odd(behaviour: str = "plain", **more: object) -> str:
    command = {"command": sys.executable, "args": ["-I", "-S", str(ODD_SERVER), behaviour]}
    return json.dumps({**command, "tool_name": "t", **more})


# --- results


@pytest.mark.parametrize("revision", ["auto", "legacy"])
def test_a_server_that_is_run_lists_its_tools(workspace: Workspace, revision: str) -> None:
    config = json.dumps(
        {**json.loads(sdk("unused")), "protocol_version": revision, "transport": "stdio"}
    )
    path = workspace.project.write(
        "tools/mcp/servers/sdk.yaml",
        f'version: "1.0.0"\ntool_type: mcp_server\nexecutor_id: {STDIO}\n'
        f"category: mcp/servers\ndescription: test server\nconfig: {config}\n",
    )
    workspace.project.sign(path)

    result = workspace.run("mcp/servers/sdk")

    assert result.success, result.error
    assert [tool["name"] for tool in result.data["tools"]][:2] == ["add", "document"]
    assert result.data["truncated"] is False


def test_a_server_at_an_address_that_is_run_lists_its_tools(
    workspace: Workspace, address: str
) -> None:
    path = workspace.project.write(
        "tools/mcp/servers/sdk.yaml",
        f'version: "1.0.0"\ntool_type: mcp_server\nexecutor_id: {HTTP}\n'
        f"category: mcp/servers\ndescription: test server\nconfig: {{url: '{address}'}}\n",
    )
    workspace.project.sign(path)

    result = workspace.run("mcp/servers/sdk")

    assert result.success, result.error
    assert len(result.data["tools"]) == 8


def test_a_tool_of_a_server_is_called_with_the_callers_parameters(workspace: Workspace) -> None:
    tool(workspace.project, sdk("add"))

    result = workspace.run("mcp/test/tool", params={"a": 2, "b": 3})

    assert (result.error, result.success) == (None, True)
    assert result.data == {
        "success": True,
        "tool": "add",
        "content": [{"type": "text", "text": "5"}],
        "isError": False,
        "structuredContent": {"result": 5},
        "parsed": 5,
    }
    assert result.metadata["protocol_version"] == "2026-07-28"


def test_keys_of_a_json_object_are_lifted_without_replacing_others(workspace: Workspace) -> None:
    tool(workspace.project, sdk("document", protocol_version="legacy"))

    data = workspace.run("mcp/test/tool").data

    assert data["title"] == "a page"
    assert data["success"] is True
    assert data["parsed"] == {"title": "a page", "success": "its own word"}


def test_a_tool_that_reports_an_error_has_failed(workspace: Workspace) -> None:
    tool(workspace.project, odd("fails"))

    result = workspace.run("mcp/test/tool")

    assert (result.success, result.error, result.failure) == (False, "it went wrong", None)
    assert result.data["isError"] is True
    assert result.metadata["error_code"] == "EXECUTION_FAILED"


@pytest.mark.parametrize(
    ("behaviour", "kind", "code"),
    [
        ("crashes", "transport", "EXECUTION_FAILED"),
        ("refuses", "server", "EXECUTION_FAILED"),
        ("strange", "protocol", "EXECUTION_FAILED"),
        ("never answers", "timeout", "TIMEOUT"),
    ],
)
def test_a_conversation_without_an_answer_says_why(
    workspace: Workspace, behaviour: str, kind: str, code: str
) -> None:
    tool(workspace.project, odd(behaviour, timeout=1))

    result = workspace.run("mcp/test/tool")

    assert (result.success, result.failure) == (False, None)
    assert (result.data["error_type"], result.data["tool"]) == (kind, "t")
    assert result.data["command"][-1] == behaviour
    assert result.metadata["error_code"] == code


def test_an_answer_beyond_the_cap_is_refused(workspace: Workspace) -> None:
    tool(workspace.project, odd("writes too much", max_output_bytes=1000))

    result = workspace.run("mcp/test/tool", params={"size": 100_000})

    assert result.metadata["error_code"] == "RESOURCE_EXCEEDED"


def test_parameters_are_checked_before_anything_starts(workspace: Workspace) -> None:
    workspace.project.signed_yaml(
        "mcp/test/tool",
        f"config: {odd('crashes')}\ninput_schema:\n"
        "  {type: object, required: [a], properties: {a: {type: integer}}}\n",
        executor=STDIO,
    )

    result = workspace.run("mcp/test/tool", params={"a": "x"})

    assert result.metadata["error_code"] == "VALIDATION_FAILED"


def test_progress_and_log_messages_are_reported_during_the_call(workspace: Workspace) -> None:
    from ryeos.run.model import ExecutionRequest

    tool(workspace.project, odd("tells"))
    reported: list[bytes] = []

    workspace.rye().executor.execute(
        ExecutionRequest(item_id="mcp/test/tool"), on_stderr=reported.append
    )

    assert reported == [b"progress 1/2 half\n", b"info: hi\n"]


# --- the server of a tool


def test_a_server_item_is_named_by_its_id(workspace: Workspace) -> None:
    path = server_item(workspace.project, odd())
    tool(workspace.project, "{server: mcp/servers/test, tool_name: t}")

    result = workspace.run("mcp/test/tool", params={"x": 1})

    assert result.data["arguments"] == {"x": 1}
    server = result.metadata["server"]
    assert (server["item_id"], server["space"]) == ("mcp/servers/test", "project")
    assert server["integrity"] in path.read_text("utf-8")


def test_a_server_item_is_named_by_its_path(workspace: Workspace) -> None:
    server_item(workspace.user, odd())
    tool(
        workspace.project,
        '{server_config_path: "{user_space}/.ai/tools/mcp/servers/test.yaml", tool_name: t}',
    )

    result = workspace.run("mcp/test/tool")

    assert result.metadata["server"]["space"] == "user"


def test_id_and_path_of_a_server_item_must_agree(workspace: Workspace) -> None:
    server_item(workspace.project, odd())
    server_item(workspace.project, odd(), name="other")
    tool(
        workspace.project,
        "{server: mcp/servers/test, tool_name: t,"
        ' server_config_path: "{project_path}/.ai/tools/mcp/servers/other.yaml"}',
    )

    assert workspace.run("mcp/test/tool").error == (
        "config.server_config_path: expected the file of mcp/servers/test,"
        " found that of mcp/servers/other"
    )


def test_the_configuration_of_the_tool_overrides_that_of_the_server(workspace: Workspace) -> None:
    server_item(workspace.project, odd(env={"A": "server", "B": "server"}))
    tool(workspace.project, "{server: mcp/servers/test, tool_name: t, env: {A: tool}}")

    env = workspace.run("mcp/test/tool").data["env"]

    assert (env["A"], env["B"]) == ("tool", "server")


def test_a_server_of_the_other_transport_is_refused_with_the_right_runtime(
    workspace: Workspace,
) -> None:
    server_item(workspace.project, "{transport: http, url: 'http://localhost:1'}")
    tool(workspace.project, "{server: mcp/servers/test, tool_name: t}")

    result = workspace.run("mcp/test/tool")

    assert result.error == "config.transport: expected stdio, the server's is 'http'"
    assert result.failure is not None
    assert result.failure.hint == (
        "a tool of this server has executor_id rye/core/runtimes/mcp/http"
    )


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("{command: x}", "config.tool_name: expected the name of a tool of the server, got null"),
        ("{tool_name: t}", "config.command: expected the program of an MCP server, found none"),
        ("{tool_name: t, command: x, args: y}", "config.args: expected a list, got string"),
        ("{tool_name: t, command: x, env: [y]}", "config.env: expected a mapping, got list"),
        ("{tool_name: t, server: 5}", "config.server: expected a string, got integer"),
        (
            "{tool_name: t, command: x, protocol_version: '2020-01-01'}",
            (
                "config.protocol_version: expected one of auto, legacy, 2024-11-05, 2025-03-26,"
                " 2025-06-18, 2025-11-25, 2026-07-28, got '2020-01-01'"
            ),
        ),
        (
            "{tool_name: t, server: mcp/servers/none}",
            "server mcp/servers/none: no such item in the spaces that mcp/test/tool may use",
        ),
        (
            "{tool_name: t, server: mcp/test/tool}",
            "config.server: expected tool_type mcp_server, mcp/test/tool is bash",
        ),
        (
            "{tool_name: t, command: '${NOT_SET_AT_ALL}'}",
            "config.command: expected a program, found nothing once it was filled in",
        ),
    ],
)
def test_a_wrong_config_is_reported_with_its_place(
    workspace: Workspace, config: str, problem: str
) -> None:
    tool(workspace.project, config)

    assert workspace.run("mcp/test/tool").error == problem


def test_a_runner_is_found_by_an_interpreter_block_of_any_name(workspace: Workspace) -> None:
    workspace.project.signed_yaml(
        "mcp/test/tool",
        f"""
        env_config:
          mcp_runner:
            type: binary
            search: [project, system]
            var: RYE_MCP_RUNNER
            fallback: {sys.executable}
        config:
          command: "${{RYE_MCP_RUNNER}}"
          args: ["-I", "-S", "{ODD_SERVER}", "--type", "stdio"]
          tool_name: t
        """,
        executor="mcp_stdio",
    )

    result = workspace.run("mcp/test/tool")

    assert result.data["argv"] == ["--type", "stdio"]


# --- server files


def server_file(space: SpaceFolder, item_id: str, imports: str = "") -> Path:
    header = (
        '"""A server."""\n'
        '__version__ = "1.0.0"\n__tool_type__ = "mcp_server"\n__executor_id__ = None\n'
        f'__category__ = "{item_id.rpartition("/")[0]}"\n__description__ = "a server"\n'
    )
    body = ODD_SERVER.read_text("utf-8")
    return space.signed(f"tools/{item_id}.py", header + imports + body.partition('"""\n\n')[2])


@pytest.mark.parametrize(
    "written", ["server.py", "{tool_dir}/server.py", "{project_path}/.ai/tools/mcp/test/server.py"]
)
def test_a_signed_server_file_is_run_by_its_suffix(workspace: Workspace, written: str) -> None:
    server_file(workspace.project, "mcp/test/server")
    tool(workspace.project, json.dumps({"mcp_server_path": written, "tool_name": "t"}))

    result = workspace.run("mcp/test/tool", params={"x": 1})

    assert (result.error, result.data["arguments"]) == (None, {"x": 1})


def test_a_server_file_that_is_signed_as_a_module_is_run(workspace: Workspace) -> None:
    body = ODD_SERVER.read_text("utf-8")
    workspace.project.signed("tools/mcp/test/server.py", body)
    tool(workspace.project, "{mcp_server_path: server.py, tool_name: t}")

    result = workspace.run("mcp/test/tool", params={"x": 1})

    assert (result.error, result.data["arguments"]) == (None, {"x": 1})


def test_a_module_is_no_item_of_a_server_and_the_error_says_what_names_it(
    workspace: Workspace,
) -> None:
    workspace.project.signed("tools/mcp/test/server.py", ODD_SERVER.read_text("utf-8"))
    tool(workspace.project, "{server: mcp/test/server, tool_name: t}")

    result = workspace.run("mcp/test/tool")

    assert result.error == (
        "config.server: expected tool_type mcp_server, mcp/test/server is a module without a header"
    )
    assert result.failure
    assert "config.mcp_server_path" in result.failure.hint


def test_a_caller_makes_no_server_of_a_module(workspace: Workspace) -> None:
    workspace.project.signed("tools/mcp/test/server.py", ODD_SERVER.read_text("utf-8"))
    tool(workspace.project, f"{{tool_name: t}}\nconfig_schema: {CHOOSES}")
    chosen = {"mcp_server_path": ".ai/tools/mcp/test/server.py"}

    result = workspace.run("mcp/test/tool", params=chosen)

    assert "expected a tool as the server file that a caller chooses" in str(result.error)


CHOOSES = json.dumps(
    {
        "properties": {"mcp_server_path": {"type": "string"}, "x": {}},
        "required": ["mcp_server_path"],
    }
)


def test_a_caller_chooses_the_server_file_where_the_schema_has_it(workspace: Workspace) -> None:
    server_file(workspace.project, "mcp/test/server")
    tool(workspace.project, f"{{tool_name: t}}\nconfig_schema: {CHOOSES}")
    chosen = {"mcp_server_path": ".ai/tools/mcp/test/server.py", "x": 1}

    result = workspace.run("mcp/test/tool", params=chosen)

    assert (result.error, result.data["arguments"]) == (None, {"x": 1})


@pytest.mark.parametrize("chosen", [str(ODD_SERVER), "../x.py", "{tool_dir}/server.py", "", "\0"])
def test_a_caller_cannot_choose_an_unsigned_file(workspace: Workspace, chosen: str) -> None:
    server_file(workspace.project, "mcp/test/server")
    (workspace.project_path.parent / "x.py").write_bytes(ODD_SERVER.read_bytes())
    tool(workspace.project, f"{{tool_name: t}}\nconfig_schema: {CHOOSES}")

    result = workspace.run("mcp/test/tool", params={"mcp_server_path": chosen})

    assert not result.success
    assert "expected" in str(result.error)


def test_an_unsigned_server_file_is_not_chosen(workspace: Workspace) -> None:
    path = server_file(workspace.project, "mcp/test/server")
    path.write_bytes(path.read_bytes() + b"\n# changed\n")
    tool(workspace.project, f"{{tool_name: t}}\nconfig_schema: {CHOOSES}")
    chosen = {"mcp_server_path": ".ai/tools/mcp/test/server.py"}

    assert workspace.run("mcp/test/tool", params=chosen).metadata["error_code"] == "INTEGRITY"


def test_a_command_may_place_the_server_file_itself(workspace: Workspace) -> None:
    server_file(workspace.project, "mcp/test/server")
    config = {
        "command": sys.executable,
        "args": ["-I", "-S", "{mcp_server_path}", "more"],
        "mcp_server_path": "server.py",
        "tool_name": "t",
    }
    tool(workspace.project, json.dumps(config))

    assert workspace.run("mcp/test/tool").data["argv"] == ["more"]


def test_a_server_file_imports_signed_neighbours(workspace: Workspace) -> None:
    server_file(workspace.project, "mcp/test/server", "import neighbour\n")
    workspace.project.signed_tool("mcp/test/neighbour")
    tool(workspace.project, "{mcp_server_path: server.py, tool_name: t}")

    assert workspace.run("mcp/test/tool").error is None


def test_a_server_file_outside_of_all_spaces_is_named_by_its_absolute_path(
    workspace: Workspace,
) -> None:
    tool(workspace.project, json.dumps({"mcp_server_path": str(ODD_SERVER), "tool_name": "t"}))

    assert workspace.run("mcp/test/tool").error is None


# --- variables


def test_env_files_set_only_allowed_variables(workspace: Workspace) -> None:
    names = {name: f"${{{name}:-unset}}" for name in ("ONE", "TWO", "THREE", "FOUR", "LD_PRELOAD")}
    files = {
        workspace.home / ".ai" / ".env": "ONE=user\nTWO=user\nLD_PRELOAD=evil\n",
        workspace.project_path / ".ai" / ".env": "TWO=ai\nTHREE=ai\n",
        workspace.project_path / ".env": "THREE=project\n",
        workspace.project_path / ".env.local": "FOUR=local\n",
    }
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    tool(workspace.project, odd(env={f"GOT_{name}": text for name, text in names.items()}))
    workspace.approve()

    result = workspace.run("mcp/test/tool")

    got = {name: result.data["env"][f"GOT_{name}"] for name in names}
    assert got == {
        "ONE": "user",
        "TWO": "ai",
        "THREE": "project",
        "FOUR": "local",
        "LD_PRELOAD": "unset",
    }
    assert len(result.metadata["warnings"]) == 1
    assert "LD_PRELOAD is not taken" in result.metadata["warnings"][0]


def test_a_dry_run_shows_the_server_without_secrets(workspace: Workspace) -> None:
    workspace.env["MY_TOKEN"] = "s3cret-value"
    tool(workspace.project, odd(args=["--token", "${MY_TOKEN}"], env={"T": "${MY_TOKEN}"}))

    metadata = workspace.run("mcp/test/tool", dry_run=True).metadata

    assert metadata["command"] == [sys.executable, "--token", "***"]
    assert (metadata["protocol"], metadata["transport"], metadata["tool"]) == ("mcp", "stdio", "t")
    assert "T" in metadata["env_keys"]
    assert "s3cret" not in json.dumps(metadata)


@pytest.mark.parametrize(
    ("server", "own", "caller", "limit"),
    [
        (None, None, None, 300),
        (30, None, None, 30),
        (900, None, None, 300),
        (30, 45, None, 45),
        (30, None, 100, 100),
    ],
)
def test_the_server_bounds_the_time_of_its_tools(
    workspace: Workspace, server: int | None, own: int | None, caller: int | None, limit: int
) -> None:
    server_item(workspace.project, odd() if server is None else odd(timeout=server))
    config: dict[str, object] = {"server": "mcp/servers/test", "tool_name": "t"}
    tool(workspace.project, json.dumps(config | ({} if own is None else {"timeout": own})))

    result = workspace.run("mcp/test/tool", dry_run=True, timeout_s=caller)

    assert result.metadata["timeout_s"] == limit


# --- over HTTP


@pytest.mark.parametrize("key", ["url", "base_url"])
def test_a_tool_over_http_is_called_at_its_address(
    workspace: Workspace, address: str, key: str
) -> None:
    tool(workspace.project, json.dumps({key: address, "tool_name": "add"}), runtime=HTTP)

    result = workspace.run("mcp/test/tool", params={"a": 2, "b": 3})

    assert (result.error, result.data["structuredContent"]) == (None, {"result": 5})


def test_without_an_address_the_endpoint_of_the_environment_is_used(
    workspace: Workspace, address: str
) -> None:
    workspace.env["MCP_ENDPOINT"] = address
    tool(workspace.project, "{tool_name: add}", runtime=HTTP)

    assert workspace.run("mcp/test/tool", params={"a": 2, "b": 3}).data["parsed"] == 5


def test_headers_of_the_server_item_reach_the_server(workspace: Workspace, address: str) -> None:
    workspace.env["MY_TOKEN"] = "s3cret-value"
    headers = {"Authorization": "Bearer ${MY_TOKEN}"}
    item = {"transport": "http", "url": address, "headers": headers}
    server_item(workspace.project, json.dumps(item))
    tool(workspace.project, "{server: mcp/servers/test, tool_name: header}", runtime=HTTP)

    result = workspace.run("mcp/test/tool", params={"name": "authorization"})

    assert result.data["content"][0]["text"] == "Bearer s3cret-value"


def test_a_header_without_its_variable_is_not_sent(workspace: Workspace, address: str) -> None:
    config = {"url": address, "tool_name": "add", "headers": {"X-Key": "${NOT_SET_AT_ALL}"}}
    tool(workspace.project, json.dumps(config), runtime=HTTP)

    assert workspace.run("mcp/test/tool").error == (
        "config.headers.X-Key: expected the environment variable NOT_SET_AT_ALL, which is not set"
    )


def test_an_unreachable_server_is_reported_with_its_address(workspace: Workspace) -> None:
    config = {"url": "http://127.0.0.1:9/mcp?key=s3cret", "tool_name": "add"}
    tool(workspace.project, json.dumps(config), runtime=HTTP)

    result = workspace.run("mcp/test/tool")

    assert (result.success, result.data["error_type"]) == (False, "transport")
    assert result.data["url"].startswith("http://127.0.0.1:9/mcp")
    assert "s3cret" not in json.dumps(result.data)
    assert result.metadata["error_code"] == "HTTP_UNREACHABLE"


def test_no_address_at_all_is_reported(workspace: Workspace) -> None:
    tool(workspace.project, "{tool_name: add}", runtime=HTTP)

    result = workspace.run("mcp/test/tool")

    assert result.error == "config.url: expected the address of an MCP server, found none"


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("http://server.example/mcp", True),
        ("https://server.example/mcp", False),
        ("http://localhost:1/mcp", False),
    ],
)
def test_headers_without_encryption_give_a_warning(
    workspace: Workspace, url: str, *, warned: bool
) -> None:
    config = {"url": url, "tool_name": "add", "headers": {"X-Key": "s3cret"}}
    tool(workspace.project, json.dumps(config), runtime=HTTP)

    metadata = workspace.run("mcp/test/tool", dry_run=True).metadata

    assert ("unencrypted" in str(metadata.get("warnings"))) is warned
    assert "s3cret" not in str(metadata)
