"""The page of every command with its arguments, out of the parsers themselves."""

import argparse
from importlib import import_module

from ryeos.cli.commands import TABLE, Entry
from ryeos.cli.session import Command

INTRODUCTION = """\
# Commands

Every command with its arguments. What holds for all of them (flags, output, statuses) is in
[cli.md](../cli.md).

This page is written by `scripts/generate_reference.py` from `ryeos/cli/`.
"""


def commands_page() -> str:
    """The whole page."""
    return "\n".join([INTRODUCTION, *map(_section, sorted(TABLE, key=lambda one: one.words))])


def _section(entry: Entry) -> str:
    command: Command = import_module(f"ryeos.cli.{entry.module}").COMMANDS[entry.words]
    parser = argparse.ArgumentParser(add_help=False)
    command.configure(parser)
    rows = [
        f"| {_name(action)} | {_help(action)} |"
        for action in parser._actions  # noqa: SLF001 - argparse has no other way to ask
        if action.help != argparse.SUPPRESS
    ]
    table = ["| argument | meaning |", "|---|---|", *rows, ""] if rows else []
    shown = [f"    {example}" for example in command.examples]
    examples = [*shown, ""] if shown else []
    return "\n".join(
        [f"## rye {entry.words}", "", f"{_sentence(entry.summary)}", "", *table, *examples]
    )


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
