"""How both programs answer: one line of JSON, or a usage error."""

import json
import sys
from collections.abc import Mapping
from typing import Any

DONE, USAGE_ERROR = 0, 2


def answer(values: Mapping[str, Any]) -> None:
    """Write one JSON object and a newline to standard output, as UTF-8 whatever the locale."""
    line = json.dumps(values, ensure_ascii=False, separators=(",", ":")) + "\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(line.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def show_help(usage: str) -> int:
    """Write the usage to standard output; the exit status."""
    sys.stdout.write(usage)
    return DONE


def refuse(program: str, problem: str, usage: str) -> int:
    """Write what is wrong with the command line to standard error; the exit status."""
    sys.stderr.write(f"{program}: {problem}\n{usage}")
    return USAGE_ERROR
