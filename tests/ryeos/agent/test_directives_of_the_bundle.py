"""The directives of the bundle that a thread carries out."""

from typing import Any

import pytest

from ryeos.app.thread_workspace import ThreadWish
from ryeos.items.refs import Kind, Reference
from tests.support.agent_threads import carried_out, provider, threads
from tests.support.model_server import ModelServer, calls
from tests.support.workspace import Workspace

DIRECTIVES: dict[str, tuple[dict[str, Any], set[str], dict[str, Any]]] = {
    "review_diff": (
        {},
        {"git", "grep", "read"},
        {"findings": [], "summary": "It renames a file."},
    ),
    "explain_failure": (
        {"command": "pytest"},
        {"bash", "git", "grep", "read"},
        {"cause": "It does not fail.", "where": "none"},
    ),
    "release_notes": ({"since": "v1"}, {"git", "grep", "read"}, {"notes": "- Faster."}),
    "answer_from_knowledge": (
        {"question": "Why?"},
        {"fetch", "grep", "read", "search"},
        {"answer": "It is not there.", "sources": []},
    ),
}


@pytest.mark.parametrize("name", DIRECTIVES)
def test_it_offers_what_it_permits_and_ends_with_its_outputs(
    workspace: Workspace, name: str
) -> None:
    inputs, tools, outputs = DIRECTIVES[name]
    with ModelServer(calls(("directive_return", outputs))) as server:
        provider(workspace, server.url)
        wish = ThreadWish(parameters=inputs, model="local/small")
        answer = threads(workspace).start(Reference(Kind.DIRECTIVE, f"rye/agent/{name}"), wish)

    offered = {one["function"]["name"] for one in server.requests[0]["tools"]}
    assert offered - {"load"} == tools | {"directive_return"}
    assert answer.envelope["outputs"] == outputs


def test_without_a_key_for_any_model_of_its_tier_it_says_what_to_do(workspace: Workspace) -> None:
    with pytest.raises(Exception, match="credential") as refusal:
        carried_out(workspace, "rye/agent/review_diff")

    assert getattr(refusal.value, "code", "") == "CREDENTIAL_NOT_FOUND"
