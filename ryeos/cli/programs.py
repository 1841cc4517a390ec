"""``rye lillux-proc`` and ``rye lillux-watch``: the helper programs, where no compiled one is."""

import os
import sys

from ryeos.cli.plain_arguments import Arguments
from ryeos.cli.session import Command, Session
from ryeos.errors import UsageError


def run_program(name: str, arguments: list[str]) -> int:
    """Be the program, with everything behind its name; the exit status."""
    if name == "lillux-proc":
        from lillux.programs import proc

        return proc.main(arguments, os.environ)
    from lillux.programs import watch

    return watch.main(arguments)


def usage(name: str) -> str:
    """What the program says about its command line."""
    from lillux.programs import proc, watch

    return {"lillux-proc": proc.USAGE, "lillux-watch": watch.USAGE}[name]


def lillux_proc() -> int:
    """The script ``lillux-proc`` of an installation; the exit status."""
    return run_program("lillux-proc", sys.argv[1:])


def lillux_watch() -> int:
    """The script ``lillux-watch`` of an installation; the exit status."""
    return run_program("lillux-watch", sys.argv[1:])


def _configure(_: Arguments) -> None:
    """No arguments that this command line knows: the program reads its own."""


def _misplaced(_: Session) -> int:
    """Told to whoever puts a flag of ours before the name: the programs have none of them."""
    raise UsageError(
        "the helper programs take none of the flags that every command takes",
        hint="name the program first: rye lillux-proc --help",
    )


COMMANDS = {
    "lillux-proc": Command(
        _configure,
        _misplaced,
        ["rye lillux-proc --help", "rye lillux-proc exec --cmd echo --arg hi --timeout 10"],
    ),
    "lillux-watch": Command(
        _configure,
        _misplaced,
        ["rye lillux-watch --help", "rye lillux-watch --db registry.db --thread-id ID"],
    ),
}
