"""Nodes that answer with a manifest whose files would decide what the client's machine runs."""

import json
from pathlib import Path

import pytest

from lillux.values import replace
from ryeos.items.errors import RyeError
from ryeos.remote.difference import compare
from ryeos.remote.pull import pull
from ryeos.remote.push import push
from ryeos.remote.run import RemoteRun, execute
from ryeos.remote.run_outputs import why_refused
from ryeos.sync.admission import InadmissibleError, problem_of, require_admissible
from ryeos.sync.objects import ItemSource, SourceManifest
from ryeos.sync.rules import rules_of
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree import build_project_tree
from tests.support.errors import coded
from tests.support.memory_node import MemoryNode
from tests.support.remote_project import RemoteProject

PROGRAM = b"#!/bin/sh\ntouch canary\n"
FILES = [
    ".venv/bin/python",
    "sub/.venv/bin/python",
    ".VENV/bin/python",
    "venv/bin/python",
    ".virtualenv/bin/python",
    "VENV~1/bin/python",
    ".env",
    ".ENV",
    "sub/.env.local",
    ".envrc",
    "sub/.git/hooks/post-checkout",
    "sub/.git",
    "sub/GIT~1/hooks/post-checkout",
    "node_modules/.bin/tsx",
    "Node_Modules/.bin/tsx",
    "packages/a/node_modules/.bin/tsx",
    "NODE_M~1/.bin/tsx",
    "src/__pycache__/a.cpython-311.pyc",
    "a.secrets",
    "deep/private_key.pem",
    "deep/BOX_KEY.PEM",
    ".ai/config/keys/signing/box_key.pem",
    ".ai/secrets/store.enc",
    ".ai/node/pins/x",
    ".ai/bundles/x/.ai/tools/a.py",
    ".ai/objects/blobs/x",
    ".ai/tools/a.py",
    ".AI/tools/a.py",
    "AI~1/tools/a.py",
]
ITEMS = [
    ".ai/config/keys/signing/private_key.pem",
    ".ai/config/keys/signing/spare",
    ".ai/config/keys/receipts/private_key.pem",
    ".ai/config/Keys/Signing/public_key.pem",
    ".ai/config/remotes/pins/default.json",
    ".ai/secrets/store.enc",
    ".ai/node/pins/x",
    ".ai/Tools/a.py",
    ".ai/tools",
    ".ai/tools/a/.git/hooks/post-checkout",
    ".ai/tools/a/.venv/bin/python",
    ".ai/tools/a/node_modules/.bin/tsx",
    ".ai/tools/a/.env",
    "src/a.py",
]


@pytest.fixture
def node(tmp_path: Path) -> MemoryNode:
    """A node that is honest so far."""
    return MemoryNode(tmp_path / "node")


@pytest.fixture
def project(tmp_path: Path, node: MemoryNode) -> RemoteProject:
    """A project that was pushed there."""
    project = RemoteProject(tmp_path / "here", node)
    project.write({"src/a.txt": "a\n"})
    push(project.link)
    return project


def plant(node: MemoryNode, path: str, *, is_item: bool) -> None:
    """Have the head hold one more file."""
    blob = node.store.put_blob(PROGRAM)
    manifest = node._manifest(node.files())
    if is_item:
        digest = node.store.put_object(ItemSource("tool:a", blob).as_object())
        manifest = SourceManifest("project", {**manifest.items, path: digest}, manifest.files)
    else:
        manifest = SourceManifest("project", manifest.items, {**manifest.files, path: blob})
    node._advance("project", manifest, "push")


@pytest.mark.parametrize("path", FILES)
def test_no_pull_writes_a_file(project: RemoteProject, node: MemoryNode, path: str) -> None:
    plant(node, path, is_item=False)
    before = project.files()

    with pytest.raises(InadmissibleError) as caught:
        pull(project.link)

    assert [one.path for one in caught.value.refused] == [path]
    assert project.files() == before


@pytest.mark.parametrize("path", ITEMS)
def test_no_pull_writes_an_item(project: RemoteProject, node: MemoryNode, path: str) -> None:
    plant(node, path, is_item=True)
    before = project.files()

    with pytest.raises(InadmissibleError):
        pull(project.link)

    assert project.files() == before


def test_no_first_pull_writes_a_refused_name(
    tmp_path: Path, project: RemoteProject, node: MemoryNode
) -> None:
    assert project.read("src/a.txt")
    plant(node, ".venv/bin/python", is_item=False)
    other = RemoteProject(tmp_path / "there", node)

    with pytest.raises(InadmissibleError):
        pull(other.link)

    assert not (other.root / ".venv").exists()


def test_neither_a_push_nor_a_comparison_accepts_a_refused_name(
    project: RemoteProject, node: MemoryNode
) -> None:
    plant(node, ".envrc", is_item=False)

    for command in (push, compare):
        with pytest.raises(InadmissibleError):
            command(project.link)

    assert not (project.root / ".envrc").exists()


