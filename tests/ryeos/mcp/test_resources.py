"""Items, kept outputs and help as resources, over the protocol."""

from pathlib import Path
from typing import Any

import pytest

from lillux.jsonrpc import Result
from ryeos.mcp.outputs import windowed
from ryeos.mcp.wire import MAX_SENT_BYTES, line_of
from tests.support.mcp_conversation import Conversation
from tests.support.workspace import Workspace


def read(conversation: Conversation, uri: str) -> dict[str, Any]:
    (content,) = conversation.result("resources/read", "ReadResourceResult", uri=uri)["contents"]
    found: dict[str, Any] = content
    return found


def signed_knowledge(workspace: Workspace, item_id: str) -> Path:
    path = workspace.project.knowledge(item_id)
    workspace.project.sign(path)
    return path


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_knowledge_of_project_and_user_is_listed(version: str, workspace: Workspace) -> None:
    path = signed_knowledge(workspace, "notes/a b")
    workspace.user.sign(workspace.user.knowledge("notes/c"))
    workspace.user.knowledge("notes/unsigned")

    conversation = Conversation(workspace.rye(), version=version)
    resources = conversation.result("resources/list", "ListResourcesResult")["resources"]

    first, second = resources
    assert first == {
        "uri": "rye://knowledge/notes/a%20b",
        "name": "notes/a b",
        "title": "a b",
        "mimeType": "text/markdown",
        "size": path.stat().st_size,
        "annotations": {"lastModified": first["annotations"]["lastModified"], "priority": 0.8},
    }
    assert second["uri"] == "rye://knowledge/notes/c"
    assert second["annotations"]["priority"] == 0.5


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_templates_cover_all_other_resources(version: str, workspace: Workspace) -> None:
    conversation = Conversation(workspace.rye(), version=version)

    result = conversation.result("resources/templates/list", "ListResourceTemplatesResult")

    assert [one["uriTemplate"] for one in result["resourceTemplates"]] == [
        "rye://{kind}/{+id}",
        "rye://output/{id}{?offset,length}",
        "rye://help/{topic}",
    ]


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_an_item_is_read_as_it_was_signed(version: str, workspace: Workspace) -> None:
    path = signed_knowledge(workspace, "notes/a b")

    conversation = Conversation(workspace.rye(), version=version)

    assert read(conversation, "rye://knowledge/notes/a%20b") == {
        "uri": "rye://knowledge/notes/a%20b",
        "mimeType": "text/markdown",
        "text": path.read_text("utf-8"),
    }


def test_tools_and_directives_can_be_read(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.directive("mine/review"))

    conversation = Conversation(workspace.rye())

    assert read(conversation, "rye://directive/mine/review")["mimeType"] == "text/markdown"
    assert read(conversation, "rye://tool/rye/bash/bash")["mimeType"] == "application/yaml"


def test_a_kept_output_is_read_whole(workspace: Workspace) -> None:
    rye = workspace.rye()
    _, kept = windowed({"status": "success", "data": "x" * 200_000}, rye.context, 1000)
    assert kept

    content = read(Conversation(rye), kept.uri)

    assert content["mimeType"] == "text/plain"
    assert content["text"] == "x" * 200_000


def test_help_is_a_resource(workspace: Workspace) -> None:
    conversation = Conversation(workspace.rye())

    assert str(read(conversation, "rye://help/signing")["text"]).startswith("Who may say")
    assert str(read(conversation, "rye://help/error:UNSIGNED")["text"]).startswith("UNSIGNED")


@pytest.mark.parametrize(
    "uri",
    [
        "rye://knowledge/not/there",
        "rye://config/keys/x",
        "rye://output/00000000000000000000000000000000",
        "rye://help/no-such-topic",
        "https://example.com/",
        "",
    ],
)
@pytest.mark.parametrize(("version", "code"), [("2025-11-25", -32002), ("2026-07-28", -32602)])
def test_an_unknown_resource_has_the_code_of_its_revision(
    version: str, code: int, uri: str, workspace: Workspace
) -> None:
    error = Conversation(workspace.rye(), version=version).error("resources/read", uri=uri)

    assert (error["code"], error["data"]) == (code, {"uri": uri})


