"""Files that change between their verification and their use."""

import contextlib
import json
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lillux.cancellation import Cancellation
from lillux.process import ProcessManager
from lillux.process.model import Command, Outcome
from ryeos.items.refs import Space
from ryeos.run.function_worker import Function
from ryeos.run.functions import FunctionHost
from ryeos.run.model import ExecutionRequest, Invocation
from tests.support.node_tools import node_source
from tests.support.programs import require_program
from tests.support.workspace import BUNDLE_SOURCE, Workspace

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the attacker is a shell script")


def racing_runtime(workspace: Workspace, attack: str) -> None:
    """A runtime ``mine/r`` whose interpreter is found by a program that attacks meanwhile.

    Environments are resolved after everything has been verified, so this is the attacker's window.
    """
    program = workspace.folder / "find-interpreter"
    program.write_text(f"#!/bin/sh\n{attack}\necho {sys.executable}\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    workspace.project.signed(
        "tools/mine/r.yaml",
        f"""version: "1.0.0"
tool_type: runtime
executor_id: rye/core/primitives/execute
category: mine
description: racing
env_config:
  interpreter: {{type: command, resolve_cmd: [{str(program)!r}], var: MY_PYTHON}}
anchor:
  enabled: true
  markers_any: [__init__.py]
  env_paths: {{PYTHONPATH: {{prepend: ["{{anchor_path}}"]}}}}
verify_deps: {{enabled: true, extensions: [".py"]}}
config: {{command: "${{MY_PYTHON}}", args: ["{{tool_path}}"]}}
""",
    )


@pytest.fixture
def tool(workspace: Workspace) -> Path:
    return workspace.project.signed_tool("pack/t", "print('good')", executor="mine/r")


def test_without_an_attack_the_tool_runs(workspace: Workspace, tool: Path) -> None:
    racing_runtime(workspace, "true")

    assert workspace.run("pack/t").data["stdout"] == "good\n"
    assert tool.is_file()


@pytest.mark.parametrize(
    "attack",
    [
        "printf 'print(\"evil\")' > {path}",
        "printf 'print(\"evil\")' > {path}.new; mv {path}.new {path}",
        "printf '#' >> {path}",
        "rm {path}",
        "rm {path}; mkdir {path}",
        "rm {path}; mkfifo {path}",
        "rm {path}; ln -s /dev/zero {path}",
    ],
)
def test_of_a_tool_that_is_replaced_meanwhile_the_verified_bytes_run(
    workspace: Workspace, tool: Path, attack: str
) -> None:
    racing_runtime(workspace, attack.format(path=tool))

    assert workspace.run("pack/t").data["stdout"] == "good\n"
    assert list((workspace.home / ".ai/state/held").iterdir()) == []


def test_of_a_module_that_is_replaced_meanwhile_the_verified_bytes_run(
    workspace: Workspace,
) -> None:
    workspace.project.signed("tools/pack/__init__.py", "")
    helper = workspace.project.signed("tools/pack/helper.py", "X = 'good'\n")
    workspace.project.signed_tool("pack/t", "import helper\nprint(helper.X)", executor="mine/r")
    racing_runtime(workspace, f"echo 'X = \"evil\"' > {helper}")

    assert workspace.run("pack/t").data["stdout"] == "good\n"
    assert "evil" in helper.read_text("utf-8")


def test_a_module_that_comes_meanwhile_is_not_there_for_the_tool(workspace: Workspace) -> None:
    marker = workspace.project.signed("tools/pack/__init__.py", "")
    workspace.project.signed_tool("pack/t", "import json\nprint(json.__file__)", executor="mine/r")
    racing_runtime(workspace, f"echo 'print(666)' > {marker.parent}/json.py")

    assert workspace.run("pack/t").data["stdout"] == f"{json.__file__}\n"


def test_a_runtime_that_is_replaced_meanwhile_has_been_read_already(
    workspace: Workspace, tool: Path
) -> None:
    racing_runtime(workspace, "true")
    runtime = workspace.project.space.ai / "tools/mine/r.yaml"
    racing_runtime(workspace, f"sed -i 's/args:.*/args: [-c, print(666)]}}/' {runtime}")

    assert workspace.run("pack/t").data["stdout"] == "good\n"
    assert "666" in runtime.read_text("utf-8")
    assert tool.is_file()


