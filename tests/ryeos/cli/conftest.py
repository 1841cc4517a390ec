"""A user with nothing yet, and a command line."""

from pathlib import Path

import pytest

from ryeos.items.refs import Space
from tests.support.command_line import CommandLine, Stranger


@pytest.fixture
def cli(tmp_path: Path, bundle: Space) -> CommandLine:
    """The command line of a user without a key, in an empty folder."""
    return CommandLine(tmp_path, bundle)


@pytest.fixture
def signer(cli: CommandLine) -> CommandLine:
    """The same, after ``rye keys generate``."""
    assert cli("keys", "generate").status == 0
    return cli


@pytest.fixture
def stranger() -> Stranger:
    """Another user, with a key of their own."""
    return Stranger.appear()
