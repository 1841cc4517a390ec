"""Stands between a client and a server on pipes, and records every line.

``mcp_recorder.py FOLDER COMMAND...``; one file for each process, named by its id, of lines
``["client" or "server", LINE]`` in their order.
"""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO


class Recorder:
    """Copies lines from pipe to pipe; each line is recorded before it is passed on."""

    def __init__(self, record: Path) -> None:
        self._record = record.open("ab", buffering=0)
        self._lock = threading.Lock()

    def copy(self, sender: str, source: IO[bytes], target: IO[bytes]) -> None:
        """Copy until the source ends, or the target is closed."""
        try:
            for line in iter(source.readline, b""):
                entry = json.dumps([sender, line.decode("utf-8", "backslashreplace")])
                with self._lock:
                    self._record.write(entry.encode() + b"\n")
                target.write(line)
                target.flush()
            target.close()
        except OSError:
            return


def main(folder: str, *command: str) -> None:
    """Run the server until both sides are done."""
    recorder = Recorder(Path(folder) / f"{os.getpid()}.jsonl")
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        arguments = ("client", sys.stdin.buffer, server.stdin)
        threading.Thread(target=recorder.copy, args=arguments, daemon=True).start()
        recorder.copy("server", server.stdout, sys.stdout.buffer)
    os._exit(server.returncode)  # the other thread may still wait for a line


if __name__ == "__main__":
    main(*sys.argv[1:])
