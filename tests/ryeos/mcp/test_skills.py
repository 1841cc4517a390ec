"""Directives as skills, over the protocol."""

from hashlib import sha256
from typing import Any

import pytest

from ryeos.mcp.skills import EXTENSION
from ryeos.metadata.yaml_documents import parse_yaml
from tests.support.mcp_conversation import Conversation
from tests.support.workspace import Workspace


def conversation(workspace: Workspace, **changes: Any) -> Conversation:  # noqa: ANN401 - see there
    return Conversation(workspace.rye(), skills=True, **changes)


def signed(workspace: Workspace, item_id: str, body: str = "Do it.") -> None:
    workspace.project.sign(workspace.project.directive(item_id, body))


def read(client: Conversation, uri: str) -> str:
    (content,) = client.result("resources/read", "ReadResourceResult", uri=uri)["contents"]
    assert content["mimeType"] == "text/markdown"
    return str(content["text"])


def test_a_skill_says_what_its_file_says(workspace: Workspace) -> None:
    signed(workspace, "mine/code_review", "Look: {input:path}\n\n- ö 'quoted'")
    client = conversation(workspace)

    listed = client.result("skills/list")
    (skill,) = listed["skills"]
    text = read(client, skill["uri"])
    data = text.encode()
    _, front_matter, body = text.split("---\n", 2)

    assert skill["uri"] == "skill://mine/code-review/SKILL.md"
    assert parse_yaml(front_matter, "SKILL.md") == skill["frontmatter"]
    assert skill["frontmatter"]["name"] == "code-review"
    assert skill["frontmatter"]["metadata"]["rye.ref"] == "directive:mine/code_review"
    assert skill["frontmatter"]["metadata"]["rye.key"] == workspace.fingerprint
    assert skill["resources"] == [
        {
            "uri": skill["uri"],
            "digest": f"sha256:{sha256(data).hexdigest()}",
            "size": len(data),
        }
    ]
    assert body == "\nLook: {input:path}\n\n- ö 'quoted'\n"
    assert {"ttlMs", "cacheScope", "resultType"} <= set(listed)


def test_one_skill_is_told_of_as_in_the_list(workspace: Workspace) -> None:
    signed(workspace, "mine/review")
    client = conversation(workspace)
    (skill,) = client.result("skills/list")["skills"]

    assert client.result("skills/get", uri=skill["uri"])["skill"] == skill


def test_folders_of_skills_can_be_walked(workspace: Workspace) -> None:
    signed(workspace, "mine/review")
    signed(workspace, "mine/sub/review")
    signed(workspace, "top")
    client = conversation(workspace)

    found = client.result("resources/directory/read", uri="skill://mine")["resources"]
    files = client.result("resources/directory/read", uri="skill://mine.sub/review")["resources"]

    assert found == [
        {"uri": "skill://mine/review", "name": "review", "mimeType": "inode/directory"}
    ]
    assert files == [
        {
            "uri": "skill://mine.sub/review/SKILL.md",
            "name": "SKILL.md",
            "mimeType": "text/markdown",
        }
    ]
    assert client.result("skills/get", uri="skill://directives/top/SKILL.md")["skill"]


def test_what_does_not_verify_is_no_skill(workspace: Workspace) -> None:
    workspace.project.directive("mine/unsigned")
    client = conversation(workspace)
    uri = "skill://mine/unsigned/SKILL.md"

    assert client.result("skills/list")["skills"] == []
    assert client.error("skills/get", uri=uri)["code"] == -32602
    assert client.error("resources/read", uri=uri)["code"] == -32602
    assert client.error("resources/directory/read", uri="skill://mine")["code"] == -32602


@pytest.mark.parametrize(
    "uri", ["", "skill://", "skill:/", "skill://../..", "rye://tool/x", "skill://mine/review/x.md"]
)
@pytest.mark.parametrize("method", ["skills/get", "resources/directory/read", "resources/read"])
def test_anything_else_is_no_skill(method: str, uri: str, workspace: Workspace) -> None:
    signed(workspace, "mine/review")

    assert conversation(workspace).error(method, uri=uri)["code"] == -32602


def test_skills_are_there_only_when_they_were_asked_for(workspace: Workspace) -> None:
    signed(workspace, "mine/review")
    offered = conversation(workspace).result("server/discover", "DiscoverResult")
    plain = Conversation(workspace.rye())

    assert offered["capabilities"]["extensions"][EXTENSION] == {"directoryRead": True}
    assert EXTENSION not in plain.result("server/discover")["capabilities"]["extensions"]
    assert plain.error("skills/list")["code"] == -32601
    assert plain.error("resources/read", uri="skill://mine/review/SKILL.md")["code"] == -32602
