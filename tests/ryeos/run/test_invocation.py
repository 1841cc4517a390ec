"""A chain and parameters become a fully resolved command."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from lillux.process.model import MIB
from ryeos.items.errors import SpecError
from ryeos.items.refs import Space
from ryeos.run.command import params_text
from tests.support.executables import make_program
from tests.support.node_tools import node_source
from tests.support.workspace import Workspace

EXECUTE = "rye/core/primitives/execute"


def runtime(workspace: Workspace, config: dict[str, Any], **header: object) -> None:
    """A project runtime ``mine/r`` with this config."""
    body = "".join(f"{name}: {json.dumps(value)}\n" for name, value in header.items())
    workspace.project.signed_yaml("mine/r", f"{body}config: {json.dumps(config)}", executor=EXECUTE)


def tool(workspace: Workspace, config: dict[str, Any] | None = None, **header: object) -> Path:
    """A YAML tool ``mine/t`` on that runtime."""
    body = "".join(f"{name}: {json.dumps(value)}\n" for name, value in header.items())
    return workspace.project.signed_yaml(
        "mine/t", f"{body}config: {json.dumps(config or {})}", executor="mine/r"
    )


def argv(workspace: Workspace, **params: object) -> tuple[str, ...]:
    return workspace.command("mine/t", params=params).argv


def error(workspace: Workspace, **params: object) -> str:
    result = workspace.run("mine/t", params=params)
    assert isinstance(result.failure, SpecError), result
    return str(result.error)


# --- the merge of configs


def test_keys_of_the_tool_win_over_keys_of_the_runtime(workspace: Workspace) -> None:
    workspace.project.signed_yaml(
        "mine/low",
        'config: {command: /low, args: ["{a}", "{b}"], a: low, b: low}',
        executor=EXECUTE,
    )
    workspace.project.signed_yaml("mine/r", "config: {command: /r, a: r}", executor="mine/low")
    tool(workspace, {"a": "tool"})

    assert argv(workspace) == ("/r", "tool", "low")


def test_a_runtime_has_variants_by_the_suffix_of_the_tool(workspace: Workspace) -> None:
    config = {"command": "/r", "args": ["plain"]}
    variants = [
        {"suffixes": [".py"], "config": {"args": ["python"]}},
        {"suffixes": [".yaml", ".yml"], "config": {"args": ["yaml"]}},
        {"suffixes": [".yaml"], "config": {"args": ["never"]}},
    ]
    runtime(workspace, config, variants=variants)
    tool(workspace)
    workspace.project.sign_unchecked(
        workspace.project.write("tools/s.sh", "# executor_id: mine/r\n# tool_type: bash\n")
    )

    assert argv(workspace) == ("/r", "yaml")
    assert workspace.command("s").argv == ("/r", "plain")


# --- names


def test_engine_names_stand_for_paths(workspace: Workspace) -> None:
    names = ["tool_path", "tool_dir", "tool_parent", "anchor_path", "project_path", "user_space"]
    names += ["system_space", "tool_id", "timeout", "cwd", "runtime_lib"]
    runtime(workspace, {"command": "/r", "args": [f"{{{name}}}" for name in names], "timeout": 7})
    path = tool(workspace)

    found = dict(zip(names, argv(workspace)[1:], strict=True))

    project, tools = str(workspace.project_path), path.parent
    assert found == {
        "tool_path": str(path),
        "tool_dir": str(tools),
        "tool_parent": str(tools.parent),
        "anchor_path": str(tools),
        "project_path": project,
        "user_space": str(workspace.home),
        "system_space": str(workspace.bundles[0].base),
        "tool_id": "mine/t",
        "timeout": "7",
        "cwd": project,
        "runtime_lib": "",
    }


def test_parameters_cannot_replace_names_of_engine_or_config(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r", "args": ["{tool_path}", "{mode}", "{own}"], "mode": "x"})
    path = tool(workspace)

    found = argv(workspace, tool_path="/evil", mode="evil", own="mine", params_json="{}")

    assert found == ("/r", str(path), "x", "mine")


@pytest.mark.parametrize("name", ["command", "args", "input_data", "env"])
def test_some_names_are_filled_from_parameters_only(workspace: Workspace, name: str) -> None:
    config = {"command": "/r", "args": [f"<{{{name}}}>"], "input_data": "x", "env": {"A": "1"}}
    runtime(workspace, config)
    tool(workspace)

    assert argv(workspace) == ("/r", f"<{{{name}}}>")
    assert argv(workspace, **{name: "mine"}) == ("/r", "<mine>")


def test_parameters_never_become_part_of_the_config(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r", "args": ["a"]})
    tool(workspace)
    evil = {"command": "/evil", "args": ["evil"], "input_data": "evil", "env": {"EVIL": "1"}}

    command = workspace.command("mine/t", params=evil)

    assert command.argv == ("/r", "a")
    assert "EVIL" not in command.env
    assert json.loads(command.stdin) == evil


def test_an_argument_that_is_not_text_is_written_as_json(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r", "args": [5, True, None, "{list}", ["{list}"]]})
    tool(workspace)

    assert argv(workspace, list=[1, "a"]) == ("/r", "5", "true", "", '[1, "a"]', '[[1, "a"]]')


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"command": ""}, "config.command: No command specified"),
        ({"command": "{nothing}"}, None),
        ({"command": "/r", "args": "text"}, "config.args: expected a list, got string"),
        ({"command": "/r", "args": {"a": 1}}, "config.args: expected a list, got mapping"),
        (
            {"command": "/r", "fixed_params": 5},
            "config.fixed_params: expected a mapping, got integer",
        ),
        (
            {"command": "/r", "max_output_bytes": "much"},
            "config.max_output_bytes: expected a number of bytes, got 'much'",
        ),
        ({"command": "/r", "max_output_bytes": 0}, None),
        ({"command": "/r", "max_output_bytes": True}, None),
    ],
)
def test_a_config_of_the_wrong_shape_is_refused(
    workspace: Workspace, config: dict[str, Any], problem: str | None
) -> None:
    runtime(workspace, config)
    tool(workspace)

    result = workspace.run("mine/t")

    assert result.failure is not None
    assert problem in {None, result.error}


# --- fixed parameters


def test_fixed_parameters_override_the_callers_with_a_warning(workspace: Workspace) -> None:
    runtime(workspace, {"command": sys.executable, "args": ["-c", "print(input())"]})
    tool(workspace, {"fixed_params": {"mode": "safe"}})

    result = workspace.run("mine/t", params={"mode": "evil", "a": 1})

    assert result.data == {"mode": "safe", "a": 1}
    assert result.metadata["warnings"] == ["parameter mode is fixed by the tool; yours is not used"]


def test_fixed_parameters_are_templates_of_the_chain_but_not_of_the_caller(
    workspace: Workspace,
) -> None:
    runtime(workspace, {"command": "/r"})
    fixed = {
        "root": "{project_path}/data",
        "home": "${HOME}",
        "who": "{who}",
        "list": ["{tool_id}"],
    }
    tool(workspace, {"fixed_params": fixed})

    stdin = workspace.command("mine/t", params={"who": "me"}).stdin

    assert json.loads(stdin) == {
        "root": f"{workspace.project_path}/data",
        "home": str(workspace.home),
        "who": "{who}",
        "list": ["{tool_id}"],
    }


def test_parameters_can_be_nested_under_a_key(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r"})
    tool(workspace, {"fixed_params": {"action": "go"}, "params_key": "params"})

    stdin = workspace.command("mine/t", params={"action": "evil", "a": 1}).stdin

    assert json.loads(stdin) == {"action": "go", "params": {"action": "evil", "a": 1}}


# --- how parameters are delivered


def test_standard_input_has_them_unless_the_config_says_otherwise(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r", "args": []})
    tool(workspace)
    assert workspace.command("mine/t", params={"a": "ü"}).stdin == '{"a": "ü"}'.encode()

    tool(workspace, {"input_data": "<{a}>"})
    assert workspace.command("mine/t", params={"a": "ü"}).stdin == "<ü>".encode()


PYTHON = "rye/core/runtimes/python/script"
READS_NEITHER = "print(1)\n"
READS_STDIN = "import sys, json\njson.load(sys.stdin)\n"
READS_PARAMS = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--params')\n"


@pytest.mark.parametrize(
    ("mode", "body", "in_arguments", "on_stdin"),
    [
        (None, READS_NEITHER, False, True),
        (None, READS_STDIN, False, True),
        (None, READS_PARAMS, True, True),
        (None, READS_PARAMS + READS_STDIN, False, True),
        ("auto", READS_PARAMS, True, True),
        ("stdin", READS_PARAMS, False, True),
        ("args", READS_NEITHER, True, False),
        ("both", READS_NEITHER, True, True),
    ],
)
def test_params_mode_says_how_a_tool_gets_its_parameters(
    workspace: Workspace,
    mode: str | None,
    body: str,
    in_arguments: bool,  # noqa: FBT001 - columns of the table
    on_stdin: bool,  # noqa: FBT001
) -> None:
    extra = f'__params_mode__ = "{mode}"\n' if mode else ""
    path = workspace.project.signed_tool("mine/p", body, extra=extra)

    command = workspace.command("mine/p", params={"a": 1})

    here = command.argv.index(str(path))
    after = ("--params", '{"a": 1}') if in_arguments else ()
    project = ("--project-path", str(workspace.project_path))
    assert command.argv[here + 1 :] == (*after, *project)
    assert command.stdin == (b'{"a": 1}' if on_stdin else b"")


@pytest.mark.parametrize(
    ("source", "in_arguments"),
    [
        (
            "parseArgs({options: {params: {type: 'string'}, 'project-path': {type: 'string'}}})",
            True,
        ),
        ("args['params']; args['project-path']", True),
        ('args["params"]; args["project-path"]', True),
        ("process.argv.indexOf('--params')", True),
        ("exports.execute = (params, projectPath) => params.x", False),
        ("const params = {}; args['project-path']", False),
        ("// --params\nprocess.stdin; args['project-path']; args['params']", False),
    ],
)
def test_a_script_of_node_gets_params_as_an_option_when_it_looks_for_one(
    workspace: Workspace,
    source: str,
    in_arguments: bool,  # noqa: FBT001 - a column of the table
) -> None:
    workspace.project.signed("tools/mine/t.js", node_source("mine/t", source))

    assert ("--params" in argv(workspace, a=1)) is in_arguments


def test_a_runtime_that_places_parameters_itself_gets_them_once(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r", "args": ["{tool_path}", "--params={params_json}"]})
    tool(workspace, {}, params_mode="both")

    found = argv(workspace, a=1)

    assert found[2:] == ('--params={"a": 1}',)


def test_the_mode_may_also_stand_in_the_config(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r", "args": ["x"], "params_mode": "args"})
    tool(workspace)

    assert argv(workspace, a=1) == ("/r", "x", "--params", '{"a": 1}')


def test_parameters_too_long_for_an_argument_are_refused_with_advice(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/t", extra='__params_mode__ = "args"\n')

    result = workspace.run("mine/t", params={"a": "x" * MIB})

    assert result.error == (
        "params_mode: expected parameters of at most 102400 bytes on a command line, found 1048585"
    )
    assert result.failure is not None
    assert result.failure.hint == "let the tool read its parameters from standard input"


def test_parameters_are_one_line_of_json_with_text_as_it_is() -> None:
    assert params_text({"a": "ü\n", "b": None}) == '{"a": "ü\\n", "b": null}'


def test_characters_that_no_encoding_holds_are_escaped() -> None:
    text = params_text({"\ud800": ["\udfff", "😀"]})

    assert text.encode().decode() == text
    assert json.loads(text) == {"\ud800": ["\udfff", "😀"]}


# --- working directory


def test_a_tool_runs_in_the_project_unless_a_user_says_otherwise(workspace: Workspace) -> None:
    (workspace.project_path / "sub dir").mkdir()
    runtime(workspace, {"command": "/r"})
    tool(workspace)

    def cwd(**wish: object) -> Path | None:
        return workspace.command("mine/t", **wish).cwd

    assert cwd() == workspace.project_path
    assert cwd(cwd="sub dir") == workspace.project_path / "sub dir"
    assert cwd(cwd=str(workspace.home)) == workspace.home

    tool(workspace, {"cwd": "{project_path}/sub dir"})
    assert cwd() == workspace.project_path / "sub dir"
    assert cwd(cwd=".") == workspace.project_path


def test_a_parameter_marked_x_steers_is_not_passed_on(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r"})
    steers = {"x-steers": True}
    tool(workspace, {}, config_schema={"properties": {"cwd": steers, "timeout": steers}})

    command = workspace.command("mine/t", params={"cwd": ".", "timeout": 5, "a": 1})

    assert (json.loads(command.stdin), command.timeout_s) == ({"a": 1}, 5)


def test_parameters_of_any_name_are_data(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r"})
    tool(workspace)
    params = {"cwd": "/nowhere", "timeout": 0.001}

    command = workspace.command("mine/t", params=params)

    assert json.loads(command.stdin) == params
    assert (command.cwd, command.timeout_s) == (workspace.project_path, 300)


def test_a_declared_cwd_parameter_is_passed_on_as_data(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r"})
    tool(workspace, {}, config_schema={"properties": {"cwd": {"type": "string"}}})

    command = workspace.command("mine/t", params={"cwd": "/nowhere"})

    assert (json.loads(command.stdin), command.cwd) == ({"cwd": "/nowhere"}, workspace.project_path)


@pytest.mark.parametrize(
    ("cwd", "problem"),
    [
        ("nowhere", "cwd: expected a folder, found none at {project}/nowhere"),
        ("a\0b", "cwd: expected a folder, found none at {project}/a\0b"),
        (5, "cwd: expected a path, got integer"),
        ([], "cwd: expected a path, got list"),
    ],
)
def test_a_cwd_that_is_not_a_folder_is_refused(
    workspace: Workspace, cwd: object, problem: str
) -> None:
    runtime(workspace, {"command": "/r"})
    tool(workspace, {}, config_schema={"properties": {"cwd": {"x-steers": True}}})

    found = error(workspace, cwd=cwd)

    assert found == problem.replace("{project}", str(workspace.project_path))


@pytest.mark.parametrize("cwd", ["x" * 5000, "\ud800", "x/" * 3000])
def test_an_invalid_cwd_is_refused(workspace: Workspace, cwd: str) -> None:
    runtime(workspace, {"command": "/r"})
    tool(workspace, {}, config_schema={"properties": {"cwd": {"x-steers": True}}})

    assert error(workspace, cwd=cwd).startswith("cwd: expected a folder, found none at ")


# --- unusual paths


@pytest.mark.parametrize("name", ["my (x) [1]", "it's", 'a"b', "ü ${HOME} {tool_id}", "$(id);#&"])
def test_an_interpreter_in_a_folder_of_any_name_is_started(workspace: Workspace, name: str) -> None:
    program = make_program(workspace.folder / name / "python")
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8")
    workspace.env["RYE_PYTHON"] = str(program)
    workspace.project.signed_tool("mine/t", "print(1)")

    result = workspace.run("mine/t", dry_run=True)

    assert result.metadata["command"][0] == str(program)
    assert workspace.run("mine/t").data == 1


@pytest.mark.parametrize(
    "name", ["my (x) [1]", "it's", "ü", "{tool_id}", "$(exit 7)", "a`id`", "a&b;", "-c", "${HOME}"]
)
@pytest.mark.parametrize("kind", ["python", "script", "shell"])
def test_a_tool_of_any_name_runs(workspace: Workspace, name: str, kind: str) -> None:
    item_id = f"{name}/{name}"
    if kind == "python":
        path = workspace.project.signed_tool(item_id, "import sys; print(sys.argv[0])")
    elif kind == "script":
        path = workspace.project.write(
            f"tools/{item_id}.sh", '# tool_type: bash\nprintf "%s\\n" "$0"\n'
        )
        workspace.project.sign_unchecked(path)
    else:
        path = workspace.project.write(
            f"tools/{item_id}.yaml",
            "tool_type: bash\nexecutor_id: rye/core/runtimes/bash/bash\n"
            'config: {script: \'printf "%s\\n" "$0"; test "$0" = {tool_path}\'}\n',
        )
        workspace.project.sign_unchecked(path)

    result = workspace.run(item_id)

    assert result.error is None
    # A script is a copy in a folder of the run, at the same place below it.
    assert result.data["stdout"].endswith(f"{path}\n")


def test_a_project_in_a_folder_of_any_name_works(tmp_path: Path, bundle: Space) -> None:
    workspace = Workspace(tmp_path / "a\"b 'c' ${HOME} {tool_id} $(exit 7)", (bundle,))
    workspace.project.signed("tools/pack/__init__.py", "")
    workspace.project.signed("tools/pack/near.py", "X = 1\n")
    workspace.project.signed_tool("pack/t", "import near, os\nprint(os.getcwd())")
    workspace.project.signed_yaml("mine/b", "config: {script: 'printf %s {project_path}'}")

    python, shell = workspace.run("pack/t"), workspace.run("mine/b")

    assert (python.error, shell.error) == (None, None)
    assert python.data["stdout"] == f"{workspace.project_path}\n"
    assert shell.data["stdout"] == str(workspace.project_path)


# --- bash


def bash(workspace: Workspace, config: dict[str, Any], **params: object) -> str:
    workspace.project.signed_yaml("mine/b", f"config: {json.dumps(config)}")
    result = workspace.run("mine/b", params=params, use_lockfile=False)
    assert result.error is None, result.error
    return str(result.data["stdout"])


def test_a_command_of_the_caller_is_passed_whole(workspace: Workspace) -> None:
    assert bash(workspace, {}, command="echo '{tool_path} ${HOME}' | cat") == (
        "{tool_path} ${HOME}\n"
    )


def test_the_script_of_the_tool_comes_before_the_command_of_the_caller(
    workspace: Workspace,
) -> None:
    assert bash(workspace, {"script": "echo tool"}, command="echo caller") == "tool\n"
    assert bash(workspace, {"command_template": "echo tmpl"}, command="echo caller") == "tmpl\n"
    assert bash(workspace, {"command": "echo cmd"}, command="echo caller") == "cmd\n"


def test_a_path_in_command_is_a_program_and_a_command_line_is_a_script(
    workspace: Workspace,
) -> None:
    assert bash(workspace, {"command": "/bin/bash"}, command="echo caller") == "caller\n"
    assert bash(workspace, {"command": "/bin/echo line"}, command="echo caller") == "line\n"
    assert bash(workspace, {"script": "/bin/echo script"}) == "script\n"


@pytest.mark.parametrize("params", [{}, {"command": "  "}, {"command": 5}, {"command": None}])
def test_without_any_command_the_run_fails(workspace: Workspace, params: dict[str, Any]) -> None:
    workspace.project.signed_yaml("mine/b", "config: {}")

    result = workspace.run("mine/b", params=params)

    assert result.error == "command: No command specified"
    assert result.failure is not None
    assert result.failure.hint == (
        "give the parameter command='...', or write config.script in the tool"
    )


def test_a_script_sees_its_file_its_parameters_and_the_project(workspace: Workspace) -> None:
    script = 'printf "%s\\n" "$0" "$1" "$2"; cat; echo; echo end'

    found = bash(workspace, {"script": script}, a="x'y")

    path = workspace.project.space.ai / "tools/mine/b.yaml"
    params = """{"a": "x'y"}"""
    assert found == f"{path}\n{params}\n{workspace.project_path}\n{params}\nend\n"


def test_a_script_file_sees_its_parameters_and_the_project(workspace: Workspace) -> None:
    path = workspace.project.write(
        "tools/s.sh",
        '#!/bin/bash\n# version: 1.0.0\n# category: ""\n# description: says\n# tool_type: bash\n'
        'printf "%s\\n" "$0" "$1" "$2" "$RYE_BASH"; cat; echo; echo end\n',
    )
    workspace.project.sign(path)

    lines = workspace.run("s", params={"a": 1}).data["stdout"].split("\n")

    assert lines[0].endswith(str(path))
    assert lines[1:3] == ['{"a": 1}', str(workspace.project_path)]
    assert Path(lines[3]).name == "bash"
    assert lines[4] == '{"a": 1}'


def test_the_whole_script_may_be_the_callers_command(workspace: Workspace) -> None:
    assert bash(workspace, {"script": "{command}"}, command="echo a; echo b") == "a\nb\n"


def test_a_shell_of_a_project_runtime_gets_values_as_words(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/bin/sh", "args": ["-ec", "printf '[%s]' {x}", "{tool_path}"]})
    tool(workspace)

    assert workspace.run("mine/t", params={"x": "a b; exit 7"}).data["stdout"] == "[a b; exit 7]"


def test_with_shell_every_argument_is_shell_text(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/r", "args": ["do {x}", "{x}"], "shell": True})
    tool(workspace)

    assert argv(workspace, x="a b") == (
        "/r",
        "__rye_0_='a b'\ndo \"${__rye_0_}\"",
        "__rye_0_='a b'\n\"${__rye_0_}\"",
    )


def test_a_script_of_the_old_shape_still_runs_the_callers_command(workspace: Workspace) -> None:
    runtime(workspace, {"command": "/bin/bash", "args": ["-c", "{command}", "{tool_path}"]})
    tool(workspace)

    result = workspace.run("mine/t", params={"command": "echo a; echo b"})

    assert result.data["stdout"] == "a\nb\n"
