"""An attacker who may write into the project puts a file in place of one of the bundle's."""

from pathlib import Path

import pytest

from lillux.signing import KeyPair, generate_keypair
from lillux.values import replace
from ryeos.items.errors import IntegrityError, UnsignedError, UntrustedKeyError
from ryeos.items.refs import Spaces
from ryeos.trust.resolver import Resolver
from tests.support.workspace import Workspace

SCRIPT = "rye/core/runtimes/python/script"


@pytest.fixture
def stranger() -> KeyPair:
    return generate_keypair()


def shadow(workspace: Workspace, body: str = "") -> Path:
    """A runtime of the project in the place of the bundle's."""
    return workspace.project.runtime(SCRIPT, extra=body)


def protected(workspace: Workspace) -> Spaces:
    return replace(workspace.context().spaces, protect_core=True)


def test_an_unsigned_shadow_stops_the_tool_and_is_not_passed_over(workspace: Workspace) -> None:
    workspace.project.signed_tool("x", "print('{}')\n")
    path = shadow(workspace)

    result = workspace.run("x")

    assert type(result.failure) is UnsignedError
    assert str(path) in str(result.failure)


def test_a_shadow_by_a_stranger_stops_the_tool(workspace: Workspace, stranger: KeyPair) -> None:
    workspace.project.signed_tool("x", "print('{}')\n")
    workspace.project.sign_unchecked(shadow(workspace), stranger)

    assert type(workspace.run("x").failure) is UntrustedKeyError


def test_a_shadow_that_the_user_signed_runs_with_a_warning(workspace: Workspace) -> None:
    workspace.project.signed_tool("x", "print('{}')\n")
    workspace.project.sign(shadow(workspace))

    result = workspace.run("x", trace=True)

    assert result.success, result.error
    assert [element["space"] for element in result.chain][1] == "project"
    warning = f"tool:{SCRIPT}: the project space replaces a core item of system:ryeos"
    assert warning in str([result.metadata, result.trace, workspace.warnings])


def test_a_protected_core_ignores_the_shadow(workspace: Workspace) -> None:
    workspace.project.sign(shadow(workspace))
    workspace.project.signed_tool("x", "print('{}')\n")
    workspace.env["RYE_PROTECT_CORE"] = "1"

    result = workspace.run("x")

    assert result.success, result.error
    assert [element["space"] for element in result.chain] == [
        "project",
        "system:ryeos",
        "system:ryeos",
    ]


@pytest.mark.parametrize(
    "spelling",
    [SCRIPT, "rye/core/runtimes/python/script/script", "rye/Core/runtimes/python/script"],
)
def test_a_protected_core_is_so_in_every_spelling(workspace: Workspace, spelling: str) -> None:
    workspace.project.runtime(spelling)
    resolver = Resolver(protected(workspace))

    found = resolver.find_executor(spelling, "project")

    assert found is None or found.location.space.label == "system:ryeos"


def test_a_system_item_never_uses_a_shadow(workspace: Workspace) -> None:
    """The chain of a bundle's tool stays in the bundle, for any files of the project."""
    workspace.project.sign(workspace.project.runtime("rye/core/runtimes/bash/bash"))

    result = workspace.run("rye/bash/bash", params={"command": "true"}, dry_run=True)

    assert {element["space"] for element in result.chain} == {"system:ryeos"}


def test_a_file_that_shadows_itself_by_another_suffix_is_named(workspace: Workspace) -> None:
    workspace.project.signed_yaml("x", "config: {script: 'true'}\n")
    evil = workspace.project.tool("x")

    result = workspace.run("x")

    assert isinstance(result.failure, IntegrityError)
    assert str(evil) in str(result.failure)
