"""``python -m benchmarks [PYZ] [NAME ...]``: print the table of ratios, of all parts or of some."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import (
    bundle_pull,
    cluster,
    context,
    engine,
    functions,
    graphs,
    grep,
    items,
    mcp,
    programs,
    registry,
    remote,
    sandbox,
    search,
    startup,
    threads,
    trees,
)
from benchmarks.timing import Figure, table

ROOT = Path(__file__).resolve().parents[1]


def parts(pyz: Path, scratch: Path) -> dict[str, Callable[[], Iterator[Figure]]]:
    """Figures that can be measured, in the order of the table."""
    return {
        "startup": lambda: startup.figures(pyz, scratch),
        "engine": lambda: engine.figures(scratch),
        "functions": lambda: functions.figures(scratch),
        "graphs": lambda: graphs.figures(scratch),
        "items": lambda: items.figures(scratch),
        "search": lambda: search.figures(pyz, scratch),
        "grep": lambda: grep.figures(scratch),
        "mcp": lambda: mcp.figures(pyz, scratch),
        "programs": lambda: programs.figures(scratch),
        "trees": lambda: trees.figures(scratch),
        "remote": lambda: remote.figures(pyz, scratch),
        "cluster": lambda: cluster.figures(pyz, scratch),
        "bundle_pull": lambda: bundle_pull.figures(pyz, scratch),
        "registry": lambda: registry.figures(scratch),
        "sandbox": lambda: sandbox.figures(pyz, scratch),
        "context": lambda: context.figures(pyz, scratch),
        "threads": lambda: threads.figures(scratch),
    }


def main(arguments: list[str]) -> int:
    """Print the table; report each measurement on standard error."""
    files = [one for one in arguments if one.endswith(".pyz")]
    wanted = [one for one in arguments if one not in files]
    pyz = Path(files[-1] if files else ROOT / "dist" / "rye.pyz").resolve()
    if not pyz.is_file():
        sys.stderr.write(f"{pyz}: not there; build it with: scripts/build\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="rye-benchmarks-") as folder:
        known = parts(pyz, Path(folder))
        unknown = [name for name in wanted if name not in known]
        if unknown:
            sys.stderr.write(f"{unknown[0]}: expected one of {', '.join(known)}\n")
            return 2
        rows: list[Figure] = []
        for name in [name for name in known if name in wanted or not wanted]:
            sys.stderr.write(f"measuring {name}\n")
            rows += known[name]()
    print(f"python {sys.version.split()[0]}, {os.cpu_count()} cores, {pyz}")
    print(table(rows))
    return 0


sys.exit(main(sys.argv[1:]))
