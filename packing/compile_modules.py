"""Run by each target interpreter: compile modules to marshalled code, the same in every run.

Reads JSON ``[[file, file name in tracebacks], ...]`` from standard input, writes marshalled
``[magic number, code, ...]`` to standard output. Alone in a fresh process with
``PYTHONHASHSEED=0``: what ``marshal`` writes depends on reference counts and on the order of
frozen sets.
"""

import json
import marshal
import sys
from importlib.util import MAGIC_NUMBER


def main() -> None:
    """Compile what standard input names."""
    compiled = [MAGIC_NUMBER]
    for path, shown in json.load(sys.stdin):
        with open(path, "rb") as file:  # noqa: PTH123 - as little as possible is loaded here
            code = compile(file.read(), shown, "exec", dont_inherit=True, optimize=0)
        # Once more through marshal: what is shared no longer depends on who else holds it.
        compiled.append(marshal.dumps(marshal.loads(marshal.dumps(code))))  # noqa: S302 - our own
    sys.stdout.buffer.write(marshal.dumps(compiled, 2))  # readable by every version


main()
