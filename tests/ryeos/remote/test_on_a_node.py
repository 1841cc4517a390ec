"""Projects pushed to a real node, with separate processes on both ends."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lillux.key_files import load_keypair, save_keypair
from lillux.signing import generate_keypair
from ryeos.items.refs import Space, parse_reference
from ryeos.remote.errors import RemoteConflictError, RemoteError
from ryeos.remote.link import Link, RemoteEnvironment, open_link
from ryeos.remote.local_secrets import LocalSecrets
from ryeos.remote.pull import pull
from ryeos.remote.push import push
from ryeos.remote.run import RemoteOptions
from ryeos.remote.run_answers import execute_on
from ryeos.run.model import ExecutionRequest
from tests.support.mcp_conversation import NEWEST_LEGACY, Conversation
from tests.support.node import Node, User
from tests.support.workspace import Workspace

RULES = "sync: {include: ['src/']}\n"
pytest_plugins = ("tests.support.node",)


class Machine:
    """A machine of a user: a workspace whose remote is the node."""

    def __init__(self, folder: Path, bundle: Space, node: Node, user: User | None = None) -> None:
        folder.mkdir()
        self.workspace = Workspace(folder, (bundle,))
        self.user = user or node.user(keypair=self.workspace.keypair)
        save_keypair(self.workspace.context().key_directory, self.user.keypair)
        text = f"remotes:\n  default: {{url: '{node.url}', key_env: NODE_KEY}}\n"
        self.workspace.user.write("config/remotes/remotes.yaml", text)
        self.workspace.project.write("config/cas/manifest.yaml", RULES)

    @property
    def root(self) -> Path:
        return self.workspace.project_path

    def link(self, **env: str) -> Link:
        self.workspace.env |= env
        return open_link(RemoteEnvironment(workspace=self.workspace.rye()), None)

    def write(self, path: str, text: str) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def read(self, path: str) -> str:
        return (self.root / path).read_text(encoding="utf-8")


@pytest.fixture
def here(tmp_path: Path, bundle: Space, shared_node: Node) -> Machine:
    return Machine(tmp_path / "here", bundle, shared_node)


@pytest.fixture
def there(tmp_path: Path, bundle: Space, shared_node: Node, here: Machine) -> Machine:
    return Machine(tmp_path / "there", bundle, shared_node, here.user)


def test_a_project_is_pushed_and_pulled(here: Machine, there: Machine) -> None:
    here.write("src/a.txt", "a\n")
    here.write(".ai/tools/mine/a.py", "print(1)\n")

    pushed = push(here.link())
    pulled = pull(there.link())

    assert pulled.snapshot_hash == pushed.snapshot_hash
    assert there.read("src/a.txt") == "a\n"
    assert there.read(".ai/tools/mine/a.py") == "print(1)\n"


def test_an_api_key_opens_the_same_store(here: Machine) -> None:
    pushed = push(here.link())

    with_key = push(here.link(NODE_KEY=here.user.token))

    assert with_key.snapshot_hash == pushed.snapshot_hash
    assert not with_key.is_new


def test_a_second_push_does_not_move_the_head(here: Machine) -> None:
    first = push(here.link())

    second = push(here.link())

    assert not second.is_new
    assert second.snapshot_hash == first.snapshot_hash


@pytest.mark.heavy
def test_two_machines_merge(here: Machine, there: Machine) -> None:
    here.write("src/a.txt", "".join(f"{n}\n" for n in range(20)))
    push(here.link())
    pull(there.link())
    here.write("src/a.txt", here.read("src/a.txt").replace("1\n", "one\n", 1))
    there.write("src/a.txt", there.read("src/a.txt") + "end\n")

    push(here.link())
    push(there.link())
    push(here.link())

    assert here.read("src/a.txt") == there.read("src/a.txt")
    assert "one\n" in here.read("src/a.txt")
    assert here.read("src/a.txt").endswith("end\n")


def test_a_conflict_on_a_real_node(here: Machine, there: Machine) -> None:
    here.write("src/a.txt", "base\n")
    push(here.link())
    pull(there.link())
    here.write("src/a.txt", "here\n")
    there.write("src/a.txt", "there\n")
    push(here.link())

    with pytest.raises(RemoteConflictError):
        push(there.link())

    assert there.read("src/a.txt") == "there\n"
    pushed = push(there.link(), force=True)
    assert pushed.is_new


def test_an_unauthorised_key_is_refused(tmp_path: Path, bundle: Space, shared_node: Node) -> None:
    unknown = User(shared_node, generate_keypair(), "")
    stranger = Machine(tmp_path / "stranger", bundle, shared_node, unknown)

    with pytest.raises(RemoteError, match="status 401"):
        push(stranger.link())


def test_a_push_is_in_the_history(here: Machine) -> None:
    link = here.link()
    pushed = push(link)

    rows = link.node.history(link.project_path, 10)

    assert rows[0]["_hash"] == pushed.snapshot_hash
    assert rows[0]["source"] == "push"


def test_many_files_are_pushed_and_pulled(here: Machine, there: Machine) -> None:
    for number in range(2000):
        here.write(f"src/{number % 50}/{number}.txt", f"{number}\n" * 10)

    pushed = push(here.link())
    pulled = pull(there.link())

    assert pushed.objects_sent >= 2000
    assert len(pulled.applied.written) == 2000


# ------------------------------------------------------------------ runs


HELLO = """
import json, pathlib
pathlib.Path("src").mkdir(exist_ok=True)
pathlib.Path("src/made.txt").write_text("made there", encoding="utf-8")
print(json.dumps({"hello": "there"}))
"""


GRAPH = """
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: a graph of one call elsewhere
permissions: ["rye.execute.*"]
config:
  start: far
  nodes:
    far:
      remote: default
      action: {item_id: "tool:mine/hello"}
      assign: {said: "${result.hello}"}
      next: done
    done: {type: return, output: {said: "${state.said}"}}
