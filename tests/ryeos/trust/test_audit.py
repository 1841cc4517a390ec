import sys
from pathlib import Path

import pytest

from lillux.signing import KeyPair, generate_keypair
from ryeos.items.errors import ItemNotFoundError
from ryeos.items.refs import PROJECT, Kind
from ryeos.trust.audit import OUTSIDE, AuditReport, audit, counts, targets_at, targets_in_spaces
from ryeos.trust.verify import Target
from tests.support.signed_files import sign_partly, sign_text
from tests.support.workspace import Workspace

posix = pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege there")


@pytest.fixture
def stranger() -> KeyPair:
    return generate_keypair()


def report_of(workspace: Workspace, path: Path) -> AuditReport:
    (report,) = audit([workspace.project.target(path).verify_target], workspace.rye().verifier)
    return report


def relative(targets: list[Target], base: Path) -> list[str]:
    return [target.path.relative_to(base).as_posix() for target in targets]


# --- states ---------------------------------------------------------------------------------------


def test_a_valid_file_is_described_with_its_signer(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("a/x")

    report = report_of(workspace, path)

    assert report.state == "valid"
    assert report.describe() == {
        "ref": "tool:a/x",
        "path": str(path),
        "state": "valid",
        "fingerprint": workspace.fingerprint,
        "signer": "local",
        "signed_at": "2026-01-02T03:04:05Z",
        "coverage": "full",
        "identity": "bound",
    }


def test_the_provenance_of_a_file_from_a_registry_is_reported(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("a/x")
    first, newline, rest = path.read_text("utf-8").partition("\n")
    path.write_text(f"{first}|rye-registry@ada{newline}{rest}", "utf-8")

    report = report_of(workspace, path)

    assert report.state == "valid"
    assert report.describe()["provenance"] == "rye-registry@ada"


def test_an_unsigned_file_is_described_with_a_hint(workspace: Workspace) -> None:
    path = workspace.project.tool("x")

    assert report_of(workspace, path).describe() == {
        "ref": "tool:x",
        "path": str(path),
        "state": "unsigned",
        "problem": "unsigned item, expected a rye:signed line",
        "hint": f"read it, and if you trust it: rye sign {path}",
    }


def test_a_file_by_a_stranger_is_described_with_the_key(
    workspace: Workspace, stranger: KeyPair
) -> None:
    path = workspace.project.tool("x")
    path.write_text(sign_text(Kind.TOOL, ".py", path.read_text("utf-8"), stranger), "utf-8")

    report = report_of(workspace, path)

    assert report.state == "untrusted-key"
    assert report.problem == f"signed by the untrusted key {report.fingerprint}"
    assert report.describe()["fingerprint"] == report.fingerprint


def test_each_state_has_its_cause(workspace: Workspace) -> None:
    project = workspace.project
    tampered = project.signed_tool("tampered")
    tampered.write_bytes(tampered.read_bytes() + b"\n")
    (project.space.ai / "tools" / "folder.py").mkdir()
    states = {
        "tampered": tampered,
        "bad-format": project.space.ai / "tools" / "folder.py",
        "skipped": project.write("tools/readme.txt", "text"),
        "unsigned": project.write("tools/data.json", "{}"),
    }

    found = {state: report_of(workspace, path).state for state, path in states.items()}

    assert found == {state: state for state in states}


def test_files_of_package_managers_are_skipped_unless_signed(
    workspace: Workspace,
) -> None:
    project = workspace.project
    unsigned = project.write("tools/a/package.json", "{}")
    signed = project.signed("tools/b/package.json", "{}")
    tampered = project.signed("tools/c/package.json", "{}")
    tampered.write_text("[]", encoding="utf-8")

    states = [report_of(workspace, path).state for path in (unsigned, signed, tampered)]

    assert states == ["skipped", "valid", "tampered"]


def test_a_problem_with_one_file_does_not_hide_other_files(workspace: Workspace) -> None:
    project = workspace.project
    project.write("tools/a.py", b"\xff")
    project.signed_tool("b")
    project.write("tools/c.py", b"#" * (9 * 1024 * 1024))
    project.signed_tool("d")

    reports = workspace.rye().audit(list(targets_in_spaces([project.space])))

    assert counts(reports) == {"bad-format": 2, "valid": 2}


def test_partial_coverage_is_valid_but_marked(workspace: Workspace, stranger: KeyPair) -> None:
    workspace.user.trust(stranger)
    path = workspace.project.directive("x")
    signed = sign_partly(Kind.DIRECTIVE, path.read_text("utf-8"), stranger)
    path.write_text(signed, encoding="utf-8")

    report = report_of(workspace, path)

    assert (report.state, report.is_partial) == ("valid", True)
    assert report.describe()["coverage"] == "partial"


def test_in_dev_mode_the_state_is_unverified(workspace: Workspace) -> None:
    path = workspace.project.tool("x")
    verifier = workspace.rye(dev_mode=True).verifier

    (report,) = audit([workspace.project.target(path).verify_target], verifier)

    assert report.state == "unverified"


@posix
def test_a_link_out_of_its_space_is_never_valid(
    workspace: Workspace,
) -> None:
    """`run` refuses it, so a report must not call it valid."""
    mine = workspace.user.signed_tool("mine")
    link = workspace.project.space.ai / "tools" / "link.py"
    link.parent.mkdir()
    link.symlink_to(mine)

    report = report_of(workspace, link)

    assert report.state == "tampered"
    assert report.problem == "symlink escape: the file lies outside the project space"
    assert report.hint == "put the file itself into the space instead of a link"


@posix
def test_a_link_within_its_space_gives_an_item_no_other_id(workspace: Workspace) -> None:
    path = workspace.project.signed_tool("x")
    link = path.with_name("y.py")
    link.symlink_to("x.py")

    assert report_of(workspace, link).state == "unbound"


@posix
def test_a_file_without_an_item_id_is_audited_without_a_reference(workspace: Workspace) -> None:
    path = workspace.project.write("bundles/x/manifest.yaml", "a: 1\n")
    target = Target(path=path, kind=Kind.TOOL, space=workspace.project.space)

    (report,) = audit([target], workspace.rye().verifier)

    assert (report.state, report.ref) == ("unsigned", None)


# --- which files ----------------------------------------------------------------------------------


def test_every_item_file_of_the_spaces_is_audited(workspace: Workspace) -> None:
    project = workspace.project
    for name in (
        "tools/b.py",
        "tools/a/c.txt",
        "tools/__pycache__/x.pyc",
        "tools/.hidden.py",
        "tools/.git/x.py",
        "tools/node_modules/x.js",
        "tools/data.json",
        "tools/data.json.sig",
        "knowledge/k.md",
        "config/c.toml",
        "state/s.py",
        "lockfiles/l.json",
        "bundles/x/manifest.yaml",
        "bundles/x/other.yaml",
        "top.py",
    ):
        project.write(name, "")

    found = relative(list(targets_in_spaces([project.space])), project.space.ai)

    assert found == [
        "bundles/x/manifest.yaml",
        "config/c.toml",
        "knowledge/k.md",
        "tools/b.py",
        "tools/data.json",
        "tools/a/c.txt",
    ]


def test_a_path_may_be_a_file(workspace: Workspace) -> None:
    path = workspace.project.directive("x")

    (target,) = targets_at(path, workspace.context().spaces)

    assert target == Target(path=path, kind=Kind.DIRECTIVE, space=workspace.project.space)


def test_a_path_may_be_a_part_of_a_space(workspace: Workspace) -> None:
    path = workspace.project.tool("a/x")
    workspace.project.tool("b/y")

    targets = targets_at(path.parent, workspace.context().spaces)

    assert [target.path for target in targets] == [path]


def test_a_path_may_be_a_project(workspace: Workspace) -> None:
    path = workspace.project.tool("x")

    targets = targets_at(workspace.project_path, workspace.context().spaces)

    assert [(target.path, target.space.label) for target in targets] == [(path, PROJECT)]


def test_a_path_may_be_a_tree_with_folders_of_items_anywhere(workspace: Workspace) -> None:
    tree = workspace.folder / "tree"
    for name in ("one/.ai/tools/x.py", "two/deep/.ai/tools/y.py", "two/not/z.py"):
        (tree / name).parent.mkdir(parents=True)
        (tree / name).write_text("", encoding="utf-8")

    targets = targets_at(tree, workspace.context().spaces)

    assert relative(targets, tree) == ["one/.ai/tools/x.py", "two/deep/.ai/tools/y.py"]
    assert {target.space.label for target in targets} == {OUTSIDE}


def test_outside_of_the_spaces_only_the_users_keys_are_trusted(
    workspace: Workspace, stranger: KeyPair
) -> None:
    tree = workspace.folder / "tree" / ".ai" / "tools"
    tree.mkdir(parents=True)
    mine = sign_text(Kind.TOOL, ".py", "x = 1\n", workspace.keypair)
    theirs = sign_text(Kind.TOOL, ".py", "x = 1\n", stranger)
    (tree / "mine.py").write_text(mine, encoding="utf-8")
    (tree / "theirs.py").write_text(theirs, encoding="utf-8")
    keys = workspace.folder / "tree" / ".ai" / "config" / "keys" / "trusted"
    keys.mkdir(parents=True)
    document = workspace.user.trust(stranger)
    document.rename(keys / document.name)

    reports = workspace.rye().audit(targets_at(tree.parents[1], workspace.context().spaces))

    states = {report.target.path.name: report.state for report in reports}
    assert (states["mine.py"], states["theirs.py"]) == ("valid", "untrusted-key")


@pytest.mark.parametrize("name", ["nothing", "empty", "x" * 5000, "a\0b"])
def test_a_path_without_any_item_is_not_found(workspace: Workspace, name: str) -> None:
    (workspace.folder / "empty").mkdir()

    with pytest.raises(ItemNotFoundError):
        targets_at(workspace.folder / name, workspace.context().spaces)


@posix
def test_circular_links_of_folders_are_handled(workspace: Workspace) -> None:
    path = workspace.project.tool("x")
    (path.parent / "loop").symlink_to(path.parent)

    targets = targets_at(workspace.project_path, workspace.context().spaces)

    assert [target.path for target in targets] == [path]
