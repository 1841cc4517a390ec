import json
import os
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from ryeos.imports.clients import CLIENTS, NAMES
from tests.support.command_line import CommandLine, program_of
from tests.support.executables import make_program
from tests.support.replaced import kept_copies
from tests.support.terminal import Terminal

ROOT = Path(__file__).resolve().parents[3]
WRITABLE = [client.name for client in CLIENTS if client.user and not client.user_is_its_own]
posix_only = pytest.mark.skipif(os.name == "nt", reason="programs of these tests are for POSIX")
IN_PROJECTS = [client.name for client in CLIENTS if client.project]


@pytest.fixture
def rye(cli: CommandLine, tmp_path: Path) -> CommandLine:
    """A command line whose user has a `rye.pyz`."""
    program = tmp_path / "bin" / "rye.pyz"
    program.parent.mkdir()
    program.touch()
    cli.env["RYE_TEST_PROGRAM"] = str(program)
    return cli


def options(rye: CommandLine) -> tuple[str, ...]:
    """Options that name the program: this process was not started from a file of Rye."""
    return ("--program", rye.env["RYE_TEST_PROGRAM"], "--python", sys.executable)


def argv(rye: CommandLine) -> list[str]:
    """The command line of the server."""
    return [sys.executable, rye.env["RYE_TEST_PROGRAM"], "mcp"]


# --- config ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_config_prints_absolute_paths_for_every_client(name: str, rye: CommandLine) -> None:
    done = rye.json("mcp", "config", name, *options(rye))

    entry = done["entry"]
    command = entry["command"]
    words = command if isinstance(command, list) else [command, *entry["args"]]
    assert words == argv(rye)
    assert Path(words[0]).is_absolute()
    assert Path(words[1]).is_absolute()
    assert "env" not in entry or entry["env"] == {}
    read: Any = tomllib.loads if done["format"] == "toml" else json.loads
    assert "rye" in str(read(done["text"]))


def test_config_writes_nothing(rye: CommandLine) -> None:
    done = rye("mcp", "config", "claude-code", *options(rye))

    assert json.loads(done.stdout)["mcpServers"]["rye"]["args"][1] == "mcp"
    entry = json.loads(done.stdout)["mcpServers"]["rye"]
    words = shlex.join([entry["command"], *entry["args"]])
    assert f"or run: claude mcp add --transport stdio --scope user rye -- {words}\n" in done.stderr
    assert list(rye.home.iterdir()) == []


def test_another_user_space_is_handed_on(rye: CommandLine, tmp_path: Path) -> None:
    entry = rye.json("mcp", "config", "cursor", *options(rye), USER_SPACE=str(tmp_path))["entry"]

    assert entry["env"] == {"USER_SPACE": str(tmp_path)}


def test_a_program_that_was_not_started_from_a_file_asks_for_one(cli: CommandLine) -> None:
    done = cli("mcp", "install", "cursor")

    assert done.status == 2
    assert done.stderr == (
        "error: this program was not started from a file that a client could start\n"
        "  hint: name one: --program /path/to/rye.pyz\n"
    )


def test_the_path_of_the_program_is_plain_and_keeps_its_link(
    rye: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "current.pyz").symlink_to(rye.env["RYE_TEST_PROGRAM"])

    done = rye.json("mcp", "config", "cursor", "--program", "../project/../current.pyz")

    assert done["entry"]["args"][0] == str(tmp_path / "current.pyz")


def test_a_program_that_is_no_file_is_refused(cli: CommandLine) -> None:
    done = cli("mcp", "config", "cursor", "--program", "rye.pyz")

    assert done.stderr == (
        "error: --program: 'rye.pyz' is not a file\n  hint: see: rye mcp config --help\n"
    )


# --- install, uninstall ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", WRITABLE)
def test_a_client_is_installed_once_and_uninstalled(name: str, rye: CommandLine) -> None:
    first = rye.json("mcp", "install", name, *options(rye))
    second = rye.json("mcp", "install", name, *options(rye))
    last = rye.json("mcp", "uninstall", name)

    assert [first["change"], second["change"], last["change"]] == [
        "added",
        "there already",
        "removed",
    ]
    assert Path(first["path"]).is_relative_to(rye.home)
    assert rye.json("mcp", "uninstall", name)["change"] == "not there"


@pytest.mark.parametrize("name", IN_PROJECTS)
def test_settings_of_a_project_lie_in_it(name: str, rye: CommandLine) -> None:
    done = rye("mcp", "install", name, "--scope", "project", "--json", *options(rye))

    assert Path(done.json["path"]).is_relative_to(rye.project)
    assert list(rye.home.iterdir()) == []
    assert "it names paths of this machine" in done.stderr


