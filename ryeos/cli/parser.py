"""The full parser of a command of ``rye``: help, and errors in our own words."""

import argparse
from types import SimpleNamespace

from ryeos.app.argument_parser import Parser, declare_version
from ryeos.app.argument_parser import parse as parse_with
from ryeos.app.command_line import CommandEntry, CommandSpec
from ryeos.app.commands import declare_shared


def command_parser(entry: CommandEntry, spec: CommandSpec) -> Parser:
    """The parser of a command of ``rye``: its own arguments, and those that every command takes."""
    shown = "\n".join(f"  {example}" for example in spec.examples)
    parser = Parser(
        prog=f"rye {entry.words}",
        description=entry.summary,
        epilog=f"examples:\n{shown}" if shown else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    spec.declare(parser)
    for action in parser._actions:  # noqa: SLF001 - argparse would name them as required, too
        action.required = action.required and action.nargs != "*"
    shared = parser.add_argument_group("everywhere")
    declare_shared(shared, has_project=parser.takes("--project"))
    declare_version(shared, "rye")
    return parser


def parse(entry: CommandEntry, spec: CommandSpec, arguments: list[str]) -> SimpleNamespace:
    """The values of a command line. Raises UsageError; ends the program for ``--help``."""
    return parse_with(command_parser(entry, spec), arguments)
