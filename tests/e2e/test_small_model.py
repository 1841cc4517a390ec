"""A small model of real life carries a directive out, with the built file."""

import json
import platform
import sys
from pathlib import Path

import pytest

from tests.support.agent_threads import directive, echo, provider
from tests.support.built import BASE_PYTHON, run
from tests.support.smollm2 import small_model
from tests.support.workspace import Workspace

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.e2e,
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"),
        reason="the model's library is installed for Linux on x86_64",
    ),
]
_ADD = """
    CONFIG_SCHEMA = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    SANDBOX = {"read": [], "write": [], "network": "none", "programs": "none"}


    def execute(params, project_path):
        return {"sum": params["a"] + params["b"]}
"""
_OUTPUTS = '<outputs><output name="sum" type="integer" required="true">Sum</output></outputs>'
_MODEL = "{free: true, context: 2048, max_output: 100, features: [tools]}"


def test_it_calls_a_tool_once_and_gives_a_structured_output(
    workspace: Workspace, built_pyz: Path
) -> None:
    echo(workspace, "ops/add", body=_ADD)
    directive(workspace, body="Add 17 and 25 with the tool add.", outputs=_OUTPUTS)
    with small_model() as url:
        provider(workspace, url, model=_MODEL)

        ended = run(
            [BASE_PYTHON, built_pyz, "run", "directive:ops/say", "--fork", "--json"],
            environ=workspace.env,
            cwd=workspace.project_path,
        )

    assert ended.returncode == 0, ended.stdout + ended.stderr
    answer = json.loads(ended.stdout)
    usage = answer["usage"]
    assert answer["state"] == "completed"
    assert type(answer["outputs"]["sum"]) is int
    assert (usage["turns"], usage["tool_calls"]) == (2, 2), "the tool, and directive_return"
    (folder,) = (workspace.home / ".ai" / "state" / "agent" / "threads").iterdir()
    lines = (folder / "journal.jsonl").read_text("utf-8").splitlines()
    events = [json.loads(line) for line in lines]
    answered, returned = (
        next(one["payload"] for one in events if one["event_type"] == kind)
        for kind in ("answered", "returned")
    )
    (call,) = answered["calls"]
    given = json.loads(call["arguments"])
    assert call["name"] == "add"
    assert not returned["is_error"], returned
    assert f'"sum": {given["a"] + given["b"]}' in returned["text"], returned
