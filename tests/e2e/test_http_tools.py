"""A tool of one request, run by the built file."""

import json
import signal
import subprocess
import sys
import threading

import pytest

from tests.support.built import Machine
from tests.support.certificates import authority_file, context_for
from tests.support.http_servers import Exchange, Server

pytestmark = pytest.mark.e2e

TOOL = """\
version: "1.0.0"
tool_type: http
executor_id: rye/core/primitives/http_client
category: my
description: Asks a server
config:
  method: POST
  url: {url}/items/{{x}}
  auth: {{type: bearer, token: "${{API_TOKEN}}"}}
  body: {{x: "{{x}}"}}
"""


def echo(exchange: Exchange) -> None:
    body = {"target": exchange.path, "body": exchange.seen.body.decode()}
    exchange.answer(200, json.dumps(body).encode())


def with_tool(machine: Machine, url: str) -> Machine:
    path = machine.project / ".ai" / "tools" / "my" / "api.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(TOOL.format(url=url), "utf-8")
    assert machine.run("keys", "generate").returncode == 0
    assert machine.run("sign", "tool:my/api").returncode == 0
    return machine


@pytest.mark.parametrize("way", ["http", "https"])
def test_the_built_file_sends_a_request(machine: Machine, way: str) -> None:
    environ = machine.environ(API_TOKEN="s3cr3t")
    context = context_for("localhost") if way == "https" else None
    if context:
        environ["SSL_CERT_FILE"] = str(authority_file(machine.temporary))
    with Server(echo, context) as server:
        with_tool(machine, server.url)
        ended = machine.run("run", "my/api", "x=1", "--json", environ=environ)

    answer = json.loads(ended.stdout)
    assert ended.returncode == 0
    assert answer["data"]["status_code"] == 200
    assert answer["data"]["body"] == {"target": "/items/1", "body": '{"x": "1"}'}
    assert server.requests[0].headers["authorization"] == "Bearer s3cr3t"
    assert "s3cr3t" not in ended.stdout + ended.stderr


def test_a_request_that_fails_ends_with_the_status_of_a_failed_tool(machine: Machine) -> None:
    with Server(lambda e: e.answer(404)) as server:
        with_tool(machine, server.url)
        ended = machine.run("run", "my/api", "x=1", environ=machine.environ(API_TOKEN="s3cr3t"))

    assert (ended.returncode, ended.stderr) == (1, "error: HTTP 404: Not Found\n")


def test_a_dry_run_shows_the_request_without_its_secret(machine: Machine) -> None:
    environ = machine.environ(API_TOKEN="s3cr3t")
    with Server(echo) as server:
        with_tool(machine, server.url)
        ended = machine.run("run", "my/api", "x=1", "--dry-run", "--json", environ=environ)

    assert server.requests == []
    request = json.loads(ended.stdout)["metadata"]["request"]
    assert request["url"] == f"{server.url}/items/1"
    assert request["headers"]["Authorization"] == "***"
    assert "s3cr3t" not in ended.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_an_interrupted_request_ends_at_once(machine: Machine) -> None:
    requested = threading.Event()

    def hang(exchange: Exchange) -> None:
        requested.set()
        exchange.wait(60)

    with Server(hang) as server:
        with_tool(machine, server.url)
        environ = machine.environ(API_TOKEN="s3cr3t")
        command = [*machine.rye, "run", "my/api", "x=1"]
        with subprocess.Popen(
            command, env=environ, cwd=machine.project, stderr=subprocess.PIPE, encoding="utf-8"
        ) as process:
            assert requested.wait(60)
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=10)

    assert process.returncode == 130
    assert "the request was cancelled" in stderr
