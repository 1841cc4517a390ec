"""``rye.pyz mcp`` as clients start it: bare environments, odd folders, noise, and its log."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.built import BASE_PYTHON, Machine
from tests.support.mcp_client import McpClient
from tests.support.mcp_server_machine import BASH, children, server, with_items

pytestmark = pytest.mark.e2e

# All that the libraries of MCP hand on to a server.
HANDED_ON = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory, built_pyz: Path) -> Machine:
    """A machine with signed items; no test changes them."""
    return with_items(Machine(tmp_path_factory.mktemp("machine"), BASE_PYTHON, built_pyz))


@pytest.fixture
def client(items: Machine) -> Iterator[McpClient]:
    """A client of a server in the project of that machine."""
    with server(items) as client:
        client.initialize()
        yield client


def echo(client: McpClient, command: str = "echo ü; pwd") -> dict[str, Any]:
    """The envelope of a shell command."""
    return client.envelope("execute", item_id=BASH, parameters={"command": command})


# ---------------------------------------------------------------- only messages on the wire


def test_output_of_a_function_and_its_children_is_no_message(client: McpClient) -> None:
    answer = client.envelope("execute", item_id="mine/noisy")

    assert (answer["status"], answer["data"]) == ("success", {"read": ""})
    assert client.noise == []


def test_a_program_reads_its_parameters_and_no_message_of_the_client(
    client: McpClient,
) -> None:
    call = client.start_tool("execute", item_id=BASH, parameters={"command": "cat; echo read"})
    client.result(client.send("ping"))

    read = client.result(call)["structuredContent"]["data"]["stdout"]
    assert read == '{"command": "cat; echo read"}read\n'


def test_a_background_run_writes_nothing_to_the_wire(client: McpClient, items: Machine) -> None:
    started = client.envelope(
        "execute", item_id=BASH, parameters={"command": "echo printed"}, **{"async": True}
    )
    items.run("threads", "wait", started["thread_id"])
    client.result(client.send("ping"))

    assert client.noise == []


# ---------------------------------------------------------------- environments


def environ(machine: Machine, *names: str, **more: str) -> dict[str, str]:
    """The variables of these names, and more."""
    known = {**os.environ, **machine.environ()}
    return {name: known[name] for name in names if name in known} | more


@pytest.mark.heavy
@pytest.mark.parametrize("way", ["flag", "variable", "folder", "below"])
def test_the_greeting_names_the_project_however_it_was_found(way: str, items: Machine) -> None:
    words = ["--project", str(items.project)] if way == "flag" else []
    more = {"RYE_PROJECT": str(items.project)} if way == "variable" else {}
    below = items.project / "deep" / "er"
    below.mkdir(parents=True, exist_ok=True)
    cwd = {"folder": items.project, "below": below}.get(way, items.home)

    with server(items, *words, env=items.environ(**more), cwd=cwd) as client:
        greeting = client.initialize()["instructions"]

    assert greeting.endswith(f"The project is {items.project}.")


def test_without_a_project_the_greeting_says_how_to_give_one(items: Machine) -> None:
    with server(items, cwd=items.home) as client:
        here = client.initialize()["instructions"]
    with server(items, "--project", "/no/such/place", cwd=items.home) as client:
        gone = client.initialize()["instructions"]

    assert "start rye mcp with --project DIR" in here
    assert gone.endswith("There is no project: /no/such/place is not a folder.")


def test_six_variables_are_enough(items: Machine) -> None:
    with server(items, env=environ(items, *HANDED_ON)) as client:
        client.initialize()

        assert echo(client)["data"]["stdout"] == f"ü\n{items.project}\n"


def test_no_variable_at_all_is_enough(items: Machine) -> None:
    with server(items, env={}) as client:
        client.initialize()

        found = client.envelope("search", query="bash")
        explained = client.envelope("help")

    assert (found["status"], explained["status"]) == ("success", "success")


def test_without_a_user_space_nothing_starts_that_should_leave_a_receipt(items: Machine) -> None:
    with server(items, env={"HOME": ""}) as client:
        client.initialize()

        refused = echo(client, "echo hi")

    assert refused["code"] == "FILE_SYSTEM_ERROR"
    assert "nothing was started" in refused["error"]
    assert "USER_SPACE" in refused["hint"]


@pytest.mark.parametrize(
    "more",
    [
        {"PYTHONIOENCODING": "cp932"},
        {"LC_ALL": "C"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"LANG": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        {"PYTHONIOENCODING": "latin-1:strict", "LC_ALL": "C", "PYTHONUTF8": "0"},
    ],
)
def test_no_encoding_of_the_environment_reaches_the_wire(
    more: Mapping[str, str], items: Machine
) -> None:
    with server(items, env=items.environ(**more)) as client:
        client.initialize()

        answer = echo(client, "echo 'ü 漢字 😀'")
        echoed = client.envelope("search", query="漢字 😀")

    assert answer["data"]["stdout"] == "ü 漢字 😀\n"
    assert echoed["status"] == "success"


@pytest.mark.parametrize(
    "more",
    [
        {"PYTHONIOENCODING": "latin-1"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_what_python_programs_print_is_utf_8_whatever_the_locale(
    more: Mapping[str, str], items: Machine
) -> None:
    shown = "import sys; sys.stdout.write(sys.argv[1])"
    command = f"python3 -c '{shown}' 'ü 漢字 😀'"

    ended = items.run(
        "run", BASH, f"command={command}", environ=items.environ(**more), cwd=items.project
    )

    assert (ended.stdout, ended.returncode) == ("ü 漢字 😀\n", 0)


def test_a_request_without_params_and_one_without_a_line_end_are_answered(items: Machine) -> None:
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}\n'
    last = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'

    ended = subprocess.run(
        [*items.rye, "mcp"],
        input=ping + last,
        env=items.environ(),
        cwd=items.project,
        capture_output=True,
        check=True,
        timeout=60,
    )

    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    assert answers == [{"jsonrpc": "2.0", "id": number, "result": {}} for number in (1, 2)]


ZOMBIES = "cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z '; true"


@pytest.mark.skipif(
    subprocess.run(
        ["sh", "-c", "unshare -p -f --mount-proc true"], capture_output=True, check=False
    ).returncode
    != 0,
    reason="this machine makes no namespaces of processes",
)
def test_the_first_process_of_a_container_leaves_no_zombies_and_takes_signals(
    items: Machine,
) -> None:
    apart = ["unshare", "-p", "-f", "--mount-proc"]
    with McpClient(
        [*apart, *items.rye, "mcp"],
        env=items.environ(),
        cwd=items.project,
        stderr=items.temporary / "stderr",
    ) as client:
        client.initialize()
        for _ in range(3):
            echo(client, "(setsid sleep 0.01 >/dev/null 2>&1 &); (sleep 0.01 &); sleep 0.05")
        zombies = echo(client, ZOMBIES)["data"]["stdout"]
        (first,) = children(client.process.pid)
        os.kill(first, signal.SIGTERM)
        status = client.await_end()

    assert (zombies, status) == ("0\n", 0)


# ---------------------------------------------------------------- folders


def test_a_server_in_the_root_folder_has_no_project(items: Machine) -> None:
    with server(items, cwd=Path("/")) as client:
        said = client.initialize()

        assert echo(client)["status"] == "success"
        refused = client.envelope("load", item_id=f"tool:{BASH}", destination="project")

    assert (refused["code"], "no project" in said["instructions"]) == ("NO_PROJECT", True)


def test_a_server_in_the_home_folder_writes_no_file_there(items: Machine) -> None:
    before = sorted(items.home.iterdir())

    with server(items, cwd=items.home) as client:
        client.initialize()
        assert echo(client)["status"] == "success"
        client.envelope("search", query="bash")

    assert sorted(items.home.iterdir()) == before


def test_the_project_of_an_argument_is_one_that_the_user_named(items: Machine) -> None:
    with server(items, cwd=Path("/")) as client:
        client.initialize()

        answer = client.envelope(
            "execute", item_id="knowledge:mine/fact", project_path=str(items.project)
        )

    assert answer["code"] == "PERMISSION_DENIED"
    assert "projects" in answer["hint"]


def test_the_project_that_a_client_names_counts(items: Machine) -> None:
    env = items.environ(CLAUDE_PROJECT_DIR=str(items.project))
    with server(items, cwd=Path("/"), env=env) as client:
        client.initialize()

        assert client.envelope("execute", item_id="knowledge:mine/fact")["status"] == "success"


# ---------------------------------------------------------------- failures


def test_a_missing_project_is_reported_by_every_tool(items: Machine) -> None:
    with server(items, "--project", str(items.home / "lost")) as client:
        client.initialize()

        refused = [client.envelope("search", query="x"), echo(client)]

    assert [answer["code"] for answer in refused] == ["NO_PROJECT", "NO_PROJECT"]
    assert all(answer["hint"] for answer in refused)


@pytest.mark.parametrize(
    ("arguments", "more"), [(["--tools", "nine"], {}), ([], {"RYE_LOG": "loud"})]
)
def test_a_server_that_cannot_start_answers_the_first_request_with_the_reason(
    arguments: list[str], more: Mapping[str, str], items: Machine
) -> None:
    with server(items, *arguments, env=items.environ(**more)) as client:
        error = client.answer(client.send("initialize", {}))["error"]
        status = client.await_end()

    assert (status, error["code"], error["data"]["code"]) == (2, -32603, "INVALID_PARAMS")
    assert error["message"] in client.stderr


# ---------------------------------------------------------------- the log


def test_a_server_writes_nothing_to_standard_error_by_default(client: McpClient) -> None:
    echo(client)
    client.close_stdin()
    client.await_end()

    assert client.stderr == ""


def test_a_log_has_each_event_and_no_value(items: Machine, tmp_path: Path) -> None:
    path = tmp_path / "rye.log"
    with server(items, "--log-file", str(path)) as client:
        client.initialize()
        echo(client, "echo sesame")
        client.close_stdin()
        client.await_end()

    lines = path.read_text("utf-8").splitlines()
    assert [line.split(maxsplit=4)[4].partition(":")[0] for line in lines] == [
        "2 tools/call",
        "ends",
    ]
    assert "sesame" not in path.read_text("utf-8")
    assert client.stderr == ""


def test_standard_error_has_the_log_on_request(items: Machine) -> None:
    with server(items, env=items.environ(RYE_LOG="info")) as client:
        client.initialize()
        client.close_stdin()
        client.await_end()

    assert client.stderr == f"rye[{client.process.pid}] INFO ends: standard input ended\n"


def test_requests_of_a_pipe_that_ended_are_answered(items: Machine) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": meta}},
    ]
    ended = subprocess.run(
        [*items.rye, "mcp"],
        env=items.environ(),
        cwd="/",
        input="".join(json.dumps(line) + "\n" for line in lines),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    replies = [json.loads(line) for line in ended.stdout.splitlines()]
    assert (ended.returncode, [answer["id"] for answer in replies]) == (0, [1, 2])


# ---------------------------------------------------------------- closed streams


@pytest.mark.skipif(os.name == "nt", reason="a shell of POSIX closes them")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_a_server_whose_streams_are_closed_ends_in_silence(closed: str, items: Machine) -> None:
    ended = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *items.rye, "mcp"],
        env=items.environ(),
        cwd=items.home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_the_greeting_of_a_folder_without_items_says_so(items: Machine) -> None:
    bare = items.home / "bare"
    bare.mkdir()
    with server(items, cwd=bare) as client:
        greeting = client.initialize()["instructions"]

    assert f"{bare} has no items: what you make is kept there." in greeting
    assert "start rye mcp with --project DIR" in greeting
