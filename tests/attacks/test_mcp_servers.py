"""An attacker who may write files, or is a server, wants a tool of MCP to do something else."""

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from lillux.errors import LilluxError
from lillux.signing import generate_keypair
from ryeos.items.errors import ChainError, IntegrityError, UnsignedError, UntrustedKeyError
from ryeos.run.execution_log import ExecutionLog
from ryeos.run.model import ExecutionRequest
from tests.support.http_servers import Exchange, Server
from tests.support.mcp_servers import ODD_SERVER
from tests.support.workspace import SpaceFolder, Workspace

STDIO = "rye/core/runtimes/mcp/stdio"
HTTP = "rye/core/runtimes/mcp/http"
NAMED = "config: {server: mcp/servers/test, tool_name: t}\n"


@pytest.fixture
def workspace(workspace: Workspace) -> Workspace:
    workspace.env["RYE_PYTHON"] = sys.executable
    return workspace


def marking(workspace: Workspace) -> tuple[str, Path]:
    """A config whose program leaves a mark when it is started, and the mark."""
    mark = workspace.folder / "started"
    code = f"open({str(mark)!r}, 'w').close()"
    return json.dumps({"command": sys.executable, "args": ["-c", code]}), mark


def server_item(space: SpaceFolder, config: str) -> Path:
    text = (
        'version: "1.0.0"\ntool_type: mcp_server\nexecutor_id: null\n'
        f"category: mcp/servers\ndescription: test server\nconfig: {config}\n"
    )
    return space.write("tools/mcp/servers/test.yaml", text)


def server_file(space: SpaceFolder, name: str, body: str) -> Path:
    header = (
        '"""A server."""\n__version__ = "1.0.0"\n__tool_type__ = "mcp_server"\n'
        '__executor_id__ = None\n__category__ = "mcp/test"\n__description__ = "a server"\n'
    )
    return space.write(f"tools/mcp/test/{name}.py", header + body)


def failure(workspace: Workspace) -> LilluxError | None:
    return workspace.run("mcp/test/tool").failure


# --- the server item


def test_an_unsigned_server_item_starts_nothing(workspace: Workspace) -> None:
    config, mark = marking(workspace)
    server_item(workspace.project, config)
    workspace.project.signed_yaml("mcp/test/tool", NAMED, executor=STDIO)

    assert type(failure(workspace)) is UnsignedError
    assert not mark.exists()


def test_a_server_item_that_was_changed_starts_nothing(workspace: Workspace) -> None:
    config, mark = marking(workspace)
    path = server_item(workspace.project, '{command: "true"}')
    workspace.project.sign(path)
    path.write_text(path.read_text("utf-8").replace('{command: "true"}', config), "utf-8")
    workspace.project.signed_yaml("mcp/test/tool", NAMED, executor=STDIO)

    assert isinstance(failure(workspace), IntegrityError)
    assert not mark.exists()


def test_a_server_item_of_a_stranger_starts_nothing(workspace: Workspace) -> None:
    config, mark = marking(workspace)
    workspace.project.sign_unchecked(server_item(workspace.project, config), generate_keypair())
    workspace.project.signed_yaml("mcp/test/tool", NAMED, executor=STDIO)

    assert type(failure(workspace)) is UntrustedKeyError
    assert not mark.exists()


def test_a_tool_of_the_user_uses_no_server_of_a_project(workspace: Workspace) -> None:
    config, mark = marking(workspace)
    workspace.project.sign(server_item(workspace.project, config))
    workspace.user.signed_yaml("mcp/test/tool", NAMED, executor=STDIO)

    error = failure(workspace)

    assert type(error) is ChainError
    assert str(error).endswith("no such item in the spaces that mcp/test/tool may use")
    assert error.hint == "project space has it, but only items of that space may use it"
    assert not mark.exists()


def test_a_tool_of_the_user_uses_no_server_of_a_project_by_its_path(workspace: Workspace) -> None:
    config, mark = marking(workspace)
    path = server_item(workspace.project, config)
    workspace.project.sign(path)
    body = f"config: {json.dumps({'server_config_path': str(path), 'tool_name': 't'})}\n"
    workspace.user.signed_yaml("mcp/test/tool", body, executor=STDIO)

    assert failure(workspace) is not None
    assert not mark.exists()


def test_a_server_item_outside_of_all_spaces_is_refused(workspace: Workspace) -> None:
    config, mark = marking(workspace)
    path = workspace.project_path / "servers.yaml"
    path.write_text(f"config: {config}\n", encoding="utf-8")
    body = f"config: {json.dumps({'server_config_path': str(path), 'tool_name': 't'})}\n"
    workspace.project.signed_yaml("mcp/test/tool", body, executor=STDIO)

    error = failure(workspace)

    assert type(error) is ChainError
    assert str(error) == (
        f"{path}: expected a server item of a space, found a file outside of all spaces"
    )
    assert not mark.exists()


