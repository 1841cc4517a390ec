"""The tool ``rye/core/remote/remote``: an agent's way to a node, as programs of their own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lillux.key_files import load_keypair
from ryeos.remote.envelopes import open_envelope
from tests.support.node import Node
from tests.support.workspace import PLAIN_ENV, ROOT

pytestmark = pytest.mark.e2e
pytest_plugins = ("tests.support.node",)

HELLO = """\
# version: 1.0.0
# tool_type: bash
# category: mine
# description: Says something
mkdir -p src
echo made > src/made.txt
echo "{\\"hello\\": \\"${MY_TOKEN:-absent}\\"}" | wc -c
"""


class Agent:
    """A user who has only `run`, a project, and a node."""

    def __init__(self, folder: Path, node: Node) -> None:
        self.home, self.project = folder / "home", folder / "project"
        (self.project / ".ai/config/cas").mkdir(parents=True)
        self.home.mkdir()
        rules = self.project / ".ai/config/cas/manifest.yaml"
        rules.write_text("sync: {include: ['src/']}\n", encoding="utf-8")
        self.rye("keys", "generate")
        node.user(keypair=load_keypair(self.home / ".ai/config/keys/signing"))
        self.rye("remote", "add", "default", node.url)

    def rye(self, *words: str) -> Any:  # noqa: ANN401 - JSON
        """A command of this checkout; its envelope."""
        done = subprocess.run(
            [sys.executable, str(ROOT / "rye.py"), *words, "--json", "-p", str(self.project)],
            env={**PLAIN_ENV, "HOME": str(self.home)},
            capture_output=True,
            check=False,
        )
        return json.loads(done.stdout)

    def act(self, action: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """The answer of the tool."""
        given = json.dumps({"action": action, **params})
        envelope = self.rye("run", "rye/core/remote/remote", "--params", given)
        data: dict[str, Any] = envelope["data"]
        assert isinstance(data, dict), envelope
        return data


@pytest.fixture
def agent(tmp_path: Path, shared_node: Node) -> Agent:
    return Agent(tmp_path, shared_node)


@pytest.mark.heavy
def test_the_core_actions_work(agent: Agent) -> None:
    (agent.project / ".ai/tools/mine").mkdir(parents=True)
    (agent.project / ".ai/tools/mine/hello.sh").write_text(HELLO, encoding="utf-8")
    agent.rye("sign", "tool:mine/hello")

    assert agent.act("status")["remotes"]["default"]["snapshot_hash"] is None
    pushed = agent.act("push")
    assert pushed["success"], pushed
    assert pushed["ref_published"]
    stored = agent.act("secrets_set", name="MY_TOKEN", value="s3cret")
    assert stored["success"], stored
    ran = agent.act("execute", item_id="tool:mine/hello", vault_keys=["MY_TOKEN"])
    assert ran["success"], ran
    assert ran["data"] == 20
    assert (agent.project / "src/made.txt").read_text("utf-8") == "made\n"
    threads = agent.act("threads", limit=5)["threads"]
    assert [row["thread_id"] for row in threads] == [ran["thread_id"]]
    shown = agent.act("thread_status", thread_id=ran["thread_id"])
    assert shown["thread"]["state"] == "completed"
    assert agent.act("secrets_list")["secrets"] == ["MY_TOKEN"]
    assert agent.act("pull", hashes=[pushed["snapshot_hash"]])["success"]


@pytest.mark.heavy
def test_a_secret_is_sealed_for_the_node_alone(agent: Agent, shared_node: Node) -> None:
    sealed = agent.act("seal", secret_name="MY_TOKEN", secret_value="s3cret")

    assert sealed["success"], sealed
    opened = open_envelope(sealed["envelope"], shared_node.keys.box_private)
    assert opened == {"MY_TOKEN": "s3cret"}
    assert agent.act("seal", secret_name="PATH", secret_value="/evil")["success"] is False


@pytest.mark.heavy
def test_a_failure_is_an_answer(agent: Agent) -> None:
    unknown = agent.act("fly")
    assert (unknown["success"], "push" in unknown["valid_actions"]) == (False, True)

    assert agent.act("push", remote="far")["code"] == "REMOTE_NOT_FOUND"
    assert agent.act("execute")["error"] == "execute: expected item_id, found none"
    assert agent.act("resolve", path="a")["error"] == "resolve: expected take, found none"
    settled = agent.act("resolve", path="src/a.txt", take="theirs")
    assert settled["code"] == "ITEM_NOT_FOUND"
    assert agent.act("execute", item_id="--no-apply")["error"].startswith("item_id: ")


def test_the_code_of_a_failure_is_that_of_the_run(agent: Agent) -> None:
    given = json.dumps({"action": "push", "remote": "far"})

    envelope = agent.rye("run", "rye/core/remote/remote", "--params", given)

    assert (envelope["status"], envelope["code"]) == ("error", "REMOTE_NOT_FOUND")


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("params", "name"), [({"bogus": 1}, "bogus"), ({"limit": 0}, "limit"), ({"take": "x"}, "take")]
)
def test_parameters_that_it_does_not_know_are_refused(
    agent: Agent, params: dict[str, Any], name: str
) -> None:
    given = json.dumps({"action": "threads", **params})

    envelope = agent.rye("run", "rye/core/remote/remote", "--params", given)

    assert envelope["status"] == "error"
    assert name in json.dumps(envelope)
    assert "--limit" not in json.dumps(envelope)


@pytest.mark.heavy
def test_runs_of_another_project_are_listed_by_its_name(agent: Agent) -> None:
    (agent.project / ".ai/tools/mine").mkdir(parents=True)
    (agent.project / ".ai/tools/mine/hello.sh").write_text(HELLO, encoding="utf-8")
    agent.rye("sign", "tool:mine/hello")
    ran = agent.act("execute", item_id="tool:mine/hello")
    assert ran["success"], ran

    own = agent.act("threads", project_path="project")["threads"]
    other = agent.act("threads", project_path="another")["threads"]

    assert [row["thread_id"] for row in own] == [ran["thread_id"]]
    assert other == []
    assert len(agent.act("history", limit=1)["snapshots"]) == 1
    assert agent.act("diff")["differences"] == []
