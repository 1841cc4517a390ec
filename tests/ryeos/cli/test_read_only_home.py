"""Commands of a user whose home cannot be written, as in many containers."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.programs import require_program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts of Linux")
WAY_OUT = "name another: USER_SPACE=DIR"


@pytest.fixture
def sealed(cli: CommandLine) -> Iterator[CommandLine]:
    """The command line of a user whose home is read-only."""
    (cli.project / ".mcp.json").write_text(
        '{"mcpServers": {"e": {"command": "echo-server"}}}', "utf-8"
    )
    if os.geteuid():
        cli.home.chmod(0o500)
        yield cli
        cli.home.chmod(0o700)
        return
    mount, umount = require_program("mount"), require_program("umount")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "ro,size=1m", "tmpfs", cli.home],
        capture_output=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"mounting needs a privilege: {done.stderr.decode().strip()}")
    try:
        yield cli
    finally:
        subprocess.run([umount, "-l", cli.home], check=True)


@pytest.mark.parametrize(
    "words",
    [
        ("init",),
        ("keys", "generate"),
        ("new", "tool", "mine/hello", "--space", "user"),
        ("sign", "tool:mine/hello"),
        ("mcp", "add", "x", "--", "echo"),
        ("remote", "add", "n", "https://node.example.com"),
        ("load", "rye/bash/bash", "--to", "user"),
        ("bundle", "uninstall", "acme"),
        ("rm", "mine/hello", "--yes"),
        ("import", ".mcp.json", "--yes"),
        ("run", "rye/bash/bash", "command=true", "--receipt", "on"),
        ("doctor",),
    ],
)
def test_a_command_that_needs_user_space_says_how_to_name_another(
    sealed: CommandLine, words: tuple[str, ...]
) -> None:
    sealed("new", "tool", "mine/hello")

    done = sealed(*words)

    assert WAY_OUT in done.stdout + done.stderr


@pytest.mark.parametrize("client", ["cursor", "vscode", "codex", "claude-desktop"])
def test_settings_of_a_client_that_cannot_be_written_are_named_with_other_ways(
    sealed: CommandLine, client: str
) -> None:
    program = sealed.project / "rye.pyz"
    program.touch()
    options = ("--program", program, "--python", sys.executable)
    path = sealed.json("mcp", "config", client, *options)["path"]

    done = sealed("mcp", "install", client, *options)

    assert done.status == 1
    assert done.stderr.startswith(f"error: {path}: cannot be written: ")
    assert f"rye mcp config {client}" in done.stderr
    assert ("--scope project" in done.stderr) is (client != "claude-desktop")
    assert "Traceback" not in done.stderr
    assert "cause:" not in done.stderr
    assert "USER_SPACE" not in done.stderr  # user space is not what the file is in


def test_another_user_space_is_enough(sealed: CommandLine, tmp_path: Path) -> None:
    sealed("new", "tool", "mine/hello")
    space = str(tmp_path / "space")

    made = sealed("init", USER_SPACE=space)
    signed = sealed("sign", "tool:mine/hello", USER_SPACE=space)

    assert (made.status, signed.status) == (0, 0), signed.stderr
    shutil.rmtree(space)


def test_a_file_of_the_project_that_cannot_be_written_says_nothing_of_user_space(
    cli: CommandLine,
) -> None:
    (cli.project / ".ai").write_text("no folder", "utf-8")

    assert WAY_OUT not in cli("new", "tool", "mine/hello").stderr
