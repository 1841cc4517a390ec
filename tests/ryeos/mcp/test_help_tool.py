from typing import Any

import pytest

import ryeos.app  # noqa: F401 - brings in every class of failure
from lillux.signing import save_keypair
from lillux.values import replace
from ryeos import __version__
from ryeos.errors import ItemNotFoundError
from ryeos.mcp.tools.help import error_codes
from ryeos.mcp.tools.help import help as help_tool
from ryeos.mcp.topics import MAX_CHARACTERS, SEE_ALSO, TOPICS
from tests.support.workspace import Workspace

ASKED_OF_AGENTS = [
    "overview",
    "search",
    "load",
    "execute",
    "sign",
    "fetch",
    "directives",
    "tools",
    "knowledge",
    "spaces",
    "signing",
    "runtimes",
    "chain",
    "graphs",
    "remote",
    "registry",
    "config",
    "errors",
    "setup",
    "mcp",
    "cli",
]


def helped(workspace: Workspace, topic: str = "overview") -> dict[str, Any]:
    """The answer to a call for help."""
    return dict(help_tool(workspace.rye(), {"topic": topic}).envelope)


@pytest.mark.parametrize("topic", ASKED_OF_AGENTS)
def test_every_topic_has_a_short_text(workspace: Workspace, topic: str) -> None:
    answered = helped(workspace, topic)

    assert (answered["status"], answered["topic"]) == ("success", topic)
    assert 0 < len(answered["content"]) <= MAX_CHARACTERS
    assert topic in answered["topics"]
    assert answered["see_also"]


def test_what_to_see_also_exists() -> None:
    named = {name for names in SEE_ALSO.values() for name in names}

    assert named <= set(TOPICS)


def test_the_overview_has_live_facts(workspace: Workspace) -> None:
    workspace.project.tool("mine/a")
    workspace.user.tool("mine/b")
    before = helped(workspace)["content"].splitlines()
    save_keypair(workspace.context().key_directory, workspace.keypair)
    after = helped(workspace)["content"].splitlines()

    assert f"- version: {__version__}" in before
    assert f"- project: {workspace.project_path}" in before
    assert "- items in project: 1" in before
    assert "- items in user: 1" in before
    assert "- signing key: no key" in before
    assert "Next: make a signing key with: rye keys generate" in before
    assert f"- signing key: {workspace.fingerprint}" in after


def test_outside_a_project_the_overview_says_so(workspace: Workspace) -> None:
    save_keypair(workspace.context().key_directory, workspace.keypair)
    rye = workspace.rye(spaces=replace(workspace.context().spaces, project=None))

    content = help_tool(rye, {}).envelope["content"]

    assert "- project: none" in content
    assert "Next: name a project" in content


def test_an_item_shows_its_inputs_and_a_call(workspace: Workspace) -> None:
    answered = helped(workspace, "item:tool:rye/bash/bash")

    assert "- command (string, required)" in answered["content"]
    assert (
        'Call: execute {"item_id": "tool:rye/bash/bash", "parameters": {"command": "text"}}'
        in answered["content"]
    )


def test_an_item_that_is_not_there_is_an_error(workspace: Workspace) -> None:
    with pytest.raises(ItemNotFoundError):
        helped(workspace, "item:tool:nowhere")


@pytest.mark.parametrize("code", error_codes())
def test_every_listed_code_is_explained(workspace: Workspace, code: str) -> None:
    answered = helped(workspace, f"error:{code}")

    assert answered["topic"] == f"error:{code}"
    assert len(answered["content"].splitlines()) > 2


def test_a_code_says_when_it_comes(workspace: Workspace) -> None:
    content = helped(workspace, "error:unsigned")["content"]

    assert "The item has no signature line, and nothing unsigned runs. (exit status 4)" in content


@pytest.mark.parametrize(
    ("topic", "meant"),
    [("signning", "signing"), ("error:UNSIGND", "error:UNSIGNED"), ("serach", "search")],
)
def test_an_unknown_topic_is_no_failure(workspace: Workspace, topic: str, meant: str) -> None:
    answered = helped(workspace, topic)

    assert (answered["status"], answered["topic"]) == ("success", "available_topics")
    assert answered["did_you_mean"][0] == meant
    assert "  spaces " in answered["content"]
