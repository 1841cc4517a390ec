"""What a model does with the server alone: repairs, questions to its user, wrong names, files."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lillux.sandbox import landlock_version
from lillux.signing import save_keypair
from ryeos.app.sign import sign
from ryeos.run.functions import FunctionHost
from tests.support.mcp_conversation import Conversation
from tests.support.workspace import Workspace

FUNCTION = "rye/core/runtimes/python/function"
held = pytest.mark.skipif(not landlock_version(), reason="held by Landlock")


class Model:
    """The calls of a model, and its user's workspace."""

    def __init__(self, workspace: Workspace, functions: FunctionHost) -> None:
        self.workspace = workspace
        self.rye = workspace.rye(functions=functions, confines=True)
        save_keypair(self.rye.context.key_directory, workspace.keypair)
        self.conversation = Conversation(self.rye)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """The result of a tool."""
        return self.conversation.result("tools/call", name=tool, arguments=arguments)

    def answer(self, tool: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """The structure of a result."""
        found: dict[str, Any] = self.call(tool, **arguments)["structuredContent"]
        return found

    def text(self, tool: str, **arguments: Any) -> str:  # noqa: ANN401 - JSON
        """The text of a result."""
        found: str = self.call(tool, **arguments)["content"][0]["text"]
        return found

    def run(self, item_id: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """The structure of the answer of an item."""
        return self.answer("execute", item_id=item_id, parameters=parameters)


@pytest.fixture
def model(workspace: Workspace) -> Iterator[Model]:
    """A model in a project with a bundle and a key of its user."""
    with closing(FunctionHost()) as functions:
        yield Model(workspace, functions)


# --- warm workers


@held
def test_a_tool_that_was_changed_and_approved_again_reads_its_own_file(model: Model) -> None:
    project = model.workspace.project
    rights = 'SANDBOX = {"network": "none"}\n'
    body = "def execute(params):\n    return {'size': len(open(__file__).read())}\n"
    for text in (body, f"# changed\n{body}"):
        path = project.tool("mine/own", text, executor=FUNCTION, extra=rights)
        signed = sign(model.rye, {"item_id": "tool:mine/own"}).envelope
        assert signed["status"] == "signed"

        answers = [model.run("mine/own") for _ in range(2)]

        assert [one.get("data") for one in answers] == [{"size": len(path.read_text("utf-8"))}] * 2


@held
def test_a_file_that_has_taken_the_place_of_another_is_read_by_the_next_call(model: Model) -> None:
    project, path = model.workspace.project, model.workspace.project_path / "data.txt"
    rights = 'SANDBOX = {"read": ["{project}/data.txt"]}\n'
    body = f"def execute(params):\n    return {{'data': open({str(path)!r}).read()}}\n"
    project.signed_tool("mine/reads", body, executor=FUNCTION, extra=rights)

    answers = []
    for number in range(3):
        replaced(path, str(number))
        answers.append(model.run("mine/reads"))

    assert [one.get("data") for one in answers] == [{"data": str(n)} for n in range(3)]


@held
def test_a_new_file_beside_the_keys_of_the_user_is_read_by_the_next_call(model: Model) -> None:
    body = "def execute(params):\n    return {'data': open(params['path']).read()}\n"
    model.workspace.project.signed_tool("mine/reads", body, executor=FUNCTION)

    answers = []
    for number in range(3):
        replaced(model.workspace.home / f"{number}.txt", str(number))
        answers.append(model.run("mine/reads", path=str(model.workspace.home / f"{number}.txt")))

    assert [one.get("data") for one in answers] == [{"data": str(n)} for n in range(3)]


def replaced(path: Path, text: str) -> None:
    """Write a file as editors do: a new one takes its place."""
    new = path.with_name("new")
    new.write_text(text, encoding="utf-8")
    os.replace(new, path)  # noqa: PTH105 - named after what it does


@held
def test_a_file_that_a_header_does_not_name_for_reading_is_hinted_as_that(model: Model) -> None:
    rights, path = 'SANDBOX = {"network": "none"}\n', model.workspace.home / "notes.txt"
    replaced(path, "x")
    body = "def execute(params):\n    return {'data': open(params['path']).read()}\n"
    model.workspace.project.signed_tool("mine/reads", body, executor=FUNCTION, extra=rights)

    answer = model.run("mine/reads", path=str(path))

    assert f"its sandbox refused: read {path}" in answer["hint"]
    assert 'write into its header: sandbox: {read: ["~/notes.txt"]}' in answer["hint"]
