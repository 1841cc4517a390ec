"""Shims of version managers: a program that starts what files of its folder name."""

import sys
from pathlib import Path

import pytest

from tests.support.workspace import Workspace

# As asdf's: it looks for `.tool-versions` in its folder and those above; `path:DIR` is one form.
SHIM = """#!/bin/bash
d=$PWD
while :; do
  v=$(sed -n 's/^python //p' "$d/.tool-versions" 2>/dev/null)
  [ -n "$v" ] && break
  [ -z "$d" ] && break
  d=${{d%/*}}
done
case "$v" in
  path:*) exec "${{v#path:}}/bin/python3" "$@" ;;
  *) exec {installed} "$@" ;;
esac
"""
TOOL = "print('honest')\n"
FUNCTION = "def execute(params, project_path):\n    return 'honest'\n"

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shims there are other programs")


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)


@pytest.fixture
def managed(workspace: Workspace) -> Workspace:
    """A user whose ``python3`` is a shim, in a project where an agent wrote a version file."""
    root, project = workspace.home / ".asdf", workspace.project_path
    installed = root / "installs" / "python" / "3.11.9" / "bin" / "python3"
    installed.parent.mkdir(parents=True)
    installed.symlink_to(sys.executable)
    for name in ("python3", "python"):
        program(root / "shims" / name, SHIM.format(installed=installed))
    (workspace.home / ".tool-versions").write_text("python 3.11.9\n", "utf-8")
    workspace.env["PATH"] = f"{root / 'shims'}:{workspace.env['PATH']}"
    mark = workspace.folder / "ran"
    program(project / "v/bin/python3", f'#!/bin/sh\ntouch {mark}\nexec {sys.executable} "$@"\n')
    (project / ".tool-versions").write_text(f"python path:{project / 'v'}\n", "utf-8")
    return workspace


@pytest.mark.parametrize("confines", [False, True], ids=["by a person", "by an agent"])
@pytest.mark.parametrize("where", ["user", "project"])
@pytest.mark.parametrize(
    ("executor", "body"),
    [("rye/core/runtimes/python/script", TOOL), ("rye/core/runtimes/python/function", FUNCTION)],
    ids=["script", "function"],
)
def test_a_version_file_of_a_project_chooses_no_program_of_it(
    managed: Workspace, where: str, executor: str, body: str, *, confines: bool
) -> None:
    getattr(managed, where).signed_tool("mine/tool", body, executor=executor)

    answer = managed.rye(confines=confines).execute("tool:mine/tool", {})

    assert "honest" in str(answer["data"]), answer
    assert not (managed.folder / "ran").exists()
