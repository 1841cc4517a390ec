"""The full parser of a command line: help, and errors in our own words."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, NoReturn

from ryeos import __version__
from ryeos.cli.arguments import Arguments, declare_shared
from ryeos.cli.commands import CommandEntry
from ryeos.items.errors import UsageError

_INVALID_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*?)' \(choose from")

_UNRECOGNIZED = "unrecognized arguments: "
# Stands before a word that argparse would take for a flag, though it stands after `--`.
_IS_WORD = "\0"


class _Parser(argparse.ArgumentParser):
    """argparse whose errors are ours, with a suggestion for a mistyped flag."""

    def error(self, message: str) -> NoReturn:
        message = message.replace(_IS_WORD, "").replace("\\x00", "")
        raise UsageError(f"{self.prog}: {message}", hint=self._hint(message))

    def takes(self, flag: str) -> bool:
        """Whether the flag is known already."""
        return any(flag in action.option_strings for action in self._actions)

    def _hint(self, message: str) -> str:
        from lillux.text import likely_meant

        typed, known = self._mistyped(message)
        # The dashes of all flags are alike: they say nothing of what was meant.
        bare = {one.lstrip("-"): one for one in known}
        close = likely_meant(typed.lstrip("-"), bare) if typed else ""
        meant = f"did you mean {bare[close]}?" if close else f"see: {self.prog} --help"
        takes_words = any(one.nargs == "*" and not one.option_strings for one in self._actions)
        if _UNRECOGNIZED in message and takes_words:
            return f"{meant} (a word that begins with - stands after -- : {self.prog} -- {typed})"
        return meant

    def _mistyped(self, message: str) -> tuple[str, list[str]]:
        """The word that an error of argparse is about, and what might stand there instead."""
        _, _, typed = message.partition(_UNRECOGNIZED)
        if typed:
            flags = [flag for action in self._actions for flag in action.option_strings]
            return typed.split(" ")[0].split("=")[0], flags
        found = _INVALID_CHOICE.match(message)
        for action in self._actions if found else ():
            name = "/".join(action.option_strings) or action.metavar or action.dest
            if found and action.choices and found[1] == name:
                return found[2], [str(choice) for choice in action.choices]
        return "", []


class _VersionAction(argparse.Action):
    def __call__(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - argparse's signature
        sys.stdout.write(f"rye {__version__}\n")
        raise SystemExit(0)


def command_parser(
    entry: CommandEntry, configure: Callable[[Arguments], None], examples: Sequence[str]
) -> argparse.ArgumentParser:
    """The parser of a command: its own arguments, and those that every command takes."""
    shown = "\n".join(f"  {example}" for example in examples)
    parser = _Parser(
        prog=f"rye {entry.words}",
        description=entry.summary,
        epilog=f"examples:\n{shown}" if shown else None,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    configure(parser)
    for action in parser._actions:  # noqa: SLF001 - argparse would name them as required, too
        action.required = action.required and action.nargs != "*"
    shared = parser.add_argument_group("everywhere")
    declare_shared(shared, has_project=parser.takes("--project"))
    shared.add_argument("-V", "--version", action=_VersionAction, nargs=0, help="the version")
    return parser


def parse(
    entry: CommandEntry,
    configure: Callable[[Arguments], None],
    examples: Sequence[str],
    arguments: list[str],
) -> SimpleNamespace:
    """The values of a command line. Raises UsageError; ends the program for ``--help``."""
    marked = _mark_words(arguments)
    parsed = command_parser(entry, configure, examples).parse_intermixed_args(marked)
    return SimpleNamespace(**{name: _unmarked(value) for name, value in vars(parsed).items()})


def _mark_words(arguments: list[str]) -> list[str]:
    """The arguments without `--`, words after it marked where they look like flags."""
    if "--" not in arguments:
        return arguments
    start = arguments.index("--")
    words = (f"{_IS_WORD}{one}" if one.startswith("-") else one for one in arguments[start + 1 :])
    return [*arguments[:start], *words]


def _unmarked(value: Any) -> Any:  # noqa: ANN401 - of argparse
    if isinstance(value, list):
        return [_unmarked(one) for one in value]
    return value.removeprefix(_IS_WORD) if isinstance(value, str) else value
