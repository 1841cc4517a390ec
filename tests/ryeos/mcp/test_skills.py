"""Directives as skills, over the protocol."""

from base64 import b64decode
from hashlib import sha256
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from ryeos.imports.plan import ImportSource
from ryeos.imports.skills import read_skill_folder
from ryeos.items.yaml import parse_yaml
from ryeos.mcp.features import SKILLS_EXTENSION
from ryeos.trust.skill_files import MAX_BYTES
from ryeos.trust.skill_folders import MAX_FILES
from tests.support.mcp_conversation import Conversation
from tests.support.workspace import Workspace

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "imports" / "skills"


def conversation(workspace: Workspace, **changes: Any) -> Conversation:  # noqa: ANN401 - see there
    return Conversation(workspace.rye(), skills=True, **changes)


def signed(workspace: Workspace, item_id: str, body: str = "Do it.") -> None:
    workspace.project.sign(workspace.project.directive(item_id, body))


def read(client: Conversation, uri: str) -> str:
    (content,) = client.result("resources/read", "ReadResourceResult", uri=uri)["contents"]
    assert content["mimeType"] == "text/markdown"
    return str(content["text"])


def test_a_skill_has_the_metadata_of_its_file(workspace: Workspace) -> None:
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


def test_one_skill_is_reported_as_in_the_list(workspace: Workspace) -> None:
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


def test_an_unverified_directive_is_no_skill(workspace: Workspace) -> None:
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
def test_another_resource_is_no_skill(method: str, uri: str, workspace: Workspace) -> None:
    signed(workspace, "mine/review")

    assert conversation(workspace).error(method, uri=uri)["code"] == -32602


def test_skills_are_offered_only_on_request(workspace: Workspace) -> None:
    signed(workspace, "mine/review")
    offered = conversation(workspace).result("server/discover", "DiscoverResult")
    plain = Conversation(workspace.rye())

    assert offered["capabilities"]["extensions"][SKILLS_EXTENSION] == {"directoryRead": True}
    assert SKILLS_EXTENSION not in plain.result("server/discover")["capabilities"]["extensions"]
    assert plain.error("skills/list")["code"] == -32601
    assert plain.error("resources/read", uri="skill://mine/review/SKILL.md")["code"] == -32602


# --- folders of knowledge -------------------------------------------------------------------------


def known(workspace: Workspace, item_id: str, body: str = "A fact.") -> None:
    workspace.project.sign(workspace.project.knowledge(item_id, body))


def test_a_folder_of_knowledge_with_a_skill_file_is_a_skill(workspace: Workspace) -> None:
    known(workspace, "mine/Brew_Tea/SKILL", "Boil ö.\n\nThen read references/leaves.md.")
    known(workspace, "mine/Brew_Tea/references/leaves", "Green, black. ö")
    known(workspace, "mine/other")
    client = conversation(workspace)

    (skill,) = client.result("skills/list")["skills"]

    assert skill["uri"] == "skill://mine/brew-tea/SKILL.md"
    assert skill["frontmatter"]["name"] == "brew-tea"
    assert skill["frontmatter"]["metadata"]["rye.ref"] == "knowledge:mine/Brew_Tea/SKILL"
    assert [one["uri"] for one in skill["resources"]] == [
        "skill://mine/brew-tea/SKILL.md",
        "skill://mine/brew-tea/references/leaves.md",
    ]
    for resource in skill["resources"]:
        data = read(client, resource["uri"]).encode()
        assert resource["size"] == len(data)
        assert resource["digest"] == f"sha256:{sha256(data).hexdigest()}"
    _, front_matter, body = read(client, skill["uri"]).split("---\n", 2)
    assert parse_yaml(front_matter, "SKILL.md") == skill["frontmatter"]
    assert body == "\nBoil ö.\n\nThen read references/leaves.md.\n"
    assert client.result("skills/get", uri=skill["uri"])["skill"] == skill


def test_the_folders_of_a_skill_can_be_walked(workspace: Workspace) -> None:
    for name in ("SKILL", "a", "deep/er/b"):
        known(workspace, f"tea/{name}")
    client = conversation(workspace)
    base = "skill://knowledge/tea"

    def names(uri: str) -> dict[str, str]:
        found = client.result("resources/directory/read", uri=uri)["resources"]
        return {one["name"]: one["mimeType"] for one in found}

    assert names("skill://knowledge") == {"tea": "inode/directory"}
    assert names(base) == {
        "SKILL.md": "text/markdown",
        "a.md": "text/markdown",
        "deep": "inode/directory",
    }
    assert names(f"{base}/deep") == {"er": "inode/directory"}
    assert names(f"{base}/deep/er") == {"b.md": "text/markdown"}
    assert client.error("resources/directory/read", uri=f"{base}/a.md")["code"] == -32602


def test_an_unverified_file_in_a_folder_is_not_shown(workspace: Workspace) -> None:
    known(workspace, "tea/SKILL")
    workspace.project.knowledge("tea/unsigned")
    workspace.project.knowledge("coffee/SKILL")
    known(workspace, "coffee/beans")
    client = conversation(workspace)

    (skill,) = client.result("skills/list")["skills"]

    assert [one["uri"] for one in skill["resources"]] == ["skill://knowledge/tea/SKILL.md"]
    for uri in ("tea/unsigned.md", "coffee/SKILL.md", "coffee/beans.md"):
        found = client.error("resources/read", uri=f"skill://knowledge/{uri}")
        assert found["code"] == -32602


