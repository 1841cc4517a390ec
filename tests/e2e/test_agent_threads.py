"""Threads of models in the built file: over MCP, in the background, and for ``lillux-watch``."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.support.built import Machine
from tests.support.mcp_client import McpClient
from tests.support.model_server import ModelServer, Reply, calls, events, words

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX"),
]

PROVIDER = """\
version: "1.0.0"
category: agent/providers
dialect: openai-chat
base_url: {url}
models:
  small: {{free: true, context: 8000, features: [tools]}}
"""
DIRECTIVE = """# say

```xml
<directive name="say" version="1.0.0">
<metadata>
<description>test</description>
<category>ops</category>
<author>tester</author>
<model provider="lab" id="small"/>
<permissions><execute><tool>rye.bash.bash</tool></execute></permissions>
</metadata>
</directive>
```

Say something.
"""
ITEM: dict[str, Any] = {"item_id": "directive:ops/say", "thread": "fork"}
CALL = calls(("bash", {"command": "echo hi"}))


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(always=words("all is well")) as running:
        yield running


@pytest.fixture
def ready(machine: Machine, server: ModelServer) -> Machine:
    machine.run("init")
    files = {
        machine.home / ".ai" / "config" / "agent" / "providers" / "lab.yaml": PROVIDER.format(
            url=server.url
        ),
        machine.project / ".ai" / "directives" / "ops" / "say.md": DIRECTIVE,
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        signed = machine.run("sign", str(path), "--yes")
        assert signed.returncode == 0, signed.stderr
    return machine


@pytest.fixture
def client(ready: Machine, tmp_path: Path) -> Iterator[McpClient]:
    argv = [*ready.rye, "mcp"]
    with McpClient(
        argv, env=ready.environ(), cwd=ready.project, stderr=tmp_path / "errors"
    ) as found:
        found.initialize()
        yield found


class Held:
    """A reply that says half a sentence, and goes on when it is let go."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = Event(), Event()

    def reply(self, rest: Reply) -> Reply:
        begun = {"id": "c", "choices": [{"index": 0, "delta": {"content": "Half a"}}]}

        def hold(handler: BaseHTTPRequestHandler) -> None:
            self.has_begun.set()
            self.may_end.wait(60)
            rest(handler, {})

        return events([json.dumps(begun)], then=hold)


def _rest_with_call(handler: BaseHTTPRequestHandler, body: Any) -> None:  # noqa: ANN401 - a body
    """The end of a stream that has begun, with a call of a tool."""
    call = {"name": "bash", "arguments": json.dumps({"command": "echo again"})}
    delta = {"tool_calls": [{"index": 0, "id": "c2", "type": "function", "function": call}]}
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    handler.wfile.write(f"data: {json.dumps({'id': 'c', 'choices': [choice]})}\n\n".encode())
    _rest(handler, body)


def _rest(handler: BaseHTTPRequestHandler, _: Any) -> None:  # noqa: ANN401 - a body
    """The end of a stream that has begun."""
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    stop = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    for one in (stop, {"id": "c", "choices": [], "usage": usage}):
        handler.wfile.write(f"data: {json.dumps(one)}\n\n".encode())
    handler.wfile.write(b"data: [DONE]\n\n")


def thread_ids(machine: Machine) -> list[str]:
    folder = machine.home / ".ai" / "state" / "agent" / "threads"
    return sorted(one.name for one in folder.iterdir()) if folder.is_dir() else []


def state(machine: Machine, thread_id: str) -> str:
    shown = json.loads(machine.ask("threads", "show", thread_id, "--json"))
    return str(shown["thread"]["state"])


def test_a_client_hears_turns_calls_and_words_while_a_thread_runs(
    client: McpClient, server: ModelServer
) -> None:
    held = Held()
    server.replies = [CALL, held.reply(_rest)]
    request = client.start_tool("execute", {"progressToken": "t"}, **ITEM)

    def heard() -> list[str]:
        return [one["message"] for one in client.notifications("notifications/progress")]

    client.wait_until(lambda: "Half a" in heard(), "the words of the model")
    held.may_end.set()
    answer = client.result(request)["structuredContent"]

    assert (answer["state"], answer["text"]) == ("completed", "Half a")
    assert any("turn 1 is answered" in one for one in heard())
    done = [one["progress"] for one in client.notifications("notifications/progress")]
    assert done == sorted(set(done))


