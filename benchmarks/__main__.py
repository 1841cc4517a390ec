"""``python -m benchmarks [PYZ]``: print the table of ratios."""

import os
import sys
import tempfile
from pathlib import Path

from benchmarks import (
    bundle_pull,
    engine,
    functions,
    graphs,
    items,
    mcp,
    programs,
    registry,
    remote,
    search,
    startup,
    trees,
)
from benchmarks.timing import table

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Measure everything and print the table."""
    pyz = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist" / "rye.pyz").resolve()
    if not pyz.is_file():
        sys.stderr.write(f"{pyz}: not there; build it with: scripts/build\n")
        return 2
    print(f"python {sys.version.split()[0]}, {os.cpu_count()} cores, {pyz}")
    with tempfile.TemporaryDirectory(prefix="rye-benchmarks-") as folder:
        scratch = Path(folder)
        rows = [
            *startup.figures(pyz, scratch),
            *engine.figures(scratch),
            *functions.figures(scratch),
            *graphs.figures(scratch),
            *items.figures(scratch),
            *search.figures(scratch),
            *mcp.figures(pyz, scratch),
            *programs.figures(scratch),
            *trees.figures(scratch),
            *remote.figures(pyz, scratch),
            *bundle_pull.figures(pyz, scratch),
            *registry.figures(scratch),
        ]
    print(table(rows))
    return 0


sys.exit(main())
