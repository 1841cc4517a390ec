"""A primitive as the called tool: its parameters are its config, and no template reads them."""

import sys
from typing import Any

import pytest

from tests.support.http_servers import Exchange, Server
from tests.support.workspace import Workspace

EXECUTE, SUBPROCESS = "rye/core/primitives/execute", "rye/core/primitives/subprocess"
HTTP_CLIENT = "rye/core/primitives/http_client"
TEXT = "{command} ${HOME} {rye_value_0} {params_json} $(id) ü"
PRINT = "import os, sys; print(sys.argv[1:], os.environ.get('NOTE'), sys.stdin.read())"


@pytest.mark.parametrize("item_id", [EXECUTE, SUBPROCESS, "subprocess", "execute"])
def test_a_program_is_run_with_its_arguments_as_they_are_written(
    workspace: Workspace, item_id: str
) -> None:
    parameters = {"command": sys.executable, "args": ["-c", PRINT, TEXT], "env": {"NOTE": TEXT}}

    done = workspace.run(item_id, params=parameters)

    assert done.success, done.error
    assert done.data["stdout"] == f"{[TEXT]} {TEXT} \n"


def test_a_script_of_the_caller_is_code_and_nothing_else_is_filled_in(workspace: Workspace) -> None:
    parameters = {
        "command": "sh",
        "args": ["-c", 'cat; for one in a b; do echo "${one} {command} $0"; done', "last"],
        "input_data": "{cwd}\n",
    }

    done = workspace.run(SUBPROCESS, params=parameters)

    assert done.data["stdout"] == "{cwd}\na {command} last\nb {command} last\n"


def test_what_a_program_of_the_caller_prints_is_text(workspace: Workspace) -> None:
    parameters = {"command": "echo", "args": ['{"success": false}']}

    done = workspace.run(EXECUTE, params=parameters)

    assert (done.success, done.data["stdout"]) == (True, '{"success": false}\n')


def test_folder_and_time_limit_are_those_of_the_call(workspace: Workspace) -> None:
    (workspace.project_path / "below").mkdir()

    inside = workspace.run(EXECUTE, params={"command": "pwd", "cwd": "below"})
    ended = workspace.run(EXECUTE, params={"command": "sleep", "args": ["60"], "timeout": 0.1})

    assert inside.data["stdout"].endswith("/below\n")
    assert ended.metadata["error_code"] == "TIMEOUT"


@pytest.mark.parametrize(
    ("parameters", "problem"),
    [
        ({}, "command"),
        ({"command": "true", "protocol": "mcp"}, "unknown parameter protocol"),
        ({"command": "true", "starter": "x"}, "unknown parameter starter"),
        ({"command": "true", "env": {"LD_PRELOAD": "x"}}, "LD_PRELOAD"),
        ({"command": "true", "env": {"RYE_CONFINE": ""}}, "RYE_CONFINE"),
        ({"command": "true", "env": {"PATH": "/tmp"}}, "PATH"),
        ({"command": "true", "env": {"A=B": ""}}, "the name of a variable"),
        ({"command": "true", "env": {"A": 1}}, "/env/A"),
    ],
)
def test_what_steers_the_engine_or_its_start_is_no_parameter(
    workspace: Workspace, parameters: dict[str, Any], problem: str
) -> None:
    refused = workspace.run(EXECUTE, params=parameters)

    assert refused.metadata["error_code"] == "VALIDATION_FAILED"
    assert problem in str(refused.error)


def test_a_request_is_sent_as_it_is_written(workspace: Workspace) -> None:
    def echo(exchange: Exchange) -> None:
        exchange.answer(200, b"{}", Content_Type="application/json")

    with Server(echo) as server:
        done = workspace.run(
            HTTP_CLIENT,
            params={
                "method": "POST",
                "url": f"{server.url}/items",
                "query": {"q": "{url} ${HOME}"},
                "headers": {"X-Note": "{method}"},
                "auth": {"type": "bearer", "token": "t{url}"},
                "body": {"text": "{body}", "n": [1, "${HOME}"]},
            },
        )

    assert done.success, done.error
    seen = server.requests[0]
    assert seen.target == "/items?q=%7Burl%7D%20%24%7BHOME%7D"
    assert (seen.headers["x-note"], seen.headers["authorization"]) == ("{method}", "Bearer t{url}")
    assert seen.body == b'{"text": "{body}", "n": [1, "${HOME}"]}'
