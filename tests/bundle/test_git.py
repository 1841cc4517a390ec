"""The tool ``rye/code/git``: its answers, and that a repository's configuration runs nothing."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import require_program
from tests.support.tool_functions import call, refused

GIT = "rye/code/git"
posix = pytest.mark.skipif(sys.platform == "win32", reason="shell scripts")


@pytest.fixture(autouse=True)
def plain_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user with a name and nothing else."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ann\n\temail = ann@example.org\n[init]\n\tdefaultBranch = main\n",
        encoding="utf-8",
    )
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a repository of one commit."""
    require_program("git")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    act(folder, "init")
    act(folder, "add", paths=["."])
    act(folder, "commit", message="begin\n\nwith two lines\n")
    return folder


def act(project: Path, action: str, **params: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    answer = call(GIT, project, action=action, **params)
    assert answer["success"], answer
    return answer


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, encoding="utf-8", check=True
    )
    return done.stdout


def test_a_change_is_seen_added_and_committed(project: Path) -> None:
    (project / "a.txt").write_text("one\n2\n", encoding="utf-8")
    (project / "ä b.txt").write_text("new\n", encoding="utf-8")

    seen = act(project, "status")
    patch = act(project, "diff")["text"]
    added = act(project, "add", paths=["a.txt"])
    staged = act(project, "diff", staged=True, summary=True)["text"]
    made = act(project, "commit", message="change")["commit"]

    assert seen["branch"]["head"] == "main"
    assert seen["changes"] == [
        {"path": "a.txt", "state": "changed", "index": ".", "work_tree": "M"},
        {"path": "ä b.txt", "state": "untracked"},
    ]
    assert "\n-two\n+2\n" in patch
    assert added["changes"][0]["index"] == "M"
    assert "1 file changed" in staged
    assert (made["subject"], made["author"]) == ("change", "Ann")
    assert git(project, "log", "-1", "--format=%B").strip() == "change"


def test_commits_are_listed_in_parts(project: Path) -> None:
    for number in range(3):
        (project / "a.txt").write_text(f"{number}\n", encoding="utf-8")
        act(project, "commit", all=True, message=f"number {number}")

    first = act(project, "log", limit=2)
    rest = act(project, "log", offset=first["next_offset"])
    of_file = act(project, "log", paths=["none"], since="2.weeks", author="Ann")

    assert [one["subject"] for one in first["commits"]] == ["number 2", "number 1"]
    assert (rest["commits"][-1]["subject"], rest["commits"][-1]["body"]) == (
        "begin",
        "with two lines",
    )
    assert first["commits"][0]["parents"] == [first["commits"][1]["commit"]]
    assert of_file["commits"] == []


def test_a_commit_a_file_of_it_and_its_writers_are_shown(project: Path) -> None:
    assert "+two" in act(project, "show")["text"]
    assert act(project, "show", ref="HEAD:a.txt")["text"] == "one\ntwo\n"
    assert "(Ann " in act(project, "blame", paths=["a.txt"])["text"]
    assert act(project, "show", max_bytes=1000, ref="HEAD").get("truncated") is None


def test_branches_are_made_and_switched(project: Path) -> None:
    act(project, "create_branch", name="side")

    reply = act(project, "switch", ref="side")
    listed = act(project, "branches")["branches"]

    assert reply["branch"]["head"] == "side"
    assert {one["name"]: one.get("current", False) for one in listed} == {
        "main": False,
        "side": True,
    }


def test_a_change_is_unstaged_and_a_commit_amended(project: Path) -> None:
    (project / "b.txt").write_text("b\n", encoding="utf-8")
    act(project, "add", paths=["b.txt"])

    reply = act(project, "unstage", paths=["b.txt"])
    act(project, "commit", message="begin anew", amend=True)

    assert reply["changes"] == [{"path": "b.txt", "state": "untracked"}]
    assert [one["subject"] for one in act(project, "log")["commits"]] == ["begin anew"]


def test_a_long_patch_is_cut(project: Path) -> None:
    (project / "a.txt").write_text("line\n" * 100_000, encoding="utf-8")

    answer = act(project, "diff", max_bytes=1000)

    assert (len(answer["text"]), answer["truncated"]) == (1000, True)


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"action": "show", "ref": "--output=x"}, "ref: expected a revision, found '--output=x'"),
        ({"action": "diff", "ref": "HEAD", "to": "-O x"}, "to: expected a revision, found '-O x'"),
        ({"action": "create_branch", "name": "-D"}, "name: expected that of a branch, found '-D'"),
        ({"action": "add"}, "add: expected paths, found none"),
        ({"action": "commit"}, "commit: expected message, found none"),
        ({"action": "commit", "message": "x"}, "commit: nothing was added"),
        ({"action": "status", "path": ".."}, "path: expected a folder in {project}, found '..'"),
        ({"action": "init"}, "{project}: there is a repository already"),
    ],
)
def test_a_failed_action_is_reported(params: dict[str, Any], problem: str, project: Path) -> None:
    assert refused(GIT, project, **params) == problem.format(project=project)
    assert not (project / "x").exists()


