"""Run the node of this checkout: ``python rye_node.py ...`` is what ``python rye-node.pyz ...`` is.

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

from pathlib import Path

from rye import missing_libraries

LIBRARIES = ("fastapi", "mcp", "sqlalchemy", "uvicorn")


def main() -> int:
    """Run the command line on the bundle of the checkout; the exit status."""
    status = missing_libraries(LIBRARIES)
    if status:
        return status

    from lillux.errors import LilluxError
    from packing.checkout import staged_bundle, tool_programs
    from rye_services.operations.cli import main
    from ryeos.app.output import report
    from ryeos.trust.bundles import BundleFolder

    checkout = Path(__file__).resolve().parent
    try:
        bundle = staged_bundle(checkout)
    except LilluxError as error:
        return report(error, as_json=False, environ=os.environ)
    return main(bundle=BundleFolder(bundle, lambda: tool_programs(checkout)))


if __name__ == "__main__":
    sys.exit(main())
