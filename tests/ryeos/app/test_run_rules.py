"""Items that `run` would refuse are not signed."""

import pytest

from ryeos.app.settings import SETTINGS, settings_problems
from ryeos.app.sign import checked
from ryeos.items.errors import ItemValidationError
from ryeos.items.yaml import parse_yaml
from tests.support.workspace import ROOT, Workspace

GRAPH = """\
version: "1.0.0"
tool_type: graph
executor_id: rye/core/runtimes/state-graph/runtime
category: mine
description: a graph
config:
  start: a
  nodes:
    a: {action: {item_id: tool:rye/bash/bash}, next: nowhere}
"""


def issues(workspace: Workspace, relative: str, text: str) -> list[str]:
    path = workspace.project.write(relative, text)
    error = checked(workspace.rye(), workspace.project.target(path)).error
    assert error is None or isinstance(error, ItemValidationError), error
    return [] if error is None else list(error.details)


def tool(executor: str = "rye/core/runtimes/bash/bash", more: str = "") -> str:
    return (
        f'version: "1.0.0"\ntool_type: bash\nexecutor_id: {executor}\ncategory: mine\n'
        f"description: a tool\nconfig: {{command: echo}}\n{more}"
    )


def test_a_tool_that_runs_can_be_signed(workspace: Workspace) -> None:
    assert issues(workspace, "tools/mine/a.yaml", tool()) == []


@pytest.mark.parametrize(
    ("key", "meant"), [("config_shema", "config_schema"), ("env_confg", "env_config")]
)
def test_a_key_that_is_nearly_another_is_refused(
    workspace: Workspace, key: str, meant: str
) -> None:
    found = issues(workspace, "tools/mine/a.yaml", tool(more=f"{key}: {{}}\n"))

    assert found == [f"unknown key {key!r}: did you mean {meant}?"]


def test_a_constant_in_code_is_nearly_a_key_too(workspace: Workspace) -> None:
    path = workspace.project.tool("mine/a", extra="CONFIG_SCEHMA = {}\n")
    error = checked(workspace.rye(), workspace.project.target(path)).error

    assert "did you mean CONFIG_SCHEMA?" in str(error)


def test_a_graph_that_cannot_run_is_refused(workspace: Workspace) -> None:
    silent = GRAPH.replace("next: nowhere", "next: b").rstrip("\n") + "\n    b: {type: return}\n"
    listed = "permissions: [rye.execute.tool.rye.bash.bash]\n"

    found = issues(workspace, "tools/mine/g.yaml", silent)

    assert [one.split(",")[0] for one in found] == ["permissions: expected what the graph may call"]
    assert 'permissions: ["rye.execute.tool.rye.bash.bash"]' in found[0]
    assert issues(workspace, "tools/mine/g.yaml", silent + listed) == []
    assert issues(workspace, "tools/mine/g.yaml", silent + "permissions: null\n") == []


def test_keys_of_other_programs_and_free_ones_are_accepted(workspace: Workspace) -> None:
    text = tool(more="tags: [a]\nx-mine: 1\nsomething_else: 2\n")

    assert issues(workspace, "tools/mine/a.yaml", text) == []


def test_an_executor_that_does_not_exist_is_refused(workspace: Workspace) -> None:
    (found,) = issues(workspace, "tools/mine/a.yaml", tool("rye/core/runtimes/bash/bsh"))

    assert found.startswith("executor_id: no such item, 'rye/core/runtimes/bash/bsh'")
    assert "did you mean rye/core/runtimes/bash/bash?" in found


def test_a_user_tool_cannot_be_signed_for_a_runtime_of_a_project(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.runtime("mine/py"))
    path = workspace.user.tool("mine/a", executor="mine/py")

    error = checked(workspace.rye(), workspace.user.target(path)).error

    assert "executor_id: no such item, 'mine/py'" in str(error)


def test_a_graph_with_problems_is_not_signed(workspace: Workspace) -> None:
    assert any("nowhere" in one for one in issues(workspace, "tools/mine/g.yaml", GRAPH))


def settings(path: str, text: str) -> str:
    return f'version: "1.0.0"\ncategory: {path.partition("/")[0]}\n{text}\n'


@pytest.mark.parametrize(
    ("path", "text", "problem"),
    [
        ("remotes/remotes.yaml", "remotes: {gpu: {urll: 'https://x'}}", 'did you mean "url"'),
        ("remotes/remotes.yaml", "remotes: {gpu: {url: 'ftp://x'}}", "begins with https://"),
        ("remotes/remotes.yaml", "remots: {}", 'did you mean "remotes"'),
        ("registry/registry.yaml", "registry: {a: {url: 'https://x', key: K}}", "no such key"),
        ("registry/registry.yaml", "registry: {a: {url: nowhere}}", "begins with https://"),
        ("cas/manifest.yaml", "sync: {includes: [src/]}", 'did you mean "include"'),
        ("cas/manifest.yaml", "sync: {include: src/}", "expected"),
        ("cas/manifest.yaml", "manifest: {hard_exclude: {patterns: ['(']}}", "("),
        ("execution/execution.yaml", "defaults: {timout: 3}", 'did you mean "timeout"'),
        ("integrity/integrity.yaml", "require_full_coverage: 'yes'", "boolean"),
        ("agents/policy.yaml", "sign: alow", "expected one of ask, never, allow"),
        ("agents/policy.yaml", "rules: [{item: 'tool:a', decision: deny}]", "did you mean items?"),
        ("file-system/access.yaml", "alow: [/tmp]", 'did you mean "allow"'),
        ("agent/hook_conditions.yaml", "hooks: [{evnt: error}]", 'did you mean "event"'),
        ("web/access.yaml", "allow_privat: []", 'did you mean "allow_private"'),
    ],
)
def test_settings_with_a_mistake_are_not_signed(
    workspace: Workspace, path: str, text: str, problem: str
) -> None:
    found = issues(workspace, f"config/{path}", settings(path, text))

    assert len(found) == 1
    assert problem in found[0]


