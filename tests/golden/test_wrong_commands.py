"""Command lines that no command takes: an unknown option, a missing word, a wrong value.

They are made from the declarations of the commands, so that a new command has its lines at once.
"""

import argparse
from collections.abc import Callable, Iterator

from rye_services.operations.cli import command_parser as node_parser
from ryeos.app.command_line import CommandEntry
from ryeos.app.commands import GLOBAL_FLAGS, HABITS, PROGRAMS, TABLE
from ryeos.cli.parser import command_parser
from tests.support.command_line import CommandLine, Done
from tests.support.golden import AS_JSON, Names, compare, transcript

Line = list[str]
WRONG = "no-such-value"
COMMANDS = [entry for entry in TABLE if entry.words.split()[0] not in PROGRAMS]


def parser_of(entry: CommandEntry) -> argparse.ArgumentParser:
    """The parser of a command of ``rye``."""
    return command_parser(entry, entry.spec())


def required_words(parser: argparse.ArgumentParser) -> Line:
    """A word for each that the command must have."""
    return [
        str(next(iter(action.choices))) if action.choices else "x"
        for action in parser._actions
        if not action.option_strings and action.nargs not in {"*", "?"}
    ]


def wrong_values(parser: argparse.ArgumentParser) -> Iterator[Line]:
    """Each option that takes a word of a list or a number, with neither, and without any."""
    words = required_words(parser)
    for action in parser._actions:
        if GLOBAL_FLAGS.keys() & set(action.option_strings):
            continue  # of every command: those of one are enough, see below
        if action.option_strings and (action.type or action.choices):
            yield [*words, action.option_strings[0], WRONG]
        elif action.option_strings and action.nargs is None:
            yield [*words, action.option_strings[0]]
        elif action.choices and not isinstance(action, argparse._SubParsersAction):
            yield [WRONG]


def test_an_unknown_option_is_refused_as_recorded(cli: CommandLine, names: Names) -> None:
    lines = [
        [*entry.words.split(), *required_words(parser_of(entry)), "--no-such"] for entry in COMMANDS
    ]

    compare("wrong/unknown_options", transcript(cli, "rye", lines, names))


def test_a_missing_word_is_refused_as_recorded(cli: CommandLine, names: Names) -> None:
    lines = [entry.words.split() for entry in COMMANDS if required_words(parser_of(entry))]

    compare("wrong/missing_words", transcript(cli, "rye", lines, names))


def test_one_word_too_many_is_refused_as_recorded(cli: CommandLine, names: Names) -> None:
    lines = []
    for entry in COMMANDS:
        parser = parser_of(entry)
        takes_more = any(
            action.nargs in {"*", "+", "?"} and not action.option_strings
            for action in parser._actions
        )
        if not takes_more:
            lines.append([*entry.words.split(), *required_words(parser), "more"])

    compare("wrong/more_words", transcript(cli, "rye", lines, names))


def test_a_wrong_value_is_refused_as_recorded(cli: CommandLine, names: Names) -> None:
    lines = [["version", "x", "--color", WRONG]]
    lines += [["status", flag] for flag, takes_value in GLOBAL_FLAGS.items() if takes_value]
    lines += [
        [*entry.words.split(), *words]
        for entry in COMMANDS
        for words in wrong_values(parser_of(entry))
    ]

    compare("wrong/values", transcript(cli, "rye", lines, names))


def test_an_unknown_command_is_refused_as_recorded(cli: CommandLine, names: Names) -> None:
    groups = dict.fromkeys(entry.words.split()[0] for entry in TABLE if " " in entry.words)
    lines = [[word] for word in (*HABITS, "nothing", "serach", "\x1b[31m", "a" * 200)]
    lines += [[group, "nothing"] for group in groups]

    compare("wrong/commands", transcript(cli, "rye", lines, names))


def test_wrong_lines_of_the_helper_programs_are_refused_as_recorded(
    cli: CommandLine, names: Names
) -> None:
    lines = [
        [program, *words.split()]
        for program in PROGRAMS
        for words in ("nothing", "--no-such", "exec", "status", "kill", "spawn", "kill --pid x")
    ]

    shown = [
        f"$ {' '.join(line)}\nstatus {done.status}\n{done.stdout}{done.stderr}"
        for line in lines
        for done in [cli(*line)]
    ]
    compare("wrong/helper_programs", names.replaced("\n".join(shown)))


def node_commands(
    parser: argparse.ArgumentParser, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """The words of each command of the node, and its parser."""
    groups = [
        action for action in parser._actions if isinstance(action, argparse._SubParsersAction)
    ]
    if not groups:
        yield words, parser
    for group in groups:
        for name, child in group.choices.items():
            yield from node_commands(child, (*words, name))


def test_a_wrong_line_of_the_node_is_refused_as_recorded(
    node: Callable[..., Done], names: Names
) -> None:
    lines: list[Line] = [["nothing"], ["--no-such"], ["kyes"], ["keys", "nothing"], ["keys", "ad"]]
    for words, parser in node_commands(node_parser()):
        required = required_words(parser)
        lines.append([*words, *required, "--no-such"])
        lines += [[*words]] if required else []
        lines += [
            [*words, *wrong] for wrong in wrong_values(parser) if wrong[-1] == WRONG and wrong[1:]
        ]

    compare("wrong/node", transcript(node, "rye-node", lines, names, forms=AS_JSON))
