"""Cost of a command of the built file from start to end, under every Python it has code for."""

import marshal
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from zipfile import ZipFile

from benchmarks.timing import Figure, elapsed_ms, medians
from packing.interpreters import MINORS, interpreters

ROUNDS = 25
FIRST_RUNS = 5
MEGABYTE, MEBIBYTE_IN_KIB = 1_000_000, 1024

# A parent smaller than what it measures: a child begins with the peak of its parent.
_PEAK = """
import posix, sys
child = posix.posix_spawn(sys.argv[1], sys.argv[1:], posix.environ,
                          file_actions=[(posix.POSIX_SPAWN_OPEN, 1, "/dev/null", 1, 0)])
print(posix.wait4(child, 0)[2].ru_maxrss)
"""


def figures(pyz: Path, scratch: Path) -> Iterator[Figure]:
    """Rows for each Python that the file has code for, then those for the file."""
    packed = ZipFile(pyz).namelist()
    with ZipFile(scratch / "empty.pyz", "w") as archive:
        archive.writestr("__main__.py", "")
    for minor, python in interpreters().items():
        if f"_rye/cpython-3{minor}.bin" not in packed:
            continue
        yield from _figures_under(python.resolve(), f"3.{minor}", pyz, scratch)
    yield _size(pyz)


def _figures_under(python: Path, version: str, pyz: Path, scratch: Path) -> Iterator[Figure]:
    """Rows for ``version`` and for ``run`` of a shell tool, the first run included."""
    home = scratch / f"home-{version}"
    home.mkdir()
    # `-I -S`: start-up hooks of the machine's Python would make every floor look high.
    clean = [str(python), "-I", "-S"]
    env = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    hello = [*clean, str(pyz), "run", "rye/bash/bash", "command=echo hi"]
    bash = shutil.which("bash", path=env["PATH"]) or "bash"
    first = [_first_run(hello, env, home / f"first-{number}") for number in range(FIRST_RUNS)]
    found = medians(
        {
            "python": _spawned([*clean, "-c", "pass"], env),
            "bash": _spawned([bash, "-c", "true"], env),
            "empty": _spawned([*clean, str(scratch / "empty.pyz")], env),
            "version": _spawned([*clean, str(pyz), "version"], env),
            "run": _spawned(hello, env),
        },
        ROUNDS,
    )
    both, run = found["python"] + found["bash"], found["run"]
    yield Figure(
        f"version, {version}", found["version"], "an empty zip file", found["empty"], "at most 1.15"
    )
    yield Figure(f"run of a shell tool, {version}", run, "python and bash", both, "at most 3.5")
    yield Figure(
        f"first run, {version}", statistics.median(first), "a later run", run, "at most 1.5"
    )
    if sys.platform == "linux":
        version_mib = _peak_mib([*clean, str(pyz), "version"], env)
        floor_mib = _peak_mib([*clean, "-c", "pass"], env)
        wanted = "at most +3 MiB"
        yield Figure(f"memory, {version}", version_mib, "python -c pass", floor_mib, wanted, "MiB")


def _size(pyz: Path) -> Figure:
    """The row for the file itself."""
    with ZipFile(pyz) as archive:
        index = marshal.loads(archive.read("_rye/common.idx"))  # noqa: S302 - our own archive
    is_fat = len(index["natives"]) > len(MINORS)
    floor = ("14 MB, all platforms", 14.0) if is_fat else ("6 MB, one platform", 6.0)
    return Figure("file", pyz.stat().st_size / MEGABYTE, *floor, "at most 1.00", "MB")


def _first_run(argv: Sequence[str], env: Mapping[str, str], home: Path) -> float:
    """The time of a first run in a new home. Earlier homes stay: no first run follows a removal.

    ext4 passes over inodes that were freed just now one by one, and so it makes files several
    times slower where hundreds were removed.
    """
    home.mkdir()
    return elapsed_ms(_spawned(argv, {**env, "HOME": str(home)}))


def _spawned(argv: Sequence[str], env: Mapping[str, str]) -> Callable[[], object]:
    """An action that runs a program to its end, with less overhead than `subprocess`."""
    null = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)

    def run() -> None:
        child = os.posix_spawn(argv[0], list(argv), env, file_actions=[null])
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            raise RuntimeError(f"status {status}: {argv}")

    return run


def _peak_mib(argv: Sequence[str], env: Mapping[str, str]) -> float:
    """The largest resident memory of a program."""
    measure = [argv[0], "-I", "-S", "-c", _PEAK, *argv]
    ended = subprocess.run(
        measure, env=dict(env), capture_output=True, text=True, encoding="utf-8", check=True
    )
    return int(ended.stdout) / MEBIBYTE_IN_KIB
