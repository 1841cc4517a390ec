"""Looking at a project that is to be sent: the first time, and when nothing changed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

from benchmarks.timing import Figure, medians
from ryeos.sync.rules import ManifestRules, rules_of
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree import build_project_tree

FILES = 10_000
FILE_BYTES = 4096
ROUNDS = 7
_LONG_AGO = 1_500_000_000.5
_MIB = 1024 * 1024

# In a process of its own. The kernel counts this peak from the start of the program; that of
# `getrusage` is from before, and so at least as much as ours.
_PEAK = """
import sys
from pathlib import Path
from ryeos.sync.rules import rules_of
from ryeos.sync.stat_table import StatTable
from ryeos.sync.tree import build_project_tree
rules = rules_of([("benchmark", {"sync": {"include": ["src/"]}})])
if sys.argv[2] == "build":
    tree = build_project_tree(Path(sys.argv[1]), rules, StatTable())
status = Path("/proc/self/status").read_text("utf-8")
print(status.partition("VmHWM:")[2].split()[0])
"""


def figures(scratch: Path) -> Iterator[Figure]:
    """Rows for 10,000 files of 40 MB, half of them items."""
    project, table_file = scratch / "tree", scratch / "tree-table.json"
    write_project(project)
    rules = rules_of([("benchmark", {"sync": {"include": ["src/"]}})])
    _warm(project, rules, table_file)
    found = medians(
        {
            "hash": lambda: _hash_all(project),
            "list": lambda: _list_all(project),
            "cold": lambda: build_project_tree(project, rules, StatTable()),
            "warm": lambda: _warm(project, rules, table_file),
        },
        ROUNDS,
    )
    yield Figure("manifest cold", found["cold"], "hashing them", found["hash"], "at most 1 s")
    yield Figure("manifest warm", found["warm"], "listing them", found["list"], "at most 0.2 s")
    if sys.platform == "linux":
        base, peak = (_peak_mib(project, what) for what in ("nothing", "build"))
        yield Figure("manifest, memory", peak, "its modules", base, "+48 MiB", unit="MiB")


def write_project(project: Path) -> None:
    """Files of other content each, their times long past."""
    random = Random(1)  # noqa: S311 - test data
    for number in range(FILES):
        folder = project / (".ai/tools" if number % 2 else "src") / f"folder{number % 100}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"file{number}.py"
        path.write_bytes(random.randbytes(FILE_BYTES // 2).hex().encode("ascii"))
        os.utime(path, (_LONG_AGO, _LONG_AGO))


def _warm(project: Path, rules: ManifestRules, table_file: Path) -> None:
    table = StatTable(table_file)
    table.load()
    build_project_tree(project, rules, table)
    table.save()


def _hash_all(project: Path) -> None:
    for folder, _, names in os.walk(project):
        for name in names:
            sha256(Path(folder, name).read_bytes()).hexdigest()


def _list_all(project: Path) -> None:
    for folder, _, names in os.walk(project):
        for name in names:
            os.stat(f"{folder}/{name}")  # noqa: PTH116 - the floor is the system's, not pathlib's


def _peak_mib(project: Path, what: str) -> float:
    run = subprocess.run(
        [sys.executable, "-c", _PEAK, str(project), what],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    return int(run.stdout) * 1024 / _MIB
