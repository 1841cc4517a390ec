"""An older version with a good signature, put back by a project, a clone, or with its lockfile."""

import json
import shutil
from pathlib import Path

import pytest

from lillux.signing import compute_key_digest
from ryeos.app.sign import follow
from ryeos.run.model import ExecutionRequest
from ryeos.trust.keys import SigningKey
from ryeos.trust.sign import Signer
from tests.support.workspace import Workspace

TOOL = "mine/deploy"


def signed(workspace: Workspace, version: str, body: str = "print('{}')") -> Path:
    """Write and sign the tool as `rye sign` does, its records included."""
    path = workspace.project.tool(TOOL, body.format(version), version=version)
    rye = workspace.rye()
    reports = list(
        Signer(SigningKey(workspace.keypair), rye.verifier).sign_all(
            [workspace.project.target(path)], force=True
        )
    )
    assert reports[0].error is None
    follow(rye, reports)
    return path


def code(workspace: Workspace) -> str:
    return str(workspace.run(TOOL).metadata.get("error_code", "")) or "ran"


def test_an_older_version_is_refused_though_its_signature_holds(workspace: Workspace) -> None:
    path = signed(workspace, "1.0.0")
    old = path.read_bytes()
    assert code(workspace) == "ran"
    signed(workspace, "1.1.0")
    path.write_bytes(old)

    assert code(workspace) == "ROLLBACK"


def test_the_lockfile_of_the_older_version_does_not_help(workspace: Workspace) -> None:
    path = signed(workspace, "1.0.0")
    assert code(workspace) == "ran"
    kept = workspace.folder / "kept"
    shutil.copytree(workspace.project.space.ai, kept)
    signed(workspace, "1.1.0")
    assert code(workspace) == "ran"
    shutil.rmtree(workspace.project.space.ai)
    shutil.copytree(kept, workspace.project.space.ai)

    assert code(workspace) == "ROLLBACK"
    assert path.is_file()


def test_no_lockfile_at_all_does_not_help(workspace: Workspace) -> None:
    path = signed(workspace, "1.0.0")
    old = path.read_bytes()
    signed(workspace, "2.0.0")
    path.write_bytes(old)
    shutil.rmtree(workspace.project.space.ai / "lockfiles", ignore_errors=True)

    assert code(workspace) == "ROLLBACK"


def test_another_project_brings_no_older_version(workspace: Workspace) -> None:
    old = signed(workspace, "1.0.0").read_bytes()
    signed(workspace, "1.1.0")
    path = workspace.folder / f"other/.ai/tools/{TOOL}.py"
    path.parent.mkdir(parents=True)
    path.write_bytes(old)

    other = workspace.rye().at(str(workspace.folder / "other"))
    result = other.executor.execute(ExecutionRequest(item_id=TOOL))

    assert result.metadata["error_code"] == "ROLLBACK"


def test_another_text_of_the_same_version_is_the_lockfiles_matter(workspace: Workspace) -> None:
    path = signed(workspace, "1.0.0")
    first = path.read_bytes()
    signed(workspace, "1.0.0", "print('another {}')")
    assert code(workspace) == "ran"
    path.write_bytes(first)

    assert code(workspace) == "LOCKFILE_MISMATCH"


def test_signing_an_older_version_here_is_a_decision(workspace: Workspace) -> None:
    signed(workspace, "1.1.0")
    assert code(workspace) == "ran"

    signed(workspace, "1.0.5")

    assert code(workspace) == "ran"


def test_an_accepted_older_version_lets_no_still_older_one_run(workspace: Workspace) -> None:
    path = signed(workspace, "0.9.0")
    oldest = path.read_bytes()
    signed(workspace, "1.1.0")
    signed(workspace, "1.0.0")
    path.write_bytes(oldest)

    assert code(workspace) == "ROLLBACK"


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"highest": 5}'])
def test_a_damaged_record_stops_no_run_and_is_written_again(
    workspace: Workspace, damage: bytes
) -> None:
    signed(workspace, "1.0.0")
    (record,) = (workspace.home / ".ai/state/versions").glob("*.json")
    record.write_bytes(damage)

    assert code(workspace) == "ran"
    assert json.loads(record.read_bytes())["highest"] == {
        compute_key_digest(workspace.keypair.public_pem): "1.0.0"
    }


def test_an_older_directive_is_refused_too(workspace: Workspace) -> None:
    path = workspace.project.directive("mine/plan", "Old words.")
    workspace.project.sign(path)
    old = path.read_bytes()
    workspace.render("directive:mine/plan")
    text = path.read_text("utf-8").replace('version="1.0.0"', 'version="1.1.0"')
    path.write_text(text, encoding="utf-8")
    workspace.project.sign(path)
    workspace.render("directive:mine/plan")
    path.write_bytes(old)

    with pytest.raises(Exception, match="was here before"):
        workspace.render("directive:mine/plan")
