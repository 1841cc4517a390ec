"""Reference pages of all commands with their arguments, from the parsers themselves."""

import argparse
from collections.abc import Iterable

from rye_services.operations.commands import STORE_FLAGS, Flag
from rye_services.operations.commands import TABLE as NODE_TABLE
from ryeos.app.argument_parser import Parser
from ryeos.app.command_line import CommandEntry
from ryeos.app.commands import TABLE

COMMANDS_INTRODUCTION = """\
# Commands

Every command with its arguments. What holds for all of them (flags, output, statuses) is in
[cli.md](../cli.md).

This page is written by `scripts/generate_reference.py` from `ryeos/cli/`.
"""


def commands_page() -> str:
    """The whole page."""
    sections = (_section("rye", entry) for entry in sorted(TABLE, key=lambda one: one.words))
    return "\n".join([COMMANDS_INTRODUCTION, *sections])


def _section(program: str, entry: CommandEntry, flags: Iterable[Flag] = ()) -> str:
    """What a command takes and how it is typed; with ``flags`` that it takes as others do."""
    command, parser = entry.spec(), Parser(add_help=False)
    for names, rules in flags:
        parser.add_argument(*names, **rules)
    command.declare(parser)
    shown = [f"    {example}" for example in command.examples]
    examples = [*shown, ""] if shown else []
    heading = [f"## {program} {entry.words}", "", f"{_sentence(entry.summary)}", ""]
    return "\n".join([*heading, *_arguments(parser), *examples])


def _arguments(parser: Parser) -> list[str]:
    """The table of a parser's arguments; empty where there are none."""
    rows = [
        f"| {_name(action)} | {_help(action)} |"
        for action in parser._actions  # noqa: SLF001 - argparse has no other way to ask
        if action.help != argparse.SUPPRESS
    ]
    return ["| argument | meaning |", "|---|---|", *rows, ""] if rows else []


def _sentence(summary: str) -> str:
    return f"{summary[:1].upper()}{summary[1:]}."


def _name(action: argparse.Action) -> str:
    if not action.option_strings:
        shown = action.metavar or action.dest.upper()
        return f"`{shown if isinstance(shown, str) else ' '.join(shown)}`".replace("|", r"\|")
    takes = "" if action.nargs == 0 else f" {_value(action)}"
    return ", ".join(f"`{flag}{takes}`" for flag in action.option_strings).replace("|", r"\|")


def _value(action: argparse.Action) -> str:
    if action.choices:
        return "|".join(map(str, action.choices))
    return str(action.metavar or action.dest.upper())


def _help(action: argparse.Action) -> str:
    return (action.help or "").replace("%%", "%").replace("|", r"\|")


NODE_COMMANDS_INTRODUCTION = """\
# Commands of a node

Every command of `rye-node.pyz` with its arguments. Each takes `--data DIR`, `--json` and `-q` too;
what a node does is in [node.md](../node.md).

This page is written by `scripts/generate_reference.py` from `rye_services/operations/cli.py`.
"""


def node_commands_page() -> str:
    """The whole page; where objects are kept is said once, of the command that decides it."""
    sections = (
        _section("rye-node.pyz", entry, STORE_FLAGS if entry.words == "init" else ())
        for word in NODE_TABLE.first_words()
        for entry in NODE_TABLE.group(word) or filter(None, [NODE_TABLE.find([word])])
    )
    return "\n".join([NODE_COMMANDS_INTRODUCTION, *sections])
