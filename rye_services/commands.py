"""What the modules of commands share: the form of an answer, columns, and who types a command.

A file of its own because `rye_services.cli` imports every module of commands, and none of them may
import it.
"""

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from getpass import getuser
from typing import Any

from lillux.values import dataclass

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
