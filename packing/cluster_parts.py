"""Parts of a local cluster: each a process that can be ended, stopped, started again."""

import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Condition, Thread
from typing import IO, Protocol

ROOT = Path(__file__).resolve().parent.parent
READY_S, END_S = 60.0, 60.0
_KEPT = ("PATH", "HOME", "LANG", "TMPDIR", "SHIV_ROOT", "RYE_CACHE_DIR")


class ClusterError(Exception):
    """A part of the cluster does not start."""


class PartProcess(Protocol):
    """Process of a part: `subprocess.Popen` has it."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def stderr(self) -> IO[str] | None:
        """Its error stream."""

    def poll(self) -> int | None:
        """Its exit status, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit status, once it has ended. Raises TimeoutExpired."""

    def send_signal(self, sig: int) -> None:
        """Send it a signal, if it has not ended."""

    def kill(self) -> None:
        """End it as a power cut does."""


Begin = Callable[[Sequence[str], Mapping[str, str]], PartProcess]


def begin_process(words: Sequence[str], environ: Mapping[str, str]) -> PartProcess:
    """Start a program with these variables; what it says is read from ``stderr``."""
    return subprocess.Popen(
        words,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
    )


class Part:
    """One process of the cluster, which can be ended, killed, stopped and started again."""

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        environ: Mapping[str, str],
        log: Path,
        begin: Begin,
    ) -> None:
        self.name, self.log = name, log
        self.port = 0
        self._words, self._environ, self._begin = words, environ, begin
        self._process: PartProcess | None = None
        self._changed = Condition()

    @property
    def is_running(self) -> bool:
        """True if its process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The number of its process."""
        assert self._process is not None  # noqa: S101 - it was started
        return self._process.pid

    @property
    def url(self) -> str:
        """Address that it answers at."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, on the port that it had before; `wait_until_ready` waits for it."""
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        words = [*self._words, "--port", str(self.port)]
        self._process = self._begin(words, {**kept, **self._environ})
        self._is_ready = False
        Thread(target=self._read, args=(self._process,), daemon=True).start()

    def wait_until_ready(self, timeout_s: float = READY_S) -> None:
        """Wait until it answers. Raises ClusterError with the end of its log."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_ready or not self.is_running, timeout_s)
            if self._is_ready:
                return
        tail = "\n".join(self.log.read_text("utf-8", "replace").splitlines()[-15:])
        raise ClusterError(f"{self.name} does not answer within {timeout_s:g} s:\n{tail}")

    def send_signal(self, number: int) -> None:
        """Send its process a signal."""
        os.kill(self.pid, number)

    def end(self, number: int = signal.SIGTERM, timeout_s: float = END_S) -> int | None:
        """Ask it to end, and wait; its exit status, None where it was not running."""
        if self._process is None:
            return None
        with suppress(ProcessLookupError):
            self._process.send_signal(number)
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = END_S) -> int | None:
        """Wait for its end, and kill it after that time; its exit status."""
        if self._process is None:
            return None
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(timeout_s)

    def kill(self) -> None:
        """End it as a power cut does."""
        self.end(signal.SIGKILL)

    def _read(self, process: PartProcess) -> None:
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        with process.stderr as lines, self.log.open("a", encoding="utf-8") as log:
            for line in lines:
                log.write(line)
                log.flush()
                if "ready on http://" in line:
                    with self._changed:
                        self.port = int(line.split("ready on ")[1].split()[0].rpartition(":")[2])
                        self._is_ready = True
                        self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
