"""A successful run is pinned, and a different chain is refused."""

import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lillux.lockfile import LockfileError, load_lockfile
from lillux.values import replace
from ryeos.items.context import LockMode
from ryeos.items.errors import SpecError, SystemImmutableError
from ryeos.items.refs import Space
from ryeos.run.lockfiles import lockfile_path
from ryeos.run.model import ExecutionRequest
from tests.support.workspace import BUNDLE_SOURCE, SpaceFolder, Workspace, publish

SCRIPT = "rye/core/runtimes/python/script"
EXECUTE = "rye/core/primitives/execute"
TOOL = "mine/deep/hello"


def lockfile(space: SpaceFolder, item_id: str = TOOL, version: str = "1.0.0") -> Path:
    return space.space.ai / "lockfiles" / "tools" / f"{item_id}.lock.json"


def everything(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture
def pinned(workspace: Workspace) -> Workspace:
    """A workspace whose tool has run once."""
    workspace.project.signed_tool(TOOL, "print(1)")
    assert workspace.run(TOOL).success
    return workspace


# --- created once, used afterwards


def test_the_first_success_writes_the_lockfile_and_later_runs_use_it(workspace: Workspace) -> None:
    workspace.project.signed_tool(TOOL, "print(1)")

    first = workspace.run(TOOL)
    path = lockfile(workspace.project)
    written = path.read_bytes()
    second = workspace.run(TOOL, trace=True)

    assert first.metadata["lockfile_created"] == str(path)
    assert "lockfile_used" not in first.metadata
    assert second.metadata["lockfile_used"] is True
    assert "lockfile_created" not in second.metadata
    assert {"step": "lockfile", "item_id": TOOL, "path": str(path)} in second.trace
    assert path.read_bytes() == written


def test_the_lockfile_pins_every_element(pinned: Workspace) -> None:
    found = load_lockfile(lockfile(pinned.project))

    chain = pinned.rye().executor.build_chain(TOOL)
    assert found.root.tool_id == TOOL
    assert (found.root.version, found.root.integrity) == ("1.0.0", chain.tool.integrity)
    assert (found.root.provider_id, found.root.provider_version) == ("project", "1.0.0")
    assert [(e.item_id, e.space, e.integrity) for e in found.resolved_chain] == [
        (e.item_id, e.space, e.integrity) for e in chain.elements
    ]
    assert [(e.provider_id, e.provider_version) for e in found.resolved_chain] == [
        ("project", "1.0.0"),
        ("ryeos", "0.1.0"),
        ("ryeos", "0.1.0"),
    ]
    assert found.verified_deps is None


def test_a_failed_run_writes_no_lockfile(workspace: Workspace) -> None:
    workspace.project.signed_tool(TOOL, "raise SystemExit(1)")

    workspace.run(TOOL)

    assert not lockfile(workspace.project).exists()


def test_a_tool_without_a_version_is_not_pinned(workspace: Workspace) -> None:
    path = workspace.project.write("tools/hi.sh", "# tool_type: bash\necho hi\n")
    workspace.project.sign_unchecked(path)

    result = workspace.run("hi")

    assert result.success
    assert "lockfile_created" not in result.metadata


def test_a_lockfile_for_a_tool_without_a_version_is_verified(
    workspace: Workspace,
) -> None:
    path = workspace.project.write("tools/hi.sh", "# tool_type: bash\necho hi\n")
    workspace.project.sign_unchecked(path)
    written = workspace.rye().executor.lock("hi")
    assert written == lockfile(workspace.project, "hi", "0.0.0")

    path.write_text("# tool_type: bash\necho other\n", encoding="utf-8")
    workspace.project.sign_unchecked(path)

    assert workspace.run("hi").metadata["error_code"] == "LOCKFILE_MISMATCH"


def test_without_a_project_folder_the_user_space_has_it(workspace: Workspace) -> None:
    shutil.rmtree(workspace.project.space.ai)
    workspace.user.signed_tool(TOOL, "print(1)")

    result = workspace.run(TOOL)

    assert result.metadata["lockfile_created"] == str(lockfile(workspace.user))
    assert not workspace.project.space.ai.exists()


def test_without_an_ai_folder_no_lockfile_is_written(workspace: Workspace) -> None:
    shutil.rmtree(workspace.project.space.ai)
    shutil.rmtree(workspace.user.space.ai)

    result = workspace.run("rye/bash/bash", params={"command": "true"})

    assert result.success
    assert "lockfile_created" not in result.metadata
    assert not workspace.user.space.ai.exists()


def test_the_project_comes_before_the_user(pinned: Workspace) -> None:
    user = lockfile(pinned.user)
    user.parent.mkdir(parents=True)
    user.write_text("broken", encoding="utf-8")

    assert pinned.run(TOOL).success

    lockfile(pinned.project).unlink()
    assert pinned.run(TOOL).metadata["error_code"] == "LOCKFILE_INVALID"


def test_a_lockfile_that_cannot_be_written_is_a_warning(workspace: Workspace) -> None:
    workspace.project.signed_tool(TOOL, "print(1)")
    (workspace.project.space.ai / "lockfiles").write_text("a file", encoding="utf-8")

    result = workspace.run(TOOL)

    assert result.success
    (warning,) = result.metadata["warnings"]
    assert warning.startswith("lockfile not written: ")


def test_many_simultaneous_runs_write_one_complete_lockfile(workspace: Workspace) -> None:
    workspace.project.signed_tool(TOOL, "print(1)")
    executor = workspace.warm.executor
    results: list[Any] = []

    def run() -> None:
        results.append(executor.execute(ExecutionRequest(item_id=TOOL)))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [result.error for result in results] == [None] * 8
    assert load_lockfile(lockfile(workspace.project)).root.tool_id == TOOL
    assert len(list(lockfile(workspace.project).parent.iterdir())) == 1


# --- differences are refused


def refused(workspace: Workspace, problem: str) -> None:
    path = lockfile(workspace.project)
    result = workspace.run(TOOL)
    assert result.error == f"{problem} (lockfile: {path})"
    assert result.metadata["error_code"] == "LOCKFILE_MISMATCH"
    assert result.failure is not None
    assert result.failure.hint == f"if you meant this change: rye lock update {TOOL}"
    assert result.failure.exit_status == 5


def test_an_edited_tool_of_the_same_version_is_refused(pinned: Workspace) -> None:
    pinned.project.signed_tool(TOOL, "print(2)")

    refused(pinned, f"Lockfile integrity mismatch for {TOOL}")


def test_the_command_of_the_hint_fixes_the_error(pinned: Workspace) -> None:
    pinned.project.signed_tool(TOOL, "print(2)")

    assert pinned.rye().executor.lock(TOOL) == lockfile(pinned.project)

    assert pinned.run(TOOL).metadata["lockfile_used"] is True


def test_signing_again_keeps_the_lockfile_valid(pinned: Workspace) -> None:
    pinned.project.signed_tool(TOOL, "print(1)")

    assert pinned.run(TOOL).metadata["lockfile_used"] is True


@pytest.mark.parametrize("version", ["0.9.9", "1.0.0", "1.0.1"])
def test_another_version_of_the_tool_is_refused(pinned: Workspace, version: str) -> None:
    pinned.project.signed_tool(TOOL, "print(2)", version=version)

    result = pinned.run(TOOL)

    code = "ROLLBACK" if version == "0.9.9" else "LOCKFILE_MISMATCH"
    assert result.metadata["error_code"] == code


def test_a_lockfile_of_an_older_format_is_used_and_replaced(pinned: Workspace) -> None:
    path = lockfile(pinned.project)
    older = pinned.project.space.ai / f"lockfiles/{TOOL}@1.0.0.lock.json"
    older.parent.mkdir(parents=True, exist_ok=True)
    path.rename(older)

    assert pinned.run(TOOL).metadata["lockfile_used"] is True
    assert pinned.rye().executor.lock(TOOL) == path
    assert not older.exists()


def test_a_changed_runtime_is_refused(workspace: Workspace) -> None:
    workspace.project.sign(workspace.project.runtime("mine/py"))
    workspace.project.signed_tool(TOOL, "print(1)", executor="mine/py")
    assert workspace.run(TOOL).success

    workspace.project.sign(workspace.project.runtime("mine/py", extra="# another\n"))

    refused(workspace, "Lockfile integrity mismatch for chain element mine/py")


def test_another_runtime_of_the_same_tool_is_refused(pinned: Workspace) -> None:
    path = lockfile(pinned.project)
    document = json.loads(path.read_text("utf-8"))
    document["resolved_chain"][1]["item_id"] = "mine/old"
    path.write_text(json.dumps(document), encoding="utf-8")

    refused(pinned, "Lockfile chain element not found: mine/old (space: system:ryeos)")


def test_the_same_runtime_in_another_space_is_refused(pinned: Workspace) -> None:
    copy = pinned.user.write(
        f"tools/{SCRIPT}.yaml", (BUNDLE_SOURCE / f"tools/{SCRIPT}.yaml").read_bytes()
    )
    pinned.user.sign(copy)

    refused(pinned, f"Lockfile chain differs in its elements, order or spaces for {TOOL}")


def test_an_additional_element_is_refused(pinned: Workspace) -> None:
    path = lockfile(pinned.project)
    document = json.loads(path.read_text("utf-8"))
    del document["resolved_chain"][1]
    path.write_text(json.dumps(document), encoding="utf-8")

    refused(pinned, f"Lockfile chain differs in its elements, order or spaces for {TOOL}")


def test_no_process_starts_if_the_lockfile_differs(pinned: Workspace) -> None:
    canary = pinned.folder / "canary"
    pinned.project.signed_tool(TOOL, f"open({str(canary)!r}, 'w')")

    refused(pinned, f"Lockfile integrity mismatch for {TOOL}")
    assert not canary.exists()


# --- dependencies


@pytest.fixture
def packaged(workspace: Workspace) -> Workspace:
    workspace.project.signed("tools/mine/deep/__init__.py", "")
    workspace.project.signed("tools/mine/deep/helper.py", "X = 1\n")
    workspace.project.signed_tool(TOOL, "import helper\nprint(helper.X)")
    assert workspace.run(TOOL).success
    return workspace


def test_dependencies_are_pinned_by_their_paths(packaged: Workspace) -> None:
    found = load_lockfile(lockfile(packaged.project)).verified_deps

    assert found is not None
    assert sorted(found) == ["__init__.py", "hello.py", "helper.py"]


def test_a_changed_dependency_is_refused(packaged: Workspace) -> None:
    packaged.project.signed("tools/mine/deep/helper.py", "X = 2\n")

    refused(packaged, "Lockfile integrity mismatch for dependency helper.py")


def test_a_missing_dependency_is_refused(packaged: Workspace) -> None:
    (packaged.project.space.ai / "tools/mine/deep/helper.py").unlink()

    refused(packaged, "Lockfile dependency not found: helper.py")


# --- other versions of a bundle


def with_bundle_version(workspace: Workspace, version: str) -> Workspace:
    """The same workspace with another version of the bundle, whose runtime is changed."""
    source = workspace.folder / f"source-{version}"
    shutil.copytree(BUNDLE_SOURCE, source)
    runtime = source / f"tools/{SCRIPT}.yaml"
    runtime.write_text(runtime.read_text("utf-8") + f"# {version}\n", encoding="utf-8")
    bundle = publish(workspace.folder / f"bundle-{version}", source)
    workspace.bundles = (replace(bundle, version=version),)
    return workspace


def test_another_version_of_the_bundle_pins_again(pinned: Workspace) -> None:
    other = with_bundle_version(pinned, "0.2.0")

    result = other.run(TOOL)

    path = lockfile(other.project)
    assert result.metadata["lockfile_created"] == str(path)
    assert load_lockfile(path).resolved_chain[1].provider_version == "0.2.0"


def test_a_changed_bundle_of_the_same_version_is_refused(pinned: Workspace) -> None:
    other = with_bundle_version(pinned, "0.1.0")

    refused(other, f"Lockfile integrity mismatch for chain element {SCRIPT}")


def test_a_new_bundle_version_does_not_accept_other_changes(pinned: Workspace) -> None:
    pinned.project.signed_tool(TOOL, "print(2)")
    other = with_bundle_version(pinned, "0.2.0")

    refused(other, f"Lockfile integrity mismatch for {TOOL}")


def test_a_new_bundle_version_does_not_accept_a_changed_dependency(packaged: Workspace) -> None:
    packaged.project.signed("tools/mine/deep/helper.py", "X = 2\n")
    other = with_bundle_version(packaged, "0.2.0")

    refused(other, "Lockfile integrity mismatch for dependency helper.py")


def test_a_new_bundle_version_does_not_accept_another_runtime(
    pinned: Workspace,
) -> None:
    other = with_bundle_version(pinned, "0.2.0")
    other.project.sign(other.project.runtime(SCRIPT))

    refused(other, f"Lockfile chain differs in its elements, order or spaces for {TOOL}")


# --- invalid lockfiles


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not JSON at line 1 column 1"),
        ("{", "not JSON at line 1 column 2"),
        ("[]", "(root): expected a mapping, found list"),
        ("{}", "Missing required field lockfile_version"),
        ('{"lockfile_version": 9}', "/lockfile_version: expected 1, found 9"),
        ('{"lockfile_version": 1}', "Missing required field generated_at"),
    ],
)
def test_an_unreadable_lockfile_is_an_error(pinned: Workspace, text: str, problem: str) -> None:
    path = lockfile(pinned.project)
    path.write_text(text, encoding="utf-8")

    result = pinned.run(TOOL)

    assert isinstance(result.failure, LockfileError)
    assert str(result.error).startswith(f"{path}: {problem}")
    assert result.metadata["error_code"] == "LOCKFILE_INVALID"
    assert result.failure.exit_status == 5


