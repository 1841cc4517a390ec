import json
import os
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from ryeos.items.refs import Kind
from tests.support.command_line import CommandLine

ROOT = Path(__file__).resolve().parents[3]
posix_only = pytest.mark.skipif(os.name == "nt", reason="Windows has no such terminals")

FOLDERS = sorted(kind.directory for kind in Kind)


def folders(ai: Path) -> list[str]:
    """The folders that items live in, as far as they are there."""
    return sorted(path.name for path in ai.iterdir() if path.is_dir() and path.name in FOLDERS)


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, without the approvals of locks."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def statuses(actions: list[dict[str, str]]) -> dict[str, str]:
    """The status of each step, by its first two words."""
    return {" ".join(action["what"].split()[:2]): action["status"] for action in actions}


def test_init_makes_user_space_and_a_key_that_counts(cli: CommandLine) -> None:
    done = cli.json("init")

    assert folders(cli.user_space.ai) == FOLDERS
    assert cli.json("keys", "show")["counts"]
    assert statuses(done["actions"]) == {
        "user space": "made",
        "signing key": "made",
        "trust in": "made",
    }


def test_an_empty_folder_becomes_no_project_without_a_flag(cli: CommandLine) -> None:
    done = cli.json("init")

    assert done["project"] is None
    assert done["next"] == "rye init --project"
    assert list(cli.project.iterdir()) == []


@pytest.mark.parametrize("mark", [".ai", ".git", ".hg", ".jj"])
def test_a_folder_that_looks_like_a_project_becomes_one(cli: CommandLine, mark: str) -> None:
    (cli.project / mark).mkdir()

    done = cli.json("init")

    assert done["project"] == str(cli.project)
    assert done["next"] == "rye new tool mine/hello"
    assert folders(cli.project / ".ai") == FOLDERS


def test_a_git_worktree_whose_mark_is_a_file_becomes_a_project(cli: CommandLine) -> None:
    (cli.project / ".git").write_text("gitdir: elsewhere\n", "utf-8")

    assert cli.json("init")["project"] == str(cli.project)