def test_after_an_execution_a_refused_name_is_a_warning_and_nothing_is_written(
    project: RemoteProject, node: MemoryNode
) -> None:
    def run(_: object, __: object, files: dict[str, bytes]) -> dict[str, str]:
        files[".venv/bin/python"] = PROGRAM
        return {"status": "success"}

    node.run = run

    ran = execute(project.link, RemoteRun(item_ref="tool:a"))

    assert ran.applied == ()
    assert ".venv" in ran.warnings[0]
    assert not (project.root / ".venv").exists()


@pytest.mark.parametrize("path", ["private/a.txt", "Private/a.txt", "a.key", "local.txt"])
def test_files_that_the_local_rules_exclude_are_not_written(
    project: RemoteProject, node: MemoryNode, path: str
) -> None:
    rules = (
        "sync: {include: ['src/', '*.txt'], exclude: ['private/', '*.key']}\n"
        "manifest: {hard_exclude: {names: [local.txt]}}\n"
    )
    project.write({".ai/config/cas/manifest.yaml": rules})
    push(project.link)
    node.edit({path: b"x", ".ai/config/cas/manifest.yaml": b"sync: {include: ['*']}\n"})

    with pytest.raises(InadmissibleError, match="rules of this project"):
        pull(project.link)

    assert not (project.root / path).exists()
    assert project.read(".ai/config/cas/manifest.yaml") == rules


def test_a_rule_that_came_after_a_push_does_not_stop_a_pull(
    project: RemoteProject, node: MemoryNode
) -> None:
    project.write({"src/gen/a.txt": "a\n"})
    push(project.link)
    project.write({".ai/config/cas/manifest.yaml": "sync: {include: [src/], exclude: [src/gen/]}"})
    node.edit({"src/b.txt": b"b\n"})

    pull(project.link)

    assert project.read("src/b.txt") == "b\n"
    assert project.read("src/gen/a.txt") == "a\n"


@pytest.mark.parametrize("path", [*FILES, *ITEMS])
def test_refused_files_are_not_sent(tmp_path: Path, path: str) -> None:
    target = tmp_path / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(PROGRAM)
    rules = rules_of([("test", {"sync": {"include": ["*"]}})])

    tree = build_project_tree(tmp_path, rules, StatTable())

    require_admissible(tree.manifest)


@pytest.mark.parametrize(
    "path",
    [
        "src/venv/module.py",
        "src/env.py",
        ".github/workflows/ci.yml",
        ".gitignore",
        "bin/x",
        "aid/x",
        ".airc",
    ],
)
def test_files_of_an_honest_project_are_pushed_and_pulled(path: str) -> None:
    assert problem_of(path, is_item=False) == ""


@pytest.mark.parametrize(
    "path",
    [
        ".ai/state/users/runners.key",
        ".ai/state/a.key",
        ".ai/state/a.KEY",
        ".ai/state/approvals/x.json",
        ".ai/state/Remote/default/head.json",
        ".ai/state/Objects/blobs/x",
        ".ai/state/OBJECT~1/blobs/x",
        ".ai/state/threads/x.lock",
        ".ai/state/repository/.git/hooks/post-checkout",
        ".ai/knowledge/state/.env",
    ],
)
def test_no_refused_output_is_written(path: str) -> None:
    assert why_refused(path)


ORDERS = [
    ".mcp.json",
    ".claude/settings.json",
    ".vscode/tasks.json",
    ".github/workflows/ci.yml",
    "Makefile",
    "sub/GNUmakefile",
    ".bashrc",
]


@pytest.mark.parametrize("path", ORDERS)
def test_a_new_file_that_programs_take_orders_from_waits_for_a_person(
    project: RemoteProject, node: MemoryNode, path: str
) -> None:
    include(project, "*")
    plant(node, path, is_item=False)
    before = project.files()

    with pytest.raises(RyeError, check=coded("APPROVAL_REQUIRED")) as caught:
        pull(project.link)

    said = f"new files that other programs take orders from: {path!r}; nothing was written"
    assert str(caught.value) == said
    assert project.files() == before
    pull(replace(project.link, accepted=(path,)))
    assert path in project.files()


def test_files_that_this_project_would_not_push_are_not_pulled(
    project: RemoteProject, node: MemoryNode
) -> None:
    plant(node, "elsewhere/notes.md", is_item=False)
    before = project.files()

    with pytest.raises(InadmissibleError, match="keep such files at home"):
        pull(project.link)

    assert project.files() == before


def include(project: RemoteProject, *patterns: str) -> None:
    """Let the project's rules send these files too."""
    rules = f"sync: {{include: [.ai/, {', '.join(map(json.dumps, patterns))}]}}\n"
    project.write({".ai/config/cas/manifest.yaml": rules})
    push(project.link)