"""


def run_there(machine: Machine, item: str, **parameters: object) -> Mapping[str, Any]:
    around = RemoteEnvironment(workspace=machine.workspace.rye())
    reference = parse_reference(item)
    request = ExecutionRequest(item_id=reference.id, parameters=parameters)
    return execute_on(around, None, reference, request, RemoteOptions()).envelope


def test_a_tool_runs_on_the_node_and_its_files_are_applied_locally(here: Machine) -> None:
    here.workspace.project.signed_tool("mine/hello", HELLO)

    envelope = run_there(here, "tool:mine/hello")

    assert envelope["status"] == "success", envelope
    assert envelope["data"] == {"hello": "there"}
    assert envelope["execution_mode"] == "remote"
    assert here.read("src/made.txt") == "made there"
    assert envelope["remote"]["applied"] == ["src/made.txt"]


def test_a_tool_sees_the_users_secrets_and_no_other_tool_does(here: Machine) -> None:
    rye = here.workspace.rye()
    secrets = LocalSecrets(here.workspace.home, load_keypair(rye.context.key_directory).private_pem)
    secrets.set({"MY_TOKEN": "s3cret-value"})
    here.workspace.project.signed_tool(
        "mine/seen", "import json, os\nprint(json.dumps(len(os.environ['MY_TOKEN'])))\n"
    )

    envelope = run_there(here, "tool:mine/seen")

    assert envelope["data"] == len("s3cret-value"), envelope


def test_a_node_of_a_graph_runs_on_the_remote(here: Machine) -> None:
    here.workspace.project.signed_tool("mine/hello", HELLO)
    here.workspace.project.signed("tools/mine/far.yaml", GRAPH)

    answer = here.workspace.rye().execute(
        parse_reference("tool:mine/far"), ExecutionRequest(item_id="mine/far")
    )

    assert answer.envelope["data"]["output"] == {"said": "there"}, answer.envelope
    assert here.read("src/made.txt") == "made there"


@pytest.mark.parametrize("where", [{"target": "remote"}, {"thread": "remote:default"}])
def test_an_agent_runs_an_item_on_the_remote(here: Machine, where: Mapping[str, str]) -> None:
    here.workspace.project.signed_tool("mine/hello", HELLO)
    client = Conversation(here.workspace.rye(), version=NEWEST_LEGACY)

    result = client.result(
        "tools/call",
        "CallToolResult",
        name="execute",
        arguments={"item_id": "tool:mine/hello", **where},
    )

    envelope = result["structuredContent"]
    assert (envelope["status"], "remote" in envelope) == ("success", True), envelope


def test_an_agent_cannot_choose_a_local_and_a_remote_target(here: Machine) -> None:
    here.workspace.project.signed_tool("mine/hello", HELLO)
    client = Conversation(here.workspace.rye(), version=NEWEST_LEGACY)

    result = client.result(
        "tools/call",
        "CallToolResult",
        name="execute",
        arguments={"item_id": "tool:mine/hello", "thread": "remote:default", "target": "local"},
    )

    assert result["isError"]
    error = result["structuredContent"]["error"]
    assert "expected inline or fork beside target local" in error, error


def test_a_node_of_a_graph_is_not_called_where_its_tool_differs_from_its_lockfile(
    here: Machine,
) -> None:
    here.workspace.project.signed_tool("mine/hello", HELLO)
    here.workspace.rye().executor.lock("mine/hello")
    here.workspace.project.signed_tool("mine/hello", HELLO + "# changed\n")
    here.workspace.project.signed("tools/mine/far.yaml", GRAPH)

    answer = here.workspace.rye().execute(
        parse_reference("tool:mine/far"), ExecutionRequest(item_id="mine/far")
    )

    assert "Lockfile integrity mismatch for mine/hello" in answer.envelope["error"]
    assert not (here.root / "src/made.txt").exists()


def test_outputs_of_a_remote_graph_are_written_locally(here: Machine) -> None:
    here.workspace.project.signed_tool("mine/hello", HELLO)
    graph = GRAPH.replace("      remote: default\n", "")
    here.workspace.project.signed("tools/mine/far.yaml", graph)

    envelope = run_there(here, "tool:mine/far")

    assert envelope["status"] == "success", envelope
    written = envelope["remote"]["outputs_materialized"]
    assert any(path.startswith(".ai/state/graphs/") for path in written), envelope["remote"]
    assert any(path.startswith(".ai/state/objects/refs/graphs/") for path in written)


def test_a_remote_graph_runs_with_the_local_limits(here: Machine) -> None:
    here.workspace.project.signed_tool("mine/hello", HELLO)
    graph = GRAPH.replace("      remote: default\n", "").replace(
        "config:", "config:\n  max_steps: 1"
    )
    here.workspace.project.signed("tools/mine/far.yaml", graph)

    envelope = run_there(here, "tool:mine/far")

    assert envelope["error"] == "Max steps exceeded (1)", envelope
