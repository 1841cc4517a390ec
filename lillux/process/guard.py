"""Ends the programs of a server that is killed before it could do so itself.

`begin_guarding` starts a small process of its own when the first program is started. It reads from
a pipe, which only the server holds, which programs begin and end: when that closes while programs
run, the server is gone, and each of them is killed with all that descends from it or has its mark.
A client that kills the server's process group does not reach it. Linux and macOS.

A file of its own because what starts programs imports it in every run.
"""

import os
import sys
from threading import Lock, Thread
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Runs under the interpreter of the server, without site and without anything of ours.
_WATCHER = """
import os, signal, time
if os.fork():
    os._exit(0)  # so that this is no child of the server
programs, announced, rest = {}, set(), b""
while True:
    try:
        data = os.read(0, 65536)
    except InterruptedError:
        continue
    if not data:
        break
    *lines, rest = (rest + data).split(b"\\n")
    for line in lines:
        pid, _, mark = line[1:].partition(b" ")
        if line[:1] == b"?":
            announced.add(mark)
        elif line[:1] == b"+":
            programs[int(pid)] = mark
            announced.discard(mark)
        else:
            programs.pop(int(pid), None)

def read(pid, name):
    try:
        with open("/proc/%d/%s" % (pid, name), "rb") as file:
            return file.read()
    except OSError:
        return b""

def found():
    parents, targets = {}, set()
    marks = {mark for mark in (*programs.values(), *announced) if mark}
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        pid = int(name)
        fields = read(pid, "stat").rpartition(b")")[2].split()
        if len(fields) < 4 or fields[0] in (b"Z", b"X"):
            continue
        parents[pid] = int(fields[1])
        if {int(fields[2]), int(fields[3]), pid} & known:
            targets.add(pid)
        elif marks and marks & set(read(pid, "environ").split(b"\\0")):
            targets.add(pid)
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in targets} - targets
        targets |= more
        grown = bool(more)
    return targets

known = set(programs)
if not programs and not announced:
    pass
elif not os.path.isdir("/proc/self"):
    for pid in programs:
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            pass
else:
    began = time.monotonic()
    while time.monotonic() < began + 5:
        targets = found()
        if not targets and (not announced or time.monotonic() > began + 0.2):
            break  # one that was only announced may not have begun yet
        known |= targets
        for pid in targets:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.002)
"""


class _Guard:
    """The watching process, and the end of the pipe that it reads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pipe: IO[bytes] | None = None
        self._is_started = False

    def tell(self, line: bytes) -> None:
        with self._lock:
            if not self._is_started:
                self._is_started = True
                self._start()
            if self._pipe is None:
                return
            try:
                self._pipe.write(line)
            except OSError:  # it was killed: the programs end with the server as long as that ends
                self._pipe = None

    def _start(self) -> None:
        import subprocess

        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _WATCHER],
                env={"LILLUX_GUARDS": str(os.getpid())},  # for a person who wonders what it is
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,
            )
        except OSError:
            return  # no more processes: it is a second line of defence
        self._pipe = process.stdin
        Thread(target=process.wait, daemon=True).start()


_guard: _Guard | None = None


def begin_guarding() -> None:
    """Guard all programs that this process starts from now on."""
    global _guard  # noqa: PLW0603 - of the process, as its programs are
    if _guard is None and sys.platform != "win32" and sys.executable:
        _guard = _Guard()


def program_begins(env: "Mapping[str, str]", mark: str) -> None:
    """A program is about to begin. ``mark`` is the variable that all of it has, if it has one."""
    if _guard and mark in env:
        _guard.tell(os.fsencode(f"? {mark}={env[mark]}\n"))


def program_began(pid: int, env: "Mapping[str, str]", mark: str) -> None:
    """A program leads the process group ``pid``."""
    if _guard:
        marked = f"{mark}={env[mark]}" if mark in env else ""
        _guard.tell(os.fsencode(f"+{pid} {marked}\n"))


def program_ends(pid: int) -> None:
    """The number of a program is about to be given back."""
    if _guard:
        _guard.tell(b"-%d\n" % pid)