def test_paths_are_no_patterns_and_do_not_lead_out(project: Path) -> None:
    assert "did not match" in refused(GIT, project, action="add", paths=["*.txt"])
    assert "outside repository" in refused(GIT, project, action="add", paths=["../home"])
    assert "did not match" in refused(GIT, project, action="add", paths=[":(top)a.txt"])
    assert "did not match" in refused(GIT, project, action="add", paths=["--all"])


def test_a_repository_above_the_project_is_not_used(project: Path) -> None:
    inner = project / "inner"
    inner.mkdir()

    problem = refused(GIT, inner, action="log")

    assert "not a git repository" in problem


def test_a_repository_whose_work_tree_is_elsewhere_is_not_used(project: Path) -> None:
    git(project, "config", "core.worktree", str(project.parent))

    assert refused(GIT, project, action="status").endswith(
        f"expected a repository in {project}, found one outside"
    )


@posix
def test_a_git_folder_that_leads_to_another_repository_is_not_used(
    project: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    planted = project / "planted"
    (planted / ".git").mkdir(parents=True)
    (planted / ".git/HEAD").write_text("ref: refs/heads/main\n", "utf-8")
    (planted / ".git/commondir").write_text(f"{other}/.git\n", "utf-8")

    assert "leads to a repository elsewhere" in refused(GIT, project, action="log", path="planted")


@posix
@pytest.mark.parametrize("place", ["COMMIT_EDITMSG", "logs/HEAD", "index", "refs/heads/hooks"])
def test_no_file_is_written_through_a_link_of_a_git_folder(
    project: Path, tmp_path: Path, place: str
) -> None:
    outside = tmp_path / "outside"
    outside.write_text("kept\n", encoding="utf-8")
    link = project / ".git" / place
    link.unlink(missing_ok=True)
    link.symlink_to(outside)
    (project / "a.txt").write_text("two\n", encoding="utf-8")

    problem = refused(GIT, project, action="commit", message="$(evil)", all=True)

    assert problem == f"{link}: it is a link that leads out of the project"
    assert outside.read_text("utf-8") == "kept\n"


@posix
def test_a_git_of_the_project_is_not_run(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted = project / "bin" / "git"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
    planted.chmod(0o755)
    monkeypatch.setenv("PATH", str(planted.parent))

    problem = refused(GIT, project, action="status")

    assert problem == f"{planted}: expected a git of the user's, found one in the project"
    assert not (project / "ran").exists()


@posix
def test_hooks_that_the_configuration_names_do_not_run(project: Path) -> None:
    git(project, "config", "hook.evil.command", "touch ran")
    git(project, "config", "hook.evil.event", "pre-commit")
    (project / "a.txt").write_text("two\n", encoding="utf-8")

    act(project, "commit", message="x", all=True)

    assert not (project / "ran").exists()


def test_hooks_may_be_links(project: Path, tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("#!/bin/sh\n", encoding="utf-8")
    (project / ".git/hooks").mkdir(exist_ok=True)
    (project / ".git/hooks/pre-commit").symlink_to(tmp_path / "hook")

    assert act(project, "status")["total"] == 0


def test_no_file_of_the_user_is_reported_as_a_revision_to_ignore(
    project: Path, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("s3cret\n", encoding="utf-8")
    git(project, "config", "blame.ignoreRevsFile", str(tmp_path / "token"))

    problem = refused(GIT, project, action="blame", paths=["a.txt"])

    assert problem == "git blame: blame.ignoreRevsFile names no list of commits"


def test_another_users_git_folder_is_not_used_and_that_of_a_worktree_is(project: Path) -> None:
    thief, worktree = project.parent / "thief", project.parent / "worktree"
    thief.mkdir()
    (thief / ".git").write_text(f"gitdir: {project / '.git'}\n", encoding="utf-8")
    git(project, "worktree", "add", "-q", str(worktree))

    assert refused(GIT, thief, action="log") == (
        f"{thief}/.git: it leads to {project}/.git, which knows nothing of it"
    )
    assert act(worktree, "log")["commits"][0]["subject"] == "begin"


ACTIONS: tuple[dict[str, Any], ...] = (
    {"action": "status"},
    {"action": "diff"},
    {"action": "diff", "staged": True},
    {"action": "diff", "ref": "HEAD~1", "to": "HEAD"},
    {"action": "show"},
    {"action": "show", "ref": "HEAD:a.txt"},
    {"action": "log"},
    {"action": "blame", "paths": ["a.txt"]},
    {"action": "branches"},
    {"action": "create_branch", "name": "side"},
    {"action": "add", "paths": ["."]},
    {"action": "unstage", "paths": ["a.txt"]},
    {"action": "commit", "message": "all\n\nAcked-by: me", "all": True},
    {"action": "commit", "message": "more", "amend": True},
    {"action": "switch", "ref": "side"},
)


@posix
def test_no_program_that_a_repository_names_runs(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "a.txt").write_text("one\n2\n", encoding="utf-8")
    act(project, "commit", all=True, message="second")
    marker = project.parent / "ran"
    evil = project.parent / "evil"
    evil.write_text(
        f'#!/bin/sh\necho "$0 $*" >> {shlex.quote(str(marker))}\ncat 2>/dev/null\n',
        encoding="utf-8",
    )
    evil.chmod(0o755)
    for hook in ("pre-commit", "commit-msg", "post-commit", "post-checkout", "post-index-change"):
        (project / ".git/hooks" / hook).write_bytes(evil.read_bytes())
        (project / ".git/hooks" / hook).chmod(0o755)
    names = (
        *("core.fsmonitor", "core.pager", "pager.log", "core.editor", "diff.external"),
        *("core.hooksPath", "core.sshCommand", "core.askPass", "credential.helper"),
        *("filter.x.clean", "filter.x.smudge", "filter.x.process", "filter.\udcff=y.clean"),
        *("diff.x.command", "diff.x.textconv", "merge.x.driver", "gpg.program", "gpg.ssh.program"),
        *("trailer.see.command", "trailer.see.cmd", "sequence.editor", "core.alternateRefsCommand"),
        *("gpg.ssh.defaultKeyCommand", "interactive.diffFilter", "alias.status", "alias.log"),
        *("browser.x.cmd", "uploadpack.packObjectsHook", "remote.origin.uploadpack"),
    )
    for name in names:
        git(project, "config", name, str(evil))
    for name in (
        "commit.gpgSign",
        "log.showSignature",
        "filter.x.required",
        "remote.origin.promisor",
    ):
        git(project, "config", name, "true")
    git(project, "config", "remote.origin.url", f"ext::{evil} %S")
    git(project, "config", "format.pretty", "%G?")
    attributes = b"* filter=x diff=x merge=x\nb.txt filter=\xff=y\n"
    (project / ".gitattributes").write_bytes(attributes)
    (project / "a.txt").write_text("three\n", encoding="utf-8")
    (project / "b.txt").write_text("four\n", encoding="utf-8")
    os.utime(project / "a.txt", (1, 1))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(evil))
    monkeypatch.setenv("GIT_PAGER", str(evil))

    for params in ACTIONS:
        act(project, **params)

    assert not marker.exists(), marker.read_text("utf-8")
    null = subprocess.DEVNULL  # the trap is one:
    subprocess.run(["git", "-C", project, "status"], stdin=null, capture_output=True, check=False)
    assert marker.exists()


@posix
def test_no_program_that_a_submodule_names_runs(project: Path) -> None:
    other, marker = project.parent / "other", project.parent / "ran"
    other.mkdir()
    (other / "in.txt").write_text("in\n", encoding="utf-8")
    (other / ".gitattributes").write_text("* filter=x diff=x\n", encoding="utf-8")
    act(other, "init")
    act(other, "add", paths=["."])
    act(other, "commit", message="inner")
    allow = ("-c", "protocol.file.allow=always")
    git(project, *allow, "submodule", "--quiet", "add", str(other), "sub")
    act(project, "commit", all=True, message="with a submodule")
    trap = f"touch {shlex.quote(str(marker))}; cat"
    for name in ("core.fsmonitor", "filter.x.clean", "diff.x.textconv", "diff.x.command"):
        git(project / "sub", "config", name, trap)
    (project / "sub/in.txt").write_text("changed\n", encoding="utf-8")
    git(project, "config", "diff.submodule", "diff")
    git(project, "config", "diff.ignoreSubmodules", "none")
    git(project, "config", "submodule.recurse", "true")
    git(project, "config", "submodule.sub.ignore", "none")
    git(project, "config", "status.submoduleSummary", "true")

    for params in ACTIONS[:-1]:
        if params["action"] != "commit":
            act(project, **params)
            assert not marker.exists(), params
    call(GIT, project, action="commit", message="x", all=True)
    act(project, "switch", ref="side")

    assert not marker.exists()
    git(project, "-c", "core.fsmonitor=", "status")
    assert marker.exists()  # the trap is one


@posix
def test_hooks_run_on_request(project: Path) -> None:
    hook = project / ".git/hooks/post-commit"
    hook.write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
    hook.chmod(0o755)
    (project / "a.txt").write_text("2\n", encoding="utf-8")

    act(project, "commit", all=True, message="x", hooks=True)

    assert (project / "ran").exists()


@posix
def test_filters_of_the_users_own_configuration_run(project: Path) -> None:
    with (Path(os.environ["HOME"]) / ".gitconfig").open("a", encoding="utf-8") as file:
        file.write('[filter "up"]\n\tclean = tr a-z A-Z\n')
    (project / ".gitattributes").write_text("*.up filter=up\n", encoding="utf-8")
    (project / "b.up").write_text("tea\n", encoding="utf-8")

    act(project, "add", paths=["b.up"])

    assert act(project, "show", ref=":b.up")["text"] == "TEA\n"
