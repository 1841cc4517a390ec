"""Nodes that are forked from a process which has their modules: a third of the CPU of a start.

A file of its own, as that process loads it too: it imports nothing of pytest.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from typing import TextIO

CAN_FORK = "forkserver" in get_all_start_methods()

_LOADED = (
    "rye_node",
    "packing.checkout",
    "rye_services.server",
    "rye_services.node.application",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    __name__,
)


class ForkedProcess:
    """A node as `subprocess.Popen` would start it: what `Node` needs of one."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        context = get_context("forkserver")
        context.set_forkserver_preload(list(_LOADED))
        reading, writing = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_serve, args=(tuple(arguments), dict(environ), writing), daemon=True
        )
        self._process.start()
        writing.close()
        self.stderr: TextIO = open(os.dup(reading.fileno()), encoding="utf-8")  # noqa: PTH123, SIM115
        reading.close()

    @property
    def pid(self) -> int:
        """Its number."""
        assert self._process.pid is not None
        return self._process.pid

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it has not ended."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> int:
        """Its exit status, once it has ended. Raises TimeoutExpired."""
        self._process.join(timeout_s)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("rye_node.py", timeout_s)
        return status


def _serve(arguments: Sequence[str], environ: Mapping[str, str], log: Connection) -> None:
    """Be the process that ``python rye_node.py`` would be, with these arguments."""
    from rye_node import main

    with log, open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path of a folder
        os.dup2(nowhere.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["rye_node.py", *arguments]
    sys.exit(main())
