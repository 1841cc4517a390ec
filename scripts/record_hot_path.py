"""Write ``packing/hot_modules.txt``: what starts of ``dist/rye.pyz``, or of FILE, import.

    build/venv/bin/python build_zipapp.py --host
    build/venv/bin/python scripts/record_hot_path.py [FILE]

Under every CPython of this machine that code is packed for, the one that runs this and that of the
system: modules of the standard library have different names in different versions, and builds of
one version differ too. Read the difference before it is committed: each new line costs every start.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from packing.hot_path import LIST, STARTS, imported, written  # noqa: E402 - of this checkout
from packing.interpreters import interpreters  # noqa: E402 - of this checkout


def main() -> None:
    """Record every command under every interpreter."""
    pyz = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist" / "rye.pyz").resolve()
    others = [Path(sys.base_prefix, "bin", "python3"), Path("/usr/bin/python3")]
    pythons = [*interpreters().values(), *(path for path in others if path.exists())]
    found = {
        name: set().union(*(imported(python, pyz, start) for python in pythons))
        for name, start in STARTS.items()
    }
    LIST.write_text(written(found), "utf-8")
    counted = ", ".join(f"{name}: {len(modules)}" for name, modules in found.items())
    print(f"{LIST.relative_to(ROOT)}: {counted}")  # noqa: T201 - a program


if __name__ == "__main__":
    main()
