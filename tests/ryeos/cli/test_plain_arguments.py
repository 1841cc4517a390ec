"""A plain command line means the same with and without argparse."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ryeos.app.command_line import CommandEntry, CommandSpec
from ryeos.app.commands import TABLE, plain_arguments
from ryeos.cli.parser import parse
from ryeos.items.errors import UsageError

WORDS = st.sampled_from(
    ["a/b", "k=v", "-", "tool", "project", "user", "json", "auto", "never", "5", "", "é", "a b"]
)
FLAGS = st.sampled_from(
    ["--json", "-q", "-v", "-p", "--color", "--space", "--dry-run", "--trace"]
) | st.sampled_from(["--timeout", "--to", "--all", "--force", "--limit"])
ODD = st.sampled_from(["--", "-x", "--json=1", "-qv", "-1", "--nosuch", "-h", "-V", "--color=auto"])


def command_of(entry: CommandEntry) -> CommandSpec:
    return entry.spec()


def plainly(command: CommandSpec, arguments: list[str]) -> dict[str, object] | None:
    values = plain_arguments(command).parse(arguments)
    return None if values is None else vars(values)


@pytest.mark.property
@settings(max_examples=min(50, settings().max_examples))  # for each of 131 commands
@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.words)
@given(arguments=st.lists(WORDS | FLAGS | ODD, max_size=6))
def test_the_plain_reader_agrees_with_argparse(entry: CommandEntry, arguments: list[str]) -> None:
    command = command_of(entry)

    plain = plainly(command, arguments)

    if plain is not None:
        full = vars(parse(entry, command, arguments))
        full.pop("version", None)
        assert plain == full


def test_a_run_with_parameters_is_plain() -> None:
    run = command_of(next(entry for entry in TABLE if entry.words == "run"))

    values = plainly(run, ["--json", "a/b", "k=v", "-p", "folder", "n:=1"])

    assert values is not None
    assert (values["ref"], values["pairs"]) == ("a/b", ["k=v", "n:=1"])
    assert (values["json"], values["project"]) == (True, "folder")


@pytest.mark.parametrize("arguments", [["-h"], ["--color"], ["--color", "red"], ["--color=auto"]])
def test_help_mistakes_and_other_spellings_are_left_to_argparse(arguments: list[str]) -> None:
    version = command_of(next(entry for entry in TABLE if entry.words == "version"))

    assert plainly(version, arguments) is None


def test_a_mistake_is_still_reported_in_our_words() -> None:
    entry = next(entry for entry in TABLE if entry.words == "version")

    with pytest.raises(UsageError) as error:
        parse(entry, command_of(entry), ["--jsn"])

    assert error.value.hint == "did you mean --json?"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--", "-a"], ["-a"]),
        (["a", "--", "-b", "c"], ["a", "-b", "c"]),
        (["a", "--json", "--", "--json", "--"], ["a", "--json", "--"]),
        (["--", "a"], ["a"]),
    ],
)
def test_arguments_after_two_dashes_are_words(arguments: list[str], words: list[str]) -> None:
    entry = next(entry for entry in TABLE if entry.words == "search")

    assert parse(entry, command_of(entry), arguments).query == words


def test_an_error_about_a_word_like_a_flag_names_the_two_dashes() -> None:
    entry = next(entry for entry in TABLE if entry.words == "search")

    with pytest.raises(UsageError) as error:
        parse(entry, command_of(entry), ["a", "-b"])

    assert error.value.hint.endswith(
        "(a word that begins with - stands after -- : rye search -- -b)"
    )