def test_an_unverified_item_is_an_error_with_its_code(workspace: Workspace) -> None:
    path = signed_knowledge(workspace, "notes/a")
    path.write_bytes(path.read_bytes() + b"more\n")

    error = Conversation(workspace.rye()).error("resources/read", uri="rye://knowledge/notes/a")

    assert (error["code"], error["data"]["code"]) == (-32603, "INTEGRITY")
    assert error["data"]["hint"] == 'if the change is yours: sign {"item_id": "knowledge:notes/a"}'


@pytest.mark.parametrize(
    "text", ["x" * 9_000_000, "\0" * 2_000_000, "aé\u20ac\U0001f600" * 900_000]
)
def test_an_output_larger_than_a_message_is_read_in_parts(text: str, workspace: Workspace) -> None:
    rye = workspace.rye()
    _, kept = windowed({"status": "success", "data": text}, rye.context, 1000)
    assert kept
    conversation = Conversation(rye)

    uri, parts = kept.uri, []
    while uri:
        content = read(conversation, uri)
        parts.append(str(content["text"]))
        assert content["uri"] == uri
        assert len(line_of(Result(1, content))) < MAX_SENT_BYTES
        uri = content["_meta"].get("rye/next", "")

    assert (len(parts) > 1, "".join(parts) == text) == (True, True)
    assert content["_meta"] == {"rye/totalBytes": len(text.encode())}


def test_a_part_of_an_output_is_read(workspace: Workspace) -> None:
    rye = workspace.rye()
    _, kept = windowed({"status": "success", "data": "0123456789" * 900}, rye.context, 1000)
    assert kept
    uri = f"{kept.uri}?length=5&offset=3"

    content = read(Conversation(rye), uri)

    assert content["text"] == "34567"
    next_uri = f"{kept.uri}?offset=8&length=5"
    assert content["_meta"] == {"rye/totalBytes": 9000, "rye/next": next_uri}


@pytest.mark.parametrize("query", ["", "offset", "offset=-1", "offset=1&offset=2&x=1", "x=1", "?"])
def test_a_part_with_an_invalid_range_is_unknown(query: str, workspace: Workspace) -> None:
    rye = workspace.rye()
    _, kept = windowed({"status": "success", "data": "x" * 9000}, rye.context, 1000)
    assert kept

    error = Conversation(rye).error("resources/read", uri=f"{kept.uri}?{query}")

    assert error["code"] == -32602


@pytest.mark.parametrize("length", range(1, 8))
def test_parts_that_are_shorter_than_a_character_are_as_long_as_one(
    length: int, workspace: Workspace
) -> None:
    rye, text = workspace.rye(), "aé\u20ac\U0001f600" * 5
    _, kept = windowed({"status": "success", "data": text * 100}, rye.context, 1000)
    assert kept
    kept.path.write_text(text, "utf-8")
    conversation = Conversation(rye)

    uri, parts = f"{kept.uri}?length={length}", []
    while uri:
        content = read(conversation, uri)
        parts.append(str(content["text"]))
        uri = content["_meta"].get("rye/next", "")

    assert "".join(parts) == text
    assert all(len(part.encode()) <= max(length, 4) for part in parts)


@pytest.mark.parametrize("offset", [9000, 10**14, 10**15 - 1])
def test_past_its_end_an_output_is_empty(offset: int, workspace: Workspace) -> None:
    rye = workspace.rye()
    _, kept = windowed({"status": "success", "data": "0123456789" * 900}, rye.context, 1000)
    assert kept

    content = read(Conversation(rye), f"{kept.uri}?offset={offset}")

    assert (content["text"], content["_meta"]) == ("", {"rye/totalBytes": 9000})