def test_a_folder_in_a_folder_is_a_skill_of_its_own(workspace: Workspace) -> None:
    for name in ("SKILL", "a", "green/SKILL", "green/b"):
        known(workspace, f"tea/{name}")

    outer, inner = conversation(workspace).result("skills/list")["skills"]

    uris = [[one["uri"] for one in skill["resources"]] for skill in (outer, inner)]
    assert sorted(uris) == [
        ["skill://knowledge/tea/SKILL.md", "skill://knowledge/tea/a.md"],
        ["skill://tea/green/SKILL.md", "skill://tea/green/b.md"],
    ]


def test_no_file_is_shown_through_a_link_out_of_the_folder(workspace: Workspace) -> None:
    known(workspace, "tea/SKILL")
    known(workspace, "secret/plan")
    folder = workspace.project.space.ai / "knowledge"
    (folder / "tea" / "plan.md").symlink_to(folder / "secret" / "plan.md")
    (folder / "tea" / "sub").symlink_to(folder / "secret", target_is_directory=True)
    client = conversation(workspace)

    (skill,) = client.result("skills/list")["skills"]

    assert [one["uri"] for one in skill["resources"]] == ["skill://knowledge/tea/SKILL.md"]
    for name in ("plan.md", "sub/plan.md", "../secret/plan.md", "%2e%2e/secret/plan.md"):
        found = client.error("resources/read", uri=f"skill://knowledge/tea/{name}")
        assert found["code"] == -32602


def test_a_folder_does_not_mix_spaces(workspace: Workspace) -> None:
    known(workspace, "tea/SKILL")
    workspace.user.sign(workspace.user.knowledge("tea/mine"))

    (skill,) = conversation(workspace).result("skills/list")["skills"]

    assert [one["uri"] for one in skill["resources"]] == ["skill://knowledge/tea/SKILL.md"]


def test_a_directive_and_a_folder_of_one_name_are_two_skills(workspace: Workspace) -> None:
    signed(workspace, "mine/tea")
    known(workspace, "mine/tea/SKILL")

    skills = conversation(workspace).result("skills/list")["skills"]

    assert [one["uri"] for one in skills] == [
        "skill://mine/tea/SKILL.md",
        "skill://mine/tea-2/SKILL.md",
    ]


def test_a_folder_of_too_many_files_or_bytes_is_no_skill(workspace: Workspace) -> None:
    known(workspace, "many/SKILL")
    for number in range(MAX_FILES):
        workspace.project.knowledge(f"many/k{number}")
    known(workspace, "large/SKILL")
    for number in range(17):
        known(workspace, f"large/k{number}", "x" * 1_000_000)
    client = conversation(workspace)

    assert MAX_BYTES < 17 * 1_000_000
    assert client.result("skills/list")["skills"] == []
    found = client.error("resources/read", uri="skill://knowledge/large/SKILL.md")
    assert found["code"] == -32602
    for folder in ("skill://knowledge", "skill://knowledge/large"):
        assert client.error("resources/directory/read", uri=folder)["code"] == -32602


# --- signed folders -------------------------------------------------------------------------------


def folder_of(workspace: Workspace) -> Path:
    """The folder of a skill that was signed."""
    base = workspace.project.space.base
    folder = base / ".claude/skills/release-notes"
    copytree(VECTORS / "release-notes", folder)
    source = ImportSource(path=folder / "SKILL.md", project=base, base=base)
    (item,) = read_skill_folder(source).items
    path = base / ".ai/directives/skills/release_notes.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(item.data)
    workspace.project.sign(path)
    return folder


URI = "skill://skills/release-notes/SKILL.md"


def test_a_signed_folder_is_given_byte_for_byte(workspace: Workspace) -> None:
    folder = folder_of(workspace)
    client = conversation(workspace)

    (entry,) = client.result("skills/list")["skills"]
    given = {
        one["uri"]: client.result("resources/read", "ReadResourceResult", uri=one["uri"])
        for one in entry["resources"]
    }

    assert entry["uri"] == URI
    assert entry["frontmatter"]["name"] == "release-notes"
    assert entry["frontmatter"]["metadata"] == {"author": "Example", "version": "1.2"}
    assert entry == client.result("skills/get", uri=URI)["skill"]
    for one in entry["resources"]:
        data = (folder / one["uri"].removeprefix(URI.removesuffix("SKILL.md"))).read_bytes()
        (content,) = given[one["uri"]]["contents"]
        got = content["text"].encode() if "text" in content else b64decode(content["blob"])
        assert got == data
        assert one["digest"] == f"sha256:{sha256(data).hexdigest()}"
        assert one["size"] == len(data)
    below = client.result("resources/directory/read", uri=URI.removesuffix("/SKILL.md"))
    assert {one["name"] for one in below["resources"]} == {"SKILL.md", "references", "scripts"}


def test_a_folder_with_a_changed_byte_is_no_skill(workspace: Workspace) -> None:
    script = folder_of(workspace) / "scripts/commits.py"
    client = conversation(workspace)
    script.write_bytes(script.read_bytes() + b"#")

    assert client.result("skills/list")["skills"] == []
    assert client.error("skills/get", uri=URI)["code"] == -32602
    assert client.error("resources/read", uri=URI)["code"] == -32602
