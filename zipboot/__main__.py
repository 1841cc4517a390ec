"""The first thing that runs in rye.pyz. Every Python since 2.7 can parse it, to say what is wrong.

No annotations, no f-strings, no imports but `sys` above the gate.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - the point of this file
    sys.stderr.write(
        "rye: needs Python 3.11 or newer, this is Python "
        + sys.version.split()[0]
        + " ("
        + str(sys.executable)
        + ")\n"
    )
    sys.exit(78)  # EX_CONFIG of sysexits.h: the surroundings are wrong, not the command

from zipboot.start import start

sys.exit(start())
