"""The table of commands of ``rye-node``."""

import pytest

from rye_services.operations.commands import GROUPS, TABLE
from ryeos.app.argument_parser import Parser
from ryeos.app.command_line import CommandEntry, CommandSpec


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.words)
def test_every_address_of_the_table_has_a_command(entry: CommandEntry) -> None:
    spec = entry.spec()

    assert isinstance(spec, CommandSpec)
    spec.declare(Parser())


def test_every_group_is_explained() -> None:
    assert set(GROUPS) == {entry.words.split()[0] for entry in TABLE if " " in entry.words}


def test_no_two_rows_have_the_same_words() -> None:
    assert len({entry.words for entry in TABLE}) == len(TABLE)
