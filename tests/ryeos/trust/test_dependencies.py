"""The files around a tool: every one verified, or the tool does not start."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from lillux.signing import generate_keypair
from ryeos.items.errors import (
    IntegrityError,
    SignatureFormatError,
    SpecError,
    UnsignedError,
    UntrustedKeyError,
)
from ryeos.trust.dependencies import (
    DEFAULT_EXCLUDED,
    DependencyRules,
    dependency_rules,
    verify_tree,
)
from tests.support.workspace import Workspace

PACK = "tools/pack"
ALL = DependencyRules(enabled=True, extensions=(".py", ".yaml", ".json", ".so", ".pyc"))


@pytest.fixture
def base(workspace: Workspace) -> Path:
    """A signed package of three files."""
    workspace.project.signed(f"{PACK}/__init__.py", "")
    workspace.project.signed(f"{PACK}/near.py", "X = 1\n")
    workspace.project.signed(f"{PACK}/sub/far.py", "Y = 2\n")
    return workspace.project.space.ai / PACK


def verified(workspace: Workspace, rules: DependencyRules = ALL, **options: Any) -> list[str]:  # noqa: ANN401
    base = (workspace.project.space.ai / PACK).resolve()
    items = verify_tree(
        base,
        rules,
        workspace.project.space,
        workspace.rye().verifier,
        workspace.warnings.append,
        **options,
    )
    return [item.target.path.relative_to(base).as_posix() for item in items]


# --- rules


def test_rules_have_defaults() -> None:
    assert dependency_rules({}) == DependencyRules(
        enabled=False,
        scope="anchor",
        recursive=True,
        extensions=(),
        exclude_dirs=DEFAULT_EXCLUDED,
    )


def test_rules_are_read_from_the_header() -> None:
    rules = dependency_rules(
        {"enabled": True, "scope": "tool_dir", "recursive": False, "extensions": [".py"]}
        | {"exclude_dirs": []}
    )

    assert rules == DependencyRules(
        enabled=True, scope="tool_dir", recursive=False, extensions=(".py",), exclude_dirs=()
    )


def test_siblings_are_not_searched_in_subfolders() -> None:
    assert dependency_rules({"scope": "tool_siblings", "recursive": True}).recursive is False


@pytest.mark.parametrize("enabled", ["true", 1, "yes", None])
def test_only_true_enables_verification_of_dependencies(enabled: object) -> None:
    assert dependency_rules({"enabled": enabled}).enabled is False


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (
            {"scope": "galaxy"},
            (
                "verify_deps.scope: expected one of anchor, tool_dir, tool_siblings, tool_file,"
                " got 'galaxy'"
            ),
        ),
        ({"scope": ["x"]}, None),
        ({"extensions": ".py"}, "verify_deps.extensions: expected a list of strings, got string"),
        ({"extensions": [5]}, "verify_deps.extensions: expected a list of strings, got list"),
        ({"exclude_dirs": {}}, "verify_deps.exclude_dirs: expected a list of strings, got mapping"),
    ],
)
def test_rules_of_the_wrong_shape_are_refused(config: dict[str, Any], problem: str | None) -> None:
    with pytest.raises(SpecError) as error:
        dependency_rules(config)

    assert problem in {None, str(error.value)}


# --- the walk


@pytest.mark.usefixtures("base")
def test_every_file_is_verified_in_the_order_of_paths(workspace: Workspace) -> None:
    assert verified(workspace) == ["__init__.py", "near.py", "sub/far.py"]


@pytest.mark.usefixtures("base")
def test_without_recursion_only_the_folder_itself_is(workspace: Workspace) -> None:
    rules = DependencyRules(enabled=True, recursive=False, extensions=(".py",))

    assert verified(workspace, rules) == ["__init__.py", "near.py"]


@pytest.mark.usefixtures("base")
def test_unlisted_files_are_not_verified(workspace: Workspace) -> None:
    workspace.project.write(f"{PACK}/notes.txt", "unsigned")

    assert verified(workspace) == ["__init__.py", "near.py", "sub/far.py"]
    assert verified(workspace, DependencyRules(enabled=True)) == []


def test_excluded_folders_are_skipped(workspace: Workspace, base: Path) -> None:
    for name in DEFAULT_EXCLUDED:
        workspace.project.write(f"{PACK}/sub/{name}/x.py", "unsigned")

    assert verified(workspace) == ["__init__.py", "near.py", "sub/far.py"]
    assert base.is_dir()


@pytest.mark.usefixtures("base")
def test_no_folder_that_leads_to_the_tool_is_excluded(workspace: Workspace) -> None:
    workspace.project.signed(f"{PACK}/node_modules/deep/tool.py", "")
    kept = (workspace.project.space.ai / PACK / "node_modules/deep").resolve()

    assert "node_modules/deep/tool.py" in verified(workspace, kept=kept)


# --- refusals


def refusal(workspace: Workspace) -> IntegrityError:
    with pytest.raises(IntegrityError) as error:
        verified(workspace)
    return error.value


def test_an_unsigned_file_is_refused(workspace: Workspace, base: Path) -> None:
    workspace.project.write(f"{PACK}/sub/extra.py", "X = 1\n")

    error = refusal(workspace)

    assert isinstance(error, UnsignedError)
    assert error.path == str(base.resolve() / "sub/extra.py")


def test_a_tampered_file_is_refused(workspace: Workspace, base: Path) -> None:
    path = base / "sub/far.py"
    path.write_text(path.read_text("utf-8") + "Z = 3\n", encoding="utf-8")

    assert str(refusal(workspace)) == f"content modified since signing: {path.resolve()}"


@pytest.mark.usefixtures("base")
def test_a_file_by_an_untrusted_key_is_refused(workspace: Workspace) -> None:
    path = workspace.project.write(f"{PACK}/extra.py", "")
    workspace.project.sign_unchecked(path, generate_keypair())

    assert isinstance(refusal(workspace), UntrustedKeyError)


def test_a_link_to_a_file_outside_is_refused(workspace: Workspace, base: Path) -> None:
    outside = workspace.project.signed("tools/outside.py", "X = 1\n")
    (base / "linked.py").symlink_to(outside)

    error = refusal(workspace)

    assert str(error) == (
        f"Symlink escape (resolves to {outside.resolve()}): {base.resolve() / 'linked.py'}"
    )
    assert error.hint == "put the files themselves beside the tool and sign them"


def test_a_folder_whose_name_only_begins_alike_is_outside(workspace: Workspace, base: Path) -> None:
    outside = workspace.project.signed(f"{PACK}-evil/x.py", "X = 1\n")
    (base / "linked.py").symlink_to(outside)

    assert "Symlink escape" in str(refusal(workspace))


def test_a_link_to_a_module_under_another_name_is_refused(workspace: Workspace, base: Path) -> None:
    (base / "alias.py").symlink_to(base / "near.py")

    assert "signed as tool:" in str(refusal(workspace))


@pytest.mark.parametrize("inside", [True, False])
def test_a_link_to_a_folder_is_refused(workspace: Workspace, base: Path, inside: bool) -> None:  # noqa: FBT001
    target = base / "sub" if inside else workspace.folder
    (base / "linked").symlink_to(target, target_is_directory=True)

    assert str(refusal(workspace)) == (
        f"Symlink escape (a link to a folder): {base.resolve() / 'linked'}"
    )


def test_a_broken_link_is_refused(workspace: Workspace, base: Path) -> None:
    (base / "gone.py").symlink_to(base / "nothing.py")

    assert "gone.py" in str(refusal(workspace))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no FIFO in a folder")
def test_a_fifo_is_refused_without_waiting(workspace: Workspace, base: Path) -> None:
    os.mkfifo(base / "pipe.py")

    with pytest.raises(Exception, match="expected a regular file"):
        verified(workspace)


@pytest.mark.parametrize("name", ["native.so", "module.pyc"])
def test_a_file_that_cannot_be_signed_is_refused(
    workspace: Workspace, base: Path, name: str
) -> None:
    (base / name).write_bytes(b"\x7fELF")

    error = refusal(workspace)

    assert str(error) == (
        f"a file that cannot be signed, where every file must be: {base.resolve() / name}"
    )
    assert error.exit_status == 4


@pytest.mark.skipif(sys.platform == "win32", reason="names of any length")
def test_a_folder_that_cannot_be_listed_is_refused(
    workspace: Workspace, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = base
    monkeypatch.chdir(base)
    for _ in range(20):  # step by step, for the whole path is longer than the system takes
        name = "d" * 250
        Path(name).mkdir()
        os.chdir(name)
        folder /= name
    Path("evil.py").write_text("unsigned", encoding="utf-8")
    os.chdir(base)

    error = refusal(workspace)

    assert "cannot be listed, so nothing below it can be verified" in str(error)


# --- data


def test_a_json_file_needs_its_signature_beside_it(workspace: Workspace, base: Path) -> None:
    path = workspace.project.write(f"{PACK}/data.json", '{"a": 1}')
    assert isinstance(refusal(workspace), UnsignedError)

    workspace.project.sign(path)
    assert "data.json" in verified(workspace)
    assert (base / "data.json.sig").is_file()

    path.write_text('{"a": 2}', encoding="utf-8")
    assert str(refusal(workspace)) == f"content modified since signing: {path.resolve()}"


@pytest.mark.usefixtures("base")
def test_a_signature_beside_a_file_of_another_content_is_refused(workspace: Workspace) -> None:
    workspace.project.signed(f"{PACK}/data.json", '{"a": 1}')
    other = workspace.project.signed("tools/other.json", '{"a": 2}')
    beside = workspace.project.space.ai / f"{PACK}/data.json.sig"
    beside.write_bytes(other.with_name("other.json.sig").read_bytes())

    assert "content modified since signing" in str(refusal(workspace))


@pytest.mark.usefixtures("base")
@pytest.mark.parametrize("text", ["", "nonsense\n", "rye:signed:x\n"])
def test_an_invalid_signature_file_is_refused(workspace: Workspace, text: str) -> None:
    workspace.project.signed(f"{PACK}/data.json", '{"a": 1}')
    beside = workspace.project.space.ai / f"{PACK}/data.json.sig"
    beside.write_text(text, encoding="utf-8")

    assert isinstance(refusal(workspace), SignatureFormatError)


@pytest.mark.parametrize("name", ["package.json", "package-lock.json", "tsconfig.json"])
def test_files_of_package_managers_are_skipped_with_a_warning(
    workspace: Workspace, base: Path, name: str
) -> None:
    path = workspace.project.write(f"{PACK}/{name}", "{}")

    assert name not in verified(workspace)
    said = "unsigned and not verified; nothing may rely on what it says"
    shown = base.resolve() / name
    assert workspace.warnings == [f"{shown}: {said} (rye sign {shown})"]

    workspace.project.sign(path)
    assert name in verified(workspace)
    path.write_text("[]", encoding="utf-8")
    assert "content modified since signing" in str(refusal(workspace))


@pytest.mark.usefixtures("base")
def test_the_warning_reaches_the_result_of_a_run(workspace: Workspace) -> None:
    workspace.project.write(f"{PACK}/package.json", "{}")
    workspace.project.signed_tool("pack/tool", "import near\nprint(near.X)")

    result = workspace.run("pack/tool")

    assert result.data == 1
    assert len(result.metadata["warnings"]) == 1


# --- scopes, in executions


@pytest.mark.parametrize(
    ("scope", "blocked"),
    [("anchor", True), ("tool_dir", True), ("tool_siblings", False), ("tool_file", False)],
)
def test_the_scope_limits_the_verified_folder(
    workspace: Workspace,
    scope: str,
    blocked: bool,  # noqa: FBT001
) -> None:
    deps = {"enabled": True, "scope": scope, "extensions": [".py"]}
    workspace.project.signed("tools/pack/__init__.py", "")
    workspace.project.write("tools/pack/sub/unsigned.py", "")
    workspace.project.signed_tool("pack/tool", "print(1)", extra=f"VERIFY_DEPS = {deps!r}\n")

    assert workspace.run("pack/tool").success is not blocked


def test_an_unsigned_file_above_the_tool_is_in_the_scope_of_its_anchor(
    workspace: Workspace,
) -> None:
    deps = {"enabled": True, "extensions": [".py"]}
    workspace.project.signed("tools/pack/__init__.py", "")
    path = workspace.project.write("tools/pack/unsigned.py", "")
    workspace.project.signed_tool("pack/sub/tool", extra=f"VERIFY_DEPS = {deps!r}\n")

    assert workspace.run("pack/sub/tool").error == (
        f"unsigned item, expected a rye:signed line: {path.resolve()}"
    )


@pytest.mark.parametrize("broken", ["enabled", "anchor"])
def test_without_an_anchor_or_if_disabled_no_folder_is_verified(
    workspace: Workspace, broken: str
) -> None:
    deps = {"enabled": broken != "enabled", "extensions": [".py"]}
    if broken != "anchor":
        workspace.project.signed("tools/pack/__init__.py", "")
    workspace.project.write("tools/pack/unsigned.py", "")
    workspace.project.signed_tool("pack/tool", "print(1)", extra=f"VERIFY_DEPS = {deps!r}\n")

    assert workspace.run("pack/tool").data == 1
