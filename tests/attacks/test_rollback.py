"""An older version with a good signature, put back by a project, a clone, or with its lockfile."""

import json
import shutil
from pathlib import Path

import pytest

from lillux.signing import compute_key_digest
from ryeos.app.sign import follow
from ryeos.items.refs import ItemRef, Kind
from ryeos.run.model import ExecutionRequest
from ryeos.trust.sign import Signer
from ryeos.trust.signing_key import SigningKey
from ryeos.trust.versions import Edition
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


def code_elsewhere(workspace: Workspace) -> str:
    """The same for a user who has the project with its lockfiles and ran nothing of it before."""
    shutil.rmtree(workspace.home / ".ai/state/versions")
    return code(workspace)


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


# --- modules beside a tool, and locks that follow


def signed_module(workspace: Workspace, name: str, text: str, *, sign: bool = True) -> Path:
    """Write a module beside the tool, and sign it as `rye sign` does."""
    path = workspace.project.write(f"tools/mine/{name}.py", text)
    if sign:
        sign_paths(workspace, path)
    return path


def sign_paths(workspace: Workspace, *paths: Path) -> list[str]:
    """Sign files in one step, records and locks included; the tools whose lock was written."""
    rye = workspace.rye()
    targets = [workspace.project.target(path) for path in paths]
    signer = Signer(SigningKey(workspace.keypair), rye.verifier)
    reports = list(signer.sign_all(targets, force=True))
    assert [report.error for report in reports] == [None] * len(paths)
    return follow(rye, reports)


USES = "import mine_one, mine_two\nprint(mine_one.N, mine_two.N)\n"


def with_modules(workspace: Workspace) -> Path:
    """A tool with two modules, which has run once."""
    signed_module(workspace, "mine_one", "N = 1\n")
    signed_module(workspace, "mine_two", "N = 1\n")
    path = signed(workspace, "1.0.0", USES)
    assert code(workspace) == "ran"
    return path


def test_an_older_module_is_refused_though_its_signature_holds(workspace: Workspace) -> None:
    with_modules(workspace)
    module = workspace.project.space.ai / "tools/mine/mine_one.py"
    old = module.read_bytes()
    signed_module(workspace, "mine_one", "N = 2\n")
    assert code(workspace) == "ran"
    module.write_bytes(old)

    assert code_elsewhere(workspace) == "LOCKFILE_MISMATCH"


def test_signing_the_tool_does_not_heal_an_older_module(workspace: Workspace) -> None:
    tool = with_modules(workspace)
    module = workspace.project.space.ai / "tools/mine/mine_one.py"
    old = module.read_bytes()
    signed_module(workspace, "mine_one", "N = 2\n")
    module.write_bytes(old)
    lock = workspace.project.space.ai / f"lockfiles/tools/{TOOL}.lock.json"
    before = lock.read_bytes()

    assert sign_paths(workspace, tool) == []

    assert lock.read_bytes() == before
    assert code_elsewhere(workspace) == "LOCKFILE_MISMATCH"
    assert any(str(module) in warning for warning in workspace.warnings)


def test_signing_one_module_does_not_heal_another(workspace: Workspace) -> None:
    with_modules(workspace)
    other = workspace.project.space.ai / "tools/mine/mine_two.py"
    old = other.read_bytes()
    signed_module(workspace, "mine_two", "N = 2\n")
    other.write_bytes(old)

    signed_module(workspace, "mine_one", "N = 3\n")

    assert code_elsewhere(workspace) == "LOCKFILE_MISMATCH"


def test_a_module_that_was_signed_is_followed(workspace: Workspace) -> None:
    with_modules(workspace)
    module = workspace.project.write("tools/mine/mine_one.py", "N = 2\n")

    assert sign_paths(workspace, module) == [TOOL]
    assert code(workspace) == "ran"


def test_several_files_that_are_signed_together_are_followed_together(
    workspace: Workspace,
) -> None:
    tool = with_modules(workspace)
    module = workspace.project.write("tools/mine/mine_one.py", "N = 2\n")
    tool.write_text(tool.read_text("utf-8") + "print()\n", "utf-8")

    assert TOOL in sign_paths(workspace, tool, module)
    assert code(workspace) == "ran"


def test_a_file_of_the_same_name_elsewhere_is_not_followed(workspace: Workspace) -> None:
    with_modules(workspace)
    module = workspace.project.space.ai / "tools/mine/mine_one.py"
    old = module.read_bytes()
    signed_module(workspace, "mine_one", "N = 2\n")
    module.write_bytes(old)
    other = workspace.project.write("tools/other/mine/mine_one.py", "N = 5\n")

    assert sign_paths(workspace, other) == []
    assert code_elsewhere(workspace) == "LOCKFILE_MISMATCH"


def test_an_older_version_of_a_module_is_refused_without_a_lockfile(workspace: Workspace) -> None:
    first = '__version__ = "1.0.0"\nN = 1\n'
    module = signed_module(workspace, "mine_one", first)
    signed_module(workspace, "mine_two", "N = 1\n")
    old = module.read_bytes()
    signed_module(workspace, "mine_one", first.replace("1.0.0", "1.1.0"))
    signed(workspace, "1.0.0", USES)
    module.write_bytes(old)
    shutil.rmtree(workspace.project.space.ai / "lockfiles", ignore_errors=True)

    assert code(workspace) == "ROLLBACK"


