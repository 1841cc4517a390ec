"""Runs a program that is killed right before one of the statements that change a database.

``python killed_at_statement.py STEP PROGRAM ARGUMENT...``: steps count from 1, over all databases
that the program opens; a commit is one too. A program that makes fewer ends by itself.
"""

import os
import runpy
import signal
import sys
from itertools import count
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, event

_CHANGING = ("INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP")


def kill_before(step: int) -> None:
    """Have this process killed right before so many-th change of a database."""
    seen = count(1)

    def note() -> None:
        if next(seen) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def executing(_: Any, __: Any, statement: str, *___: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        if statement.lstrip().upper().startswith(_CHANGING):
            note()

    event.listen(Engine, "before_cursor_execute", executing)
    event.listen(Engine, "commit", lambda _: note())


if __name__ == "__main__":
    _, step, *sys.argv = sys.argv
    sys.path[0] = str(Path(sys.argv[0]).parent)
    kill_before(int(step))
    runpy.run_path(sys.argv[0], run_name="__main__")
