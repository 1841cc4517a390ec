"""The full parser of a command line: help, and errors in our own words."""

import argparse
import sys
from types import SimpleNamespace
from typing import Any, NoReturn

from ryeos import __version__
from ryeos.cli.commands import Entry
from ryeos.cli.session import Command, declare_shared
from ryeos.errors import UsageError


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are ours, with a suggestion for a mistyped flag."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: {message}", hint=self._hint(message))

    def takes(self, flag: str) -> bool:
        """Whether the flag is known already."""
        return any(flag in action.option_strings for action in self._actions)

    def _hint(self, message: str) -> str:
        from difflib import get_close_matches

        _, _, typed = message.partition("unrecognized arguments: ")
        flags = [flag for action in self._actions for flag in action.option_strings]
        close = get_close_matches(typed.split(" ")[0].split("=")[0], flags, 1, 0.5) if typed else []
        return f"did you mean {close[0]}?" if close else f"see: {self.prog} --help"


class _VersionAction(argparse.Action):
    def __call__(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - argparse's signature
        sys.stdout.write(f"rye {__version__}\n")
        raise SystemExit(0)


def command_parser(command: Command, entry: Entry) -> argparse.ArgumentParser:
    """The parser of a command: its own arguments, and those that every command takes."""
    examples = "\n".join(f"  {example}" for example in command.examples)
    parser = _Parser(
        prog=f"rye {entry.words}",
        description=entry.summary,
        epilog=f"examples:\n{examples}" if examples else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.configure(parser)
    shared = parser.add_argument_group("everywhere")
    declare_shared(shared, has_project=parser.takes("--project"))
    shared.add_argument("-V", "--version", action=_VersionAction, nargs=0, help="the version")
    return parser


def parse(command: Command, entry: Entry, arguments: list[str]) -> SimpleNamespace:
    """The values of a command line. Raises UsageError; ends the program for ``--help``."""
    parsed = command_parser(command, entry).parse_intermixed_args(arguments)
    return SimpleNamespace(**vars(parsed))
