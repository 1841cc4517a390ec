"""Unsigned names of files in a clone, in texts that a person reads."""

import sys
from pathlib import Path

import pytest

from ryeos.items.refs import Space
from tests.support.command_line import CommandLine

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such names there")

NAME = "a\x1b[2J\x9b2J\u202eb\nvalid"


@pytest.fixture
def clone(tmp_path: Path, bundle: Space) -> CommandLine:
    """A project with an unsigned item of each kind, named to steer a terminal."""
    cli = CommandLine(tmp_path, bundle)
    for place in (
        "tools/{}.py",
        "tools/mcp/servers/{}.yaml",
        "knowledge/{}.md",
        "directives/{}.md",
    ):
        path = cli.project / ".ai" / place.format(NAME)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("name: x\n", "utf-8")
    return cli


@pytest.mark.parametrize(
    "words",
    [
        ("verify",),
        ("verify", "--all"),
        ("verify", "tool:*"),
        ("verify", "./.ai"),
        ("doctor", "--offline"),
        ("mcp", "servers"),
        ("sign", "tool:*"),
        ("search", "a"),
        ("test",),
    ],
)
def test_a_name_steers_no_terminal(clone: CommandLine, words: tuple[str, ...]) -> None:
    done = clone(*words)

    shown = done.stdout + done.stderr
    assert not {"\x1b", "\x9b", "\u202e"} & set(shown)


def test_a_name_is_no_line_of_its_own(clone: CommandLine) -> None:
    done = clone("verify")

    assert not [line for line in done.stdout.splitlines() if line.startswith("valid")]
