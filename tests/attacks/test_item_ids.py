"""Ids that would leave their space, typed by a caller or written into a signed header."""

import sys

import pytest

from ryeos.items.errors import InvalidRefError, ItemNotFoundError, SpecError, error_envelope
from ryeos.items.refs import parse_reference
from tests.support.workspace import Workspace

CLIMBING = ["../outside", "../../outside", "a/../../../outside", "a/../../../../outside"]
IDS = [
    *CLIMBING,
    "/outside",
    "//outside",
    "a//b",
    "./../outside",
    "a/./b",
    "..\\outside",
    "a\\..\\..\\outside",
    "a\0b",
    "outside\0.py",
    "C:\\outside",
    "C:/outside",
    "C:outside",
    "outside:stream",
    "a/nul",
    "CON",
    "a./b",
    "a\nb",
    "",
    "/",
    ".",
    "..",
    "x" * 10_000_000,
]


@pytest.fixture
def ground(workspace: Workspace) -> Workspace:
    """Validly signed tools lie wherever a climbing id could lead."""
    signed = workspace.project.signed_tool("a/inside")
    for folder in (workspace.project.space.ai, workspace.project_path, workspace.folder):
        (folder / "outside.py").write_bytes(signed.read_bytes())
    return workspace


@pytest.mark.parametrize("item_id", IDS, ids=lambda item_id: repr(item_id)[:30])
@pytest.mark.parametrize("prefix", ["", "tool:", "directive:"])
def test_an_id_that_could_leave_its_space_is_refused(
    ground: Workspace, prefix: str, item_id: str
) -> None:
    with pytest.raises(InvalidRefError) as error:
        parse_reference(prefix + item_id)

    envelope = error_envelope(error.value)
    assert (envelope["code"], error.value.exit_status) == ("INVALID_REF", 2)
    assert len(str(error.value)) < 600
    assert "\0" not in str(error.value)


@pytest.mark.parametrize("item_id", IDS, ids=lambda item_id: repr(item_id)[:30])
def test_an_engine_that_is_called_directly_refuses_it_too(ground: Workspace, item_id: str) -> None:
    result = ground.run(item_id)

    assert type(result.failure) is InvalidRefError


@pytest.mark.parametrize("executor", [*CLIMBING, "/outside", "a\\b", "a//b"])
def test_a_signed_header_cannot_climb_either(ground: Workspace, executor: str) -> None:
    path = ground.project.tool("climber", executor=executor)
    ground.project.sign_unchecked(path)

    result = ground.run("climber")

    assert not result.success
    assert type(result.failure) is SpecError
    assert str(result.failure).startswith(f"{path}: executor_id: ")


@pytest.mark.parametrize("item_id", ["A/INSIDE", "a/Inside", "A/inside"])
@pytest.mark.skipif(sys.platform != "linux", reason="other file systems do not tell cases apart")
def test_another_case_is_another_id(ground: Workspace, item_id: str) -> None:
    result = ground.run(item_id)

    assert type(result.failure) is ItemNotFoundError
    assert result.failure.suggestions == ("tool:a/inside",)


@pytest.mark.parametrize(
    "item_id", ["a/insid\u0435", "a/in\u00adside", "a/inside\u200b", "\u0430/inside"]
)
def test_an_id_that_only_looks_the_same_is_another(ground: Workspace, item_id: str) -> None:
    result = ground.run(item_id)

    assert isinstance(result.failure, (ItemNotFoundError, InvalidRefError))


def test_a_relative_reference_stays_a_reference(ground: Workspace) -> None:
    assert str(parse_reference("./a/inside")) == "a/inside"
