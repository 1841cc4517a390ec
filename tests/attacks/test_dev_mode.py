"""Dev mode lets unsigned code run. It warns, shows in results, and is hard to switch on."""

import json
from pathlib import Path

import pytest

from lillux.signing import generate_keypair
from ryeos.items.context import context_from
from ryeos.items.errors import IntegrityError, NoSignatureFormError, SignatureFormatError
from ryeos.run.model import ExecutionRequest
from ryeos.trust.verify import Coverage
from tests.support.workspace import Workspace


@pytest.mark.parametrize("value", ["0", "", "true", "yes", "01", " 1", "on", "2"])
def test_only_one_value_switches_it_on(tmp_path: Path, value: str) -> None:
    assert context_from({"RYE_DEV_MODE": "1"}, cwd=tmp_path).dev_mode
    assert not context_from({"RYE_DEV_MODE": value}, cwd=tmp_path).dev_mode


def test_a_project_cannot_switch_it_on(workspace: Workspace) -> None:
    workspace.project.tool("x", "print('{}')\n")
    (workspace.project_path / ".env").write_text("RYE_DEV_MODE=1\n", encoding="utf-8")
    workspace.project.write("config/execution/execution.yaml", "dev_mode: true\n")

    result = workspace.run("x")

    assert isinstance(result.failure, IntegrityError)


def test_everything_that_it_lets_pass_is_reported(workspace: Workspace) -> None:
    unsigned = workspace.project.tool("unsigned")
    tampered = workspace.project.signed_tool("tampered")
    tampered.write_bytes(tampered.read_bytes() + b"\n")
    foreign = workspace.project.tool("foreign")
    workspace.project.sign_unchecked(foreign, generate_keypair())
    verifier = workspace.rye(dev_mode=True).verifier

    items = [
        verifier.verify(workspace.project.target(path).verify_target)
        for path in (unsigned, tampered, foreign)
    ]

    assert [(item.verified, item.key, item.coverage) for item in items] == [
        (False, None, Coverage.PARTIAL)
    ] * 3
    assert [warning.split(": ")[:2] for warning in workspace.warnings] == [
        ["RYE_DEV_MODE", "unsigned item, expected a rye:signed line"],
        ["RYE_DEV_MODE", "content modified since signing"],
        ["RYE_DEV_MODE", workspace.warnings[2].split(": ")[1]],
    ]
    assert "signed by the untrusted key" in workspace.warnings[2]


def test_valid_items_are_verified_there_too(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("x")
    verifier = workspace.rye(dev_mode=True).verifier

    assert verifier.verify(workspace.project.target(path).verify_target).verified
    assert workspace.warnings == []


@pytest.mark.parametrize("data", [b"\xff", b"#" * (9 * 1024 * 1024)])
def test_a_file_that_cannot_be_read_as_an_item_is_refused_there_too(
    workspace: Workspace, data: bytes
) -> None:
    path = workspace.project.write("tools/x.py", data)

    with pytest.raises(SignatureFormatError):
        workspace.rye(dev_mode=True).verifier.verify(workspace.project.target(path).verify_target)


def test_two_signature_lines_are_refused_there_too(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("x")
    line, _, body = path.read_text(encoding="utf-8").partition("\n")
    path.write_text(f"{line}\n{line}\n{body}", encoding="utf-8")

    with pytest.raises(SignatureFormatError):
        workspace.rye(dev_mode=True).verifier.verify(workspace.project.target(path).verify_target)


def test_a_file_type_without_a_form_is_refused_there_too(workspace: Workspace) -> None:
    path = workspace.project.write("tools/x.rs", "")

    with pytest.raises(NoSignatureFormError):
        workspace.rye(dev_mode=True).verifier.verify(workspace.project.target(path).verify_target)


def test_a_file_that_is_gone_stays_gone(workspace: Workspace) -> None:
    path = workspace.project.space.ai / "tools" / "x.py"

    with pytest.raises(IntegrityError, match="the file is no longer there"):
        workspace.rye(dev_mode=True).verifier.verify(workspace.project.target(path).verify_target)


def test_a_link_out_of_its_space_is_refused_there_too(workspace: Workspace) -> None:
    outside = workspace.folder / "outside.py"
    outside.write_text("x = 1\n", encoding="utf-8")
    link = workspace.project.space.ai / "tools" / "x.py"
    link.parent.mkdir()
    try:
        link.symlink_to(outside)
    except OSError:
        pytest.skip("links need a privilege here")

    result = workspace.rye(dev_mode=True).executor.execute(ExecutionRequest(item_id="x"))

    assert isinstance(result.failure, IntegrityError)


def test_a_result_says_that_it_was_not_verified(workspace: Workspace) -> None:
    workspace.project.tool("x", "print('{}')\n")

    rye = workspace.rye(dev_mode=True)
    result = rye.executor.execute(ExecutionRequest(item_id="x", trace=True))

    assert result.success, result.error
    shown = json.dumps([result.chain, result.trace, result.metadata], default=str)
    assert '"verified": false' in shown
    assert any(warning.startswith("RYE_DEV_MODE: unsigned item") for warning in workspace.warnings)


def test_items_that_passed_are_not_trusted_later(workspace: Workspace) -> None:
    """The same objects, the mode switched off: no cache may remember it as verified."""
    path = workspace.project.tool("x")
    target = workspace.project.target(path).verify_target
    workspace.rye(dev_mode=True).verifier.verify(target)

    with pytest.raises(IntegrityError):
        workspace.rye().verifier.verify(target)