@pytest.mark.parametrize("make", [Path.mkdir, lambda path: path.symlink_to(path)])
def test_a_lockfile_that_is_not_a_regular_file_is_an_error(
    pinned: Workspace, make: Callable[[Path], None]
) -> None:
    path = lockfile(pinned.project)
    path.unlink()
    make(path)

    result = pinned.run(TOOL)

    assert result.failure is not None
    assert str(path) in str(result.error) or "link" in str(result.error)


def test_a_lockfile_that_cannot_be_read_can_be_written_again_or_removed(pinned: Workspace) -> None:
    path = lockfile(pinned.project)
    executor = pinned.rye().executor

    path.write_text("{", encoding="utf-8")
    executor.lock(TOOL)
    assert pinned.run(TOOL).metadata["lockfile_used"] is True

    path.write_text("{", encoding="utf-8")
    assert executor.lockfiles.delete_lockfile(TOOL, "1.0.0") == path
    assert not path.exists()
    assert executor.lockfiles.delete_lockfile(TOOL, "1.0.0") is None


def test_a_lockfile_folder_that_links_out_of_the_space_is_refused(pinned: Workspace) -> None:
    folder = pinned.project.space.ai / "lockfiles"
    elsewhere = pinned.folder / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere, target_is_directory=True)

    result = pinned.run(TOOL)

    assert str(result.error) == (
        f"{folder}: a link to {elsewhere},"
        f" where a file or folder of {pinned.project.space.ai} is expected"
    )


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        ("../../x", "'..' segments are not allowed"),
        ("1/2", "expected text without '/', got '1/2'"),
        ("1\\2", "expected '/' as separator, found a backslash"),
        ("a:b", "':' is not allowed (drive letters, alternate streams)"),
        ("1\n2", "control characters are not allowed"),
    ],
)
def test_a_version_that_cannot_name_a_file_is_refused(
    workspace: Workspace, version: str, problem: str
) -> None:
    path = workspace.project.write(
        "tools/odd.yaml",
        f"version: {json.dumps(version)}\nexecutor_id: rye/core/runtimes/bash/bash\n"
        "tool_type: bash\nconfig: {script: 'echo hi'}\n",
    )
    workspace.project.sign_unchecked(path)
    before = everything(workspace.folder)

    result = workspace.run("odd")

    assert isinstance(result.failure, SpecError)
    assert result.error == f"version: {problem}"
    assert everything(workspace.folder) == before
    assert workspace.run("odd", lock_mode=LockMode.OFF).success