def test_an_older_text_of_a_module_in_the_same_version_is_refused(
    workspace: Workspace,
) -> None:
    first = '__version__ = "1.0.0"\nN = 1\n'
    module = signed_module(workspace, "mine_one", first)
    signed_module(workspace, "mine_two", "N = 1\n")
    old = module.read_bytes()
    signed_module(workspace, "mine_one", first.replace("N = 1", "N = 2"))
    signed(workspace, "1.0.0", USES)
    assert code(workspace) == "ran"
    module.write_bytes(old)
    shutil.rmtree(workspace.project.space.ai / "lockfiles", ignore_errors=True)
    assert code(workspace) == "ROLLBACK"

    item = workspace.rye().verifier.verify(workspace.project.target(module).verify_target)
    edition = Edition.of(ItemRef(Kind.TOOL, "mine/mine_one"), item, "1.0.0")
    assert workspace.rye().executor.versions.accept(edition)
    assert code(workspace) == "ran"


def test_a_text_of_a_tool_in_the_same_version_counts_after_another(workspace: Workspace) -> None:
    path = signed(workspace, "1.0.0", "print('{{\"a\": 1}}')")
    old = path.read_bytes()
    signed(workspace, "1.0.0", "print('{{\"a\": 2}}')")
    path.write_bytes(old)  # as after a change of branches
    shutil.rmtree(workspace.project.space.ai / "lockfiles", ignore_errors=True)

    assert code(workspace) == "ran"


def replaced_module(workspace: Workspace) -> tuple[Path, bytes]:
    """A module without a version that a newer one has replaced, put back."""
    with_modules(workspace)
    module = workspace.project.space.ai / "tools/mine/mine_one.py"
    old = module.read_bytes()
    signed_module(workspace, "mine_one", "N = 2\n")
    module.write_bytes(old)
    shutil.rmtree(workspace.project.space.ai / "lockfiles")
    return module, old


def test_an_older_text_of_a_module_without_a_version_is_refused_without_a_lockfile(
    workspace: Workspace,
) -> None:
    replaced_module(workspace)

    assert code(workspace) == "ROLLBACK"


def test_a_text_that_a_pull_replaced_is_refused_too(workspace: Workspace) -> None:
    with_modules(workspace)
    module = workspace.project.space.ai / "tools/mine/mine_one.py"
    old = module.read_bytes()
    workspace.project.write("tools/mine/mine_one.py", "N = 2\n")
    workspace.project.sign(module)  # elsewhere: no record of this user space knows of it
    shutil.rmtree(workspace.project.space.ai / "lockfiles")
    assert code(workspace) == "ran"
    module.write_bytes(old)
    shutil.rmtree(workspace.project.space.ai / "lockfiles")

    assert code(workspace) == "ROLLBACK"


def test_an_older_text_that_is_signed_again_counts_and_the_newer_one_does_not(
    workspace: Workspace,
) -> None:
    module, _ = replaced_module(workspace)
    signed_module(workspace, "mine_one", "N = 2\n")
    newer = module.read_bytes()
    signed_module(workspace, "mine_one", "N = 1\n")
    assert code(workspace) == "ran"
    shutil.rmtree(workspace.project.space.ai / "lockfiles")
    module.write_bytes(newer)

    assert code(workspace) == "ROLLBACK"


def test_two_accepted_texts_can_take_turns(workspace: Workspace) -> None:
    module, old = replaced_module(workspace)
    item = workspace.rye().verifier.verify(workspace.project.target(module).verify_target)
    assert workspace.rye().executor.versions.accept(
        Edition.of(ItemRef(Kind.TOOL, "mine/mine_one"), item, "")
    )
    assert code(workspace) == "ran"
    signed_module(workspace, "mine_one", "N = 2\n")
    assert code(workspace) == "ran"
    shutil.rmtree(workspace.project.space.ai / "lockfiles")
    module.write_bytes(old)

    assert code(workspace) == "ran"


def test_another_project_may_have_another_module_of_that_name(workspace: Workspace) -> None:
    _, old = replaced_module(workspace)
    other = workspace.folder / "other"
    shutil.copytree(workspace.project.space.ai, other / ".ai")

    result = workspace.rye().at(str(other)).executor.execute(ExecutionRequest(item_id=TOOL))

    assert result.success, result
    assert (other / ".ai/tools/mine/mine_one.py").read_bytes() == old


def test_the_lockfile_of_another_tool_is_refused(workspace: Workspace) -> None:
    signed(workspace, "1.0.0")
    assert code(workspace) == "ran"
    lock = workspace.project.space.ai / f"lockfiles/tools/{TOOL}.lock.json"
    document = json.loads(lock.read_bytes())
    document["root"]["tool_id"] = "mine/other"
    lock.write_text(json.dumps(document), "utf-8")

    assert code(workspace) == "LOCKFILE_MISMATCH"


def test_another_spelling_of_a_path_in_a_lockfile_is_refused(workspace: Workspace) -> None:
    tool = with_modules(workspace)
    lock = workspace.project.space.ai / f"lockfiles/tools/{TOOL}.lock.json"
    document = json.loads(lock.read_bytes())
    pins = document["verified_deps"]
    pins["./mine_one.py"] = pins.pop("mine_one.py")
    lock.write_text(json.dumps(document), "utf-8")

    assert code(workspace) == "LOCKFILE_MISMATCH"
    assert sign_paths(workspace, tool) == []