def test_a_caller_cannot_name_another_server(workspace: Workspace) -> None:
    config, mark = marking(workspace)
    workspace.project.signed_yaml(
        "mcp/test/tool",
        "config: {command: '{command}', args: ['{args}'], tool_name: t}\n",
        executor=STDIO,
    )

    result = workspace.run("mcp/test/tool", params=json.loads(config))

    assert result.failure is not None
    assert result.failure.code == "INTERPRETER_NOT_FOUND"
    assert not mark.exists()


def test_a_callers_words_are_no_part_of_a_shell_command(workspace: Workspace) -> None:
    mark = workspace.folder / "started"
    server = shlex.join([sys.executable, "-I", "-S", str(ODD_SERVER)])
    script = f"exec {server} plain '{{evil}}'"
    config = {"command": "bash", "args": ["-c", script], "tool_name": "t"}
    workspace.project.signed_yaml(
        "mcp/test/tool", f"config: {json.dumps(config)}\n", executor=STDIO
    )
    evil = f"'; touch {mark}; '"

    result = workspace.run("mcp/test/tool", params={"evil": evil, "$(touch x)": "`id`"})

    assert result.data["arguments"] == {"evil": evil, "$(touch x)": "`id`"}
    assert result.data["argv"] == ["plain", "{evil}"]
    assert not mark.exists()


# --- the server's files


def test_a_server_file_that_was_changed_is_not_run(workspace: Workspace) -> None:
    mark = workspace.folder / "started"
    path = server_file(workspace.project, "server", "print(1)\n")
    workspace.project.sign(path)
    path.write_text(f"{path.read_text('utf-8')}open({str(mark)!r}, 'w')\n", "utf-8")
    workspace.project.signed_yaml(
        "mcp/test/tool", "config: {mcp_server_path: server.py, tool_name: t}\n", executor=STDIO
    )

    assert isinstance(failure(workspace), IntegrityError)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["json.py", "node_helper.js", "deep/er.py", "data.json"])
def test_an_unsigned_file_beside_a_server_file_is_not_loaded(
    workspace: Workspace, name: str
) -> None:
    workspace.project.sign(server_file(workspace.project, "server", "import json\n"))
    workspace.project.write(f"tools/mcp/test/{name}", "{}\n")
    workspace.project.signed_yaml(
        "mcp/test/tool", "config: {mcp_server_path: server.py, tool_name: t}\n", executor=STDIO
    )

    assert isinstance(failure(workspace), IntegrityError)


def test_a_command_that_names_an_unsigned_file_of_a_space_is_refused(
    workspace: Workspace,
) -> None:
    mark = workspace.folder / "started"
    path = server_file(workspace.project, "server", f"open({str(mark)!r}, 'w')\n")
    config = {"command": sys.executable, "args": ["-I", str(path)], "tool_name": "t"}
    workspace.project.signed_yaml(
        "mcp/test/tool", f"config: {json.dumps(config)}\n", executor=STDIO
    )

    assert type(failure(workspace)) is UnsignedError
    assert not mark.exists()


@pytest.mark.parametrize(
    "written", ["{project_path}/server.py", "../../../../server.py", "${SERVER}"]
)
def test_an_unsigned_server_file_is_named_by_no_placeholder(
    workspace: Workspace, written: str
) -> None:
    path = workspace.project_path / "server.py"
    path.write_text("print(1)\n", encoding="utf-8")
    workspace.env["SERVER"] = str(path)
    body = f"config: {json.dumps({'mcp_server_path': written, 'tool_name': 't'})}\n"
    workspace.project.signed_yaml("mcp/test/tool", body, executor=STDIO)

    error = failure(workspace)

    assert type(error) is ChainError
    assert str(error).endswith(
        "server.py: expected a server file in a space, or an absolute path without placeholders"
    )


def test_a_file_that_no_signature_fits_is_no_server_file(workspace: Workspace) -> None:
    path = workspace.project.write("tools/mcp/test/server", "#!/bin/sh\n")
    path.chmod(0o755)
    workspace.project.signed_yaml(
        "mcp/test/tool", "config: {mcp_server_path: server, tool_name: t}\n", executor=STDIO
    )

    error = failure(workspace)

    assert type(error) is ChainError
    assert str(error) == f"{path}: expected a file that can be a signed tool item"


@pytest.mark.skipif(os.name == "nt", reason="links need rights on Windows")
def test_a_link_into_a_space_is_the_file_that_it_leads_to(workspace: Workspace) -> None:
    path = server_file(workspace.project, "server", "print(1)\n")
    link = workspace.folder / "link.py"
    link.symlink_to(path)
    body = f"config: {json.dumps({'mcp_server_path': str(link), 'tool_name': 't'})}\n"
    workspace.project.signed_yaml("mcp/test/tool", body, executor=STDIO)

    assert type(failure(workspace)) is UnsignedError