def test_a_version_too_long_for_a_file_name_is_pinned(workspace: Workspace) -> None:
    path = workspace.project.write("tools/odd.sh", f'__version__="{"1" * 300}"\necho hi\n')
    workspace.project.sign_unchecked(path)

    result = workspace.run("odd")

    assert result.success
    assert result.metadata["lockfile_created"].endswith("tools/odd.lock.json")


# --- modes


def test_mode_off_does_not_read_or_write_lockfiles(pinned: Workspace) -> None:
    pinned.project.signed_tool(TOOL, "print(2)")
    lockfile(pinned.project).write_text("{", encoding="utf-8")

    result = pinned.run(TOOL, lock_mode=LockMode.OFF)

    assert result.data == 2
    assert not {"lockfile_used", "lockfile_created"} & result.metadata.keys()


def test_mode_off_writes_no_lockfile(workspace: Workspace) -> None:
    workspace.project.signed_tool(TOOL, "print(1)")

    assert workspace.run(TOOL, lock_mode=LockMode.OFF).success

    assert not lockfile(workspace.project).exists()


def test_mode_warn_runs_a_differing_tool_and_keeps_the_lockfile(pinned: Workspace) -> None:
    before = lockfile(pinned.project).read_bytes()
    pinned.project.signed_tool(TOOL, "print(2)")

    result = pinned.run(TOOL, lock_mode=LockMode.WARN)

    assert result.data == 2
    (warning,) = result.metadata["warnings"]
    assert warning == (
        f"Lockfile integrity mismatch for {TOOL} (lockfile: {lockfile(pinned.project)})"
        f" (if you meant this change: rye lock update {TOOL})"
    )
    assert lockfile(pinned.project).read_bytes() == before


