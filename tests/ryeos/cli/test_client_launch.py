from pathlib import Path
from typing import Any

import pytest

from ryeos.cli.client_settings import (
    Interpreter,
    ServerLaunch,
    SettingsScope,
    is_ours,
    launch_for,
    settings_path,
    stable_executable,
    started_by,
)
from ryeos.imports.clients import CLIENTS, NAMES, Machine, find_client
from ryeos.items.errors import RyeError, UnsupportedError, UsageError
from tests.support.errors import coded

LAUNCH = ServerLaunch(argv=("/usr/bin/python3", "/home/me/rye.pyz", "mcp"))


def interpreter(executable: str, base: str = "", *, is_virtual: bool = False) -> Interpreter:
    return Interpreter(executable=executable, base=base or executable, is_virtual=is_virtual)


# --- the interpreter ------------------------------------------------------------------------------


def test_a_virtual_environment_is_left_for_its_base(tmp_path: Path) -> None:
    base = tmp_path / "python3"
    base.touch()

    found = stable_executable(interpreter("/shop/.venv/bin/python", str(base), is_virtual=True))

    assert found == str(base)


def test_a_virtual_environment_whose_base_has_gone_stays() -> None:
    there = interpreter("/shop/.venv/bin/python", "/nowhere/python3", is_virtual=True)

    assert stable_executable(there) == "/shop/.venv/bin/python"


def test_a_release_in_a_cellar_is_left_for_the_current_one() -> None:
    release = "/opt/homebrew/Cellar/python@3.12/3.12.4/bin/python3.12"

    found = stable_executable(interpreter(release), same_file=lambda _, __: True)

    assert found == "/opt/homebrew/opt/python@3.12/bin/python3.12"
    assert stable_executable(interpreter(release)) == release  # not linked


def test_a_link_is_kept_as_it_is(tmp_path: Path) -> None:
    link = tmp_path / "python3"
    link.symlink_to("/usr/bin/env")

    assert stable_executable(interpreter(str(link))) == str(link)


@pytest.mark.parametrize(
    ("path", "is_stub"),
    [
        (r"C:\Users\me\AppData\Local\Microsoft\WindowsApps\python.exe", True),
        (r"C:\Python312\python.exe", False),
        ("/usr/bin/python3", False),
    ],
)
def test_an_alias_of_the_microsoft_store_is_known(path: str, is_stub: bool) -> None:  # noqa: FBT001
    assert interpreter(path).is_store_stub is is_stub


# --- entries --------------------------------------------------------------------------------------


def test_an_entry_has_no_env_unless_it_is_needed() -> None:
    needing = ServerLaunch(argv=LAUNCH.argv, env={"USER_SPACE": "/data"})

    assert LAUNCH.entry(find_client("cursor")) == {
        "command": "/usr/bin/python3",
        "args": ["/home/me/rye.pyz", "mcp"],
    }
    assert needing.entry(find_client("cursor"))["env"] == {"USER_SPACE": "/data"}
    assert needing.entry(find_client("opencode"))["environment"] == {"USER_SPACE": "/data"}


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_starts_the_requested_program(name: str) -> None:
    entry = LAUNCH.entry(find_client(name))

    assert started_by(entry) == LAUNCH.argv
    assert is_ours(entry, LAUNCH)


@pytest.mark.parametrize(
    ("entry", "ours"),
    [
        ({"command": "py", "args": ["C:\\tools\\RYE.PYZ", "mcp"]}, True),
        ({"command": "/venv/bin/rye", "args": ["mcp", "--tools", "all"]}, True),
        ({"command": ["python3", "/old/rye.pyz", "mcp"]}, True),
        ({"command": "npx", "args": ["rye-mcp"]}, False),
        ({"command": "python3", "args": ["/x/rye.pyz", "run", "evil"]}, False),
        ({"command": "py", "args": ["-3", "-I", "C:/rye.pyz", "mcp"]}, True),
        ({"command": "sh", "args": ["-c", "x", "mcp", "rye.pyz"]}, False),
        ({"command": "sh", "args": ["-c", "x", "rye.pyz", "mcp"]}, False),
        ({"command": "evil", "args": ["rye.pyz", "x", "mcp"]}, False),
        ({"url": "https://example.org/mcp"}, False),
        ({"command": 1, "args": ["rye.pyz", "mcp"]}, False),
        ({"command": "x", "args": "rye.pyz mcp"}, False),
        ("rye.pyz mcp", False),
        (None, False),
    ],
)
def test_only_an_entry_that_starts_rye_is_ours(entry: Any, ours: bool) -> None:  # noqa: ANN401, FBT001
    assert is_ours(entry, LAUNCH) is ours


def test_a_program_of_another_name_recognises_its_entry() -> None:
    renamed = ServerLaunch(argv=("/usr/bin/python3", "/home/me/tools.pyz", "mcp"))

    assert is_ours(renamed.entry(find_client("cursor")), renamed)


# --- the project ----------------------------------------------------------------------------------


def project_arguments(
    name: str, scope: SettingsScope, project: Path, *, is_named: bool = False
) -> tuple[str, ...]:
    launch = launch_for(find_client(name), LAUNCH, scope, project, is_named=is_named)
    return launch.argv[len(LAUNCH.argv) :]


def test_a_client_without_a_usable_folder_learns_the_project(tmp_path: Path) -> None:
    assert project_arguments("claude-desktop", SettingsScope.USER, tmp_path) == ()

    (tmp_path / ".ai").mkdir()

    assert project_arguments("claude-desktop", SettingsScope.USER, tmp_path) == (
        "--project",
        str(tmp_path),
    )
    assert project_arguments("cursor", SettingsScope.USER, tmp_path) == ()
    assert project_arguments("cursor", SettingsScope.USER, tmp_path, is_named=True) == (
        "--project",
        str(tmp_path),
    )


