"""The table of commands, the actions of a command, and what each argument of a line is."""

import pytest

from ryeos.app.argument_parser import Parser, parse
from ryeos.app.command_line import (
    DASHES,
    FLAG,
    VALUE,
    WORD,
    Action,
    CommandEntry,
    CommandSpec,
    PlainArguments,
    leading_words,
    no_arguments,
    walk,
    with_own_meaning,
)
from ryeos.app.commands import GLOBAL_FLAGS, TABLE
from ryeos.items.errors import UsageError

TAKES_VALUE = {"--project": True, "-p": True, "--json": False}


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.address)
def test_every_address_of_the_table_has_a_command(entry: CommandEntry) -> None:
    spec = entry.spec()

    assert isinstance(spec, CommandSpec)
    spec.declare(PlainArguments())
    spec.declare(Parser())


def test_no_two_rows_have_the_same_words_or_address() -> None:
    assert len({entry.words for entry in TABLE}) == len(TABLE)
    assert len({entry.address for entry in TABLE}) == len(TABLE)


def test_the_longest_command_that_the_words_begin_with_is_found() -> None:
    found = [TABLE.find(words) for words in (["mcp"], ["mcp", "add"], ["mcp", "x"], ["ls"], ["x"])]

    assert [one and one.words for one in found] == ["mcp", "mcp add", "mcp", "list", None]


@pytest.mark.parametrize(
    ("words", "typed", "problem"),
    [
        ((), ("a",), "expected nothing behind it, found 1"),
        (("NAME",), (), "expected one NAME, found 0"),
        (("NAME",), ("a", "b"), "expected one NAME, found 2"),
        (("TEAM", "USER"), ("a",), "expected TEAM USER, found 1"),
        (("HOOK", "k=v..."), (), "expected HOOK k=v..., found 0"),
    ],
)
def test_an_action_with_other_words_than_it_takes_is_refused(
    words: tuple[str, ...], typed: tuple[str, ...], problem: str
) -> None:
    action = Action(lambda *_: None, *words, about_more="not so many")

    with pytest.raises(UsageError) as error:
        action.require("rye x y", typed)

    assert str(error.value) == f"rye x y: {problem}"
    assert error.value.hint == ("not so many" if len(typed) > len(words) else "")


def test_an_action_gets_the_words_behind_it_one_by_one() -> None:
    def configure(parser: object) -> None:
        parser.add_argument("words", nargs="*")  # type: ignore[attr-defined]

    spec = CommandSpec(
        configure,
        {
            "move": Action(lambda given, to, *rest: (given, to, rest), "TO", "MORE..."),
            "list": Action(lambda given: given),
        },
    )
    parser = Parser()
    spec.declare(parser)

    moved = spec.carry_out(parse(parser, ["move", "a", "b", "c"]), "rye x", "session")

    assert moved == ("session", "a", ("b", "c"))
    assert spec.carry_out(parse(parser, ["list"]), "rye x", 3) == 3
    with pytest.raises(UsageError, match="rye x list: expected nothing behind it, found 1"):
        spec.carry_out(parse(parser, ["list", "a"]), "rye x", 3)


def test_a_command_without_actions_does_what_it_is_for() -> None:
    assert CommandSpec(no_arguments, lambda given: given + 1).carry_out(None, "rye x", 1) == 2


def test_each_argument_is_a_word_a_flag_its_value_or_behind_two_dashes() -> None:
    line = ["run", "--project", "--json", "-", "--x=1", "--json", "--", "-p", "--"]

    kinds = [kind for _, kind, _ in walk(line, TAKES_VALUE)]

    assert kinds == [WORD, FLAG, VALUE, WORD, FLAG, FLAG, DASHES, WORD, WORD]


def test_the_words_of_a_command_stand_among_flags_of_every_command() -> None:
    line = ["--json", "-p", "keys", "keys", "--user-space", "x", "list", "more"]

    assert leading_words(line, GLOBAL_FLAGS) == (
        ["keys", "list"],
        [3, 6],
        {"--json", "-p", "--user-space"},
    )


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (["x", "--version", "1.0.0"], ["x", "--release", "1.0.0"]),
        (["x", "--version=1.0.0"], ["x", "--release=1.0.0"]),
        (["x", "--version"], ["x", "--version"]),
        (["x", "--version", "--json"], ["x", "--version", "--json"]),
    ],
)
def test_a_flag_of_every_command_means_the_command_s_own_before_a_value(
    line: list[str], meant: list[str]
) -> None:
    assert with_own_meaning(line, TAKES_VALUE, {"--version": "--release"}) == meant
