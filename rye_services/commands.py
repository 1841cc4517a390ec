"""What the modules of commands share: the form of an answer, columns, and who types a command.

A file of its own because `rye_services.cli` imports every module of commands, and none of them may
import it.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from getpass import getuser
from time import monotonic
from typing import Any

from lillux.values import dataclass

_SAY_EVERY_S = 2.0
Declare = Callable[[str, Any, str], argparse.ArgumentParser]


@dataclass(frozen=True, slots=True)
class CommandAnswer:
    """What a command answers: as JSON, as text; and what it says besides."""

    envelope: Mapping[str, Any]
    text: str
    notes: tuple[str, ...] = ()


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows as lines, each column as wide as its widest cell; ``""`` for no rows.

    What could steer a terminal is escaped: cells have texts that others wrote.
    """
    rows = [[cell if cell.isprintable() else ascii(cell)[1:-1] for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines)


def unix_user() -> str:
    """Who types a command, as the system says; on systems without such users as Python does."""
    try:
        import pwd

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        pass
    try:
        return getuser()
    except (OSError, KeyError, ImportError):  # a number without a name
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


def say_line(line: str) -> None:
    """Write a line to standard error, which is read while a command works."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def progress_of(parsed: argparse.Namespace) -> Callable[[str, int, int], None]:
    """Says on standard error how far long work is, every two seconds."""
    said_s = monotonic()

    def say(what: str, done: int, total: int) -> None:
        nonlocal said_s
        if not parsed.quiet and monotonic() - said_s >= _SAY_EVERY_S:
            said_s = monotonic()
            say_line(f"rye-node: {what}: {done} of {total}")

    return say