def test_a_dry_run_shows_the_change_and_makes_none(rye: CommandLine) -> None:
    path = rye.home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{\n  "mcpServers": {\n    "a": {"env": {"KEY": "secret"}}\n  }\n}\n', "utf-8")

    done = rye("mcp", "install", "cursor", "--dry-run", *options(rye))

    assert done.stdout.startswith(f"would add: rye in the settings of Cursor, {path}\n")
    assert '+    "rye": {\n' in done.stdout
    assert '"rye"' not in path.read_text("utf-8")


def test_the_first_change_keeps_a_copy_and_says_where(rye: CommandLine) -> None:
    path = rye.home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_text('model = "o" # mine\n', "utf-8")

    done = rye("mcp", "install", "codex", *options(rye))

    (kept,) = kept_copies(rye.user_space.ai, path)
    assert f"the file as it was: {kept}\n" in done.stderr
    assert kept.read_text("utf-8") == 'model = "o" # mine\n'
    assert "restart Codex" in done.stderr
    assert path.read_text("utf-8").startswith('model = "o" # mine\n\n[mcp_servers.rye]\ncommand =')


def test_a_client_that_keeps_its_settings_to_itself_gets_its_own_command(rye: CommandLine) -> None:
    (rye.home / ".claude.json").write_text("{}", "utf-8")

    done = rye("mcp", "install", "claude-code", *options(rye))

    assert done.status == 2
    assert "hint: run: claude mcp add --transport stdio --scope user rye -- " in done.stderr
    assert (rye.home / ".claude.json").read_text("utf-8") == "{}"


CLAUDE = """\
import json, os, sys
path = os.path.join(os.environ["HOME"], ".claude.json")
settings = json.load(open(path, encoding="utf-8")) if os.path.exists(path) else {}
servers = settings.setdefault("mcpServers", {})
words = sys.argv[1:]
if words[:2] == ["mcp", "add"]:
    if "rye" in servers:
        sys.exit("rye exists already")
    command, *args = words[words.index("--") + 1 :]
    servers["rye"] = {"type": "stdio", "command": command, "args": args, "env": {}}
elif words[:2] == ["mcp", "remove"]:
    del servers["rye"]
json.dump(settings, open(path, "w", encoding="utf-8"))
print("done by claude:", *words[:2])
"""


@pytest.fixture
def claude(rye: CommandLine, tmp_path: Path) -> Path:
    """The settings that a program `claude` of the user keeps, in the way of Claude Code."""
    source = tmp_path / "claude.py"
    source.write_text(CLAUDE, "utf-8")
    words = f'exec {shlex.quote(sys.executable)} {shlex.quote(str(source))} "$@"\n'
    program = make_program(tmp_path / "claude-bin" / "claude", words)
    rye.env["PATH"] = f"{program.parent}:{rye.env['PATH']}"
    return rye.home / ".claude.json"


@posix_only
def test_a_client_changes_its_own_settings_once_a_person_agreed(
    rye: CommandLine, claude: Path
) -> None:
    install = ("mcp", "install", "claude-code", *options(rye), "--yes")

    unasked = rye("mcp", "install", "claude-code", *options(rye))
    dry = rye(*install, "--dry-run")
    assert not claude.exists()
    done = rye(*install)
    again = rye(*install)
    entry = json.loads(claude.read_text("utf-8"))["mcpServers"]["rye"]

    assert (unasked.status, dry.status, done.status, again.status) == (2, 0, 0, 0)
    assert "would run: claude mcp add --transport stdio --scope user rye -- " in dry.stdout
    assert "done by claude: mcp add" in done.stderr
    assert done.stdout == f"added: rye in the settings of Claude Code, {claude}\n"
    assert [entry["command"], *entry["args"]] == argv(rye)
    assert again.stdout.startswith("there already: ")
    assert "done by claude" not in again.stderr


@posix_only
def test_a_client_whose_entry_is_of_another_place_removes_it_first(
    rye: CommandLine, claude: Path
) -> None:
    old = {"command": sys.executable, "args": ["/old/rye.pyz", "mcp"]}
    claude.write_text(json.dumps({"mcpServers": {"rye": old}}), "utf-8")

    done = rye.json("mcp", "install", "claude-code", *options(rye), "--yes")

    assert done["change"] == "updated"
    assert [line.split()[2] for line in done["commands"]] == ["remove", "add"]
    assert json.loads(claude.read_text("utf-8"))["mcpServers"]["rye"]["args"] == argv(rye)[1:]


@posix_only
def test_a_client_takes_rye_out_of_its_own_settings(rye: CommandLine, claude: Path) -> None:
    rye("mcp", "install", "claude-code", *options(rye), "--yes")

    done = rye("mcp", "uninstall", "claude-code", "--yes")
    again = rye("mcp", "uninstall", "claude-code", "--yes")

    assert "claude mcp remove --scope user rye" in done.stderr
    assert json.loads(claude.read_text("utf-8"))["mcpServers"] == {}
    assert (again.status, "done by claude" in again.stderr) == (0, False)


