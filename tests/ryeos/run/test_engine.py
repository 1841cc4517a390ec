"""Whole executions, with real files and real processes."""

import copy
import json
import os
import shlex
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from lillux.errors import LilluxError
from lillux.process.model import MIB
from ryeos.items.errors import ChainValidationError
from ryeos.run.model import ExecutionRequest, ExecutionResult
from tests.support.children import Lifeline
from tests.support.executables import make_program
from tests.support.scripted_process import ScriptedProcess
from tests.support.workspace import ROOT, SpaceFolder, Workspace

SCRIPT = "rye/core/runtimes/python/script"
EXECUTE = "rye/core/primitives/execute"
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals and shells of POSIX")


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        path.relative_to(folder).as_posix(): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def shell(workspace: Workspace, command: str, **options: Any) -> ExecutionResult:  # noqa: ANN401
    return workspace.run("rye/bash/bash", params={"command": command}, **options)


# --- results


def test_a_signed_python_tool_gets_its_parameters_on_standard_input(workspace: Workspace) -> None:
    workspace.project.signed_tool(
        "mine/echo",
        """
        import json, sys
        print(json.dumps({"got": json.load(sys.stdin), "args": sys.argv[1:]}))
        """,
    )

    result = workspace.run("mine/echo", params={"a": 1})

    project = ["--project-path", str(workspace.project_path)]
    assert (result.error, result.data) == (None, {"got": {"a": 1}, "args": project})
    assert result.duration_ms > 0


def test_a_python_tool_is_the_main_module_of_its_process(workspace: Workspace) -> None:
    path = workspace.project.signed_tool(
        "mine/main",
        """
        import sys, pickle, inspect
        class Thing:
            pass
        if __name__ == "__main__":
            assert pickle.loads(pickle.dumps(Thing())).__class__ is Thing
            assert inspect.getsource(Thing).startswith("class Thing")
            print(__file__, sys.argv[0], sys.modules["__main__"].__file__, sep="|")
        """,
    )

    result = workspace.run("mine/main")

    assert result.error is None
    assert result.data["stdout"] == f"{path}|{path}|{path}\n"


