"""Every source of limits, and invalid numbers."""

from pathlib import Path
from typing import Any

import pytest

from lillux.values import replace
from ryeos.items.errors import SpecError
from ryeos.run.limits import LimitSources, graph_limits, limit
from ryeos.trust.config import Layer
from tests.support.workspace import Workspace

SYSTEM, USER, PROJECT = "system:ryeos", "user", "project"


def layer(label: str, **values: Any) -> Layer:  # noqa: ANN401 - YAML
    return Layer(label, Path("execution.yaml"), values)


def for_tool(seconds: object) -> dict[str, Any]:
    return {"mine/slow": {"timeout": seconds}}


# From the highest source to the lowest; each has another number.
SOURCES: list[tuple[str, dict[str, Any]]] = [
    ("caller", {"caller": {"timeout": 1}}),
    ("tools of the project", {"layers": [layer(PROJECT, tools=for_tool(2))]}),
    ("tools of the user", {"layers": [layer(USER, tools=for_tool(3))]}),
    ("config of the tool", {"tool_config": {"timeout": 4}}),
    ("defaults of the project", {"layers": [layer(PROJECT, defaults={"timeout": 5})]}),
    ("defaults of the user", {"layers": [layer(USER, defaults={"timeout": 6})]}),
    ("tools of a bundle", {"layers": [layer(SYSTEM, tools=for_tool(7))]}),
    ("config of the runtime", {"runtime_config": {"timeout": 8}}),
    ("defaults of a bundle", {"layers": [layer(SYSTEM, defaults={"timeout": 9})]}),
]
# In the order of a ConfigReader.
ORDER = [SYSTEM, USER, PROJECT]


def sources(*mappings: dict[str, Any]) -> LimitSources:
    given: dict[str, Any] = {"caller": {}, "tool_config": {}, "runtime_config": {}}
    layers: list[Layer] = []
    for mapping in mappings:
        layers += mapping.get("layers", [])
        given |= {name: value for name, value in mapping.items() if name != "layers"}
    layers.sort(key=lambda found: ORDER.index(found.label))
    return LimitSources(tool_id="mine/slow", layers=layers, **given)


@pytest.mark.parametrize("index", range(len(SOURCES)), ids=[name for name, _ in SOURCES])
def test_a_higher_source_of_limits_wins(index: int) -> None:
    below = [values for _, values in SOURCES[index:]]

    assert limit("timeout", sources(*below)) == index + 1


def test_without_any_source_the_built_in_limit_is_used() -> None:
    assert limit("timeout", sources()) == 300
    assert limit("max_steps", sources()) == 1000
    assert limit("max_concurrency", sources()) == 10


@pytest.mark.parametrize("index", range(len(SOURCES)), ids=[name for name, _ in SOURCES])
def test_no_default_limits_the_time_of_a_background_run(index: int) -> None:
    name, values = SOURCES[index]
    is_of_item = not name.startswith("defaults") and name != "config of the runtime"

    found = limit("timeout", replace(sources(values), in_background=True))

    assert found == (index + 1 if is_of_item else None)


def test_limits_of_another_tool_are_ignored() -> None:
    tools = {"mine/other": {"timeout": 1}}

    assert limit("timeout", sources({"layers": [layer(PROJECT, tools=tools)]})) == 300


