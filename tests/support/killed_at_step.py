"""Runs a program that is killed right before one of the changes that it makes below a folder.

``python killed_at_step.py STEP FOLDER PROGRAM ARGUMENT...``: steps count from 1. A program that
makes fewer changes ends by itself. Changes are audit events of the interpreter: files
opened for writing, renamed and removed, folders made and removed. A name without a folder counts
as one below it: the event does not tell the descriptor of the folder that it lies in.
"""

import os
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

_CHANGING = frozenset({"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink"})
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def kill_before(step: int, folder: str) -> None:
    """Have this process killed right before so many-th change below the folder."""
    seen = 0

    def audit(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        if event == "open":
            path, _, flags = arguments
            is_change = isinstance(flags, int) and bool(flags & _WRITING)
        else:
            path, is_change = (arguments or (None,))[0], event in _CHANGING
        is_name = isinstance(path, str | Path) and not Path(path).is_absolute()
        if is_change and (is_name or str(path).startswith(folder)):
            seen += 1
            if seen == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(audit)


if __name__ == "__main__":
    _, step, folder, *sys.argv = sys.argv
    kill_before(int(step), folder)
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
