"""Help of every command of both programs, at every level, and completion."""

import argparse
from collections.abc import Iterator

import pytest

from rye_services.operations.cli import command_parser
from ryeos.app.commands import ALIASES, PROGRAMS, TABLE
from tests.support.command_line import CommandLine
from tests.support.golden import Names, compare, digest_line, shown_done

GROUPS = sorted({entry.words.split()[0] for entry in TABLE})
TYPED = (
    *(("refs", typed) for typed in ("rye/core/pri", "tool:rye/bash/", "nothing/", "dir")),
    *((sort, "r") for sort in ("tools", "own", "parameters", "threads")),
    *(("topics", typed) for typed in ("", "s", "exit")),
    ("nothing", ""),
)


@pytest.mark.parametrize("group", GROUPS)
def test_help_of_the_commands_of_a_group_is_as_recorded(
    cli: CommandLine, names: Names, group: str
) -> None:
    commands = [e.words for e in TABLE if e.words.split()[0] == group and group not in PROGRAMS]
    lines = [f"{words} --help" for words in commands]
    lines += [f"help {words}" for words in dict.fromkeys([group, *commands])]

    compare(f"help/{group}", _answers(cli, names, lines))


def test_help_of_the_program_is_as_recorded(cli: CommandLine, names: Names) -> None:
    aliases = [f"{alias} --help" for alias in ALIASES]
    programs = [f"{program} {flag}".strip() for program in PROGRAMS for flag in ("", "--help")]

    compare(
        "help/rye", _answers(cli, names, ["", "--help", "-h", "help --all", *aliases, *programs])
    )


def test_help_on_the_node_s_commands_is_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    shown = [f"$ {parser.prog} --help\n{parser.format_help()}" for parser in _below(node_parser())]

    compare("help/rye-node", "\n".join(shown))


def test_completion_is_as_recorded(cli: CommandLine, names: Names) -> None:
    fish = cli("completion", "fish")
    others = ("bash", "zsh", "tcsh", "powershell")

    scripts = [digest_line(shell, cli("completion", shell).stdout) for shell in others]
    candidates = _answers(cli, names, [f"__complete {what} {typed}" for what, typed in TYPED])

    compare("help/completion_scripts", "\n".join([candidates, *scripts, fish.stdout]))


def node_parser() -> argparse.ArgumentParser:
    """The parser of the node's program."""
    return command_parser()


def _below(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in dict.fromkeys(action.choices.values()):
                yield from _below(child)


def _answers(cli: CommandLine, names: Names, lines: list[str]) -> str:
    shown = (f"$ rye {line}\n{names.replaced(shown_done(cli(*line.split())))}" for line in lines)
    return "\n\n".join(shown)