@pytest.mark.parametrize("value", [0, 0.0, None])
def test_none_and_zero_mean_no_limit(value: object) -> None:
    assert limit("timeout", sources({"tool_config": {"timeout": value}})) is None


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("5", "expected a number, got string"),
        (True, "expected a number, got boolean"),
        ([1], "expected a number, got list"),
        (-1, "expected a number above 0 and up to 1000000000, got -1"),
        (float("nan"), "expected a number above 0 and up to 1000000000, got nan"),
        (float("inf"), "expected a number above 0 and up to 1000000000, got inf"),
        (10**400, "expected a number above 0 and up to 1000000000, got a longer one"),
        (-(10**5000), "expected a number above 0 and up to 1000000000, got a longer one"),
    ],
    ids=["text", "boolean", "list", "negative", "nan", "infinite", "huge", "huge negative"],
)
def test_an_invalid_limit_is_refused(value: object, problem: str) -> None:
    with pytest.raises(SpecError) as error:
        limit("timeout", sources({"caller": {"timeout": value}}))

    assert str(error.value) == f"parameters.timeout: {problem}"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"tools": [1]}, "execution.yaml: tools: expected a mapping, got list"),
        ({"tools": {"mine/slow": 5}}, "execution.yaml: mine/slow: expected a mapping, got integer"),
        ({"defaults": "x"}, "execution.yaml: defaults: expected a mapping, got string"),
    ],
)
def test_an_execution_file_of_the_wrong_shape_is_refused(
    values: dict[str, Any], problem: str
) -> None:
    with pytest.raises(SpecError) as error:
        limit("timeout", sources({"layers": [layer(PROJECT, **values)]}))

    assert str(error.value) == problem


# --- executions


def execution_yaml(**values: str) -> str:
    lines = [f"{name}: {value}" for name, value in values.items()]
    return "\n".join(['version: "1.0.0"', "category: execution", *lines, ""])


def test_sources_of_limits_apply_to_a_real_tool(workspace: Workspace) -> None:
    tool = "mine/slow"
    file = "config/execution/execution.yaml"

    def timeout(**options: Any) -> float | None:  # noqa: ANN401 - as `command`
        return workspace.command(tool, **options).timeout_s

    workspace.project.signed_yaml(tool, "config: {script: echo}")
    found = [timeout()]
    workspace.user.signed(file, execution_yaml(defaults="{timeout: 6}"))
    found.append(timeout())
    workspace.project.signed(file, execution_yaml(defaults="{timeout: 5}"))
    found.append(timeout())
    workspace.project.signed_yaml(tool, "config: {script: echo, timeout: 4}")
    found.append(timeout())
    workspace.user.signed(file, execution_yaml(tools="{mine/slow: {timeout: 3}}"))
    found.append(timeout())
    workspace.project.signed(file, execution_yaml(tools="{mine/slow: {timeout: 2}}"))
    found.append(timeout())
    found.append(timeout(timeout_s=1))
    found.append(timeout(timeout_s=0))

    assert found == [300, 6, 5, 4, 3, 2, 1, None]


def test_a_tool_with_a_timeout_of_its_own_gets_it_and_ten_seconds_more(
    workspace: Workspace,
) -> None:
    schema = "config_schema: {type: object, properties: {timeout: {type: number}}}\n"
    workspace.project.signed_yaml("mine/own", f"{schema}config: {{script: echo, timeout: 20}}")

    short = workspace.command("mine/own", params={"timeout": 5})
    long = workspace.command("mine/own", params={"timeout": 60})

    assert (short.timeout_s, long.timeout_s) == (20, 70)
    assert short.stdin == b'{"timeout": 5}'


@pytest.mark.parametrize("own", [10**400, 1e300, -5, "soon", True], ids=lambda own: f"{own}"[:5])
def test_a_tools_own_timeout_parameter_may_have_any_value(
    workspace: Workspace, own: object
) -> None:
    schema = "config_schema: {type: object, properties: {timeout: {}}}\n"
    workspace.project.signed_yaml("mine/own", f"{schema}config: {{script: echo, timeout: 20}}")

    limit_s = workspace.command("mine/own", params={"timeout": own}).timeout_s

    assert limit_s is not None
    assert 20 <= limit_s <= 10**9


def test_a_graph_has_limits_from_any_source() -> None:
    own = {"layers": [layer(PROJECT, defaults={"max_steps": 7})]}

    assert graph_limits(sources(own)) == {"max_steps": 7, "max_concurrency": 10}


@pytest.mark.parametrize("value", [0, None, 1.5])
def test_a_graph_is_never_without_a_limit(value: object) -> None:
    with pytest.raises(SpecError) as error:
        graph_limits(sources({"layers": [layer(PROJECT, defaults={"max_steps": value})]}))

    assert str(error.value).startswith("max_steps: expected a whole number above 0, got ")
