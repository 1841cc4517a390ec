"""What a command of the built file costs from start to end."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Figure, elapsed_ms, medians, process

ROUNDS = 25
FIRST_RUNS = 5


def figures(pyz: Path, scratch: Path) -> Iterator[Figure]:
    """Rows for ``version`` and for ``run`` of a shell tool, the first run included."""
    home = scratch / "home"
    home.mkdir()
    # `-I -S`: start-up hooks of the machine's Python would make every floor look high.
    python = [sys.executable, "-I", "-S"]
    env = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin"}
    hello: list[str | Path] = [*python, pyz, "run", "rye/bash/bash", "command=echo hi"]
    first = [_first_run(hello, env, home) for _ in range(FIRST_RUNS)]
    found = medians(
        {
            "python": process([*python, "-c", "pass"], env=env, cwd=scratch),
            "bash": process(["bash", "-c", "true"], env=env, cwd=scratch),
            "version": process([*python, pyz, "version"], env=env, cwd=scratch),
            "run": process(hello, env=env, cwd=scratch),
        },
        ROUNDS,
    )
    both = found["python"] + found["bash"]
    yield Figure("version", found["version"], "python -c pass", found["python"])
    yield Figure("run of a shell tool", found["run"], "python and bash", both, "at most 100 ms")
    yield Figure("first run", sorted(first)[FIRST_RUNS // 2], "a later run", found["run"])


def _first_run(argv: list[str | Path], env: dict[str, str], home: Path) -> float:
    shutil.rmtree(home)
    home.mkdir()
    return elapsed_ms(process(argv, env=env, cwd=home))
