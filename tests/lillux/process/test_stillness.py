"""A process that is stopped between two pieces of work, with nothing beside it that could act."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lillux.process.stillness import Stoppable, can_stop, children_of, maps_files, shared_files
from tests.support.endings import wait_until

pytestmark = pytest.mark.skipif(not can_stop(), reason="this system holds no process still")

PRELUDE = """
import _thread, ctypes, mmap, os, sys, threading, time
file = sys.argv[1]
def mapped(rights=mmap.PROT_READ | mmap.PROT_WRITE, flags=mmap.MAP_SHARED, mode=os.O_RDWR):
    global kept
    kept = mmap.mmap(os.open(file, mode), 4096, flags, rights)
"""


@contextmanager
def running(code: str, file: Path) -> Iterator[Stoppable]:
    """A process that has run the code and waits for its input."""
    words = [sys.executable, "-I", "-c", f"{PRELUDE}{code}\nprint(flush=True)\ninput()", str(file)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        held = Stoppable(process.pid)
        try:
            yield held
        finally:
            for child in children_of(process.pid):
                os.kill(child, 9)
            held.close()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(bytes(4096))
    return path


LEFT = {
    "a thread": "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
    "a thread that threading does not know": "_thread.start_new_thread(time.sleep, (60,))",
    "a child": "if os.fork() == 0: time.sleep(60)",
    "a child in a session of its own": "if os.fork() == 0: os.setsid(); time.sleep(60)",
    "a file in its memory": "mapped()",
    "one that it protects at the moment": "mapped(mmap.PROT_READ)",
    "one without a name": "mapped(); os.unlink(file)",
}
HARMLESS = {
    "nothing": "",
    "memory of its own": "kept = bytearray(1 << 24)",
    "memory that it would share": "kept = mmap.mmap(-1, 4096)",
    "memory without a name": "kept = mmap.mmap(os.memfd_create('x'), 0) if 0 else"
    " mmap.mmap((f := os.memfd_create('x'), os.truncate(f, 4096))[0], 4096)",
    "a file that it reads": "mapped(mmap.PROT_READ, mode=os.O_RDONLY)",
    "a copy of a file": "mapped(flags=mmap.MAP_PRIVATE)",
}


@pytest.mark.parametrize("what", LEFT)
def test_a_process_with_what_could_act_beside_it_is_not_still(what: str, file: Path) -> None:
    with running(LEFT[what], file) as process:
        assert not process.stop()


@pytest.mark.parametrize("what", HARMLESS)
def test_a_process_by_itself_stands_still_until_it_may_go_on(what: str, file: Path) -> None:
    with running(HARMLESS[what], file) as process:
        assert process.stop()
        stat = Path(f"/proc/{process.pid}/stat")
        wait_until(lambda: stat.read_bytes().rpartition(b")")[2].split()[0] == b"T")
        process.go_on()
        assert process.stop()


def test_a_file_that_the_parent_has_mapped_is_harmless(file: Path) -> None:
    with running("mapped()", file) as process:
        assert maps_files(process.pid)
        assert not maps_files(process.pid, shared_files(process.pid))


def test_a_process_that_has_ended_is_still() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        held = Stoppable(process.pid)
        process.kill()
        process.wait()
        assert held.stop()
        held.close()
