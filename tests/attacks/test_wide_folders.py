"""A tool that may write a wide folder, started by a person: no program and no right lies in it."""

import os

import pytest

from lillux.landlock import landlock_version
from lillux.seccomp import can_filter
from lillux.supervisor import can_supervise
from tests.support.workspace import Workspace

pytestmark = pytest.mark.skipif(
    not (landlock_version() and can_filter() and can_supervise()),
    reason="what is kept in a folder is held by Landlock and seccomp",
)
TOOL = "mine/wide"
PLACES = {
    "program": ".local/bin/git",
    "policy": ".ai/config/sandbox/policy.yaml",
    "cache": ".cache/rye/x",
    "file": ".local/share/notes",
}


@pytest.fixture
def home(workspace: Workspace) -> Workspace:
    for place in PLACES.values():
        path = workspace.home / place
        path.parent.mkdir(parents=True, exist_ok=True)
    workspace.env["PATH"] = f"{workspace.home}/.local/bin:{os.environ['PATH']}"
    return workspace


def written(workspace: Workspace, *entries: str) -> set[str]:
    """What a tool wrote whose block allows these entries."""
    body = f"""import os, pathlib
for place in {list(PLACES.values())!r}:
    try:
        pathlib.Path(os.environ["HOME"], place).write_text("mine")
    except OSError:
        pass
print("{{}}")
"""
    block = {"write": [*entries], **dict.fromkeys(("read", "network", "programs", "env"), "any")}
    path = workspace.project.tool(TOOL, f"SANDBOX = {block!r}\n{body}")
    workspace.project.sign(path)
    result = workspace.run(TOOL)
    assert result.success, result
    return {name for name, place in PLACES.items() if (workspace.home / place).exists()}


@pytest.mark.parametrize("entry", ["~", "/"])
def test_a_wide_folder_holds_neither_programs_nor_user_space(home: Workspace, entry: str) -> None:
    assert written(home, entry) == {"file"}


def test_a_folder_above_programs_does_not_hold_them(home: Workspace) -> None:
    assert written(home, "~/.local") == {"file"}


@pytest.mark.parametrize("entry", ["~/.cache", "~/.cache/rye", "~/.cache/rye/x"])
def test_no_entry_gives_a_cache_of_rye(home: Workspace, entry: str) -> None:
    assert written(home, entry) == set()


def test_a_program_that_is_named_opens_no_folder_for_a_wide_entry(home: Workspace) -> None:
    assert written(home, "~", "~/.local/bin/other") == {"file"}


def test_a_folder_of_programs_that_the_block_names_was_read_and_signed(home: Workspace) -> None:
    assert written(home, "~/.local/bin") == {"program"}
