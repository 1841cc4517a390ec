"""Ids, URIs, cursors and states of a hostile client: only offered items are read."""

import json
from base64 import urlsafe_b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ryeos.items.refs import ItemRef, Kind
from ryeos.mcp.uris import item_uri, parse_uri
from tests.support.mcp_conversation import ELICITATION, Conversation
from tests.support.workspace import Workspace

SECRET = "the secret of another user"
COPY = {"item_id": "tool:rye/bash/bash", "source": "system", "destination": "project"}
ESCAPES = [
    "../../../secret",
    "..%2f..%2f..%2fsecret",
    "%2e%2e/%2e%2e/%2e%2e/secret",
    "a/../../../../secret",
    "..\\..\\..\\secret",
    "%2Fetc%2Fpasswd",
    "/etc/passwd",
    "C:/secret",
    "a%00",
    "a//b",
    "./a",
]


@pytest.fixture
def conversation(workspace: Workspace) -> Conversation:
    """A server whose neighbours have something to hide."""
    for folder in (workspace.folder, workspace.project_path, workspace.project_path / ".ai"):
        (folder / "secret.md").write_text(SECRET, encoding="utf-8")
        (folder / "secret.log").write_text(SECRET, encoding="utf-8")
    return Conversation(workspace.rye(), capabilities=ELICITATION)


@pytest.mark.parametrize("kind", ["knowledge", "directive", "tool", "output", "help"])
@pytest.mark.parametrize("path", ESCAPES)
def test_no_uri_leads_out_of_a_space(kind: str, path: str, conversation: Conversation) -> None:
    error = conversation.error("resources/read", uri=f"rye://{kind}/{path}")

    assert error["code"] == -32602
    assert SECRET not in json.dumps(error)


def test_keys_and_configuration_are_no_resources(
    workspace: Workspace, conversation: Conversation
) -> None:
    workspace.project.write("config/app/x.yaml", "a: 1\n")

    for uri in ("rye://config/app/x", "rye://knowledge/../config/app/x", "file:///etc/passwd"):
        assert conversation.error("resources/read", uri=uri)["code"] == -32602


def test_a_link_out_of_the_space_is_refused(
    workspace: Workspace, conversation: Conversation
) -> None:
    folder = workspace.project_path / ".ai" / "knowledge"
    folder.mkdir()
    (folder / "out.md").symlink_to(workspace.folder / "secret.md")

    error = conversation.error("resources/read", uri="rye://knowledge/out")

    assert (error["code"], error["data"]["code"]) == (-32603, "INTEGRITY")
    assert conversation.result("resources/list")["resources"] == []


def test_a_link_among_the_kept_outputs_is_not_followed(
    workspace: Workspace, conversation: Conversation
) -> None:
    folder = workspace.project_path / ".ai" / "state" / "outputs"
    folder.mkdir(parents=True)
    (folder / f"{'a' * 32}.log").symlink_to(workspace.folder / "secret.md")

    assert conversation.error("resources/read", uri=f"rye://output/{'a' * 32}")["code"] == -32602


@given(st.text(max_size=60))
def test_a_uri_names_only_possible_ids(text: str) -> None:
    named = parse_uri(f"rye://tool/{quote(text, safe='/', errors='surrogatepass')}")

    if isinstance(named, ItemRef):
        assert ".." not in named.id.split("/")
        assert not named.id.startswith("/")
        assert "\\" not in named.id


@given(st.lists(st.text("abÄ %?#:é.", min_size=1, max_size=5), min_size=1, max_size=3))
def test_the_uri_of_an_item_names_that_item(parts: list[str]) -> None:
    named = parse_uri(item_uri(ItemRef(Kind.TOOL, "/".join(parts))))

    assert named in {None, ItemRef(Kind.TOOL, "/".join(parts))}


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "x",
        "ä",
        5,
        [],
        "A" * 100_000,
        urlsafe_b64encode(b"[1, 2]").decode(),
        urlsafe_b64encode(b'["", ""]').decode(),
        urlsafe_b64encode(b'{"a": 1}').decode(),
        urlsafe_b64encode(b'[["a"], {}]').decode(),
        urlsafe_b64encode(b"[" * 5000).decode(),
    ],
)
@pytest.mark.parametrize("method", ["prompts/list", "resources/list", "resources/templates/list"])
def test_a_made_up_cursor_is_a_wrong_parameter(
    method: str, cursor: object, conversation: Conversation
) -> None:
    assert conversation.error(method, cursor=cursor)["code"] == -32602


@pytest.mark.parametrize(
    "state", [None, 5, "", ".", "a.b", "ä.ö", "e30.e30", "a.b.c", "A" * 100_000]
)
def test_a_made_up_state_confirms_nothing(
    state: object, workspace: Workspace, conversation: Conversation
) -> None:
    path = workspace.project.write("tools/rye/bash/bash.yaml", "mine\n")

    error = conversation.error(
        "tools/call",
        name="load",
        arguments=COPY,
        inputResponses={"overwrite": {"action": "accept", "content": {"overwrite": True}}},
        requestState=state,
    )

    assert error["code"] == -32602
    assert path.read_bytes() == b"mine\n"


def test_an_answer_about_one_copy_confirms_no_other(
    workspace: Workspace, conversation: Conversation
) -> None:
    workspace.project.write("tools/rye/bash/bash.yaml", "mine\n")
    workspace.user.write("tools/rye/bash/bash.yaml", "mine\n")
    question = conversation.result("tools/call", name="load", arguments=COPY)

    error = conversation.error(
        "tools/call",
        name="load",
        arguments={**COPY, "destination": "user"},
        inputResponses={"overwrite": {"action": "accept", "content": {"overwrite": True}}},
        requestState=question["requestState"],
    )

    assert error["message"] == "requestState: it belongs to another request"


@pytest.mark.parametrize("method", ["prompts/get", "resources/read", "completion/complete"])
@given(
    params=st.dictionaries(
        st.sampled_from(
            ["name", "uri", "ref", "argument", "arguments", "context", "inputResponses"]
        ),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
            max_leaves=5,
        ),
    )
)
def test_no_parameters_are_an_internal_error(
    params: dict[str, object],
    method: str,
    bare: Conversation,
) -> None:
    answer = bare.ask(method, **params)

    assert "error" not in answer or answer["error"]["code"] == -32602


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Conversation:
    """A server without any items: many requests go through it."""
    workspace = Workspace(tmp_path_factory.mktemp("bare"), ())
    return Conversation(workspace.rye(), capabilities=ELICITATION)
