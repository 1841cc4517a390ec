"""``python -m rye_services``: the node, where Rye is installed with its bundle."""

import sys

from rye_services.operations.cli import main

if __name__ == "__main__":
    sys.exit(main())