def test_uninstall_removes_the_entries_of_init_and_names_the_remaining_files(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "rye.pyz"
    program.touch()
    monkeypatch.setattr("ryeos.cli.mcp_clients.program_path", lambda: program)
    settings = cli.home / ".cursor" / "mcp.json"
    settings.parent.mkdir()
    before = '{"mcpServers": {"other": {"command": "x"}}}\n'
    settings.write_text(before, "utf-8")
    cli("init", "--project", "--client", "cursor")
    with_rye = settings.read_text("utf-8")

    dry = cli("uninstall", "--dry-run")
    unasked = cli("uninstall", "--no-input")
    still = settings.read_text("utf-8")
    done = cli.json("uninstall", "--yes")

    assert (dry.status, unasked.status) == (0, 4)
    assert f"would remove: rye in Cursor, {settings}" in dry.stdout
    assert still == with_rye != before
    assert json.loads(settings.read_text("utf-8")) == json.loads(before)
    statuses = {one["path"]: one["status"] for one in done["actions"]}
    assert statuses[str(settings)] == "removed"
    assert statuses[str(cli.user_space.ai)] == "left to you"
    assert (cli.user_space.ai / "config" / "keys" / "signing").is_dir()
    assert cli("uninstall", "--yes").status == 0


def test_uninstall_names_settings_of_the_project_completion_and_caches_that_stay(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "rye.pyz"
    program.touch()
    monkeypatch.setattr("ryeos.cli.mcp_clients.program_path", lambda: program)
    cli("init", "--project")
    cli("mcp", "install", "vscode", "--scope", "project")
    script = cli.home / ".config" / "fish" / "completions" / "rye.fish"
    script.parent.mkdir(parents=True)
    script.write_text("#", "utf-8")
    cli("search", "bash")

    done = cli("uninstall", "--yes")

    settings = cli.project / ".vscode" / "mcp.json"
    assert "to remove it: rye mcp uninstall vscode --scope project\n" in done.stdout
    assert f"to remove it: rm {script}\n" in done.stdout
    assert settings.is_file()
    cache = cli.home / ".cache" / "rye"
    assert (f"rm -r {cache}\n" in done.stdout) == (cache.is_dir() and any(cache.iterdir()))


def test_project_without_a_folder_means_this_one(cli: CommandLine) -> None:
    done = cli.json("init", "--project")

    assert done["project"] == str(cli.project)
    assert (cli.project / ".ai" / ".gitignore").read_text("utf-8").splitlines()[1:] == [
        "state/",
        "outputs/",
        "threads/",
        "*.bak",
        "config/keys/signing/",
        "config/keys/receipts/",
    ]


def test_a_project_below_another_becomes_one_of_its_own_on_request(cli: CommandLine) -> None:
    (cli.project / ".ai").mkdir()
    inner = cli.project / "inner"
    inner.mkdir()

    outer_first = cli.json("init", cwd=inner)
    then_inner = cli.json("init", "--project", cwd=inner)

    assert outer_first["project"] == str(cli.project)
    assert then_inner["project"] == str(inner)


def test_project_takes_a_folder_too(cli: CommandLine, tmp_path: Path) -> None:
    other = tmp_path / "other place"
    other.mkdir()

    done = cli.json("init", "--project", str(other))

    assert done["project"] == str(other)
    assert folders(other / ".ai") == FOLDERS


def test_a_second_run_changes_nothing_and_reports_that(cli: CommandLine) -> None:
    cli("init", "--project")
    before = tree(cli.home), tree(cli.project)

    again = cli("init", "--project")

    assert again.status == 0
    assert again.stdout == "everything is there already\n"
    assert again.stderr == "next: rye new tool mine/hello\n"
    assert (tree(cli.home), tree(cli.project)) == before
    verbose = cli("init", "--project", "-v").stdout
    assert verbose.startswith(f"there already: user space, {cli.user_space.ai}\n")


def test_only_missing_parts_are_made(signer: CommandLine) -> None:
    fingerprint = signer.json("keys", "show")["fingerprint"]
    ignore = signer.project / ".ai" / ".gitignore"
    ignore.parent.mkdir()
    ignore.write_bytes(b"mine\n")

    done = signer.json("init")

    assert signer.json("keys", "show")["fingerprint"] == fingerprint
    assert ignore.read_bytes() == b"mine\n"
    assert statuses(done["actions"]) == {
        "user space": "made",
        "signing key": "there already",
        "trust in": "there already",
        "project space": "made",
        "ignore list": "there already",
    }


def test_a_lost_document_of_the_own_key_is_made_again(signer: CommandLine) -> None:
    Path(signer.json("keys", "show")["document"]).unlink()

    done = signer.json("init")

    assert statuses(done["actions"])["trust in"] == "made"
    assert signer.json("keys", "show")["counts"]


def test_user_leaves_the_project_alone(cli: CommandLine) -> None:
    (cli.project / ".git").mkdir()

    done = cli.json("init", "--user")

    assert done["project"] is None
    assert not (cli.project / ".ai").exists()


def test_the_flag_no_key_makes_no_key_and_names_the_next_command(cli: CommandLine) -> None:
    done = cli("init", "--no-key", "--project")

    assert done.status == 0
    assert not cli.key_directory.exists()
    assert done.stderr.endswith("next: rye keys generate\n")


def test_a_dry_run_makes_nothing(cli: CommandLine) -> None:
    done = cli.json("init", "--project", "--dry-run")

    assert statuses(done["actions"]) == {
        "user space": "would make",
        "signing key": "would make",
        "project space": "would make",
        "ignore list": "would make",
    }
    assert list(cli.home.iterdir()) + list(cli.project.iterdir()) == []


def test_a_dry_run_recognises_existing_files(signer: CommandLine) -> None:
    signer("init", "--project")

    done = signer.json("init", "--project", "--dry-run")

    assert set(statuses(done["actions"]).values()) == {"there already"}


def test_the_home_folder_is_no_project(cli: CommandLine) -> None:
    refused = cli("init", "--project", cwd=cli.home)

    assert refused.status == 2
    assert refused.stderr == (
        f"error: {cli.home}: expected a project folder, found the base of user space\n"
        "  hint: change to the project's folder, or name it: --project DIR\n"
    )


def test_init_in_the_home_folder_sets_up_user_space_only(cli: CommandLine) -> None:
    (cli.home / ".git").mkdir()

    assert cli.json("init", cwd=cli.home)["project"] is None


def test_user_and_project_contradict_each_other(cli: CommandLine) -> None:
    refused = cli("init", "--user", "--project")

    assert refused.status == 2
    assert refused.stderr == (
        "error: --user, --project: expected one of them\n  hint: see: rye init --help\n"
    )


def test_a_project_that_is_no_folder_is_refused(cli: CommandLine) -> None:
    refused = cli("init", "--project", "nowhere")

    assert refused.status == 2
    assert refused.stderr.startswith("error: no project: nowhere is not a folder\n")


def test_without_a_home_nothing_is_made(cli: CommandLine) -> None:
    refused = cli("init", "--project", HOME="")

    assert refused.status == 6
    assert refused.stderr.startswith("error: no user space: expected a home folder, found ")
    assert list(cli.project.iterdir()) == []


def test_a_home_that_cannot_be_written_to_is_named(cli: CommandLine, tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_bytes(b"")

    refused = cli("init", HOME=str(home))

    assert refused.status == 1
    assert refused.stderr.startswith(f"error: {home / '.ai'}: not a directory\n")


def test_user_space_may_be_in_another_folder(cli: CommandLine, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"

    cli("init", "--user-space", str(elsewhere))

    assert folders(elsewhere / ".ai") == FOLDERS
    assert list(cli.home.iterdir()) == []


def test_a_broken_key_is_reported_and_kept(cli: CommandLine) -> None:
    cli.key_directory.mkdir(parents=True)
    (cli.key_directory / "private_key.pem").write_bytes(b"broken")

    refused = cli("init")

    assert refused.status == 6
    assert "private_key.pem: expected -----BEGIN PRIVATE KEY-----" in refused.stderr
    assert (cli.key_directory / "private_key.pem").read_bytes() == b"broken"


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps permissions elsewhere")
def test_user_space_is_private_and_a_project_is_not(cli: CommandLine) -> None:
    cli("init", "--project")

    assert stat.S_IMODE(cli.user_space.ai.stat().st_mode) == 0o700
    assert stat.S_IMODE(cli.project_space.ai.stat().st_mode) & 0o055 == 0o055


def test_init_reports_its_changes_and_the_next_command(cli: CommandLine) -> None:
    done = cli("init", "--project")

    lines = done.stdout.splitlines()
    assert lines[0] == f"made: user space, {cli.user_space.ai}"
    assert lines[1].startswith("made: signing key ")
    assert lines[-2:] == [
        f"made: project space, {cli.project / '.ai'}",
        f"made: ignore list, {cli.project / '.ai' / '.gitignore'}",
    ]
    may_write, following = done.stderr.splitlines()
    assert may_write.startswith("what agents start may write: {project}, {tmp}, ~/.cache/pip, ")
    assert following == "next: rye new tool mine/hello"


def test_existing_problems_are_reported(signer: CommandLine) -> None:
    trusted = signer.user_space.ai / "config/keys/trusted/0123456789abcdef.toml"
    trusted.write_bytes(b"broken")

    done = signer("init")

    assert done.status == 0
    assert f"warning: trust: {trusted}: " in done.stderr


# --- clients --------------------------------------------------------------------------------------


class Program:
    """The checkout, started as a program: clients are given the file that was started."""

    def __init__(self, cli: CommandLine) -> None:
        self._argv = [sys.executable, str(ROOT / "rye.py")]
        self._env = {**cli.env}
        self._cwd = cli.project

    def __call__(self, *argv: str) -> "subprocess.CompletedProcess[str]":
        """Run it without a terminal."""
        return subprocess.run(
            [*self._argv, *argv],
            cwd=self._cwd,
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def at_a_terminal(self, *argv: str, typed: bytes) -> str:
        """Run it with a user who types; the text on the terminal in the end."""
        import pty

        here, there = pty.openpty()
        with subprocess.Popen(
            [*self._argv, *argv],
            cwd=self._cwd,
            env=self._env,
            stdin=there,
            stdout=there,
            stderr=there,
            start_new_session=True,
        ) as process:
            os.close(there)
            os.write(here, typed)
            shown = b""
            with suppress(OSError):  # Linux ends a terminal without a process like this
                while data := os.read(here, 4096):
                    shown += data
            os.close(here)
        assert process.returncode == 0, shown
        return shown.decode()


@pytest.fixture
def rye(cli: CommandLine) -> Program:
    return Program(cli)


@pytest.fixture
def codex(cli: CommandLine) -> Path:
    """The settings of Codex, of a user who has it."""
    path = cli.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('model = "o"\n', "utf-8")
    return path


def test_init_adds_rye_to_the_clients_that_are_named(rye: Program, cli: CommandLine) -> None:
    first = json.loads(rye("init", "--client", "cursor", "--client", "codex", "--json").stdout)
    second = json.loads(rye("init", "--client", "cursor", "--json").stdout)

    assert [(a["what"], a["status"]) for a in first["actions"][-2:]] == [
        ("rye in Cursor", "made"),
        ("rye in Codex", "made"),
    ]
    assert second["actions"][-1]["status"] == "there already"
    assert "rye.py" in (cli.home / ".cursor" / "mcp.json").read_text("utf-8")


def test_a_dry_run_adds_rye_to_no_client(rye: Program, cli: CommandLine) -> None:
    done = json.loads(rye("init", "--client", "cursor", "--dry-run", "--json").stdout)

    assert done["actions"][-1]["status"] == "would make"
    assert list(cli.home.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("curser", "error: client 'curser': no such client\n  hint: did you mean cursor?\n"),
        ("kiro", "error: kiro: rye does not know where its settings are\n"),
    ],
)
def test_a_client_that_cannot_be_set_up_stops_init_before_it_began(
    name: str, problem: str, rye: Program, cli: CommandLine
) -> None:
    done = rye("init", "--client", name)

    assert done.returncode == 2
    assert done.stderr.startswith(problem)
    assert list(cli.home.iterdir()) == []


def test_a_client_that_only_its_own_program_sets_up_is_left_to_the_user(rye: Program) -> None:
    action = json.loads(rye("init", "--client", "claude-code", "--json").stdout)["actions"][-1]

    assert action["status"] == "left to you"
    assert action["what"].startswith("rye in Claude Code: run: claude mcp add ")


def test_without_a_terminal_no_question_is_asked(rye: Program, codex: Path) -> None:
    done = rye("init")

    assert "add rye to" not in done.stderr
    assert codex.read_text("utf-8") == 'model = "o"\n'


@posix_only
@pytest.mark.parametrize(("typed", "agreed"), [(b"y\n", True), (b"\n", False), (b"no\n", False)])
def test_a_person_gets_a_question_about_the_existing_clients(
    *, typed: bytes, agreed: bool, rye: Program, codex: Path
) -> None:
    shown = rye.at_a_terminal("init", typed=typed)

    assert "add rye to the settings of Codex? [y/N] " in shown
    assert ("[mcp_servers.rye]" in codex.read_text("utf-8")) is agreed


@posix_only
def test_a_person_can_switch_questions_off(rye: Program, codex: Path) -> None:
    shown = rye.at_a_terminal("init", "--no-input", typed=b"y\n")

    assert "add rye to" not in shown
    assert codex.read_text("utf-8") == 'model = "o"\n'
