"""Run this checkout: ``python rye.py ...`` is what ``python rye.pyz ...`` is.

It takes the Python that ``scripts/install`` makes, or any that has the libraries.
"""

import os
import sys

# Before anything else is imported; -I and -E read no such variables.
if __name__ == "__main__" and not sys.flags.ignore_environment:
    if sys.flags.safe_path:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    from zipboot.__main__ import forget_named_folders

    forget_named_folders()  # type: ignore[no-untyped-call]

from collections.abc import Sequence
from importlib.machinery import PathFinder
from pathlib import Path

LIBRARIES = ("dotenv", "nacl", "packaging", "shtab", "tomlkit", "urllib3", "yaml")
NO_LIBRARIES = 78  # EX_CONFIG of sysexits.h: the environment is wrong, not the command


def main() -> int:
    """Run the command line on the bundle of the checkout; the exit status."""
    checkout = Path(__file__).resolve().parent
    status = missing_libraries(LIBRARIES)
    if status:
        return status

    from lillux.errors import LilluxError
    from packing.checkout import staged_bundle, tool_programs
    from ryeos.cli.entry import main
    from ryeos.trust.bundles import BundleFolder

    try:
        bundle = staged_bundle(checkout)
    except LilluxError as error:
        sys.stderr.write(f"error: the bundle of this checkout: {error}\n")
        if error.hint:
            sys.stderr.write(f"  hint: {error.hint}\n")
        return error.exit_status
    return main(bundle=BundleFolder(bundle, lambda: tool_programs(checkout)))


def missing_libraries(names: Sequence[str]) -> int:
    """0 when this Python has the libraries; else the exit status, and a message that names them."""
    missing = [name for name in names if PathFinder.find_spec(name) is None]
    if not missing:
        return 0
    sys.stderr.write(
        f"error: {sys.executable} has no {', '.join(missing)}\n"
        f"  hint: run scripts/install, then build/venv/bin/python {sys.argv[0]}\n"
    )
    return NO_LIBRARIES


if __name__ == "__main__":
    sys.exit(main())
