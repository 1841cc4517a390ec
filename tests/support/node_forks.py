"""Nodes and their commands, forked from a process that has their modules: a third of the CPU.

A file of its own, as that process loads it too: it imports nothing of pytest.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from multiprocessing.context import ForkServerContext  # Windows has none

CAN_FORK = "forkserver" in get_all_start_methods()

_LOADED = (
    "rye_node",
    "packing.checkout",
    "rye_services.process.server",
    "rye_services.node.application",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    __name__,
)


class ForkedProcess:
    """A forked node with the methods of `subprocess.Popen` that `Node` uses."""

    def __init__(self, arguments: Sequence[str], environ: Mapping[str, str]) -> None:
        context = _context()
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

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended. Raises TimeoutExpired."""
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("rye_node.py", timeout or 0.0)
        return status

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)


def run_forked(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    timeout_s: float,
    first: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command as `subprocess.run` would. Raises TimeoutExpired, and kills it then.

    ``first``, which pickle takes, is called in its process before it begins.
    """
    context = _context()
    with TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        process = context.Process(
            target=_run_into_files,
            args=(tuple(arguments), dict(environ), *map(str, outputs), first),
            daemon=True,
        )
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired("rye_node.py", timeout_s)
        stdout, stderr = (path.read_text("utf-8") for path in outputs)
        return subprocess.CompletedProcess(arguments, process.exitcode, stdout, stderr)


def _context() -> "ForkServerContext":
    context = get_context("forkserver")
    context.set_forkserver_preload(list(_LOADED))
    return context


def _serve(arguments: Sequence[str], environ: Mapping[str, str], log: Connection) -> None:
    with log, open(os.devnull, "wb") as nowhere:  # noqa: PTH123 - no path of a folder
        _run(arguments, environ, nowhere.fileno(), log.fileno())


def _run_into_files(
    arguments: Sequence[str],
    environ: Mapping[str, str],
    stdout: str,
    stderr: str,
    first: Callable[[], None] | None,
) -> None:
    if first is not None:
        first()
    with open(stdout, "wb") as answer, open(stderr, "wb") as problems:  # noqa: PTH123 - texts
        _run(arguments, environ, answer.fileno(), problems.fileno())


def _run(arguments: Sequence[str], environ: Mapping[str, str], stdout: int, stderr: int) -> None:
    """Act as the process of ``python rye_node.py`` with these arguments."""
    from rye_node import main

    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["rye_node.py", *arguments]
    sys.exit(main())
