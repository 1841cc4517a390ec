"""``rye``: find the command, hand it its arguments, turn what happened into text and a status.

Kept lean: what only some commands need is imported by those. Contract: ``docs/cli.md``.
"""

from __future__ import annotations

import os
import sys

from ryeos import __version__

TYPE_CHECKING = False  # importing typing costs more than this start may take

if TYPE_CHECKING:
    from lillux.errors import LilluxError
    from ryeos.app.command_line import Table
    from ryeos.trust.bundles import BundleHome


def main(argv: list[str] | None = None, bundle: BundleHome | None = None) -> int:
    """Run the command line; the exit status. ``bundle`` is where the own bundle lies.

    Without one it is the folder ``bundle`` of this package, where a wheel has it.
    """
    arguments = sys.argv[1:] if argv is None else argv
    if argv is None and _is_odd_place():
        from lillux.first_steps import begin

        begin()
    if argv is None and ("LD_LIBRARY_PATH" in os.environ or sys.platform == "darwin"):
        from ryeos.items.own_code import go_on_without_libraries_of_projects

        go_on_without_libraries_of_projects(os.environ)
    _replace_closed_streams()
    if "HOME" not in os.environ:
        _set_home()
    try:
        return _run(arguments, bundle)
    except (KeyboardInterrupt, BrokenPipeError) as error:
        from ryeos.app.output import interrupted_status

        return interrupted_status(error, as_json="--json" in arguments)


def _is_odd_place() -> bool:
    """Whether this is the first process of a container, or text here is not UTF-8."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    encodings = {getattr(stream, "encoding", None) or "utf-8" for stream in streams}
    encodings.add(sys.getfilesystemencoding())
    return os.getpid() == 1 or encodings != {"utf-8"}


def _set_home() -> None:
    """Name the home folder where the environment does not: for Rye, and for what it starts."""
    from ryeos.items.places import home_of_account

    home = home_of_account()
    if home:
        os.environ["HOME"] = home


def _run(arguments: list[str], bundle: BundleHome | None) -> int:
    try:
        return _dispatch(arguments, bundle)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the outermost door
        from ryeos.app.output import report

        return report(error, as_json="--json" in arguments, environ=os.environ)


def _dispatch(arguments: list[str], bundle: BundleHome | None) -> int:
    if arguments in (["version"], ["-V"], ["--version"]):
        sys.stdout.write(f"rye {__version__}\n")
        return 0
    from ryeos.app import commands
    from ryeos.app.command_line import HELP_FLAGS, VERSION_FLAGS, leading_words

    if arguments and arguments[0] in commands.PROGRAMS:
        from ryeos.cli.helper_programs import run_program

        return run_program(arguments[0], arguments[1:])
    words, places, flags = leading_words(arguments, commands.GLOBAL_FLAGS)
    if words[:1] == [commands.COMPLETE]:
        from ryeos.cli.completion_candidates import print_candidates

        return print_candidates(arguments, bundle)
    if not words and not flags.isdisjoint(VERSION_FLAGS):
        words = ["version"]
    named = words or ["help"]
    entry = commands.TABLE.find(named) or commands.HIDDEN.find(named)
    if entry is None and len(words) == 1 and commands.TABLE.actions(words[0]):  # `rye remote` alone
        words_only = [argument for argument in arguments if argument not in HELP_FLAGS]
        return _dispatch(["help", *words_only], bundle)
    if entry is None or _is_wrong_action(entry.words, words, places, commands.TABLE):
        raise _unknown_command(words)
    from ryeos.cli.session import run_command

    own = places[: entry.words.count(" ") + 1]
    arguments = [one for at, one in enumerate(arguments) if at not in own]
    if not words:  # `rye -h` is `rye help`, not help on `rye help`
        arguments = [argument for argument in arguments if argument not in HELP_FLAGS]
    return run_command(entry.spec(), entry, arguments, bundle)


def _is_wrong_action(command: str, words: list[str], places: list[int], table: Table) -> bool:
    """Whether a group that is a command itself is followed by a word that is no action of it.

    ``mcp instal`` is a slip; ``mcp --tools all`` is not.
    """
    if len(words) != 2 or command != words[0] or not table.actions(command):  # noqa: PLR2004
        return False
    return places[1] == places[0] + 1


def _replace_closed_streams() -> None:
    """A closed stream: what is written there goes nowhere, what is read is empty."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Open for as long as we run.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def _unknown_command(words: list[str]) -> LilluxError:
    """The failure to raise for words that are no command, with the closest one."""
    from lillux.spelling import likely_meant
    from ryeos.app import commands
    from ryeos.items.errors import UsageError

    actions = commands.TABLE.actions(words[0])
    typed = words[1] if actions and len(words) > 1 else words[0]
    known = actions or (*commands.TABLE.first_words(), *commands.ALIASES)
    close = likely_meant(typed, known)
    group = f"{words[0]} " if actions else ""
    meant = f"rye {group}{close}" if close else ""
    if not actions:
        meant = commands.HABITS.get(typed, meant)
    listed = f"list the commands with: rye help {group}".rstrip()
    hint = f"did you mean: {meant}" if meant else listed
    return UsageError(f"unknown command {group}{typed!r}", hint=hint)