def test_a_request_can_do_without_lockfiles(pinned: Workspace) -> None:
    pinned.project.signed_tool(TOOL, "print(2)")

    result = pinned.run(TOOL, use_lockfile=False)

    assert result.data == 2


# --- the resolver


def test_all_lockfiles_of_a_space_are_listed(pinned: Workspace) -> None:
    pinned.run("rye/bash/bash", params={"command": "true"})
    resolver = pinned.rye().executor.lockfiles

    found = list(resolver.list_lockfiles(pinned.project.space))

    assert found == [
        lockfile(pinned.project),
        lockfile(pinned.project, "rye/bash/bash"),
    ]
    assert list(resolver.list_lockfiles(pinned.user.space)) == []


def test_a_lockfile_exists_in_any_space(pinned: Workspace) -> None:
    resolver = pinned.rye().executor.lockfiles

    assert resolver.exists(TOOL, "1.0.0")
    assert resolver.exists(TOOL, "1.0.1")
    assert not resolver.exists("mine/other", "1.0.0")


def test_a_lockfile_of_a_bundle_is_used_and_not_removed(workspace: Workspace) -> None:
    folder = workspace.folder / "more"
    bundle = Space("system:more", folder, "1.0.0")
    path = lockfile_path(bundle, TOOL)
    workspace.project.signed_tool(TOOL, "print(1)")
    workspace.run(TOOL)
    path.parent.mkdir(parents=True)
    lockfile(workspace.project).rename(path)
    workspace.bundles = (*workspace.bundles, bundle)

    result = workspace.run(TOOL, trace=True)

    assert result.metadata["lockfile_used"] is True
    with pytest.raises(SystemImmutableError):
        workspace.rye().executor.lockfiles.delete_lockfile(TOOL, "1.0.0")


def test_a_lockfile_in_user_space_is_ignored_for_a_tool_of_the_project(
    pinned: Workspace,
) -> None:
    user = lockfile(pinned.user)
    user.parent.mkdir(parents=True)
    lockfile(pinned.project).rename(user)
    pinned.project.signed_tool(TOOL, "print(2)")

    result = pinned.run(TOOL)

    assert result.success
    assert "lockfile_used" not in result.metadata
