"""A node whose ``python3`` is a shim, as pyenv makes them: a script that starts another program."""

import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node import Node, running_node
from tests.support.remote_projects import FUNCTION, RemoteProject
from tests.support.workspace import PLAIN_ENV, Workspace

WHICH = """
import sys

def execute(params, project_path):
    return sys.prefix
"""
SCRIPT = """
import json, sys

print(json.dumps(sys.prefix))
"""
HELD = 'SANDBOX = {"read": ["{project}"], "write": [], "network": "none", "programs": "none"}\n'
SHIM = """#!/usr/bin/env bash
set -e
program="${{0##*/}}"
export PYENV_ROOT="{root}"
exec "{root}/libexec/pyenv" exec "$program" "$@"
"""
PYENV = """#!/usr/bin/env bash
set -e
shift; program="$1"; shift
folder="$PWD"; version="$PYENV_VERSION"
while [ -z "$version" ] && [ -n "$folder" ]; do
  if [ -f "$folder/.python-version" ]; then version="$(cat "$folder/.python-version")"; fi
  folder="${folder%/*}"
done
[ -n "$version" ] || version="$(cat "$PYENV_ROOT/version")"
exec "$PYENV_ROOT/versions/$version/bin/$program" "$@"
"""


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


@pytest.fixture(scope="module")
def pyenv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pyenv with two versions, of which ``one`` is the global one."""
    root = tmp_path_factory.mktemp("home") / ".pyenv"
    for version in ("one", "two"):
        venv.create(root / "versions" / version, symlinks=True, with_pip=False)
    executable(root / "libexec" / "pyenv", PYENV)
    for name in ("python", "python3"):
        executable(root / "shims" / name, SHIM.format(root=root))
    root.joinpath("version").write_text("one\n", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def shim_node(pyenv: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that finds the shims first."""
    path = f"{pyenv / 'shims'}:{PLAIN_ENV['PATH']}"
    folder = tmp_path_factory.mktemp("shims") / "node"
    with running_node(folder, environ={"PATH": path}) as node:
        yield node


@pytest.mark.skipif(sys.platform != "linux", reason="the confinement of Linux")
@pytest.mark.parametrize("version", ["one", "two"])
def test_tools_run_under_the_version_that_the_shim_names(
    workspace: Workspace, shim_node: Node, pyenv: Path, version: str
) -> None:
    workspace.project.signed_tool("mine/function", WHICH, executor=FUNCTION)
    workspace.project.signed_tool("mine/script", SCRIPT)
    workspace.project.signed_tool("mine/held", WHICH, executor=FUNCTION, extra=HELD)
    workspace.project.signed_yaml(
        "mine/shell", 'config: {command: "python3 -c \\"import sys; print(sys.prefix)\\""}\n'
    )
    project = RemoteProject(workspace, shim_node.user())
    if version != "one":
        workspace.project_path.joinpath(".python-version").write_text(
            f"{version}\n", encoding="utf-8"
        )
        project.write(".ai/config/cas/manifest.yaml", "sync: {include: ['.python-version']}\n")
    project.pushed()

    items = ("mine/function", "mine/script", "mine/held", "mine/shell")
    found = {item: project.execute(f"tool:{item}")["result"]["data"] for item in items}

    prefix = str(pyenv / "versions" / version)
    assert found["mine/function"] == found["mine/script"] == found["mine/held"] == prefix
    assert found["mine/shell"]["stdout"] == f"{prefix}\n"