def test_a_cancelled_call_ends_after_the_present_turn_and_the_server_stays(
    ready: Machine, client: McpClient, server: ModelServer
) -> None:
    held = Held()
    server.replies = [CALL, held.reply(_rest_with_call), words("never asked")]
    request = client.start_tool("execute", **ITEM)
    assert held.has_begun.wait(60)
    (thread_id,) = thread_ids(ready)

    client.cancel(request)
    client.result(client.send("ping"))
    held.may_end.set()
    log = ready.ask("threads", "logs", thread_id, "-f", "--json").splitlines()

    kinds = [json.loads(one)["type"] for one in log]
    assert kinds[-4:] == ["answered", "called", "returned", "ended"]
    assert json.loads(log[-1])["state"] == "cancelled"
    assert len(server.requests) == 2
    assert client.answers(request) == []
    assert client.result(client.send("ping")) == {}


def test_a_run_in_the_background_is_waited_for_and_watched(
    ready: Machine, client: McpClient, server: ModelServer
) -> None:
    held = Held()
    server.replies = [held.reply(_rest)]
    started = client.envelope("execute", **ITEM, **{"async": True, "wait_s": 0})
    assert held.has_begun.wait(60)
    (thread_id,) = thread_ids(ready)
    watch = (
        f"command=lillux-watch --db .ai/state/threads/registry.db --thread-id {thread_id} --timeout"
    )
    before = json.loads(ready.ask("run", "rye/bash/bash", f"{watch} 0"))
    running = client.envelope("execute", item_id=started["thread_id"])

    held.may_end.set()
    ended = client.envelope("execute", item_id=started["thread_id"], wait_s=60)
    after = json.loads(ready.ask("run", "rye/bash/bash", f"{watch} 60"))

    assert before["status"] == "timeout"
    assert running["status"] == "running"
    assert (ended["state"], ended["text"]) == ("completed", "Half a")
    assert after["status"] == "completed"


def test_a_thread_in_a_server_is_killed_at_once_and_the_server_stays(
    ready: Machine, client: McpClient, server: ModelServer
) -> None:
    held = Held()
    server.replies = [held.reply(_rest)]
    request = client.start_tool("execute", **ITEM)
    assert held.has_begun.wait(60)
    (thread_id,) = thread_ids(ready)

    killed = json.loads(ready.ask("threads", "kill", thread_id, "--json"))
    answer = client.result(request)["structuredContent"]
    held.may_end.set()

    assert killed["killed"] is True
    assert (answer["status"], answer["state"]) == ("error", "cancelled")
    assert client.envelope("execute", **ITEM)["state"] == "completed"