def test_settings_that_rye_ships_have_no_mistake() -> None:
    for path in sorted((ROOT / "bundle.ai/config").rglob("*.yaml")):
        relative = path.relative_to(ROOT / "bundle.ai/config").as_posix()
        # These have a reader of their own, which `tests/ryeos/agent/test_providers.py` tries.
        of_threads = ("agent/agent.yaml", "agent/prices/", "agent/providers/", "credentials/")
        assert relative in SETTINGS or relative.startswith(of_threads)
        assert (
            list(settings_problems(relative, parse_yaml(path.read_text("utf-8"), path.name))) == []
        )


def test_settings_of_the_project_itself_may_have_any_keys(workspace: Workspace) -> None:
    text = settings("mine/own.yaml", "anything: [1]")

    assert issues(workspace, "config/mine/own.yaml", text) == []


HTTP = """\
version: "1.0.0"
tool_type: http
executor_id: rye/core/primitives/http_client
category: mine
description: asks
config:
  url: "https://api.example/{path}"
"""


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ("  heders: {}\n", "config: unknown key 'heders': did you mean headers?"),
        ("  auth: {type: bearer, tokn: x}\n", 'did you mean "token"'),
        ("  auth: {type: basic}\n", 'expected one of "bearer", "api_key"'),
        ("  retry: {max_attempt: 2}\n", 'did you mean "max_attempts"'),
    ],
)
def test_a_request_with_a_mistake_is_not_signed(
    workspace: Workspace, config: str, problem: str
) -> None:
    (found,) = issues(workspace, "tools/mine/a.yaml", HTTP + config)

    assert problem in found


def test_a_value_for_a_template_is_no_mistake(workspace: Workspace) -> None:
    text = HTTP.replace("{path}", "{querys}") + "  querys: search\n"

    assert issues(workspace, "tools/mine/a.yaml", text) == []


def test_the_config_of_a_command_is_validated_too(workspace: Workspace) -> None:
    text = tool().replace("{command: echo}", "{comand: echo}")

    assert issues(workspace, "tools/mine/a.yaml", text) == [
        "config: unknown key 'comand': did you mean command?"
    ]


@pytest.mark.parametrize("schema", ['{"type": "object"', "[1]", '{"type": "object"} x', "{'a': 1}"])
def test_a_schema_of_a_shell_script_that_cannot_be_read_is_an_error(
    workspace: Workspace, schema: str
) -> None:
    text = "# version: 1.0.0\n# category: mine\n# description: d\n# tool_type: bash\n"
    path = workspace.project.write("tools/mine/a.sh", f"{text}# config_schema: {schema}\necho\n")
    error = checked(workspace.rye(), workspace.project.target(path)).error

    assert "config_schema: expected" in str(error)


@pytest.mark.parametrize(
    ("mistake", "problem"),
    [
        ("entry_typ: reference", "unknown key 'entry_typ': did you mean entry_type?"),
        ("refrences: []", "unknown key 'refrences': did you mean references?"),
    ],
)
def test_knowledge_with_a_mistake_is_not_signed(
    workspace: Workspace, mistake: str, problem: str
) -> None:
    about = "name: a\ntitle: A\nentry_type: reference\ncategory: mine\nversion: '1.0.0'"
    text = f"---\n{about}\nsource_of_mine: x\n{mistake}\n---\n\nText.\n"

    assert issues(workspace, "knowledge/mine/a.md", text) == [problem]
    assert issues(workspace, "knowledge/mine/a.md", text.replace(mistake, "own: x")) == []


DIRECTIVE = """\
```xml
<directive name="a" version="1.0.0">
<metadata>
<description>d</description><category>mine</category><author>me</author><risk>low</risk>
</metadata>
<inputs><input name="n" type="string" required="true">who</input></inputs>
</directive>
```

Do it for {input:n}.
"""


@pytest.mark.parametrize(
    ("right", "mistake", "problem"),
    [
        (
            "<risk>low</risk>",
            "<permission></permission>",
            "<permission> is not read; write <permissions>",
        ),
        (
            'required="true"',
            'requird="true"',
            "inputs: unknown key 'requird': did you mean required?",
        ),
        ("inputs>", "input>", "<input> is not read; write <inputs>"),
        ('version="1.0.0"', 'version="1.0.0" extend="x"', "did you mean extends?"),
    ],
)
def test_a_directive_with_a_mistake_is_not_signed(
    workspace: Workspace, right: str, mistake: str, problem: str
) -> None:
    (found,) = issues(workspace, "directives/mine/a.md", DIRECTIVE.replace(right, mistake))

    assert found.endswith(problem)
    assert issues(workspace, "directives/mine/a.md", DIRECTIVE) == []