@pytest.mark.parametrize(
    ("name", "argument"),
    [("vscode", "${workspaceFolder}"), ("cursor", "${workspaceFolder}"), ("codex", None)],
)
def test_settings_of_a_project_name_it_as_the_client_can(
    name: str, argument: str | None, tmp_path: Path
) -> None:
    assert project_arguments(name, SettingsScope.PROJECT, tmp_path) == (
        "--project",
        argument or str(tmp_path),
    )


def test_a_client_that_sends_its_folder_needs_no_project_argument(tmp_path: Path) -> None:
    assert project_arguments("claude-code", SettingsScope.PROJECT, tmp_path) == ()


# --- the settings file ----------------------------------------------------------------------------

WINDOWS = Machine("win32", {"USERPROFILE": "/Users/me", "APPDATA": "/Users/me/AppData/Roaming"})
MAC = Machine("darwin", {"HOME": "/Users/me"})
LINUX = Machine("linux", {"HOME": "/home/me"})


@pytest.mark.parametrize(
    ("name", "machine", "path"),
    [
        ("claude-desktop", LINUX, "/home/me/.config/Claude/claude_desktop_config.json"),
        (
            "claude-desktop",
            MAC,
            "/Users/me/Library/Application Support/Claude/claude_desktop_config.json",
        ),
        (
            "claude-desktop",
            WINDOWS,
            "/Users/me/AppData/Roaming/Claude/claude_desktop_config.json",
        ),
        ("claude-code", WINDOWS, "/Users/me/.claude.json"),
        ("cursor", MAC, "/Users/me/.cursor/mcp.json"),
        ("vscode", LINUX, "/home/me/.config/Code/User/mcp.json"),
        ("vscode", MAC, "/Users/me/Library/Application Support/Code/User/mcp.json"),
        ("vscode", WINDOWS, "/Users/me/AppData/Roaming/Code/User/mcp.json"),
        ("codex", WINDOWS, "/Users/me/.codex/config.toml"),
        ("copilot-cli", LINUX, "/home/me/.copilot/mcp-config.json"),
        ("gemini", LINUX, "/home/me/.gemini/settings.json"),
        ("antigravity", LINUX, "/home/me/.gemini/config/mcp_config.json"),
        ("zed", MAC, "/Users/me/.config/zed/settings.json"),
        ("zed", WINDOWS, "/Users/me/AppData/Roaming/Zed/settings.json"),
        ("opencode", LINUX, "/home/me/.config/opencode/opencode.json"),
        ("amp", WINDOWS, "/Users/me/.config/amp/settings.json"),
    ],
)
def test_settings_are_where_the_platform_has_them(name: str, machine: Machine, path: str) -> None:
    assert settings_path(find_client(name), SettingsScope.USER, machine, None) == Path(path)


@pytest.mark.parametrize(
    ("name", "variable", "path"),
    [
        ("codex", "CODEX_HOME", "/data/config.toml"),
        ("copilot-cli", "COPILOT_HOME", "/data/mcp-config.json"),
        ("zed", "XDG_CONFIG_HOME", "/data/zed/settings.json"),
    ],
)
def test_variables_move_settings(name: str, variable: str, path: str) -> None:
    moved = Machine("linux", {"HOME": "/home/me", variable: "/data"})
    relative = Machine("linux", {"HOME": "/home/me", variable: "data"})

    assert settings_path(find_client(name), SettingsScope.USER, moved, None) == Path(path)
    assert str(settings_path(find_client(name), SettingsScope.USER, relative, None)).startswith(
        "/home/me"
    )


def test_the_file_with_comments_is_used_if_it_is_the_only_one(tmp_path: Path) -> None:
    (tmp_path / "opencode.jsonc").touch()

    found = settings_path(find_client("opencode"), SettingsScope.PROJECT, LINUX, tmp_path)

    assert found == tmp_path / "opencode.jsonc"


def test_without_a_home_the_variable_is_named() -> None:
    with pytest.raises(UsageError) as error:
        settings_path(find_client("cursor"), SettingsScope.USER, Machine("win32", {}), None)

    assert str(error.value) == "USERPROFILE: expected an absolute path, found none"


@pytest.mark.parametrize("scope", list(SettingsScope))
def test_a_client_whose_settings_are_unknown_is_refused(
    scope: SettingsScope, tmp_path: Path
) -> None:
    with pytest.raises(UnsupportedError) as error:
        settings_path(find_client("windsurf"), scope, LINUX, tmp_path)

    assert error.value.hint == "paste what this prints: rye mcp config windsurf"


def test_settings_of_a_project_need_one() -> None:
    with pytest.raises(RyeError, check=coded("NO_PROJECT")):
        settings_path(find_client("cursor"), SettingsScope.PROJECT, LINUX, None)


# --- names ----------------------------------------------------------------------------------------


def test_a_name_is_found_in_any_writing() -> None:
    assert find_client("Claude Desktop") is find_client("claude_desktop")


def test_a_mistyped_name_gets_the_closest() -> None:
    with pytest.raises(UsageError) as error:
        find_client("cluade-code")

    assert error.value.hint == "did you mean claude-code?"


def test_no_two_clients_have_one_name() -> None:
    assert len({client.name for client in CLIENTS}) == len(CLIENTS)