def test_a_thread_in_the_background_is_followed_as_json_and_killed(
    ready: Machine, server: ModelServer
) -> None:
    held = Held()
    server.replies = [held.reply(_rest)]
    thread_id = ready.run("run", "directive:ops/say", "--fork", "--async", "-q").stdout.strip()
    assert held.has_begun.wait(60)
    with subprocess.Popen(
        [*map(str, ready.rye), "threads", "logs", thread_id, "-f", "--json"],
        env=ready.environ(),
        cwd=ready.project,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as followed:
        killed = json.loads(ready.ask("threads", "kill", thread_id, "--json"))
        lines = followed.communicate(timeout=60)[0].splitlines()
    held.may_end.set()

    assert killed["killed"] is True
    assert [json.loads(one)["type"] for one in lines] == ["thread", "asked", "unanswered", "ended"]
    assert state(ready, thread_id) == "cancelled"


def test_a_call_with_wait_s_gives_the_id_after_that_time_and_the_thread_goes_on(
    client: McpClient, server: ModelServer
) -> None:
    held = Held()
    server.replies = [held.reply(_rest)]

    running = client.envelope("execute", **ITEM, wait_s=0)
    held.may_end.set()
    ended = client.envelope("execute", item_id=running["thread_id"], wait_s=60)
    at_once = client.envelope("execute", **ITEM, wait_s=60)

    assert (running["status"], len(running["next"])) == ("running", 2)
    assert (ended["state"], ended["text"]) == ("completed", "Half a")
    assert (at_once["state"], at_once["text"]) == ("completed", "all is well")
    assert at_once["thread_id"]


def test_an_agent_cancels_a_thread_that_its_own_server_carries_out(
    ready: Machine, client: McpClient, server: ModelServer
) -> None:
    held = Held()
    server.replies = [held.reply(_rest)]
    request = client.start_tool("execute", **ITEM)
    assert held.has_begun.wait(60)
    (thread_id,) = thread_ids(ready)

    cancelled = client.envelope("execute", **_cancel(thread_id))
    answer = client.result(request)["structuredContent"]
    held.may_end.set()

    assert (cancelled["data"]["killed"], cancelled["data"]["state"]) == (True, "cancelled")
    assert (answer["status"], answer["state"]) == ("error", "cancelled")
    assert client.envelope("execute", **ITEM)["state"] == "completed", "the server goes on"


def test_an_agent_cancels_a_thread_that_it_started_in_the_background(
    client: McpClient, server: ModelServer
) -> None:
    held = Held()
    server.replies = [held.reply(_rest)]
    started = client.envelope("execute", **ITEM, **{"async": True})
    assert held.has_begun.wait(60)

    cancelled = client.envelope("execute", **_cancel(started["thread_id"]))
    held.may_end.set()

    assert (cancelled["data"]["killed"], cancelled["data"]["state"]) == (True, "cancelled")


def test_an_agent_does_not_cancel_a_thread_of_a_person_at_a_terminal(
    ready: Machine, client: McpClient, server: ModelServer
) -> None:
    held = Held()
    server.replies = [held.reply(_rest)]
    with subprocess.Popen(
        [*map(str, ready.rye), "run", "directive:ops/say", "--fork", "--json"],
        env=ready.environ(),
        cwd=ready.project,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as person:
        assert held.has_begun.wait(60)
        (thread_id,) = thread_ids(ready)
        refused = client.envelope("execute", **_cancel(thread_id))
        held.may_end.set()
        answer = json.loads(person.communicate(timeout=60)[0])

    assert refused["status"] == "error"
    assert (answer["state"], answer["text"]) == ("completed", "Half a")


def _cancel(thread_id: str) -> dict[str, Any]:
    return {"item_id": "rye/core/processes/cancel", "parameters": {"thread_id": thread_id}}


def test_a_thread_that_is_killed_and_goes_on_has_not_got_its_time_again(
    ready: Machine, server: ModelServer
) -> None:
    held = Held()
    server.replies = [held.reply(_rest)]
    thread_id = ready.run("run", "directive:ops/say", "--fork", "--async", "-q").stdout.strip()
    assert held.has_begun.wait(60)
    journal = ready.home / ".ai" / "state" / "agent" / "threads" / thread_id / "journal.jsonl"
    waiting = Event()
    while '"elapsed_s":2' not in journal.read_text("utf-8").replace(" ", ""):
        waiting.wait(0.1)
    shown = json.loads(ready.ask("threads", "show", thread_id, "--json"))

    os.kill(shown["thread"]["pid"], signal.SIGKILL)
    held.may_end.set()
    answer = json.loads(ready.ask("threads", "resume", thread_id, "--json"))

    assert answer["state"] == "completed"
    assert answer["usage"]["duration_s"] >= 2


def test_a_timeout_stops_a_thread_in_the_foreground_and_in_the_background_by_its_limit(
    ready: Machine, server: ModelServer
) -> None:
    held = Held()
    server.always = held.reply(_rest)
    words_of_run = ("run", "directive:ops/say", "--fork", "--timeout", "1")

    here = ready.run(*words_of_run)
    thread_id = ready.run(*words_of_run, "--async", "-q").stdout.strip()
    ready.run("threads", "wait", thread_id)
    held.may_end.set()

    assert here.returncode == 1
    assert "error: duration_s: 1 needed, 0 left of 1" in here.stderr
    assert f"threads raise {thread_ids(ready)[0]} duration_s=N" in here.stderr
    assert state(ready, thread_id) == "stopped"


STOPPED = calls(("bash", {"command": "echo hi"}))


def test_a_stopped_thread_has_the_same_state_for_agents_and_for_people(
    ready: Machine, client: McpClient, server: ModelServer
) -> None:
    server.replies = [STOPPED]
    stopped = client.envelope("execute", **ITEM, options={"limit_overrides": {"turns": 1}})
    (thread_id,) = thread_ids(ready)

    listed = client.envelope("execute", item_id="rye/core/processes/list")["data"]["threads"]
    status = client.envelope(
        "execute", item_id="rye/core/processes/status", parameters={"thread_id": thread_id}
    )["data"]
    rows = json.loads(ready.ask("threads", "list", "--json"))["threads"]

    assert stopped["state"] == "stopped"
    assert [one["state"] for one in listed] == ["stopped"]
    assert (status["state"], status["code"]) == ("stopped", "LIMIT_TURNS")
    assert [one["state"] for one in rows] == ["stopped"]
    assert state(ready, thread_id) == "stopped"


def test_a_thread_whose_process_was_killed_is_interrupted_for_agents_too(
    ready: Machine, client: McpClient, server: ModelServer
) -> None:
    held = Held()
    server.replies = [held.reply(_rest)]
    with subprocess.Popen(
        [*map(str, ready.rye), "run", "directive:ops/say", "--fork", "--json"],
        env=ready.environ(),
        cwd=ready.project,
        stdout=subprocess.DEVNULL,
    ) as process:
        assert held.has_begun.wait(60)
        process.kill()
    held.may_end.set()
    (thread_id,) = thread_ids(ready)

    listed = client.envelope("execute", item_id="rye/core/processes/list")["data"]["threads"]
    answer = client.envelope("execute", item_id=thread_id)

    assert [one["state"] for one in listed] == ["interrupted"]
    assert (answer["status"], answer["state"]) == ("error", "interrupted")
    assert state(ready, thread_id) == "interrupted"


def test_the_long_id_of_a_thread_is_answered_by_execute_and_explained_by_load(
    ready: Machine, client: McpClient
) -> None:
    client.envelope("execute", **ITEM)
    (thread_id,) = thread_ids(ready)

    for named in (thread_id, f"directive:{thread_id}", f"rye://thread/{thread_id}"):
        assert client.envelope("execute", item_id=named)["text"] == "all is well"
    refused = client.envelope("load", item_id=thread_id)

    assert refused["code"] == "ITEM_NOT_FOUND"
    assert refused["error"] == f"{thread_id}: it is the id of a run, and no item"
    assert f'load {{"item_id": "rye://thread/{thread_id}"}}' in refused["hint"]
    assert f'execute {{"item_id": "{thread_id}"' in refused["hint"]


def test_an_id_that_no_thread_has_names_the_close_ones_once(
    ready: Machine, client: McpClient
) -> None:
    client.envelope("execute", **ITEM)
    (thread_id,) = thread_ids(ready)
    typed = f"{thread_id[:-1]}{'0' if thread_id[-1] != '0' else '1'}"

    result = client.call(
        "execute", item_id="rye/core/processes/status", parameters={"thread_id": typed}
    )

    (text,) = [one["text"] for one in result["content"]]
    assert text.count("did you mean") == 1
    assert "suggestions" not in text


def test_text_of_a_model_is_shown_with_escapes_and_the_structure_has_it_as_it_is(
    client: McpClient, server: ModelServer
) -> None:
    steering = "a\x1b[2Jb\rc\u202ed"
    server.always = words(steering)
    request = client.start_tool("execute", {"progressToken": "t"}, **ITEM)
    result = client.result(request)

    assert result["structuredContent"]["text"] == steering
    (text,) = [one["text"] for one in result["content"]]
    told = [one["message"] for one in client.notifications("notifications/progress")]
    assert r"text: a\u001b[2Jb\u000dc\u202ed" in text
    assert not {"\x1b", "\r", "\u202e"} & set("".join([text, *told]))


def test_a_pruned_background_thread_leaves_nothing_in_the_project(
    ready: Machine, client: McpClient
) -> None:
    started = client.envelope("execute", **ITEM, **{"async": True, "wait_s": 60})
    (thread_id,) = thread_ids(ready)
    folder = ready.project / ".ai" / "state" / "threads" / thread_id
    assert (folder / "spawn.log").is_file()

    pruned = json.loads(ready.ask("threads", "prune", "--older", "0s", "--json"))

    assert started["state"] == "completed"
    assert pruned["removed"] == [thread_id]
    assert not folder.exists()
    assert client.envelope("execute", item_id=thread_id)["code"] == "THREAD_NOT_FOUND"
    listed = client.envelope("execute", item_id="rye/core/processes/list")["data"]["threads"]
    assert listed == []
