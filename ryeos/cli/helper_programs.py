"""``rye lillux-proc`` and ``rye lillux-watch``: the helper programs, compiled or in Python.

A file of its own because completion and help must not import what runs processes.
"""

import os
import sys
from contextlib import suppress

from ryeos.app.command_line import CommandSpec, no_arguments
from ryeos.cli.session import Session, packed_program
from ryeos.items.errors import UsageError


def run_program(name: str, arguments: list[str]) -> int:
    """Be the program, with everything behind its name; the exit status.

    Where a compiled one is packed, this process becomes it, and tools find it from now on.
    """
    compiled = _compiled_path(name)
    if compiled:
        with suppress(OSError):  # a policy forbids to run it: then Python does the same
            os.execv(compiled, [name, *arguments])  # noqa: S606 - that is the point
    if name == "lillux-proc":
        from lillux.proc_program import proc_main

        return proc_main(arguments, os.environ)
    from lillux.watch_program import watch_main

    return watch_main(arguments)


def _compiled_path(name: str) -> str | None:
    program = packed_program()
    # On Windows a process cannot become another one.
    return program.compiled_program(name) if program and os.name != "nt" else None


def usage(name: str) -> str:
    """What the program says about its command line."""
    from lillux.proc_program import PROC_USAGE
    from lillux.watch_program import WATCH_USAGE

    return {"lillux-proc": PROC_USAGE, "lillux-watch": WATCH_USAGE}[name]


def lillux_proc() -> int:
    """The script ``lillux-proc`` of an installation; the exit status."""
    return run_program("lillux-proc", sys.argv[1:])


def lillux_watch() -> int:
    """The script ``lillux-watch`` of an installation; the exit status."""
    return run_program("lillux-watch", sys.argv[1:])


def _refuse_flags(_: Session) -> int:
    """Refuses our flags before the name: the programs have none of them."""
    raise UsageError(
        "the helper programs take none of the flags that every command takes",
        hint="name the program first: rye lillux-proc --help",
    )


LILLUX_PROC = CommandSpec(
    no_arguments,
    _refuse_flags,
    ["rye lillux-proc --help", "rye lillux-proc exec --cmd echo --arg hi --timeout 10"],
)
LILLUX_WATCH = CommandSpec(
    no_arguments,
    _refuse_flags,
    ["rye lillux-watch --help", "rye lillux-watch --db registry.db --thread-id ID"],
)
