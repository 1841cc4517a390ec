"""The parameters of a run on a node, which fills in no defaults itself."""

from collections.abc import Mapping
from typing import Any

import pytest

from ryeos.items.errors import ParameterError
from ryeos.items.refs import parse_reference
from ryeos.remote.run import sent_parameters
from ryeos.run.model import ExecutionRequest
from tests.support.workspace import Workspace

GREET = """
CONFIG_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "default": "world"}},
    "additionalProperties": False,
}
"""
GRAPH = """
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: nothing to do
permissions: ["rye.execute.*"]
config:
  start: done
  nodes:
    done: {type: return}
"""


def sent(workspace: Workspace, item_id: str, **parameters: object) -> Mapping[str, Any]:
    rye = workspace.rye()
    request = ExecutionRequest(item_id=item_id, parameters=parameters)
    checked = rye.check(parse_reference(f"tool:{item_id}"), request)
    chain = rye.executor.build_chain(item_id)
    return sent_parameters(chain, request, checked.envelope["metadata"])


def test_defaults_of_the_schema_are_sent(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/greet", GREET)

    assert sent(workspace, "mine/greet") == {"name": "world"}


def test_given_parameters_are_sent_unchanged(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/greet", GREET)

    assert sent(workspace, "mine/greet", name="Ada") == {"name": "Ada"}


def test_a_tool_of_a_bundle_gets_no_defaults_of_this_bundle(workspace: Workspace) -> None:
    assert sent(workspace, "rye/bash/bash", command="ls") == {"command": "ls"}


def test_invalid_parameters_are_refused_locally(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/greet", GREET)

    with pytest.raises(ParameterError):
        sent(workspace, "mine/greet", name=1)


def test_a_graph_is_sent_with_the_limits_of_the_configuration(workspace: Workspace) -> None:
    workspace.project.signed("tools/mine/g.yaml", GRAPH)

    assert sent(workspace, "mine/g") == {"max_steps": 1000, "max_concurrency": 10}


def test_a_limit_of_the_graph_overrides_the_configuration(workspace: Workspace) -> None:
    graph = GRAPH.replace("config:", "config:\n  max_steps: 7")
    workspace.project.signed("tools/mine/g.yaml", graph)

    assert sent(workspace, "mine/g", x=1) == {"x": 1, "max_steps": 7, "max_concurrency": 10}


def test_a_limit_of_the_caller_overrides_all(workspace: Workspace) -> None:
    workspace.project.signed("tools/mine/g.yaml", GRAPH)

    sent_limits = sent(workspace, "mine/g", max_steps=3, max_concurrency=2)

    assert sent_limits == {"max_steps": 3, "max_concurrency": 2}


def test_an_input_of_a_graph_that_is_named_like_a_limit_is_not_filled_in(
    workspace: Workspace,
) -> None:
    schema = "config_schema: {type: object, properties: {max_steps: {type: integer}}}\n"
    workspace.project.signed("tools/mine/g.yaml", GRAPH + schema)

    assert sent(workspace, "mine/g") == {"max_concurrency": 10}
