"""The full parser of command lines, of ``rye`` and of the node: help, errors in our own words."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, ClassVar, NoReturn

from ryeos import __version__
from ryeos.app.command_line import VERSION_FLAGS, CommandEntry, Table
from ryeos.items.errors import UsageError

_INVALID_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*?)' \(choose from")

_UNRECOGNIZED = "unrecognized arguments: "
# Stands before a word that argparse would take for a flag, though it stands after `--`.
_IS_WORD = "\0"


class Parser(argparse.ArgumentParser):
    """argparse whose errors are ours, with a suggestion for a mistyped flag or word."""

    def __init__(self, **rules: Any) -> None:  # noqa: ANN401 - argparse's rules
        super().__init__(**{"allow_abbrev": False, **rules})

    def add_argument(self, *names: str, **rules: Any) -> argparse.Action:  # noqa: ANN401
        """Declare a word or a flag, in the way of `Arguments`."""
        offers = rules.pop("offers", "")
        action = super().add_argument(*names, **rules)
        action.offers = offers  # type: ignore[attr-defined]  # completion reads it
        return action

    def error(self, message: str) -> NoReturn:
        """Refuse a command line. Raises UsageError."""
        message = message.replace(_IS_WORD, "").replace("\\x00", "")
        raise UsageError(f"{self.prog}: {message}", hint=self._hint(message))

    def takes(self, flag: str) -> bool:
        """Whether the flag is known already."""
        return any(flag in action.option_strings for action in self._actions)

    def _hint(self, message: str) -> str:
        typed, known = self._mistyped(message)
        close = self._likely_meant(typed, known) if typed else ""
        meant = f"did you mean {close}?" if close else f"see: {self.prog} --help"
        takes_words = any(one.nargs == "*" and not one.option_strings for one in self._actions)
        if _UNRECOGNIZED in message and takes_words:
            return f"{meant} (a word that begins with - stands after -- : {self.prog} -- {typed})"
        return meant

    def _likely_meant(self, typed: str, known: list[str]) -> str:
        """The known word that was meant, or ``""``."""
        from lillux.spelling import likely_meant

        # The dashes of all flags are alike: they say nothing of what was meant.
        bare = {one.lstrip("-"): one for one in known}
        return bare.get(likely_meant(typed.lstrip("-"), bare), "")

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
    """Shows the version, and ends the program."""

    def __call__(self, *_: Any, **__: Any) -> NoReturn:  # noqa: ANN401 - argparse's signature
        sys.stdout.write(f"{self.const} {__version__}\n")
        raise SystemExit(0)


def declare_version(parser: Any, program: str) -> None:  # noqa: ANN401 - a parser, or its group
    """Declare the flags that show the version of a program."""
    parser.add_argument(
        *VERSION_FLAGS, action=_VersionAction, nargs=0, const=program, help="the version"
    )


def parse(parser: Parser, arguments: list[str]) -> SimpleNamespace:
    """The values of a command line; flags may stand between words, and none behind ``--``.

    Raises UsageError; ends the program for ``--help``.
    """
    parsed = parser.parse_intermixed_args(_mark_words(arguments))
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


ACTION = "ACTION"
"""What stands behind a group of commands like ``keys``."""


class ProgramParser(Parser):
    """The parser of a whole program, and of each of its commands."""

    flags: ClassVar = ""
    """Flags of every command, for an example of a command line."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # noqa: ANN401 - argparse's
        """The values. What is not known is refused where it was typed: a command knows its flags.

        A group of commands alone prints its help.
        """
        if args == [] and self._words_of_actions():
            self.print_help()
            raise SystemExit(0)
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"{_UNRECOGNIZED}{' '.join(unknown)}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        """Refuse a command line, and name the actions of a group where one is missing."""
        actions = self._words_of_actions()
        typed, _ = self._mistyped(message)
        if ACTION not in message or not actions or (typed and self._likely_meant(typed, actions)):
            super().error(message)
        raise UsageError(
            f"{self.prog}: expected an action: {', '.join(actions)}",
            hint=f"the action comes first, like: {self.prog} {actions[0]} {self.flags}".rstrip(),
        )

    def _words_of_actions(self) -> list[str]:
        return [
            word for one in self._actions if one.metavar == ACTION for word in one.choices or ()
        ]


Declare = Callable[[Parser, CommandEntry], None]
"""Declares all that a command takes."""


def add_commands(
    root: Parser, table: Table, declare: Declare, groups: Mapping[str, str] | None = None
) -> None:
    """Make ``root`` the parser of all commands of a table. ``groups`` says what each is for."""
    is_program = isinstance(root, ProgramParser)  # else the words are only listed
    words = root.add_subparsers(dest="command", metavar="COMMAND", required=is_program)
    for word in table.first_words():
        own, actions = table.find([word]), table.actions(word)
        group = (groups or {}).get(word) or f"{word} {', '.join(actions)}"
        summary = own.summary if own else group
        parser = words.add_parser(word, help=summary, aliases=table.aliases_of(word))
        parser.description = summary if is_program else None
        if own:
            declare(parser, own)
        if actions:
            below = parser.add_subparsers(dest="action", metavar=ACTION, required=is_program)
            for entry in table.group(word):
                action = below.add_parser(entry.words.split()[1], help=entry.summary)
                action.description = entry.summary if is_program else None
                declare(action, entry)
