"""What a user pushes narrows what their tools may do on a node, and never widens it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lillux.supervisor import can_supervise
from lillux.values import replace
from rye_services.settings import read_settings
from ryeos.items.errors import RyeError
from ryeos.items.rights import LOOPBACK, Rights
from ryeos.run.sandbox_policy import policy_of
from tests.support.node import Node, node_at, until_killed
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(not can_supervise(), reason="connections need pidfd_getfd")

FUNCTION = "rye/core/runtimes/python/function"
CONNECT = """
import socket

def execute(params, project_path):
    try:
        socket.create_connection(("127.0.0.1", params["port"]), timeout=2).close()
        return "connected"
    except OSError as error:
        return error.errno
"""
REFUSED = 13
ACCESS = 'version: "1.0.0"\ncategory: web\nallow_private: ["10.0.0.0/8"]\n'
RESOLVE = "def execute(params, project_path):\n    import socket\n    return str(socket.socket())\n"


def pushed(workspace: Workspace, node: Node, policy: str = "") -> RemoteProject:
    """Tools with and without a block, and this policy of user space."""
    for name, said in (("mine/none", ""), ("mine/any", 'SANDBOX = {"network": "any"}\n')):
        workspace.project.signed_tool(name, CONNECT, executor=FUNCTION, extra=said)
    workspace.project.signed_tool(
        "mine/opens", RESOLVE, executor=FUNCTION, extra='SANDBOX = {"network": "any"}\n'
    )
    if policy:
        text = f'version: "1.0.0"\ncategory: sandbox\n{policy}'
        workspace.user.signed("config/sandbox/policy.yaml", text)
    return RemoteProject.with_tools(workspace, node.user())


@pytest.mark.parametrize("item", ["mine/none", "mine/any"])
@pytest.mark.parametrize("level", ["off", "'off'", "declared"])
def test_a_pushed_level_opens_no_way_to_the_machine_of_a_node(
    workspace: Workspace, shared_node: Node, item: str, level: str
) -> None:
    project = pushed(workspace, shared_node, f"level: {level}\n")

    answer = project.ask(f"tool:{item}", parameters={"port": shared_node.port}).json

    assert answer["result"]["data"] == REFUSED, answer


def test_a_pushed_level_that_is_stricter_counts(workspace: Workspace, shared_node: Node) -> None:
    project = pushed(workspace, shared_node, "level: strict\n")

    answer = project.ask("tool:mine/none", parameters={"port": 1}).json

    assert answer["status"] == "error"
    assert "expected a sandbox block in its header" in str(answer["result"])


def test_a_pushed_limit_counts(workspace: Workspace, shared_node: Node) -> None:
    project = pushed(workspace, shared_node, "limits: {network: none}\n")

    answer = project.ask("tool:mine/opens").json

    assert answer["status"] == "error"


def test_no_private_network_that_a_user_names_is_opened(workspace: Workspace) -> None:
    workspace.user.signed("config/web/access.yaml", ACCESS)
    rye = workspace.rye()

    at_home = policy_of(rye.config, rye.context)
    on_a_node = policy_of(rye.config, replace(rye.context, on_node=True))

    assert at_home.private == ("10.0.0.0/8",)
    assert on_a_node.private == ()


def test_the_private_networks_of_a_node_are_those_of_its_operator(workspace: Workspace) -> None:
    rye = workspace.rye()
    operator = {"allow_private": ["10.1.0.0/16"]}

    policy = policy_of(rye.config, replace(rye.context, on_node=True, node_policy=operator))

    assert policy.private == ("10.1.0.0/16",)


def test_a_server_that_a_tool_calls_gets_no_loopback_on_a_node(workspace: Workspace) -> None:
    extra = 'SANDBOX = {"network": "any"}\n'
    workspace.project.signed_tool("mine/any", CONNECT, executor=FUNCTION, extra=extra)
    of_the_tool = workspace.rye(on_node=True).executor.rights("mine/any")

    of_the_server = of_the_tool.narrowed(Rights(network=(LOOPBACK,)))

    assert of_the_server.rights is not None
    assert of_the_server.rights.network == ()


# --- the operator's rules -------------------------------------------------------------------------


@pytest.fixture
def narrow_node(tmp_path: Path) -> Iterator[Node]:
    """A node whose operator gives tools no network."""
    node = node_at(tmp_path / "narrow")
    node.data.joinpath("config").mkdir(parents=True, exist_ok=True)
    settings = "sandbox:\n  level: declared\n  limits: {network: none}\n"
    node.data.joinpath("config", "node.yaml").write_text(settings, encoding="utf-8")
    with until_killed(node) as running:
        yield running


@pytest.mark.parametrize("policy", ["", "level: off\n", "limits: {network: any}\n"])
def test_no_pushed_policy_gives_more_than_the_operator_allows(
    workspace: Workspace, narrow_node: Node, policy: str
) -> None:
    project = pushed(workspace, narrow_node, policy)

    answer = project.ask("tool:mine/opens").json

    assert answer["status"] == "error", answer


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("sandbox: off", "expected a level"),
        ("sandbox: {level: 'off'}", "off leaves a node open to its tools"),
        ("sandbox: {levle: strict}", "did you mean level?"),
        ("sandbox: {allow_private: 10.0.0.0/8}", "expected a list of names and networks"),
    ],
)
def test_wrong_rules_of_an_operator_stop_the_node(tmp_path: Path, given: str, problem: str) -> None:
    tmp_path.joinpath("config").mkdir()
    tmp_path.joinpath("config", "node.yaml").write_text(given, encoding="utf-8")

    with pytest.raises(RyeError, match="sandbox") as caught:
        read_settings({"data_dir": str(tmp_path)}, {}, tmp_path)

    assert problem in str(caught.value)
