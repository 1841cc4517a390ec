"""Kills a process right before one of the statements that change a database."""

import os
import signal
from itertools import count
from typing import Any

from sqlalchemy import Engine, event

_CHANGING = ("INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP")


def kill_before(step: int) -> None:
    """Have this process killed right before so many-th change of a database.

    Steps count from 1, over all databases that it opens; a commit is one too.
    """
    seen = count(1)

    def note() -> None:
        if next(seen) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    def executing(_: Any, __: Any, statement: str, *___: Any) -> None:  # noqa: ANN401 - SQLAlchemy's
        if statement.lstrip().upper().startswith(_CHANGING):
            note()

    event.listen(Engine, "before_cursor_execute", executing)
    event.listen(Engine, "commit", lambda _: note())