def test_the_traceback_of_a_python_tool_names_its_file_and_line(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("mine/bad", "def f():\n    raise ValueError('why')\nf()\n")

    result = workspace.run("mine/bad")

    lines = path.read_text("utf-8").splitlines()
    number = lines.index("    raise ValueError('why')") + 1
    assert f'File "{path}", line {number}, in f' in result.metadata["stderr"]
    assert "<string>" not in result.metadata["stderr"]
    assert result.error == "ValueError: why"
    assert result.metadata["error_code"] == "EXECUTION_FAILED"


def test_an_unsigned_tool_does_not_run(workspace: Workspace) -> None:
    path = workspace.project.tool("mine/echo", "print('ran')")

    result = workspace.run("mine/echo")

    assert result.error == f"unsigned item, expected a rye:signed line: {path}"
    assert result.metadata["error_code"] == "UNSIGNED"


def test_only_names_that_the_chain_set_are_reported(workspace: Workspace) -> None:
    workspace.env["SECRET_TOKEN"] = "s3cret"
    workspace.project.signed_tool(
        "mine/env", "print(1)", extra='ENV_CONFIG = {"env": {"MINE": "1"}}\n'
    )

    result = workspace.run("mine/env")

    assert result.metadata["resolved_env_keys"] == [
        *("MINE", "PROJECT_VENV_PYTHON", "PYTHONUNBUFFERED", "PYTHONUTF8", "RYE_PYTHON")
    ]


# --- the environment of the process


def test_the_tool_wins_over_its_runtime_and_the_caller_over_all(workspace: Workspace) -> None:
    workspace.env["PYTHONUNBUFFERED"] = "process"
    workspace.project.signed_tool(
        "mine/env", extra='ENV_CONFIG = {"env": {"PYTHONUNBUFFERED": "9", "FOO": "tool"}}\n'
    )
    (workspace.project_path / ".env").write_text("FOO=dotenv\nBAR=dotenv\n", encoding="utf-8")
    workspace.approve()

    env = workspace.command("mine/env", extra_env={"FOO": "caller"}).env

    assert (env["PYTHONUNBUFFERED"], env["FOO"], env["BAR"]) == ("9", "caller", "dotenv")


def test_a_process_knows_its_project_and_its_tool_but_no_parameters(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("mine/env")

    env = workspace.command("mine/env", params={"needle": "in no haystack"}).env

    assert env["RYE_PROJECT_PATH"] == str(workspace.project_path)
    assert env["RYE_TOOL_PATH"] == str(path)
    assert env["RYE_TOOL_ID"] == "mine/env"
    assert "needle" not in json.dumps(dict(env))


def test_an_env_file_cannot_choose_programs_or_libraries(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/env")
    text = "PATH=/evil\nLD_PRELOAD=/evil.so\nPYTHONPATH=/evil\nRYE_PYTHON=/evil\nOWN=fine\n"
    (workspace.project_path / ".env").write_text(text, encoding="utf-8")
    workspace.approve()

    result = workspace.run("mine/env")
    env = workspace.command("mine/env").env

    assert "/evil" not in "".join(env.values())
    assert env["OWN"] == "fine"
    assert len(result.metadata["warnings"]) == 4


def test_variables_can_be_removed_from_the_environment(workspace: Workspace) -> None:
    workspace.env |= {"GONE": "1", "KEPT": "1"}
    workspace.project.signed_yaml(
        "mine/env", "env_config: {unset: [GONE, NEVER]}\nconfig: {script: echo}"
    )

    env = workspace.command("mine/env").env

    assert "GONE" not in env
    assert env["KEPT"] == "1"


def test_a_minimal_environment_has_system_variables_and_those_of_the_chain(
    workspace: Workspace,
) -> None:
    workspace.env |= {"SECRET_TOKEN": "s3cret", "LANG": "C"}
    workspace.project.signed_yaml(
        "mine/env", "env_config: {env_policy: minimal, env: {A: '1'}}\nconfig: {script: echo}"
    )

    env = workspace.command("mine/env").env

    assert set(env) == {
        *("A", "HOME", "LANG", "PATH", "RYE_BASH"),
        *("RYE_PROJECT_PATH", "RYE_TOOL_ID", "RYE_TOOL_PATH"),
    }


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("{unset: PATH}", "env_config.unset: expected a list of names, got string"),
        ("{unset: 5}", "env_config.unset: expected a list of names, got integer"),
        ("{unset: [5]}", "env_config.unset: expected a list of names, got list"),
        (
            "{env_policy: open}",
            "env_config.env_policy: expected one of inherit, minimal, got 'open'",
        ),
    ],
)
def test_an_environment_of_the_wrong_shape_is_refused(
    workspace: Workspace, block: str, problem: str
) -> None:
    workspace.project.signed_yaml("mine/env", f"env_config: {block}\nconfig: {{script: echo}}")

    assert workspace.run("mine/env").error == problem


def test_a_missing_interpreter_is_reported_with_where_it_was_looked_for(
    workspace: Workspace,
) -> None:
    workspace.env["PATH"] = "/nowhere"
    workspace.project.sign(workspace.project.runtime("mine/r"))
    workspace.project.signed_tool("mine/t", executor="mine/r")

    result = workspace.run("mine/t")

    assert result.metadata["error_code"] == "INTERPRETER_NOT_FOUND"
    assert result.error == ("program 'python3': no such interpreter (searched: /nowhere)")


def test_the_virtual_environment_of_the_project_comes_first(workspace: Workspace) -> None:
    program = make_program(workspace.project_path / ".venv/bin/python")
    program.write_text(
        f'#!/bin/sh\nFROM=venv exec {shlex.quote(sys.executable)} "$@"\n', encoding="utf-8"
    )
    workspace.project.signed_tool(
        "mine/t", "import os\nprint(os.environ['FROM'], os.environ['PROJECT_VENV_PYTHON'])"
    )
    workspace.approve()

    result = workspace.run("mine/t")

    assert result.data["stdout"] == f"venv {program}\n"


# --- configuration


def test_a_tool_gets_the_configuration_of_three_spaces(workspace: Workspace) -> None:
    head = 'version: "1.0.0"\ncategory: mine\n'
    workspace.user.signed("config/mine/x.yaml", f"{head}a: user\nb: {{c: user, d: user}}\n")
    workspace.project.signed("config/mine/x.yaml", f"{head}b: {{c: project}}\n")
    workspace.project.signed_tool("mine/t", extra='CONFIG_RESOLVE = {"path": "mine/x.yaml"}\n')

    stdin = json.loads(workspace.command("mine/t", params={"resolved_config": "mine"}).stdin)

    assert stdin["resolved_config"] == {
        "version": "1.0.0",
        "category": "mine",
        "a": "user",
        "b": {"c": "project", "d": "user"},
    }


# --- dry runs


def test_a_dry_run_starts_no_process_and_writes_no_file(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("mine/t")
    before = everything(workspace.folder)
    runner = ScriptedProcess()

    result = workspace.rye(runner=runner).executor.execute(
        ExecutionRequest(item_id="mine/t", parameters={"a": 1}, dry_run=True, timeout_s=5)
    )

    assert result.success
    assert runner.commands == []
    assert everything(workspace.folder) == before
    assert result.metadata["command"][-3:] == [
        *(str(path), "--project-path", str(workspace.project_path))
    ]
    assert result.metadata["cwd"] == str(workspace.project_path)
    assert result.metadata["timeout_s"] == 5
    assert "RYE_PYTHON" in result.metadata["env_keys"]
    assert result.metadata["validated_pairs"] == 2


def test_a_dry_run_leaves_an_outdated_lockfile(workspace: Workspace) -> None:
    workspace.project.signed_tool("mine/t", "print(1)")
    workspace.run("mine/t")
    path = workspace.project.space.ai / "lockfiles/tools/mine/t.lock.json"
    path.write_text(path.read_text("utf-8").replace('"0.1.0"', '"0.0.9"'), encoding="utf-8")
    before = everything(workspace.folder)

    assert workspace.run("mine/t", dry_run=True).success

    assert everything(workspace.folder) == before


def test_a_dry_run_shows_no_secret_of_the_environment(workspace: Workspace) -> None:
    workspace.env |= {"API_TOKEN": "s3cret", "MY_KEY": "ab"}
    workspace.project.signed_yaml(
        "mine/t",
        "config: {command: /bin/echo, args: ['--token=${API_TOKEN}', '${MY_KEY}']}",
        executor=EXECUTE,
    )

    result = workspace.run("mine/t", dry_run=True)

    assert result.metadata["command"] == ["/bin/echo", "--token=***", "ab"]


@pytest.mark.parametrize(
    ("wish", "code"),
    [({"params": {"n": "x"}}, "VALIDATION_FAILED"), ({"cwd": "nowhere"}, "CONFIG_ERROR")],
)
def test_a_dry_run_reports_the_same_errors_as_a_run(
    workspace: Workspace, wish: dict[str, Any], code: str
) -> None:
    schema = {"properties": {"n": {"type": "integer"}}}
    workspace.project.signed_tool("mine/t", extra=f"CONFIG_SCHEMA = {schema!r}\n")

    result = workspace.run("mine/t", dry_run=True, **wish)

    assert result.metadata["error_code"] == code


# --- rules between spaces


def test_a_user_tool_cannot_use_a_project_runtime(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.runtime("mine/py"))
    workspace.user.signed_tool("hello", executor="mine/py")

    result = workspace.run("hello")

    assert result.error == "Executor not found: mine/py (needed by hello)"
    assert result.failure is not None
    assert result.failure.hint == "project space has it, but only items of that space may use it"


def test_a_project_tool_can_use_a_user_runtime(workspace: Workspace) -> None:
    workspace.user.sign(workspace.user.runtime("mine/py"))
    workspace.project.signed_tool("hello", "print(1)", executor="mine/py")

    assert workspace.run("hello").data == 1


def test_broken_rules_stop_the_run_unless_the_caller_asks_otherwise(workspace: Workspace) -> None:
    runtime = workspace.project.runtime("mine/r", extra="child_constraints: {min_version: '2.0'}")
    workspace.project.sign(runtime)
    workspace.project.signed_tool("mine/t", "print(1)", executor="mine/r", version="1.9.9")

    checked = workspace.run("mine/t")
    unchecked = workspace.run("mine/t", validate_chain=False)

    problem = "Version constraint failed: mine/t has version 1.9.9, minimum required 2.0"
    assert isinstance(checked.failure, ChainValidationError)
    assert checked.error == f"Chain validation failed: {problem}"
    assert checked.failure.details == (problem,)
    assert (checked.metadata["error_code"], len(checked.chain)) == ("CHAIN_INVALID", 3)
    assert unchecked.data == 1


def test_warnings_of_the_rules_reach_the_result(workspace: Workspace) -> None:
    runtime = workspace.project.runtime("mine/r", extra="child_constraints: {min_version: latest}")
    workspace.project.sign(runtime)
    workspace.project.signed_tool("mine/t", "print(1)", executor="mine/r")

    assert workspace.run("mine/t").metadata["warnings"] == [
        "mine/t: version constraint not checked: Invalid version: 'latest'"
    ]


# --- parameters of the caller


def test_the_callers_parameters_are_never_changed(workspace: Workspace) -> None:
    schema = {"properties": {"d": {"default": []}, "deep": {"properties": {"x": {"default": 1}}}}}
    workspace.project.signed_tool(
        "mine/t", extra=f'CONFIG_SCHEMA = {schema!r}\nCONFIG_RESOLVE = {{"path": "a/b.yaml"}}\n'
    )
    parameters: dict[str, Any] = {"deep": {}, "timeout": 5, "cwd": ".", "list": [{}]}
    before = copy.deepcopy(parameters)

    workspace.command("mine/t", params=parameters)

    assert parameters == before


# --- tools that misbehave


@posix_only
def test_a_tool_that_hangs_is_ended_with_its_output_kept(workspace: Workspace) -> None:
    result = shell(workspace, "echo begun; sleep 60", timeout_s=1)

    assert result.error == "Command timed out after 1 seconds"
    assert result.data["stdout"] == "begun\n"
    assert result.metadata["error_code"] == "TIMEOUT"


@posix_only
def test_a_tool_that_forks_and_hangs_leaves_no_process_behind(workspace: Workspace) -> None:
    lifeline = Lifeline(workspace.folder)

    result = shell(workspace, f"{lifeline.hold}; (sleep 60 & sleep 60) & wait", timeout_s=1)

    assert result.metadata["error_code"] == "TIMEOUT"
    assert lifeline.is_released()
    lifeline.close()


@posix_only
def test_a_tool_that_ends_leaves_no_process_behind_either(workspace: Workspace) -> None:
    lifeline = Lifeline(workspace.folder)

    result = shell(workspace, f"{lifeline.hold}; sleep 60 & echo done")

    assert result.data["stdout"] == "done\n"
    assert lifeline.is_released()
    lifeline.close()


@posix_only
def test_a_tool_that_floods_is_cut_and_never_read_as_json(workspace: Workspace) -> None:
    result = shell(workspace, f"head -c {64 * MIB} /dev/zero | tr '\\0' 1")

    assert result.error == (
        f"output too large: {64 * MIB} bytes on standard output, of which {54 * MIB} were left out;"
        " let the tool write a file, or raise its config.max_output_bytes"
    )
    assert result.metadata["error_code"] == "RESOURCE_EXCEEDED"
    assert result.metadata["truncated"]["stdout_bytes"] == 64 * MIB
    assert len(result.data["stdout"]) < 11 * MIB


@posix_only
def test_the_tool_sets_how_much_output_is_kept(workspace: Workspace) -> None:
    workspace.project.signed_yaml(
        "mine/t", "config: {script: \"printf '%s' '[1, 2, 3]'\", max_output_bytes: 4}"
    )

    result = workspace.run("mine/t")

    assert result.error == (
        "output too large: 9 bytes on standard output, of which 5 were left out;"
        " let the tool write a file, or raise its config.max_output_bytes"
    )


@posix_only
@pytest.mark.parametrize(
    ("command", "error", "return_code"),
    [
        ("exit 42", "Process exited with code 42", 42),
        ("echo why >&2; exit 1", "why", 1),
        ("kill -TERM $$", "terminated by signal SIGTERM", -1),
        ("kill -KILL $$", "terminated by signal SIGKILL", -1),
    ],
)
def test_a_failed_tool_gives_a_result(
    workspace: Workspace, command: str, error: str, return_code: int
) -> None:
    result = shell(workspace, command)

    assert (result.success, result.error, result.failure) == (False, error, None)
    assert result.metadata["return_code"] == return_code


@posix_only
def test_large_input_and_output_are_transferred_simultaneously(workspace: Workspace) -> None:
    workspace.project.signed_tool(
        "mine/echo",
        """
        import sys
        while chunk := sys.stdin.read(65536):
            sys.stdout.write(chunk)
        """,
    )
    text = "x" * (5 * MIB)

    result = workspace.run("mine/echo", params={"text": text})

    assert result.error is None
    assert result.data["text"] == text


def test_parameters_of_ten_mebibytes_arrive_on_standard_input(workspace: Workspace) -> None:
    workspace.project.signed_tool(
        "mine/size", "import json, sys; print(len(json.load(sys.stdin)['text']))"
    )

    assert workspace.run("mine/size", params={"text": "ü" * 5 * MIB}).data == 5 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="the limit of Linux")
def test_parameters_that_do_not_fit_on_a_command_line_are_refused(workspace: Workspace) -> None:
    result = shell(workspace, "#" + "x" * 10 * MIB)

    assert result.failure is not None
    assert result.failure.code == "CONFIG_ERROR"
    assert str(result.failure).startswith(
        "config.args: expected parameters of at most 102400 bytes"
    )
    assert result.failure.hint == "let the tool read a file whose path is a parameter"


@posix_only
def test_a_run_can_be_cancelled(workspace: Workspace) -> None:
    cancellation = Cancellation()
    seen: list[bytes] = []

    def on_stderr(chunk: bytes) -> None:
        seen.append(chunk)
        cancellation.cancel()

    request = ExecutionRequest(
        item_id="rye/bash/bash", parameters={"command": "echo ready >&2; sleep 60"}
    )
    result = workspace.rye().executor.execute(
        request, cancellation=cancellation, on_stderr=on_stderr
    )

    assert b"".join(seen) == b"ready\n"
    assert (result.error, result.metadata["error_code"]) == ("Command was cancelled", "CANCELLED")


# --- simultaneous calls


def test_fifty_threads_share_one_object(workspace: Workspace) -> None:
    workspace.project.signed_yaml(
        "mine/t", 'config: {script: \'printf "%s" "[{n}, \\"${RYE_TOOL_ID}\\"]"\'}'
    )
    rye = workspace.rye()
    results: dict[int, ExecutionResult] = {}
    barrier = threading.Barrier(50)

    def run(number: int) -> None:
        barrier.wait()
        results[number] = rye.executor.execute(
            ExecutionRequest(item_id="mine/t", parameters={"n": number}, trace=True)
        )

    threads = [threading.Thread(target=run, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {n: (r.error, r.data) for n, r in results.items()} == {
        n: (None, [n, "mine/t"]) for n in range(50)
    }
    assert all(len(result.chain) == 3 for result in results.values())


# --- equal results in every process


@pytest.mark.parametrize("seed", ["0", "1", "2", "3", "random"])
def test_of_two_files_with_one_id_every_process_takes_the_same(
    workspace: Workspace, seed: str
) -> None:
    workspace.project.signed_tool("mine/a", "print('python')")
    for suffix in ("yaml", "sh", "md", "toml"):
        workspace.project.write(f"tools/mine/a.{suffix}", "unsigned, and never looked at")
    code = f"""
from pathlib import Path
from ryeos.app.workspace import Rye
from ryeos.items.context import context_from
from ryeos.run.model import ExecutionRequest
from ryeos.items.refs import Space
project = {str(workspace.project_path)!r}
bundle = Space("system:ryeos", Path({str(workspace.bundles[0].base)!r}), "0.1.0",
               {workspace.bundles[0].pinned_pem!r})
context = context_from({workspace.env!r}, cwd=Path(project), project=project, bundles=(bundle,))
result = Rye(context).executor.execute(ExecutionRequest(item_id="mine/a", use_lockfile=False))
print(result.error, result.data["stdout"].strip(), result.metadata["warnings"])
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )

    twins = "a.yaml, a.sh, a.toml"
    assert (done.stdout, done.stderr) == (
        f"None python ['tool:mine/a: a.py wins over {twins} beside it']\n",
        "",
    )


# --- arbitrary headers


HEADERS = [
    *("config: {args: 5, command: x}", "config: {command: [x]}", "config: {command: 5}"),
    *("config: {cwd: 5, script: x}", "config: {cwd: [a], script: x}", "config: {shell: 5}"),
    *("config: {timeout: soon, script: x}", "config: {timeout: .nan, script: x}"),
    *("config: {input_data: {a: 1}, script: x}", "config: {script_from: 5}"),
    *("config: {script_from: [5, script], script: x}", "config: {fixed_params: [1], script: x}"),
    *("config: {params_key: 5, script: x}", "config: {max_output_bytes: -5, script: x}"),
    *("env_config: {env: 5}", "env_config: {env: {A: [1]}}", "env_config: {env: {5: a}}"),
    *("env_config: {interpreter: 5}", "env_config: {interpreter: {type: x, var: 5}}"),
    *("env_config: {interpreter: {type: command, var: A, resolve_cmd: x}}", "env_config: {5: {}}"),
    *("anchor: {enabled: true, mode: 5}", "anchor: {enabled: true, markers_any: [5, {a: 1}]}"),
    *("anchor: {enabled: true, mode: always, env_paths: {5: {prepend: [5]}}}",),
    *("anchor: {enabled: true, mode: always, env_paths: {'=': {prepend: ['{tool_dir}']}}}",),
    *("anchor: {enabled: true, mode: always, cwd: 'a\\0b'}", "anchor: {lib: [x]}"),
    *("anchor: {enabled: true, mode: always, env: {'A=B': x}}", "anchor: {lib: 'a\\0b'}"),
    *("anchor: {enabled: true, mode: always}\nverify_deps: {enabled: true, extensions: 5}",),
    *("anchor: {enabled: true, mode: always}\nverify_deps: {enabled: true, scope: galaxy}",),
    *("anchor: {enabled: true, mode: always}\nverify_deps: {enabled: true, scope: [1]}",),
    *("config_resolve: 5", "config_resolve: {path: 5}", "config_resolve: {path: ../x}"),
    *("config_resolve: {path: a, mode: 5}", "config_resolve: [5, {path: [1]}]"),
    *("config_schema: {type: 5}", "config_schema: {properties: 5}", "parameters: [5]"),
    *("config_schema: {$ref: '#/nowhere'}", "config_schema: {required: [5]}"),
    *("child_constraints: {a: 5}", "inputs: [5]", "outputs: {a: 1}", "variants: [{}]"),
    *("execution_params: 5", "version: 'a\\0b'", "version: ''", "version: ' '"),
]


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_of_any_shape_gives_a_result(workspace: Workspace, header: str) -> None:
    path = workspace.project.write(
        "tools/odd.yaml",
        f"tool_type: bash\nexecutor_id: rye/core/runtimes/bash/bash\n{header}\n",
    )
    workspace.project.sign_unchecked(path)

    result = workspace.run("odd", params={"command": "echo ran"})

    assert result.success or result.error
    assert result.failure is None or isinstance(result.failure, LilluxError)


def test_a_runtime_of_any_shape_gives_a_result(workspace: Workspace) -> None:
    for number, header in enumerate(HEADERS):
        path = workspace.project.write(
            f"tools/r{number}.yaml", f"tool_type: runtime\nexecutor_id: {EXECUTE}\n{header}\n"
        )
        workspace.project.sign_unchecked(path)
        workspace.project.signed_tool(f"t{number}", executor=f"r{number}")

    results = [workspace.run(f"t{number}") for number in range(len(HEADERS))]

    assert all(result.error for result in results if not result.success)


def test_an_execution_file_of_any_shape_gives_a_result(workspace: Workspace) -> None:
    space: SpaceFolder = workspace.project
    results = []
    texts = ("- a\n", "tools: 5\n", "defaults: [1]\n", "tools: {rye/bash/bash: 5}\n", "a: [\n")
    for text in (*texts, "defaults: {timeout: 60}\n".encode("utf-16"), b"\0\xff"):
        space.write("config/execution/execution.yaml", text)
        results.append(shell(workspace, "true"))

    assert all(one.error or one.metadata["warnings"] for one in results)