@posix_only
def test_a_client_of_the_project_is_not_started(rye: CommandLine, claude: Path) -> None:
    (rye.project / ".ai").mkdir()
    inside = rye.project / "bin" / "claude"
    make_program(inside, f"touch {rye.home / 'started'}\n")
    rye.env["PATH"] = f"{inside.parent}:{rye.env['PATH']}"

    assert rye("mcp", "install", "claude-code", *options(rye), "--yes").status == 0
    assert not (rye.home / "started").exists()
    assert claude.is_file()


@posix_only
def test_a_client_that_refuses_is_reported_with_its_words(rye: CommandLine, tmp_path: Path) -> None:
    program = make_program(tmp_path / "refusing" / "claude", "echo not today >&2; exit 3\n")
    rye.env["PATH"] = f"{program.parent}:{rye.env['PATH']}"

    done = rye("mcp", "install", "claude-code", *options(rye), "--yes")

    assert done.status == 1
    assert "Claude Code: claude ended with status 3: not today" in done.stderr
    assert "hint: run it yourself: claude mcp add" in done.stderr


@posix_only
def test_at_a_terminal_the_command_line_of_the_client_is_shown_and_asked_for(
    rye: CommandLine, claude: Path, tmp_path: Path
) -> None:
    words = [str(program_of(rye, tmp_path)), "mcp", "install", "claude-code"]

    with Terminal([*words, *options(rye)], rye.env, rye.project) as terminal:
        shown = terminal.type("", until="[y/N] ")
        terminal.type("y\n", until="added: rye")
        assert terminal.status() == 0

    assert "claude mcp add --transport stdio" in shown.replace("\r\n\u00bb", "")
    assert "rye" in json.loads(claude.read_text("utf-8"))["mcpServers"]


def test_for_a_client_without_a_known_place_the_text_to_paste_is_printed(rye: CommandLine) -> None:
    done = rye("mcp", "install", "windsurf", *options(rye), "--json")

    assert done.status == 2
    assert done.json["code"] == "UNSUPPORTED"
    assert done.json["hint"] == "paste what this prints: rye mcp config windsurf"


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (["mcp", "instal", "cursor"], "did you mean: rye mcp install"),
        (["mcp", "install", "curser"], "did you mean cursor?"),
        (["mcp", "install", "cursor", "--scope", "projct"], "did you mean project?"),
        (["mcp", "install", "cursor", "--dryrun"], "did you mean --dry-run?"),
        (["completion", "bahs"], "did you mean bash?"),
        (["run", "x", "--color", "allways"], "did you mean always?"),
    ],
)
def test_a_mistyped_word_gets_a_suggestion(typed: list[str], hint: str, cli: CommandLine) -> None:
    done = cli(*typed)

    assert done.status == 2
    assert done.stderr.endswith(f"hint: {hint}\n")
    assert done.stdout == ""


# --- list-clients ---------------------------------------------------------------------------------


def test_the_clients_are_listed_with_their_state(rye: CommandLine) -> None:
    rye("mcp", "install", "cursor", *options(rye))
    (rye.home / ".codex").mkdir()
    (rye.home / ".gemini").mkdir()
    (rye.home / ".gemini" / "settings.json").write_text("{", "utf-8")
    (rye.home / ".config" / "zed").mkdir(parents=True)
    (rye.home / ".config" / "zed" / "settings.json").write_text(
        '{"context_servers": {"rye": {"command": "bread"}}}', "utf-8"
    )

    rows = {row["client"]: row["state"] for row in rye.json("mcp", "list-clients")["clients"]}

    assert rows["cursor"] == "installed"
    assert rows["codex"] == "found"
    assert rows["gemini"] == "unreadable"
    assert rows["zed"] == "other entry"
    assert rows["vscode"] == "not found"
    assert rows["generic"] == "by hand"


# --- a client's own environment -------------------------------------------------------------------


@pytest.mark.parametrize("keep", [("HOME", "PATH"), ("HOME",)])
def test_a_bare_environment_and_any_folder_are_enough(
    keep: tuple[str, ...], tmp_path: Path
) -> None:
    given = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    env = {name: given[name] for name in keep}

    done = subprocess.run(
        [sys.executable, ROOT / "rye.py", "mcp", "config", "claude-desktop", "--json"],
        cwd="/",
        env=env,
        capture_output=True,
        check=True,
    )

    entry = json.loads(done.stdout)["entry"]
    assert entry == {"command": sys.executable, "args": [str(ROOT / "rye.py"), "mcp"]}


def test_without_a_home_the_missing_home_is_named() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "rye.py", "mcp", "install", "cursor"],
        cwd="/",
        env={"HOME": ""},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr == (
        "error: HOME: expected an absolute path, found none\n  hint: set HOME to your folder\n"
    )
