"""Tools of a user who wants the node's keys, projects of others, and more room."""

import json
import os
from pathlib import Path

import pytest

from lillux.landlock import landlock_version
from tests.support.node import Node
from tests.support.remote_projects import RemoteProject
from tests.support.workspace import Workspace

pytest_plugins = ("tests.support.node",)
pytestmark = pytest.mark.skipif(os.name == "nt", reason="the tools of these tests are for POSIX")
confined = pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")


@pytest.fixture
def project(shared_node: Node, workspace: Workspace) -> RemoteProject:
    """The attacker's project."""
    return RemoteProject.with_tools(workspace, shared_node.user())


def output(project: RemoteProject, script: str) -> str:
    """The output of a script."""
    reply = project.script(f"{script}; true")
    assert reply.json["status"] == "success", reply.json
    return str(reply.json["result"]["data"]["stdout"])


@confined
def test_the_keys_of_the_node_cannot_be_read(project: RemoteProject) -> None:
    keys = project.user.node.settings.signing_key_dir

    assert output(project, f"cat {keys}/*; ls {keys}") == ""


@confined
def test_neither_the_database_nor_any_store_can_be_read_or_changed(project: RemoteProject) -> None:
    data = project.user.node.data

    found = output(
        project, f"ls {data} {data}/cas; head -c 9 {data}/node.db; echo > {data}/node.db"
    )

    assert found == ""
    assert (data / "node.db").stat().st_size > 1


@confined
def test_the_environment_of_the_server_cannot_be_read(project: RemoteProject) -> None:
    assert output(project, f"cat /proc/{project.user.node.pid}/environ") == ""


@confined
def test_the_server_cannot_be_signalled(project: RemoteProject) -> None:
    assert output(project, f"kill -9 {project.user.node.pid} && echo killed") == ""
    assert project.user.node.ask("GET", "/health").status == 200


def test_a_link_in_place_of_the_runs_store_is_not_followed(
    project: RemoteProject, shared_node: Node, tmp_path: Path
) -> None:
    victim = shared_node.user()
    folder = shared_node.data / "cas" / victim.user_id / ".ai" / "state" / "objects"
    from lillux.store import Store

    secret = Store(folder).put_blob(b"of the victim")
    script = f"rm -rf .ai/state; mkdir -p .ai/state; ln -s {folder} .ai/state/objects"

    reply = project.script(script)

    assert reply.json["status"] == "success", reply.json
    assert project.objects([secret]) == {}


def test_a_link_among_the_outputs_is_not_followed(project: RemoteProject) -> None:
    keys = project.user.node.settings.signing_key_dir
    lines = [
        "mkdir -p .ai/state/graphs",
        f"ln -s {keys}/private_key.pem .ai/state/graphs/key.txt",
        f"ln -s {keys} .ai/state/keys",
        f"ln -s {keys}/private_key.pem src/key.txt",
        "echo fine > .ai/state/graphs/fine.txt",
    ]

    answer = project.script("; ".join(lines)).json

    bundle = project.object(answer["runtime_outputs_bundle_hash"])
    assert bundle["files"].keys() == {".ai/state/graphs/fine.txt"}
    assert answer["merge_type"] == "no-op"


def test_no_output_replaces_private_files_of_a_client(
    project: RemoteProject,
) -> None:
    lines = [
        "mkdir -p .ai/state/threads .ai/state/remote .ai/state/objects/blobs",
        "echo x > .ai/state/threads/registry.db",
        "echo x > .ai/state/remote/head.json",
        "echo x > .ai/state/objects/blobs/x",
        "echo x > .ai/state/sign.lock",
        "echo x > '.ai/state/a\\b'",
    ]

    answer = project.script("; ".join(lines)).json

    assert answer["status"] == "success", answer
    assert answer["runtime_outputs_bundle_hash"] is None


def test_a_run_writes_neither_rules_of_the_project_nor_items(project: RemoteProject) -> None:
    lines = [
        "echo 'sync: [' > .ai/config/cas/manifest.yaml",
        "mkdir -p .ai/tools/new && echo x > .ai/tools/new/x.yaml",
        "mv .ai/config .ai/other",
    ]

    answer = project.script("; ".join([*lines, "true"])).json

    assert answer["merge_type"] == "no-op"
    assert "src/x.txt" in project.manifest().files


@confined
def test_of_etc_only_files_that_programs_need_can_be_read(project: RemoteProject) -> None:
    shown = output(
        project, "cat /etc/shadow /etc/fstab /etc/hostname.none; ls /etc; cat /etc/hosts"
    )

    assert shown == Path("/etc/hosts").read_text(encoding="utf-8")


def test_a_secret_in_the_name_of_a_file_is_neither_stored_nor_reported(
    project: RemoteProject,
) -> None:
    script = (
        "mkdir -p .ai/state/$TOKEN; echo x > src/$TOKEN.txt; echo $TOKEN > .ai/state/$TOKEN/x;"
        " echo $TOKEN > scratch; echo $TOKEN > .ai/state/out.txt"
    )

    reply = project.script(script, TOKEN="s3cr3t-n4me")

    answer = reply.json
    assert answer["status"] == "success", answer
    assert answer["merge_type"] == "no-op"
    assert "left out: 'src/***.txt': a secret is in its name" in answer["warnings"]
    assert "s3cr3t" not in json.dumps(answer)
    bundle = project.object(answer["runtime_outputs_bundle_hash"])
    assert bundle["files"].keys() == {".ai/state/out.txt"}
    kept = project.user.node.data / "workspaces" / project.user.user_id
    left = [path for path in kept.rglob("*") if path.is_file() or "s3cr3t" in path.name]
    assert left
    assert not [path for path in left if "s3cr3t" in path.name or b"s3cr3t" in path.read_bytes()]


def test_a_file_that_is_too_large_to_travel_is_reported(project: RemoteProject) -> None:
    answer = project.script("mkdir -p .ai/state; truncate -s 40M .ai/state/large").json

    assert answer["status"] == "success", answer
    assert any("'.ai/state/large': expected at most" in one for one in answer["warnings"])