def test_a_server_item_that_is_swapped_after_its_verification_starts_nothing(
    workspace: Workspace,
) -> None:
    config, mark = marking(workspace)
    path = server_item(workspace.project, '{command: "true"}')
    workspace.project.sign(path)
    workspace.project.signed_yaml("mcp/test/tool", NAMED, executor=STDIO)
    executor = workspace.rye().executor
    call, _ = executor._make_call(ExecutionRequest(item_id="mcp/test/tool"), ExecutionLog())

    path.write_text(path.read_text("utf-8").replace('{command: "true"}', config), "utf-8")

    with pytest.raises(IntegrityError):
        call.run()
    assert not mark.exists()


# --- the environment, and servers that lie


@pytest.mark.parametrize("value", ["a\r\nX-Evil: 1", "a\nb"])
def test_a_variable_cannot_begin_another_header(workspace: Workspace, value: str) -> None:
    workspace.env["KEY"] = value
    config = {"url": "http://127.0.0.1:9/", "tool_name": "t", "headers": {"X-Key": "${KEY}"}}
    workspace.project.signed_yaml("mcp/test/tool", f"config: {json.dumps(config)}\n", executor=HTTP)

    assert str(failure(workspace)) == (
        "config.headers.X-Key: expected one line, found a control character"
    )


def test_an_env_file_chooses_no_interpreter_of_a_server_file(workspace: Workspace) -> None:
    mark = workspace.folder / "started"
    del workspace.env["RYE_PYTHON"]
    program = workspace.folder / "python"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n", encoding="utf-8")
    program.chmod(0o755)
    for name in (".env", ".env.local", ".ai/.env"):
        (workspace.project_path / name).write_text(f"RYE_PYTHON={program}\n", encoding="utf-8")
    workspace.project.sign(server_file(workspace.project, "server", "print(1)\n"))
    workspace.project.signed_yaml(
        "mcp/test/tool", "config: {mcp_server_path: server.py, tool_name: t}\n", executor=STDIO
    )

    workspace.run("mcp/test/tool")

    assert not mark.exists()


@pytest.mark.parametrize(
    "config",
    [
        {"url": "http://${PLACE:-server.example}/mcp"},
        {"base_url": "${PLACE}"},
        {},
    ],
)
@pytest.mark.parametrize("name", [".env", ".env.local", ".ai/.env"])
def test_an_env_file_chooses_no_host_for_headers(
    workspace: Workspace, config: dict[str, str], name: str
) -> None:
    place = "http://evil.example" if "base_url" in config else "evil.example"
    text = f"PLACE={place}\nMCP_ENDPOINT=http://evil.example/mcp\n"
    (workspace.project_path / name).write_text(text, encoding="utf-8")
    body = json.dumps({**config, "tool_name": "t", "headers": {"X-Key": "s3cret"}})
    workspace.project.signed_yaml("mcp/test/tool", f"config: {body}\n", executor=HTTP)
    workspace.approve()

    assert str(failure(workspace)) == (
        "config.url: expected a host that no .env file chooses, as headers are sent to it"
    )


def test_the_environment_may_choose_the_host_for_headers(workspace: Workspace) -> None:
    workspace.env["MCP_ENDPOINT"] = "http://127.0.0.1:9/mcp"
    body = json.dumps({"tool_name": "t", "headers": {"X-Key": "s3cret"}})
    workspace.project.signed_yaml("mcp/test/tool", f"config: {body}\n", executor=HTTP)

    assert failure(workspace) is None


def test_secrets_are_in_no_error(workspace: Workspace) -> None:
    def refuse(exchange: Exchange) -> None:
        exchange.answer(500)

    workspace.env["MY_TOKEN"] = "s3cret-value"
    with Server(refuse) as server:
        headers = {"Authorization": "Bearer ${MY_TOKEN}"}
        url = f"{server.url}/mcp?key=${{MY_TOKEN}}"
        config = {"url": url, "tool_name": "t", "headers": headers}
        workspace.project.signed_yaml(
            "mcp/test/tool", f"config: {json.dumps(config)}\n", executor=HTTP
        )

        result = workspace.run("mcp/test/tool", trace=True)

    assert server.requests[0].headers["authorization"] == "Bearer s3cret-value"
    assert not result.success
    assert "s3cret" not in repr(result)


def test_the_headers_of_a_server_follow_no_redirect_to_another_host(workspace: Workspace) -> None:
    with Server(lambda exchange: exchange.answer(404)) as other:
        place = other.url.replace("127.0.0.1", "localhost")

        def redirect(exchange: Exchange) -> None:
            exchange.answer(307, location=f"{place}/mcp")

        with Server(redirect) as server:
            headers = {"X-Custom": "s3cret-value", "Authorization": "Bearer s3cret-value"}
            config = {"url": f"{server.url}/mcp", "tool_name": "t", "headers": headers}
            workspace.project.signed_yaml(
                "mcp/test/tool", f"config: {json.dumps(config)}\n", executor=HTTP
            )

            workspace.run("mcp/test/tool")

    assert "s3cret" not in repr([request.headers for request in other.requests])
