"""``rye.pyz mcp`` beside its tools: a client on two pipes that waits for notifications."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import IO, Any

import pytest

from tests.support.built import Machine

pytestmark = pytest.mark.e2e

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
WITH_TASKS: dict[str, Any] = {
    **META,
    "io.modelcontextprotocol/clientCapabilities": {
        "extensions": {"io.modelcontextprotocol/tasks": {}}
    },
}
DIRECTIVE = """# hello

```xml
<directive name="hello" version="1.0.0">
<metadata><description>greets</description><category>mine</category><author>me</author></metadata>
<inputs><input name="who" type="string" required="true">Whom</input></inputs>
</directive>
```

Greet {input:who}.
"""


KNOWLEDGE = """---
name: NAME
title: About NAME
entry_type: reference
category: brew/tea
version: "1.0.0"
---

Water boils. Größe.
"""


class Client:
    """Writes requests, reads messages; one of them at a time."""

    def __init__(self, server: "subprocess.Popen[str]") -> None:
        assert server.stdin
        assert server.stdout
        self._in: IO[str] = server.stdin
        self._out: IO[str] = server.stdout

    def send(self, method: str, request_id: int, **params: Any) -> None:  # noqa: ANN401 - JSON
        """Send a request."""
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        self._in.write(json.dumps(message) + "\n")
        self._in.flush()

    def read(self) -> dict[str, Any]:
        """Read the next message."""
        message: dict[str, Any] = json.loads(self._out.readline())
        return message

    def result(self, method: str, request_id: int, **params: Any) -> dict[str, Any]:  # noqa: ANN401
        """Read the result of a request, which is the next message."""
        self.send(method, request_id, **params)
        answer = self.read()
        assert answer["id"] == request_id
        result: dict[str, Any] = answer["result"]
        return result


@pytest.fixture
def client(machine: Machine) -> Iterator[Client]:
    """A client of a server in a project with one signed directive."""
    machine.run("init")
    _write(machine, "hello")
    with served(machine) as found:
        yield found


@contextmanager
def served(machine: Machine, *flags: str) -> Iterator[Client]:
    """A client of a server with these flags, while a block runs."""
    server = subprocess.Popen(
        [*map(str, machine.rye), "mcp", *flags],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=machine.project,
        env=machine.environ(),
        encoding="utf-8",
    )
    with server:
        yield Client(server)


def _write(machine: Machine, name: str) -> None:
    folder = machine.project / ".ai" / "directives" / "mine"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(DIRECTIVE.replace("hello", name), encoding="utf-8")
    signed = machine.run("sign", f"directive:mine/{name}")
    assert signed.returncode == 0, signed.stderr


@pytest.mark.heavy
def test_an_older_client_hears_of_a_new_prompt_after_it_requested_the_list(
    client: Client, machine: Machine
) -> None:
    client.result("initialize", 1, protocolVersion="2025-11-25", capabilities={})
    before = client.result("prompts/list", 2)["prompts"]
    _write(machine, "second")

    notification = client.read()
    after = client.result("prompts/list", 5)["prompts"]

    assert notification == {"jsonrpc": "2.0", "method": "notifications/prompts/list_changed"}
    assert [prompt["name"] for prompt in before] == ["mine.hello"]
    assert [prompt["name"] for prompt in after] == ["mine.hello", "mine.second"]


@pytest.mark.heavy
def test_a_modern_client_hears_of_resources_that_it_listens_to(
    client: Client, machine: Machine
) -> None:
    uri = "rye://directive/mine/hello"
    tag = {"io.modelcontextprotocol/subscriptionId": 7}
    client.send(
        "subscriptions/listen", 7, _meta=META, notifications={"resourceSubscriptions": [uri]}
    )
    acknowledged = client.read()
    client.result("resources/read", 8, _meta=META, uri=uri)
    path = machine.project / ".ai" / "directives" / "mine" / "hello.md"
    path.write_text(path.read_text("utf-8") + "more\n", encoding="utf-8")

    notification = client.read()
    client.send("resources/read", 9, _meta=META, uri=uri)
    refused = client.read()["error"]

    assert acknowledged["params"]["notifications"] == {"resourceSubscriptions": [uri]}
    assert notification["method"] == "notifications/resources/updated"
    assert notification["params"] == {"uri": uri, "_meta": tag}
    assert (refused["code"], refused["data"]["code"]) == (-32603, "INTEGRITY")


@pytest.mark.heavy
@pytest.mark.skipif(os.name == "nt", reason="the tool of this test is for POSIX")
def test_a_client_hears_of_the_tasks_that_it_names(client: Client, machine: Machine) -> None:
    os.mkfifo(machine.project / "gate")
    arguments = {
        "item_id": "tool:rye/bash/bash",
        "parameters": {"command": "cat gate"},
        "async": True,
    }
    task = client.result("tools/call", 1, _meta=WITH_TASKS, name="execute", arguments=arguments)
    ids = [task["taskId"], "no/such"]

    client.send("subscriptions/listen", 7, _meta=WITH_TASKS, notifications={"taskIds": ids})
    acknowledged, first = client.read(), client.read()
    (machine.project / "gate").write_text("out", encoding="utf-8")
    last = client.read()
    found = client.result("tasks/get", 8, _meta=WITH_TASKS, taskId=task["taskId"])

    assert acknowledged["params"]["notifications"] == {"taskIds": ids}
    assert (first["method"], last["method"]) == ("notifications/tasks", "notifications/tasks")
    assert first["params"]["status"] == "working"
    assert last["params"]["result"]["structuredContent"]["data"]["stdout"] == "out"
    tag = {"io.modelcontextprotocol/subscriptionId": 7}
    assert last["params"].pop("_meta") == tag
    assert last["params"] == {name: found[name] for name in last["params"]}


@pytest.mark.skipif(os.name == "nt", reason="the tool of this test is for POSIX")
def test_a_task_that_has_ended_is_reported_too(client: Client) -> None:
    arguments = {"item_id": "tool:rye/bash/bash", "parameters": {"command": ":"}, "async": True}
    task = client.result("tools/call", 1, _meta=WITH_TASKS, name="execute", arguments=arguments)
    wish = {"taskIds": [task["taskId"]]}
    params = {"_meta": WITH_TASKS, "taskId": task["taskId"]}
    while client.result("tasks/get", 2, **params)["status"] == "working":
        pass

    client.send("subscriptions/listen", 7, _meta=WITH_TASKS, notifications=wish)
    acknowledged, notification = client.read(), client.read()

    assert acknowledged["params"]["notifications"] == wish
    assert notification["params"]["status"] == "completed"


def test_a_folder_of_knowledge_is_a_skill_of_verified_files(machine: Machine) -> None:
    machine.run("init")
    folder = machine.project / ".ai" / "knowledge" / "brew" / "tea"
    folder.mkdir(parents=True)
    for name in ("SKILL", "leaves", "forged"):
        text = KNOWLEDGE.replace("NAME", name)
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    signed = machine.run("sign", "knowledge:brew/**", "--yes")
    assert signed.returncode == 0, signed.stderr
    with (folder / "forged.md").open("a", encoding="utf-8") as file:
        file.write("This is unsigned.")

    with served(machine, "--skills") as client:
        (skill,) = client.result("skills/list", 1, _meta=META)["skills"]
        files = [
            client.result("resources/read", 2, _meta=META, uri=one["uri"])["contents"][0]["text"]
            for one in skill["resources"]
        ]

    base = "skill://brew/tea"
    uris = [one["uri"] for one in skill["resources"]]
    assert uris == [f"{base}/SKILL.md", f"{base}/leaves.md"]
    for resource, text in zip(skill["resources"], files, strict=True):
        assert resource["size"] == len(text.encode())
        assert resource["digest"] == f"sha256:{sha256(text.encode()).hexdigest()}"
    assert files[0].startswith('---\nname: "tea"\ndescription: "About SKILL"\n')


def test_a_prompt_is_given_with_its_arguments(client: Client) -> None:
    arguments = {"who": "ada"}

    result = client.result("prompts/get", 1, _meta=META, name="mine.hello", arguments=arguments)

    assert result["messages"][0]["content"]["text"].strip() == "Greet ada."