class Attacker:
    """The real process manager, with something done right before each start."""

    def __init__(self, attack: Callable[[], object]) -> None:
        self._attack = attack

    def run(
        self,
        command: Command,
        *,
        cancellation: Cancellation | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> Outcome:
        self._attack()
        return ProcessManager().run(command, cancellation=cancellation, on_stderr=on_stderr)


class AttackedFunctions(FunctionHost):
    """Real warm workers, with something done right before each call of a function."""

    def __init__(self, attack: Callable[[], object]) -> None:
        super().__init__()
        self._attack = attack

    def call(self, function: Function, invocation: Invocation, **options: Any) -> Outcome | None:  # noqa: ANN401
        self._attack()
        return super().call(function, invocation, **options)


def attacked(workspace: Workspace, item_id: str, attack: Callable[[], object]) -> Any:  # noqa: ANN401
    """The data of a run that is attacked between its verification and its start."""
    rye = workspace.rye(runner=Attacker(attack))
    result = rye.executor.execute(ExecutionRequest(item_id=item_id))
    assert result.error is None
    return result.data


def attacked_warm(workspace: Workspace, item_id: str, attack: Callable[[], object]) -> Any:  # noqa: ANN401
    """The same for a call in a warm worker."""
    with contextlib.closing(AttackedFunctions(attack)) as functions:
        rye = workspace.rye(functions=functions)
        result = rye.executor.execute(ExecutionRequest(item_id=item_id))
        assert result.error is None
        return result.data


FUNCTION, SCRIPT = "rye/core/runtimes/python/function", "rye/core/runtimes/python/script"
IMPORTING = """
import helper, json
def execute(params, project_path): return {"is": helper.X, "json": json.__file__}
if __name__ == "__main__": print(json.dumps(execute({}, "")))
"""
Run = Callable[[Workspace, str, Callable[[], object]], Any]
EACH_WAY = pytest.mark.parametrize(
    ("executor", "run"), [(SCRIPT, attacked), (FUNCTION, attacked), (FUNCTION, attacked_warm)]
)


@EACH_WAY
def test_python_runs_the_verified_bytes_of_a_tool_and_of_a_module_beside_it(
    workspace: Workspace, executor: str, run: Run
) -> None:
    helper = workspace.project.signed("tools/pack/helper.py", "X = 'good'\n")
    tool = workspace.project.signed_tool("pack/t", IMPORTING, executor=executor)

    def swap() -> None:
        helper.write_text("X = 'evil'\n", encoding="utf-8")
        tool.write_text("print('evil')\n", encoding="utf-8")

    assert run(workspace, "pack/t", swap) == {"is": "good", "json": json.__file__}


@EACH_WAY
@pytest.mark.parametrize(
    "name", ["json.py", "sitecustomize.py", "encodings/__init__.py", "helper/__init__.py", "os.py"]
)
def test_python_imports_nothing_that_comes_beside_a_tool_after_the_verification(
    workspace: Workspace, executor: str, run: Run, name: str
) -> None:
    helper = workspace.project.signed("tools/pack/helper.py", "X = 'good'\n")
    workspace.project.signed_tool("pack/t", IMPORTING, executor=executor)
    canary = workspace.folder / "canary"
    planted = helper.parent / name

    def plant() -> None:
        planted.parent.mkdir(exist_ok=True)
        planted.write_text(f"open({str(canary)!r}, 'w'); X = 'evil'\n", encoding="utf-8")

    assert run(workspace, "pack/t", plant) == {"is": "good", "json": json.__file__}
    assert not canary.exists()


@EACH_WAY
def test_python_keeps_to_the_verified_bytes_of_a_module_that_is_gone(
    workspace: Workspace, executor: str, run: Run
) -> None:
    helper = workspace.project.signed("tools/pack/helper.py", "X = 'good'\n")
    workspace.project.signed_tool("pack/t", IMPORTING, executor=executor)

    assert run(workspace, "pack/t", helper.unlink)["is"] == "good"


@EACH_WAY
def test_python_runs_the_verified_bytes_of_a_module_in_the_library_of_its_runtime(
    workspace: Workspace, executor: str, run: Run
) -> None:
    runtime = BUNDLE_SOURCE / f"tools/{executor}.yaml"
    copied = workspace.project.signed(f"tools/{executor}.yaml", runtime.read_bytes())
    folder = f"tools/{Path(executor).parent}/lib/{'python' if executor == SCRIPT else 'function'}"
    shared = workspace.project.signed(f"{folder}/helper.py", "X = 'good'\n")
    workspace.project.signed("tools/pack/__init__.py", "")
    workspace.project.signed_tool("pack/t", IMPORTING, executor=executor)
    assert copied.is_file()

    def swap() -> None:
        shared.write_text("X = 'evil'\n", encoding="utf-8")

    assert run(workspace, "pack/t", swap)["is"] == "good"


@EACH_WAY
def test_python_starts_with_the_bytes_of_the_bundle_that_were_verified(
    workspace: Workspace, executor: str, run: Run
) -> None:
    copy = workspace.folder / "bundle"
    original = workspace.bundles[0]
    shutil.copytree(original.base, copy)
    workspace.bundles = (Space(original.label, copy, original.version, original.pinned_pem),)
    workspace.project.signed("tools/pack/helper.py", "X = 'good'\n")
    workspace.project.signed_tool("pack/t", IMPORTING, executor=executor)
    folder = (copy / ".ai/tools" / executor).parent

    def swap() -> None:
        for name in ("start.py", "function_host.py"):
            (folder / name).write_text("print('evil')\n", encoding="utf-8")
        for name in ("json.py", "rye_start.py", "marshal.py"):
            (folder / name).write_text("raise SystemExit('evil')\n", encoding="utf-8")

    assert run(workspace, "pack/t", swap)["is"] == "good"


@pytest.mark.parametrize("suffix", [".cjs", ".mjs", ".js"])
def test_node_runs_the_verified_bytes_of_a_tool_its_modules_and_what_decides_about_them(
    workspace: Workspace, suffix: str
) -> None:
    require_program("node")
    is_module = suffix == ".mjs"
    load = "import X from './helper.mjs';" if is_module else "const X = require('./helper.cjs');"
    helper = workspace.project.signed(
        f"tools/pack/helper{'.mjs' if is_module else '.cjs'}",
        "export default 'good';" if is_module else "module.exports = 'good';",
    )
    package = workspace.project.write("tools/pack/package.json", "{}")
    source = node_source("pack/t", f"{load}\nconsole.log(JSON.stringify({{is: X}}));")
    tool = workspace.project.signed(f"tools/pack/t{suffix}", source)
    runtime = workspace.bundles[0].ai / "tools/rye/core/runtimes/node/lib/node/start.cjs"
    assert runtime.is_file()

    def swap() -> None:
        helper.write_text(helper.read_text("utf-8").replace("good", "evil"), encoding="utf-8")
        tool.write_text("console.log('evil')", encoding="utf-8")
        package.write_text('{"type": "module", "imports": {"#x": "./evil.cjs"}}', encoding="utf-8")

    assert attacked(workspace, "pack/t", swap) == {"is": "good"}


def test_node_starts_with_the_bytes_of_the_bundle_that_were_verified(workspace: Workspace) -> None:
    require_program("node")
    copy = workspace.folder / "bundle"
    original = workspace.bundles[0]
    shutil.copytree(original.base, copy)
    workspace.bundles = (Space(original.label, copy, original.version, original.pinned_pem),)
    source = node_source("mine/t", "export function execute() { return { is: 'good' }; }")
    workspace.project.signed("tools/mine/t.mjs", source)
    library = copy / ".ai/tools/rye/core/runtimes/node/lib/node"

    def swap() -> None:
        for path in library.iterdir():
            path.write_text("console.log('evil')\n", encoding="utf-8")

    assert attacked(workspace, "mine/t", swap) == {"is": "good"}


def test_a_shell_runs_the_verified_bytes_of_a_tool(workspace: Workspace) -> None:
    text = (
        "#!/bin/bash\n# version: 1.0.0\n# tool_type: bash"
        "\n# executor_id: rye/core/runtimes/bash/bash"
        "\n# category: mine\n# description: t\necho good\n"
    )
    tool = workspace.project.signed("tools/mine/t.sh", text)

    def swap() -> None:
        tool.write_text("echo evil\n", encoding="utf-8")

    assert attacked(workspace, "mine/t", swap)["stdout"] == "good\n"


def test_the_verified_bytes_are_the_ones_that_run(workspace: Workspace) -> None:
    other = workspace.project.signed_tool("mine/t", "print('signed, but another')").read_bytes()
    path = workspace.project.signed_tool("mine/t", "print('good')")

    def swap() -> None:
        path.write_bytes(other)

    assert attacked(workspace, "mine/t", swap)["stdout"] == "good\n"


def test_a_cached_chain_is_no_way_around_the_check(workspace: Workspace, tool: Path) -> None:
    racing_runtime(workspace, "true")
    rye = workspace.warm
    assert rye.executor.execute(ExecutionRequest(item_id="pack/t")).success

    tool.write_text("print('evil')\n", encoding="utf-8")
    result = rye.executor.execute(ExecutionRequest(item_id="pack/t"))

    assert result.metadata["error_code"] == "UNSIGNED"
